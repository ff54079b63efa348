"""Settings compared pair by pair, over seeds × examples: all pairs, corrected for how many they are.

    found = compare_all({"frozen": SeedsByExamples(values_se), …}, metric, chosen="frozen")

gives a `Comparison` of each pair, those with the chosen setting first and it as their `a`. One that has two seeds or
more of each setting (or settings in which no seed plays a part) has a p; Holm's correction is over all that have one,
since dev, by which the chosen setting was chosen, has been looked at with the same runs.

A study that adds seeds until it is decided looks several times. At the j-th look, starting at 1:

    found = compare_all(values, metric, chosen, alpha=alpha_of_look(j), difference=0.02, most_seeds=20)
    open_ones = [c for c in found if chosen in (c.a, c.b) and c.decided == "open"]
    go_on = any(c.more_seeds_can_decide for c in open_ones)

A pair is decided if it is shown to be different, or alike: its whole interval lies within ± `difference`. The levels of
all looks together are α: Σ α/(j(j + 1)) = α.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from heedful.evaluation.metrics import Metric
from heedful.evaluation.statistics.crossed import (
    SeedsByExamples,
    Spread,
    half_of_difference,
    p_of_difference,
    pooled,
    variance_of_difference,
    variance_of_score,
    within,
)
from heedful.evaluation.statistics.more import WANTED, Visible, components, how_many_more, planned_variance
from heedful.evaluation.statistics.order import almost_stochastic_order
from heedful.evaluation.statistics.size import effect_size, holm
from heedful.evaluation.statistics.wording import Words, p_text, percent, rounded

Floats = npt.NDArray[np.float64]
Decided = Literal["different", "alike", "open"]
ALPHA = 0.05
DIFFERENCE = 0.02
"""Settings that differ by less are alike, unless one says otherwise: a share of the most that the metric can be; of one
without an upper end, of the score."""
ENOUGH_SEEDS = 10
"""From so many seeds of both on, the order of their scores and the size of an effect can be believed."""
_UNLIMITED = 200
_ALL_LISTED = 12
"""Up to so many settings all pairs are listed, else those with the chosen one; they are corrected for all."""


@dataclass(frozen=True)
class Expected:
    """The score to expect of a setting on other examples, and with other seeds where these play a part."""

    mean: float
    low: float | None
    high: float | None
    level: float
    std: float | None
    """Over seeds, on these examples."""
    about: str
    sentence: str


@dataclass(frozen=True)
class Comparison:
    a: str
    b: str
    difference: float
    """Score of a minus score of b, in the metric's own units and direction."""
    low: float | None
    high: float | None
    """Its interval at the level 1 − alpha, of this pair alone."""
    p: float | None
    p_corrected: float | None
    better: Literal["a", "b"] | None
    """Who is ahead, if that is shown."""
    decided: Decided
    about: str
    pairs: int
    """How many comparisons are allowed for."""
    more_seeds_can_decide: bool
    sentence: str
    visible: Visible


@dataclass(frozen=True)
class _Asked:
    words: Words
    alpha: float
    difference: float
    most_seeds: int | None
    pairs: int
    """How many are corrected for."""
    wanted: Sequence[float]
    together: Spread | None


def alpha_of_look(look: int, alpha: float = ALPHA) -> float:
    """The level of the j-th look, so that all looks together keep theirs."""
    if look < 1:
        raise ValueError("looks are counted from 1")
    return alpha / (look * (look + 1))


def expected_score(
    x: SeedsByExamples, words: Words, together: Spread | None = None, level: float = 1 - ALPHA
) -> Expected:
    """`together`: the spread over seeds of all settings of a study, by `crossed.pooled`."""
    mean, about = float(x.score), _about(x)
    std = float(np.std(x.scores, ddof=1)) if x.seeds_count else None
    low = high = None
    if x.examples > 1:
        half = variance_of_score(x, together).half(level)
        low, high = (float(v) for v in within(x.score, half, words.metric.bounds, x.examples, level))
    seeds = f"{x.seeds} seeds" if x.seeds > 1 else "one seed" if x.random else "no seed plays a part"
    between = "" if low is None or high is None else f"{percent(level)}: {words.figure(low)} to {words.figure(high)}; "
    facts = f"{words.a_score} of {words.figure(mean)} ({between}{seeds}, {words.examples(x.examples)})"
    start = {
        "seeds and examples": "On other such examples and with other seeds expect",
        "examples": "On other such examples expect",
        "this run": "Of this very run on other such examples expect",
    }[about]
    sentence = f"{start} {facts}."
    if about == "this run":
        sentence = f"{sentence[:-1]}; another seed may do better or worse."
    return Expected(mean, low, high, level, std, about, sentence)


def compare_all(
    values: Mapping[str, SeedsByExamples],
    metric: Metric,
    chosen: str,
    alpha: float = ALPHA,
    difference: float | None = None,
    most_seeds: int | None = None,
    where: str = "test",
    floors: Collection[str] = (),
) -> list[Comparison]:
    """See above. `difference` makes two settings alike, by default DIFFERENCE; `most_seeds`: how many seeds of a
    setting there may ever be; `where`: the name of the set that judges.

    `floors` are compared with the chosen setting only, last, and are not among the pairs that are corrected for:
    whatever is said of the chosen setting supposes that it beats each of them, so each test may have the whole level.
    """
    names = [chosen, *(name for name in values if name != chosen and name not in floors)]
    pairs, adjusted = corrected([values[name] for name in names])
    listed = [i for i, (a, _) in enumerate(pairs) if len(names) <= _ALL_LISTED or a == 0]
    tested = int(np.isfinite(adjusted).sum())
    low, high = metric.bounds
    unit = high if low is not None and high is not None else abs(float(values[chosen].score)) or 1.0
    alike = rounded(DIFFERENCE * unit) if difference is None else difference
    wanted, together = [w * unit for w in WANTED], pooled(list(values.values()))
    asked, found = _Asked(Words(metric, where), alpha, alike, most_seeds, tested, wanted, together), []
    for i in listed:
        a, b = (names[k] for k in pairs[i])
        p = float(adjusted[i]) if np.isfinite(adjusted[i]) else None
        found.append(_compare((a, b), values[a], values[b], p, asked))
    for floor in (name for name in values if name in floors):
        x, y = values[chosen], values[floor]
        p = None if _about(x, y) == "this run" else float(p_of_difference(x, y, together))
        found.append(_compare((chosen, floor), x, y, p, replace(asked, pairs=1)))
    return found


def corrected(settings: Sequence[SeedsByExamples]) -> tuple[list[tuple[int, int]], Floats]:
    """Every pair of settings by their places, and its p by Holm's correction (…, pairs); NaN for a pair with a setting
    of one seed, which has none."""
    together, pairs, ps = pooled(settings), [], []
    for i, a in enumerate(settings):
        for j in range(i + 1, len(settings)):
            pairs.append((i, j))
            ps.append(p_of_difference(a, settings[j], together))
    adjusted = np.full((*settings[0].score.shape, len(pairs)), np.nan)
    tested = [n for n, (i, j) in enumerate(pairs) if "this run" not in (_about(settings[i]), _about(settings[j]))]
    if tested:
        adjusted[..., tested] = holm(np.stack([ps[n] for n in tested], axis=-1))
    return pairs, adjusted


def decide(difference: Any, half: Any, p_corrected: Any, alpha: float, alike: float) -> npt.NDArray[np.str_]:
    """ "different" if that is shown, "alike" if the interval lies within ± `alike`, else "open"."""
    different = np.asarray(p_corrected) <= alpha
    return np.where(different, "different", np.where(np.abs(difference) + half <= alike, "alike", "open"))


def facts_of_many_seeds(a: SeedsByExamples, b: SeedsByExamples, sign: int) -> dict[str, Any]:
    """What only ten seeds of each, or more, can say: the order of their scores, and the size of the effect."""
    if not (a.seeds_count and b.seeds_count and min(a.seeds, b.seeds) >= ENOUGH_SEEDS):
        return {}
    a_s, b_s = ((sign * x.scores).tolist() for x in (a, b))
    effect = asdict(effect_size(a_s, b_s))
    effect["g"] = effect["g"] if np.isfinite(effect["g"]) else None
    return {"order": asdict(almost_stochastic_order(a_s, b_s)), "effect": effect}


def _about(*settings: SeedsByExamples) -> str:
    if any(x.random and x.seeds == 1 for x in settings):
        return "this run"
    return "seeds and examples" if any(x.random for x in settings) else "examples"


def _compare(
    names: tuple[str, str], a: SeedsByExamples, b: SeedsByExamples, p_corrected: float | None, asked: _Asked
) -> Comparison:
    about, difference = _about(a, b), float(a.score - b.score)
    low = high = p = None
    better: Literal["a", "b"] | None = None
    decided: Decided = "open"
    half = np.inf
    if a.examples > 1:
        of = variance_of_difference(a, b, asked.together)
        half = float(half_of_difference(of, a.examples, 1 - asked.alpha, asked.words.metric.bounds))
        least, most = asked.words.metric.bounds
        width = np.inf if least is None or most is None else most - least
        low, high = max(difference - half, -width), min(difference + half, width)
    if p_corrected is not None and a.examples > 1:
        p = float(p_of_difference(a, b, asked.together))
        decided = cast(Decided, str(decide(difference, half, p_corrected, asked.alpha, asked.difference)))
        if decided == "different":
            better = "a" if asked.words.metric.better(difference, 0) else "b"
    return Comparison(
        *names, difference, low, high, p, p_corrected, better, decided, about, asked.pairs,
        decided == "open" and more_seeds_can_decide(a, b, asked.alpha, asked.difference, asked.pairs, asked.most_seeds),
        _say(names, difference, low, high, p_corrected, better, decided, about, asked),
        how_many_more(a, b, asked.words, asked.wanted, max(asked.pairs, 1), asked.alpha, shown=better is not None),
    )  # fmt: skip


def more_seeds_can_decide(
    a: SeedsByExamples, b: SeedsByExamples, alpha: float, alike: float, pairs: int = 1, most_seeds: int | None = None
) -> bool:
    """Whether an open pair may yet be decided on these examples: with all the seeds that there may be, the interval
    would be narrow enough to call the two alike, or to leave 0 if the seeds have shown too little so far."""
    random = [x for x in (a, b) if x.random]
    most = most_seeds or _UNLIMITED
    if not random or a.examples < 2 or all(x.seeds >= most for x in random):
        return False
    if _about(a, b) == "this run":
        return True
    if float(variance_of_difference(a, b).v) == 0:
        return False  # all seeds agree: it is examples that are wanting
    later = planned_variance(components(a, b), [max(most, x.seeds) for x in random], a.examples)
    may_be = abs(float(a.score - b.score)) + 2 * float(np.sqrt(variance_of_difference(a, b).of_seeds))
    return float(later.half(1 - alpha)) <= alike or may_be >= float(later.half(1 - alpha / max(pairs, 1)))


def _say(
    names: tuple[str, str], difference: float, low: float | None, high: float | None, p: float | None,
    better: str | None, decided: str, about: str, asked: _Asked,
) -> str:  # fmt: skip
    words = asked.words
    if low is None or high is None:
        return f"{names[0]} and {names[1]} were tested on one example, which shows nothing."
    if better is not None and p is not None:
        winner, loser = names if better == "a" else names[::-1]
        ends = sorted((abs(low), abs(high))) if low * high > 0 else (0.0, max(abs(low), abs(high)))
        many = f", corrected for {asked.pairs} comparisons" if asked.pairs > 1 else ""
        return (
            f"{winner} beats {loser} by {words.figure(abs(difference))} ({percent(1 - asked.alpha)}: "
            f"{words.figure(ends[0])} to {words.figure(ends[1])}; {p_text(p)}{many})."
        )
    interval = f"({percent(1 - asked.alpha)}: {words.signed(low)} to {words.signed(high)}"
    if difference == 0:
        start = f"{names[0]} and {names[1]} scored the same"
    else:
        start = f"{names[0]} scored {words.higher(difference)} than {names[1]}"
    if about == "this run" or p is None:
        return f"{start} {interval} for these very runs on other such examples); one seed says nothing of other seeds."
    if decided == "alike":
        return f"{start} {interval}; {p_text(p)}): they differ by less than {asked.difference:g}."
    return f"{start}, {untold(low, high, asked.pairs)} {interval}; {p_text(p)})."


def untold(low: float, high: float, pairs: int) -> str:
    """Of a difference that is not shown; its interval, which is of this pair alone, may leave 0 nevertheless."""
    corrected = f" once all {pairs} comparisons are allowed for" if low * high > 0 else ""
    return f"which cannot be told from chance here{corrected}"
