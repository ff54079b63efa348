"""`heedful run`, `heedful compare` and `heedful quickstart`: train, and end with a report."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from heedful.studies.parts import StudyPlan

Out = Annotated[Path | None, typer.Option(help="Directory of the results; the same line again goes on there.")]
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
    from heedful.studies.plan import plan_recipe

    name = Path(recipe).stem
    plan = plan_recipe(
        read_recipe(recipe, [*(settings or []), *sweep_settings(sweep or [], curve)]),
        name,
        None if seeds is None else range(seeds),
    )
    _run_and_report(plan, out or Path("runs") / name, workers, on)


def compare(
    data: Annotated[str, typer.Argument(help="A file (CSV, TSV, JSONL, Parquet) or a name that `heedful data` lists.")],
    text: Annotated[str | None, typer.Option(help="The column with the text.")] = None,
    label: Annotated[str | None, typer.Option(help="The column with the label or score.")] = None,
    pair: Annotated[str | None, typer.Option(help="The column with the second text of a pair.")] = None,
    models: Annotated[str, typer.Option(help="Models, separated by commas.")] = "minilm",
    methods: Annotated[str, typer.Option(help="Methods, separated by commas.")] = "frozen,full",
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds, from 0.")] = 3,
    settings: Sets = None,
    sweep: Sweeps = None,
    curve: Curve = None,
    out: Out = None,
    workers: Workers = None,
    on: On = None,
) -> None:
    """Which approach on my data: models × methods × seeds, beside baselines, ending in a table and a report."""
    from heedful.data.named import NAMED
    from heedful.recipes.reading import parse_settings, sweep_settings
    from heedful.studies.plan import plan_comparison

    source: dict[str, Any] = {"name": data} if data in NAMED and not Path(data).is_file() else {"train": data}
    source |= {k: v for k, v in (("text", text), ("label", label), ("pair", pair)) if v is not None}
    changes = parse_settings([*(settings or []), *sweep_settings(sweep or [], curve)])
    plan = plan_comparison(source, _split_names(models), _split_names(methods), range(seeds), changes)
    _run_and_report(plan, out or Path("runs") / Path(data).stem, workers, on)


def quickstart(out: Out = None) -> None:
    """The main job on data in the package: a small encoder on customer messages, frozen against tuned, two seeds."""
    from heedful.studies.plan import plan_comparison

    plan = plan_comparison({"name": "tickets"}, ["minilm"], ["frozen", "full"], range(2))
    directory = out or Path("runs") / "quickstart"
    _run_and_report(plan, directory)
    print("\nOn your own data: heedful compare YOUR.csv --text COLUMN --label COLUMN")
    print(f"For new texts:    heedful predict {directory / 'best'} FILE.csv --text COLUMN")


def _split_names(names: str) -> list[str]:
    return [n.strip() for n in names.split(",") if n.strip()]


def _run_and_report(plan: "StudyPlan", directory: Path, workers: int | None = None, on: str | None = None) -> None:
    from heedful.report.study import write_reports
    from heedful.studies.executors import executor_for
    from heedful.studies.study import raise_failures, run_study

    command = shlex.join(["heedful", *sys.argv[1:]])
    executor = executor_for(on, workers, len(plan.settings) * len(plan.seeds))
    study = run_study(plan, directory, command=command, **executor._asdict())
    write_reports(directory)
    if any("metric" in row for row in study["table"]):
        _print_results(study)
    print(f"\nreport  {directory / 'report.html'}")
    raise_failures(study)


def _print_results(study: dict[str, Any]) -> None:
    from heedful.studies.table import judged_set, printed

    chosen = {s["name"] for s in study.get("chosen", [])}
    searched = [row for row in study["table"] if chosen and row["setting"] not in chosen]
    if searched:
        headings, cells, best = printed(searched)
        widths = [max(len(line[i]) for line in [headings, *cells]) for i in range(len(headings))]
        print()
        for i, line in enumerate([headings, *cells]):
            mark = " *" if i - 1 in best else ""
            print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() + mark)
        print("* best on dev: run again with fresh seeds, and only then tested")
    finished = [row for row in study["table"] if "metric" in row and (not chosen or row["setting"] in chosen)]
    metric = finished[0]["metric"]
    split = judged_set(finished) or "dev"
    print(f"\n{'':<24} {split + ' ' + metric:>18}   {'n':>2}  {'seconds':>8}  {'trained':>11}")
    for name, scores in (study.get("baselines") or {}).items():
        value = scores.get(split, {}).get(metric)
        if value is not None:
            print(f"{name + ' (baseline)':<24} {value:>10.3f}{'':>8}        {scores['seconds']:>8.1f}")
    for row in finished:
        mean, std = row.get(f"{split}_mean"), row.get(f"{split}_std")
        shown = "–" if mean is None else f"{mean:.3f}" + (f" ± {std:.3f}" if std is not None else "")
        cost = f"{row['training_seconds']:>8.1f}  {row['trainable_parameters']:>11,}"
        print(f"{row['setting']:<24} {shown:>18}   {row['n']:>2}  {cost}")
