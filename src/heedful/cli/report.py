"""`heedful report`: regenerate the report of a run or study, and mirror runs in other tools."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer


def report(
    directory: Annotated[Path, typer.Argument(help="Directory of a run or study.")],
    tensorboard: Annotated[
        Path | None, typer.Option(help="Mirror the runs in this TensorBoard log directory.", metavar="LOGDIR")
    ] = None,
    mlflow: Annotated[
        str | None, typer.Option(help="Mirror the runs in MLflow: a directory or a URI.", metavar="DIR|URI")
    ] = None,
) -> None:
    """Regenerate report.html and report.md of a run, or of a study and its runs."""
    from heedful.report.run import write_run_report
    from heedful.report.study import write_reports
    from heedful.storage.runs import kind_of

    if kind_of(directory) == "study":
        write_reports(directory)
    else:
        write_run_report(directory)
    for name in ("report.html", "report.md"):
        print(directory / name)
    if tensorboard is not None:
        from heedful.mirrors.tensorboard import to_tensorboard

        to_tensorboard(directory, tensorboard)
        print(f"tensorboard --logdir {shlex.quote(str(tensorboard))}")
    if mlflow is not None:
        from heedful.mirrors.mlflow import to_mlflow

        address, problem = to_mlflow(directory, mlflow)
        print(f"mlflow ui --backend-store-uri {shlex.quote(address)}" if address.startswith("sqlite:") else address)
        if problem:
            print(f"heedful: MLflow could not store the reports ({problem}). The numbers are stored.", file=sys.stderr)
