"""A mean is always reported with its standard deviation, its n and its interval."""

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Any

CONFIDENCE = 0.95


def summarise(values: Sequence[float]) -> dict[str, Any]:
    """Mean, standard deviation (ddof = 1), n, and Student's t interval [low, high] of the mean at `CONFIDENCE`.

    One value has no deviation and no interval, none has no mean either: None, not zero.
    """
    numbers = [float(v) for v in values]
    if not all(math.isfinite(v) for v in numbers):
        raise ValueError(f"only finite values can be summarised, not {numbers}")
    n = len(numbers)
    summary: dict[str, Any] = {"mean": None, "std": None, "n": n, "low": None, "high": None, "values": numbers}
    if n:
        summary["mean"] = fmean(numbers)
    if n > 1:
        from scipy.special import stdtrit

        summary["std"] = stdev(numbers)
        half = float(stdtrit(n - 1, (1 + CONFIDENCE) / 2)) * summary["std"] / math.sqrt(n)
        summary["low"], summary["high"] = summary["mean"] - half, summary["mean"] + half
    return summary
