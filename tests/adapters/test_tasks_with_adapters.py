"""Several tasks and adapters: one for each task forgets nothing, one for all is shared, what lies below is kept."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heedful
from heedful.recipes.reading import make_recipe
from heedful.storage.shared import SharedStore
from heedful.training.assembly import assemble, read_source
from heedful.training.run import execute
from tests.support.task_samples import tasks_recipe, write_tasks
from tests.support.training_samples import write_tiny


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("tasks")
    return {"model": write_tiny(folder / "model"), "tables": write_tasks(folder), "runs": folder / "runs"}


def run(world: dict[str, Any], name: str, tuning: dict[str, Any], **objective: Any) -> Path:
    directory: Path = world["runs"] / name
    if not directory.exists():
        recipe = tasks_recipe(world["model"], world["tables"], "full", objective=objective)
        execute(make_recipe({**recipe.identity(), "tuning": tuning}), 5, directory, command="test", quiet=True)
    return directory


@pytest.mark.parametrize("method", ["adapter", "lora"])
def test_an_adapter_for_each_task_forgets_nothing(method: str, world: dict[str, Any]) -> None:
    directory = run(world, f"{method}-in-turn", {"method": method, "per_task": True}, sampling="in-turn")
    metrics = json.loads((directory / "metrics.json").read_text())
    matrix = metrics["forgetting"]["test"]
    tasks = metrics["forgetting"]["tasks"]
    for task in range(len(tasks)):
        scores = [row[task] for row in matrix if row[task] is not None]
        assert len(scores) == len(tasks) - task
        assert len(set(scores)) == 1, tasks[task]
    model = heedful.load(directory / "model")
    assert set(model.adapters) == set(tasks)
    assert {name: head.adapters for name, head in model.transformer.head_shapes.items()} == {t: t for t in tasks}
    texts = ["a gem of a film", "cold", "a long middle part"]
    single = [name for name in tasks if model.transformer.head_shapes[name].of_pairs is False]
    for name in single:
        first = model.predict(texts, head=name).probabilities
        for other in single:
            model.predict(texts, head=other)  # switching leaves nothing behind
        assert np.array_equal(model.predict(texts, head=name).probabilities, first)


def test_with_every_weight_moving_something_is_forgotten(world: dict[str, Any]) -> None:
    directory = run(world, "full-in-turn", {"method": "full"}, sampling="in-turn")
    matrix = json.loads((directory / "metrics.json").read_text())["forgetting"]["test"]
    assert any(len({row[task] for row in matrix if row[task] is not None}) > 1 for task in range(len(matrix) - 1))


def test_one_adapter_for_all(world: dict[str, Any]) -> None:
    directory = run(world, "shared", {"method": "adapter", "name": "all"}, sampling="uniform")
    model = heedful.load(directory / "model")
    assert model.adapters == ("all",)
    assert {head.adapters for head in model.transformer.head_shapes.values()} == {"all"}


def test_what_lies_below_is_kept_for_every_task(world: dict[str, Any], tmp_path: Path) -> None:
    recipe = tasks_recipe(world["model"], world["tables"], "full", objective={"sampling": "uniform"})
    recipe = make_recipe({**recipe.identity(), "tuning": {"method": "adapter", "per_task": True, "layers": [-1]}})
    store = SharedStore(tmp_path)
    parts = assemble(read_source(recipe, 5, store), store)
    lower = parts.tuning.reader.lower
    assert lower is not None
    assert {name.partition("-")[0] for name in lower.arrays} == {"train", "dev", "test"}
    assert len(lower.arrays) == 3 * len(world["tables"])
