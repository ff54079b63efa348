"""A study's report: the verdict says what the seeds allow, the table what each seed scored."""

import html
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from page_reader import Page
from report_samples import make_study, write_json

from heedful.evaluation.spread import summarise
from heedful.report.facts.comparison import compare
from heedful.report.page import markdown
from heedful.report.sections.details import pooled_bins
from heedful.report.sections.of_study import leaders, study_report
from heedful.report.sections.verdict import verdict
from heedful.report.study import write_study_report
from heedful.storage.runs import read_study

THREE = ["negative", "neutral", "positive"]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_study(tmp_path_factory.mktemp("study") / "study", THREE, failed=1, tested=True)
    (folder / "best").mkdir()
    write_study_report(folder)
    return folder


def metrics_of(folder: Path, setting: int, seeds: tuple[int, ...] = (1, 2, 3)) -> list[dict[str, Any]]:
    return [json.loads((folder / f"runs/setting{setting}-seed{s}/metrics.json").read_text()) for s in seeds]


def test_the_table_is_the_runs(study: Path) -> None:
    page = Page((study / "report.html").read_text(encoding="utf-8"))
    text = (study / "report.md").read_text(encoding="utf-8")
    scores = [m["splits"]["test"]["accuracy"] for m in metrics_of(study, 1)]
    s = summarise(scores)
    row = next(r for r in page.rows if r[0] == "minilm · full")
    assert row[1] == f"{s['mean']:.4f} ± {s['std']:.4f}"
    assert row[2] == "3"
    assert row[3] == f"{s['low']:.4f} to {s['high']:.4f}"
    assert row[7].replace("\N{NO-BREAK SPACE}", " ") == ", ".join(f"{k}: {v:.4f}" for k, v in zip((1, 2, 3), scores))  # noqa: B905
    assert row[5:7] == ["22,713,216", "815.0 MB"]
    assert f"| 3 | {' | '.join(row[3:])} |".replace("\N{NO-BREAK SPACE}", " ") in text
    baseline = metrics_of(study, 1)[0]["baselines"]["tfidf"]["test"]["accuracy"]
    assert f"| *TF-IDF and a linear model* | {baseline:.4f} | 1 |" in text


def test_failed_runs_are_counted_and_named(study: Path) -> None:
    text = (study / "report.md").read_text(encoding="utf-8")
    assert "1 of 9 runs did not finish and is not counted." in text
    assert "failed: the loss was not finite at step 12, rows 3, 99" in text
    assert "The chosen model is in the folder best/" in text


def test_each_setting_has_its_confusions_summed(study: Path) -> None:
    page = Page((study / "report.html").read_text(encoding="utf-8"))
    total = sum(m["splits"]["test"]["confusion"][0][1] for m in metrics_of(study, 1))
    spec = page.specs["confusion"]
    cells = [row for data in spec["datasets"].values() for row in data if row.get("setting") == "minilm · full"]
    assert next(c["n"] for c in cells if (c["gold"], c["predicted"]) == ("negative", "neutral")) == total
    assert spec["params"][0]["bind"]["options"] == ["minilm · full", "bert-mini · full", "minilm · frozen"]
    pictures = {p.stem for p in (study / "report").glob("*.png")}
    assert {"confusion-1", "confusion-2", "confusion-3", "reliability-1", "learning"} <= pictures
    assert {"score-time", "score-memory", "score-parameters"} <= pictures


def test_pooled_bins_weigh_by_count(study: Path) -> None:
    setting = compare(read_study(study)).scored[0]
    bins = [b for m in metrics_of(study, 1) for b in m["splits"]["test"]["bins"] if b["n"] and b["high"] == 1.0]
    last = pooled_bins(setting, "test")[-1]
    assert last["n"] == sum(b["n"] for b in bins)
    assert last["accuracy"] == pytest.approx(sum(b["n"] * b["accuracy"] for b in bins) / last["n"])


def test_the_tests_are_those_of_the_statistics(study: Path) -> None:
    found = json.loads((study / "statistics.json").read_text())
    text = html.unescape((study / "report.html").read_text(encoding="utf-8"))
    page = Page((study / "report.html").read_text(encoding="utf-8"))
    assert found["best"] == "minilm · full"
    assert [row["b"] for row in found["comparisons"]] == ["bert-mini · full", "minilm · frozen"]
    for row in found["comparisons"]:
        boot = row["bootstrap"]
        cells = [f"{boot[key]:+.3f}".replace("-", "−") for key in ("difference", "low", "high")]
        assert [row["b"], cells[0], f"{cells[1]} … {cells[2]}"] in [r[:3] for r in page.rows]
        assert boot["sentence"] in text
        assert row["effect"]["sentence"] in text
    assert found["doubtful"]["sentence"] in text
    assert found["abstention"]["sentence"] in text
    first = found["doubtful"]["examples"][0]
    assert any(row[0] == str(first["row"]) and first["predicted"] in row for row in page.rows)
    stable = found["settings"]["minilm · full"]["stability"]
    cells = ["minilm · full", *(str(stable[k]) for k in ("always", "sometimes", "never"))]
    assert cells in [row[:4] for row in page.rows]


def test_the_verdict_says_what_was_tested(tmp_path: Path) -> None:
    settings = {"weak": (1.0, 5.0), "strong": (4.0, 5.0)}
    words = told(make_study(tmp_path / "a", THREE, seeds=(1, 2, 3, 4, 5), settings=settings, tested=True))
    assert "The difference is significant (p < 0.001; paired bootstrap over examples and seeds" in words
    settings = {"one": (2.0, 5.0), "two": (2.05, 5.0)}
    words = told(make_study(tmp_path / "b", THREE, seeds=(1, 2, 3), settings=settings, tested=True))
    assert "The difference is not significant (p = 0." in words
    assert "these seeds could mostly have shown one of 0.0" in words


def told(folder: Path) -> str:
    return verdict(compare(read_study(folder)))


def test_clearly_apart(tmp_path: Path) -> None:
    settings = {"weak": (1.0, 5.0), "strong": (4.0, 5.0)}
    words = told(make_study(tmp_path, THREE, seeds=(1, 2, 3, 4, 5), settings=settings))
    assert words.startswith("On test, strong has the highest accuracy of the settings: 0.9")
    assert "Their intervals do not overlap, which speaks for strong; no test of significance was made." in words
    assert "outside the interval of strong, which is ahead of it." in words
    assert "rough" not in words
    assert leaders(compare(read_study(tmp_path))) == {"strong"}


def test_too_close_to_call(tmp_path: Path) -> None:
    words = told(make_study(tmp_path, THREE, seeds=(1, 2, 3), settings={"one": (2.0, 5.0), "two": (2.05, 5.0)}))
    assert "Their intervals overlap, so these runs do not show which of the two is better." in words
    assert "With 3 seeds the intervals are themselves rough." in words
    assert leaders(compare(read_study(tmp_path))) == {"one", "two"}


def test_one_seed_concludes_little(tmp_path: Path) -> None:
    make_study(tmp_path, THREE, seeds=(1,))
    c = compare(read_study(tmp_path))
    words = verdict(c)
    assert "with one seed" in words
    assert "the order of the two may be chance" in words
    assert "One seed says nothing about how much another would differ." in words
    assert "interval" not in words
    assert leaders(c) == set()
    text = markdown.render(study_report(read_study(tmp_path)), "report")
    assert re.search(r"\| 1 \| – \| .* \| 1: 0\.", text)
    assert " ± – | 1 |" in text
    assert "labelled wrongly" not in text


def test_a_baseline_that_is_not_beaten(tmp_path: Path) -> None:
    words = told(make_study(tmp_path, THREE, settings={"x": (0.3, 5.0)}))
    assert "which no setting improves on: on this evidence the simpler model will do." in words
    assert "of the settings" not in words  # there is one


def test_a_baseline_inside_the_interval(tmp_path: Path) -> None:
    make_study(tmp_path, THREE, settings={"x": (2.0, 5.0)})
    study = read_study(tmp_path)
    scores = [0.70, 0.80, 0.90]
    for (_, run), value in zip(study.runs, scores, strict=True):
        assert run is not None
        run.metrics["splits"]["test"]["accuracy"] = value
    assert "inside the interval of x: these runs do not show that it beats the baseline" in verdict(compare(study))


def test_a_baseline_that_was_tested_against(tmp_path: Path) -> None:
    make_study(tmp_path, THREE, settings={"x": (4.0, 5.0)})
    row = {"a": "x", "b": "tfidf", "p_corrected": 0.4, "bootstrap": {"difference": 0.01}}
    study = replace(read_study(tmp_path), statistics={"split": "test", "comparisons": [row]})
    words = verdict(compare(study))
    assert "The strongest baseline, TF-IDF and a linear model, reaches" in words
    assert "The difference is not significant (p = 0.400; paired bootstrap" in words
    text = markdown.render(study_report(study), "report")
    assert re.search(r"\| TF-IDF and a linear model \| \\?\+0\.010 \|", text)


def test_hidden_test_is_judged_on_dev(tmp_path: Path) -> None:
    make_study(tmp_path, THREE, seeds=(1, 2), splits=("dev",))
    words = told(tmp_path)
    assert words.startswith("On dev,")
    assert "so all these scores are somewhat flattering" in words


def test_nothing_finished(tmp_path: Path) -> None:
    make_study(tmp_path, THREE, seeds=(1,), settings={"x": (1.0, 5.0)}, failed=1)
    write_study_report(tmp_path)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "there is nothing to conclude" in text
    assert "the loss was not finite" in text


def test_numbers(tmp_path: Path) -> None:
    make_study(tmp_path, None, seeds=(1, 2))
    write_study_report(tmp_path)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "highest Pearson" in text
    assert "| *the mean of training* | – | 0 | – |" in text
    assert "## Confusions" not in text
    assert "## Calibration" not in text


def test_lower_is_better_where_it_is(tmp_path: Path) -> None:
    make_study(tmp_path, None, seeds=(1, 2), settings={"rough": (1.0, 5.0), "fine": (5.0, 5.0)})
    study = read_study(tmp_path)
    for _, run in study.runs:
        assert run is not None
        run.metrics["primary"] = "mse"
    c = compare(study)
    assert [s.name for s in c.settings] == ["fine", "rough"]
    assert "fine has the lowest mean squared error of the settings" in verdict(c)


def test_forty_classes_stay_small(tmp_path: Path) -> None:
    labels = [f"intent {i}" for i in range(40)]
    make_study(tmp_path, labels, seeds=(1,), settings={f"s{i}": (3.0, 5.0) for i in range(3)}, n=300)
    write_study_report(tmp_path)
    assert (tmp_path / "report.html").stat().st_size < 2_500_000


def test_the_barest_study(tmp_path: Path) -> None:
    write_json(tmp_path / "study.json", {})
    write_study_report(tmp_path)
    assert "nothing to conclude" in (tmp_path / "report.md").read_text(encoding="utf-8")
