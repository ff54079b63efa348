"""Sentences about the results of a bias probe, no stronger than the intervals."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from heedful.evaluation.statistics.wording import p_text, rounded
from heedful.probes.wording import Facts, Line, interval_in_percent, percent, shown
from heedful.report.page.words import capital

if TYPE_CHECKING:
    from heedful.probes.bias.ask import Changes
    from heedful.probes.bias.pairs import PairSet

MOST_NAMED = 4


def about(pairs: "PairSet", changes: "Changes") -> str:
    """Return what an interval covers: "new templates, professions, terms and seeds"."""
    names = [f"{plural(name)}" for name in pairs.factors if len({row.levels[name] for row in pairs.rows}) > 1]
    if changes.random and len(changes.seeds) > 1:
        names.append("seeds")
    if not names:
        return "only these texts"
    words = f"new {joined(names)}"
    return f"{words}, for this run only" if changes.random and len(changes.seeds) == 1 else words


def verdict(pairs: "PairSet", found: Facts) -> list[Line]:
    lines = [("Gap", _preference(pairs, found) if found["unit"] == "preference" else _gap(pairs, found))]
    if len(found["gaps"]) > 1:
        lines.append(("Classes", _classes(found)))
    if found["flips"] is not None:
        lines.append(("Flips", _flips(pairs, found)))
    if found["control"] is not None:
        lines.append(("Control", _control(pairs, found)))
    if found["by"]:
        lines.append(("Where", _where(found)))
    if (more := found["gap"]["sharper"]) is not None:
        lines.append(("Sharper", _sharper(more, found["unit"])))
    if cut := found["truncated"]:
        lines.append(("Cut", f"{cut:,} texts were longer than the model can read and were truncated."))
    return lines


def outcome_words(found: Facts, gap: Facts | None = None) -> str:
    gap = found["gap"] if gap is None else gap
    if found["unit"] == "probability":
        return f"the probability of {gap['outcome']}"
    return "the score" if found["unit"] == "score" else "log-likelihood"


def _gap(pairs: "PairSet", found: Facts) -> str:
    gap, what = found["gap"], outcome_words(found)
    if gap["p"] is None:
        return _unknown(pairs, found)
    setting = f"from {pairs.groups[0]} to {pairs.groups[1]}, {what} changes by {signed(gap['mean'])} ({_evidence(gap)})"
    if shown(gap):
        return f"A gap is shown: {setting}. Expect it on {found['about']}."
    worst = max((g for g in found["gaps"] if g["low"] is not None), key=_possible)
    of_class = f" in {outcome_words(found, worst)}" if worst["outcome"] != gap["outcome"] else ""
    return (
        f"No gap is shown: {setting}. A true gap of up to {rough(_possible(worst))}{of_class} is compatible with this "
        f"(on {found['about']}); {reliably(gap['visible'], found['unit'])}."
    )


def _possible(gap: Facts) -> float:
    return float(max(abs(gap["low"]), abs(gap["high"])))


def _unknown(pairs: "PairSet", found: Facts) -> str:
    """Describe a gap without an interval: nothing tells how new pairs would vary."""
    gap, n = found["gap"], len(pairs.rows)
    what = f"from {pairs.groups[0]} to {pairs.groups[1]}, {outcome_words(found)} changes by {signed(gap['mean'])}"
    if n == 1:
        return f"One pair cannot be generalised: {what} in it."
    if found["most"] == 0:
        return f"Nothing changes in {n:,} pairs: both texts of each get the same prediction. Other pairs may change."
    if found["about"] == "only these texts":
        same = f"All {n:,} pairs share one {joined(pairs.factors)}"
        return f"{same}, so the result cannot be generalised: {what} on average."
    return f"All {n:,} pairs change equally, so the variation of new pairs is unknown: {what}."


def _evidence(test: Facts) -> str:
    """Return "95% CI … to …; p = …, corrected for … tests"."""
    p = "no p" if test["p_corrected"] is None else f"{p_text(test['p_corrected'])}{_corrected(test)}"
    return f"{between(test)}; {p}"


def _preference(pairs: "PairSet", found: Facts) -> str:
    gap, b = found["gap"], pairs.groups[1]
    share = f"{b} is the more likely text in {percent(0.5 + gap['mean'])} of pairs"
    if gap["p"] is None:
        return f"These pairs have one {joined(pairs.factors)}, so the result cannot be generalised: {share}."
    share += f" (95% CI {ends(found, gap)}; {p_text(gap['p_corrected'])}{_corrected(gap)}; 50% is no preference)"
    mean = (
        ""
        if found["likelier"] is None
        else f" Its log-likelihood minus that of the other is {signed(found['likelier'])} on average."
    )
    if shown(gap):
        return f"A preference is shown: {share}. Expect it on {found['about']}.{mean}"
    return (
        f"No preference is shown: {share}.{mean} There may still be one (on {found['about']}): "
        f"{reliably(gap['visible'], found['unit'])}."
    )


def could_show(visible: float | None, unit: str) -> str | None:
    """Return the smallest gap that is shown in four of five cases; None if no gap is large enough."""
    if visible is None or visible >= {"probability": 1.0, "preference": 0.5}.get(unit, math.inf):
        return None
    return percent(0.5 + visible) if unit == "preference" else rough(visible)


def reliably(visible: float | None, unit: str) -> str:
    size = could_show(visible, unit)
    if size is None:
        return "this sample is too small to detect any gap reliably"
    return f"this sample can reliably detect {'shares' if unit == 'preference' else 'gaps'} of about {size} or more"


def _classes(found: Facts) -> str:
    each = [f"{gap['outcome']} {signed(gap['mean'])}" for gap in found["gaps"]]
    some = [gap["outcome"] for gap in found["gaps"] if shown(gap)]
    which = f"shown for {joined(some)}" if some else "not shown for any"
    return f"On average by class: {', '.join(each)}; {which}. The breakdown below is for {found['gap']['outcome']}."


def _flips(pairs: "PairSet", found: Facts) -> str:
    flips = found["flips"]
    runs = "" if len(found["seeds"]) < 2 else " in at least one run"
    return (
        f"The label changes in {percent(flips['mean'])} of {len(pairs.rows):,} pairs "
        f"({interval_in_percent(flips)}), {flips['pairs']:,} of them{runs}. {capital(outcome_words(found))} changes by "
        f"{unsigned(found['absolute']['mean'])} in either direction on average, by {signed(found['most'])} at most."
    )


def _control(pairs: "PairSet", found: Facts) -> str:
    control = found["control"]
    kinds = joined(control["kinds"]) or "terms"
    sentence = (
        f"A different one of the {kinds} of the same group changes it by {unsigned(control['within'])} on average, one "
        f"of the other group by {unsigned(control['between'])}: {signed(control['mean'])} ({_evidence(control)}). "
    )
    if not shown(control):
        return sentence + "So the group is not shown to matter more than any other change of the word."
    if control["mean"] > 0:
        return sentence + "So the group matters more than another word of the same group."
    return sentence + "So words of the same group differ more than the groups do."


def _where(found: Facts) -> str:
    parts = []
    for name, rows in found["by"].items():
        some = sorted((row for row in rows if shown(row)), key=lambda row: row["p"])
        if some:
            named = ", ".join(f"{row['level']} {size(found, row['mean'])}" for row in some[:MOST_NAMED])
            more = f" and {len(some) - MOST_NAMED} more" if len(some) > MOST_NAMED else ""
            parts.append(f"by {name}: {len(some)} of {len(rows)} ({named}{more})")
    end = f"(each tested, corrected for {next(iter(found['by'].values()))[0]['tests']} tests)"
    if not parts:
        return f"No gap is shown for any single {joined(list(found['by']), 'or')} {end}."
    return f"Separate gaps are shown {'; '.join(parts)} {end}."


def size(found: Facts, value: float | None) -> str:
    """Format a mean change or an end of its interval; for a preference, the share of pairs."""
    if value is None:
        return "–"
    return percent(0.5 + value) if found["unit"] == "preference" else signed(value)


def ends(found: Facts, row: Facts) -> str:
    return "–" if row["low"] is None else f"{size(found, row['low'])} to {size(found, row['high'])}"


def _sharper(more: Facts, unit: str) -> str:
    name, size = more["factor"], could_show(more["visible"], unit)
    then = "no gap could be detected reliably" if size is None else f"gaps of about {size} or more could be detected"
    return f"The {plural(name)} limit it most ({more['levels']} of them): with {more['times']} times as many, {then}."


def reach(pairs: "PairSet") -> str:
    """Describe what was tested and what the result does not cover."""
    sizes = [
        f"{count:,} {plural(name) if count > 1 else name}"
        for name in pairs.factors
        if name != "pair" and (count := len({row.levels[name] for row in pairs.rows}))
    ]
    n = len(pairs.rows)
    made_of = f" ({', '.join(sizes)})" if sizes else ""
    return (
        f"{n:,} pair{'s' if n > 1 else ''}{made_of}. The result is about {' and '.join(pairs.groups)} in texts like "
        "these, not about other groups, other texts or the use of the predictions."
    )


def comparison(row: Facts, found: Facts) -> str:
    a, b = (size(found, row[key]) for key in ("mean_a", "mean_b"))
    what = f"{row['a']} changes by {a}, {row['b']} by {b}"
    if found["unit"] == "probability":
        what += f" (in {outcome_words(found)})"
    elif found["unit"] == "preference":
        what = f"{row['a']} prefers the second text in {a} of pairs, {row['b']} in {b}"
    difference = f"a difference of {signed(row['mean'])} ({_evidence(row)})"
    return f"{what}: {difference}, {'shown' if shown(row) else 'not shown'}."


def _corrected(test: Facts) -> str:
    return f", corrected for {test['tests']} tests" if test["tests"] > 1 else ""


def signed(value: float) -> str:
    """Format with a sign and three decimals, or two digits if small."""
    return ("−" if value < 0 else "+") + unsigned(abs(value)) if value else "0"


def unsigned(value: float) -> str:
    if value >= 0.01 or value == 0:
        return f"{value:.3f}"
    return f"{value:.{min(12, 1 - math.floor(math.log10(value)))}f}"


def between(row: Facts) -> str:
    if row["low"] is None or row["high"] is None:
        return "no interval"
    return f"95% CI {signed(row['low'])} to {signed(row['high'])}"


def rough(value: float) -> str:
    return f"{rounded(value):g}"


def plural(name: str) -> str:
    return {"person": "people", "country": "countries"}.get(name, f"{name}s")


def joined(words: Sequence[str], last: str = "and") -> str:
    return " ".join(words) if len(words) < 2 else f"{', '.join(words[:-1])} {last} {words[-1]}"
