"""The sections of a study's report that record what was done: what a search tried, every run, how to repeat it all."""

from dataclasses import replace
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
from heedful.storage.run_record import Manifest
from heedful.storage.runs import Run
from heedful.storage.statistics_record import Statistics
from heedful.storage.study_record import Chosen, RunEntry, TableRow
from heedful.studies.parts import direction
from heedful.studies.table import printed

_IN_OTHER_COLUMNS = {"name", "group", "values", "recipe", "random", "baseline"}
"""What study.json says of a setting that the tables say elsewhere."""


def search(c: Comparison) -> Section | None:
    """Every setting that was tried, as people print them in papers, if one of them was chosen."""
    rows = c.study.record.tried
    if not rows:
        return None
    headings, cells = printed([row.written for row in rows])
    best = c.study.record.tried_and_chosen
    columns = tuple(Column(h, numeric=i > 0) for i, h in enumerate(headings))
    made = tuple(Row(tuple(line), "best" if line[0] in best else "") for line in cells)
    note = (
        "Shaded is the best mean on dev, of each model and method that were searched. It was run again with seeds that "
        "took no part in the search, and only then tested, so that the scores above are not flattered by the choice."
    )
    if c.study.record.search.search == "tpe":
        note += " The settings were proposed by TPE, round by round, from the scores of the rounds before."
    if any(row.pruned for row in rows):
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


def searched(c: Comparison) -> Comparison:
    """What was tried, compared as if nothing had been chosen."""
    names = {s.name for s in c.study.record.final_settings}
    record = c.study.record.model_copy(update={"final_settings": [], "chosen": Chosen(), "table": c.study.record.tried})
    runs = [(entry, run) for entry, run in c.study.runs if entry.setting not in names]
    return compare(replace(c.study, record=record, runs=runs, statistics=Statistics()))  # they are about the chosen one


def _by_dev(rows: list[TableRow]) -> list[int]:
    """The numbers of the rows, the best on dev first, those without a score last."""
    sign = -next((direction(row.written) for row in rows if row.metric), 1)
    means = [row.means.get("dev") for row in rows]
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


def _run_row(c: Comparison, entry: RunEntry, run: Run | None) -> Row:
    name, state = entry.name, entry.state
    if entry.reason:
        state += f": {entry.reason}"
    value = score(run, c.split, c.metric.name) if run is not None and c.split else None
    spent = run.manifest.cost.training_seconds if run is not None else None
    linked = run is not None and (run.directory / "report.html").exists()
    first: Cell = Link(name, f"runs/{quote(name, safe='')}/report.html") if linked else name
    cells = (first, entry.setting, plain(entry.seed), state, figure(value), duration(spent))
    return Row(cells, "" if entry.state == "done" else "failed")


def repeat(c: Comparison) -> Section | None:
    seeds = sorted({entry.seed for entry, _ in c.study.runs if entry.seed is not None})
    manifest = c.runs[0].manifest if c.runs else Manifest()
    command = c.study.record.command or manifest.command
    blocks = repeat_blocks(command, manifest, c.study.record.data, ", ".join(map(str, seeds)))
    blocks[1:1] = _settings(c)
    return make_section("repeat", "To repeat this", blocks)


def _settings(c: Comparison) -> list[Block]:
    """What each setting is: a column for whatever differs between their recipes; the rest, which all share, once."""
    settings = [s for s in c.settings if not s.borrowed]
    keys = list(dict.fromkeys(k for s in settings for k in s.record.written if k not in _IN_OTHER_COLUMNS))
    in_a_column = {"model.name": "model", "tuning.method": "method"}
    recipes = [
        {key: value for key, value in flat(s.record.recipe) if in_a_column.get(key) not in keys} for s in settings
    ]
    known = list(dict.fromkeys(key for recipe in recipes for key in recipe))
    varied = [key for key in known if len({recipe.get(key) for recipe in recipes}) > 1]
    blocks: list[Block] = []
    if keys or varied:
        columns = (Column("setting"), *(Column(str(key)) for key in (*keys, *varied)))
        rows = tuple(
            Row((s.name, *(plain(s.record.written.get(k)) for k in keys), *(plain(recipe.get(k)) for k in varied)))
            for s, recipe in zip(settings, recipes, strict=True)
        )
        blocks += in_short(Table("The settings", columns, rows), "settings")
    shared = tuple((key, recipes[0][key]) for key in known if key not in varied)
    if shared:
        summary = "The recipe, every key" if len(settings) == 1 else "What all recipes share, every key"
        blocks.append(Fold(summary, (Facts(shared),)))
    return blocks
