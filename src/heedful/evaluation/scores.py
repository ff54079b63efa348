"""The scores of one set of predictions, as plain numbers that JSON can hold.

n examples, c classes; gold_n, predicted_n, p_nc. What is undefined (a correlation with a constant) is None and says
why under "undefined"; nothing here is ever NaN, infinite or a warning.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from heedful.errors import RequestError, WorkError
from heedful.evaluation.metrics import Floats, Ints, centred, log_losses, ranks

BINS = 15
"""Equal-width bins of confidence for the calibration error, the number of Guo et al., 2017."""


def score_classes(gold: Sequence[int] | Ints, probabilities: npt.ArrayLike, labels: Sequence[str]) -> dict[str, Any]:
    """Accuracy, F1, Matthews, log-loss, calibration, per-class figures and confusions of n classifications.

    The predicted class is the likeliest, the first of equals. `f1` is there with two classes alone, and is that of the
    second. `macro_f1` averages over the classes that occur in the gold labels or the predictions.
    """
    p_nc, gold_n = _checked(gold, probabilities, labels)
    n, c = p_nc.shape
    predicted_n = p_nc.argmax(axis=1)
    confusion_cc = np.bincount(gold_n * c + predicted_n, minlength=c * c).reshape(c, c)
    per_class = _per_class(confusion_cc)
    occurs = (confusion_cc.sum(axis=0) + confusion_cc.sum(axis=1)) > 0
    bins = reliability(p_nc.max(axis=1), predicted_n == gold_n)
    scores: dict[str, Any] = {
        "n": n,
        "accuracy": float((predicted_n == gold_n).mean()),
        "macro_f1": float(np.mean([one["f1"] for one, there in zip(per_class, occurs, strict=True) if there])),
        "matthews": matthews(confusion_cc),
        "log_loss": log_loss(gold_n, p_nc),
        "ece": calibration_error(bins),
        "bins": bins,
        "per_class": dict(zip(labels, per_class, strict=True)),
        "confusion": confusion_cc.tolist(),
    }
    if c == 2:
        scores["f1"] = per_class[1]["f1"]
    return scores


def score_numbers(gold: npt.ArrayLike, predicted: npt.ArrayLike) -> dict[str, Any]:
    """Pearson, Spearman, mean squared and mean absolute error of n predicted numbers."""
    gold_n, predicted_n = np.asarray(gold, dtype=np.float64), np.asarray(predicted, dtype=np.float64)
    if gold_n.ndim != 1 or gold_n.shape != predicted_n.shape:
        raise ValueError(f"gold {gold_n.shape} and predicted {predicted_n.shape} must be two lists of one length")
    if not len(gold_n):
        raise RequestError("there are no examples to score.")
    _refuse_non_finite(gold_n[:, None], "gold numbers")
    _refuse_non_finite(predicted_n[:, None], "predictions")
    with np.errstate(over="ignore"):
        off = predicted_n - gold_n
        mse, mae = np.mean(off**2), np.mean(np.abs(off))
    scores: dict[str, Any] = {
        "n": len(gold_n),
        "pearson": correlation(gold_n, predicted_n),
        "spearman": correlation(ranks(gold_n), ranks(predicted_n)),
        "mse": float(mse) if math.isfinite(mse) else None,
        "mae": float(mae) if math.isfinite(mae) else None,
    }
    undefined = {}
    for name in ("pearson", "spearman"):
        if scores[name] is None:
            undefined[name] = _why_no_correlation(gold_n, predicted_n)
    for name in ("mse", "mae"):
        if scores[name] is None:
            undefined[name] = "the errors are too large to be averaged"
    if undefined:
        scores["undefined"] = undefined
    return scores


def matthews(confusion_cc: npt.NDArray[np.integer]) -> float:
    """Gorodkin's R_K (2004), which is the phi coefficient for two classes; 0 where one side is constant."""
    m = [[int(x) for x in row] for row in confusion_cc]  # Python's integers do not overflow
    gold, predicted = [sum(row) for row in m], [sum(column) for column in zip(*m, strict=True)]
    n, right = sum(gold), sum(m[k][k] for k in range(len(m)))
    together = right * n - sum(g * p for g, p in zip(gold, predicted, strict=True))
    apart = (n * n - sum(g * g for g in gold)) * (n * n - sum(p * p for p in predicted))
    return together / math.sqrt(apart) if apart else 0.0


def log_loss(gold_n: Ints, p_nc: Floats) -> float:
    """Mean −log p of the gold class."""
    return float(log_losses(gold_n, p_nc).mean())


def reliability(confidence_n: Floats, right_n: npt.NDArray[np.bool_], bins: int = BINS) -> list[dict[str, Any]]:
    """Each bin (low, high] of confidence: how many predictions, their mean confidence, the share that is right."""
    which_n = bin_of(confidence_n, bins)
    counts = np.bincount(which_n, minlength=bins)
    confident = np.bincount(which_n, weights=confidence_n, minlength=bins)
    right = np.bincount(which_n, weights=right_n.astype(np.float64), minlength=bins)
    return [
        {
            "low": b / bins,
            "high": (b + 1) / bins,
            "n": int(k),
            "confidence": float(confident[b] / k) if k else None,
            "accuracy": float(right[b] / k) if k else None,
        }
        for b, k in enumerate(counts)
    ]


def bin_of(confidence: Floats, bins: int = BINS) -> Ints:
    """The number of the bin (low, high] that each confidence falls into, from 0."""
    return np.clip(np.ceil(confidence * bins).astype(np.int64) - 1, 0, bins - 1)


def calibration_error(bins: list[dict[str, Any]]) -> float:
    """The expected calibration error: |accuracy − confidence| of each bin, weighted by its share of examples."""
    n = sum(b["n"] for b in bins)
    return float(sum(b["n"] * abs(b["accuracy"] - b["confidence"]) for b in bins if b["n"]) / n)


def correlation(x_n: Floats, y_n: Floats) -> float | None:
    """Pearson's; None where it is undefined."""
    if len(x_n) < 2 or x_n.min() == x_n.max() or y_n.min() == y_n.max():
        return None
    x_n, y_n = centred(x_n), centred(y_n)
    if not x_n.any() or not y_n.any():
        return None
    return float(np.clip(x_n / np.linalg.norm(x_n) @ (y_n / np.linalg.norm(y_n)), -1.0, 1.0))


def _why_no_correlation(gold_n: Floats, predicted_n: Floats) -> str:
    if len(gold_n) < 2:
        return "one example has no correlation"
    return "the predictions are all equal" if gold_n.min() != gold_n.max() else "the gold numbers are all equal"


def _per_class(confusion_cc: npt.NDArray[np.integer]) -> list[dict[str, Any]]:
    classes = []
    for k in range(len(confusion_cc)):
        hit, support, claimed = (int(x) for x in (confusion_cc[k, k], confusion_cc[k].sum(), confusion_cc[:, k].sum()))
        classes.append(
            {
                "precision": hit / claimed if claimed else 0.0,
                "recall": hit / support if support else 0.0,
                "f1": 2 * hit / (claimed + support) if claimed + support else 0.0,
                "support": support,
            }
        )
    return classes


def _checked(gold: Sequence[int] | Ints, probabilities: npt.ArrayLike, labels: Sequence[str]) -> tuple[Floats, Ints]:
    p_nc, gold_n = np.asarray(probabilities, dtype=np.float64), np.asarray(gold, dtype=np.int64)
    if not gold_n.size:
        raise RequestError("there are no examples to score.")
    if p_nc.shape != (len(gold_n), len(labels)):
        raise ValueError(f"probabilities are {p_nc.shape}, which is not ({len(gold_n)} examples, {len(labels)} labels)")
    if len(set(labels)) != len(labels):
        raise ValueError("two classes have one name")
    _refuse_non_finite(p_nc, "probabilities")
    if gold_n.min() < 0 or gold_n.max() >= len(labels):
        raise ValueError(f"gold labels must be 0 … {len(labels) - 1}, not {gold_n.min()} … {gold_n.max()}")
    if p_nc.min() < -1e-6 or np.abs(p_nc.sum(axis=1) - 1).max() > 1e-3:
        raise ValueError("each row of probabilities must be at least 0 and sum to 1")
    return p_nc, gold_n


def _refuse_non_finite(x_nc: Floats, what: str) -> None:
    bad = np.flatnonzero(~np.isfinite(x_nc).all(axis=1))
    if len(bad):
        raise WorkError(f"the {what} of {len(bad)} of {len(x_nc)} examples are not finite, first in row {bad[0]}.")
