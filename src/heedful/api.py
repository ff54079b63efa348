"""The public contract in Python: `heedful.run`; `heedful.load` is `inference/loading.py`."""

from collections.abc import Sequence
from pathlib import Path

from heedful.findings import Study


def run(
    recipe: str | Path,
    *,
    settings: Sequence[str] = (),
    seeds: int | Sequence[int] | None = None,
    out: str | Path | None = None,
    workers: int | None = None,
    on: str | None = None,
) -> Study:
    """Run a recipe (a file, or a built-in name) with its seeds, or go on where an earlier call was stopped.

    It is in `out`, or in runs/NAME, or where that holds another study in the next of runs/NAME-2, runs/NAME-3, …
    `workers` runs are made at a time, in processes: here one if it is not said, on a cluster as many as it has cores.
    `on` is "ray" or "ray://HOST:PORT" for a cluster. In a script that torchrun starts, all processes call it, and each
    run is made by all of them together.
    """
    from heedful.recipes.reading import read_recipe
    from heedful.report.study import write_reports
    from heedful.studies.executors import assist, dismiss, executor_for
    from heedful.studies.plan import plan_recipe
    from heedful.studies.study import free_place, raise_failures, run_study

    finished = assist()
    if finished is not None:
        return Study(Path(finished))
    name = Path(recipe).stem
    plan = plan_recipe(read_recipe(recipe, settings), name, range(seeds) if isinstance(seeds, int) else seeds)
    directory = Path(out) if out is not None else free_place(plan, Path("runs") / name)
    place = executor_for(on, workers if on is not None else workers or 1, len(plan.seeds) * len(plan.settings))
    study = run_study(plan, directory, **place._asdict())
    write_reports(directory)
    dismiss(directory)
    raise_failures(study)
    return Study(directory)
