"""Marks that leave a model directory: whole, as the model at the end is, and without a trace in the training."""

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import heedful
from heedful.recipes.schema import Recipe
from heedful.training.run import execute
from tests.support.groups import train_in
from tests.support.killing import step_on_disk
from tests.support.task_samples import FILM, SCORES, tasks_recipe, write_tasks
from tests.support.training_samples import Child, sentences, tiny_recipe, write_csv, write_tiny

MARKS = ["00000004", "00000008", "00000011"]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    write_tiny(folder / "model")
    rows = [(text, f"{sum(map(ord, text)) % 50 / 10}") for text, _ in sentences(52, seed=4)]
    write_csv(folder / "scores.csv", ("text", "label"), rows)
    return folder


def recipe_for(how: str, world: Path, **training: Any) -> Recipe:
    """Scores, which are not calibrated, so that the last mark is the model."""
    model = world / "model/tiny"
    training = {"steps": 11, "mark_steps": 4, "keep": "last", "keep_marks": True, "weight_decay": 0.1, **training}
    if how == "tasks":
        objective = {"train_on": [SCORES]}
        return tasks_recipe(model, write_tasks(world / "tasks"), objective=objective, training=training)
    files = {"train": str(world / "scores.csv"), "text": "text", "label": "label", "kind": "score"}
    tuning = {"merge": True} if how == "merged" else {}
    return tiny_recipe(model, files, "lora" if how == "merged" else how, training=training, tuning=tuning)


def files_of(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize("how", ["full", "frozen", "adapter", "lora", "merged", "tasks"])
def test_the_last_mark_is_the_model(how: str, world: Path, tmp_path: Path) -> None:
    """The rows of the token table that do not occur, merged changes and heads that are left away included."""
    execute(recipe_for(how, world), 7, tmp_path / "run", quiet=True)
    assert sorted(p.name for p in (tmp_path / "run/marks").iterdir()) == MARKS
    model = files_of(tmp_path / "run/model")
    assert files_of(tmp_path / "run/marks" / MARKS[-1]) == model
    assert all(files_of(tmp_path / "run/marks" / mark).keys() == model.keys() for mark in MARKS)
    assert len({json.dumps({k: v.hex() for k, v in files_of(tmp_path / "run/marks" / m).items()}) for m in MARKS}) == 3


def test_they_leave_no_trace_in_the_training(world: Path, tmp_path: Path) -> None:
    for kept in (True, False):
        recipe = recipe_for("full", world, keep_marks=kept)
        execute(recipe, 7, tmp_path / str(kept), quiet=True)
    assert files_of(tmp_path / "True/model") == files_of(tmp_path / "False/model")
    assert (tmp_path / "True/log.jsonl").read_text() == (tmp_path / "False/log.jsonl").read_text()
    assert not (tmp_path / "False/marks").exists()


def test_a_mark_is_the_model_of_a_training_that_is_stopped_there(world: Path, tmp_path: Path) -> None:
    """With a learning rate that does not hang on how long it is; and it can be used, and gone on from."""
    execute(recipe_for("full", world, schedule="constant", warmup=0.0), 7, tmp_path / "long", quiet=True)
    execute(recipe_for("full", world, schedule="constant", warmup=0.0, steps=8), 7, tmp_path / "short", quiet=True)
    mark, short = tmp_path / "long/marks" / MARKS[1], tmp_path / "short/model"
    ours, theirs = (load_file(place / "model.safetensors") for place in (mark, short))
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    scores = [
        heedful.load(place).predict(["a lovely film", "zebra"]).scores for place in (mark, tmp_path / "short/model")
    ]
    assert (scores[0] == scores[1]).all()
    recipe = recipe_for("full", world)
    recipe = recipe.model_copy(update={"model": recipe.model.model_copy(update={"name": str(mark)})})
    assert execute(recipe, 7, tmp_path / "on", quiet=True)["state"] == "done"


@pytest.fixture(scope="module")
def whole(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("whole") / "run"
    execute(recipe_for("full", world), 7, directory, command="test", quiet=True)
    return directory


def test_killed_and_resumed_it_has_the_same_ones(world: Path, whole: Path, tmp_path: Path) -> None:
    directory, draw = tmp_path / "run", random.Random(3)
    for goal in (3, 6, 9):
        child = Child(recipe_for("full", world), 7, directory)
        while child.process.is_alive() and step_on_disk(directory) < goal:
            time.sleep(0.0005)
        time.sleep(draw.uniform(0, 0.02))
        child.kill()
    Child(recipe_for("full", world), 7, directory).finish()
    assert files_of(directory / "marks") == files_of(whole / "marks")
    assert files_of(directory / "model") == files_of(whole / "model")


def test_two_processes_leave_those_of_one(world: Path, tmp_path: Path) -> None:
    for count, cut in ((2, 1), (1, 2)):
        train_in(count, recipe_for("full", world, accumulate=cut), tmp_path / f"{count}/run").finish()
    for mark in MARKS:
        ours, theirs = (load_file(tmp_path / f"{n}/run/marks/{mark}/model.safetensors") for n in (1, 2))
        assert max(float((ours[name] - theirs[name]).abs().max()) for name in ours) < 1e-6
    assert sorted(p.name for p in (tmp_path / "2/run/marks").iterdir()) == MARKS


def test_one_that_is_made_again_forgets_the_old_ones(world: Path, whole: Path, tmp_path: Path) -> None:
    import shutil

    directory = tmp_path / "run"
    shutil.copytree(whole, directory)
    (directory / "marks/00000099").mkdir()
    (directory / "metrics.json").unlink()
    execute(recipe_for("full", world), 7, directory, quiet=True)
    assert sorted(p.name for p in (directory / "marks").iterdir()) == MARKS


def test_heads_that_were_not_trained_stay_in_the_training(world: Path, tmp_path: Path) -> None:
    """They are left away in the mark, and judged at the end all the same."""
    execute(recipe_for("tasks", world), 7, tmp_path / "run", quiet=True)
    assert f"test-{FILM}" in json.loads((tmp_path / "run/metrics.json").read_text())["splits"]
