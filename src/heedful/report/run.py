"""The report of one run: one recipe, one seed."""

from pathlib import Path


def write_run_report(directory: Path, pictures: bool = True) -> None:
    """Writes report.html, report.md and the pictures in report/ from the run's own files, replacing older ones."""
    from heedful.report.page.write import write
    from heedful.report.sections.of_run import run_report
    from heedful.storage.runs import read_run

    write(run_report(read_run(Path(directory))), Path(directory), pictures)
