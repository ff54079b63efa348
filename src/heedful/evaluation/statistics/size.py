"""How large a difference is, and how large it would have to be for so few seeds to show it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize, special


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


@dataclass(frozen=True)
class Detectable:
    difference: float
    power: float
    sentence: str


def smallest_difference(
    std: float, n: int, m: int | None = None, alpha: float = 0.05, power: float = 0.8
) -> Detectable:
    """What the two-sided t test of n against m seeds finds with this power, if a seed's standard deviation is `std`."""
    m = n if m is None else m
    if min(n, m) < 2:
        raise ValueError("a test over seeds needs at least two of each")
    df, root = n + m - 2, math.sqrt(n * m / (n + m))
    critical = float(special.stdtrit(df, 1 - alpha / 2))

    def lacking(effect: float) -> float:
        shift = effect * root  # the chance of the wrong side is left out: below 0.001 at any power worth having
        return float(special.nctdtr(df, shift, critical)) - (1 - power)

    highest = 1 / root
    while lacking(highest) > 0:
        highest *= 2
    effect = float(optimize.brentq(lacking, 0, highest))
    difference = effect * std
    sentence = (
        f"With {n} and {m} seeds and a spread of {std:.3f}, a true difference of {difference:.3f} would be found in "
        f"{power:.0%} of studies; smaller ones mostly would not."
    )
    return Detectable(difference, power, sentence)


def holm(ps: Sequence[float]) -> list[float]:
    """Holm's step-down correction: adjusted p values, in their order, that can all be compared with one level."""
    order = sorted(range(len(ps)), key=lambda i: ps[i])
    adjusted, highest = [0.0] * len(ps), 0.0
    for rank, i in enumerate(order):
        highest = max(highest, min(1.0, (len(ps) - rank) * ps[i]))
        adjusted[i] = highest
    return adjusted
