"""One subject: the setting that is best on dev is chosen, judged and shipped; baselines that are models compete."""

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import heedful
from heedful.errors import RequestError
from heedful.studies.executors import Result
from heedful.studies.parts import StudyPlan, choose
from heedful.studies.plan import plan_comparison
from heedful.studies.study import run_study
from tests.support.training_samples import write_data, write_tiny


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> StudyPlan:
    """A tiny model that learns nothing at this rate: TF-IDF is better on dev."""
    folder = tmp_path_factory.mktemp("outcome")
    files, model = write_data(folder / "data"), str(write_tiny(folder))
    changes = {"training": {"epochs": 1, "lr": 1e-7, "max_length": 16}}
    return plan_comparison(files, [model], ["full"], (0, 1), changes)


@pytest.fixture(scope="module")
def study(plan: StudyPlan, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    run_study(plan, folder, quiet=True)
    return folder


def read(study: Path, name: str) -> Any:
    return json.loads((study / f"{name}.json").read_text())


def test_a_baseline_may_be_chosen_and_is_then_what_is_shipped(study: Path) -> None:
    facts, statistics = read(study, "study"), read(study, "statistics")
    assert facts["chosen"] == {"setting": "tfidf", "seed": None}
    assert statistics["chosen"] == statistics["abstention"]["setting"] == statistics["doubtful"]["setting"] == "tfidf"
    score = next(row["test_mean"] for row in facts["table"] if row["setting"] == "tfidf")
    assert statistics["abstention"]["chosen_on"] == "dev"
    assert statistics["abstention"]["rows"][0]["accuracy"] == pytest.approx(score)
    assert statistics["doubtful"]["agreed_wrong"] == round((1 - score) * statistics["examples"])
    assert read(study / "best", "config") == read(study / "baselines" / "tfidf", "config")
    best = heedful.load(study / "best").predict(["a gem of a film"])
    assert best.labels[0] in ("good", "bad")


def test_every_row_of_the_table_has_its_interval_from_the_statistics(study: Path) -> None:
    rows, settings = read(study, "study")["table"], read(study, "statistics")["settings"]
    assert {row["setting"] for row in rows} == set(settings) - {"majority", "random"} == {"tfidf", "tiny-full"}
    for row in rows:
        expected = settings[row["setting"]]["expected"]
        assert (row["test_low"], row["test_high"]) == (expected["low"], expected["high"])
        assert row["test_mean"] == pytest.approx(expected["mean"])
        assert row["baseline"] is settings[row["setting"]]["baseline"] is (row["setting"] == "tfidf")
        assert (study / row["model_directory"] / "config.json").is_file()
        assert row["model_bytes"] > 0
        assert row["prediction_seconds"] > 0
    with (study / "table.csv").open() as file:
        assert [row["setting"] for row in csv.DictReader(file)] == [row["setting"] for row in rows]


def test_where_nothing_can_be_chosen_any_more_there_is_no_best(plan: StudyPlan, study: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    shutil.copytree(study, again)
    for path in again.glob("runs/*/metrics.json"):
        path.unlink()
    found = run_study(plan, again, quiet=True, executor=lambda tasks, _: (Result(t.name, "failed", "") for t in tasks))
    assert "chosen" not in found
    assert "chosen" not in read(again, "study")
    assert not (again / "best").exists()


def test_a_setting_does_not_bear_the_name_of_a_baseline(plan: StudyPlan, tmp_path: Path) -> None:
    named = replace(plan, settings=(replace(plan.settings[0], name="tfidf"),))
    with pytest.raises(RequestError, match=r"tfidf: is also the name of a baseline; rename the recipe\."):
        run_study(named, tmp_path / "study", quiet=True)


def test_of_several_that_are_level_on_dev_the_simplest_is_chosen() -> None:
    rows = [
        {"setting": "full", "dev_mean": 0.75, "higher_is_better": True, "baseline": False, "random": True},
        {"setting": "frozen", "dev_mean": 0.75, "higher_is_better": True, "baseline": False, "random": False},
        {"setting": "tfidf", "dev_mean": 0.75, "higher_is_better": True, "baseline": True, "random": False},
    ]
    for count, simplest in ((1, "full"), (2, "frozen"), (3, "tfidf")):
        best = choose(rows[:count])
        assert best is not None
        assert best["setting"] == simplest
