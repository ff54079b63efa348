"""The typed records of what is on disk: what is read of them, and that they know every key that is written."""

import json
from pathlib import Path
from typing import Any

import pytest

from heedful.storage.record import Record
from heedful.storage.run_record import Manifest, Metrics, Scores
from heedful.storage.runs import read_run, read_study
from heedful.storage.schema import FILES, page
from heedful.studies.plan import plan_comparison
from heedful.studies.study import run_study
from heedful.training.run import execute
from tests.support.training_samples import tiny_recipe, write_data, write_tiny


def test_what_has_another_type_is_left_out() -> None:
    manifest = Manifest.model_validate(
        {
            "seed": "one",
            "threads": True,
            "data": {"labels": ["a", 3], "sizes": {"train": 5, "dev": "many", "test": 1e999}, "tasks": [1]},
            "metrics": [{"name": "loss", "higher_is_better": False}, 3],
            "cost": 7,
            "model": {"parameters": {"total": 2.5, "trainable": None}},
        }
    )
    assert (manifest.seed, manifest.threads, manifest.cost.flops) == (None, None, None)
    assert (manifest.data.labels, manifest.data.sizes, manifest.data.tasks) == (["a", "3"], {"train": 5}, {})
    assert [one.name for one in manifest.metrics] == ["loss"]
    assert (manifest.model.parameters.total, manifest.model.parameters.trainable) == (2.5, None)


def test_earlier_versions_have_stated_defaults() -> None:
    manifest = Manifest.model_validate({"format": 2, "seed": 0, "recipe": {"model": {"name": "tiny"}}})
    assert (manifest.processes, manifest.files, manifest.asked.training.keep) == (1, {}, "best")
    assert (manifest.asked.model.name, manifest.state) == ("tiny", "done")


def test_keys_of_others_are_kept() -> None:
    """What is written again is what was read, to the last key."""
    content = {"primary": "mine", "splits": {"dev": {"mine": 0.5, "n": 3, "deep": {"x": [1]}}}, "mine": {"y": None}}
    metrics = Metrics.model_validate(content)
    assert metrics.written == content
    scores = metrics.splits["dev"]
    assert (scores.number("mine"), scores.n, scores.number("deep"), scores.number("missing")) == (0.5, 3, None, None)


def test_a_record_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Manifest().seed = 3  # type: ignore[misc]


def _unknown(record: Record, where: str) -> list[str]:
    """Every key in a record, and in the records in it, that no type speaks of."""
    found = [f"{where}.{key}" for key in record.extra]
    for name in type(record).model_fields:
        value: Any = getattr(record, name)
        inner = value if isinstance(value, list) else value.values() if isinstance(value, dict) else [value]
        found += [key for one in inner if isinstance(one, Record) for key in _unknown(one, f"{where}.{name}")]
    return found


def test_every_key_that_a_run_writes_has_a_type(tmp_path: Path) -> None:
    recipe = tiny_recipe(write_tiny(tmp_path / "model"), write_data(tmp_path), evaluation={"baselines": True})
    execute(recipe, 0, tmp_path / "run", quiet=True)
    run = read_run(tmp_path / "run")
    assert _unknown(run.manifest, "manifest") == []
    open_keys = {*run.scores("test").extra, "dev", "test"}  # metrics, and evaluation sets
    assert {key.rpartition(".")[2] for key in _unknown(run.metrics, "metrics")} <= open_keys
    assert all(run.scores(name).number("accuracy") is not None for name in ("dev", "test"))
    assert run.baseline("tfidf").tested
    assert run.scores("elsewhere") == Scores()
    assert [key for line in run.log for key in line.extra] == []


def test_every_key_that_a_study_writes_has_a_type(tmp_path: Path) -> None:
    files, model = write_data(tmp_path / "data"), str(write_tiny(tmp_path / "model"))
    plan = plan_comparison(files, [model], ["full"], (0, 1), {"training": {"epochs": 1, "max_length": 16}})
    run_study(plan, tmp_path / "study", quiet=True)
    study = read_study(tmp_path / "study")
    written = json.loads((tmp_path / "study" / "study.json").read_text())
    assert study.record.written == written
    open_keys = {key for row in study.record.table for key in row.extra} | {"dev", "test"}
    open_keys |= {
        key for one in study.record.baselines.values() for scores in one.sets.values() for key in scores.extra
    }
    assert {key.partition(".")[2].partition(".")[2] for key in _unknown(study.record, "study")} <= open_keys
    assert sorted(set(_unknown(study.statistics, "statistics"))) == []
    assert study.statistics.written == json.loads((tmp_path / "study" / "statistics.json").read_text())


def test_the_page_of_the_docs_is_in_step() -> None:
    docs = Path(__file__).parents[2] / "docs"
    assert page() + "\n" == (docs / "records.md").read_text(encoding="utf-8"), (
        "run python -m heedful.storage.schema > docs/records.md"
    )


@pytest.mark.parametrize("name", FILES)
def test_every_file_has_a_schema_that_needs_no_key(name: str) -> None:
    schema = FILES[name].model_json_schema()
    assert schema["properties"]
    assert schema["additionalProperties"]
    assert "required" not in schema
