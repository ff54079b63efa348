"""A mean over seeds is always reported with its standard deviation and its n."""

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Any


def summarise(values: Sequence[float]) -> dict[str, Any]:
    """Mean, standard deviation (ddof = 1), n, and the values themselves.

    One value has no deviation, none has no mean either: None, not zero.
    """
    numbers = [float(v) for v in values]
    if not all(math.isfinite(v) for v in numbers):
        raise ValueError(f"only finite values can be summarised, not {numbers}")
    n = len(numbers)
    mean, std = fmean(numbers) if n else None, stdev(numbers) if n > 1 else None
    return {"mean": mean, "std": std, "n": n, "values": numbers}
