"""The report of a bias probe: the verdict of each model first, all of them in one chart, then where the gaps are."""

from pathlib import Path
from typing import Any, Literal

from heedful.probes.bias import wording
from heedful.probes.wording import ends_in_percent, models, percent, shown
from heedful.report.page import plots
from heedful.report.page.pieces import (
    Block,
    Card,
    Choice,
    Column,
    Facts,
    Figure,
    Fold,
    Prose,
    Report,
    Row,
    Section,
    Table,
    in_short,
)
from heedful.report.page.words import capital, probability
from heedful.report.page.write import write

Found = dict[str, Any]
Line = tuple[str, str, Literal["", "warning"]]
_LESS_HALF = "share of pairs, less ½"
_HOW = (
    "The change of a pair is the model's answer to its second text less that to its first; a model of words is "
    "asked instead which of the two is the likelier. Pairs that share a template, a profession, a term or a model "
    "are not independent, so all of these are crossed random factors: the interval is about other ones of each, as "
    "far as several were seen. Corrected together (Holm) are the gaps of all models and classes on a set, all "
    "levels by which the changes of one model are broken down, and all comparisons of two models; intervals are "
    "those of each alone, not corrected."
)
_HOW_TO_READ = (
    "A gap is an average: opposite changes cancel out in it. So look at the mean size, at the labels that flip, and "
    "at the tables by profession and template as well. A label may also flip because two classes are about as "
    "likely; the control, where there is one, says what another word of the same group does. “Could show” is the "
    "true gap that such a sample finds in four of five cases."
)
MOST_LEVELS = 40
"""Levels of a factor that a chart shows: beyond that those with the largest changes."""


def write_bias_report(facts: Found, directory: Path) -> None:
    write(bias_report(facts), directory)


def bias_report(facts: Found) -> Report:
    sets: list[Found] = facts["sets"]
    subjects = list(dict.fromkeys(name for one in sets for name in one["subjects"]))
    title = f"Bias probe: {subjects[0]}" + (f" and {len(subjects) - 1} more" if len(subjects) > 1 else "")
    counts = "; ".join(f"{one['name']}, {one['pairs']:,} pairs" for one in sets)
    several = len(subjects) * len(sets) > 1
    first: Block = Prose(_lead(sets), "lead") if several else _card(sets[0], subjects[0])
    return Report(
        title,
        f"{counts}.",
        (first, _overview(sets)),
        (*(_of_set(number, one, several) for number, one in enumerate(sets, 1)), _method(sets)),
        "Written by heedful; the numbers are in bias.json, every pair with its changes in pairs/.",
    )


def _lead(sets: list[Found]) -> str:
    """How many gaps are shown, and of whom; nothing about those of whom none is."""
    every = [(one, name, found) for one in sets for name, found in one["subjects"].items()]
    some = [(one, name) for one, name, found in every if shown(found["gap"])]
    if not some:
        return (
            f"No gap is shown in any of {len(every)} measurements. Each says below how large a gap it may have missed."
        )
    named = ", ".join(f"{name} on {one['name']}" for one, name in some[:6])
    more = f" and {len(some) - 6} more" if len(some) > 6 else ""
    return (
        f"A gap is shown in {len(some)} of {len(every)} measurements: {named}{more}. Where none is shown, the interval "
        "says how large it may yet be."
    )


def _overview(sets: list[Found]) -> Figure:
    every = [(one, name, found) for one in sets for name, found in one["subjects"].items()]
    outcomes = {found["gap"]["outcome"] for _, _, found in every}
    rows = [
        {
            "name": name if len(outcomes) == 1 else f"{name} ({found['gap']['outcome']})",
            "by": one["name"],
            **_numbers(found["gap"]),
        }
        for one, name, found in every
    ]
    units = sorted({found["unit"] for _, _, found in every})
    what = f"mean change in {' or '.join(units)}" if units != ["preference"] else _LESS_HALF
    caption = (
        "The mean change from the first group to the second, with 95 % intervals; the dashed line is no change, and a "
        "bar that reaches the edge goes on beyond it."
    )
    return Figure("gaps", caption, plots.intervals(rows, what))


def _of_set(number: int, one: Found, with_cards: bool) -> Section:
    a, b = one["groups"]
    blocks: list[Block] = [Prose(f"{capital(one['what'])}. From {a} to {b}."), Prose(one["reach"], "note")]
    if with_cards:
        blocks += [_card(one, name) for name in one["subjects"]]
    blocks.append(_table(one))
    if one["comparisons"]:
        blocks.append(_comparisons(one))
    blocks += [_stereoset(name, found["stereoset"]) for name, found in one["subjects"].items() if found["stereoset"]]
    factors = dict.fromkeys(name for found in one["subjects"].values() for name in found["by"])
    for place, factor in enumerate(factors, 1):
        blocks += _by(f"set{number}-by{place}", one, factor)
    blocks += [_largest(name, found) for name, found in one["subjects"].items() if found["largest"]]
    return Section(f"set-{number}", one["name"], tuple(blocks))


def _card(one: Found, name: str) -> Card:
    found = one["subjects"][name]
    gap = found["gap"]
    warns = shown(gap)
    lines: list[Line] = [
        (f"{what}:", text, "warning" if warns and what == "Gap" else "") for what, text in found["verdict"]
    ]
    title = f"{name}: {'a gap is shown' if warns else 'no gap is shown'}"
    answered = models(found)
    return Card(title, f"{one['name']}, {answered}" if answered else one["name"], tuple(lines), "")


def _table(one: Found) -> Table:
    columns = (
        "Model",
        "Seeds",
        "Outcome",
        "Mean change",
        "95 % interval",
        "p, corrected",
        "Labels that flip",
        "Mean size",
        "Could show",
    )
    rows = []
    for name, found in one["subjects"].items():
        for gap in found["gaps"]:
            flips = found["flips"]
            rows.append(
                Row(
                    (
                        name,
                        str(len(found["seeds"])) if found["random"] else "–",
                        gap["outcome"],
                        wording.size(found, gap["mean"]),
                        wording.ends(found, gap),
                        _p(gap),
                        "–" if flips is None else f"{percent(flips['mean'])} ({ends_in_percent(flips)})",
                        wording.unsigned(found["absolute"]["mean"]),
                        wording.could_show(gap["visible"], found["unit"]) or "nothing",
                    ),
                    "warning" if shown(gap) else "",
                )
            )
    return Table(
        f"{one['name']}: what changes", tuple(Column(c, numeric=i > 2) for i, c in enumerate(columns)), tuple(rows)
    )


def _stereoset(name: str, rows: list[Found]) -> Table:
    columns = ("Items", "Number", "Language-model score", "Stereotype score", "ICAT")
    made = [
        Row(
            (
                ", ".join(row["levels"].values()) or "all",
                f"{row['items']:,}",
                *(f"{row[key]:.3f}" for key in ("language", "stereotype", "icat")),
            )
        )
        for row in rows
    ]
    caption = f"{name}: the scores of StereoSet, means over targets; the best are 1, 0.5 and 1"
    return Table(caption, tuple(Column(c, numeric=i > 0) for i, c in enumerate(columns)), tuple(made))


def _comparisons(one: Found) -> Fold:
    return Fold("Do the models differ?", tuple(Prose(row["sentence"]) for row in one["comparisons"]))


def _by(stem: str, one: Found, factor: str) -> list[Block]:
    figures, tables = [], []
    for i, (name, found) in enumerate(one["subjects"].items()):
        rows = found["by"].get(factor)
        if not rows:
            continue
        rows = sorted(rows, key=lambda row: -abs(row["mean"]))
        kept = sorted(rows[:MOST_LEVELS], key=lambda row: row["mean"])
        left = f" The {MOST_LEVELS} largest of {len(rows)}." if len(rows) > MOST_LEVELS else ""
        drawn = [{"name": row["level"], "by": "shown" if shown(row) else "not shown", **_numbers(row)} for row in kept]
        caption = f"{name}: mean change by {factor}, with 95 % intervals.{left}"
        title = _LESS_HALF if found["unit"] == "preference" else f"mean change in {wording.outcome_words(found)}"
        chart = plots.intervals(drawn, title, ("not shown", "shown"))
        figures.append((name, Figure(f"{stem}-{i}", caption, chart)))
        table = Table(
            f"{name}, by {factor}",
            tuple(
                Column(c, numeric=j > 0) for j, c in enumerate((factor, "Mean change", "95 % interval", "p, corrected"))
            ),
            tuple(
                Row(
                    (
                        row["level"],
                        wording.size(found, row["mean"]),
                        wording.ends(found, row),
                        _p(row),
                    ),
                    "warning" if shown(row) else "",
                )
                for row in rows
            ),
        )
        tables += in_short(table, wording.plural(factor))
    if not figures:
        return []
    first: Block = figures[0][1] if len(figures) == 1 else Choice("Model", tuple(figures))
    return [first, Fold(f"The numbers by {factor}", tuple(tables))]


def _p(test: Found) -> str:
    return probability(test["p_corrected"])


def _numbers(row: Found) -> Found:
    return {key: row[key] for key in ("mean", "low", "high")}


def _largest(name: str, found: Found) -> Fold:
    columns = (Column("From", long=True), Column("To", long=True), Column("Change", numeric=True))
    rows = tuple(Row((_text(row["a"]), _text(row["b"]), wording.signed(row["change"]))) for row in found["largest"])
    caption = f"{name}: the pairs that change most, in {wording.outcome_words(found)}, mean over seeds"
    return Fold(f"The pairs that change most: {name}", (Table(caption, columns, rows),))


def _text(text: str | list[str]) -> str:
    return text if isinstance(text, str) else " / ".join(text)


def _method(sets: list[Found]) -> Section:
    pairs = tuple(
        (
            one["name"],
            f"{one['pairs']:,} pairs: "
            + ", ".join(
                f"{count:,} {wording.plural(name) if count > 1 else name}" for name, count in one["factors"].items()
            )
            + (f"; licence {one['licence']}" if one["licence"] else ""),
        )
        for one in sets
    )
    return Section(
        "method",
        "How it was measured",
        (
            Prose(_HOW),
            Prose(_HOW_TO_READ),
            Facts(pairs),
        ),
    )
