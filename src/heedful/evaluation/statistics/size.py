"""How large a difference is beside the spread of the seeds, and p values that allow for many comparisons."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special


@dataclass(frozen=True)
class Effect:
    difference: float
    g: float
    """Hedges' g: the difference in pooled standard deviations, corrected for small n. ±∞ if nothing varies."""
    superiority: float
    """The probability that a random seed of A beats a random seed of B, ties by half."""
    sentence: str


def effect_size(a: Sequence[float], b: Sequence[float]) -> Effect:
    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    n, m = len(x), len(y)
    if min(n, m) < 2:
        raise ValueError("an effect size needs at least two seeds of each")
    difference, df = float(x.mean() - y.mean()), n + m - 2
    pooled = math.sqrt(((n - 1) * x.var(ddof=1) + (m - 1) * y.var(ddof=1)) / df)
    correction = math.exp(special.gammaln(df / 2) - special.gammaln((df - 1) / 2)) / math.sqrt(df / 2)
    g = correction * difference / pooled if pooled > 0 else math.copysign(math.inf, difference) if difference else 0.0
    beats = float((x[:, None] > y).mean() + 0.5 * (x[:, None] == y).mean())
    size = abs(g)
    words = "negligible" if size < 0.2 else "small" if size < 0.5 else "medium" if size < 0.8 else "large"
    large = f"{size:.1f} standard deviations of a seed" if math.isfinite(g) else "far beyond the spread of the seeds"
    sentence = f"The difference is {large} (Hedges' g, by custom {words}); "
    sentence += f"a run of A beats a run of B in {beats:.0%} of pairs."
    return Effect(difference, g, beats, sentence)


def holm(ps: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Holm's step-down correction over the last axis: adjusted p values, in their order, that can all be compared with
    one level."""
    p = np.asarray(ps, dtype=np.float64)
    order = np.argsort(p, axis=-1, kind="stable")
    left = np.arange(p.shape[-1], 0, -1)
    sorted_p = np.minimum(1.0, np.maximum.accumulate(left * np.take_along_axis(p, order, -1), axis=-1))
    adjusted = np.empty_like(p)
    np.put_along_axis(adjusted, order, sorted_p, -1)
    return adjusted


def correct_together(tests: Sequence[dict[str, Any]]) -> None:
    """Gives tests that stand together a `p_corrected` by Holm's correction, and `tests`, how many were corrected for:
    those that have a `p`."""
    tested = [test for test in tests if test["p"] is not None]
    for test in tests:
        test["p_corrected"], test["tests"] = None, len(tested)
    for test, p in zip(tested, holm([test["p"] for test in tested]) if tested else (), strict=True):
        test["p_corrected"] = float(p)
