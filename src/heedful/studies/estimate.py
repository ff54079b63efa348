"""How long a study will take, from one step of each kind of run that it has."""

import json
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from heedful.data.examples import Dataset, Examples
from heedful.recipes.schema import Recipe
from heedful.training.setting import Setting, prepare
from heedful.training.shelf import Shelf
from heedful.training.threads import threads_of

_KINDS = 6  # that are measured; a search among more models takes the mean of these


@dataclass(frozen=True)
class Pace:
    """Seconds for each row: read by the model, and trained on."""

    reading: float
    training: float


def expected_seconds(runs: Iterable[tuple[Recipe, int]], dataset: Dataset, threads: int | None) -> float:
    """Of all these runs (recipe and seed) one after another, each with the threads that it will have; `dataset` has all
    rows. Rough: half or twice as long is possible, since machines are shared and a step says little of the next. The
    features of a frozen body count once."""
    paces: dict[str, Pace] = {}
    seen: set[str] = set()
    total = 0.0
    for recipe, seed in runs:
        table = recipe.training
        facts = [recipe.model.model_dump(exclude={"dropout"}), recipe.tuning.method, table.max_length, table.long_texts]
        kind = json.dumps(facts)
        if kind not in paces:
            paces[kind] = _measure(recipe, dataset, threads) if len(paces) < _KINDS else _mean(paces.values())
        drawn = seed if recipe.data.redraw else None
        rows = json.dumps([facts, recipe.data.limit, recipe.data.fraction, drawn])
        total += _seconds(recipe, dataset, paces[kind], new=rows not in seen)
        seen.add(rows)
    return total


def _seconds(recipe: Recipe, dataset: Dataset, pace: Pace, new: bool) -> float:
    """`new`: no run before it has computed the features of its frozen body."""
    whole, table = len(dataset.train), recipe.training
    rows = min(whole, recipe.data.limit or max(1, round((recipe.data.fraction or 1) * whole)))
    judged = len(dataset.dev) if dataset.dev is not None else 0
    tested = len(dataset.test) if dataset.test is not None and recipe.evaluation.test else 0
    if recipe.tuning.method == "frozen":
        return pace.reading * (rows + judged + tested) * new + pace.training * rows * table.epochs
    reading = judged * (table.epochs + 1) + tested
    return pace.training * rows * table.epochs + pace.reading * reading


def _measure(recipe: Recipe, dataset: Dataset, threads: int | None) -> Pace:
    rows_of_a_step = max(1, min(32, recipe.training.batch_size // recipe.training.accumulate))
    sample = replace(dataset, train=_typical(dataset.train, rows_of_a_step), dev=None, test=None)
    with tempfile.TemporaryDirectory() as folder, threads_of(recipe.training.threads or threads):
        setting = prepare(recipe, 0, sample, Shelf(Path(folder)))
        rows = list(range(len(sample.train)))
        _step(setting, rows)  # the first one is slower
        started = time.perf_counter()
        _step(setting, rows)
        training = (time.perf_counter() - started) / len(rows)
        reading = setting.feature_seconds / len(rows)
        if not setting.frozen:
            setting.method.train(False)
            started = time.perf_counter()
            with torch.inference_mode():
                setting.method.scores("train", rows)
            reading = (time.perf_counter() - started) / len(rows)
    return Pace(reading, training)


def _step(setting: Setting, rows: list[int]) -> None:
    setting.method.train(True)
    loss = setting.loss.sum(setting.method.scores("train", rows), setting.targets["train"][rows])
    loss.backward()  # type: ignore[no-untyped-call]
    for parameter in setting.method.trainable().values():
        parameter.grad = None


def _typical(train: Examples, count: int) -> Examples:
    """So many rows of about the mean length: batches are made of rows of similar length."""
    lengths = [len(text) for text in train.texts]
    if train.pairs is not None:
        lengths = [n + len(pair) for n, pair in zip(lengths, train.pairs, strict=True)]
    mean = sum(lengths) / max(1, len(lengths))
    return train.take(sorted(sorted(range(len(lengths)), key=lambda i: abs(lengths[i] - mean))[:count]))


def _mean(paces: Iterable[Pace]) -> Pace:
    found = list(paces)
    return Pace(sum(p.reading for p in found) / len(found), sum(p.training for p in found) / len(found))
