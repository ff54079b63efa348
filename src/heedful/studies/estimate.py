"""How long a study will take, from one step of each kind of run that it has."""

import json
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from heedful.objectives.protocol import Objective
from heedful.objectives.texts import Parts
from heedful.recipes.schema import Recipe
from heedful.storage.shared import SharedStore
from heedful.training.assembly import Assembly, assemble, read_objective
from heedful.training.threads import threads_of

_KINDS = 6  # that are measured; a search among more models takes the mean of these


@dataclass(frozen=True)
class Pace:
    """Seconds for each row: read by the model, and trained on."""

    reading: float
    training: float
    cached: bool = False
    """Whether every row is read once, for all runs, because the body does not move."""
    tokens: float = 1.0
    """Of a row."""
    sides: int = 1
    """How many texts a row has that `training.batch_tokens` counts apart."""


def expected_seconds(runs: Iterable[tuple[Recipe, int]], store: SharedStore, threads: int | None) -> float:
    """Of all these runs (recipe and seed) one after another, each with the threads that it will have. Rough: half or
    twice as long is possible, since machines are shared and a step says little of the next. What is computed once for
    several runs counts once."""
    paces: dict[str, Pace] = {}
    sizes: dict[str, Mapping[str, int]] = {}
    stages: dict[str, int] = {}
    counted: set[str] = set()
    total = 0.0
    for recipe, seed in runs:
        data = json.dumps([recipe.data.model_dump(mode="json"), seed if recipe.data.redrawn else None])
        kind, learned = _kind(recipe), data + recipe.objective.model_dump_json()
        if learned not in sizes or (kind not in paces and len(paces) < _KINDS):
            objective = read_objective(recipe, seed, store)
            described = objective.description()
            sizes[learned] = described["sizes"]
            stages[learned] = len(described["trained_on"]) if described.get("in_turn") else 1
        if kind not in paces:
            measured = len(paces) < _KINDS
            paces[kind] = _measure(recipe, objective, threads) if measured else _mean(paces.values())
        shared = (_features(recipe) if paces[kind].cached else kind) + data
        total += _seconds(recipe, sizes[learned], stages[learned], paces[kind], new=shared not in counted)
        counted.add(shared)
    return total


def _kind(recipe: Recipe) -> str:
    """What the pace of a run depends on."""
    table = recipe.training
    facts: list[Any] = [recipe.model.model_dump(exclude={"dropout"}), recipe.objective.kind, recipe.tuning.method]
    return json.dumps([*facts, table.max_length, table.long_texts, table.precision])


def _features(recipe: Recipe) -> str:
    """What a frozen body gives for texts depends on; several tunings may share it."""
    model, table = recipe.model, recipe.training
    return json.dumps([model.name, model.revision, model.pooling, model.pairs, table.max_length, table.long_texts])


def _seconds(recipe: Recipe, sizes: Mapping[str, int], stages: int, pace: Pace, new: bool) -> float:
    """`stages`: how many follow each other, each as long as the recipe says; `new`: no run before it has computed what
    several share."""
    table = recipe.training
    rows, marks = sizes["train"] * table.epochs, table.epochs
    if table.steps is not None:
        rows, marks = stages * table.steps * _rows(recipe, pace), table.steps // (table.mark_steps or table.steps)
    elif table.tokens is not None:
        rows, marks = round(table.tokens / pace.tokens), table.tokens // (table.mark_tokens or table.tokens)
    marks = stages * max(1, marks)
    judged = sizes.get("dev", 0)
    others = sum(size for name, size in sizes.items() if name not in ("train", "dev"))
    if pace.cached:
        return pace.reading * (sizes["train"] + judged + others) * new + pace.training * rows
    return pace.training * rows + pace.reading * (judged * (marks + 1) + others)


def _rows(recipe: Recipe, pace: Pace) -> int:
    """Of a step, roughly: rows of similar length stand together."""
    table = recipe.training
    if table.batch_tokens is None:
        return table.batch_size
    return max(1, round(table.batch_tokens * pace.sides / pace.tokens))


def _measure(recipe: Recipe, objective: Objective, threads: int | None) -> Pace:
    sample = objective.sample(max(1, min(32, recipe.training.batch_size // recipe.training.accumulate)))
    with tempfile.TemporaryDirectory() as folder, threads_of(recipe.training.threads or threads):
        parts = assemble(recipe, recipe.seed_list()[0], sample, SharedStore(Path(folder)))
        cached = parts.tuning.reader.cache is not None
        step = sample.step(0)
        rows = len(step.rows)
        training = 0.0
        if parts.tuning.solve is None:
            _pass(parts, train=True)  # the first one is slower
            training = _pass(parts, train=True) / rows
        reading = parts.tuning.spent(0, 0).seconds if cached else _pass(parts, train=False)
        return Pace(reading / rows, training, cached, sum(step.lengths) / rows, 2 if objective.PAIRS else 1)


def _pass(parts: Assembly, train: bool) -> float:
    """The seconds of one step over the sample, with its gradients or without."""
    objective, tuning = parts.objective, parts.tuning
    tuning.train(train)
    started = time.perf_counter()
    step = objective.step(0)
    with torch.set_grad_enabled(train):
        for partial in objective.losses(tuning.reader, step, objective.counts(step), Parts(1), lambda part: None):
            if train:
                partial.loss.backward()  # type: ignore[no-untyped-call]
    seconds = time.perf_counter() - started
    for parameter in tuning.trainable().values():
        parameter.grad = None
    return seconds


def _mean(paces: Iterable[Pace]) -> Pace:
    known = list(paces)
    reading, training, tokens = (
        sum(getattr(p, key) for p in known) / len(known) for key in ("reading", "training", "tokens")
    )
    return Pace(reading, training, any(p.cached for p in known), tokens, known[0].sides)
