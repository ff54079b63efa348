"""Killed and resumed to the bit, whatever is trained: families, tunings, heads, batches and marks of every kind."""

import random
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from heedful import plugins
from heedful.recipes.schema import Recipe
from heedful.training.run import execute
from tests.support.killing import step_on_disk, survive
from tests.support.training_samples import (
    FAMILY_CHANGES,
    Child,
    assert_same_run,
    sentences,
    tiny_recipe,
    write_csv,
    write_data,
    write_family,
)

FAMILIES = tuple(FAMILY_CHANGES)
VARIANTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    **{f"{family}-full": (family, "full", {}) for family in FAMILIES},
    "bert-frozen": ("bert", "frozen", {}),
    "scores": ("bert", "full", {"scores": True}),
    "chunks": ("bert", "full", {"max_length": 12, "long_texts": "chunk"}),
    "batch-tokens": ("bert", "full", {"batch_tokens": 120}),
    "marks-by-steps": ("bert", "full", {"steps": 13, "mark_steps": 4, "patience": 3}),
    "marks-by-tokens": ("bert", "full", {"mark_tokens": 150}),
    "tokens": ("bert", "full", {"tokens": 900, "schedule": "trapezoid", "mark_tokens": 200}),
    "muon": ("bert", "full", {"optimiser": "muon", "betas": [0.8, 0.95]}),
    "solved": ("bert", "solved", {}),
    "towers": ("bert", "full", {"pairs": "towers"}),
    "bilstm": ("bert", "full", {"pooling": "bilstm"}),
    "gru-towers": ("bert", "full", {"pooling": "gru", "pairs": "towers"}),
    "frozen-gru": ("bert", "frozen", {"pooling": "gru"}),
    "adapter": ("bert", "adapter", {}),
    "upper-adapter": ("gpt2", "adapter", {"tuning": {"layers": [1], "dropout": 0.2}}),
    "lora": ("roberta", "lora", {"tuning": {"dropout": 0.2}}),
    "bias": ("distilbert", "bias", {}),
    "fusion": ("bert", "fusion", {"tuning": {"dropout": 0.2}}),
}
"""What else a run can be: family, tuning, keys of [training], [model] and [tuning]."""


@pytest.fixture(scope="module")
def variants(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Recipe, Path]]:
    """The recipe of a variant, and its uninterrupted run."""
    folder = tmp_path_factory.mktemp("variants")
    data = write_data(folder / "data")
    rows = [(text, f"{sum(map(ord, text)) % 50 / 10}") for text, _ in sentences(52, seed=4)]
    scores = {"train": str(write_csv(folder / "scores.csv", ("text", "label"), rows)), "text": "text", "label": "label"}
    both = [(a, b, y) for (a, y), (b, _) in zip(rows, rows[1:] + rows[:1], strict=True)]
    pairs = {**scores, "train": str(write_csv(folder / "pairs.csv", ("text", "b", "label"), both)), "pair": "b"}

    def variant(name: str) -> tuple[Recipe, Path]:
        family, method, training = VARIANTS[name]
        training = dict(training)
        files = {**scores, "kind": "score"} if training.pop("scores", False) else data
        keys = {key: training.pop(key) for key in ("pairs", "pooling") if key in training}
        files = {**pairs, "kind": "score"} if "pairs" in keys else files
        model = folder / family / family
        if not model.exists():
            write_family(folder / family, family)
        head = {"dropout": 0.3, **keys} if method != "solved" else {}
        tuning = dict(training.pop("tuning", {}))
        if method == "fusion":
            tuning["adapters"] = [str(adapter(model, files, folder / name)) for name in ("a", "b")]
        recipe = tiny_recipe(model, files, method, training=training, model=head, tuning=tuning)
        directory = folder / "runs" / name / "run"
        if not directory.exists():
            execute(recipe, 7, directory, command="test", quiet=True)
        return recipe, directory

    return variant


def adapter(model: Path, files: Mapping[str, Any], folder: Path) -> Path:
    """A model with an adapter of the folder's name."""
    recipe = tiny_recipe(model, files, "adapter", training={"epochs": 1}, tuning={"name": folder.name})
    execute(recipe, ord(folder.name), folder, command="test", quiet=True)
    return folder / "model"


def solved(recipe: Recipe) -> bool:
    return not plugins.find("tuning", recipe.tuning.method).random(recipe)


def kill_once(recipe: Recipe, directory: Path, draw: random.Random, life: int) -> bool:
    """After a random step of the first ten, or, where there are no steps, when it is at work for a while that halves
    with each life, so that a machine on which it ends sooner is met too; False if it ended before that."""
    child, goal, start = Child(recipe, 7, directory), draw.randint(1, 10), time.monotonic()
    while child.process.is_alive() and time.monotonic() - start < 20:
        if solved(recipe):
            if (directory / "manifest.json").exists():
                time.sleep(goal / 30 / 2**life)
                break
        elif step_on_disk(directory) >= goal:
            break
        time.sleep(0.0002)
    return child.kill()


@pytest.mark.parametrize("name", VARIANTS)
def test_killed_once_whatever_is_trained(
    name: str, variants: Callable[[str], tuple[Recipe, Path]], tmp_path: Path
) -> None:
    recipe, expected = variants(name)
    draw = random.Random(name)
    for life in range(10):
        directory = tmp_path / str(life) / "run"
        killed = kill_once(recipe, directory, draw, life)
        if killed and not solved(recipe):
            assert step_on_disk(directory) > 0
        Child(recipe, 7, directory).finish()
        assert_same_run(directory, expected)
        if killed:
            return
    raise AssertionError("every run ended before it could be killed")


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", VARIANTS)
def test_killed_many_times_whatever_is_trained(
    name: str, variants: Callable[[str], tuple[Recipe, Path]], tmp_path: Path
) -> None:
    recipe, expected = variants(name)
    draw = random.Random(f"many {name}")
    if not solved(recipe):
        survive(16, recipe, tmp_path, expected, draw)
        return
    done = 0
    for life in range(120):  # a run that is solved may end before it is hit
        directory = tmp_path / str(life) / "run"
        while done < 16 and kill_once(recipe, directory, draw, life):
            done += 1
        Child(recipe, 7, directory).finish()
        assert_same_run(directory, expected)
        if done >= 16:
            return
    raise AssertionError(f"every run ended before it could be killed, but for {done}")
