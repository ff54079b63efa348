"""Two processes are one: gradients, loss terms and weights, whatever is learned; and what ends one of them."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from heedful.errors import RequestError, WorkError
from heedful.recipes.reading import make_recipe
from heedful.recipes.schema import Recipe
from heedful.studies import executors
from heedful.studies.executors import executor_for, in_processes
from heedful.training import loop
from heedful.training.processes import Processes, join
from heedful.training.run import execute
from tests.support.corpus_samples import NOUNS, write_text
from tests.support.groups import Group, run_and_note, train_in
from tests.support.killing import step_on_disk
from tests.support.recipe_files import write_recipe
from tests.support.task_samples import FILM, tasks_recipe, write_tasks
from tests.support.toy_world import TOYS, install_toys
from tests.support.training_samples import (
    assert_same_run,
    read_log,
    sentences,
    tiny_recipe,
    write_csv,
    write_data,
    write_tiny,
)
from tests.support.translation_samples import translation

STEPS = 5


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    write_tiny(folder / "model")
    install_toys(folder)
    return folder


def recipe_for(case: str, world: Path, **training: Any) -> dict[str, Any]:
    """Dropout is on in all of them; a step is small, or in more parts than it has rows."""
    model = world / "model/tiny"
    head: dict[str, Any] = {"dropout": 0.3}
    training = {"steps": STEPS, "mark_steps": 1, "batch_size": 7, **training}
    rows = [(text, f"{sum(map(ord, text)) % 50 / 10}") for text, _ in sentences(30, seed=4)]
    both = [(a, b, y) for (a, y), (b, _) in zip(rows, rows[1:] + rows[:1], strict=True)]
    if case == "tasks":
        objective = {"sampling": "uniform", "weights": {FILM: 2.0}}
        tasks = write_tasks(world / "tasks")
        recipe = tasks_recipe(model, tasks, objective=objective, training=training, model=head)
    elif case == "lines":
        objective, tuning = {"kind": "lines", "warm_weight": 0.25}, {"method": "tethered", "pull": 0.5}
        content = {"model": {"name": str(model)}, "data": {"train": str(world / "lines.txt")}, "objective": objective}
        training = {**training, "lr": 3e-3, "threads": 1, "device": "cpu"}
        return {**content, "tuning": tuning, "training": training}
    elif case in WORDS:
        return words_recipe(case, world, training)
    elif case in TRANSLATORS:
        model = {"body_dropout": 0.3}
        return translation(TRANSLATORS[case], world, training=training, model=model).model_dump(exclude_none=True)
    elif case in ("scores", "towers"):
        head |= {"pairs": "towers"} if case == "towers" else {}
        path = write_csv(world / f"{case}.csv", ("text", "b", "label"), both)
        files = {"train": str(path), "text": "text", "label": "label", "kind": "score"}
        files |= {"pair": "b"} if case == "towers" else {}
        recipe = tiny_recipe(model, files, training=training, model=head)
    else:
        objective = {"class_weights": "balanced"}
        recipe = tiny_recipe(model, write_data(world / "data"), training=training, model=head, objective=objective)
    return recipe.model_dump(exclude_none=True)


WORDS: dict[str, dict[str, Any]] = {
    "mask": {"kind": "mask"},
    "mask-alone": {"kind": "mask", "next_sentence": False, "pack": True, "whole_words": True},
    "causal": {"kind": "causal"},
    "span": {"kind": "span", "style": "sentinels", "pack": True},
    "one-span": {"kind": "span"},
    "answer": {"kind": "answer", "reading": 0.5},
    "recall": {"kind": "answer", "reading": 0.5, "recall": True},
}
"""The objectives that ask for words."""


TRANSLATORS = {"translate": "encoder-decoder", "fused": "bert-fused", "recurrent": "recurrent"}
"""Kinds of models that translate, by case."""


def words_recipe(case: str, world: Path, training: dict[str, Any]) -> dict[str, Any]:
    corpus = write_text(world / "corpus.txt")
    small = {"layers": 2, "width": 32, "heads": 2, "positions": 128}
    masked = case.startswith("mask")
    model = {"shape": "bert-tiny"} if masked else {"shape": "gpt-mini", "attention": "rotary"}
    data: dict[str, Any] = {"corpus": str(corpus)}
    if case in ("answer", "recall"):
        questions = [f"Where is well{i}?\t{noun}\n" for i, noun in enumerate(NOUNS)]
        if case == "recall":
            documents = [f"well{i}. It is beside the {noun}." for i, noun in enumerate(NOUNS)]
            (world / "wells.txt").write_text("\n".join(documents) + "\n")
            data = {"corpus": str(world / "wells.txt")}
        (world / "questions.tsv").write_text("".join(questions))
        data |= {"train": str(world / "questions.tsv"), "dev": str(world / "questions.tsv")}
    kind = {"kind": "wordpiece", "size": 300} if masked else {"kind": "characters"}
    training = {**training, "lr": 1e-3, "max_length": 96, "threads": 1, "device": "cpu"}
    content = {"model": {**model, **small}, "tokenizer": kind, "data": data, "objective": WORDS[case]}
    return {**content, "training": training}


def gradients_in_child(content: dict[str, Any], toys: list[str], folder: str) -> None:
    """The gradient of every step as it is before it is clipped, and the log, in double precision."""
    sys.path[:0] = toys
    from heedful.storage.shared import SharedStore
    from heedful.training.assembly import assemble, read_source

    recipe, group, out = make_recipe(content), join(), Path(folder)
    out.mkdir(exist_ok=True)
    store = SharedStore(out / "store")
    parts = assemble(read_source(recipe, 7, store), store)
    parts.checkpoint.module.double()
    found: dict[str, torch.Tensor] = {}
    fit = loop.Fit(
        objective=parts.objective, inputs=parts.inputs, sampler=parts.sampler, evaluator=parts.evaluator,
        tuning=parts.tuning, training=recipe.training, seed=7, directory=out, judge=None,
        watch=lambda *_: None, should_stop=lambda: False, group=group,
    )  # fmt: skip
    inner = torch.nn.utils.get_total_norm

    def norm(gradients: Any) -> torch.Tensor:
        step = fit.progress.step
        found.update({f"{step}.{n}": p.grad.clone() for n, p in fit.parameters.items() if p.grad is not None})
        return inner(gradients)

    torch.nn.utils.get_total_norm = norm  # type: ignore[assignment]
    fit.run()
    save_file({n: t.contiguous() for n, t in found.items()}, f"{folder}-{group.rank}.safetensors")


CASES = {
    "classes": {},
    "classes-3": {"accumulate": 3},
    "classes-few": {"batch_size": 1},  # one process has nothing to do
    "scores": {},
    "towers": {},
    "tasks": {"accumulate": 3},
    "lines": {},
    **{case: {} for case in WORDS},
    **{case: {} for case in TRANSLATORS},
}


@pytest.mark.parametrize("case", CASES)
def test_two_processes_have_the_gradients_of_one(case: str, world: Path, tmp_path: Path) -> None:
    toys = [str(world / "site"), str(TOYS)]
    for count in (1, 2):
        cut = {"accumulate": 2} if count == 1 else {}
        named = case if case in WORDS else case.split("-")[0]
        content = recipe_for(named, world, **{**cut, **CASES[case]})  # type: ignore[dict-item]
        assert case not in WORDS or content["objective"] == WORDS[case]
        Group(count, gradients_in_child, content, toys, str(tmp_path / str(count))).finish()
    one, two, other = (load_file(tmp_path / f"{name}.safetensors") for name in ("1-0", "2-0", "2-1"))
    assert len({name.split(".")[0] for name in one}) == STEPS
    assert one.keys() == two.keys() == other.keys()  # and those without a gradient are the same
    assert max(float((one[n] - two[n]).abs().max()) for n in one) < 1e-10
    assert max(float(g.abs().max()) for g in one.values()) > 1e-3
    assert all(torch.equal(two[n], other[n]) for n in two)
    log, log_of_two = read_log(tmp_path / "1"), read_log(tmp_path / "2")
    assert len(log) == len(log_of_two) == STEPS
    for line, of_two in zip(log, log_of_two, strict=True):
        assert line.pop("terms", {}) == pytest.approx(of_two.pop("terms", {}), abs=1e-10)
        assert line == pytest.approx(of_two, abs=1e-10)


def test_the_comparison_would_show_another_dropout(world: Path, tmp_path: Path) -> None:
    """Negative control: one process that does not cut its steps draws other numbers."""
    for name, count, cut in (("1", 1, 1), ("2", 2, 2)):
        content = recipe_for("classes", world, accumulate=cut)
        Group(count, gradients_in_child, content, [], str(tmp_path / name)).finish()
    one, two = (load_file(tmp_path / f"{name}-0.safetensors") for name in ("1", "2"))
    assert max(float((one[n] - two[n]).abs().max()) for n in one) > 1e-3


# Whole runs


@pytest.fixture(scope="module")
def recipe(world: Path) -> Callable[..., Recipe]:
    data = write_data(world / "runs")

    def make(how: str = "full", **training: Any) -> Recipe:
        return tiny_recipe(
            world / "model/tiny", data, how, training=training, model={} if how == "solved" else {"dropout": 0.3}
        )

    return make


@pytest.fixture(scope="module")
def by_two(recipe: Callable[..., Recipe], tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("whole") / "run"
    train_in(2, recipe(), directory).finish()
    return directory


def weights_apart(a: Path, b: Path) -> float:
    ours, theirs = (load_file(directory / "model/model.safetensors") for directory in (a, b))
    assert ours.keys() == theirs.keys()
    return max(float((ours[n] - theirs[n]).abs().max()) for n in ours)


def test_two_processes_end_with_the_weights_of_one(recipe: Callable[..., Recipe], by_two: Path, tmp_path: Path) -> None:
    train_in(1, recipe(accumulate=2), tmp_path / "run").finish()
    assert weights_apart(by_two, tmp_path / "run") < 1e-6
    ours, theirs = (json.loads((d / "manifest.json").read_text()) for d in (by_two, tmp_path / "run"))
    assert (ours["processes"], ours["parts"]) == (2, 2)
    assert (theirs["processes"], "parts" in theirs) == (1, False)
    assert ours["cost"]["tokens"] == theirs["cost"]["tokens"]
    assert ours["cost"]["flops"] == theirs["cost"]["flops"]
    logs = [read_log(directory) for directory in (by_two, tmp_path / "run")]
    assert [line["step"] for line in logs[0]] == [line["step"] for line in logs[1]]
    for line, other in zip(*logs, strict=True):
        assert line.get("loss", 0) == pytest.approx(other.get("loss", 0), rel=1e-5)
        assert line.get("dev", {}) == pytest.approx(other.get("dev", {}), rel=1e-5)
    assert sorted(p.name for p in by_two.iterdir()) == sorted(p.name for p in (tmp_path / "run").iterdir())


def test_stages_and_marks_by_two(world: Path, tmp_path: Path) -> None:
    """One task after another, each judged: what hangs on a judgement is the same in both processes."""
    tasks = write_tasks(world / "in-turn")
    training = {"steps": 8, "mark_steps": 2, "batch_size": 8}
    for count, cut in ((2, 1), (1, 2)):
        table = {**training, "accumulate": cut}
        recipe = tasks_recipe(world / "model/tiny", tasks, objective={"sampling": "in-turn"}, training=table)
        train_in(count, recipe, tmp_path / f"{count}/run").finish()
    assert weights_apart(tmp_path / "2/run", tmp_path / "1/run") < 1e-6
    metrics = [json.loads((tmp_path / f"{count}/run/metrics.json").read_text()) for count in (1, 2)]
    assert metrics[0]["forgetting"]["tasks"] == metrics[1]["forgetting"]["tasks"]


def test_a_head_that_is_solved_is_solved_by_the_first(recipe: Callable[..., Recipe], tmp_path: Path) -> None:
    for count in (1, 2):
        train_in(count, recipe("solved"), tmp_path / f"{count}/run").finish()
    assert_same_run(tmp_path / "1/run", tmp_path / "2/run", but_for=("processes",))


def kill_after(step: int, recipe: Recipe, directory: Path) -> None:
    group = train_in(2, recipe, directory)
    end = time.monotonic() + 60
    while group.alive and step_on_disk(directory) < step and time.monotonic() < end:
        time.sleep(0.0005)
    assert group.kill()


def test_killed_and_resumed_to_the_bit(recipe: Callable[..., Recipe], by_two: Path, tmp_path: Path) -> None:
    for step in (2, 8):
        kill_after(step, recipe(), tmp_path / "run")
        assert step_on_disk(tmp_path / "run") >= step
    train_in(2, recipe(), tmp_path / "run").finish()
    assert_same_run(tmp_path / "run", by_two)


@pytest.mark.full
@pytest.mark.timeout(900)
def test_killed_many_times(recipe: Callable[..., Recipe], by_two: Path, tmp_path: Path) -> None:
    import random

    draw, kills = random.Random(1), 0
    for life in range(40):
        directory = tmp_path / str(life) / "run"
        for _ in range(6):
            group = train_in(2, recipe(), directory)
            goal, end = step_on_disk(directory) + draw.randint(0, 4), time.monotonic() + 30
            while group.alive and step_on_disk(directory) < goal and time.monotonic() < end:
                time.sleep(0.0005)
            time.sleep(draw.uniform(0, 0.05))
            kills += group.kill()
        train_in(2, recipe(), directory).finish()
        assert_same_run(directory, by_two)
        if kills >= 24:
            return
    raise AssertionError(f"every run ended before it could be killed, but for {kills}")


def test_a_finished_run_is_left_as_it_is(recipe: Callable[..., Recipe], by_two: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in by_two.rglob("*")}
    train_in(2, recipe(), by_two).finish()
    assert {path: path.stat().st_mtime_ns for path in by_two.rglob("*")} == before


def test_another_number_of_processes_is_refused(recipe: Callable[..., Recipe], tmp_path: Path) -> None:
    kill_after(2, recipe(), tmp_path / "run")
    before = step_on_disk(tmp_path / "run")
    with pytest.raises(RequestError, match="was started with 2 processes, here there are 1"):
        execute(recipe(), 7, tmp_path / "run", quiet=True)
    assert step_on_disk(tmp_path / "run") == before


# What ends one of them


def ended(directory: Path) -> list[str]:
    return [directory.with_name(f"ended-{rank}").read_text() for rank in (0, 1)]


def noted(recipe: Recipe, directory: Path) -> Group:
    directory.parent.mkdir(exist_ok=True)
    return Group(2, run_and_note, recipe.model_dump(exclude_none=True), str(directory))


@pytest.mark.parametrize("asked", [0, 1])
def test_ctrl_c_in_one_process_stops_both(
    asked: int, recipe: Callable[..., Recipe], by_two: Path, tmp_path: Path
) -> None:
    group, directory = noted(recipe(), tmp_path / "run"), tmp_path / "run"
    end = time.monotonic() + 60
    while step_on_disk(directory) < 3 and time.monotonic() < end:
        time.sleep(0.001)
    os.kill(group.processes[asked].pid, signal.SIGINT)
    group.finish()
    assert ended(directory) == ["KeyboardInterrupt: "] * 2
    assert 3 <= step_on_disk(directory) < 15
    train_in(2, recipe(), directory).finish()
    assert_same_run(directory, by_two)


def test_a_loss_that_is_not_finite_in_one_process_stops_both(world: Path, tmp_path: Path) -> None:
    """A score too large to be squared is in the part of one of them."""
    rows = [(text, "1e30" if i == 3 else f"{i % 7}") for i, (text, _) in enumerate(sentences(40))]
    path = write_csv(tmp_path / "scores.csv", ("text", "label"), rows)
    files = {"train": str(path), "dev": str(path), "test": str(path), "text": "text", "label": "label"}
    recipe = tiny_recipe(world / "model/tiny", {**files, "kind": "score"}, training={"epochs": 1})
    noted(recipe, tmp_path / "run").finish()
    first, second = ended(tmp_path / "run")
    assert first == second
    assert first.startswith("StepError: step ")
    assert "the loss is not finite, so the step was not made (rows " in first
    assert "model" not in {p.name for p in (tmp_path / "run").iterdir()}


def failing_study_in_child(recipe: str, out: str) -> None:
    import heedful

    try:
        study = heedful.run(recipe, seeds=[0, 1], out=out)
        said = str(study.directory)
    except WorkError as error:
        said = str(error)
    Path(f"{out}-{os.environ['RANK']}").write_text(said)


def test_a_run_that_is_refused_a_step_does_not_stop_the_next(world: Path, tmp_path: Path) -> None:
    rows = [(text, "1e30" if i == 3 else f"{i % 7}") for i, (text, _) in enumerate(sentences(40))]
    path = write_csv(tmp_path / "scores.csv", ("text", "label"), rows)
    files = {"train": str(path), "dev": str(path), "test": str(path), "text": "text", "label": "label"}
    recipe = tiny_recipe(world / "model/tiny", {**files, "kind": "score"}, training={"epochs": 1})
    write_recipe(tmp_path / "odd.toml", recipe)
    Group(2, failing_study_in_child, str(tmp_path / "odd.toml"), str(tmp_path / "study")).finish()
    first, second = ((tmp_path / f"study-{rank}").read_text() for rank in (0, 1))
    assert first.startswith("2 of 2 runs failed; odd-seed0: step ")
    assert second == str(tmp_path / "study")


@pytest.mark.parametrize("killed", [0, 1])
def test_a_process_that_is_lost_is_noticed(killed: int, recipe: Callable[..., Recipe], tmp_path: Path) -> None:
    group = noted(recipe(epochs=200), tmp_path / "run")
    end = time.monotonic() + 60
    while step_on_disk(tmp_path / "run") < 2 and time.monotonic() < end:
        time.sleep(0.001)
    group.processes[killed].kill()
    assert group.codes(30)[1 - killed] == 0
    said = (tmp_path / f"ended-{1 - killed}").read_text()
    assert said.startswith("PeerError: another process of this training has ended")


@pytest.mark.timeout(240)
def test_the_command_under_torchrun(recipe: Callable[..., Recipe], by_two: Path, tmp_path: Path) -> None:
    """A study of two seeds; a mistake is one sentence, said once."""
    write_recipe(tmp_path / "tiny.toml", recipe())

    def heedful_by_two(*arguments: str) -> tuple[int, str]:
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        done = subprocess.run(
            [*torchrun, "-m", "heedful", "run", "tiny.toml", *arguments],
            cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False,
            env={**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    code, said = heedful_by_two("--out", "study", "--set", "seeds=[3, 7]")
    assert code == 0, said
    assert said.count("report  ") == 1
    assert "Traceback" not in said
    ours = tmp_path / "study/runs/tiny-seed7"
    assert weights_apart(ours, by_two) == 0.0
    assert [json.loads((run / "manifest.json").read_text())["processes"] for run in (ours, by_two)] == [2, 2]
    code, said = heedful_by_two("--out", "study", "--workers", "2")
    assert code != 0
    assert said.count("heedful: --workers") == 1


def study_in_child(recipe: str, out: str) -> None:
    import heedful

    study = heedful.run(recipe, seeds=[3, 7], out=out)
    Path(f"{out}-{os.environ['RANK']}").write_text(f"{study.directory} {len(study.runs)}")


@pytest.mark.full
def test_a_script_under_torchrun_gets_the_study_in_every_process(
    recipe: Callable[..., Recipe], by_two: Path, tmp_path: Path
) -> None:
    write_recipe(tmp_path / "tiny.toml", recipe())
    Group(2, study_in_child, str(tmp_path / "tiny.toml"), str(tmp_path / "study")).finish()
    assert {(tmp_path / f"study-{rank}").read_text() for rank in (0, 1)} == {f"{tmp_path / 'study'} 2"}
    assert weights_apart(tmp_path / "study/runs/tiny-seed7", by_two) == 0.0


def test_processes_do_not_share_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(RequestError, match="torchrun started 2 processes here, but there is one GPU; start fewer"):
        Processes(0, 2).check(torch.device("cuda"))
    Processes(0, 2).check(torch.device("cpu"))
    Processes().check(torch.device("cuda"))


def test_workers_and_clusters_are_refused_beside_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "join", lambda: Processes(0, 2))
    with pytest.raises(RequestError, match=r"^--workers cannot be combined with torchrun"):
        executor_for(None, 2, 4)
    with pytest.raises(RequestError, match=r"^--on cannot be combined with torchrun"):
        executor_for("ray", None, 4)
    with pytest.raises(RequestError, match="workers cannot be combined with torchrun"):
        list(in_processes(2)([], lambda *_: None))
    assert executor_for(None, None, 4).at_once == 1
