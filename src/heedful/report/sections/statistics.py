"""The sections of a study's report that come from statistics.json: tests, stability, abstention, doubtful labels."""

from heedful.report.facts.comparison import Comparison
from heedful.report.page.pieces import Block, Column, Fold, Prose, Row, Section, Table, in_short
from heedful.report.page.pieces import section as make_section
from heedful.report.page.words import NOTHING, count, figure, percent, plain, probability, signed, title_of
from heedful.report.sections.shared import error_table
from heedful.storage.statistics_record import ComparisonRecord

MOST_IN_WORDS = 10
"""Comparisons that have their sentences in the report."""
MOST_WARNINGS = 3
"""Settings that were not compared, or have failed runs, that are named one by one in the open."""


def tests(c: Comparison) -> Section | None:
    """The chosen setting against every other, on the examples by which they are judged; then all other pairs."""
    rows = c.statistics.comparisons
    left_out = [Prose(reason, "warning") for reason in c.not_compared.values()]
    if not rows:
        return make_section("tests", "Is the difference real?", _in_sight(left_out, "settings are not compared"))
    ours = [row for row in rows if row.a == c.chosen]
    others = [row for row in rows if row.a != c.chosen]
    chosen = title_of(str(c.chosen))
    better = "above" if c.metric.higher_is_better else "below"
    note = (
        f"Differences in {c.metric.title} on {c.split} of {chosen}, the best on dev, to the others; {better} zero, "
        f"{chosen} is better. The tests are paired: both on the same examples. p is for other seeds and examples, "
        "corrected for the number of all pairs (Holm), and missing where one seed stands for a method. “Could be "
        f"shown” is the true difference that such a study shows in 80 % of cases. Shaded: p ≤ {c.alpha:.4g}."
    )
    whole = _pairs(f"{chosen} against the others", "against", ours, c.alpha)
    blocks: list[Block] = [*in_short(whole, "comparisons"), Prose(note, "note"), *_how_many_more(c)]
    blocks += _in_sight(left_out, "settings are not compared")
    if others:
        blocks.append(Fold("The other pairs", (_pairs("All other pairs", "a − b", others, c.alpha),)))
    words = [Prose(text) for row in ours[:MOST_IN_WORDS] if (text := _sentences(row))]
    if len(ours) > MOST_IN_WORDS:
        words.append(Prose(f"The sentences of the other {len(ours) - MOST_IN_WORDS} are in statistics.json.", "note"))
    blocks += [Fold("In words", tuple(words))] if words else []
    return make_section("tests", "Is the difference real?", blocks)


def _pairs(caption: str, heading: str, rows: list[ComparisonRecord], alpha: float) -> Table:
    titles = ("difference", f"{percent(1 - alpha)} interval", "p, corrected", "could be shown")
    columns = (Column(heading), *(Column(title, numeric=True) for title in titles), Column("so they are"))
    words = {"different": "different", "alike": "alike enough", "open": "open"}
    made = []
    for row in rows:
        names = [title_of(plain(name)) for name in ((row.b,) if heading == "against" else (row.a, row.b))]
        cells = (
            " − ".join(names),
            signed(row.difference),
            " to ".join(map(signed, row.ends)) or NOTHING,
            probability(row.p_corrected),
            figure(row.visible.difference, 3),
            words.get(str(row.decided), NOTHING),
        )
        made.append(Row(cells, "best" if row.better in ("a", "b") else ""))
    return Table(caption, columns, tuple(made))


def _how_many_more(c: Comparison) -> list[Block]:
    """What it would take to show a small difference between the chosen setting and the best other one."""
    more = c.statistics.how_many_more
    blocks: list[Block] = [Prose(more.sentence)] if more.sentence else []
    rows = []
    for need in more.needs:
        cells = [NOTHING if need.difference is None else f"{need.difference:.2g}"]
        cells += ["cannot" if n is None else count(n) for n in (need.seeds_alone, need.rows_alone)]
        both = None not in (need.seeds, need.rows)
        cells.append(f"{count(need.seeds)} seeds and {count(need.rows)} rows" if both else NOTHING)
        rows.append(Row(tuple(cells)))
    if rows:
        pair = f"{title_of(plain(more.a))} and {title_of(plain(more.b))}"
        titles = ("seeds, with these rows", "test rows, with these seeds", "or both")
        columns = (Column("to show a difference of"), *(Column(title, numeric=True) for title in titles))
        blocks.append(Table(f"How many more? Between {pair}, in 80 % of studies", columns, tuple(rows)))
        if more.rough:
            blocks.append(Prose("With so few seeds these numbers are rough.", "note"))
    return blocks


def _in_sight(warnings: list[Prose], what: str) -> list[Block]:
    """The first ones in the open, the others folded away."""
    rest = tuple(warnings[MOST_WARNINGS:])
    shown: list[Block] = [*warnings[:MOST_WARNINGS]]
    return [*shown, Fold(f"{len(rest)} more {what}", rest)] if rest else shown


def _sentences(row: ComparisonRecord) -> str:
    """Effect sizes and almost stochastic order are there with many seeds alone."""
    return " ".join(part.sentence for part in (row, row.visible, row.order, row.effect) if part.sentence)


def stability(c: Comparison) -> Section | None:
    """What depends on the seed alone, and the runs that learned nothing."""
    rows, words = [], []
    for name, about in c.statistics.settings.items():
        if stable := about.stability:
            cells = [figure(n, 0) for n in (stable.always, stable.sometimes, stable.never)]
            rows.append(Row((title_of(name), *cells, figure(stable.agreement, 3))))
        if about.failed.failed:
            words.append(Prose(f"{title_of(name)}: {plain(about.failed.sentence)}", "warning"))
    more = "setting has" if len(words) == MOST_WARNINGS + 1 else "settings have"
    warnings = _in_sight(words, f"{more} runs that failed")
    if not rows:
        return make_section("stability", "Stability", warnings)
    titles = ("all seeds right", "some", "none", "two seeds agree")
    columns = (Column("setting"), *(Column(t, numeric=True) for t in titles))
    made = Table(f"How the examples of {c.split} depend on the seed", columns, tuple(rows))
    return make_section("stability", "Stability", [*in_short(made, "settings"), *warnings])


def abstention(c: Comparison) -> Section | None:
    found = c.statistics.abstention
    if not found.rows:
        return None
    columns = (
        Column("answers where surer than", numeric=True),
        Column("answered", numeric=True),
        Column("right of those", numeric=True),
    )
    made = [Row(tuple(map(_percent, (row.threshold, row.answered, row.accuracy)))) for row in found.rows]
    where, chosen = plain(found.chosen_on), title_of(str(c.chosen))
    means = "; means over the seeds" if _several_seeds(c) else ""
    note = f"Thresholds were chosen on {where}, for answering all, 90 %, … 50 % there{means}."
    blocks: list[Block] = [
        Prose(f"{chosen}: {plain(found.sentence)}"),
        Table(f"{chosen} on {c.split}, when it may say nothing", columns, tuple(made)),
        Prose(note, "note"),
    ]
    return make_section("abstention", "When to leave it to a person", blocks)


def doubtful(c: Comparison) -> Section | None:
    found = c.statistics.doubtful
    if not found:
        return None
    unsure = [
        e.model_copy(update={"predicted": ", ".join(f"{label} ×{n}" for label, n in e.votes.items())})
        for e in found.seeds_disagree
    ]
    chosen = title_of(str(c.chosen))
    split = error_table("Examples on which the seeds disagree, the closest first", unsure)
    who, column = ("All seeds of ", "mean probability") if _several_seeds(c) else ("", "probability")
    agreed = error_table(f"{who}{chosen} against the label, the surest first", found.examples, column)
    blocks: list[Block | None] = [
        Prose(f"{chosen}: {plain(found.sentence)}"),
        *(in_short(agreed, "examples") if agreed else []),
        Fold("Examples on which the seeds disagree", (split,)) if split else None,
    ]
    return make_section("errors", "Hard, mislabelled, or beyond this model", blocks)


def _several_seeds(c: Comparison) -> bool:
    return (c.statistics.about(c.chosen).seeds or 0) > 1


def _percent(value: float | None) -> str:
    return NOTHING if value is None else f"{100 * value:.1f} %"
