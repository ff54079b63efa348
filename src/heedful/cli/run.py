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
    typer.Option(help="Where to write results. Run the same command again to resume. Default: runs/NAME, NAME-2, …"),
]
Sweeps = Annotated[
    list[str] | None, typer.Option("--sweep", help="Try several values: training.lr=1e-4,3e-4", metavar="KEY=V,V")
]
Curve = Annotated[
    str | None,
    typer.Option(help="Learning curve: train on shares or numbers of rows, such as 0.125,0.25,0.5,1", metavar="N,N"),
]
On = Annotated[str | None, typer.Option(help="Run on a Ray cluster: ray, or ray://HOST:PORT.", metavar="ray")]
Workers = Annotated[int | None, typer.Option(min=1, help="Number of parallel runs; default: one per core.")]
Sets = Annotated[list[str] | None, typer.Option("--set", help="Change a key: training.lr=1e-4", metavar="KEY=VALUE")]


def run(
    recipe: Annotated[str, typer.Argument(help="TOML file, or name from `heedful recipes`.")],
    settings: Sets = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="How many random seeds: 3 means 0, 1 and 2. Default: the recipe's.")
    ] = None,
    sweep: Sweeps = None,
    curve: Curve = None,
    out: Out = None,
    workers: Workers = None,
    on: On = None,
) -> None:
    """Run a recipe once per seed. Interrupted runs resume where they stopped."""
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
    data: Annotated[str, typer.Argument(help="CSV, TSV, JSONL or Parquet file, or name from `heedful data`.")],
    text: Annotated[str | None, typer.Option(help="Column with the text; default: detect.", metavar="COL")] = None,
    label: Annotated[
        str | None, typer.Option(help="Column with the label or score; default: detect.", metavar="COL")
    ] = None,
    pair: Annotated[str | None, typer.Option(help="Column with the second text of a pair.", metavar="COL")] = None,
    dev: Annotated[
        str | None,
        typer.Option(help="Validation set for choosing a model; default: rows held out of DATA.", metavar="FILE"),
    ] = None,
    test: Annotated[
        str | None,
        typer.Option(help="Test set for the reported score; default: rows held out of DATA.", metavar="FILE"),
    ] = None,
    header: Header = None,
    models: Annotated[str, typer.Option(help="Models (see `heedful models`), separated by commas.")] = "minilm",
    methods: Annotated[
        str, typer.Option(help="Methods of training: frozen, full, adapter, lora, …, separated by commas.")
    ] = "frozen,full",
    seeds: Annotated[int, typer.Option(min=1, help="How many random seeds: 3 means 0, 1 and 2.")] = 3,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="Change a recipe key for all methods, or for one: full:training.epochs=2", metavar="KEY=VALUE"
        ),
    ] = None,
    until_decided: Annotated[
        bool,
        typer.Option(
            "--until-decided", help="Add seeds until each setting is shown to be worse than the best, or a tie."
        ),
    ] = False,
    difference: Annotated[
        float | None,
        typer.Option(
            help="With --until-decided: treat smaller differences as a tie. Default: 0.02, or 2% of the score for a "
            "metric without an upper bound."
        ),
    ] = None,
    max_seeds: Annotated[
        int | None,
        typer.Option(min=2, help="With --until-decided: maximum number of seeds per model and method; default: 20."),
    ] = None,
    sweep: Sweeps = None,
    curve: Curve = None,
    out: Out = None,
    workers: Workers = None,
    on: On = None,
) -> None:
    """Find the best model for your data: train models × methods × seeds and baselines, and report."""
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
    model: Annotated[str, typer.Option(help="Model: a name, a directory or a hub id.")] = "minilm",
    out: Out = None,
) -> None:
    """Try heedful on built-in data: classify support messages with a small encoder, frozen vs. fine-tuned."""
    from heedful.studies.executors import assist
    from heedful.studies.plan import plan_comparison

    if assist() is not None:
        return
    plan = plan_comparison({"name": "tickets"}, [model], ["frozen", "full"], range(2))
    directory = out or _default_place(plan, "quickstart")
    _run_and_report(plan, directory)
    print("\nOn your own data: heedful compare YOUR.csv")


def _data_table(data: str, given: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return the [data] of a comparison: a named set, or a file. Columns that are not given are detected if the
    objective reads columns."""
    from heedful import plugins
    from heedful.data.columns import ask_for_label, guess_columns
    from heedful.data.files import open_table
    from heedful.data.named import NAMED, find_named

    path = Path(data).expanduser()
    if data in NAMED and not path.is_file():
        return {"name": data, **given}
    if not path.exists() and not path.suffix and len(path.parts) == 1:
        find_named(data)  # lists the known names
    for table in ("data", "objective"):
        if not isinstance(changes.get(table, {}), dict):
            raise RequestError(f"--set {table}: set a key of the table, such as data.dev_share=0.2.")
    kind = changes.get("objective", {}).get("kind")
    if kind is not None and not plugins.find("objective", kind).DATA.COLUMNS:
        return {"train": str(path), **given}
    known = {**given, **changes.get("data", {})}
    text, pair, label = (known.get(role) for role in ("text", "pair", "label"))
    opened = open_table(path, known.get("header"), known.get("quotes"), (text, pair, label))
    columns = guess_columns(opened, text, pair, label)
    if columns.label is None:
        raise ask_for_label(opened, columns)
    if columns.note:
        print(columns.note, file=sys.stderr)
    found = {"text": columns.text, "pair": columns.pair, "label": columns.label}
    return {"train": str(path), **given, **{role: name for role, name in found.items() if name is not None}}


def _until_decided(plan: "StudyPlan", wanted: bool, difference: float | None, max_seeds: int | None) -> "StudyPlan":
    from dataclasses import replace

    from heedful.studies.kinds.until_decided import Until, UntilDecided

    if not wanted:
        if difference is not None or max_seeds is not None:
            raise RequestError("--difference and --max-seeds need --until-decided. Add it, or remove them.")
        return plan
    if plan.kind.name == "curve":
        raise RequestError("--until-decided and --curve cannot be combined. Remove one of them.")
    if not plan.kind.chooses:
        raise RequestError(f'--until-decided: a study of kind "{plan.kind.name}" chooses no setting. Remove it.')
    until = Until(difference) if max_seeds is None else Until(difference, max_seeds)
    if difference is not None and difference <= 0:
        raise RequestError(f"--difference {difference:g}: must be above 0.")
    if until.most_seeds < len(plan.seeds):
        raise RequestError(f"--max-seeds {until.most_seeds}: must be at least --seeds {len(plan.seeds)}.")
    return replace(plan, kind=UntilDecided(plan.kind, until))


def _default_place(plan: "StudyPlan", name: str) -> Path:
    from heedful.studies.study import free_place

    usual = Path("runs") / name
    place = free_place(plan, usual)
    if place != usual:
        print(f"{usual} contains a different study; writing to {place}", file=sys.stderr)
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
        print("* best on dev: run again with new seeds, then tested")
