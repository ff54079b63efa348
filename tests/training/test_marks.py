"""Marks: where a run is judged, may be stopped and keeps its best weights, by epochs, steps or tokens."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from heedful.errors import RequestError
from heedful.evaluation.metrics import METRICS
from heedful.inputs.labelled import LabelledSampler
from heedful.objectives.classify import Classify
from heedful.recipes.schema import Recipe, TrainingTable
from heedful.training import run as runs
from heedful.training.loop import Fit
from heedful.training.outcome import dev_judge
from heedful.training.progress import Lines
from heedful.training.run import execute
from heedful.training.schedule import Schedule, make_schedule
from tests.support.small_fits import CLASSES, Small, dataset, furthest, recipe_of, sampled_by, small, texts, weights_of
from tests.support.training_samples import read_log, tiny_model, tiny_recipe, write_data, write_tiny

ROWS = 40  # in steps of 8: an epoch is 5


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Any]:
    folder = tmp_path_factory.mktemp("model")
    return lambda: tiny_model(folder, CLASSES)


@pytest.fixture
def make(models: Callable[[], Any], tmp_path: Path) -> Callable[..., Small]:
    def build(objective: type[Classify] = Classify, **training: Any) -> Small:
        return small(models(), dataset(*texts(ROWS)), recipe_of(training=training), tmp_path / "store", objective)

    return build


def says(*scores: float) -> Callable[[int], dict[str, Any]]:
    left = iter(scores)
    return lambda stage: {"score": next(left), "metrics": {"accuracy": 0.5}}


@pytest.mark.parametrize(
    ("scores", "marks", "best"),
    [
        ([0, 0, 0, 0, 0.3, 0.3, 0.2], 7, 5),  # it begins late, and is stopped two marks after its best
        ([0, 0.3, 0, 0], 4, 2),  # who falls back has begun
        ([0] * 7, 7, 7),  # who never begins is trained to the end, and keeps its last weights
        ([math.nan, math.nan, math.nan, 0.1, 0.1, 0.1], 6, 4),
    ],
)
def test_patience_waits_until_something_is_learned(
    scores: list[float], marks: int, best: int, make: Callable[..., Small], tmp_path: Path
) -> None:
    left = iter(scores)

    def judge(stage: int) -> dict[str, Any]:
        score = next(left)
        return {"score": score, "begun": score > 0, "metrics": {"accuracy": 0.5}}

    progress = make(mark_steps=2, steps=14, patience=2).train(tmp_path / "fit", judge)
    assert (progress.marks, progress.best["mark"]) == (marks, best)


@pytest.mark.parametrize(
    ("metric", "value", "begun"),
    [("accuracy", 0.0, False), ("accuracy", 0.1, True), ("matthews", 0.0, False), ("matthews", -0.1, True),
     ("log_loss", 9.0, True), ("mse", 0.0, True), ("accuracy", None, False)],
)  # fmt: skip
def test_what_nothing_learned_scores(metric: str, value: float | None, begun: bool) -> None:
    class Says:
        metrics = tuple(METRICS.values())

        def sets(self) -> dict[str, bool]:
            return {"dev": True}

        def evaluate(self, *_: Any) -> Any:
            return SimpleNamespace(metrics={metric: value})

        def selection_score(self, scores: dict[str, Any], asked: Any, stage: int) -> float | None:
            return scores[asked.name]

    says = Says()
    parts: Any = SimpleNamespace(
        evaluator=says, data=says, inputs=None, tuning=SimpleNamespace(reader=None, solve=None)
    )
    judge = dev_judge(recipe_of(evaluation={"metric": metric}), parts)
    assert judge is not None
    assert judge(0)["begun"] is begun


def always(stage: int = 0) -> dict[str, Any]:
    return {"score": 0.5, "metrics": {"accuracy": 0.5}}


def places(folder: Path) -> list[tuple[int, int, float]]:
    return [(line["step"], line["mark"], line["epoch"]) for line in read_log(folder) if "dev" in line]


BY_EPOCH = [(5, 1, 1), (10, 2, 2), (15, 3, 3)]


@pytest.mark.parametrize(
    ("training", "expected"),
    [
        ({}, BY_EPOCH),
        ({"mark_steps": 4}, [(4, 1, 0.8), (8, 2, 1.6), (12, 3, 2.4), (15, 4, 3)]),
        ({"mark_steps": 5}, BY_EPOCH),  # the end is one mark, not two
        ({"mark_steps": 100}, [(15, 1, 3)]),
        ({"steps": 12}, [(5, 1, 1), (10, 2, 2), (12, 3, 2.4)]),  # it ends inside an epoch
        ({"steps": 3}, [(3, 1, 0.6)]),
        ({"steps": 5}, [(5, 1, 1)]),
        ({"steps": 7, "mark_steps": 3}, [(3, 1, 0.6), (6, 2, 1.2), (7, 3, 1.4)]),
        ({"steps": 20}, [(5, 1, 1), (10, 2, 2), (15, 3, 3), (20, 4, 4)]),  # the default of three epochs says nothing
        ({"epochs": 1, "mark_steps": 2, "batch_size": 16}, [(2, 1, 0.6667), (3, 2, 1)]),
    ],
)
def test_marks_are_where_they_should_be(
    training: dict[str, Any], expected: list[tuple[int, int, float]], make: Callable[..., Small], tmp_path: Path
) -> None:
    progress = make(**training).train(tmp_path / "fit", always)
    assert places(tmp_path / "fit") == expected
    assert (progress.step, progress.marks, progress.finished, progress.pruned) == (*expected[-1][:2], True, False)
    whole = [line["epoch"] for line in read_log(tmp_path / "fit") if "dev" in line and line["epoch"] % 1 == 0]
    assert all(isinstance(epoch, int) for epoch in whole)
    losses = [line for line in read_log(tmp_path / "fit") if "loss" in line]
    assert [line["step"] for line in losses] == [step for step, _, _ in expected]  # what was new since the last mark
    assert [line["epoch"] for line in losses] == [math.ceil(epoch) for _, _, epoch in expected]


@pytest.mark.parametrize("every", [1, 90, 250, 10**9])
def test_marks_by_tokens(every: int, make: Callable[..., Small], tmp_path: Path) -> None:
    """By the tokens of each step as they are here: at the first step that reaches one more multiple, and at the end."""
    one = make(mark_tokens=every)
    expected, read = [], 0
    for number in range(15):
        before, read = read, read + sum(one.items[r].tokens for r in one.inputs.row_batches().of_step(number))
        if any(before < n * every <= read for n in range(before // every, read // every + 1)) or number == 14:
            expected.append(number + 1)
    progress = one.train(tmp_path / "fit", always)
    assert [step for step, _, _ in places(tmp_path / "fit")] == expected
    assert [mark for _, mark, _ in places(tmp_path / "fit")] == list(range(1, len(expected) + 1))
    assert progress.tokens == read == 3 * sum(item.tokens for item in one.items)
    assert (len(expected) == 15) == (every == 1)
    assert (len(expected) == 1) == (every == 10**9)


def test_where_a_run_is_judged_moves_no_weight(make: Callable[..., Small], tmp_path: Path) -> None:
    """Dropout on in the steps and off in the judgement, whatever comes between; and each step is logged once."""
    found = []
    for i, training in enumerate([{}, {"mark_steps": 1}, {"mark_steps": 4}, {"mark_tokens": 100}, {"steps": 15}]):
        one = make(keep="last", **training)
        modes = []

        def judge(stage: int, one: Small = one, modes: list[bool] = modes) -> dict[str, Any]:
            modes.append(one.tuning.transformer.training)
            torch.rand(3)  # what a judgement draws is no step's affair
            return always()

        one.train(tmp_path / str(i), judge)
        assert not any(modes)
        found.append(weights_of(one.tuning.transformer))
        assert furthest(found[0], found[-1]) == 0.0
    each = [line["loss"] for line in read_log(tmp_path / "1") if "loss" in line]
    assert len(each) == 15
    fours = [line["loss"] for line in read_log(tmp_path / "2") if "loss" in line]
    assert fours == pytest.approx([sum(each[a:b]) / (b - a) for a, b in ((0, 4), (4, 8), (8, 12), (12, 15))], rel=1e-12)


@pytest.mark.parametrize(
    ("scores", "patience", "marks"),
    [
        ([0.5, 0.4, 0.3], 2, 3),
        ([0.5, 0.4, 0.6, 0.6, 0.5], 2, 5),  # a gain begins the count anew; an equal score is none
        ([0.5, 0.5], 1, 2),
        ([-math.inf, -math.inf, 0.1, 0.0, -math.inf], 2, 5),  # undefined at first: the first defined one is a gain
        ([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8], 1, 8),  # to the end
    ],
)
def test_patience_counts_marks(
    scores: list[float], patience: int, marks: int, make: Callable[..., Small], tmp_path: Path
) -> None:
    progress = make(mark_steps=2, patience=patience).train(tmp_path / "fit", says(*scores))
    assert progress.marks == marks
    assert progress.step == min(2 * marks, 15)
    assert progress.finished
    assert not progress.pruned
    assert progress.best is not None
    assert progress.best["score"] == max(scores)
    assert progress.best["mark"] == scores.index(max(scores)) + 1


@pytest.mark.parametrize("keep", ["best", "last"])
def test_the_weights_of_the_best_mark_are_kept(keep: str, make: Callable[..., Small], tmp_path: Path) -> None:
    one = make(mark_steps=4, keep=keep)
    scores, seen = iter([0.1, 0.7, 0.7, 0.2]), []

    def judge(stage: int) -> dict[str, Any]:
        seen.append(weights_of(one.tuning.transformer))
        return {"score": next(scores), "metrics": {}}

    fit = one.fit(tmp_path / "fit", judge)
    progress = fit.run()
    assert progress.best == {"step": 8, "mark": 2, "epoch": 1.6, "score": 0.7}  # the first of equals
    kept = weights_of(one.tuning.transformer)
    assert [furthest(kept, weights) == 0.0 for weights in seen] == [i == (1 if keep == "best" else 3) for i in range(4)]
    decay = math.prod(1 - fit.schedule.lr(step) * 0.01 for step in range(8 if keep == "best" else 15))
    assert progress.decay == pytest.approx(decay, rel=1e-12)


@pytest.mark.parametrize(
    ("thresholds", "marks"),
    [
        ({}, None),
        ({1: 0.2}, None),
        ({1: 0.3}, None),  # reached is enough
        ({1: 0.31}, 1),
        ({2: 0.5}, 2),
        ({3: 0.6}, None),  # the best so far counts, not the last
        ({3: 0.61}, 3),
        ({4: 0.61, 6: 0.7}, 4),
        ({8: 0.9}, None),  # at the end there is nothing to stop
        ({99: 0.9}, None),
    ],
)
def test_a_run_ends_at_a_mark_whose_threshold_it_misses(
    thresholds: dict[int, float], marks: int | None, make: Callable[..., Small], tmp_path: Path
) -> None:
    judge = says(0.3, 0.4, 0.6, 0.1, 0.1, 0.1, 0.1, 0.1)
    progress = make(mark_steps=2).train(tmp_path / "fit", judge, thresholds=thresholds)
    assert progress.pruned == (marks is not None)
    assert progress.marks == (marks or 8)
    assert progress.finished


def test_a_score_that_is_undefined_misses_every_threshold(make: Callable[..., Small], tmp_path: Path) -> None:
    progress = make().train(tmp_path / "fit", says(-math.inf), thresholds={1: -1e9})
    assert (progress.pruned, progress.marks) == (True, 1)


def test_without_dev_there_are_marks_and_no_judgement(make: Callable[..., Small], tmp_path: Path) -> None:
    one, seen = make(mark_steps=4), list[dict[str, Any]]()
    fit = one.fit(tmp_path / "fit")
    fit.watch = lambda progress, steps, news: seen.append(news) if news else None
    progress = fit.run()
    assert [(news["step"], news["mark"], news["epoch"]) for news in seen] == [
        (4, 1, 0.8), (8, 2, 1.6), (12, 3, 2.4), (15, 4, 3),
    ]  # fmt: skip
    assert progress.best is None
    assert not any("dev" in line for line in read_log(tmp_path / "fit"))


class Stream(LabelledSampler):
    """It has no epochs."""

    def epoch_steps(self, epoch: int) -> None:  # type: ignore[override]
        return None


def test_a_stream_has_steps_and_no_epochs(
    make: Callable[..., Small], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(RequestError, match=r"training\.steps is missing: a stream has no epochs"):
        make(sampled_by(Stream)).train(tmp_path / "none", always)
    for training, expected in (({}, [12]), ({"mark_steps": 5}, [5, 10, 12])):
        folder = tmp_path / str(expected)
        progress = make(sampled_by(Stream), steps=12, **training).train(folder, always)
        log = read_log(folder)
        assert [line["step"] for line in log if "dev" in line] == expected
        assert [line["mark"] for line in log if "dev" in line] == list(range(1, len(expected) + 1))
        assert not any("epoch" in line for line in log)
        assert progress.best == {"step": expected[0], "mark": 1, "score": 0.5}
    Lines()("run", {"mark": 2, "finished": True, "step": 10, "steps": 12, "loss": 0.25, "dev": "dev accuracy 0.5"})
    assert capsys.readouterr().err == "run: evaluation 2, step 10 of 12: loss 0.2500, dev accuracy 0.5\n"


@settings(max_examples=80)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=6),
    st.none() | st.integers(1, 40),
    st.none() | st.integers(1, 12),
    st.none() | st.integers(1, 60),
    st.lists(st.integers(1, 30), min_size=60, max_size=60),
)
def test_a_schedule_by_brute_force(
    sizes: list[int], steps: int | None, mark_steps: int | None, mark_tokens: int | None, tokens: list[int]
) -> None:
    if mark_steps is not None:
        mark_tokens = None
    table = TrainingTable(epochs=len(sizes), steps=steps, mark_steps=mark_steps, mark_tokens=mark_tokens)

    class Epochs:
        def epoch_steps(self, epoch: int) -> int:
            return sizes[epoch % len(sizes)]

        def stages(self) -> tuple[int, ...]:
            return ()

    schedule = make_schedule(table, Epochs())  # type: ignore[arg-type]
    assert schedule.steps == (steps or sum(sizes))
    epoch_of = [e for e in range(60) for _ in range(sizes[e % len(sizes)])]  # of each step, from 0
    read, done = 0, 0
    for step in range(1, schedule.steps + 1):
        before, read = read, read + tokens[step - 1]
        expected = step == schedule.steps
        if mark_steps is not None:
            expected |= step in range(mark_steps, 1000, mark_steps)
        elif mark_tokens is not None:
            expected |= any(before < m <= read for m in range(mark_tokens, read + 1, mark_tokens))
        else:
            expected |= epoch_of[step - 1] != epoch_of[step]
        assert schedule.is_mark(step, before, read) == expected, step
        assert schedule.epoch(step) == epoch_of[step - 1] + 1
        epoch = epoch_of[step - 1]
        inside = sum(1 for e in epoch_of[:step] if e == epoch)
        share = epoch + inside / sizes[epoch % len(sizes)]
        assert schedule.epochs_done(step) == pytest.approx(share, abs=1e-4)
        assert (schedule.epochs_done(step) == round(share)) == (inside == sizes[epoch % len(sizes)])
        assert schedule.epochs_done(step) > done
        done = schedule.epochs_done(step) or 0


def test_the_learning_rate_falls_over_the_steps_there_are(make: Callable[..., Small], tmp_path: Path) -> None:
    one = make(steps=12, warmup=0.25, lr=1.0)
    schedule = make_schedule(one.recipe.training, one.inputs.sampler())
    assert isinstance(schedule, Schedule)
    rates = [schedule.lr(step) for step in range(12)]
    assert rates[:3] == pytest.approx([0.25, 0.5, 0.75])
    assert rates[3:] == pytest.approx([1 - i / 9 for i in range(9)])


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Recipe]:
    folder = tmp_path_factory.mktemp("world")
    data, model = write_data(folder / "data"), write_tiny(folder / "model")
    return lambda **training: tiny_recipe(model, data, training=training)


def test_a_run_says_at_which_mark_it_was_pruned(
    world: Callable[..., Recipe], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thresholds are in the manifest, so that a run that is continued ends where it would have ended."""
    recipe = world(mark_steps=2)
    manifest = execute(recipe, 7, tmp_path / "straight", quiet=True, thresholds={3: 2.0})
    assert (manifest["pruned"], manifest["thresholds"], manifest["state"]) == (3, {"3": 2.0}, "done")
    assert places(tmp_path / "straight") == [(2, 1, 0.4), (4, 2, 0.8), (6, 3, 1.2)]
    assert json.loads((tmp_path / "straight/metrics.json").read_text())["splits"]["test"]["n"] == 12

    inner = Fit._step

    def dies(self: Fit, step: Any, lr: float) -> None:
        if self.progress.step == 3:
            raise KeyboardInterrupt
        inner(self, step, lr)

    with monkeypatch.context() as patch:
        patch.setattr(Fit, "_step", dies)
        with pytest.raises(KeyboardInterrupt):
            execute(recipe, 7, tmp_path / "broken", quiet=True, thresholds={3: 2.0})
    manifest = execute(recipe, 7, tmp_path / "broken", quiet=True)
    assert manifest["pruned"] == 3
    name = "model/model.safetensors"
    assert (tmp_path / "broken" / name).read_bytes() == (tmp_path / "straight" / name).read_bytes()
    unpruned = execute(recipe, 7, tmp_path / "whole", quiet=True, thresholds={3: 0.0})
    assert "pruned" not in unpruned
    assert places(tmp_path / "whole")[-1] == (15, 8, 3)


def test_a_run_that_ends_inside_an_epoch(world: Callable[..., Recipe], tmp_path: Path) -> None:
    manifest = execute(world(steps=7), 7, tmp_path / "run", quiet=True)
    assert places(tmp_path / "run") == [(5, 1, 1), (7, 2, 1.4)]
    whole = execute(world(), 7, tmp_path / "whole", quiet=True)
    assert 0 < manifest["cost"]["tokens"] < whole["cost"]["tokens"] / 2
    assert 0 < manifest["cost"]["flops"] < whole["cost"]["flops"] / 2
    assert manifest["engine"] == runs.ENGINE
