"""The loop knows neither what is learned nor which weights move; one step of it goes through few files, downwards."""

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import heedful
from heedful.inputs.labelled import LabelledInputs, LabelledSampler
from heedful.objectives.classify import Classify
from heedful.training.loop import Fit, Stopped
from heedful.training.run import execute
from heedful.tuning.full import Full
from tests.support.small_fits import CLASSES, Small, dataset, furthest, recipe_of, sampled_by, small, texts, weights_of
from tests.support.training_samples import read_log, tiny_model, tiny_recipe, write_data, write_tiny

TABLE = "body.embeddings.token.weight"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Any]:
    folder = tmp_path_factory.mktemp("model")
    return lambda: tiny_model(folder, CLASSES)


# Through which files a step goes

STEP_FILES = {
    "training/loop.py",
    "streams.py",
    "objectives/classify.py",
    "evaluation/targets.py",
    "inference/reader.py",
}
"""Those that one training step enters, outside nn/ and models/."""
ROOT = Path(heedful.__file__).parent
LAYERS = ("training", "tuning", "objectives", "inputs", "inference", "models", "evaluation", "nn", "streams.py")
"""From the top; `streams.py` is a leaf."""


class Watcher:
    """Sees every call of a function of ours, and who called it, whatever of other libraries is in between."""

    def __init__(self) -> None:
        self.calls: set[tuple[str, str]] = set()

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        called = self._ours(frame)
        if event == "call" and called is not None:
            caller: FrameType | None = frame.f_back
            while caller is not None and self._ours(caller) is None:
                caller = caller.f_back
            if caller is not None:
                self.calls.add((self._ours(caller) or "", called))

    @staticmethod
    def _ours(frame: FrameType) -> str | None:
        path = Path(frame.f_code.co_filename)
        return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else None

    @property
    def files(self) -> set[str]:
        return {called for _, called in self.calls}


def watched(one: Small, folder: Path) -> Watcher:
    """All that happens in the steps of a fit."""
    watcher, inner = Watcher(), Fit._step

    class Watched(Fit):
        def _step(self, step: Any, lr: float) -> None:
            sys.setprofile(watcher)
            try:
                inner(self, step, lr)
            finally:
                sys.setprofile(None)

    fit = one.fit(folder)
    fit.__class__ = Watched
    steps = fit.run().step
    assert steps >= 9
    return watcher


def layer(file: str) -> int:
    return LAYERS.index(file.split("/")[0])


def upwards(calls: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(caller, called) for caller, called in calls if layer(caller) > layer(called)]


@pytest.mark.parametrize(
    "training", [{}, {"accumulate": 3}, {"batch_tokens": 60}, {"long_texts": "chunk", "max_length": 8}]
)
def test_a_step_enters_five_files_and_never_goes_back_up(
    training: dict[str, Any], models: Callable[[], Any], tmp_path: Path
) -> None:
    one = small(models(), dataset(*texts(24)), recipe_of(training=training), tmp_path / "store")
    seen = watched(one, tmp_path / "fit")
    parts = {file for file in seen.files if file.split("/")[0] in ("nn", "models")}
    assert seen.files - parts == STEP_FILES
    assert len(STEP_FILES) < 6  # one more, where several tasks are mixed
    assert {"models/transformer.py", "nn/attention.py", "nn/blocks.py"} <= parts
    assert not upwards(seen.calls)


def test_a_step_on_a_frozen_body_enters_no_other_file(models: Callable[[], Any], tmp_path: Path) -> None:
    recipe = recipe_of("frozen", training={"batch_size": 2})
    seen = watched(small(models(), dataset(*texts(24)), recipe, tmp_path / "store"), tmp_path / "fit")
    parts = {file for file in seen.files if file.split("/")[0] in ("nn", "models")}
    assert seen.files - parts == STEP_FILES
    assert "nn/blocks.py" not in parts  # the body is not entered
    assert not upwards(seen.calls)


def test_a_call_back_up_would_be_seen(
    models: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: a reader that asks the schedule, and one that asks another room of ours."""
    from heedful.evaluation.metrics import ranks
    from heedful.inference.reader import TextReader
    from heedful.training.schedule import lr_factor

    inner = TextReader.features
    code = compile(
        "def features(self, texts, reads, adapters):\n"
        "    lr_factor(0, 1, 0.0, 'linear'), ranks(zeros)\n"
        "    return inner(self, texts, reads, adapters)",
        str(ROOT / "inference/reader.py"),
        "exec",
    )
    space: dict[str, Any] = {"lr_factor": lr_factor, "ranks": ranks, "inner": inner, "zeros": torch.zeros(2).numpy()}
    exec(code, space)
    monkeypatch.setattr(TextReader, "features", space["features"])
    seen = watched(small(models(), dataset(*texts(24)), recipe_of(), tmp_path / "store"), tmp_path / "fit")
    assert "evaluation/metrics.py" in seen.files
    known = [(a, b) for a, b in seen.calls if "evaluation" not in a + b]
    assert upwards(known) == [("inference/reader.py", "training/schedule.py")]


# What a tuning adds to the loss


class Shrinking(Full):
    """Every weight moves, and the head is pulled towards zero."""

    strength = 0.5

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        head = self.transformer.heads["classify"]
        self.penalty = lambda: self.strength * (head.output.weight**2).sum()  # type: ignore[operator,union-attr]


def test_the_penalty_of_a_tuning_is_part_of_each_step(models: Callable[[], Any], tmp_path: Path) -> None:
    """Against an objective that has the same term in its own loss; and the log tells them apart."""

    class Penalised(Classify):
        def losses(self, reader: Any, *arguments: Any) -> Any:
            for one in super().losses(reader, *arguments):
                penalty = 0.5 * (reader.transformer.heads["classify"].output.weight ** 2).sum()
                yield type(one)(one.loss + penalty, {**one.terms, "penalty": penalty.detach()})

    data, recipe, found = dataset(*texts(24)), recipe_of(training={"mark_steps": 1, "clip": None}), {}
    kinds: dict[str, dict[str, Any]] = {
        "plain": {}, "tuning": {"tuning_class": Shrinking}, "objective": {"objective_class": Penalised},
    }  # fmt: skip
    for name, classes in kinds.items():
        transformer, tokenizer = models()
        one = small((transformer.double(), tokenizer), data, recipe, tmp_path / "store", **classes)
        one.train(tmp_path / name)
        found[name] = weights_of(transformer)
    assert furthest(found["tuning"], found["objective"]) < 1e-9
    assert furthest(found["tuning"], found["plain"]) > 1e-3
    ours, theirs = read_log(tmp_path / "tuning"), read_log(tmp_path / "objective")
    assert len(ours) == 9
    for line, other in zip(ours, theirs, strict=True):
        assert line["terms"].keys() == {"loss", "penalty"}
        assert line["loss"] == pytest.approx(sum(line["terms"].values()), rel=1e-12)
        assert line["terms"] == pytest.approx(other["terms"], rel=1e-9)
    assert not any("terms" in line for line in read_log(tmp_path / "plain"))
    start = models()[0].heads["classify"].output.weight.detach()
    assert ours[0]["terms"]["penalty"] == pytest.approx(0.5 * float((start.double() ** 2).sum()), rel=1e-6)


def test_a_penalty_is_added_once_to_a_step_of_several_parts(models: Callable[[], Any], tmp_path: Path) -> None:
    found = []
    for parts in (1, 3):
        transformer, tokenizer = models()
        for module in transformer.modules():
            if hasattr(module, "p"):
                module.p = 0.0  # dropout is drawn for each part
        recipe = recipe_of(training={"accumulate": parts, "mark_steps": 1})
        one = small(
            (transformer.double(), tokenizer), dataset(*texts(24)), recipe, tmp_path / "store", tuning_class=Shrinking
        )
        transformer.eval()
        one.tuning.train = lambda on: None  # type: ignore[method-assign,misc]
        one.train(tmp_path / str(parts))
        found.append((weights_of(transformer), [line["terms"]["penalty"] for line in read_log(tmp_path / str(parts))]))
    assert furthest(found[0][0], found[1][0]) < 1e-9
    assert found[0][1] == pytest.approx(found[1][1], rel=1e-9)


# The token table


class EverywhereInputs(LabelledInputs):
    """Does not say which ids occur, as with a head that is tied to the table."""

    def token_ids(self) -> None:  # type: ignore[override]
        return None

    def renumber(self, new_id: Any) -> None:
        raise AssertionError("nothing was cut down")


class Everywhere(Classify):
    INPUTS = EverywhereInputs


def test_the_table_stays_whole_for_an_objective_that_reads_all_of_it(models: Callable[[], Any], tmp_path: Path) -> None:
    """And ends as the compact one does, whose unused rows are made up for."""
    data, recipe, found = dataset(*texts(24)), recipe_of(training={"weight_decay": 0.5, "lr": 1e-2}), {}
    for objective in (Classify, Everywhere):
        transformer, tokenizer = models()
        transformer.double()
        one = small((transformer, tokenizer), data, recipe, tmp_path / "store", objective)
        whole = objective is Everywhere
        rows = len(one.tuning.trainable()[TABLE])
        assert (rows == tokenizer.size) == whole
        assert (one.tuning.set_aside == 0) == whole
        assert (rows * 16 + one.tuning.set_aside) == tokenizer.size * 16
        fit = one.fit(tmp_path / objective.__name__)
        progress = fit.run()
        assert any(
            len(p) == rows and p.shape[1] == 16 for g in fit.optimiser.param_groups for p in g["params"] if p.ndim == 2
        )
        one.tuning.finish(progress.decay)
        found[objective] = weights_of(transformer)
        assert found[objective][TABLE].shape == (tokenizer.size, 16)
    assert furthest(found[Classify], found[Everywhere]) < 1e-10


def bodies(*directories: Path) -> list[dict[str, torch.Tensor]]:
    """Without the prefix that goes with some heads."""
    every = [load_file(directory / "model.safetensors") for directory in directories]
    return [{n.removeprefix("bert."): t for n, t in tensors.items() if not n.startswith("cls.")} for tensors in every]


@pytest.mark.parametrize("method", ["frozen", "solved"])
def test_a_body_that_does_not_move_is_saved_to_the_bit(method: str, tmp_path: Path) -> None:
    model = write_tiny(tmp_path / "model")
    execute(tiny_recipe(model, write_data(tmp_path / "data"), method), 7, tmp_path / "run", quiet=True)
    before, after = bodies(model, tmp_path / "run/model")
    shared = [name for name in before if name in after]
    assert any("word_embeddings" in name for name in shared)
    assert len(shared) > 30
    assert all(torch.equal(before[name], after[name]) for name in shared)


def test_a_table_that_trains_moves(tmp_path: Path) -> None:
    """Negative control of the one above: every row, used or not, since all decay."""
    model = write_tiny(tmp_path / "model")
    execute(tiny_recipe(model, write_data(tmp_path / "data"), training={"epochs": 1}), 7, tmp_path / "run", quiet=True)
    before, after = bodies(model, tmp_path / "run/model")
    (name,) = [name for name in before if "word_embeddings" in name]
    assert (before[name] != after[name]).any(1)[1:].all()  # the first is padding


@pytest.mark.parametrize("method", ["frozen", "solved"])
def test_no_table_is_cut_down_where_it_does_not_train(method: str, models: Callable[[], Any], tmp_path: Path) -> None:
    transformer, tokenizer = models()
    one = small((transformer, tokenizer), dataset(*texts(24)), recipe_of(method), tmp_path / "store")
    assert len(transformer.body.embeddings.token.weight) == tokenizer.size
    assert one.tuning.set_aside == 0
    assert all(name.startswith("heads.") for name in one.tuning.trainable())


# What a sampler must remember


class Remembering(LabelledSampler):
    """A stream that is read on from where it was: what it trains on depends on its own place, not on the step."""

    place = 0

    def epoch_steps(self, epoch: int) -> None:  # type: ignore[override]
        return None

    def step(self, number: int, done: float) -> Any:
        count = len(self.inputs.items["train"])
        step = self.inputs.step_of([(self.place * 7 + i * i) % count for i in range(4)])
        self.place += 1 + number % 3
        return step

    def state(self) -> dict[str, Any]:
        return {"place": self.place}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.place = state.get("place", 0)


class Forgetful(Remembering):
    def restore(self, state: Mapping[str, Any]) -> None:
        pass


@pytest.mark.parametrize(("sampler", "same"), [(Remembering, True), (Forgetful, False)])
def test_the_state_of_a_sampler_is_kept(
    sampler: type[Remembering], same: bool, models: Callable[[], Any], tmp_path: Path
) -> None:
    recipe = recipe_of(training={"steps": 9, "checkpoint_seconds": 0})
    found = []
    for name, stops in (("straight", []), ("broken", [2, 5])):
        for stop in [*stops, None]:
            transformer, tokenizer = deepcopy(models())
            one = small((transformer, tokenizer), dataset(*texts(24)), recipe, tmp_path / "store", sampled_by(sampler))
            fit = one.fit(tmp_path / name)
            fit.should_stop = lambda fit=fit, stop=stop: fit.progress.step == stop  # type: ignore[misc]
            if stop is None:
                one.tuning.finish(fit.run().decay)
                found.append(weights_of(transformer))
                continue
            with pytest.raises(Stopped):
                fit.run()
            state = json.loads((tmp_path / name / "checkpoints/state.json").read_text())
            assert state["step"] == stop
            assert state["sampler"]["place"] > 0
    assert (furthest(*found) == 0.0) == same
