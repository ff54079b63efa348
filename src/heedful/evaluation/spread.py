"""Spread is part of a number: a mean never travels without its deviation, its n and its interval."""

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Any

CONFIDENCE = 0.95


def summarise(values: Sequence[float]) -> dict[str, Any]:
    """Mean, standard deviation (ddof = 1), n, and Student's t interval [low, high] of the mean at `CONFIDENCE`.

    One value has no deviation and no interval, none has no mean either: None, not zero.
    """
    kept = [float(v) for v in values]
    if not all(math.isfinite(v) for v in kept):
        raise ValueError(f"only finite values can be summarised, not {kept}")
    n = len(kept)
    found: dict[str, Any] = {"mean": None, "std": None, "n": n, "low": None, "high": None, "values": kept}
    if n:
        found["mean"] = fmean(kept)
    if n > 1:
        from scipy.special import stdtrit

        found["std"] = stdev(kept)
        half = float(stdtrit(n - 1, (1 + CONFIDENCE) / 2)) * found["std"] / math.sqrt(n)
        found["low"], found["high"] = found["mean"] - half, found["mean"] + half
    return found
