"""Seeds × examples: what score to expect of a setting, and how two settings differ, on other examples with other seeds.

s seeds, e examples; … are studies, of which there is one unless they are simulated. Y[s, e] is the value of example e
in the run of seed s: right or wrong, a loss, or what the example contributes to a metric that is not a mean. Of one
setting there are three spreads: s² over the means of its runs, q² over examples of the mean over seeds, and r², what
seed and example do together. Each of the first two holds some of the third, so that

    V = max(vS + vE − vR, vS, vE)    with vS = s²/S, vE = q²/E, vR = r²/(S·E)

is the variance of the mean, and Satterthwaite's ν = V² / (vS²/(S − 1) + vE²/(E − 1)) its degrees of freedom. A
difference has the seeds' terms of both settings, and one of the examples, which both share. A setting in which no seed
plays a part has no terms of seeds.

Two or three seeds may agree by chance. So up to three, s² is no less than that of all settings of the study together,
with the degrees of freedom of whichever it is. If no other setting has seeds, nothing better than their own is known,
and up to five seeds ν is taken more carefully: 1/ν is the sum of the terms' 1/ν weighted by their shares of V, not by
the squares of these, and with two seeds by a power of ¾. How often all this holds is in benchmarks/coverage.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from heedful.evaluation.metrics import Bounds

Floats = npt.NDArray[np.float64]
FEW = 3
"""Up to so many seeds, their own spread is no less than that of the study's settings together."""
FEW_ALONE = 5
"""Up to so many seeds, ν is taken with care if no other setting has any."""
_SQUARES = 2.0


@dataclass(frozen=True)
class SeedsByExamples:
    """What the runs of one setting got on the same examples."""

    values: Floats
    """(…, s, e): the mean of a line is the score of a run."""
    random: bool = True
    """Whether a seed plays a part. One run of a setting that is random says nothing of other seeds."""

    def __post_init__(self) -> None:
        if self.values.ndim < 2 or 0 in self.values.shape[-2:]:
            raise ValueError(f"values are (seeds, examples), not {self.values.shape}")

    @property
    def seeds(self) -> int:
        return int(self.values.shape[-2])

    @property
    def examples(self) -> int:
        return int(self.values.shape[-1])

    @property
    def seeds_count(self) -> bool:
        """Whether the spread over seeds is known, and a part of what may change."""
        return self.random and self.seeds > 1

    @cached_property
    def scores(self) -> Floats:
        """(…, s): of each run."""
        return np.asarray(self.values.mean(axis=-1), dtype=np.float64)

    @cached_property
    def mean_e(self) -> Floats:
        """(…, e): over the seeds."""
        return np.asarray(self.values.mean(axis=-2), dtype=np.float64)

    @cached_property
    def score(self) -> Floats:
        """(…): over seeds and examples."""
        return np.asarray(self.mean_e.mean(axis=-1), dtype=np.float64)

    @cached_property
    def between(self) -> Floats:
        """(…): s², 0 where seeds do not count."""
        return self.scores.var(axis=-1, ddof=1) if self.seeds_count else np.zeros_like(self.score)

    @cached_property
    def residual(self) -> Floats:
        """(…): r², 0 where seeds do not count."""
        if not self.seeds_count or self.examples < 2:
            return np.zeros_like(self.score)
        rest = self.values - self.mean_e[..., None, :] - (self.scores - self.score[..., None])[..., None]
        squares = np.einsum("...se,...se->...", rest, rest)
        return np.asarray(squares / ((self.seeds - 1) * (self.examples - 1)), dtype=np.float64)


@dataclass(frozen=True)
class Spread:
    """The variance s² of a study's settings together, and its degrees of freedom."""

    between: Floats
    freedom: int
    settings: int
    """How many of them have seeds."""


def pooled(settings: Sequence[SeedsByExamples]) -> Spread | None:
    """That of the settings with several seeds, if seeds play a part in them; None if there is no such setting."""
    counted = [x for x in settings if x.seeds_count]
    freedom = sum(x.seeds - 1 for x in counted)
    if not freedom:
        return None
    return Spread(np.asarray(sum((x.seeds - 1) * x.between for x in counted) / freedom), freedom, len(counted))


@dataclass(frozen=True)
class Variance:
    """V of a mean or a difference, with its degrees of freedom ν."""

    v: Floats
    freedom: Floats
    of_seeds: Floats
    """vS."""

    def half(self, level: float) -> Floats:
        """Half the width of the interval at this level."""
        return np.asarray(special.stdtrit(self.freedom, (1 + level) / 2) * np.sqrt(self.v), dtype=np.float64)


def variance(
    seed_terms: Sequence[tuple[Any, Any]], of_examples: Any, of_both: Any, examples: Any, power: float = _SQUARES
) -> Variance:
    """V and ν from (vS, its degrees of freedom) of each setting, vE, and vR of all settings. The terms' 1/ν have the
    weights of their shares to this power."""
    of_seeds = sum((np.asarray(v, dtype=np.float64) for v, _ in seed_terms), np.zeros_like(of_examples))
    v = np.maximum(np.maximum(of_seeds + of_examples - of_both, of_seeds), of_examples)
    largest = np.where(v > 0, v, 1.0)  # ratios, so that no square of a small variance vanishes
    below = (of_examples / largest) ** power / np.maximum(examples - 1, 1)
    below = below + sum((np.asarray(term) / largest) ** power / freedom for term, freedom in seed_terms)
    freedom = np.maximum(1.0, np.where(v > 0, 1.0 / np.where(below > 0, below, 1.0), 1.0))
    return Variance(v, freedom, of_seeds)


def variance_of_score(x: SeedsByExamples, together: Spread | None = None) -> Variance:
    """`together`: the spread of the study's settings, by `pooled`."""
    of_examples = x.mean_e.var(axis=-1, ddof=1) / x.examples if x.examples > 1 else np.zeros_like(x.score)
    return _variance([x], of_examples, together)


def variance_of_difference(a: SeedsByExamples, b: SeedsByExamples, together: Spread | None = None) -> Variance:
    if a.examples != b.examples:
        raise ValueError(f"settings are compared on the same examples, not on {a.examples} and {b.examples}")
    of_examples = (a.mean_e - b.mean_e).var(axis=-1, ddof=1) / a.examples if a.examples > 1 else np.zeros_like(a.score)
    return _variance([a, b], of_examples, together)


def _variance(settings: Sequence[SeedsByExamples], of_examples: Floats, together: Spread | None) -> Variance:
    counted, terms = [x for x in settings if x.seeds_count], []
    for x in counted:
        between, freedom = x.between, np.asarray(x.seeds - 1, dtype=np.float64)
        if together is not None and x.seeds <= FEW:
            larger = together.between > between
            between = np.where(larger, together.between, between)
            freedom = np.where(larger, together.freedom, freedom)
        terms.append((between / x.seeds, freedom))
    of_both = sum((x.residual / (x.seeds * x.examples) for x in counted), np.zeros_like(of_examples))
    power = _SQUARES
    if len(counted) == 1 and counted[0].seeds <= FEW_ALONE and (together is None or together.settings == 1):
        power = 0.75 if counted[0].seeds == 2 else 1.0
    return variance(terms, of_examples, of_both, settings[0].examples, power)


def p_value(difference: Floats, of: Variance) -> Floats:
    """Two-sided; 1 if nothing varies and nothing differs."""
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(of.v > 0, np.abs(difference) / np.sqrt(of.v), np.where(difference == 0, 0.0, np.inf))
    return np.asarray(2 * special.stdtr(of.freedom, -t), dtype=np.float64)


def p_of_difference(a: SeedsByExamples, b: SeedsByExamples, together: Spread | None = None) -> Floats:
    """Where the two differ by the same on every example, with every seed, nothing varies that a difference could be
    held against, and it is the chance that so many coins fall alike."""
    of = variance_of_difference(a, b, together)
    difference = a.score - b.score
    coins = np.minimum(1.0, 2.0 ** (1.0 - a.examples))
    return np.where((of.v > 0) | (difference == 0), p_value(difference, of), coins)


def half_of_difference(of: Variance, examples: int, level: float, bounds: Bounds) -> Floats:
    """Half the width of its interval. Where nothing varies, the examples are counted, as in `within`: so many could
    differ at most if none has been seen to. Of a metric without two ends nothing is known of that."""
    low, high = bounds
    half = of.half(level)
    if low is None or high is None:
        return half
    none_seen = float(special.chdtri(1, 1 - level)) / examples
    return np.where(of.v > 0, half, (high - low) * none_seen / (1 + none_seen))


def within(score: Floats, half: Floats, bounds: Bounds, examples: int, level: float) -> tuple[Floats, Floats]:
    """The interval score ± half, bent so that it stays within the metric's bounds: the score form for what lies between
    two ends, Fisher's z for correlations, cut off where there is one end."""
    low, high = bounds
    score = np.asarray(score, dtype=np.float64)
    if low is None or high is None:
        return (
            np.maximum(score - half, -np.inf if low is None else low),
            np.minimum(score + half, np.inf if high is None else high),
        )
    if (low, high) == (-1.0, 1.0):
        inside = np.abs(score) < 1
        middle = np.arctanh(np.where(inside, score, 0.0))
        with np.errstate(over="ignore"):
            reach = half / (1 - np.where(inside, score, 0.0) ** 2)
        bent = np.tanh(middle - reach), np.tanh(middle + reach)
        at_end = _score_form((1 + score) / 2, half / 2, examples, level)
        return np.where(inside, bent[0], 2 * at_end[0] - 1), np.where(inside, bent[1], 2 * at_end[1] - 1)
    width = high - low
    from_zero = _score_form((score - low) / width, half / width, examples, level)
    return low + width * from_zero[0], low + width * from_zero[1]


def _score_form(share: Floats, half: Floats, examples: int, level: float) -> tuple[Floats, Floats]:
    """As Wilson's (1927): what the share would have to be for the one seen to lie at the edge of its interval. Where
    all examples are right, or all wrong, nothing varies, and the examples are counted instead."""
    spread = share * (1 - share)
    inside = spread > 0
    none_seen = float(special.chdtri(1, 1 - level)) / examples
    a = np.where(inside, half**2 / np.where(inside, spread, 1.0), none_seen)
    middle, reach = share + a / 2, np.sqrt(a * np.where(inside, spread, 0.0) + a**2 / 4)
    low, high = (middle - reach) / (1 + a), (middle + reach) / (1 + a)
    return np.clip(np.minimum(low, share), 0.0, 1.0), np.clip(np.maximum(high, share), 0.0, 1.0)
