"""`heedful run`, `heedful compare` and `heedful quickstart`: train, and end with a report."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from heedful.cli.show import Header
from heedful.errors import RequestError

if TYPE_CHECKING:
    from heedful.storage.study_record import StudyRecord
    from heedful.studies.parts import StudyPlan

Out = Annotated[
    Path | None,
    typer.Option(help="Directory of the results; the same line again goes on there. Default: runs/NAME, NAME-2, …"),
]
Sweeps = Annotated[
    list[str] | None, typer.Option("--sweep", help="Try several values: training.lr=1e-4,3e-4", metavar="KEY=V,V")
]
Curve = Annotated[
    str | None,
    typer.Option(help="Would more labels help? Train on shares or numbers of rows: 0.125,0.25,0.5,1", metavar="N,N"),
]
On = Annotated[str | None, typer.Option(help="Run on a Ray cluster: ray, or ray://HOST:PORT.", metavar="ray")]
Workers = Annotated[int | None, typer.Option(min=1, help="Runs at a time; default: as many as cores.")]
Sets = Annotated[list[str] | None, typer.Option("--set", help="Change a key: training.lr=1e-4", metavar="KEY=VALUE")]


def run(
    recipe: Annotated[str, typer.Argument(help="A TOML file, or the name of a recipe that `heedful recipes` lists.")],
    settings: Sets = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="How many seeds, from 0; default: the recipe's.")] = None,
    sweep: Sweeps = None,
    curve: Curve = None,
    out: Out = None,
    workers: Workers = None,
    on: On = None,
) -> None:
    """Run a recipe with each of its seeds; if it was stopped, the same line goes on where it was."""
    from heedful.recipes.reading import read_recipe, sweep_settings
    from heedful.studies.executors import assist
    from heedful.studies.plan import plan_recipe

    if assist() is not None:
        return
    name = Path(recipe).stem
    plan = plan_recipe(
        read_recipe(recipe, [*(settings or []), *sweep_settings(sweep or [], curve)]),
        name,
        None if seeds is None else range(seeds),
    )
    _run_and_report(plan, out or _default_place(plan, name), workers, on)


def compare(
    data: Annotated[str, typer.Argument(help="A file (CSV, TSV, JSONL, Parquet) or a name that `heedful data` lists.")],
    text: Annotated[str | None, typer.Option(help="The column with the text; guessed if there is no doubt.")] = None,
    label: Annotated[str | None, typer.Option(help="The column with the label or score; guessed likewise.")] = None,
    pair: Annotated[str | None, typer.Option(help="The column with the second text of a pair.")] = None,
    dev: Annotated[
        str | None, typer.Option(help="A file to choose on; default: a part of DATA.", metavar="FILE")
    ] = None,
    test: Annotated[str | None, typer.Option(help="A file to report on; default: likewise.", metavar="FILE")] = None,
    header: Header = None,
    models: Annotated[str, typer.Option(help="Models, separated by commas.")] = "minilm",
    methods: Annotated[str, typer.Option(help="Methods, separated by commas.")] = "frozen,full",
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds, from 0.")] = 3,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="Change a key, of all or of one method: full:training.epochs=2", metavar="KEY=VALUE"
        ),
    ] = None,
    until_decided: Annotated[
        bool,
        typer.Option("--until-decided", help="Add seeds until each comparison with the chosen one is decided."),
    ] = False,
    difference: Annotated[
        float | None,
        typer.Option(
            help="With --until-decided: settings that differ by less are alike; default: 0.02, or 2 % of the score of "
            "a metric without an upper end."
        ),
    ] = None,
    max_seeds: Annotated[
        int | None, typer.Option(min=2, help="With --until-decided: the most seeds of a setting; default: 20.")
    ] = None,
    sweep: Sweeps = None,
    curve: Curve = None,
    out: Out = None,
    workers: Workers = None,
    on: On = None,
) -> None:
    """Which approach on my data: models × methods × seeds, beside baselines, ending in a table and a report."""
    from heedful.recipes.reading import parse_settings, settings_by_method, sweep_settings
    from heedful.studies.executors import assist
    from heedful.studies.plan import plan_comparison

    if assist() is not None:
        return
    compared = _split_names(methods)
    for_all, for_methods = settings_by_method(settings or [], compared)
    changes = parse_settings([*for_all, *sweep_settings(sweep or [], curve)])
    given = {"text": text, "pair": pair, "label": label, "dev": dev, "test": test, "header": header}
    source = _data_table(data, {key: value for key, value in given.items() if value is not None}, changes)
    plan = plan_comparison(source, _split_names(models), compared, range(seeds), changes, for_methods)
    plan = _until_decided(plan, until_decided, difference, max_seeds)
    _run_and_report(plan, out or _default_place(plan, Path(data).name.split(".")[0] or "data"), workers, on)


def quickstart(
    model: Annotated[str, typer.Option(help="Another model: a name, a directory or a hub id.")] = "minilm",
    out: Out = None,
) -> None:
    """The main job on data in the package: a small encoder on customer messages, frozen against tuned, two seeds."""
    from heedful.studies.executors import assist
    from heedful.studies.plan import plan_comparison

    if assist() is not None:
        return
    plan = plan_comparison({"name": "tickets"}, [model], ["frozen", "full"], range(2))
    directory = out or _default_place(plan, "quickstart")
    _run_and_report(plan, directory)
    print("\nOn your own data: heedful compare YOUR.csv")


def _data_table(data: str, given: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The [data] of a comparison: a named set, or a file; where the objective reads its columns, those that are not
    given are guessed."""
    from heedful import plugins
    from heedful.data.columns import ask_for_label, guess_columns
    from heedful.data.files import find_rule
    from heedful.data.named import NAMED, find_named

    path = Path(data).expanduser()
    if data in NAMED and not path.is_file():
        return {"name": data, **given}
    if not path.exists() and not path.suffix and len(path.parts) == 1:
        find_named(data)  # says which names there are
    for table in ("data", "objective"):
        if not isinstance(changes.get(table, {}), dict):
            raise RequestError(f"--set {table}: set a key of a table, such as data.dev_share=0.2.")
    kind = changes.get("objective", {}).get("kind")
    if kind is not None and not plugins.find("objective", kind).COLUMNS:
        return {"train": str(path), **given}
    known = {**given, **changes.get("data", {})}
    text, pair, label = (known.get(role) for role in ("text", "pair", "label"))
    rule = find_rule(path, known.get("header"), known.get("quotes"), (text, pair, label))
    columns = guess_columns(path, rule, text, pair, label)
    if columns.label is None:
        raise ask_for_label(path, rule, columns)
    if columns.note:
        print(columns.note, file=sys.stderr)
    found = {"text": columns.text, "pair": columns.pair, "label": columns.label}
    return {"train": str(path), **given, **{role: name for role, name in found.items() if name is not None}}


def _until_decided(plan: "StudyPlan", wanted: bool, difference: float | None, max_seeds: int | None) -> "StudyPlan":
    from dataclasses import replace

    from heedful.studies.parts import Until

    if not wanted:
        if difference is not None or max_seeds is not None:
            raise RequestError("--difference and --max-seeds are for --until-decided; add it, or leave them out.")
        return plan
    if plan.search is not None and plan.search.get("curve"):
        raise RequestError("--until-decided compares settings, and --curve the sizes of one; use one of them.")
    until = Until(difference) if max_seeds is None else Until(difference, max_seeds)
    if difference is not None and difference <= 0:
        raise RequestError(f"--difference {difference:g}: must be above 0.")
    if until.most_seeds < len(plan.seeds):
        raise RequestError(f"--max-seeds {until.most_seeds}: is below --seeds {len(plan.seeds)}, with which it begins.")
    return replace(plan, until=until)


def _default_place(plan: "StudyPlan", name: str) -> Path:
    from heedful.studies.study import free_place

    usual = Path("runs") / name
    place = free_place(plan, usual)
    if place != usual:
        print(f"{usual} holds another study; this one is in {place}", file=sys.stderr)
    return place


def _split_names(names: str) -> list[str]:
    return [n.strip() for n in names.split(",") if n.strip()]


def _run_and_report(plan: "StudyPlan", directory: Path, workers: int | None = None, on: str | None = None) -> None:
    from heedful.report.glance import closing_lines
    from heedful.report.study import write_reports
    from heedful.studies.executors import dismiss, executor_for
    from heedful.studies.study import raise_failures, run_study

    command = shlex.join(["heedful", *sys.argv[1:]])
    executor = executor_for(on, workers, len(plan.settings) * len(plan.seeds))
    study = run_study(plan, directory, command=command, **executor._asdict())
    written = write_reports(directory)
    dismiss(directory)
    _print_searched(written.record)
    print("\n" + "\n".join(closing_lines(written)))
    print(f"\nreport  {directory / 'report.html'}")
    raise_failures(study)


def _print_searched(study: "StudyRecord") -> None:
    from heedful.studies.table import printed

    if study.tried:
        headings, cells = printed([row.written for row in study.tried])
        widths = [max(len(line[i]) for line in [headings, *cells]) for i in range(len(headings))]
        print()
        for line in [headings, *cells]:
            mark = " *" if line[0] in study.tried_and_chosen else ""
            print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() + mark)
        print("* best on dev: run again with fresh seeds, and only then tested")
