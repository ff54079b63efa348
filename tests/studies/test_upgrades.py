"""Later versions know more keys: a study that was begun before them is read, reported and continued."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import heedful
from heedful.errors import RequestError
from heedful.report.study import write_reports
from heedful.studies.plan import plan_recipe
from heedful.studies.study import run_study
from tests.support.training_samples import tiny_recipe, write_data, write_tiny


def without_new_keys(content: Any) -> Any:
    """As a version would have written it that did not know these keys."""
    if isinstance(content, dict):
        new = {"mark_steps", "mark_tokens", "steps", "reinit_layers", "class_weights"}
        return {key: without_new_keys(value) for key, value in content.items() if key not in new}
    return [without_new_keys(one) for one in content] if isinstance(content, list) else content


def rewrite(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**without_new_keys(json.loads(path.read_text())), **changes}))


@pytest.fixture
def older(tmp_path: Path) -> tuple[Any, Path]:
    """A finished study with one seed, as an earlier version would have left it."""
    recipe = tiny_recipe(write_tiny(tmp_path / "model"), write_data(tmp_path / "data"), training={"epochs": 1})
    directory = tmp_path / "study"
    run_study(plan_recipe(recipe, "r", (0,)), directory, command="x", quiet=True)
    for path in (directory / "study.json", directory / "runs/r-seed0/manifest.json"):
        rewrite(path, heedful="0.1.9")
    return recipe, directory


def test_an_older_study_is_reported_and_continued(older: tuple[Any, Path]) -> None:
    recipe, directory = older
    write_reports(directory)
    assert heedful.results(directory).table[0]["n"] == 1
    before = (directory / "runs/r-seed0/metrics.json").stat().st_mtime_ns
    study = run_study(plan_recipe(recipe, "r", (0, 1)), directory, command="x", quiet=True)
    assert [(run["name"], run["state"]) for run in study["runs"]] == [("r-seed0", "done"), ("r-seed1", "done")]
    assert (directory / "runs/r-seed0/metrics.json").stat().st_mtime_ns == before  # it was not made again


def test_another_value_is_another_study(older: tuple[Any, Path]) -> None:
    recipe, directory = older
    other = recipe.model_copy(update={"training": recipe.training.model_copy(update={"mark_steps": 2})})
    with pytest.raises(RequestError, match="contains a different study"):
        run_study(plan_recipe(other, "r", (0,)), directory, command="x", quiet=True)


def test_another_format_is_refused_in_words(older: tuple[Any, Path]) -> None:
    recipe, directory = older
    rewrite(directory / "study.json", format=1)
    with pytest.raises(RequestError, match=r"study\.json: has format 1, and this version writes 2; choose another"):
        run_study(plan_recipe(recipe, "r", (0,)), directory, command="x", quiet=True)
    with pytest.raises(RequestError, match="has format 1, this heedful reads format 2; run it again"):
        write_reports(directory)


def test_runs_of_another_engine_or_torch_are_not_joined(older: tuple[Any, Path]) -> None:
    recipe, directory = older
    manifest = directory / "runs/r-seed0/manifest.json"
    before = json.loads(manifest.read_text())
    for change in ({"engine": 0}, {"versions": {**before["versions"], "torch": "1.0"}}):
        manifest.write_text(json.dumps({**before, **change}))
        with pytest.raises(RequestError, match=r"r-seed0 was made with heedful 0\.1\.9 and torch"):
            run_study(plan_recipe(recipe, "r", (0, 1)), directory, command="x", quiet=True)
        run_study(plan_recipe(recipe, "r", (0,)), directory, command="x", quiet=True)  # nothing is to be made
    manifest.write_text(json.dumps(before))
    run_study(plan_recipe(recipe, "r", (0, 1)), directory, command="x", quiet=True)


def test_runs_of_a_model_that_has_changed_are_not_joined(older: tuple[Any, Path]) -> None:
    recipe, directory = older
    write_tiny(Path(recipe.model.name).parent, inner=32)
    for seeds in ((0, 1), (0,)):  # whether or not something is still to be made
        with pytest.raises(RequestError, match="has changed since r-seed0 was made"):
            run_study(plan_recipe(recipe, "r", seeds), directory, command="x", quiet=True)
    shutil.rmtree(recipe.model.name)  # one that is gone has not changed
    assert run_study(plan_recipe(recipe, "r", (0,)), directory, command="x", quiet=True)["runs"][0]["state"] == "done"


def test_a_run_that_was_damaged_is_made_again_and_never_published(older: tuple[Any, Path]) -> None:
    recipe, directory = older
    weights = directory / "runs/r-seed0/model/model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-50])
    run_study(plan_recipe(recipe, "r", (0,)), directory, command="x", quiet=True)
    assert weights.read_bytes() == (directory / "best/model.safetensors").read_bytes() == whole
