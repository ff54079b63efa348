"""The sections of a study's report that come from statistics.json: tests, stability, abstention, doubtful labels."""

from typing import Any

from heedful.report.comparison import Comparison
from heedful.report.files import number, records, table
from heedful.report.pieces import Block, Column, Fold, Prose, Row, Section, Table, in_short
from heedful.report.pieces import section as make_section
from heedful.report.sections import error_table
from heedful.report.words import NOTHING, baseline_title, figure, plain

MOST_TOLD = 10
"""Comparisons that are told in words."""
MOST_WARNINGS = 3
"""Settings with failed runs that are named one by one in the open."""


def tests(c: Comparison) -> Section | None:
    """The best setting on dev against every other, on the examples that are reported."""
    rows = records(c.evidence, "comparisons")
    if not rows:
        return None
    columns = (
        Column("against"),
        Column("difference", numeric=True),
        Column("95 % interval", numeric=True),
        Column("p, corrected", numeric=True),
        Column("effect (g)", numeric=True),
        Column("could be shown", numeric=True),
    )
    made = []
    for row in rows:
        boot, effect, least = table(row, "bootstrap"), table(row, "effect"), table(row, "detectable")
        interval = f"{_signed(boot, 'low')} … {_signed(boot, 'high')}"
        cells = (
            baseline_title(plain(row.get("b"))),
            _signed(boot, "difference"),
            interval,
            _p(number(row, "p_corrected")),
            figure(number(effect, "g"), 1) if effect else NOTHING,
            figure(number(least, "difference"), 3) if least else NOTHING,
        )
        made.append(Row(cells, "best" if (number(row, "p_corrected") or 1.0) <= 0.05 else ""))
    best = plain(c.evidence.get("best"))
    note = (
        f"Differences in accuracy of {best}, the best on dev, to the others. The interval and p are from the paired "
        "bootstrap over examples and seeds, p corrected for the number of comparisons (Holm). The effect is in "
        "standard deviations of a seed; the last column is the true difference that so many seeds would show in 80 % "
        "of studies. Shaded: significant at 0.05."
    )
    told = [Prose(_sentences(row)) for row in rows[:MOST_TOLD]]
    if len(rows) > MOST_TOLD:
        told.append(Prose(f"The other {len(rows) - MOST_TOLD} comparisons are told in statistics.json.", "note"))
    whole = Table(f"{best} against the others", columns, tuple(made))
    blocks: list[Block] = [*in_short(whole, "comparisons"), Prose(note, "note")]
    return make_section("tests", "Is the difference real?", [*blocks, Fold("In words", tuple(told))])


def _sentences(row: dict[str, Any]) -> str:
    a, b = plain(row.get("a")), baseline_title(plain(row.get("b")))
    parts = [table(row, key).get("sentence") for key in ("bootstrap", "permutation", "order", "effect", "detectable")]
    return f"A is {a}, B is {b}. " + " ".join(str(p) for p in parts if p)


def stability(c: Comparison) -> Section | None:
    """What hangs on the seed alone, and the runs that learned nothing."""
    settings = table(c.evidence, "settings")
    rows, words = [], []
    for name in settings:
        found = table(table(settings, name), "stability")
        if found:
            cells = [figure(number(found, key), 0) for key in ("always", "sometimes", "never")]
            rows.append(Row((name, *cells, figure(number(found, "agreement"), 3))))
        failed = table(table(settings, name), "failed")
        if failed.get("failed"):
            words.append(Prose(f"{name}: {plain(failed.get('sentence'))}", "warning"))
    rest = tuple(words[MOST_WARNINGS:])
    warnings: list[Block] = [*words[:MOST_WARNINGS]]
    if rest:
        more = f"{len(rest)} more {'setting has' if len(rest) == 1 else 'settings have'} runs that failed"
        warnings.append(Fold(more, rest))
    if not rows:
        return make_section("stability", "Stability", warnings)
    titles = ("all seeds right", "some", "none", "two seeds agree")
    columns = (Column("setting"), *(Column(t, numeric=True) for t in titles))
    made = Table(f"How the examples of {c.split} hang on the seed", columns, tuple(rows))
    return make_section("stability", "Stability", [*in_short(made, "settings"), *warnings])


def abstention(c: Comparison) -> Section | None:
    found = table(c.evidence, "abstention")
    rows = records(found, "rows")
    if not rows:
        return None
    columns = (
        Column("answers where surer than", numeric=True),
        Column("answered", numeric=True),
        Column("right of those", numeric=True),
    )
    made = [Row(tuple(_percent(number(row, key)) for key in ("threshold", "answered", "accuracy"))) for row in rows]
    chosen = plain(found.get("chosen_on"))
    note = f"Thresholds were chosen on {chosen}, for answering all, 90 %, … 50 % there; means over the seeds."
    blocks: list[Block] = [
        Prose(plain(found.get("sentence"))),
        Table(f"{plain(c.evidence.get('best'))} on {c.split}, when it may say nothing", columns, tuple(made)),
        Prose(note, "note"),
    ]
    return make_section("abstention", "When to leave it to a person", blocks)


def doubtful(c: Comparison) -> Section | None:
    found = table(c.evidence, "doubtful")
    if not found:
        return None
    wrong = [{**e, "sure": figure(number(e, "probability"), 3)} for e in records(found, "examples")]
    unsure = [
        {**e, "predicted": ", ".join(f"{label} ×{n}" for label, n in table(e, "votes").items())}
        for e in records(found, "seeds_disagree")
    ]
    split = error_table("Examples on which the seeds disagree, the closest first", unsure)
    agreed = error_table("All seeds against the label, the surest first", wrong, [("mean probability", "sure")])
    blocks: list[Block | None] = [
        Prose(plain(found.get("sentence"))),
        *(in_short(agreed, "examples") if agreed else []),
        Fold("Examples on which the seeds disagree", (split,)) if split else None,
    ]
    return make_section("errors", "Hard, or labelled wrongly", blocks)


def _signed(facts: dict[str, Any], key: str) -> str:
    value = number(facts, key)
    return NOTHING if value is None else f"{value:+.3f}".replace("-", "−")


def _p(value: float | None) -> str:
    return NOTHING if value is None else "< 0.001" if value < 0.001 else f"{value:.3f}"


def _percent(value: float | None) -> str:
    return NOTHING if value is None else f"{100 * value:.1f} %"
