"""Which adapter a fusion uses, in the reports of runs and studies: every figure from metrics.json, and no more said
than it shows."""

import json
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest

from heedful.report.facts.comparison import compare
from heedful.report.page import charts
from heedful.report.page.pieces import Figure, Fold, Heading, Prose, Section, Table
from heedful.report.run import write_run_report
from heedful.report.sections.fusion import of_run, of_study, use_of
from heedful.storage.runs import read_run, read_study
from tests.support.page_reader import Page
from tests.support.report_samples import add_fusion, make_run, make_study, write_json

LABELS = ["no", "maybe", "yes"]
TWO = {"minilm · fusion": (2.5, 30.0), "minilm · frozen": (1.8, 9.0)}


def fused(folder: Path, **how: Any) -> Path:
    make_run(folder, LABELS, method="fusion", n=60)
    add_fusion(folder, LABELS, **how)
    return folder


def section_of(folder: Path) -> Section:
    section = of_run(read_run(folder))
    assert section is not None
    return section


def prose(section: Section) -> str:
    return " ".join(block.text for block in section.blocks if isinstance(block, Prose))


def figures(section: Section) -> dict[str, Figure]:
    return {block.name: block for block in section.blocks if isinstance(block, Figure)}


def cells(figure: Figure) -> list[dict[str, Any]]:
    (rows,) = (v for v in figure.chart.to_dict()["datasets"].values())
    return rows


def tables(section: Section) -> list[Table]:
    folds = [block for block in section.blocks if isinstance(block, Fold)]
    return [block for fold in folds for block in fold.blocks if isinstance(block, Table)]


def layers(folder: Path, split: str = "test") -> list[dict[str, Any]]:
    return json.loads((folder / "metrics.json").read_text())["fusion"]["sets"][split]["layers"]


def test_the_heat_map_is_what_the_run_says(tmp_path: Path) -> None:
    folder = fused(tmp_path / "run")
    section = section_of(folder)
    drawn = figures(section)
    assert list(drawn) == ["fusion-feed-forward", "fusion-labels-feed-forward"]
    found = {(row["y"], int(row["x"])): row for row in cells(drawn["fusion-feed-forward"])}
    for layer in layers(folder):
        for adapter, weight in zip(("mnli", "qnli", "squad", "imdb"), layer["weights"], strict=True):
            cell = found.pop((adapter, layer["layer"]))
            assert cell["value"] == pytest.approx(weight - 0.25)
            assert cell["words"] == f"{weight:.2f}"[1:]
    assert not found
    by_label = {(row["y"], int(row["x"])): row["value"] for row in cells(drawn["fusion-labels-feed-forward"])}
    for layer in layers(folder):
        for label, weights in layer["by_label"].items():
            assert by_label[f"qnli: {label}", layer["layer"]] == pytest.approx(weights[1] - layer["weights"][1])
    for figure in drawn.values():
        assert charts.png(figure.chart, scale=0.5).startswith(b"\x89PNG")


def test_the_sentences_and_tables(tmp_path: Path) -> None:
    folder = fused(tmp_path / "run")
    section, stored = section_of(folder), layers(folder)
    overall = fmean(layer["weights"][0] for layer in stored)
    top = max(stored, key=lambda layer: layer["weights"][0])
    every = [weight for layer in stored for weight in layer["weights"]]
    text = prose(section)
    assert f"“mnli” has the largest weight, {overall:.3f} (uniform: 0.250)" in text
    assert f"its share is largest in layer {top['layer']} ({top['weights'][0]:.3f})" in text
    assert f"between {min(every):.3f} and {max(every):.3f}, on average " in text
    assert f"{fmean(abs(weight - 0.25) for weight in every):.3f} from uniform." in text
    assert "It is one seed" in text
    assert "not how much that changes the answer" in text
    weights, labels = tables(section)
    assert [row.cells[0] for row in weights.rows] == [f"layer {i}" for i in range(12)] + ["all layers"]
    assert weights.rows[4].cells[1:] == tuple(f"{weight:.3f}" for weight in stored[4]["weights"])
    assert weights.rows[-1].cells[1] == f"{overall:.3f}"
    assert labels.rows[4].cells == ("layer 1", "maybe", *(f"{w:.3f}" for w in stored[1]["by_label"]["maybe"]))


def test_no_more_is_said_than_there_is(tmp_path: Path) -> None:
    even = prose(section_of(fused(tmp_path / "even", sharpness=0.0, between_labels=0.0, layers=2)))
    assert "No adapter stands out: on test (300 texts)" in even
    sharp = prose(section_of(fused(tmp_path / "sharp", between_labels=1.0)))
    assert "No adapter" not in sharp
    assert "Between labels they differ by up to 0." in sharp
    assert "yes against no), the largest of 48 differences, which chance makes look larger than it is" in sharp
    rows = layers(fused(tmp_path / "alike"))
    for layer in rows:
        layer["by_label"] = dict.fromkeys(LABELS, layer["weights"])
    metrics = json.loads((tmp_path / "alike" / "metrics.json").read_text())
    metrics["fusion"]["sets"]["test"]["layers"] = rows
    write_json(tmp_path / "alike" / "metrics.json", metrics)
    assert "Labels hardly differ in this: at most by 0.000" in prose(section_of(tmp_path / "alike"))


def test_both_places_many_layers_and_many_labels(tmp_path: Path) -> None:
    folder = fused(tmp_path / "run", places=("attention", "feed_forward"), layers=24)
    section = section_of(folder)
    assert list(figures(section)) == [
        "fusion-attention", "fusion-feed-forward", "fusion-labels-attention", "fusion-labels-feed-forward",
    ]  # fmt: skip
    assert "words" not in cells(figures(section)["fusion-attention"])[0]  # there is no room for them
    assert tables(section)[0].rows[1].cells[0] == "layer 0 after the feed-forward network"
    add_fusion(folder, [f"intent {i}" for i in range(40)])
    drawn = figures(section_of(folder))["fusion-labels-feed-forward"]
    assert len({row["y"] for row in cells(drawn)}) == 40  # ten labels of four adapters
    assert "Of 40 labels those that differ most are drawn." in drawn.caption


def test_without_labels_and_without_test(tmp_path: Path) -> None:
    folder = fused(tmp_path / "run")
    metrics = json.loads((folder / "metrics.json").read_text())
    del metrics["fusion"]["sets"]["test"]
    for layer in metrics["fusion"]["sets"]["dev"]["layers"]:
        layer["by_label"] = {}
    write_json(folder / "metrics.json", metrics)
    section = section_of(folder)
    assert list(figures(section)) == ["fusion-feed-forward"]
    assert "On dev (300 texts)" in prose(section)
    assert "abel" not in prose(section)


@pytest.mark.parametrize(
    "damage",
    [
        {},
        {"adapters": ["a"]},
        {"sets": {}},
        {"sets": {"test": {"layers": [{"place": "feed_forward", "layer": 0, "weights": [1.0]}]}}},
        {"sets": {"test": {"layers": [{"place": "elsewhere", "layer": 0, "weights": [0.1] * 4}]}}},
        {"sets": {"test": {"layers": [{"place": "feed_forward", "layer": 0, "weights": ["x"] * 4}]}}},
        {"sets": {"test": {"layers": 3}}},
        {"sets": 7},
    ],
)
def test_what_cannot_be_read_is_left_out(tmp_path: Path, damage: dict[str, Any]) -> None:
    folder = fused(tmp_path / "run")
    metrics = json.loads((folder / "metrics.json").read_text())
    metrics["fusion"] = {**metrics["fusion"], **damage} if damage else None
    write_json(folder / "metrics.json", metrics)
    assert use_of(read_run(folder)) is None
    assert of_run(read_run(folder)) is None


def test_both_forms_of_the_report(tmp_path: Path) -> None:
    folder = fused(tmp_path / "run")
    write_run_report(folder)
    text, page = (folder / "report.md").read_text(), Page((folder / "report.html").read_text())
    assert "## Which adapters are used" in text
    assert "](report/fusion-feed-forward.png)" in text
    assert (folder / "report" / "fusion-labels-feed-forward.png").is_file()
    for layer in layers(folder):
        row = [f"{weight:.3f}" for weight in layer["weights"]]
        assert " | ".join(row) in text
        assert any(cells[1:] == row for cells in page.rows)
    assert "mean weight: How much of an adapter" in text  # among the words at the end
    plain = make_run(tmp_path / "plain", LABELS, n=60)
    write_run_report(plain, pictures=False)
    assert "Which adapters" not in (plain / "report.md").read_text()


def test_a_study_has_the_mean_over_its_seeds(tmp_path: Path) -> None:
    make_study(tmp_path, LABELS, settings=TWO, n=60)
    assert of_study(compare(read_study(tmp_path))) is None
    runs = [tmp_path / "runs" / f"setting0-seed{seed}" for seed in (1, 2, 3)]
    for seed, run in enumerate(runs):
        add_fusion(run, LABELS, seed=seed)
    section = of_study(compare(read_study(tmp_path)))
    assert section is not None
    assert not any(isinstance(block, Heading) for block in section.blocks)
    stored = [layers(run) for run in runs]
    cell = [of_seed[5]["weights"][0] for of_seed in stored]
    assert tables(section)[0].rows[5].cells[1] == f"{fmean(cell):.3f} ± {stdev(cell):.3f}"
    (shown,) = (
        row for row in cells(figures(section)["fusion-1-feed-forward"]) if (row["y"], row["x"]) == ("mnli", "5")
    )
    assert shown["value"] == pytest.approx(fmean(cell) - 0.25)
    overall = [fmean(layer["weights"][0] for layer in of_seed) for of_seed in stored]
    text = prose(section)
    assert f"has a standard deviation of {stdev(overall):.3f} over them, and “mnli” is first in 3 of 3." in text
    spread = fmean(stdev(s[at]["weights"][i] for s in stored) for at in range(12) for i in range(4))
    assert f"another seed moves one of them by {spread:.3f} (mean standard deviation)" in text
    assert "in 3 of 3 seeds" in text or "in 2 of 3 seeds" in text
    assert "one seed:" not in text


def test_settings_have_headings_and_seeds_with_other_adapters_are_left_out(tmp_path: Path) -> None:
    make_study(tmp_path, LABELS, settings=TWO, n=60)
    for setting in (0, 1):
        for seed in (1, 2, 3):
            adapters = ("a", "b") if setting and seed == 3 else ("a", "c")
            add_fusion(tmp_path / "runs" / f"setting{setting}-seed{seed}", LABELS, adapters=adapters, seed=seed)
    section = of_study(compare(read_study(tmp_path)))
    assert section is not None
    assert {block.text for block in section.blocks if isinstance(block, Heading)} == set(TWO)
    assert "1 seed with other adapters left out." in prose(section)
    assert "These are means over 2 seeds" in prose(section)
