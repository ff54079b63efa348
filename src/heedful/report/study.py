"""The report of a study: many runs, compared."""

from pathlib import Path


def write_study_report(directory: Path) -> None:
    """Writes report.html, report.md and the pictures in report/ from study.json and the runs' files."""
    from heedful.report.files import read_study
    from heedful.report.study_sections import study_report
    from heedful.report.write import write

    write(study_report(read_study(Path(directory))), Path(directory))
