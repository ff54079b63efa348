"""A study of several tasks: each task's scores, what is forgotten, whether training together helps; and its report."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heedful.evaluation.metrics import CLASS_METRICS
from heedful.evaluation.spread import summarise
from heedful.evaluation.statistics.compare import compare_all
from heedful.evaluation.statistics.crossed import SeedsByExamples
from heedful.recipes.reading import make_recipe
from heedful.report.run import write_run_report
from heedful.report.study import write_study_report
from heedful.storage.examples import read_values
from heedful.studies.plan import plan_recipe
from heedful.studies.study import run_study
from heedful.studies.tasks import average_forgetting, forgetting_in_words
from tests.support.training_samples import tiny_recipe, write_data, write_tiny

ROWS = [
    {"objective": {"sampling": "square-root"}},
    {"objective": {"train_on": ["one"]}},
    {"objective": {"train_on": ["two"]}},
    {"objective": {"sampling": "in-turn"}},
]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Mixed, each task alone, and in turn; two seeds of each."""
    folder = tmp_path_factory.mktemp("study")
    one, two = write_data(folder / "one"), write_data(folder / "two", 30, 10, 14)
    tasks = [{"task": "one", **one}, {"task": "two", **two}]
    recipe = tiny_recipe(write_tiny(folder / "model"), {"tasks": tasks}, objective={"kind": "multi-task"})
    content = recipe.identity() | {"study": {"rows": ROWS, "test": "all"}, "evaluation": {"baselines": True}}
    run_study(plan_recipe(make_recipe(content), "tasks", range(2)), folder / "study", quiet=True)
    write_study_report(folder / "study")
    for name in ("tasks-1-seed0", "tasks-4-seed0"):
        write_run_report(folder / "study/runs" / name, pictures=False)
    return folder / "study"


def statistics(study: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((study / "statistics.json").read_text())
    return content


def scores(study: Path, setting: str, name: str, metric: str = "accuracy") -> list[float]:
    every = [json.loads((study / f"runs/{setting}-seed{seed}/metrics.json").read_text()) for seed in (0, 1)]
    return [metrics["splits"][name][metric] for metrics in every]


def test_each_tasks_scores(study: Path) -> None:
    found = statistics(study)["tasks"]
    assert found["metrics"] == {"one": "accuracy", "two": "accuracy"}
    assert {name: facts["trained_on"] for name, facts in found["settings"].items()} == {
        "tasks-1": ["one", "two"], "tasks-2": ["one"], "tasks-3": ["two"], "tasks-4": ["one", "two"],
    }  # fmt: skip
    for name, facts in found["settings"].items():
        for task in ("one", "two"):
            expected = scores(study, name, f"test-{task}")
            assert facts["scores"][task]["mean"] == pytest.approx(np.mean(expected))
            assert facts["scores"][task]["std"] == pytest.approx(np.std(expected, ddof=1))


def test_all_settings_are_compared_by_the_mean_over_tasks(study: Path) -> None:
    found = statistics(study)
    assert found["metric"] == "task_mean"
    guesses = {"majority", "random"}
    assert set(found["settings"]) == {"tasks-1", "tasks-2", "tasks-3", "tasks-4", "tfidf", *guesses}
    assert [row["a"] for row in found["comparisons"] if row["b"] in guesses] == [found["chosen"]] * 2
    assert not found["not_compared"]
    for name in ("tasks-1", "tasks-4"):
        expected = np.mean([scores(study, name, f"test-{task}") for task in ("one", "two")])
        assert found["settings"][name]["expected"]["mean"] == pytest.approx(expected)


def test_together_against_alone_is_tested_on_the_tasks_own_rows(study: Path) -> None:
    found = statistics(study)["interference"]
    assert [(f["task"], f["setting"], f["single"]) for f in found] == [
        ("one", "tasks-1", "tasks-2"),
        ("two", "tasks-1", "tasks-3"),
    ]
    for facts in found:
        values = {}
        for setting in (facts["setting"], facts["single"]):
            paths = [study / f"runs/{setting}-seed{seed}/values/test-{facts['task']}.tsv" for seed in (0, 1)]
            values[setting] = SeedsByExamples(np.stack([read_values(path)[1]["right"] for path in paths]))
        (expected,) = compare_all(values, CLASS_METRICS["accuracy"], facts["setting"])
        for key in ("difference", "low", "high", "p"):
            assert facts[key] == pytest.approx(getattr(expected, key)), key
    ps = sorted((f["p"], f["p_corrected"]) for f in found)
    assert [corrected for _, corrected in ps] == pytest.approx(
        [min(1, 2 * ps[0][0]), max(min(1, 2 * ps[0][0]), ps[1][0])]
    )


def test_what_is_forgotten(study: Path) -> None:
    (found,) = statistics(study)["forgetting"]
    kept = [json.loads((study / f"runs/tasks-4-seed{seed}/metrics.json").read_text())["forgetting"] for seed in (0, 1)]
    matrices = [one["test"] for one in kept]
    assert found["mean"][1] == pytest.approx(np.mean([m[1] for m in matrices], axis=0).tolist())
    assert found["mean"][0][1] is None
    falls = [m[0][0] - m[1][0] for m in matrices]
    expected = summarise(falls)
    assert found["average"].pop("values") == pytest.approx(expected.pop("values"))
    assert found["average"] == pytest.approx(expected)
    assert f"{abs(np.mean(falls)):.3f}" in found["sentence"]


def test_average_forgetting_by_hand() -> None:
    matrix = [[0.9, None, None], [0.7, 0.8, None], [0.75, 0.5, 0.6]]
    assert average_forgetting(matrix) == pytest.approx(((0.9 - 0.75) + (0.8 - 0.5)) / 2)
    assert average_forgetting([[0.9]]) is None
    assert "0.100 ± 0.010 above" in forgetting_in_words({"mean": -0.1, "std": 0.01, "n": 3}, "test", 2)


def test_the_reports_say_so(study: Path) -> None:
    text = (study / "report.md").read_text()
    for heading in ("## Tasks", "## Interference", "## Forgetting"):
        assert heading in text
    table = text.partition("## Tasks")[2].partition("## ")[0]
    assert table.count("not trained |") == 2
    assert "TF-IDF" in table
    assert all(facts["sentence"] in text for facts in statistics(study)["interference"])
    assert "forgetting-1.png" in {path.name for path in (study / "report").iterdir()}
    run = (study / "runs/tasks-4-seed0/report.md").read_text()
    assert "## Tasks" in run
    assert "## Forgetting" in run
    assert "Each task on dev during training" in run
    assert "## Forgetting" not in (study / "runs/tasks-1-seed0/report.md").read_text()


def test_the_same_request_again_makes_no_run_anew(study: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in study.glob("runs/*/metrics.json")}
    assert len(before) == 8
    stored = json.loads((study / "study.json").read_text())["settings"][0]["recipe"]
    content = make_recipe(stored).identity() | {"study": {"rows": ROWS, "test": "all"}}
    run_study(plan_recipe(make_recipe(content), "tasks", range(2)), study, quiet=True)
    assert {path: path.stat().st_mtime_ns for path in study.glob("runs/*/metrics.json")} == before
