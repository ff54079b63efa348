"""Translations in a run's report: the worst, the middle and the best, as they are and in both forms."""

import json
from pathlib import Path

import pytest

from heedful.evaluation.translations import translation_columns
from heedful.report.page.pieces import Table
from heedful.report.run import write_run_report
from heedful.report.sections.translations import translations
from heedful.storage.examples import write_lines, write_values
from heedful.storage.runs import read_run
from tests.support.page_reader import Page
from tests.support.report_samples import make_run, write_json

REFERENCE = "abcdefghijklmnopqrst"
HEADER = ["row", "source", "reference", "translation", "score"]


def write(folder: Path, lines: list[tuple[str, str, str]]) -> Path:
    """A run whose predictions are these sources, references and translations; rows are counted from 11."""
    make_run(folder, labels=["a", "b"])
    metrics = json.loads((folder / "metrics.json").read_text())
    metrics["splits"]["test"]["chrf"] = 50.0
    write_json(folder / "metrics.json", metrics)
    rows = list(range(11, 11 + len(lines)))
    predicted = [(row, *line, -1.0) for row, line in zip(rows, lines, strict=True)]
    write_lines(folder / "predictions/test.tsv", HEADER, predicted)
    columns = translation_columns([line[2] for line in lines], [line[1] for line in lines], "13a")
    (folder / "values").mkdir(exist_ok=True)
    order = list(reversed(range(len(rows))))  # files are matched by their rows
    reordered = {name: column[order] for name, column in columns.items()}
    write_values(folder / "values/test.tsv", [rows[i] for i in order], reordered)
    return folder


def table_of(folder: Path) -> Table:
    section = translations(read_run(folder))
    assert section is not None
    (table,) = section.blocks
    assert isinstance(table, Table)
    return table


def test_worst_middle_and_best_are_shown(tmp_path: Path) -> None:
    """Of 20, of which line i has i letters right, in another order."""
    lines = [(f"source {i}", REFERENCE, REFERENCE[:i] + "z" * (20 - i)) for i in (7 * k % 20 for k in range(20))]
    table = table_of(write(tmp_path / "run", lines))
    assert [row.cells[2] for row in table.rows] == [f"source {i}" for i in (0, 1, 2, 8, 9, 10, 17, 18, 19)]
    assert [row.cells[0] for row in table.rows[:2]] == ["11", "14"]
    assert "the 3 worst, 3 in the middle and the 3 best of 20" in table.caption
    scores = [float(str(row.cells[1])) for row in table.rows]
    assert scores == sorted(scores)
    assert scores[0] == 0.0


def test_few_are_all_shown_cut_and_escaped(tmp_path: Path) -> None:
    lines = [("<script>alert(1)</script> | x", "long " * 100, "long " * 100), ("two", "zwei", "")]
    folder = write(tmp_path / "run", lines)
    table = table_of(folder)
    assert [row.cells[0] for row in table.rows] == ["12", "11"]
    assert table.rows[0].cells[-1] == "–"
    assert len(str(table.rows[1].cells[-1])) == 280
    write_run_report(folder)
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "<script>alert(1)" not in page
    assert "<script>alert(1)</script> | x" in Page(page).text
    assert "<script>alert(1)" not in (folder / "report.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("missing", ["predictions", "values", "translations"])
def test_without_translations_there_is_no_section(missing: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "run", [("one", "eins", "eins")])
    if missing == "translations":
        write_lines(folder / "predictions/test.tsv", ["row", "label"], [(11, "a")])
    else:
        (folder / missing / "test.tsv").unlink()
    assert translations(read_run(folder)) is None
