"""The toys as an installed package."""

from pathlib import Path

from tests.support.training_samples import sentences

TOYS = Path(__file__).parents[1] / "toys"
ENTRY_POINTS = """
[heedful.objectives]
lines = toy_objective:Lines
[heedful.tunings]
tethered = toy_tuning:Tethered
[heedful.studies]
budgets = toy_study:Budgets
"""


def install_toys(folder: Path) -> None:
    """In folder/site, which must be on the path beside TOYS; and lines.txt to learn from."""
    installed = folder / "site/toys-1.0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: toys\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text(ENTRY_POINTS)
    (folder / "lines.txt").write_text("\n".join(text for text, _ in sentences(90)) + "\n")
