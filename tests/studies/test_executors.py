"""The same study one after another, in processes, and interrupted: the same numbers, and nothing done twice."""

import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from heedful.errors import RequestError
from heedful.recipes.reading import make_recipe
from heedful.recipes.schema import Recipe
from heedful.studies.executors import Result, Task, in_processes, in_turn
from heedful.studies.parts import SettingPlan, StudyPlan
from heedful.studies.study import run_study
from tests.support.training_samples import assert_same_run, tiny_recipe, write_data, write_tiny

NAMES = [f"{method}-seed{seed}" for seed in (0, 1) for method in ("frozen", "full")]


@pytest.fixture(scope="module")
def recipes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Recipe]:
    folder = tmp_path_factory.mktemp("world")
    model, data = write_tiny(folder / "model"), write_data(folder / "data")
    return {method: tiny_recipe(model, data, method, training={"threads": None}) for method in ("frozen", "full")}


def plan_of(recipes: dict[str, Recipe]) -> StudyPlan:
    return StudyPlan(tuple(SettingPlan(name, "tiny", name, recipe) for name, recipe in recipes.items()), (0, 1))


@pytest.fixture(scope="module")
def reference(recipes: dict[str, Recipe], tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("reference") / "study"
    run_study(plan_of(recipes), directory, command="x", quiet=True, threads=1)
    return directory


def assert_same_study(a: Path, b: Path) -> None:
    for name in NAMES:
        assert_same_run(a / "runs" / name, b / "runs" / name)
    ours, other = (json.loads((d / "study.json").read_text()) for d in (a, b))
    assert ours["runs"] == other["runs"]
    assert all(run["state"] == "done" for run in ours["runs"])


def test_processes_give_the_same_numbers(recipes: dict[str, Recipe], reference: Path, tmp_path: Path) -> None:
    heard: list[str] = []
    run_study(plan_of(recipes), tmp_path / "study", command="x", quiet=True, executor=in_processes(2), threads=1)
    assert_same_study(tmp_path / "study", reference)
    tasks = [
        Task(n, recipes["full"].model_dump(), 0, str(tmp_path / n), str(tmp_path / "s"), "", None, 1) for n in "ab"
    ]
    found = list(in_processes(2)(tasks, lambda name, news: heard.append(name)))
    assert sorted(r.name for r in found) == ["a", "b"]
    assert set(heard) == {"a", "b"}


class Killer:
    """An executor in processes; one of them is killed as soon as it has news for the `when`-th time."""

    def __init__(self, when: int) -> None:
        self.when, self.killed = when, False

    def __call__(self, tasks: Any, watch: Any) -> Any:
        def watched(name: str, news: dict[str, Any]) -> None:
            self.when -= 1
            if self.when == 0:
                os.kill(next(c.pid for c in multiprocessing.active_children() if c.name == name), signal.SIGKILL)
                self.killed = True

        return in_processes(2)(tasks, watched)


@pytest.mark.parametrize("when", [1, pytest.param(4, marks=pytest.mark.full)])
def test_a_killed_worker_loses_nothing(when: int, recipes: dict[str, Recipe], reference: Path, tmp_path: Path) -> None:
    killer = Killer(when)
    run_study(plan_of(recipes), tmp_path / "study", command="x", quiet=True, executor=killer, threads=1)
    assert killer.killed
    assert_same_study(tmp_path / "study", reference)


DRIVER = """
import json, signal, sys
from pathlib import Path
from heedful.recipes.reading import make_recipe
from heedful.studies.executors import in_processes
from heedful.studies.parts import SettingPlan, StudyPlan
from heedful.studies.study import run_study

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may not hear it
    recipes = {n: make_recipe(r) for n, r in json.loads(sys.argv[1]).items()}
    plan = StudyPlan(tuple(SettingPlan(n, "tiny", n, r) for n, r in recipes.items()), (0, 1))
    run_study(plan, Path(sys.argv[2]), command="x", quiet=True, executor=in_processes(2), threads=1)
"""


def start_driver(recipes: dict[str, Recipe], directory: Path, script: Path) -> subprocess.Popen[bytes]:
    script.write_text(DRIVER)
    content = json.dumps({n: r.model_dump(mode="json", exclude_none=True) for n, r in recipes.items()})
    return subprocess.Popen([sys.executable, str(script), content, str(directory)], start_new_session=True)


def wait_for(path: Path) -> None:
    ends = time.monotonic() + 120
    while not path.exists():
        assert time.monotonic() < ends, f"{path} did not come"
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.full)])
def test_a_stopped_driver_loses_nothing(
    number: int, recipes: dict[str, Recipe], reference: Path, tmp_path: Path
) -> None:
    """Killed or interrupted in the middle: its workers end too, and the same study goes on from there."""
    directory = tmp_path / "study"
    driver = start_driver(recipes, directory, tmp_path / "driver.py")
    wait_for(directory / "runs" / "full-seed0" / "checkpoints" / "state.json")
    driver.send_signal(number)
    assert driver.wait(60) != 0
    ends = time.monotonic() + 30
    while True:  # the workers let go of their runs
        try:
            run_study(plan_of(recipes), directory, command="x", quiet=True, threads=1)
            break
        except RequestError as error:
            if "another process is at work" not in str(error) or time.monotonic() > ends:
                raise
            time.sleep(0.1)
    assert_same_study(directory, reference)


def test_a_study_stopped_in_its_first_run_goes_on(recipes: dict[str, Recipe], reference: Path, tmp_path: Path) -> None:
    def interrupted(tasks: Any, watch: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_study(plan_of(recipes), tmp_path / "study", command="x", quiet=True, executor=interrupted, threads=1)
    run_study(plan_of(recipes), tmp_path / "study", command="x", quiet=True, threads=1)
    assert_same_study(tmp_path / "study", reference)


def test_other_data_are_refused(tmp_path: Path) -> None:
    model, data = write_tiny(tmp_path / "model"), write_data(tmp_path / "data")
    plan = plan_of({"full": tiny_recipe(model, data, training={"epochs": 1})})
    run_study(plan, tmp_path / "study", command="x", quiet=True, threads=1)
    path = Path(data["train"])
    path.write_text(path.read_text() + "a lovely film,good\n")
    more, before = StudyPlan(plan.settings, (0, 1, 2)), (tmp_path / "study/study.json").read_bytes()
    with pytest.raises(RequestError, match=rf"since this study began: train \({re.escape(data['train'])}\); choose"):
        run_study(more, tmp_path / "study", command="y", quiet=True, threads=1)
    assert (tmp_path / "study/study.json").read_bytes() == before


def test_fewer_seeds_count_fewer_runs(recipes: dict[str, Recipe], reference: Path) -> None:
    plan = plan_of(recipes)
    one = run_study(StudyPlan(plan.settings, (0,)), reference, command="x", quiet=True, threads=1)
    assert [run["seed"] for run in one["runs"]] == [0, 0]
    both = run_study(plan, reference, command="x", quiet=True, threads=1)
    assert [run["seed"] for run in both["runs"]] == [0, 0, 1, 1]


def test_what_is_done_is_not_done_again(recipes: dict[str, Recipe], reference: Path) -> None:
    def nothing(tasks: Any, watch: Any) -> Any:
        assert list(tasks) == []
        return iter(())

    before = {p: p.stat().st_mtime_ns for p in reference.glob("runs/*/**/*") if p.is_file()}
    study = run_study(plan_of(recipes), reference, command="x", quiet=True, executor=nothing, threads=1)
    assert [run["state"] for run in study["runs"]] == ["done"] * 4
    assert {p: p.stat().st_mtime_ns for p in reference.glob("runs/*/**/*") if p.is_file()} == before


@pytest.mark.parametrize("executor", [in_turn, in_processes(2)], ids=["in turn", "processes"])
def test_a_run_that_fails_is_recorded_and_the_others_go_on(
    executor: Any, recipes: dict[str, Recipe], tmp_path: Path
) -> None:
    content = recipes["full"].model_dump(exclude_none=True)
    bad = make_recipe({**content, "training": {**content["training"], "lr": 1e30, "clip": 1e30, "warmup": 0.0}})
    plan = plan_of({"bad": bad, "good": recipes["full"]})
    study = run_study(plan, tmp_path / "study", command="x", quiet=True, executor=executor, threads=1)
    states = {run["name"]: run for run in study["runs"]}
    assert states["good-seed0"]["state"] == states["good-seed1"]["state"] == "done"
    assert states["bad-seed0"]["state"] == "failed"
    assert "is not finite" in states["bad-seed0"]["reason"]
    assert (tmp_path / "study" / "best").is_dir()


@pytest.mark.parametrize("executor", [in_turn, in_processes(2)], ids=["in turn", "processes"])
def test_a_wrong_request_is_raised(executor: Any, recipes: dict[str, Recipe], tmp_path: Path) -> None:
    content = recipes["full"].model_dump(exclude_none=True)
    bad = make_recipe({**content, "model": {"name": str(tmp_path / "nothing")}})
    with pytest.raises(RequestError, match="no such directory"):
        run_study(plan_of({"bad": bad}), tmp_path / "study", command="x", quiet=True, executor=executor, threads=1)


def test_a_process_that_always_dies_is_given_up(recipes: dict[str, Recipe], tmp_path: Path) -> None:
    def kill(name: str, news: dict[str, Any]) -> None:
        for child in multiprocessing.active_children():
            if child.pid is not None and child.name == name:
                os.kill(child.pid, signal.SIGKILL)

    content = recipes["full"].model_dump()
    content["training"]["epochs"] = 500
    [found] = in_processes(1)([Task("a", content, 0, str(tmp_path / "a"), str(tmp_path / "s"), "", None, 1)], kill)
    assert isinstance(found, Result)
    assert found.state == "failed"
    assert found.reason is not None
    assert "killed 3 times (signal 9)" in found.reason


def most_at_once(recipes: dict[str, Recipe], folder: Path, names: str, kill_first: bool = False) -> int:
    """How many of these runs were seen at work at the same time, once the last was, after one was killed if wanted."""
    seen: list[int] = []
    killed = not kill_first

    def watch(name: str, news: dict[str, Any]) -> None:
        nonlocal killed
        children = [c for c in multiprocessing.active_children() if c.name in names]
        if not killed:
            os.kill(next(c.pid for c in children if c.name == name), signal.SIGKILL)  # type: ignore[arg-type]
            killed = True
        elif names[-1] in {c.name for c in children} or not kill_first:
            seen.append(len([c for c in children if c.is_alive()]))

    content = recipes["full"].model_dump()
    tasks = [Task(n, content, 0, str(folder / n), str(folder / "s"), "", None, 1) for n in names]
    assert [r.state for r in in_processes(2)(tasks, watch)] == ["done"] * len(names)
    return max(seen)


def test_memory_is_watched(recipes: dict[str, Recipe], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heedful.studies.executors.available_memory", lambda: 20e9)
    assert most_at_once(recipes, tmp_path / "much", "ab") == 2
    monkeypatch.setattr("heedful.studies.executors.available_memory", lambda: 0.5e9)
    assert most_at_once(recipes, tmp_path / "little", "ab") == 1


def test_after_a_kill_fewer_run_at_a_time(recipes: dict[str, Recipe], tmp_path: Path) -> None:
    assert most_at_once(recipes, tmp_path, "abc", kill_first=True) == 1
