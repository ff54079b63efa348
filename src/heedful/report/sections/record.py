"""The sections of a study's report that record what was done: what a search tried, every run, how to repeat it all."""

from dataclasses import replace
from typing import Any
from urllib.parse import quote

from heedful.report.facts.comparison import Comparison, compare, score
from heedful.report.page.pieces import (
    MOST_ROWS,
    Block,
    Cell,
    Column,
    Facts,
    Fold,
    Link,
    Prose,
    Row,
    Section,
    Table,
    in_short,
)
from heedful.report.page.pieces import section as make_section
from heedful.report.page.words import duration, figure, plain
from heedful.report.sections.cost import cost_blocks
from heedful.report.sections.shared import flat, repeat_blocks
from heedful.storage.reading import mapping, number, records
from heedful.storage.run_record import Manifest
from heedful.storage.runs import Run
from heedful.studies.parts import direction
from heedful.studies.table import printed, tried_and_chosen

_IN_OTHER_COLUMNS = {"name", "group", "values", "recipe", "random", "baseline"}
"""What study.json says of a setting that the tables say elsewhere."""


def search(c: Comparison) -> Section | None:
    """Every setting that was tried, as people print them in papers, if one of them was chosen."""
    rows = tried(c)
    if not rows:
        return None
    headings, cells = printed(rows)
    best = tried_and_chosen(c.study.facts)
    columns = tuple(Column(h, numeric=i > 0) for i, h in enumerate(headings))
    made = tuple(Row(tuple(line), "best" if line[0] in best else "") for line in cells)
    note = (
        "Shaded is the best mean on dev, of each model and method that were searched. It was run again with seeds that "
        "took no part in the search, and only then tested, so that the scores above are not flattered by the choice."
    )
    if plain(mapping(c.study.facts, "search").get("search")) == "tpe":
        note += " The settings were proposed by TPE, round by round, from the scores of the rounds before."
    if any(row.get("pruned") for row in rows):
        note += (
            " “Stopped” says at which mark (the first, second … evaluation on dev) a run was ended because it was "
            "behind the median of earlier rounds; such a setting is not chosen."
        )
    whole = Table("Every setting that was tried", columns, made)
    blocks: list[Block] = [whole]
    if len(rows) > MOST_ROWS + 3:
        first = tuple(made[i] for i in _by_dev(rows)[:MOST_ROWS])
        blocks = [Table(f"The best {MOST_ROWS} on dev of {len(rows)} settings that were tried", columns, first)]
        blocks.append(Fold(f"All {len(rows)} settings, in the order in which they were tried", (whole,)))
    return make_section("search", "The search", [*blocks, Prose(note, "note"), *cost_blocks(searched(c), "search")])


def tried(c: Comparison) -> list[dict[str, Any]]:
    """The rows of the table that took part in a search; none where nothing was chosen."""
    chosen = {str(s.get("name")) for s in records(c.study.facts, "final_settings")}
    table = [row for row in records(c.study.facts, "table") if row.get("baseline") is not True]
    return [row for row in table if chosen and str(row.get("setting")) not in chosen]


def searched(c: Comparison) -> Comparison:
    """What was tried, compared as if nothing had been chosen."""
    names = {str(s.get("name")) for s in records(c.study.facts, "final_settings")}
    facts = {key: value for key, value in c.study.facts.items() if key not in ("final_settings", "chosen")}
    facts["table"] = tried(c)
    runs = [(entry, run) for entry, run in c.study.runs if str(entry.get("setting")) not in names]
    return compare(replace(c.study, facts=facts, runs=runs, statistics={}))  # which are about the chosen one


def _by_dev(rows: list[dict[str, Any]]) -> list[int]:
    """The numbers of the rows, the best on dev first, those without a score last."""
    sign = -next((direction(r) for r in rows if r.get("metric")), 1)
    means = [number(r, "dev_mean") for r in rows]
    return sorted(range(len(rows)), key=lambda i: (means[i] is None, sign * (means[i] or 0.0)))


def runs(c: Comparison) -> Section | None:
    columns = (
        Column("run"),
        Column("setting"),
        Column("seed", numeric=True),
        Column("state"),
        Column(c.metric.title, numeric=True),
        Column("training", numeric=True),
    )
    rows = [_run_row(c, entry, run) for entry, run in c.study.runs]
    if not rows:
        return None
    if len(rows) > MOST_ROWS:
        rows.sort(key=lambda row: row.role != "failed")  # whatever is folded away, what went wrong is not
    return make_section("runs", "Runs", in_short(Table("Every run of the study", columns, tuple(rows)), "runs"))


def _run_row(c: Comparison, entry: dict[str, Any], run: Run | None) -> Row:
    name = str(entry.get("name"))
    state = plain(entry.get("state"))
    if entry.get("reason"):
        state += f": {plain(entry.get('reason'))}"
    value = score(run, c.split, c.metric.name) if run is not None and c.split else None
    spent = run.manifest.cost.training_seconds if run is not None else None
    linked = run is not None and (run.directory / "report.html").exists()
    first: Cell = Link(name, f"runs/{quote(name, safe='')}/report.html") if linked else name
    cells = (first, plain(entry.get("setting")), plain(entry.get("seed")), state, figure(value), duration(spent))
    return Row(cells, "" if entry.get("state", "done") == "done" else "failed")


def repeat(c: Comparison) -> Section | None:
    seeds = sorted({str(entry["seed"]) for entry, _ in c.study.runs if entry.get("seed") is not None}, key=_by_number)
    manifest = c.runs[0].manifest if c.runs else Manifest()
    command = c.study.facts.get("command") or manifest.command
    blocks = repeat_blocks(command, manifest, c.study.data, ", ".join(seeds))
    blocks[1:1] = _settings(c)
    return make_section("repeat", "To repeat this", blocks)


def _settings(c: Comparison) -> list[Block]:
    """What each setting is: a column for whatever differs between their recipes; the rest, which all share, once."""
    settings = [s for s in c.settings if not s.borrowed]
    keys = list(dict.fromkeys(k for s in settings for k in s.facts if k not in _IN_OTHER_COLUMNS))
    in_a_column = {"model.name": "model", "tuning.method": "method"}
    recipes = [
        {key: value for key, value in flat(mapping(s.facts, "recipe")) if in_a_column.get(key) not in keys}
        for s in settings
    ]
    known = list(dict.fromkeys(key for recipe in recipes for key in recipe))
    varied = [key for key in known if len({recipe.get(key) for recipe in recipes}) > 1]
    blocks: list[Block] = []
    if keys or varied:
        columns = (Column("setting"), *(Column(str(key)) for key in (*keys, *varied)))
        rows = tuple(
            Row((s.name, *(plain(s.facts.get(k)) for k in keys), *(plain(recipe.get(k)) for k in varied)))
            for s, recipe in zip(settings, recipes, strict=True)
        )
        blocks += in_short(Table("The settings", columns, rows), "settings")
    shared = tuple((key, recipes[0][key]) for key in known if key not in varied)
    if shared:
        summary = "The recipe, every key" if len(settings) == 1 else "What all recipes share, every key"
        blocks.append(Fold(summary, (Facts(shared),)))
    return blocks


def _by_number(text: str) -> tuple[int, str]:
    return (int(text) if text.lstrip("-").isdigit() else 0, text)
