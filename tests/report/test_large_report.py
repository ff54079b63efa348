"""A hundred runs: the report stays small, stays readable, and loses nothing."""

from pathlib import Path

import pytest

from heedful.report import study
from heedful.report.facts.comparison import MOST_DRAWN, MOST_STILLS
from heedful.report.page import markdown
from heedful.report.page.pieces import MOST_ROWS, Column, Fold, Report, Row, Table, in_short
from heedful.report.page.write import page
from heedful.report.sections.of_run import run_report
from heedful.report.sections.of_study import study_report
from heedful.storage.runs import read_run, read_study
from tests.support.large_samples import make_comparison, make_search
from tests.support.page_reader import Page
from tests.support.report_samples import make_run, make_study


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return study_report(read_study(make_comparison(tmp_path_factory.mktemp("comparison"))))


@pytest.fixture(scope="module")
def search(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return study_report(read_study(make_search(tmp_path_factory.mktemp("search"))))


def tables(report: Report, name: str) -> list[Table]:
    """Those of a section that stand open."""
    section = next(s for s in report.sections if s.name == name)
    return [b for b in section.blocks if isinstance(b, Table)]


def test_a_hundred_runs_are_a_small_page(comparison: Report) -> None:
    html = page(comparison)
    assert len(html.encode()) < 6_000_000
    found = Page(html)
    names = [f"setting{i}-seed{k}" for i in range(20) for k in range(1, 6)]
    listed = [row[0] for row in found.rows]
    assert all(listed.count(name) == 1 for name in names)
    settings = [name for name, *_ in (s.cells for s in _settings(comparison))]
    assert len(settings) == 20
    assert all(listed.count(name) >= 4 for name in settings)  # results, tests, stability, calibration, settings


def _settings(report: Report) -> list[Row]:
    section = next(s for s in report.sections if s.name == "results")
    whole = [*tables(report, "results"), *(b.blocks[0] for b in section.blocks if isinstance(b, Fold))]
    return [row for t in whole[:2] for row in t.rows if row.role != "baseline"]  # type: ignore[union-attr]


def test_no_table_is_a_wall(comparison: Report) -> None:
    for section in comparison.sections:
        for table in tables(comparison, section.name):
            assert len([row for row in table.rows if row.role != "baseline"]) <= MOST_ROWS + 3, table.caption
    assert [row.role for row in tables(comparison, "runs")[0].rows][:3] == ["failed", "failed", ""]
    folds = [b.summary for s in comparison.sections for b in s.blocks if isinstance(b, Fold)]
    assert "The other 8 settings" in folds
    assert "The other 88 runs" in folds
    assert "The other 8 comparisons" in folds
    assert "5 more settings have runs that failed" in folds


def test_no_chart_is_a_jungle(comparison: Report) -> None:
    figures = {f.name: f for f in comparison.figures()}
    curves = figures["learning"].chart.to_dict()["datasets"].values()
    assert len({row["setting"] for rows in curves for row in rows if "setting" in row}) == MOST_DRAWN
    assert "Drawn are 8 of 21 settings: the chosen one, and the best on test." in figures["learning"].caption
    cost = figures["score-time"].chart.to_dict()
    rows = [row for rows in cost["datasets"].values() for row in rows if "setting" in row]
    assert len({row["setting"] for row in rows}) == 21  # TF-IDF too
    assert len({row["group"] for row in rows}) == MOST_DRAWN + 1
    assert sum("seed" in row for row in rows) == 8 * 5 - 2
    assert "the other 13 are grey" in figures["score-time"].caption
    assert len(figures["confusion"].chart.to_dict()["params"][0]["bind"]["options"]) == 21
    assert len(figures["confusion"].stills) == len(figures["reliability"].stills) == MOST_STILLS


def test_a_search_shows_the_best_first(search: Report) -> None:
    assert search.subtitle == "30 settings tried, 1 tested · 95 runs"
    first = tables(search, "search")[0]
    assert first.caption == "The best 12 on dev of 30 settings that were tried"
    assert [row.role for row in first.rows] == ["best", *[""] * 11]
    means = [str(row.cells[3]) for row in first.rows]
    assert means == sorted(means, reverse=True)
    section = next(s for s in search.sections if s.name == "search")
    whole = next(b for b in section.blocks if isinstance(b, Fold)).blocks[0]
    assert isinstance(whole, Table)
    assert [row.cells[0] for row in whole.rows] == [f"minilm · full · {i:02d}" for i in range(30)]
    figure = next(f for f in search.figures() if f.name == "search-time")
    assert figure.caption.startswith("Accuracy on dev against training time.")
    drawn = [row for rows in figure.chart.to_dict()["datasets"].values() for row in rows if "setting" in row]
    assert len({row["setting"] for row in drawn}) == 30
    assert len([f for f in search.figures() if f.name == "score-time"]) == 1  # the tested one beside TF-IDF


def test_only_what_differs_has_a_column(comparison: Report) -> None:
    table = tables(comparison, "repeat")[0]
    assert [c.title for c in table.columns] == ["setting", "model", "method", "training.lr"]
    text = markdown.render(comparison, "report")
    assert "**What all recipes share, every key**" in text
    assert "- training.max\\_length: 128" in text


def test_a_fold_hides_more_than_a_row_or_two() -> None:
    def made(n: int) -> Table:
        rows = [Row((str(i),)) for i in range(n)] + [Row(("baseline",), "baseline")]
        return Table("t", (Column("x"),), tuple(rows))

    assert in_short(made(MOST_ROWS + 3), "rows") == [made(MOST_ROWS + 3)]
    first, rest = in_short(made(MOST_ROWS + 4), "rows")
    assert isinstance(first, Table)
    assert isinstance(rest, Fold)
    assert [row.cells[0] for row in first.rows] == [*map(str, range(MOST_ROWS)), "baseline"]
    assert rest.summary == "The other 4 rows"
    hidden = rest.blocks[0]
    assert isinstance(hidden, Table)
    assert [row.cells[0] for row in hidden.rows] == ["12", "13", "14", "15"]


def test_the_runs_of_a_large_study_have_no_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_study(tmp_path, ["a", "b"], seeds=(1, 2), settings={"x": (2.0, 5.0)}, n=60)
    run = folder / "runs" / "setting0-seed1"
    study.write_reports(folder)
    assert list((run / "report").glob("*.png"))
    monkeypatch.setattr(study, "MOST_PICTURED", 1)
    study.write_reports(folder)
    assert not list((run / "report").glob("*.png"))
    text = (run / "report.md").read_text(encoding="utf-8")
    assert "*In report.html: Confusions on test" in text
    assert "![" not in text
    assert "confusion" in Page((run / "report.html").read_text(encoding="utf-8")).specs
    assert list((folder / "report").glob("*.png"))  # the study's own are there


def test_every_chart_is_valid(comparison: Report, search: Report, tmp_path: Path) -> None:
    """Altair's check against the schema, which the report itself leaves out for the time that it takes."""
    runs = [make_run(tmp_path / name, labels, n=60) for name, labels in (("classes", ["a", "b"]), ("numbers", None))]
    reports = [comparison, search, *(run_report(read_run(folder)) for folder in runs)]
    made = [f.chart for report in reports for f in report.figures()]
    assert len(made) >= 15
    for chart in made:
        chart.to_dict(validate=True)
