"""Several tasks on one body: which task a step asks, what it computes, how each is judged, and what is refused."""

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from test_loop import Watcher, upwards

import heedful
from heedful.cli.predict import predict
from heedful.errors import RequestError
from heedful.evaluation.metrics import CLASS_METRICS
from heedful.inputs.task_draws import TaskDraws, annealed, shares
from heedful.inputs.tasks import TaskInputs, TaskSampler
from heedful.objectives.protocol import StepContext
from heedful.recipes.reading import explain_key, make_recipe
from heedful.recipes.schema import Recipe, TrainingTable
from heedful.storage.examples import read_values
from heedful.storage.shared import SharedStore
from heedful.streams import Parts
from heedful.training.assembly import Assembly, assemble, read_source
from heedful.training.loop import Fit
from heedful.training.run import execute
from heedful.training.schedule import lr_factor, make_schedule
from tests.support.small_fits import furthest, weights_of
from tests.support.task_samples import FILM, SCORES, TWINS, tasks_recipe, write_tasks
from tests.support.training_samples import read_log, tiny_recipe, write_data, write_tiny

CALM = {
    "dropout": 0.0, "embedding_dropout": 0.0, "attention_dropout": 0.0, "attention_output_dropout": 0.0,
    "head_dropout": 0.0,
}  # fmt: skip
Make = Callable[..., Recipe]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tasks")
    write_tiny(folder / "model")
    write_tiny(folder / "calm", **CALM)
    return folder


@pytest.fixture(scope="module")
def tables(place: Path) -> list[dict[str, Any]]:
    return write_tasks(place)


@pytest.fixture(scope="module")
def make(place: Path, tables: list[dict[str, Any]]) -> Make:
    def recipe(how: str = "full", model: str = "model", **more: Any) -> Recipe:
        return tasks_recipe(place / model / "tiny", tables, how, **more)

    return recipe


WHOLE = StepContext(Parts(1), lambda part: None, lambda rows: rows)
"""A step in one part."""


def put_together(recipe: Recipe, folder: Path, seed: int = 5) -> Assembly:
    store = SharedStore(folder)
    return assemble(read_source(recipe, seed, store), store)


def fit_of(parts: Assembly, recipe: Recipe, folder: Path, cls: type[Fit] = Fit) -> Fit:
    folder.mkdir(parents=True, exist_ok=True)
    return cls(
        objective=parts.objective, inputs=parts.inputs, sampler=parts.sampler, evaluator=parts.evaluator,
        tuning=parts.tuning, training=recipe.training, seed=5, directory=folder, judge=None,
        watch=lambda *_: None, should_stop=lambda: False,
    )  # fmt: skip


def metrics_of(run: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((run / "metrics.json").read_text())
    return content


# Which task a step asks


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0])
def test_tasks_are_drawn_as_often_as_their_rows_say(exponent: float) -> None:
    rows, steps = [100, 900, 3000], 20_000
    draws = TaskDraws(3, rows, lambda number: exponent)
    counts = Counter(draws.of_step(n)[0] for n in range(steps))
    expected = np.array([r**exponent for r in rows]) / sum(r**exponent for r in rows)
    assert shares(rows, exponent) == pytest.approx(expected)
    found = [counts[i] for i in range(3)]
    assert stats.chisquare(found, steps * expected).pvalue > 0.001
    if exponent != 0.5:
        wrong = np.array([r**0.5 for r in rows]) / sum(r**0.5 for r in rows)
        assert stats.chisquare(found, steps * wrong).pvalue < 1e-9  # the test would notice


def test_a_draw_hangs_on_the_seed_and_the_step_alone() -> None:
    whole = TaskDraws(3, [5, 9], lambda number: 1.0)
    every = [whole.of_step(n) for n in range(200)]
    assert TaskDraws(3, [5, 9], lambda number: 1.0).of_step(150) == every[150]
    assert [whole.of_step(n) for n in range(200)] == every
    assert [TaskDraws(4, [5, 9], lambda number: 1.0).of_step(n) for n in range(200)] != every
    for task in (0, 1):  # each walks through its own steps
        assert [own for which, own in every if which == task] == list(range(sum(w == task for w, _ in every)))


@pytest.mark.parametrize(
    ("training", "expected"),
    [({"epochs": 3}, [1.0, 0.6, 0.2]), ({"epochs": 1}, [1.0]), ({"steps": 101}, None)],
)
def test_annealing(training: dict[str, int], expected: list[float] | None, make: Make, tmp_path: Path) -> None:
    recipe = make(objective={"sampling": "annealed"}, training={**training, **({} if expected else {"epochs": 3})})
    sampler = put_together(recipe, tmp_path).sampler
    assert isinstance(sampler, TaskSampler)
    assert (annealed(0), annealed(1)) == pytest.approx((1, 0.2))
    if expected is None:
        assert [sampler._exponent(n) for n in (0, 50, 100, 500)] == pytest.approx([1, 0.6, 0.2, 0.2])
        return
    found = [e for epoch in range(len(expected)) for e in [expected[epoch]] * sampler.epoch_steps(epoch)]
    assert [sampler._exponent(n) for n in range(len(found))] == pytest.approx(found)


def test_no_row_is_seen_twice_before_all_were_seen(make: Make, tmp_path: Path) -> None:
    parts = put_together(make(), tmp_path)
    inputs, sampler = parts.inputs, parts.sampler
    assert isinstance(inputs, TaskInputs)
    seen: dict[str, list[int]] = {}
    for number in range(120):
        step: Any = sampler.step(number, 0.0)
        seen.setdefault(step.task, []).extend(step.rows)
    for task, rows in seen.items():
        size = len(inputs.tasks[task].items["train"])
        assert len(rows) > 2 * size
        for at in range(0, len(rows) - size, size):
            assert sorted(rows[at : at + size]) == list(range(size))
    each = [-(-len(task.items["train"]) // 8) for task in inputs.tasks.values()]
    assert sampler.epoch_steps(0) == sum(each)


# What a step computes


def test_accumulation_is_the_full_batch(make: Make, tmp_path: Path) -> None:
    found = []
    for accumulate in (1, 3):
        recipe = make(model="calm", training={"accumulate": accumulate, "epochs": 2, "checkpoint_seconds": 1e6})
        parts = put_together(recipe, tmp_path / "store")
        parts.checkpoint.transformer.double()
        before = weights_of(parts.checkpoint.transformer)
        fit_of(parts, recipe, tmp_path / str(accumulate)).run()
        found.append(weights_of(parts.checkpoint.transformer))
        assert furthest(found[-1], before) > 1e-3
    assert furthest(*found) < 1e-10
    logs = [[line["terms"] for line in read_log(tmp_path / n) if "terms" in line] for n in ("1", "3")]
    assert logs[0]
    for one, other in zip(*logs, strict=True):
        assert one == pytest.approx(other, rel=1e-9)
        assert set(one) <= {FILM, SCORES, TWINS}


def test_the_loss_of_a_task_is_multiplied_by_its_weight(make: Make, tmp_path: Path) -> None:
    steps: dict[str, Mapping[str, Any]] = {}
    for name, weights in (("plain", {}), ("weighted", {SCORES: 2.5, FILM: 0.5})):
        parts = put_together(make(model="calm", objective={"weights": weights}), tmp_path / "store")
        objective, reader = parts.objective, parts.tuning.reader
        losses = {}
        for number in range(12):
            step: Any = parts.sampler.step(number, 0.0)
            (one,) = objective.losses(reader, step, objective.counts(step), WHOLE)
            losses[step.task] = float(one.loss.detach())
            assert one.terms == {step.task: one.loss.detach()}
        steps[name] = losses
    plain, weighted = steps["plain"], steps["weighted"]
    assert set(plain) == {FILM, SCORES, TWINS}
    expected = {FILM: 0.5 * plain[FILM], SCORES: 2.5 * plain[SCORES], TWINS: plain[TWINS]}
    assert weighted == pytest.approx(expected, rel=1e-6)


def test_one_task_alone_is_the_plain_run(place: Path, tables: list[dict[str, Any]], tmp_path: Path) -> None:
    """Called as the plain one calls its head, it is equal to the bit: losses, scores, predictions, weights."""
    film = {key: value for key, value in tables[0].items() if key != "task"}
    model = place / "model/tiny"
    execute(tiny_recipe(model, film), 7, tmp_path / "plain", quiet=True)
    for sampling in ("square-root", "in-turn"):
        run = tmp_path / sampling
        execute(
            tasks_recipe(model, [{"task": "classify", **film}], objective={"sampling": sampling}), 7, run, quiet=True
        )
        ours, theirs = ([line["loss"] for line in read_log(r) if "loss" in line] for r in (run, tmp_path / "plain"))
        assert ours == theirs
        for name in ("model.safetensors", "config.json"):
            assert (run / "model" / name).read_bytes() == (tmp_path / "plain/model" / name).read_bytes()
        for split in ("dev", "test"):
            own = (run / f"predictions/{split}-classify.tsv").read_text()
            assert own == (tmp_path / f"plain/predictions/{split}.tsv").read_text()


def test_a_step_enters_six_files_and_never_goes_back_up(make: Make, tmp_path: Path) -> None:
    import sys

    watcher, inner = Watcher(), Fit._step

    class Watched(Fit):
        def _step(self, step: Any, lr: float) -> None:
            sys.setprofile(watcher)
            try:
                inner(self, step, lr)
            finally:
                sys.setprofile(None)

    recipe = make(training={"steps": 9, "epochs": 3})
    fit_of(put_together(recipe, tmp_path / "store"), recipe, tmp_path / "fit", Watched).run()
    files = {file for file in watcher.files if file.split("/")[0] not in ("nn", "models")}
    assert "objectives/multi_task.py" in files
    assert len(files) == 6
    assert not upwards(watcher.calls)


# Stages


def test_each_stage_has_its_own_rise_and_fall() -> None:
    class Staged:
        def stages(self) -> list[int]:
            return [10, 4, 7]

        def epoch_steps(self, epoch: int) -> int:
            return [5, 5, 4, 5, 2][epoch]

    table = TrainingTable(epochs=2, lr=0.1, warmup=0.3)
    schedule = make_schedule(table, Staged())  # type: ignore[arg-type]
    assert (schedule.steps, schedule.stage_ends, schedule.ends) == (21, (10, 14, 21), [5, 10, 14, 19, 21])
    expected = [0.1 * lr_factor(step, steps, 0.3, "linear") for steps in (10, 4, 7) for step in range(steps)]
    assert [schedule.lr(step) for step in range(21)] == pytest.approx(expected)
    assert [step for step in range(1, 22) if schedule.is_mark(step, 0, 0)] == [5, 10, 14, 19, 21]


@pytest.mark.parametrize(("training", "ends"), [({}, [15, 33, 48]), ({"steps": 7, "mark_steps": 5}, [7, 14, 21])])
def test_in_turn_each_task_has_its_stage(training: dict[str, int], ends: list[int], make: Make, tmp_path: Path) -> None:
    recipe = make(objective={"sampling": "in-turn"}, training={**training, "epochs": 3})
    parts = put_together(recipe, tmp_path)
    inputs, sampler = parts.inputs, parts.sampler
    assert isinstance(inputs, TaskInputs)
    schedule = make_schedule(recipe.training, sampler)
    assert list(schedule.stage_ends) == ends
    begins = [0, *ends[:-1]]
    for task, begin, end in zip((FILM, SCORES, TWINS), begins, ends, strict=True):
        steps: list[Any] = [sampler.step(n, 0.0) for n in range(begin, end)]
        assert {step.task for step in steps} == {task}
        rows = inputs.tasks[task].row_batches()
        assert [list(s.rows) for s in steps] == [rows.of_step(n) for n in range(end - begin)]
    if training:
        assert [n for n in range(1, 22) if schedule.is_mark(n, 0, 0)] == [5, 7, 10, 14, 15, 20, 21]


def test_the_forgetting_matrix_is_what_runs_score_that_end_there(make: Make, tmp_path: Path) -> None:
    """A run in turn on the first tasks alone is the beginning of the whole one."""
    order, runs = [TWINS, FILM, SCORES], {}
    for count in (1, 2, 3):
        objective = {"sampling": "in-turn", "train_on": order[:count]}
        execute(make(objective=objective), 7, tmp_path / str(count), quiet=True)
        runs[count] = metrics_of(tmp_path / str(count))
    matrix = runs[3]["forgetting"]
    assert matrix["tasks"] == order
    own = {TWINS: "accuracy", FILM: "accuracy", SCORES: "pearson"}
    for split in ("dev", "test"):
        for count in (1, 2, 3):
            line = matrix[split][count - 1]
            assert line[count:] == [None] * (3 - count)
            expected = [runs[count]["splits"][f"{split}-{task}"][own[task]] for task in order[:count]]
            assert line[:count] == pytest.approx(expected, rel=1e-12)
            assert runs[count]["forgetting"][split] == [x[:count] for x in matrix[split][:count]]
    stages = [line for line in read_log(tmp_path / "3") if "stage" in line]
    assert [(line["stage"], line["task"]) for line in stages] == [(1, TWINS), (2, FILM), (3, SCORES)]
    assert stages[1]["judged"] == {
        f"{s}-{t}": matrix[s][1][i] for s in ("dev", "test") for i, t in enumerate(order[:2])
    }
    marks = [line["dev"][f"{SCORES}/pearson"] for line in read_log(tmp_path / "3") if "dev" in line][-3:]
    assert runs[3]["best"]["score"] == max(marks)  # of the last stage, by its own task


# How each is judged


@pytest.mark.parametrize("how", ["full", "frozen"])
def test_sets_and_files(how: str, make: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    execute(make(how, evaluation={"baselines": True}), 7, tmp_path / "run", quiet=True)
    metrics, manifest = metrics_of(tmp_path / "run"), json.loads((tmp_path / "run/manifest.json").read_text())
    names = [f"{split}-{task}" for task in (FILM, SCORES, TWINS) for split in ("dev", "test")]
    assert list(metrics["splits"]) == ["dev", "test", *names]
    assert {p.stem for p in (tmp_path / "run/predictions").iterdir()} == set(names)
    own = {FILM: "accuracy", SCORES: "pearson", TWINS: "accuracy"}
    for split in ("dev", "test"):
        each = {task: metrics["splits"][f"{split}-{task}"] for task in own}
        whole = metrics["splits"][split]
        assert whole["task_mean"] == pytest.approx(np.mean([each[t][m] for t, m in own.items()]), rel=1e-12)
        assert whole["n"] == sum(one["n"] for one in each.values()) == manifest["data"]["sizes"][split]
        tfidf = metrics["baselines"]["tfidf"]
        assert tfidf[split]["task_mean"] == pytest.approx(np.mean([tfidf[f"{split}-{t}"][m] for t, m in own.items()]))
        rows, columns = read_values(tmp_path / f"run/values/{split}.tsv")
        assert len(set(rows)) == len(rows) == whole["n"]
        assert Counter(columns["task"]) == {float(i): each[task]["n"] for i, task in enumerate(own)}
    assert manifest["data"]["tasks"][SCORES]["metric"] == "pearson"
    marks = [line["dev"] for line in read_log(tmp_path / "run") if "dev" in line]
    assert len(marks) == 3
    assert all(set(m) == {"task_mean", *(f"{t}/{metric}" for t, metric in own.items())} for m in marks)
    assert metrics["temperatures"].keys() == {FILM, TWINS}
    assert {e["task"] for e in metrics["errors"]} <= {FILM, TWINS}
    model = heedful.load(tmp_path / "run/model")
    assert isinstance(model, heedful.Model)
    with pytest.raises(RequestError, match=r"has several heads; say which: film, scores, twins"):
        model.predict(["a gem"])
    shapes = model.transformer.head_shapes
    assert shapes[FILM].labels == ("bad", "good")
    assert shapes[TWINS].of_pairs is True
    assert model.predict(["a gem"], head=SCORES).scores is not None
    predict(str(tmp_path / "run/model"), ["a gem"], head=FILM)
    predict(str(tmp_path / "run/model"), ["a gem", "a bore"], head=TWINS)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "row\tlabel\tp:bad\tp:good"
    assert lines[2] == "row\tlabel\tp:other\tp:same"
    assert len(lines) == 4


def test_tasks_that_are_not_trained_are_judged_and_not_saved(make: Make, tmp_path: Path) -> None:
    execute(make(objective={"train_on": [TWINS]}, training={"keep": "best"}), 7, tmp_path / "run", quiet=True)
    metrics, manifest = metrics_of(tmp_path / "run"), json.loads((tmp_path / "run/manifest.json").read_text())
    assert manifest["data"]["trained_on"] == [TWINS]
    assert manifest["data"]["sizes"]["train"] == manifest["data"]["tasks"][TWINS]["sizes"]["train"]
    assert {f"test-{t}" for t in (FILM, SCORES, TWINS)} < set(metrics["splits"])
    marks = [line["dev"] for line in read_log(tmp_path / "run") if "dev" in line]
    assert metrics["best"]["score"] == max(m[f"{TWINS}/accuracy"] for m in marks)
    assert set(heedful.load(tmp_path / "run/model").transformer.head_shapes) == {TWINS}  # type: ignore[union-attr]


def test_a_task_may_name_its_metric(place: Path, tables: list[dict[str, Any]], tmp_path: Path) -> None:
    two = [{**tables[0], "metric": "matthews"}, {**tables[1], "metric": "spearman"}]
    evaluator = read_source(tasks_recipe(place / "model/tiny", two), 0, SharedStore(tmp_path)).evaluator
    assert [m.name for m in evaluator.metrics[:3]] == ["task_mean", "matthews", "spearman"]
    assert {m.name for m in evaluator.metrics} >= set(CLASS_METRICS) | {"pearson"}


# What is refused


def refusals(tables: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], str]]:
    film, scores, _ = tables
    many = {"tasks": tables}
    yield {"data": {"tasks": []}}, "data.tasks is missing or empty"
    yield {"data": {}}, "data.tasks is missing or empty"
    yield (
        {"data": {**many, "name": "rte"}},
        'data.name means nothing with objective.kind = "multi-task"; put it into the table of each task',
    )
    yield {"data": {**many, "limit": 5}}, 'data.limit means nothing with objective.kind = "multi-task"; put it'
    yield {"data": {"tasks": [film, {**scores, "task": "film"}]}}, "two are called 'film'"
    yield {"data": {"tasks": [film, {**scores, "limti": 5}]}}, "did you mean data.tasks.1.limit?"
    yield {"data": {"tasks": [film, {"text": "t", "label": "y"}]}}, "data.tasks.1 needs either name or train"
    yield {"data": {"tasks": [film, {**scores, "name": "rte"}]}}, "[data.tasks.1] needs either name or train, not both"
    yield {"data": {"tasks": [{**film, "limit": 3, "fraction": 0.1}]}}, "data.tasks.0.limit and data.tasks.0.fraction"
    yield {"data": {"tasks": [{**film, "task": "a.b"}]}}, "'a.b' is not a valid task name"
    yield {"data": {"tasks": [{**film, "task": "items"}]}}, "'items' is not a valid task name"
    yield {"data": {"tasks": [{"task": "x", "train": "x.csv"}]}}, "the task x: data.train needs data.text"
    yield {"data": {"tasks": [{**film, "metric": "log_loss"}]}}, "has no place in a mean over tasks"
    yield {"data": {"tasks": [{**film, "metric": "bleu"}]}}, "has no place in a mean over tasks"
    yield {"objective": {"weights": {"flim": 2.0}}}, "objective.weights: there is no task 'flim'; did you mean 'film'?"
    yield {"objective": {"weights": {"film": 0.0}}}, "objective.weights.film = 0.0 is not right: it must be above 0"
    yield {"objective": {"train_on": ["rte"]}}, "objective.train_on: there is no task 'rte'; these are film,"
    yield {"objective": {"train_on": ["film", "film"]}}, "objective.train_on: name each task once"
    yield {"objective": {"train_on": []}}, "objective.train_on"
    yield {"objective": {"sampling": "sqrt"}}, "objective.sampling = 'sqrt' is not right"
    yield {"objective": {"sampling": "in-turn"}, "training": {"patience": 2}}, "training.patience ends the whole"
    yield {"objective": {"sampling": "in-turn", "weights": {"film": 2.0}}}, "objective.weights weighs tasks against"
    yield (
        {"objective": {"kind": "classify"}},
        'data.tasks means nothing with objective.kind = "classify"; use objective.kind = "multi-task"',
    )
    yield {"evaluation": {"metric": "accuracy"}}, "choose from task_mean"
    yield {"tuning": {"method": "frozen", "solve": True}}, 'objective.kind = "multi-task" cannot be solved at once'
    yield {"tuning": {"method": "cosine"}}, 'tuning.method = "cosine" solves for its head'
    tpe = {"search": "tpe", "trials": 4, "training": {"lr": [1e-3, 1e-4]}}
    yield {"objective": {"sampling": "in-turn"}, "study": tpe}, "set study.prune = false"
    yield {"study": {**tpe, "objective": {"sampling": ["uniform", "in-turn"]}}}, "set study.prune = false"


def test_what_makes_no_sense_is_refused_in_words(place: Path, tables: list[dict[str, Any]]) -> None:
    base = tasks_recipe(place / "model/tiny", tables).identity()
    for changes, words in refusals(tables):
        content = {**base, **{key: {**base.get(key, {}), **value} for key, value in changes.items()}}
        if "data" in changes:
            content["data"] = changes["data"]
        if content["tuning"]["method"] != "full":
            content["training"] = {"max_length": 32}
        if "kind" in changes.get("objective", {}):
            content["objective"] = changes["objective"]
        with pytest.raises(RequestError) as caught:
            make_recipe(content)
        assert words in str(caught.value), str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_metric_that_does_not_go_with_the_data_names_the_task(place: Path, tables: Any, tmp_path: Path) -> None:
    recipe = tasks_recipe(place / "model/tiny", [tables[0], {**tables[1], "metric": "accuracy"}])
    with pytest.raises(RequestError, match=r'the task scores: metric = "accuracy" does not go with score'):
        read_source(recipe, 0, SharedStore(tmp_path))


def test_keys_are_explained_and_a_recipe_that_was_written_down_is_the_same(make: Make) -> None:
    assert "a table [[data.tasks]] for each task" in explain_key("data.tasks")
    assert "Name of the task and its head" in explain_key("data.tasks.task")
    recipe = make(objective={"weights": {FILM: 2.0}, "train_on": [FILM]})
    whole = recipe.model_dump(mode="json", exclude={"seeds", "study"})
    assert make_recipe(whole).identity() == recipe.identity() == make_recipe(recipe.identity()).identity()


def test_a_step_that_fails_says_which_task(make: Make, tmp_path: Path) -> None:
    parts = put_together(make(), tmp_path / "store")
    step: Any = parts.sampler.step(0, 0.0)
    assert step.where().startswith(f"{step.task}, rows ")


def test_keys_of_cached_texts_do_not_meet(make: Make, tmp_path: Path) -> None:
    parts = put_together(make("frozen", objective={"train_on": [FILM, TWINS]}), tmp_path / "store")
    sets = parts.inputs.cached_texts()
    assert list(sets) == sorted(sets)
    assert {f"{s}-{t}" for s in ("train", "dev", "test") for t in (FILM, TWINS)} <= set(sets)
    assert f"train-{SCORES}" not in sets
    keys = [text.cache_key for text in itertools.chain.from_iterable(sets.values())]
    assert len(set(keys)) == len(keys)
    step = parts.sampler.step(0, 0.0)
    with torch.inference_mode():
        (cached,) = parts.objective.losses(parts.tuning.reader, step, parts.objective.counts(step), WHOLE)
    assert cached.loss.isfinite()


def test_files_of_plain_runs_are_as_before(place: Path, tmp_path: Path) -> None:
    execute(
        tiny_recipe(place / "model/tiny", write_data(tmp_path / "data"), training={"epochs": 1}),
        7,
        tmp_path / "run",
        quiet=True,
    )
    manifest = json.loads((tmp_path / "run/manifest.json").read_text())
    assert "tasks" not in manifest["data"]
    assert not {"forgetting", "temperatures"} & metrics_of(tmp_path / "run").keys()
