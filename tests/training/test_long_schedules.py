"""Training by tokens, trapezoids, and batches and texts that grow."""

import math
from collections.abc import Callable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heedful.errors import RequestError
from heedful.inputs.labelled import LabelledSampler
from heedful.inputs.warmup import grown, length_at, rows_at
from heedful.objectives.classify import Classify
from heedful.recipes.reading import make_recipe, read_recipe
from heedful.recipes.schema import TrainingTable
from heedful.training.loop import Stopped
from heedful.training.schedule import lr_factor, lr_factor_by_tokens, make_schedule
from tests.support.small_fits import CLASSES, Small, dataset, furthest, recipe_of, sampled_by, small, texts, weights_of
from tests.support.task_samples import tasks_recipe, write_tasks
from tests.support.training_samples import read_log, tiny_model

ROWS = 40  # in steps of 8: an epoch is 5
SCHEDULES = ("linear", "cosine", "constant", "trapezoid")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Any]:
    folder = tmp_path_factory.mktemp("model")
    return lambda: tiny_model(folder, CLASSES)


@pytest.fixture
def make(models: Callable[[], Any], tmp_path: Path) -> Callable[..., Small]:
    def build(objective: type[Classify] = Classify, **training: Any) -> Small:
        """Keys that classify refuses are put in behind its back."""
        plain = {key: training.pop(key) for key in ("batch_warmup", "length_warmup") if key in training}
        recipe = recipe_of(training=training)
        recipe = recipe.model_copy(update={"training": recipe.training.model_copy(update=plain)})
        return small(deepcopy(models()), dataset(*texts(ROWS)), recipe, tmp_path / "store", objective)

    return build


def always(stage: int = 0) -> dict[str, Any]:
    return {"score": 0.5, "metrics": {"accuracy": 0.5}}


# The learning rate


@given(st.integers(1, 300), st.integers(1, 400))
def test_the_square_root_of_the_steps_as_in_the_paper(warmup_steps: int, steps: int) -> None:
    """lr = d^−½ · min(step^−½, step · warmup_steps^−3⁄2), whose highest value is (d · warmup_steps)^−½."""
    found = [lr_factor(step, steps, 0.1, "inverse-sqrt", highest=warmup_steps) for step in range(steps)]
    papers = [min(step**-0.5, step * warmup_steps**-1.5) * warmup_steps**0.5 for step in range(1, steps + 1)]
    assert found == pytest.approx(papers, rel=1e-12)
    assert lr_factor_by_tokens(0.4, 0.41, 0.1, "inverse-sqrt") == pytest.approx(0.5)
    assert lr_factor_by_tokens(0.1, 0.11, 0.1, "inverse-sqrt") == 1


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"warmup_steps": 10, "warmup": 0.2}, "both say how long the learning rate rises"),
        ({"warmup_steps": 10, "tokens": 1000}, "use training.warmup"),
        ({"schedule": "inverse-sqrt", "warmup": 0.0}, "falls from where the warm-up ends"),
    ],
)
def test_warm_ups_that_contradict_themselves(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        recipe_of(training=keys)


def test_warm_up_by_steps(make: Callable[..., Small]) -> None:
    one = make(schedule="inverse-sqrt", warmup_steps=4, lr=0.1)
    schedule = make_schedule(one.recipe.training, one.inputs.sampler())
    assert [schedule.lr(step) for step in (0, 3, 15)] == pytest.approx([0.025, 0.1, 0.05])


@given(st.integers(1, 400), st.floats(0, 0.5), st.floats(0.01, 0.5))
def test_a_trapezoid(steps: int, warmup: float, cooldown: float) -> None:
    rising, falling = int(warmup * steps), int(cooldown * steps)
    found = [lr_factor(step, steps, warmup, "trapezoid", cooldown) for step in range(steps)]
    assert found[:rising] == pytest.approx([(i + 1) / (rising + 1) for i in range(rising)])
    assert set(found[rising : steps - falling]) <= {1.0}
    assert found[steps - falling :] == pytest.approx([(falling - i) / (falling + 1) for i in range(falling)])


@given(
    st.lists(st.integers(1, 50), min_size=2, max_size=80),
    st.floats(0, 0.5),
    st.sampled_from(SCHEDULES),
    st.floats(0.05, 0.5),
)
def test_the_learning_rate_by_tokens(reads: list[int], warmup: float, schedule: str, cooldown: float) -> None:
    """It rises, then falls, is never zero, and hangs on the share of the tokens alone."""
    total = sum(reads[:-1]) + 1  # reached in the last step
    ends = [sum(reads[: i + 1]) / total for i in range(len(reads))]
    begins = [0.0, *ends[:-1]]
    found = [lr_factor_by_tokens(a, b, warmup, schedule, cooldown) for a, b in zip(begins, ends, strict=True)]
    assert all(0 < f <= 1 for f in found)
    rising = sum(begin < warmup for begin in begins)
    assert found[:rising] == sorted(found[:rising])
    assert found[rising:] == sorted(found[rising:], reverse=True)
    for begin, end, f in zip(begins, ends, found, strict=True):
        if begin < warmup:
            assert f == pytest.approx(min(1.0, end / warmup))
        elif schedule == "linear":
            assert f == pytest.approx((1 - begin) / (1 - warmup))
        elif schedule == "cosine":
            assert f == pytest.approx(0.5 + 0.5 * math.cos(math.pi * (begin - warmup) / (1 - warmup)))
        else:
            assert f == pytest.approx(1.0 if schedule == "constant" else min(1.0, (1 - begin) / cooldown))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_steps_of_one_size_are_the_same_by_tokens(schedule: str) -> None:
    """Up to the width of a step: the two count the first and the last step a little differently."""
    steps = 1000
    for step in range(steps):
        ours = lr_factor_by_tokens(step / steps, (step + 1) / steps, 0.1, schedule, 0.2)
        assert ours == pytest.approx(lr_factor(step, steps, 0.1, schedule, 0.2), abs=0.011)


# When training ends


def read_so_far(one: Small, steps: int) -> list[int]:
    """The tokens that were read before each step, and at the end."""
    each = [sum(one.items[r].tokens for r in one.inputs.row_batches().of_step(number)) for number in range(steps)]
    return [sum(each[:i]) for i in range(steps + 1)]


@pytest.mark.parametrize("more", [0, 1])
def test_training_ends_with_the_step_that_reaches_the_tokens(
    more: int, make: Callable[..., Small], tmp_path: Path
) -> None:
    read = read_so_far(make(), 15)
    one = make(tokens=read[12] + more, warmup=0.25, lr=0.01, mark_steps=1)
    seen: list[int] = []
    fit = one.fit(tmp_path / "fit", always)
    fit.watch = lambda progress, steps, news: None if news else seen.append(steps)
    progress = fit.run()
    last = 12 + more
    assert (progress.step, progress.tokens, progress.finished) == (last, read[last], True)
    assert seen[-1] == last
    assert all(0.6 * last <= steps <= 1.7 * last for steps in seen)  # as far as could be told
    total = read[12] + more
    rates = [0.01 * lr_factor_by_tokens(read[i] / total, read[i + 1] / total, 0.25, "linear") for i in range(last)]
    table_rates = [fit.schedule.lr(i, read[i], read[i + 1] - read[i]) for i in range(last)]
    assert table_rates == pytest.approx(rates)
    assert progress.best_decay == pytest.approx(1 - rates[0] * 0.01, rel=1e-12)
    assert progress.decay == progress.best_decay  # the first of equals was kept
    assert fit.schedule.is_end(last, read[last])


def test_epochs_are_marks_by_tokens_too(make: Callable[..., Small], tmp_path: Path) -> None:
    """However many there will be; and the last is not a whole one."""
    epoch = sum(item.tokens for item in make().items)
    make(tokens=2 * epoch + 1).train(tmp_path / "fit", always)
    marks = [(line["step"], line["epoch"]) for line in read_log(tmp_path / "fit") if "dev" in line]
    assert marks == [(5, 1), (10, 2), (11, 2.2)]
    losses = [(line["step"], line["epoch"]) for line in read_log(tmp_path / "fit") if "loss" in line]
    assert losses == [(5, 1), (10, 2), (11, 3)]


class Stream(LabelledSampler):
    """It has no epochs, and grows: what it trains on depends on its own place and on how far training is."""

    place = 0

    def epoch_steps(self, epoch: int) -> None:  # type: ignore[override]
        return None

    def step(self, number: int, done: float) -> Any:
        table, count = self.inputs.training, len(self.inputs.items["train"])
        rows = [(self.place + i) % count for i in range(rows_at(table, done))]
        self.place += len(rows)
        return self.inputs.step_of(rows)

    def state(self) -> dict[str, Any]:
        return {"place": self.place}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.place = state.get("place", 0)


def test_a_stream_by_tokens(make: Callable[..., Small], tmp_path: Path) -> None:
    progress = make(sampled_by(Stream), tokens=500).train(tmp_path / "fit", always)
    assert progress.tokens >= 500
    assert not any("epoch" in line for line in read_log(tmp_path / "fit"))
    assert [line["mark"] for line in read_log(tmp_path / "fit") if "dev" in line] == [1]


# Growing


@given(st.integers(1, 5000), st.floats(0, 1), st.floats(0, 1))
def test_growing(whole: int, warmup: float, share: float) -> None:
    found = grown(whole, warmup, share)
    assert 1 <= found <= whole
    assert found == (whole if share >= warmup else max(1, whole // 4) if share < warmup / 2 else max(1, whole // 2))
    table = TrainingTable(batch_size=whole, batch_warmup=warmup, max_length=max(4, whole), length_warmup=warmup)
    assert rows_at(table, share) == found
    assert length_at(table, share) == max(4, grown(max(4, whole), warmup, share))
    assert rows_at(TrainingTable(batch_size=whole), share) == whole


@pytest.mark.parametrize("length", [{"steps": 12}, {"tokens": 600}])
def test_batches_grow_and_a_run_that_goes_on_grows_as_it_would_have(
    length: dict[str, int], make: Callable[..., Small], tmp_path: Path
) -> None:
    found, sizes = [], list[int]()
    for name, stops in (("straight", []), ("broken", [1, 4, 7])):
        for stop in [*stops, None]:
            one = make(sampled_by(Stream), batch_warmup=0.5, batch_size=8, checkpoint_seconds=0, **length)
            fit = one.fit(tmp_path / name)
            fit.should_stop = lambda fit=fit, stop=stop: fit.progress.step == stop  # type: ignore[misc]
            inner = fit._step

            def step(step: Any, lr: float, inner: Any = inner) -> None:
                sizes.append(len(step.rows))
                inner(step, lr)

            fit._step = step  # type: ignore[method-assign]
            if stop is not None:
                with pytest.raises(Stopped):
                    fit.run()
                continue
            one.tuning.finish(fit.run().decay)
            found.append(weights_of(one.tuning.transformer))
    half = len(sizes) // 2
    assert sizes[:half] == sizes[half:]  # in the run that was broken off, each step once
    assert sizes[:half] == sorted(sizes[:half])
    assert set(sizes) == {2, 4, 8}
    if "steps" in length:
        assert sizes[:half] == [2] * 3 + [4] * 3 + [8] * 6
    assert furthest(*found) == 0.0


# What is refused


def refusal(**training: Any) -> str:
    with pytest.raises(RequestError) as caught:
        make_recipe({"model": {"name": "m"}, "data": {"name": "small"}, "training": training})
    return str(caught.value)


@pytest.mark.parametrize(
    ("training", "words"),
    [
        ({"tokens": 9, "steps": 9}, "training.tokens and training.steps both say how long to train; keep one"),
        ({"tokens": 9, "epochs": 9}, "training.tokens and training.epochs both say how long to train; keep one"),
        ({"steps": 9, "epochs": 9}, "training.steps and training.epochs both say how long to train; keep one"),
        ({"cooldown": 0.3}, 'training.cooldown goes with training.schedule = "trapezoid", not "linear"; leave it out.'),
        (
            {"schedule": "trapezoid", "warmup": 0.9},
            "training.warmup = 0.9 and training.cooldown = 0.2 are more than the whole of training together",
        ),
        (
            {"batch_warmup": 0.1},
            'training.batch_warmup is for an objective that reads a stream, which objective.kind = "',
        ),
        ({"length_warmup": 0.1}, "training.length_warmup is for an objective that reads a stream"),
        ({"tokens": 0}, "training.tokens = 0 is not right: it must be at least 1."),
    ],
)
def test_contradictions(training: dict[str, Any], words: str) -> None:
    assert words in refusal(**training)


@pytest.mark.parametrize("sampling", ["in-turn", "annealed"])
def test_what_must_know_the_steps_is_refused_by_tokens(sampling: str, tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path)
    with pytest.raises(RequestError, match=rf'sampling = "{sampling}" must know how many steps .* training\.tokens'):
        tasks_recipe(tmp_path, tasks, objective={"sampling": sampling}, training={"tokens": 100, "epochs": 3})


@pytest.mark.parametrize("written", ["epochs = 5", "steps = 7", "tokens = 9", "lr = 1e-3"])
@pytest.mark.parametrize(("said", "value"), [("epochs", 4), ("steps", 4), ("tokens", 4)])
def test_what_is_said_on_the_command_line_takes_the_place(written: str, said: str, value: int, tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text(f'[model]\nname = "m"\n[data]\nname = "sst2"\n[training]\n{written}\n')
    training = read_recipe(path, [f"training.{said}={value}"]).training
    expected: dict[str, int | None] = {"epochs": 3, "steps": None, "tokens": None, said: value}
    assert {key: getattr(training, key) for key in expected} == expected


def test_no_more_epochs_are_asked_for_than_are_needed() -> None:
    asked: list[int] = []

    class Epochs:
        def epoch_steps(self, epoch: int) -> int:
            asked.append(epoch)
            return 4

    schedule = make_schedule(TrainingTable(tokens=100), Epochs())  # type: ignore[arg-type]
    assert [schedule.is_mark(step, 10 * step - 10, 10 * step) for step in range(1, 11)] == [
        step in (4, 8, 10) for step in range(1, 11)
    ]
    assert asked == [0, 1, 2]
    assert [schedule.share(step, 10 * step) for step in (0, 5, 10, 12)] == [0, 0.5, 1, 1]
