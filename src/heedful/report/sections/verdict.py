"""The verdict of a study in plain words: what these runs show, and what they cannot."""

from typing import Any

from heedful.report.facts.comparison import Comparison, Setting, overlap
from heedful.report.page.words import (
    LEVEL,
    baseline_title,
    duration,
    figure,
    interval,
    mean_and_deviation,
    several,
)
from heedful.storage.reading import mapping, number, records

FEW = 5
"""Seeds below which an interval is too wide, and too unsure of its width, to lean on."""


def verdict(c: Comparison) -> str:
    if c.split is None or not c.scored:
        return "No run of this study has finished with a score, so there is nothing to conclude."
    best, *others = c.scored
    words = [_leader(c, best, bool(others))]
    curves = [
        f"{k.get('group')}: {mapping(k, 'fit').get('sentence')}"
        for k in records(c.statistics, "curves")
        if k.get("fit")
    ]
    if curves:  # sizes of one setting are no rivals
        words += curves
    elif others:
        words.append(_runner_up(c, best, others[0]))
    words += [w for w in (_against_baseline(c, best), _seeds(c), _which_split(c)) if w]
    return " ".join(words)


def _leader(c: Comparison, best: Setting, compared: bool) -> str:
    summary = best.summary(_split(c), c.metric.name)
    if not compared:
        return f"On {c.split}, the {c.metric.title} of {best.name} is {_in_words(summary)}."
    rank = "highest" if c.metric.higher_is_better else "lowest"
    return f"On {c.split}, {best.name} has the {rank} {c.metric.title} of the settings: {_in_words(summary)}."


def _in_words(summary: dict[str, Any]) -> str:
    if summary["n"] == 1:
        return f"{figure(summary['mean'], 3)} with one seed"
    return f"{mean_and_deviation(summary, 3)} over {summary['n']} seeds, {LEVEL} interval {interval(summary, 3)}"


def _runner_up(c: Comparison, best: Setting, other: Setting) -> str:
    first, second = best.summary(_split(c), c.metric.name), other.summary(_split(c), c.metric.name)
    if first["mean"] == second["mean"]:
        return f"{other.name} has the same mean, so neither is ahead."
    words = f"Next comes {other.name} with {_in_words(second)}."
    left_out = [c.not_compared[name] for name in (best.name, other.name) if name in c.not_compared]
    if left_out:
        return f"{words} {left_out[0]}"
    tested = _test_of(c, best.name, other.name)
    if tested is not None:
        return f"{words} {_tested(tested, max(first['n'], second['n']) > 1)}"
    touching = overlap(first, second)
    if touching is None:
        return f"{words} Without several seeds of both, the order of the two may be chance."
    if touching:
        return f"{words} Their intervals overlap, so these runs do not show which of the two is better."
    return f"{words} Their intervals do not overlap, which speaks for {best.name}; no test of significance was made."


def _test_of(c: Comparison, a: str, b: str) -> dict[str, Any] | None:
    """What was tested of these two."""
    rows = records(c.statistics, "comparisons")
    return next((row for row in rows if {row.get("a"), row.get("b")} == {a, b}), None)


def _tested(row: dict[str, Any], seeds: bool) -> str:
    """Whether the difference of the two is significant, how that was tested, and what these seeds could have shown."""
    p, least = number(row, "p_corrected"), number(mapping(row, "detectable"), "difference")
    shown = f"p = {p:.3f}" if p is not None and p >= 0.001 else "p < 0.001"
    how = f"paired bootstrap over examples{' and seeds' if seeds else ''}, corrected for the number of comparisons"
    if p is not None and p <= 0.05:
        return f"The difference is significant ({shown}; {how})."
    words = f"The difference is not significant ({shown}; {how})"
    difference = abs(number(mapping(row, "bootstrap"), "difference") or 0.0)
    if least is None or least <= difference:  # it is the examples, not the seeds, that are too few
        return f"{words}."
    return f"{words}; these seeds could mostly have shown one of {least:.3f}."


def _against_baseline(c: Comparison, best: Setting) -> str:
    strongest = c.best_baseline(_split(c))
    if strongest is None:
        return "There is no baseline to compare with."
    name, theirs = strongest
    ours = best.summary(_split(c), c.metric.name)
    value = theirs["mean"]
    took = c.baseline_seconds(name)
    start = f"The strongest baseline, {baseline_title(name)}, reaches {figure(value, 3)}"
    start += f" in {duration(took)}" if took is not None else ""
    tested = _test_of(c, best.name, name)
    if not c.metric.better(ours["mean"], value):
        end = "" if tested is None else f" {_tested(tested, ours['n'] > 1)}"
        return f"{start}, which no setting improves on: on this evidence the simpler model will do.{end}"
    if tested is not None:
        return f"{start}. {_tested(tested, ours['n'] > 1)}"
    if ours["low"] is None:
        return f"{start}, worse than {best.name} in its one run."
    if ours["low"] <= value <= ours["high"]:
        return f"{start}, inside the interval of {best.name}: these runs do not show that it beats the baseline."
    return f"{start}, outside the interval of {best.name}, which is ahead of it."


def _seeds(c: Comparison) -> str:
    fewest = min(s.summary(_split(c), c.metric.name)["n"] for s in c.scored)
    unfinished = sum(s.unfinished for s in c.settings)
    words = []
    if fewest == 1:
        words.append("One seed says nothing about how much another would differ.")
    elif fewest < FEW:
        words.append(f"With {several(fewest, 'seed')} the intervals are themselves rough.")
    if unfinished:
        total = unfinished + len(c.runs)
        words.append(f"{unfinished} of {several(total, 'run')} did not finish and {_is(unfinished)} not counted.")
    return " ".join(words)


def _which_split(c: Comparison) -> str:
    if c.split != "dev":
        return ""
    return "The dev examples also chose each run's checkpoint, so all these scores are somewhat flattering."


def _is(n: int) -> str:
    return "is" if n == 1 else "are"


def _split(c: Comparison) -> str:
    assert c.split is not None
    return c.split
