"""How long a study will take, and how that is told."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from heedful.checkpoints.fresh import shape_from
from heedful.data.loading import load_data
from heedful.evaluators.translations import TranslationEvaluator
from heedful.models.flops import forward_flops
from heedful.models.shape import Shape
from heedful.recipes.reading import make_recipe
from heedful.storage.shared import SharedStore
from heedful.studies import estimate
from heedful.studies.board import Board
from heedful.studies.estimate import Pace, expected_seconds
from heedful.studies.plan import plan_recipe
from heedful.studies.study import run_study
from heedful.training.assembly import read_source
from heedful.training.progress import roughly
from tests.support.corpus_samples import corpus_recipe, write_text
from tests.support.question_samples import answer_recipe, write_people
from tests.support.training_samples import tiny_recipe, write_data, write_tiny
from tests.support.translation_samples import assembled, translation

TICKETS: dict[str, Any] = {"model": {"name": "x"}, "data": {"name": "tickets"}}


@pytest.fixture
def paced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A second for a row that is trained on, a tenth for one that is read."""
    measured: list[str] = []

    def measure(recipe: Any, *_: Any) -> Pace:
        measured.append(recipe.tuning.method)
        return Pace(0.1, 1.0, cached=recipe.tuning.method != "full")

    monkeypatch.setattr(estimate, "_measure", measure)
    return measured


def test_rows_epochs_and_splits_count(paced: list[str], tmp_path: Path) -> None:
    store = SharedStore(tmp_path)
    recipe = make_recipe({**TICKETS, "training": {"epochs": 4}})
    data = load_data(recipe.data, 0, store)
    train, dev, test = len(data.train), len(data.dev or ()), len(data.test or ())
    alone = expected_seconds([(recipe, 0)], store, None)
    assert alone == pytest.approx(4 * train + 0.1 * (5 * dev + test))
    half = make_recipe(
        {"model": {"name": "x"}, "data": {"name": "tickets", "fraction": 0.5}, "training": {"epochs": 4}}
    )
    assert expected_seconds([(half, 0)], store, None) == pytest.approx(4 * round(train / 2) + 0.1 * (5 * dev + test))
    assert expected_seconds([(recipe, 0), (recipe, 1)], store, None) == pytest.approx(2 * alone)
    assert paced == ["full"] * 3  # once for each call: runs of one kind share it


def test_tokens_count_by_the_length_of_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "_measure", lambda *_: Pace(0.1, 1.0, tokens=20.0))
    store = SharedStore(tmp_path)
    recipe = make_recipe({**TICKETS, "training": {"tokens": 4000, "mark_tokens": 1000}})
    data = load_data(recipe.data, 0, store)
    dev, test = len(data.dev or ()), len(data.test or ())
    assert expected_seconds([(recipe, 0)], store, None) == pytest.approx(200 + 0.1 * (5 * dev + test))


def test_steps_that_tokens_measure_have_the_rows_that_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "_measure", lambda *_: Pace(0.0, 1.0, moving=0.5, step_rows=7.0))
    store = SharedStore(tmp_path)
    by_tokens = make_recipe({**TICKETS, "training": {"steps": 10, "batch_tokens": 500}})
    assert expected_seconds([(by_tokens, 0)], store, None) == pytest.approx(10 * (7 + 0.5))
    by_rows = make_recipe({**TICKETS, "training": {"steps": 10, "batch_size": 4}})
    assert expected_seconds([(by_rows, 0)], store, None) == pytest.approx(10 * (4 + 0.5))


def test_every_mark_and_the_end_are_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "_measure", lambda *_: Pace(1.0, 0.0, final=3.0))
    store = SharedStore(tmp_path)
    data = load_data(make_recipe(TICKETS).data, 0, store)
    train, dev, test = len(data.train), len(data.dev or ()), len(data.test or ())
    epoch = -(-train // 32)
    for training, marks in (
        ({"steps": 20, "mark_steps": 5}, 4),
        ({"epochs": 2, "mark_steps": 2}, -(-2 * train // 32 // 2)),
        ({"steps": 3 * epoch}, 4),  # the ends of three epochs and a bit, whose last batches are smaller
    ):
        recipe = make_recipe({**TICKETS, "training": training})
        found = expected_seconds([(recipe, 0)], store, None)
        assert found == pytest.approx(marks * dev + 3 * (dev + test), abs=dev), training


def test_a_step_by_tokens_is_measured_at_its_average_size(tmp_path: Path) -> None:
    """Rows in a step, and their tokens, are those of the training that follows."""
    recipe = translation("encoder-decoder", tmp_path, training={"batch_tokens": 40})
    store = SharedStore(tmp_path / "store")
    pace = estimate._measure(recipe, read_source(recipe, 0, store), 1)
    real = assembled(recipe, tmp_path / "store").sampler
    steps = [real.step(i, 0.0) for i in range(real.epoch_steps(0) or 0)]
    rows = sum(len(step.rows) for step in steps)
    assert pace.step_rows == pytest.approx(rows / len(steps), rel=0.25)
    assert pace.tokens == pytest.approx(sum(sum(step.lengths) for step in steps) / rows, rel=0.1)


def test_running_text_by_tokens(tmp_path: Path) -> None:
    text = write_text(tmp_path / "text.txt")
    recipe = corpus_recipe(text, {"kind": "mask", "next_sentence": False}, batch_tokens=128)
    store = SharedStore(tmp_path / "store")
    pace = estimate._measure(recipe, read_source(recipe, 0, store), 1)
    real = assembled(recipe, tmp_path / "store").sampler
    steps = [real.step(i, 0.0) for i in range(real.epoch_steps(0) or 0)]
    assert pace.step_rows == pytest.approx(sum(len(step.rows) for step in steps) / len(steps), rel=0.3)
    assert pace.reading > 0


def test_answering_is_counted(tmp_path: Path) -> None:
    recipe = answer_recipe(write_people(tmp_path))
    pace = estimate._measure(recipe, read_source(recipe, 0, SharedStore(tmp_path / "store")), 1)
    assert pace.final == pace.reading > 0


def test_translating_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At marks with one beam, at the end with another, no longer than training.max_length."""
    beams, real = [], TranslationEvaluator.translations

    def slow(self: TranslationEvaluator, inputs: Any, name: str, beam: int, *rest: Any, most: int) -> Any:
        beams.append(beam)
        assert 1 <= most <= self.recipe.training.max_length
        time.sleep(0.2 * beam)
        return real(self, inputs, name, beam, *rest, most=most)

    monkeypatch.setattr(TranslationEvaluator, "translations", slow)
    recipe = translation("encoder-decoder", tmp_path, objective={"beam": 1, "final_beam": 3})
    pace = estimate._measure(recipe, read_source(recipe, 0, SharedStore(tmp_path / "store")), 1)
    assert beams == [1, 3]
    assert pace.final is not None
    assert pace.reading >= 0.2 / 8
    assert pace.final >= 0.6 / 8


def sized(layers: int, width: int, **training: Any) -> Any:
    model = {"shape": "bert-tiny", "layers": layers, "width": width, "heads": width // 16}
    content = {"model": model, "data": {"name": "tickets"}, "tokenizer": {"kind": "wordpiece"}}
    return make_recipe({**content, "training": {"steps": 100, **training}})


def seconds_of_step(shape: Shape, rows: int) -> float:
    """A machine: so long for a step, for each of its layers, and for each FLOP."""
    return 0.002 + 0.003 * shape.layers + 3 * rows * forward_flops(shape, [20]) / 5e9


def test_of_many_sizes_a_few_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep of rising sizes, of which the first six are small."""
    measured: list[Shape] = []

    def measure(recipe: Any, *_: Any) -> Pace:
        shape = shape_from("bert-tiny", recipe.model.sizes())
        measured.append(shape)
        rows = 32 if shape.layers < 4 else 16  # the others are too slow
        by_row = seconds_of_step(shape, rows) / rows
        return Pace(by_row / 3, by_row, rows=rows, shape=shape, row_flops=lambda other: forward_flops(other, [20]))

    monkeypatch.setattr(estimate, "_measure", measure)
    sizes = [(1, 32), (1, 64), (2, 64), (2, 96), (2, 128), (3, 128), (4, 256), (6, 256), (6, 512), (12, 768)]
    store, recipes = SharedStore(tmp_path), [sized(*size) for size in sizes]
    data = load_data(recipes[0].data, 0, store)
    judged = 2 * len(data.dev or ()) + len(data.test or ())
    by_size = {r.model.width * r.model.layers: expected_seconds([(r, 0)], store, None) for r in recipes}
    measured.clear()
    found = expected_seconds([(recipe, 0) for recipe in recipes], store, None)
    assert len(measured) == 6
    shapes = [shape_from("bert-tiny", recipe.model.sizes()) for recipe in recipes]
    assert found == pytest.approx(sum((100 + judged / 3 / 32) * seconds_of_step(s, 32) for s in shapes), rel=0.1)
    assert found == pytest.approx(sum(by_size.values()), rel=0.1)


def test_sizes_of_two_methods_have_rates_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(recipe: Any, *_: Any) -> Pace:
        shape = shape_from("bert-tiny", recipe.model.sizes())
        slower = 10 if recipe.training.max_length == 64 else 1
        by_row = slower * forward_flops(shape, [20]) / 1e9
        return Pace(0.0, by_row, shape=shape, row_flops=lambda other: forward_flops(other, [20]))

    monkeypatch.setattr(estimate, "_measure", measure)
    store = SharedStore(tmp_path)
    short, long = ([sized(2, w, max_length=m) for w in (32, 64, 96, 128, 256)] for m in (32, 64))
    expected = sum(32 * 100 * 11 * forward_flops(shape_from("bert-tiny", r.model.sizes()), [20]) / 1e9 for r in short)
    found = expected_seconds([(recipe, 0) for recipe in (*short, *long)], store, None)
    assert found == pytest.approx(expected, rel=1e-6)


def test_a_measured_pace_knows_its_flops(tmp_path: Path) -> None:
    """The FLOPs of a row are those that the objective counts, of a body of any shape."""
    text = write_text(tmp_path / "text.txt")
    recipe = corpus_recipe(text, {"kind": "mask", "next_sentence": False})
    pace = estimate._measure(recipe, read_source(recipe, 0, SharedStore(tmp_path / "store")), 1)
    assert pace.shape is not None
    assert pace.row_flops is not None
    assert pace.shape.vocabulary > 100
    deeper = pace.row_flops(replace(pace.shape, layers=3)) - pace.row_flops(replace(pace.shape, layers=2))
    assert pace.row_flops(pace.shape) > deeper > 12 * pace.shape.width**2 * 2 * 0.9


def test_models_of_which_no_shape_is_known_take_the_mean(paced: list[str], tmp_path: Path) -> None:
    (tmp_path / "translator").mkdir()
    (tmp_path / "translator/config.json").write_text('{"model_type": "marian"}')
    names = [str(tmp_path / "translator"), *(f"x{i}" for i in range(8))]
    recipes = [make_recipe({**TICKETS, "model": {"name": name}, "training": {"steps": 10}}) for name in names]
    store = SharedStore(tmp_path)
    (one, *_) = [expected_seconds([(recipe, 0)], store, None) for recipe in recipes]
    paced.clear()
    assert expected_seconds([(recipe, 0) for recipe in recipes], store, None) == pytest.approx(9 * one)
    assert len(paced) == 6


def test_features_of_a_frozen_body_count_once(paced: list[str], tmp_path: Path) -> None:
    store = SharedStore(tmp_path)
    recipe = make_recipe({**TICKETS, "tuning": {"method": "frozen", "solve": False}, "training": {"epochs": 4}})
    data = load_data(recipe.data, 0, store)
    rows = len(data.train) + len(data.dev or ()) + len(data.test or ())
    found = expected_seconds([(recipe, seed) for seed in range(3)], store, None)
    assert found == pytest.approx(3 * 4 * len(data.train) + 0.1 * rows)
    cosine = make_recipe({**TICKETS, "tuning": {"method": "cosine"}})
    more = expected_seconds([(recipe, 0), (cosine, 0)], store, None) - expected_seconds([(recipe, 0)], store, None)
    assert more == pytest.approx(3 * len(data.train))  # what both read is computed once


@pytest.mark.parametrize("method", ["frozen", "full"])
def test_it_is_told_before_the_start(method: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = tiny_recipe(write_tiny(tmp_path / "model"), write_data(tmp_path / "data"), method)
    plan = plan_recipe(recipe, "r", (0, 1, 2))
    run_study(plan, tmp_path / "study", command="x", threads=1, at_once=2)
    first, second, *_ = capsys.readouterr().err.splitlines()
    assert first == "3 runs, 2 in parallel: about 5 seconds"
    assert second.startswith("r-seed0")
    run_study(plan, tmp_path / "study", command="x", threads=1, at_once=2)
    assert capsys.readouterr().err == ""  # nothing is left to do


def test_an_estimate_that_fails_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: Any) -> Pace:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(estimate, "_measure", full)
    recipe = tiny_recipe(write_tiny(tmp_path / "model"), write_data(tmp_path / "data"))
    facts = run_study(plan_recipe(recipe, "r", (0,)), tmp_path / "study", command="x", threads=1)
    assert facts["runs"][0]["state"] == "done"
    assert "about" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (1, "5 seconds"),
        (33, "35 seconds"),
        (61, "1 minute"),
        (3000, "50 minutes"),
        (9000, "2.5 hours"),
        (9e5, "10 days"),
    ],
)
def test_words_for_what_is_known_roughly(seconds: float, words: str) -> None:
    assert roughly(seconds) == words


def test_the_board_corrects_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    shown = Board(["a", "b", "c", "d"], {"a"}, expected=100.0)
    now = 30.0
    assert shown.left() == 70.0
    shown("b", {"ended": "done"})
    assert shown.left() == 60.0  # two more like the one that took thirty
