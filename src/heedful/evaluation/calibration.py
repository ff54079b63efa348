"""Temperature scaling (Guo et al., 2017): one number, fitted on dev, that makes confidence match accuracy."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from heedful.errors import WorkError
from heedful.evaluation.metrics import Floats, Ints
from heedful.evaluation.scores import calibration_error, log_loss, reliability

BOUNDS = (0.05, 20.0)
"""A temperature beyond these says that dev is too small or the logits are broken, not that confidence is so far off."""


def fit_temperature(logits: npt.ArrayLike, gold: Sequence[int] | Ints) -> float:
    """The T in `BOUNDS` for which softmax(logits / T) has the least log-loss.

    Where every example is right, the log-loss falls without end as T goes to 0 and says nothing: T is 1 then.
    """
    from scipy.optimize import minimize_scalar
    from scipy.special import logsumexp

    logits_nc, gold_n = _checked(logits, gold)
    own_n = logits_nc[np.arange(len(gold_n)), gold_n]
    if (own_n == logits_nc.max(axis=1)).all():
        return 1.0

    def loss(log_t: float) -> float:
        """Unlike `log_loss` it is nowhere clipped, so that it has one minimum and no flat stretch."""
        z_nc = (logits_nc - own_n[:, None]) / np.exp(log_t)
        return float(logsumexp(z_nc, axis=1).mean())

    minimum = minimize_scalar(
        loss,
        bounds=(float(np.log(BOUNDS[0])), float(np.log(BOUNDS[1]))),
        method="bounded",
        options={"xatol": 1e-5},
    )
    return float(np.exp(minimum.x))


def apply(logits: npt.ArrayLike, temperature: float = 1.0) -> Floats:
    """softmax(logits / T), (n, c)."""
    logits_nc = np.asarray(logits, dtype=np.float64)
    z_nc = (logits_nc - logits_nc.max(axis=1, keepdims=True)) / temperature
    e_nc = np.exp(z_nc)
    return np.asarray(e_nc / e_nc.sum(axis=1, keepdims=True), dtype=np.float64)


def before_and_after(calibrated: npt.ArrayLike, gold: Sequence[int] | Ints, temperature: float) -> dict[str, Any]:
    """Expected calibration error and log-loss of logits that were divided by the temperature, before that and now."""
    logits_nc, gold_n = _checked(calibrated, gold)
    scores: dict[str, Any] = {"temperature": float(temperature)}
    for name, t in (("before", 1 / temperature), ("after", 1.0)):
        p_nc = apply(logits_nc, t)
        bins = reliability(p_nc.max(axis=1), p_nc.argmax(axis=1) == gold_n)
        scores[name] = {"ece": calibration_error(bins), "log_loss": log_loss(gold_n, p_nc)}
    return scores


def _checked(logits: npt.ArrayLike, gold: Sequence[int] | Ints) -> tuple[Floats, Ints]:
    logits_nc, gold_n = np.asarray(logits, dtype=np.float64), np.asarray(gold, dtype=np.int64)
    if logits_nc.ndim != 2 or len(logits_nc) != len(gold_n) or not len(gold_n):
        raise ValueError(
            f"logits are {logits_nc.shape}, gold labels {gold_n.shape}: they must be (n, c) and (n,), n > 0"
        )
    if not np.isfinite(logits_nc).all():
        raise WorkError("the logits to calibrate are not all finite.")
    return logits_nc, gold_n
