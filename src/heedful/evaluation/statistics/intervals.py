"""Where the mean over all seeds may lie, from the few that were run."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from heedful.evaluation.spread import summarise

DRAWS = 10_000


@dataclass(frozen=True)
class Interval:
    mean: float
    std: float | None
    n: int
    low: float | None
    high: float | None
    level: float
    sentence: str


def t_interval(values: Sequence[float], level: float = 0.95) -> Interval:
    """Student's: exact for values from a normal distribution, at any n."""
    summary = summarise(values)
    mean, std, n = summary["mean"], summary["std"], summary["n"]
    if n == 0:
        raise ValueError("an interval needs at least one value")
    if std is None:
        sentence = f"{mean:.3f} from one seed: it says nothing about how much another would differ."
        return Interval(mean, None, n, None, None, level, sentence)
    half = float(special.stdtrit(n - 1, (1 + level) / 2)) * std / math.sqrt(n)
    sentence = (
        f"{mean:.3f} ± {std:.3f} over {n} seeds; the mean over all seeds lies between {mean - half:.3f} and "
        f"{mean + half:.3f} ({level:.0%} t interval)."
    )
    return Interval(mean, std, n, mean - half, mean + half, level, sentence)


def bootstrap_interval(values: Sequence[float], level: float = 0.95, draws: int = DRAWS, seed: int = 0) -> Interval:
    """The percentile bootstrap of the mean: no assumption about the distribution, but too narrow when n is small."""
    x_n = np.asarray(values, dtype=np.float64)
    plain = t_interval(values, level)
    if plain.std is None:
        return plain
    means = x_n[np.random.default_rng(seed).integers(plain.n, size=(draws, plain.n))].mean(axis=1)
    low, high = (float(q) for q in np.quantile(means, [(1 - level) / 2, (1 + level) / 2]))
    sentence = (
        f"{plain.mean:.3f} ± {plain.std:.3f} over {plain.n} seeds; {level:.0%} bootstrap interval {low:.3f} to "
        f"{high:.3f}."
    )
    expected = small_sample_coverage(plain.n)
    if expected is not None and level == 0.95:
        sentence += (
            f" With {plain.n} seeds such an interval holds the true mean in about {expected:.0%} of studies, not "
            f"{level:.0%}: trust the t interval instead."
        )
    return Interval(plain.mean, plain.std, plain.n, low, high, level, sentence)


def small_sample_coverage(n: int) -> float | None:
    """What a 95 % percentile bootstrap interval of n normal values really covers; None from n = 30 on.

    Its half width is about 1.96 · s · √((n−1)/n) / √n, where Student's t wants the quantile of n − 1 degrees.
    """
    if n >= 30:
        return None
    reach = special.ndtri(0.975) * math.sqrt((n - 1) / n)
    return float(2 * special.stdtr(n - 1, reach) - 1)
