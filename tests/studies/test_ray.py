"""A study on a Ray cluster of two local nodes: the same numbers as here, whatever is killed meanwhile."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from heedful.errors import RequestError
from heedful.recipes.schema import Recipe
from heedful.studies.executors import Task, executor_for
from heedful.studies.study import run_study
from tests.support.training_samples import tiny_recipe, write_data, write_tiny

from test_executors import assert_same_study, plan_of  # isort: skip (a neighbour)

LONG = {"threads": None, "epochs": 40, "checkpoint_seconds": 5.0}
DRIVER = """
import json, signal, sys
from pathlib import Path
from heedful.recipes.reading import make_recipe
from heedful.studies.executors import executor_for
from heedful.studies.parts import SettingPlan, StudyPlan
from heedful.studies.study import run_study

signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may not hear it
recipes = {n: make_recipe(r) for n, r in json.loads(sys.argv[1]).items()}
plan = StudyPlan(tuple(SettingPlan(n, "tiny", n, r) for n, r in recipes.items()), (0, 1))
run_study(plan, Path(sys.argv[2]), command="x", **executor_for("ray", None, 4)._asdict())
"""


def test_a_place_that_is_none() -> None:
    with pytest.raises(RequestError, match="use ray, or ray://"):
        executor_for("slurm", None, 2)


def test_without_ray_there_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(RequestError, match=r"pip install .heedful\[ray\]"):
        executor_for("ray", None, 2)


@pytest.fixture(scope="module")
def recipes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Recipe]:
    folder = tmp_path_factory.mktemp("world")
    model, data = write_tiny(folder / "model"), write_data(folder / "data")
    return {method: tiny_recipe(model, data, method, training=LONG) for method in ("frozen", "full")}


@pytest.fixture(scope="module")
def reference(recipes: dict[str, Recipe], tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("reference") / "study"
    run_study(plan_of(recipes), directory, command="x", quiet=True, threads=1)
    return directory


@pytest.fixture
def cluster() -> Iterator[Any]:
    """Two nodes of one core each; the second can be lost."""
    pytest.importorskip("ray", reason="heedful[ray] is not installed")
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    made.second = made.add_node(num_cpus=1)
    yield made
    made.shutdown()


def start(recipes: dict[str, Recipe], directory: Path, cluster: Any) -> subprocess.Popen[str]:
    import json

    content = json.dumps({n: r.model_dump(mode="json", exclude_none=True) for n, r in recipes.items()})
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, content, str(directory)],
        env={**os.environ, "RAY_ADDRESS": cluster.address},
        cwd=directory.parent,
        start_new_session=True,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_until_two_are_at_work(directory: Path) -> list[str]:
    ends = time.monotonic() + 120
    while True:
        found = [p.parents[1].name for p in directory.glob("runs/*/checkpoints/state.json")]
        if len(found) == 2:
            return found
        assert time.monotonic() < ends, "no two runs were at work at once"
        time.sleep(0.02)


def end(driver: subprocess.Popen[str]) -> str:
    _, said = driver.communicate(timeout=200)
    assert driver.returncode == 0, said
    return said


def finished(directory: Path) -> dict[str, int]:
    """When the manifest of each finished run was written."""
    found = {p.parent.name: p for p in directory.glob("runs/*/manifest.json")}
    return {n: p.stat().st_mtime_ns for n, p in found.items() if '"state": "done"' in p.read_text()}


def workers_of(run: str) -> list[int]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            title = (process / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if title.startswith("ray::") and run in title:
            found.append(int(process.name))
    return found


@pytest.mark.full
def test_two_nodes_give_the_same_numbers(
    recipes: dict[str, Recipe], reference: Path, tmp_path: Path, cluster: Any
) -> None:
    driver = start(recipes, tmp_path / "study", cluster)
    wait_until_two_are_at_work(tmp_path / "study")  # both nodes have one
    said = end(driver)
    assert_same_study(tmp_path / "study", reference)
    first, *others = said.splitlines()
    assert first.startswith("4 runs: about ")
    for line in others:  # nothing of Ray's own
        assert line.split(":")[0] in {f"{m}-seed{s}" for m in recipes for s in (0, 1)}, line
    assert "epoch 40" in said


@pytest.mark.full
@pytest.mark.parametrize("what", ["worker", "node", "driver"])
def test_kills_lose_nothing(
    what: str, recipes: dict[str, Recipe], reference: Path, tmp_path: Path, cluster: Any
) -> None:
    directory = tmp_path / "study"
    driver = start(recipes, directory, cluster)
    names = wait_until_two_are_at_work(directory)
    before = finished(directory)
    if what == "worker":
        (pid,) = workers_of(names[0])
        os.kill(pid, signal.SIGKILL)
    elif what == "node":
        (raylet,) = cluster.second.all_processes["raylet"]
        os.kill(raylet.process.pid, signal.SIGKILL)
    else:
        driver.kill()
        driver.communicate()
        driver = start(recipes, directory, cluster)
    end(driver)
    assert_same_study(directory, reference)
    after = finished(directory)
    assert {n: after[n] for n in before} == before  # what was done was not done again


@pytest.mark.full
def test_ctrl_c_saves_and_the_same_line_goes_on(
    recipes: dict[str, Recipe], reference: Path, tmp_path: Path, cluster: Any
) -> None:
    directory = tmp_path / "study"
    driver = start(recipes, directory, cluster)
    names = wait_until_two_are_at_work(directory)
    driver.send_signal(signal.SIGINT)
    driver.communicate(timeout=120)
    assert driver.returncode != 0
    assert not [pid for name in names for pid in workers_of(name)]
    run_study(plan_of(recipes), directory, command="x", quiet=True, threads=1)
    assert_same_study(directory, reference)


@pytest.mark.full
def test_no_cluster_there(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="heedful[ray] is not installed")
    model, data = write_tiny(tmp_path / "model"), write_data(tmp_path / "data")
    line = ["compare", data["train"], "--text", "text", "--label", "label", "--models", str(model), "--seeds", "1"]
    line += ["--on", "ray://127.0.0.1:1", "--out", str(tmp_path / "study")]
    found = subprocess.run([sys.executable, "-m", "heedful", *line], capture_output=True, text=True, timeout=200)
    assert found.returncode == 2
    assert "no Ray cluster answers there" in found.stderr
    assert len(found.stderr.strip().splitlines()) == 1


@pytest.mark.full
def test_mistakes_are_told(recipes: dict[str, Recipe], tmp_path: Path, cluster: Any) -> None:
    import ray

    try:
        ray.init(cluster.address, log_to_driver=False, logging_level="ERROR")
        executor = executor_for("ray", 1, 1)[0]
        elsewhere = task(recipes["full"], tmp_path / "nowhere" / "study")
        with pytest.raises(RequestError, match=r"does not see .*nowhere"):
            list(executor([elsewhere], lambda *_: None))
        wrong = tiny_recipe(tmp_path / "no-model", {"train": "none.csv", "text": "t", "label": "l"})
        with pytest.raises(RequestError, match=r"none\.csv"):
            list(executor([task(wrong, tmp_path)], lambda *_: None))
    finally:
        ray.shutdown()


def task(recipe: Recipe, folder: Path) -> Task:
    content = recipe.model_dump(exclude={"seeds", "study"})
    return Task("a", content, 0, str(folder / "runs" / "a"), str(folder / ".shared"), "", None, 1)
