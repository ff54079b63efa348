"""`heedful report`: the report of a run or a study, written anew from its files."""

from pathlib import Path
from typing import Annotated

import typer


def report(directory: Annotated[Path, typer.Argument(help="The directory of a run or of a study.")]) -> None:
    """Write report.html and report.md of a run, or of a study and its runs, anew; print where they are."""
    from heedful.report.files import kind_of
    from heedful.report.run import write_run_report
    from heedful.report.study import write_reports

    {"run": write_run_report, "study": write_reports}[kind_of(directory)](directory)
    for name in ("report.html", "report.md"):
        print(directory / name)
