"""The report of one run: one recipe, one seed."""

from pathlib import Path


def write_run_report(directory: Path, pictures: bool = True) -> None:
    """Writes report.html, report.md and the pictures in report/ from the run's own files, replacing older ones."""
    from heedful.report.files import read_run
    from heedful.report.run_sections import run_report
    from heedful.report.write import write

    write(run_report(read_run(Path(directory))), Path(directory), pictures)
