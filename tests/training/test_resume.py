"""A run that is killed, at any moment and any number of times, ends as if nothing had happened: equal to the bit."""

import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from heedful.checkpoints.directory import Checkpoint
from heedful.errors import RequestError, WorkError
from heedful.recipes.schema import Recipe
from heedful.storage.runs import finished_run, has_weights
from heedful.training import run as runs
from heedful.training import state as states
from heedful.training.loop import Fit
from heedful.training.run import execute
from tests.support.killing import step_on_disk, survive
from tests.support.training_samples import (
    Child,
    assert_same_run,
    everything_left,
    read_log,
    tiny_recipe,
    write_csv,
    write_data,
    write_tiny,
)

CONFIGURATIONS = [("frozen", 1), ("full", 1), ("frozen", 2), ("full", 2)]
NAMES = [f"{method}-{parts}" for method, parts in CONFIGURATIONS]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Recipe]:
    folder = tmp_path_factory.mktemp("world")
    data, model = write_data(folder / "data"), write_tiny(folder / "model")

    def recipe(method: str = "full", **training: Any) -> Recipe:
        """In two parts, the last weights are kept; else the best."""
        head = {"head": "two-layer"} if method == "frozen" else {}
        decay = {} if method == "frozen" else {"layer_decay": 0.9}
        training = {"keep": "last" if training.get("accumulate") == 2 else "best", **training}
        return tiny_recipe(model, data, method, training=training, model={"dropout": 0.3, **head}, tuning=decay)

    return recipe


@pytest.fixture(scope="module")
def reference(world: Callable[..., Recipe], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int], Path]:
    folder = tmp_path_factory.mktemp("reference")

    def uninterrupted(method: str, parts: int) -> Path:
        directory = folder / f"{method}-{parts}" / "run"
        if not directory.exists():
            Child(world(method, accumulate=parts), 7, directory).finish()
        return directory

    return uninterrupted


@pytest.mark.parametrize(("method", "parts"), [("frozen", 1), ("full", 2)])
def test_killed_three_times(
    method: str, parts: int, world: Callable[..., Recipe], reference: Callable[[str, int], Path], tmp_path: Path
) -> None:
    draw = random.Random(f"{method} {parts}")
    survive(3, world(method, accumulate=parts), tmp_path, reference(method, parts), draw)


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("method", "parts"), CONFIGURATIONS, ids=NAMES)
def test_killed_many_times(
    method: str, parts: int, world: Callable[..., Recipe], reference: Callable[[str, int], Path], tmp_path: Path
) -> None:
    draw = random.Random(f"many {method} {parts}")
    survive(24, world(method, accumulate=parts), tmp_path, reference(method, parts), draw)


class Dead(BaseException):
    """In place of the end of the process: nothing of ours catches it."""


_PLACES = {
    "before the manifest": (runs, "_manifest"),
    "after the manifest": (runs, "_fit"),
    "before the predictions": (runs, "write_outcome"),
    "before the model": (Checkpoint, "write"),
    "after the model": (runs, "_cost"),
    "before tidying up": (runs.shutil, "rmtree"),
}


@pytest.mark.parametrize("place", _PLACES)
@pytest.mark.parametrize("method", ["frozen", "full"])
def test_dead_between_two_steps_of_a_run(
    place: str,
    method: str,
    world: Callable[..., Recipe],
    reference: Callable[[str, int], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The moments that a random kill seldom meets."""

    def die(*_: Any, **__: Any) -> None:
        raise Dead

    directory, recipe = tmp_path / "run", world(method)
    with monkeypatch.context() as patch:
        patch.setattr(*_PLACES[place], die)
        with pytest.raises(Dead):
            execute(recipe, 7, directory, command="test", quiet=True)
    execute(recipe, 7, directory, command="test", quiet=True)
    assert_same_run(directory, reference(method, 1))


def stop_after(step: int, recipe: Recipe, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = Fit._step

    def until(self: Fit, *args: Any) -> None:
        if self.progress.step == step:
            raise Dead
        inner(self, *args)

    with monkeypatch.context() as patch:
        patch.setattr(Fit, "_step", until)
        with pytest.raises(Dead):
            execute(recipe, 7, directory, command="test", quiet=True)


@pytest.mark.parametrize("step", [1, 4, 5, 6, 14])
def test_stopped_after_a_step(
    step: int,
    world: Callable[..., Recipe],
    reference: Callable[[str, int], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In an epoch, at its end, before the last; what was logged after the state was written is logged once."""
    recipe, directory = world("full"), tmp_path / "run"
    stop_after(step, recipe, directory, monkeypatch)
    assert step_on_disk(directory) == step
    assert {p.suffix for p in (directory / "checkpoints").iterdir()} == {".json", ".safetensors"}  # nothing pickled
    with (directory / "log.jsonl").open("a") as log:
        log.write('{"half a line')
    execute(recipe, 7, directory, command="test", quiet=True)
    assert_same_run(directory, reference("full", 1))


@pytest.mark.parametrize(
    ("key", "parts"),
    [
        ("step", 1),
        ("losses", 1),
        ("best", 1),
        ("best_decay", 1),
        ("marks", 1),
        ("log_bytes", 1),
        ("tokens", 1),
        ("forward_flops", 1),
        ("decay", 2),
        ("losses", 2),
    ],
)
def test_a_state_that_lacks_a_part_would_be_noticed(
    key: str,
    parts: int,
    world: Callable[..., Recipe],
    reference: Callable[[str, int], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Negative control of all the tests here."""
    recipe, directory = world("full", accumulate=parts), tmp_path / "run"
    stop_after(13, recipe, directory, monkeypatch)
    state = json.loads((directory / "checkpoints/state.json").read_text())
    del state[key]
    (directory / "checkpoints/state.json").write_text(json.dumps(state))
    with pytest.raises((AssertionError, KeyError, TypeError)):  # noqa: PT012 (whichever of the two notices)
        execute(recipe, 7, directory, command="test", quiet=True)
        assert_same_run(directory, reference("full", parts))


_CALLER = """
import sys
from pathlib import Path
from heedful.recipes.reading import read_recipe
from heedful.training.run import execute
try:
    execute(read_recipe(sys.argv[1]), 7, Path(sys.argv[2]), command="test")
except KeyboardInterrupt:
    sys.exit(130)
"""


def test_ctrl_c(world: Callable[..., Recipe], reference: Callable[[str, int], Path], tmp_path: Path) -> None:
    from tests.support.recipe_files import write_recipe

    path, directory = write_recipe(tmp_path / "recipe.toml", world("full")), tmp_path / "run"
    child = subprocess.Popen(
        [sys.executable, "-c", _CALLER, str(path), str(directory)],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    end = time.monotonic() + 60
    while not (directory / "checkpoints").exists() and time.monotonic() < end:
        time.sleep(0.001)
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=60)
    assert child.returncode == 130
    step = json.loads((directory / "checkpoints/state.json").read_text())["step"]
    assert f"stopped at step {step}; run the same command to resume" in said
    assert "Traceback" not in said
    Child(world("full"), 7, directory).finish()
    assert_same_run(directory, reference("full", 1))


def test_a_finished_run_is_left_as_it_is(world: Callable[..., Recipe], reference: Callable[[str, int], Path]) -> None:
    directory = reference("full", 1)
    before = {p: p.stat().st_mtime_ns for p in directory.rglob("*")}
    manifest = execute(world("full"), 7, directory, quiet=True)
    assert manifest["state"] == "done"
    assert {p: p.stat().st_mtime_ns for p in directory.rglob("*")} == before


@pytest.mark.parametrize("damage", ["metrics.json", "model/model.safetensors"])
def test_a_finished_run_that_is_damaged_is_made_again(
    damage: str, world: Callable[..., Recipe], reference: Callable[[str, int], Path], tmp_path: Path
) -> None:
    directory = tmp_path / "run"
    shutil.copytree(reference("full", 1), directory)
    (directory / damage).write_bytes((directory / damage).read_bytes()[:-9])
    execute(world("full"), 7, directory, command="test", quiet=True)
    assert_same_run(directory, reference("full", 1))


def test_what_a_finished_run_says_it_has_left_must_be_there(
    reference: Callable[[str, int], Path], tmp_path: Path
) -> None:
    directory = tmp_path / "run"
    shutil.copytree(reference("full", 1), directory)
    cost = json.loads((directory / "manifest.json").read_text())["cost"]
    assert cost["model_bytes"] == sum(p.stat().st_size for p in (directory / "model").rglob("*") if p.is_file())
    assert 0 < cost["prediction_seconds"] < 60
    names = ["predictions/dev.tsv", "predictions/test.tsv", "values/dev.tsv", "values/test.tsv"]
    model = [p.relative_to(directory).as_posix() for p in (directory / "model").rglob("*") if p.is_file()]
    assert {"model/model.safetensors", "model/config.json", "model/tokenizer.json"} < set(model)
    for name in [*names, *model]:
        whole = (directory / name).read_bytes()
        for damage in (lambda path: path.unlink(), lambda path, w=whole: path.write_bytes(w[:-3])):
            damage(directory / name)
            assert finished_run(directory) is None, name
            (directory / name).write_bytes(whole)
            assert finished_run(directory) is not None
    whole = (directory / "model/model.safetensors").read_bytes()
    for broken in (b"", whole[:5], b"\xff" * 16, whole + b"x", whole[:8] + b"[" + whole[9:]):
        (directory / "model/model.safetensors").write_bytes(broken)
        assert not has_weights(directory / "model")


def test_a_directory_of_another_run_is_refused(
    world: Callable[..., Recipe], reference: Callable[[str, int], Path], tmp_path: Path
) -> None:
    directory = reference("full", 1)
    before = everything_left(directory)
    with pytest.raises(RequestError, match=r"a different recipe or seed"):
        execute(world("full"), 8, directory, quiet=True)
    with pytest.raises(RequestError, match=r"a different recipe or seed"):
        execute(world("full", lr=1e-3), 7, directory, quiet=True)
    assert everything_left(directory) == before
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.tex").write_text("…")
    with pytest.raises(RequestError, match="not a run"):
        execute(world("full"), 7, tmp_path / "mine", quiet=True)
    assert [p.name for p in (tmp_path / "mine").iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"format": 99}', '{"format": 1}', '{"format": 2}'])
def test_a_damaged_manifest_is_refused(content: str, world: Callable[..., Recipe], tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(RequestError, match=r"manifest\.json: (damaged|was written by another version)"):
        execute(world("full"), 7, tmp_path, quiet=True)


@pytest.mark.parametrize("method", ["frozen", "full"])
def test_data_that_changed_in_between_is_refused(
    method: str, world: Callable[..., Recipe], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = write_data(tmp_path / "data")
    recipe = world(method)
    recipe = recipe.model_copy(update={"data": recipe.data.model_copy(update=data)})
    directory = tmp_path / "run"
    stop_after(3, recipe, directory, monkeypatch)
    write_csv(tmp_path / "data/train.csv", ("text", "label"), [(f"other words {i}", "ab"[i % 2]) for i in range(30)])
    with pytest.raises(RequestError, match=r"data.*changed"):
        execute(recipe, 7, directory, quiet=True)
    assert json.loads((directory / "checkpoints/state.json").read_text())["step"] == 3


def test_a_model_that_changed_in_between_is_refused(
    world: Callable[..., Recipe], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, directory = world("full"), tmp_path / "run"
    model = write_tiny(tmp_path / "model")
    recipe = recipe.model_copy(update={"model": recipe.model.model_copy(update={"name": str(model)})})
    stop_after(3, recipe, directory, monkeypatch)
    write_tiny(tmp_path / "model", inner=32)
    with pytest.raises(RequestError, match=r"the model has changed since this run began"):
        execute(recipe, 7, directory, quiet=True)
    assert step_on_disk(directory) == 3


def test_the_seconds_of_all_sittings_count(
    world: Callable[..., Recipe], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "run"
    stop_after(3, world("full"), directory, monkeypatch)
    state = json.loads((directory / "checkpoints/state.json").read_text())
    assert state["total_seconds"] > state["seconds"] > 0
    state["total_seconds"] += 1000
    (directory / "checkpoints/state.json").write_text(json.dumps(state))
    cost = execute(world("full"), 7, directory, quiet=True)["cost"]
    assert 1000 + cost["training_seconds"] < cost["total_seconds"] < 1100


def test_the_thread_count_of_the_first_sitting_is_kept(
    world: Callable[..., Recipe], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, directory = world("full"), tmp_path / "run"
    recipe = recipe.model_copy(update={"training": recipe.training.model_copy(update={"threads": None})})
    torch.set_num_threads(2)
    try:
        stop_after(3, recipe, directory, monkeypatch)
        torch.set_num_threads(1)
        inner, used = runs._fit, []
        monkeypatch.setattr(runs, "_fit", lambda *a: used.append(torch.get_num_threads()) or inner(*a))
        manifest = execute(recipe, 7, directory, quiet=True)
        assert used == [2]
        assert torch.get_num_threads() == 1  # as it was before
    finally:
        torch.set_num_threads(1)
    assert manifest["threads"] == 2


def test_a_full_disk(world: Callable[..., Recipe], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state before is untouched, and the run goes on from it when there is room."""
    directory, calls = tmp_path / "run", itertools.count()

    def full(tensors: Any, path: Path) -> None:
        if next(calls) == 7:  # the second file of the fourth state
            path.write_bytes(b"half")
            raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")
        save_file(tensors, path)

    with monkeypatch.context() as patch:
        patch.setattr(states, "save_file", full)
        with pytest.raises(WorkError, match=r"checkpoints: could not be written \(.*No space left"):
            execute(world("full"), 7, directory, quiet=True)
    assert step_on_disk(directory) == 3
    assert execute(world("full"), 7, directory, quiet=True)["state"] == "done"


def change_manifest(directory: Path, change: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((directory / "manifest.json").read_text())
    change(manifest)
    (directory / "manifest.json").write_text(json.dumps(manifest))
    return manifest


def test_the_manifest_has_the_numbers_of_its_format_and_its_engine(reference: Callable[[str, int], Path]) -> None:
    manifest = json.loads((reference("full", 1) / "manifest.json").read_text())
    assert (manifest["format"], manifest["engine"]) == (2, 3) == (runs.FORMAT, runs.ENGINE)


@pytest.mark.parametrize("engine", [1, 2, None])
def test_an_unfinished_run_of_another_engine_is_refused(
    engine: int | None, world: Callable[..., Recipe], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its steps lead to other bits: the rest would be a mixture."""
    recipe, directory = world("full"), tmp_path / "run"
    stop_after(3, recipe, directory, monkeypatch)

    def another(manifest: dict[str, Any]) -> None:
        manifest.update(engine=engine, heedful="0.0.7")
        if engine is None:
            del manifest["engine"]

    change_manifest(directory, another)
    before = {p: p.read_bytes() for p in directory.rglob("*") if p.is_file()}
    with pytest.raises(RequestError, match=r"was started with heedful 0\.0\.7\. ") as caught:
        execute(recipe, 7, directory, quiet=True)
    assert str(caught.value).startswith(f"{directory}: ")
    assert str(caught.value).endswith("or choose another directory with --out.")
    assert {p: p.read_bytes() for p in directory.rglob("*") if p.is_file()} == before


def test_a_finished_run_of_another_engine_is_left_as_it_is(
    world: Callable[..., Recipe], reference: Callable[[str, int], Path], tmp_path: Path
) -> None:
    directory = tmp_path / "run"
    shutil.copytree(reference("full", 1), directory)
    written = change_manifest(directory, lambda manifest: manifest.update(engine=99))
    before = {p: p.stat().st_mtime_ns for p in directory.rglob("*")}
    assert execute(world("full"), 7, directory, quiet=True) == written
    assert {p: p.stat().st_mtime_ns for p in directory.rglob("*")} == before


@pytest.mark.parametrize(
    "lacks",
    [
        [("training", "steps"), ("training", "mark_steps"), ("training", "mark_tokens")],
        [("objective", "class_weights"), ("evaluation", "test"), ("data", "redraw")],
        [("objective",), ("tokenizer",), ("format",)],
    ],
)
def test_an_unfinished_run_of_a_version_with_fewer_keys_goes_on(
    lacks: list[tuple[str, ...]],
    world: Callable[..., Recipe],
    reference: Callable[[str, int], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it does not say has its default, and leads to the same bits."""
    recipe, directory = world("full"), tmp_path / "run"
    stop_after(7, recipe, directory, monkeypatch)

    def without(manifest: dict[str, Any]) -> None:
        for *tables, key in lacks:
            table = manifest["recipe"]
            for name in tables:
                table = table[name]
            del table[key]

    older = change_manifest(directory, without)["recipe"]
    with pytest.raises(RequestError, match="a different recipe or seed"):
        execute(world("full", mark_steps=2), 7, directory, quiet=True)
    execute(recipe, 7, directory, command="test", quiet=True)
    assert change_manifest(directory, lambda manifest: None)["recipe"] == older  # it stays as it was begun
    whole = json.loads((reference("full", 1) / "manifest.json").read_text())["recipe"]
    change_manifest(directory, lambda manifest: manifest.update(recipe=whole))
    assert_same_run(directory, reference("full", 1))


def test_the_log_has_each_step_once(reference: Callable[[str, int], Path]) -> None:
    log = read_log(reference("full", 1))
    assert [(line["step"], "dev" in line) for line in log] == [(s, d) for s in (5, 10, 15) for d in (False, True)]
    assert [line["epoch"] for line in log] == [1, 1, 2, 2, 3, 3]
