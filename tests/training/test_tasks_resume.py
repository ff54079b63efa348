"""Runs on several tasks that are killed, within a stage or at its end, and go on: equal to the bit."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_resume import Dead, step_on_disk, stop_after

from heedful.recipes.schema import Recipe
from heedful.training.loop import Fit
from heedful.training.run import execute
from tests.support.task_samples import FILM, SCORES, tasks_recipe, write_tasks
from tests.support.training_samples import Child, assert_same_run, write_tiny

ENDS = (10, 22, 32)
"""Of the stages: two epochs each."""
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "mixed": ("full", {"sampling": "annealed", "weights": {FILM: 2.0}}, {"accumulate": 2}),
    "in-turn": ("full", {"sampling": "in-turn"}, {}),
    "in-turn-last": ("full", {"sampling": "in-turn", "train_on": [SCORES, FILM]}, {"keep": "last", "mark_steps": 3}),
    "in-turn-frozen": ("frozen", {"sampling": "in-turn"}, {}),
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Recipe]:
    folder = tmp_path_factory.mktemp("world")
    tasks, model = write_tasks(folder), write_tiny(folder / "model")

    def recipe(case: str) -> Recipe:
        how, objective, training = CASES[case]
        training = {"epochs": 2, "weight_decay": 0.1, **training}
        return tasks_recipe(model, tasks, how, objective=objective, training=training, model={"dropout": 0.3})

    return recipe


@pytest.fixture(scope="module")
def whole(world: Callable[[str], Recipe], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    folder = tmp_path_factory.mktemp("whole")

    def uninterrupted(case: str) -> Path:
        directory = folder / case / "run"
        if not directory.exists():
            execute(world(case), 7, directory, command="test", quiet=True)
        return directory

    return uninterrupted


@pytest.mark.parametrize("case", CASES)
def test_stopped_within_a_stage_and_at_its_end(
    case: str,
    world: Callable[[str], Recipe],
    whole: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Again and again: within a stage, at the end of the first, right after it, at or before the end of the next."""
    directory = tmp_path / "run"
    for step in (4, 12, 13, 21) if case == "in-turn-last" else (4, ENDS[0], ENDS[0] + 1, ENDS[1]):
        stop_after(step, world(case), directory, monkeypatch)
        assert step_on_disk(directory) == step
    state = json.loads((directory / "checkpoints/state.json").read_text())
    if case == "in-turn":
        judged = [[name for name in stage["judged"] if name.startswith("test-")] for stage in state["stages"]]
        assert [len(names) for names in judged] == [1, 2]
        assert state["best"] is None  # the next stage finds its own
    execute(world(case), 7, directory, command="test", quiet=True)
    assert_same_run(directory, whole(case))


def test_dead_between_the_end_of_a_stage_and_its_state(
    world: Callable[[str], Recipe], whole: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stage was judged and logged, and nobody knows: it is done once more, and logged once."""
    inner = Fit._save

    def save(self: Fit) -> None:
        if self.progress.step == ENDS[0]:
            raise Dead
        inner(self)

    with monkeypatch.context() as patch:
        patch.setattr(Fit, "_save", save)
        with pytest.raises(Dead):
            execute(world("in-turn"), 7, tmp_path / "run", command="test", quiet=True)
    assert step_on_disk(tmp_path / "run") == ENDS[0] - 1
    execute(world("in-turn"), 7, tmp_path / "run", command="test", quiet=True)
    assert_same_run(tmp_path / "run", whole("in-turn"))


@pytest.mark.parametrize("case", ["in-turn", pytest.param("mixed", marks=pytest.mark.full)])
def test_killed(case: str, world: Callable[[str], Recipe], whole: Callable[[str], Path], tmp_path: Path) -> None:
    directory = tmp_path / "run"
    for goal in (3, ENDS[0], ENDS[1] - 1):
        child = Child(world(case), 7, directory)
        while child.process.is_alive() and step_on_disk(directory) < goal:
            time.sleep(0.0005)
        assert child.kill()
    Child(world(case), 7, directory).finish()
    assert_same_run(directory, whole(case))
