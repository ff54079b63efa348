"""The report of a study: many runs, compared."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from heedful.storage.runs import Study

MOST_PICTURED = 24
"""Runs of a study up to which the report of each has its charts as PNGs too: half a second of work a run."""


def write_reports(directory: Path) -> "Study":
    """Write the report of the study and that of each of its runs, and return the study as it was read; a run's report
    has no PNGs in a study of many runs."""
    from heedful.report.page.write import write
    from heedful.report.sections.of_run import run_report
    from heedful.storage.runs import read_study

    study = read_study(directory)
    done = [run for _, run in study.runs if run is not None and run.done]
    for run in done:
        write(run_report(run), run.directory, len(done) <= MOST_PICTURED)
    write_study_report(directory, study)
    return study


def write_study_report(directory: Path, study: "Study | None" = None) -> None:
    """Write report.html, report.md and the pictures in report/ of a study, which is read if it is not given."""
    from heedful.report.page.write import write
    from heedful.report.sections.of_study import study_report
    from heedful.storage.runs import read_study

    write(study_report(study or read_study(directory)), directory)
