"""How many more? The difference that a study could show, and the seeds and examples that would show a smaller one.

What varies is taken apart (see `crossed`): σ_D² over examples of the difference itself, σ_k² over the seeds of setting
k, r_k² of both together. With S seeds of each and E examples the variance of a difference will be

    V(S, E) = Σ σ_k²/S + Σ r_k²/(S·E) + σ_D²/E,

and the test finds δ = (t(1 − α/2m) + t(0.8))·√V in four studies of five, if m pairs are compared. With unlimited seeds,
σ_D²/E is left: below that floor only more examples help.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from heedful.evaluation.statistics.crossed import SeedsByExamples, Variance, variance
from heedful.evaluation.statistics.wording import Words

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
POWER = 0.8
WANTED = (0.01, 0.02, 0.05)
"""Differences that people ask for; of a metric without an upper end, shares of the score."""
SURE = 5
"""From so many seeds on, the power that is promised is about what comes true."""
_SAVING = 0.75  # what seeds and examples together must cost of either alone to be worth a word
_MOST_SEEDS, _MOST_TOGETHER, _MOST_ROWS = 200, 20, 1_000_000


@dataclass(frozen=True)
class Components:
    """What a difference varies by, each once."""

    of_seeds: tuple[Floats, ...]
    """σ_k² of each setting in which seeds count."""
    of_both: tuple[Floats, ...]
    """r_k² of the same."""
    of_examples: Floats
    """σ_D²."""


@dataclass(frozen=True)
class Need:
    difference: float
    seeds_alone: int | None
    """So many seeds of each on these examples; None: more seeds alone cannot."""
    rows_alone: int | None
    """So many examples with these seeds; None: more examples alone cannot."""
    seeds: int | None
    rows: int | None
    """The cheapest of both together, if twice the seeds cost as much as twice the examples."""
    sentence: str


@dataclass(frozen=True)
class Visible:
    difference: float | None
    """What this study would show in four of five cases; None where nothing says so (one seed, equal answers), or
    where it would be more than there can be."""
    rough: bool
    """Whether there are too few seeds to say it well."""
    floor: float | None
    """The same with unlimited seeds on these examples."""
    needs: list[Need]
    sentence: str


def components(a: SeedsByExamples, b: SeedsByExamples) -> Components:
    counted = [x for x in (a, b) if x.seeds_count]
    seen = (a.mean_e - b.mean_e).var(axis=-1, ddof=1)
    return Components(
        tuple(np.maximum(0.0, x.between - x.residual / x.examples) for x in counted),
        tuple(x.residual for x in counted),
        np.asarray(np.maximum(0.0, seen - sum(x.residual / x.seeds for x in counted))),
    )


def planned_variance(c: Components, seeds: Sequence[Any], examples: Any) -> Variance:
    """V(S, E) and its ν, with so many seeds of each setting in which they count: numbers, or arrays of them."""
    terms = [
        ((of_seeds + of_both / examples) / n, np.maximum(np.asarray(n) - 1, 1))
        for of_seeds, of_both, n in zip(c.of_seeds, c.of_both, seeds, strict=True)
    ]
    both = sum((r / n for r, n in zip(c.of_both, seeds, strict=True)), np.zeros_like(c.of_examples))
    return variance(terms, (c.of_examples + both) / examples, both / examples, examples)


def visible_difference(
    c: Components, seeds: Sequence[Any], examples: Any, pairs: int = 1, alpha: float = 0.05
) -> Floats:
    """δ of such a study."""
    planned = planned_variance(c, seeds, examples)
    critical = special.stdtrit(planned.freedom, 1 - alpha / 2 / pairs) + special.stdtrit(planned.freedom, POWER)
    return np.asarray(critical * np.sqrt(planned.v), dtype=np.float64)


def floor(c: Components, examples: int, pairs: int = 1, alpha: float = 0.05) -> Floats:
    """δ with unlimited seeds."""
    return visible_difference(Components((), (), c.of_examples), (), examples, pairs, alpha)


def how_many_more(
    a: SeedsByExamples,
    b: SeedsByExamples,
    words: Words,
    wanted: Sequence[float] = WANTED,
    pairs: int = 1,
    alpha: float = 0.05,
    shown: bool = False,
) -> Visible:
    """`shown`: whether this study has shown the difference of the two."""
    rough = any(x.random and x.seeds < SURE for x in (a, b))
    if any(x.random and x.seeds == 1 for x in (a, b)):
        return Visible(None, True, None, [], "One seed says nothing of others: run at least two, better five, of each.")
    if a.examples < 2:
        return Visible(None, rough, None, [], "One example says nothing of others: label more.")
    c = components(a, b)
    counts = [x.seeds for x in (a, b) if x.seeds_count]
    now = float(visible_difference(c, counts, a.examples, pairs, alpha))
    if now == 0:
        how = "scored the same" if float(a.score) == float(b.score) else "differ by the same"
        same = f"The two {how} on every example, so that nothing says how small a difference could be shown."
        return Visible(None, rough, None, [], same)
    needs = _needs(c, counts, a.examples, wanted, pairs, alpha, words)
    low, high = words.metric.bounds
    if low is not None and high is not None and now > high - low:
        what = f"any difference of {words.metric.title} between the two"
        small = f"This study is too small to show {what}."
        if shown:
            small = f"This study has shown this difference, and is too small to be sure to show {what}."
        return Visible(None, rough, None, needs, small)
    sentence = f"This study could show differences from about {words.rough(now)}"
    sentence += " (a rough figure, from fewer than five seeds)" if rough else ""
    smaller = shown and abs(float(a.score - b.score)) < now
    sentence += "; this one, which is smaller, it has shown all the same." if smaller else "."
    return Visible(now, rough, float(floor(c, a.examples, pairs, alpha)), needs, sentence)


def _needs(
    c: Components, counts: Sequence[int], examples: int, wanted: Sequence[float], pairs: int, alpha: float, words: Words
) -> list[Need]:
    now = min(counts, default=1)

    def reach(seeds_n: Ints, rows: Any) -> Floats:
        """With no fewer seeds of any setting than there are."""
        return visible_difference(c, [np.maximum(seeds_n, n) for n in counts], rows, pairs, alpha)

    more_n = np.arange(now, _MOST_SEEDS + 1)
    with_seeds_n = np.broadcast_to(reach(more_n, examples), more_n.shape)
    some_n = more_n[: max(1, _MOST_TOGETHER - now + 1)] if counts else more_n[:1]
    low, high = (np.full((len(wanted), len(some_n)), rows) for rows in (examples, _MOST_ROWS))
    wanted_w = np.asarray(wanted, dtype=np.float64)[:, None]
    possible = reach(some_n, high) <= wanted_w
    while (high - low > 1).any():
        middle = (low + high) // 2
        enough = reach(some_n, middle) <= wanted_w
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    needs = []
    for w, small in enumerate(wanted):
        if with_seeds_n[0] <= small:
            words_of_it = f"A difference of {words.rough(small)} is within the reach of this study."
            needs.append(Need(small, now if counts else None, examples, now, examples, words_of_it))
            continue
        seeds_alone = next((int(n) for n, d in zip(more_n, with_seeds_n, strict=True) if d <= small and counts), None)
        rows_n = [_about(int(rows)) if can else None for rows, can in zip(high[w], possible[w], strict=True)]
        if seeds_alone is not None:
            rows_n[seeds_alone - now :] = [examples] * len(rows_n[seeds_alone - now :])
        offers = [(n * rows, int(n), rows) for n, rows in zip(some_n, rows_n, strict=True) if rows is not None]
        _, seeds, rows = min(offers, default=(0, None, None))
        alone = [n * r for n, r in ((seeds_alone, examples), (now, rows_n[0])) if n is not None and r is not None]
        worth = seeds is not None and rows is not None and seeds * rows < _SAVING * min(alone, default=np.inf)
        together = (seeds, rows) if worth else None
        sentence = _say(words.rough(small), bool(counts), seeds_alone, rows_n[0], together, words)
        needs.append(Need(small, seeds_alone, rows_n[0], seeds, rows, sentence))
    return needs


def _say(
    small: str, random: bool, seeds_alone: int | None, rows_alone: int | None,
    together: tuple[int | None, int | None] | None, words: Words,
) -> str:  # fmt: skip
    """In one sentence what would show it."""
    ways = []
    if seeds_alone is not None:
        ways.append(f"{seeds_alone} seeds of each")
    if rows_alone is not None:
        ways.append(f"about {words.examples(rows_alone)}")
    if together is not None and together[1] is not None:
        ways.append(f"{together[0]} seeds of each with about {words.examples(together[1])}")
    if not ways:
        seeds = f"{_MOST_TOGETHER} seeds of each and " if random else ""
        return f"A difference of {small} is out of reach: {seeds}{words.examples(_MOST_ROWS)} would not show it."
    cannot = ""
    if seeds_alone is None and random:
        cannot = "; more seeds alone cannot" if rows_alone is not None else "; neither seeds nor examples alone can"
    elif rows_alone is None:
        cannot = "; more examples alone cannot"
    return f"To show a difference of {small} you need {', or '.join(ways)}{cannot}."


def _about(rows: int) -> int:
    """Two digits, rounded up: nobody labels 1,387 examples."""
    step = int(10 ** max(0, math.floor(math.log10(rows)) - 1))
    return math.ceil(rows / step) * step
