"""The verdict of a study in plain words: what these runs show, and what they cannot."""

from typing import Any

from heedful.report.comparison import Comparison, Setting, overlap
from heedful.report.files import number, records, table
from heedful.report.words import (
    LEVEL,
    baseline_title,
    duration,
    figure,
    higher_is_better,
    interval,
    mean_and_deviation,
    several,
    told_metric,
)

FEW = 5
"""Seeds below which an interval is too wide, and too unsure of its width, to lean on."""


def verdict(c: Comparison) -> str:
    if c.split is None or not c.scored:
        return "No run of this study has finished with a score, so there is nothing to conclude."
    best, *others = c.scored
    words = [_leader(c, best, bool(others))]
    curves = [
        f"{k.get('group')}: {table(k, 'fit').get('sentence')}" for k in records(c.evidence, "curves") if k.get("fit")
    ]
    if curves:  # sizes of one setting are no rivals
        words += curves
    elif others:
        words.append(_runner_up(c, best, others[0]))
    words += [w for w in (_against_baseline(c, best), _seeds(c), _which_split(c)) if w]
    return " ".join(words)


def _leader(c: Comparison, best: Setting, compared: bool) -> str:
    summary = best.summary(_split(c), c.metric)
    if not compared:
        return f"On {c.split}, the {told_metric(c.metric)} of {best.name} is {_told(summary)}."
    rank = "highest" if higher_is_better(c.metric) else "lowest"
    return f"On {c.split}, {best.name} has the {rank} {told_metric(c.metric)} of the settings: {_told(summary)}."


def _told(summary: dict[str, Any]) -> str:
    if summary["n"] == 1:
        return f"{figure(summary['mean'], 3)} with one seed"
    return f"{mean_and_deviation(summary, 3)} over {summary['n']} seeds, {LEVEL} interval {interval(summary, 3)}"


def _runner_up(c: Comparison, best: Setting, other: Setting) -> str:
    first, second = best.summary(_split(c), c.metric), other.summary(_split(c), c.metric)
    if first["mean"] == second["mean"]:
        return f"{other.name} has the same mean, so neither is ahead."
    words = f"Next comes {other.name} with {_told(second)}."
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
    """What was tested of these two, if their accuracies are what is compared here."""
    rows = records(c.evidence, "comparisons") if c.metric == "accuracy" else []
    return next((row for row in rows if {row.get("a"), row.get("b")} == {a, b}), None)


def _tested(row: dict[str, Any], seeds: bool) -> str:
    """Whether the difference of the two is significant, how that was tested, and what these seeds could have shown."""
    p, least = number(row, "p_corrected"), number(table(row, "detectable"), "difference")
    told = f"p = {p:.3f}" if p is not None and p >= 0.001 else "p < 0.001"
    how = f"paired bootstrap over examples{' and seeds' if seeds else ''}, corrected for the number of comparisons"
    if p is not None and p <= 0.05:
        return f"The difference is significant ({told}; {how})."
    words = f"The difference is not significant ({told}; {how})"
    found = abs(number(table(row, "bootstrap"), "difference") or 0.0)
    if least is None or least <= found:  # it is the examples, not the seeds, that are too few
        return f"{words}."
    return f"{words}; these seeds could mostly have shown one of {least:.3f}."


def _against_baseline(c: Comparison, best: Setting) -> str:
    found = c.best_baseline(_split(c), c.metric)
    if found is None:
        return "There is no baseline to compare with."
    name, theirs = found
    ours, up = best.summary(_split(c), c.metric), higher_is_better(c.metric)
    value = theirs["mean"]
    took = c.baseline_seconds(name)
    start = f"The strongest baseline, {baseline_title(name)}, reaches {figure(value, 3)}"
    start += f" in {duration(took)}" if took is not None else ""
    ahead = ours["mean"] > value if up else ours["mean"] < value
    tested = _test_of(c, best.name, name)
    if not ahead:
        end = "" if tested is None else f" {_tested(tested, ours['n'] > 1)}"
        return f"{start}, which no setting improves on: on this evidence the simpler model will do.{end}"
    if tested is not None:
        return f"{start}. {_tested(tested, ours['n'] > 1)}"
    if ours["low"] is None:
        return (
            f"{start}, below {best.name} in its one run." if up else f"{start}, worse than {best.name} in its one run."
        )
    if ours["low"] <= value <= ours["high"]:
        return f"{start}, inside the interval of {best.name}: these runs do not show that it beats the baseline."
    return f"{start}, outside the interval of {best.name}, which is ahead of it."


def _seeds(c: Comparison) -> str:
    fewest = min(s.summary(_split(c), c.metric)["n"] for s in c.scored)
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
    if c.split == "test":
        return ""
    return f"The {c.split} examples also chose each run's checkpoint, so all these scores are somewhat flattering."


def _is(n: int) -> str:
    return "is" if n == 1 else "are"


def _split(c: Comparison) -> str:
    assert c.split is not None
    return c.split
