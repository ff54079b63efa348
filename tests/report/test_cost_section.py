"""Score against cost: a chart for each cost that tells the settings apart, on an axis that fits it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from heedful.report.facts.comparison import MOST_DRAWN, Comparison, compare
from heedful.report.page import charts, markdown
from heedful.report.page.pieces import Choice, Figure, Prose, Report, Table
from heedful.report.page.write import page
from heedful.report.sections.cost import against_cost
from heedful.storage.run_record import Manifest
from heedful.storage.runs import read_study
from tests.support.page_reader import Page
from tests.support.report_samples import make_study

TWO = {"minilm · frozen": (1.8, 9.0), "minilm · full": (3.0, 61.0)}


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_study(tmp_path_factory.mktemp("two"), ["a", "b"], settings=TWO, n=60)


def changed(folder: Path, **costs: list[Any]) -> Comparison:
    """The comparison with other costs, one value for each setting."""
    study = read_study(folder)
    runs: list[Any] = []
    for entry, run in study.runs:
        assert run is not None
        manifest = run.manifest.written
        for key, values in costs.items():
            about = manifest["model"]["parameters"] if key == "trainable" else manifest["cost"]
            about[key] = values[list(TWO).index(entry.setting)]
        runs.append((entry, replace(run, manifest=Manifest.model_validate(manifest))))
    return compare(replace(study, runs=runs))


def figures(c: Comparison) -> dict[str, Figure]:
    section = against_cost(c)
    assert section is not None
    found = section.blocks[1]  # after the table
    return {f.name: f for _, f in found.figures} if isinstance(found, Choice) else {found.name: found}  # type: ignore[union-attr]


def axis(figure: Figure) -> dict[str, Any]:
    spec: dict[str, Any] = figure.chart.to_dict()
    return spec["layer"][0]["encoding"]["x"]


def rows(figure: Figure, mark: int) -> list[dict[str, Any]]:
    spec: dict[str, Any] = figure.chart.to_dict()
    layer = spec["layer"][mark]
    return spec["datasets"][layer["data"]["name"]] if "name" in layer["data"] else layer["data"]["values"]


def test_the_points_are_the_runs(two: Path) -> None:
    c = compare(read_study(two))
    found = figures(c)
    assert list(found) == ["score-time", "score-memory", "score-parameters"]
    seeds = {(r["setting"], r["seed"]): r for r in rows(found["score-memory"], 0)}
    assert len(seeds) == 6
    assert seeds["minilm · full", "2"]["cost"] == pytest.approx(814.0)
    assert seeds["minilm · full", "2"]["words"] == "814.0 MB"
    full = next(s for s in c.scored if s.name == "minilm · full")
    mean = next(r for r in rows(found["score-time"], 1) if r["setting"] == full.name)
    summary = full.summary("test", "accuracy")
    assert (mean["score"], mean["seeds"]) == (summary["mean"], 3)
    assert mean["low"] == mean["high"] == mean["score"]  # there are no statistics of it
    assert mean["cost"] == pytest.approx(61.0 * 1.1)
    assert [r["cost"] for r in rows(found["score-parameters"], 1)] == [770, 22_713_216]


@pytest.mark.parametrize(
    ("seconds", "kind", "title"),
    [
        ([9.0, 61.0], None, "training time in seconds"),
        ([2.0, 61.0], "log", "training time in seconds, logarithmic"),
        ([900.0, 3600.0], None, "training time in minutes"),
        ([30.0, 18_000.0], "log", "training time in minutes, logarithmic"),
        ([20_000.0, 30_000.0], None, "training time in hours"),
        ([0.0, 61.0], None, "training time in seconds"),
    ],
)
def test_the_axis_fits(seconds: list[float], kind: str | None, title: str, two: Path) -> None:
    found = axis(figures(changed(two, training_seconds=seconds))["score-time"])
    assert (found["scale"].get("type"), found["title"]) == (kind, title)
    if kind is None:
        assert found["scale"]["zero"] == (seconds[1] > 2 * seconds[0])


def test_a_logarithmic_axis_has_a_few_round_ticks() -> None:
    wide = charts.cost_axis("x", 770, 22e6).to_dict()
    assert wide["axis"]["values"] == [10.0**k for k in range(2, 9)]
    narrow = charts.cost_axis("x", 2, 61).to_dict()
    assert narrow["axis"]["values"] == [1.0, 3.0, 10.0, 30.0, 100.0, 300.0]


def test_what_all_share_is_said_not_drawn(two: Path) -> None:
    section = against_cost(changed(two, trainable=[770, 770], peak_memory_bytes=[500e6, 505e6]))
    assert section is not None
    assert isinstance(section.blocks[1], Figure)  # nothing is left to choose from
    note = section.blocks[2]
    assert isinstance(note, Prose)
    assert note.text == "Alike for all, and not drawn: peak memory (505.0 MB) and parameters trained (770)."


def test_costs_that_nobody_knows_are_left_out(two: Path) -> None:
    c = changed(two, training_seconds=[None, None], gpu_memory_bytes=[1e9, 3e9])
    assert list(figures(c)) == ["score-memory", "score-gpu-memory", "score-parameters"]


def test_one_setting_has_nothing_to_compare(tmp_path: Path) -> None:
    section = against_cost(compare(read_study(make_study(tmp_path, ["a", "b"], settings={"x": (2.0, 5.0)}, n=60))))
    assert section is not None
    assert [b.kind for b in section.blocks] == ["table"]


def test_what_it_costs_to_use_and_to_keep(tmp_path: Path) -> None:
    folder = make_study(tmp_path, ["a", "b"], settings=TWO, n=60, seeds=(1, 2), tested=True)
    section = against_cost(compare(read_study(folder)))
    assert section is not None
    table = section.blocks[0]
    assert isinstance(table, Table)
    assert ("TF-IDF", "0.4 s", "21 ms", "812.3 kB", "–", "–") in [row.cells for row in table.rows]
    assert table.rows[0].cells[2:4] == ("2.1 s", "91.2 MB")
    bars = {r["setting"]: (r["low"], r["high"]) for r in rows(figures(compare(read_study(folder)))["score-time"], 1)}
    known = json.loads((folder / "statistics.json").read_text())["settings"]["tfidf"]["expected"]
    assert bars["TF-IDF"] == (known["low"], known["high"])


def test_all_of_them_on_paper(two: Path) -> None:
    """The page has one choice of all, the Markdown one picture for each."""
    section = against_cost(compare(read_study(two)))
    assert section is not None
    report = Report("t", "", (), (section,))
    text = markdown.render(report, "report")
    html = Page(page(report))
    stems = ["score-time", "score-memory", "score-parameters"]
    assert [line.rpartition("(")[2] for line in text.splitlines() if line.startswith("![")] == [
        f"report/{stem}.png)" for stem in stems
    ]
    assert list(html.specs) == stems
    assert [a.get("class") for a in html.named("figure")] == ["shown", None, None]
    assert len(html.named("option")) == 3


def test_every_setting_that_is_drawn_has_a_colour() -> None:
    assert len(charts.PALETTE) == MOST_DRAWN
