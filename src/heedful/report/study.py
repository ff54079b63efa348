"""The report of a study: many runs, compared."""

from pathlib import Path

from heedful.report.run import write_run_report

MOST_PICTURED = 24
"""Runs of a study up to which the report of each has its charts as PNGs too: half a second of work a run."""


def write_reports(directory: Path) -> None:
    """The report of the study and that of each of its runs; a run's report has no PNGs in a study of many runs."""
    from heedful.storage.runs import read_study

    done = [run for _, run in read_study(directory).runs if run is not None and run.done]
    for run in done:
        write_run_report(run.directory, pictures=len(done) <= MOST_PICTURED)
    write_study_report(directory)


def write_study_report(directory: Path) -> None:
    """Writes report.html, report.md and the pictures in report/ from study.json and the runs' files."""
    from heedful.report.page.write import write
    from heedful.report.sections.of_study import study_report
    from heedful.storage.runs import read_study

    write(study_report(read_study(Path(directory))), Path(directory))
