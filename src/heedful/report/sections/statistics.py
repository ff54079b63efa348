"""The sections of a study's report that come from statistics.json: tests, stability, abstention, doubtful labels."""

from typing import Any

from heedful.report.facts.comparison import Comparison
from heedful.report.page.pieces import Block, Column, Fold, Prose, Row, Section, Table, in_short
from heedful.report.page.pieces import section as make_section
from heedful.report.page.words import NOTHING, baseline_title, figure, plain
from heedful.report.sections.shared import error_table
from heedful.storage.reading import mapping, number, records

MOST_IN_WORDS = 10
"""Comparisons that have their sentences in the report."""
MOST_WARNINGS = 3
"""Settings that were not compared, or have failed runs, that are named one by one in the open."""


def tests(c: Comparison) -> Section | None:
    """The best setting on dev against every other, on the examples by which they are judged."""
    rows = records(c.statistics, "comparisons")
    left_out = [Prose(reason, "warning") for reason in c.not_compared.values()]
    if not rows:
        return make_section("tests", "Is the difference real?", _in_sight(left_out, "settings are not compared"))
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
        boot, effect, least = mapping(row, "bootstrap"), mapping(row, "effect"), mapping(row, "detectable")
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
    best = plain(c.statistics.get("best"))
    note = (
        f"Differences in {c.metric.title} of {best}, the best on dev, to the others; above zero, {best} is better. The "
        "interval and p are from the paired bootstrap over examples and seeds, p corrected for the number of "
        "comparisons (Holm). The effect is in standard deviations of a seed; the last column is the true difference "
        "that so many seeds would show in 80 % of studies. Shaded: significant at 0.05."
    )
    words = [Prose(_sentences(row)) for row in rows[:MOST_IN_WORDS]]
    if len(rows) > MOST_IN_WORDS:
        words.append(Prose(f"The sentences of the other {len(rows) - MOST_IN_WORDS} are in statistics.json.", "note"))
    whole = Table(f"{best} against the others", columns, tuple(made))
    blocks: list[Block] = [*in_short(whole, "comparisons"), Prose(note, "note")]
    blocks += _in_sight(left_out, "settings are not compared")
    return make_section("tests", "Is the difference real?", [*blocks, Fold("In words", tuple(words))])


def _in_sight(warnings: list[Prose], what: str) -> list[Block]:
    """The first ones in the open, the others folded away."""
    rest = tuple(warnings[MOST_WARNINGS:])
    shown: list[Block] = [*warnings[:MOST_WARNINGS]]
    return [*shown, Fold(f"{len(rest)} more {what}", rest)] if rest else shown


def _sentences(row: dict[str, Any]) -> str:
    a, b = plain(row.get("a")), baseline_title(plain(row.get("b")))
    parts = [mapping(row, key).get("sentence") for key in ("bootstrap", "permutation", "order", "effect", "detectable")]
    return f"A is {a}, B is {b}. " + " ".join(str(p) for p in parts if p)


def stability(c: Comparison) -> Section | None:
    """What depends on the seed alone, and the runs that learned nothing."""
    settings = mapping(c.statistics, "settings")
    rows, words = [], []
    for name in settings:
        stable = mapping(mapping(settings, name), "stability")
        if stable:
            cells = [figure(number(stable, key), 0) for key in ("always", "sometimes", "never")]
            rows.append(Row((name, *cells, figure(number(stable, "agreement"), 3))))
        failed = mapping(mapping(settings, name), "failed")
        if failed.get("failed"):
            words.append(Prose(f"{name}: {plain(failed.get('sentence'))}", "warning"))
    more = "setting has" if len(words) == MOST_WARNINGS + 1 else "settings have"
    warnings = _in_sight(words, f"{more} runs that failed")
    if not rows:
        return make_section("stability", "Stability", warnings)
    titles = ("all seeds right", "some", "none", "two seeds agree")
    columns = (Column("setting"), *(Column(t, numeric=True) for t in titles))
    made = Table(f"How the examples of {c.split} depend on the seed", columns, tuple(rows))
    return make_section("stability", "Stability", [*in_short(made, "settings"), *warnings])


def abstention(c: Comparison) -> Section | None:
    facts = mapping(c.statistics, "abstention")
    rows = records(facts, "rows")
    if not rows:
        return None
    columns = (
        Column("answers where surer than", numeric=True),
        Column("answered", numeric=True),
        Column("right of those", numeric=True),
    )
    made = [Row(tuple(_percent(number(row, key)) for key in ("threshold", "answered", "accuracy"))) for row in rows]
    chosen = plain(facts.get("chosen_on"))
    note = f"Thresholds were chosen on {chosen}, for answering all, 90 %, … 50 % there; means over the seeds."
    blocks: list[Block] = [
        Prose(plain(facts.get("sentence"))),
        Table(f"{plain(c.statistics.get('best'))} on {c.split}, when it may say nothing", columns, tuple(made)),
        Prose(note, "note"),
    ]
    return make_section("abstention", "When to leave it to a person", blocks)


def doubtful(c: Comparison) -> Section | None:
    facts = mapping(c.statistics, "doubtful")
    if not facts:
        return None
    wrong = [{**e, "sure": figure(number(e, "probability"), 3)} for e in records(facts, "examples")]
    unsure = [
        {**e, "predicted": ", ".join(f"{label} ×{n}" for label, n in mapping(e, "votes").items())}
        for e in records(facts, "seeds_disagree")
    ]
    split = error_table("Examples on which the seeds disagree, the closest first", unsure)
    agreed = error_table("All seeds against the label, the surest first", wrong, [("mean probability", "sure")])
    blocks: list[Block | None] = [
        Prose(plain(facts.get("sentence"))),
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
