"""How long a study will take, from one step of each kind of run that it has."""

import json
import math
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from heedful.nn.attention import linear_maps
from heedful.objectives.protocol import Objective, Step
from heedful.recipes.schema import Recipe, TrainingTable
from heedful.storage.shared import SharedStore
from heedful.streams import Parts
from heedful.training.assembly import Assembly, assemble, read_objective
from heedful.training.optimisers.common import make_optimiser
from heedful.training.threads import threads_of

_KINDS = 6  # that are measured; a search among more models takes the mean of these
_ROWS, _MOST_ROWS, _SHORT = 32, 1024, 0.1  # that are timed; at most, where the few take less than so many seconds
_STEPS = 8  # that say how long rows are on average


@dataclass(frozen=True)
class Pace:
    """Seconds for each row, and how many rows a step has."""

    reading: float
    """Of a row that is read, or judged at a mark."""
    training: float
    """Of a row that is trained on, forward and back."""
    cached: bool = False
    """Whether every row is read once, for all runs, because the body does not move."""
    tokens: float = 1.0
    """Of a row."""
    final: float | None = None
    """Of a row that is judged at the end; None: as at a mark."""
    moving: float = 0.0
    """Of a step, for the optimiser."""
    step_rows: float | None = None
    """In a step, where training.batch_tokens says how large it is; None: training.batch_size."""
    once: float = 0.0
    """Of a row, for what is computed once for all runs and all sets."""


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
    table, tables = recipe.training, (recipe.model, recipe.tokenizer, recipe.objective)
    facts: list[Any] = [one and one.model_dump(mode="json", exclude={"dropout"}) for one in tables]
    facts += [recipe.tuning.method, table.batch_tokens, table.max_length, table.long_texts, table.precision]
    return json.dumps([*facts, table.optimiser])


def _features(recipe: Recipe) -> str:
    """What a frozen body gives for texts depends on; several tunings may share it."""
    model, table = recipe.model, recipe.training
    return json.dumps([model.name, model.revision, model.pooling, model.pairs, table.max_length, table.long_texts])


def _seconds(recipe: Recipe, sizes: Mapping[str, int], stages: int, pace: Pace, new: bool) -> float:
    """`stages`: how many follow each other, each as long as the recipe says; `new`: no run before it has computed what
    several share."""
    table = recipe.training
    in_step = pace.step_rows if table.batch_tokens is not None and pace.step_rows else table.batch_size
    if table.steps is not None:
        rows = table.steps * in_step * (1 - _spared(table.batch_warmup))
    elif table.tokens is not None:
        rows = table.tokens / pace.tokens
    else:
        rows = sizes["train"] * table.epochs
    steps = math.ceil(rows / in_step) if table.steps is None else table.steps
    training = stages * (pace.training * rows + pace.moving * steps)
    judged = sizes.get("dev", 0)
    others = sum(size for name, size in sizes.items() if name not in ("train", "dev"))
    if pace.cached:
        return pace.reading * (sizes["train"] + judged + others) * new + training
    marks = stages * _marks(table, rows, steps, pace.tokens, sizes["train"])
    final = pace.reading if pace.final is None else pace.final
    once = pace.once * (sizes["train"] + judged + others) * new
    return once + training + pace.reading * judged * marks + final * (judged + others)


def _spared(warmup: float) -> float:
    """The share of all rows that steps which grow to their size do without: see `objectives/warmup.py`."""
    return warmup * (0.75 + 0.5) / 2


def _marks(table: TrainingTable, rows: float, steps: int, tokens: float, train: int) -> int:
    """Where none are asked for, the ends of epochs."""
    if table.mark_steps is not None:
        return math.ceil(steps / table.mark_steps)
    if table.mark_tokens is not None:
        return math.ceil(rows * tokens / table.mark_tokens)
    return max(1, math.ceil(rows / max(1, train)))


def _measure(recipe: Recipe, objective: Objective, threads: int | None) -> Pace:
    """From a few rows; where these take no time, a step of the usual size, which is faster for each of its rows."""
    table = recipe.training
    few = max(1, min(_ROWS, table.batch_size // table.accumulate))
    pace, rows, seconds = _timed(recipe, objective.sample(few), threads)
    most = int(min(_MOST_ROWS, (pace.step_rows or table.batch_size) // table.accumulate))
    if rows < most and seconds < _SHORT and not pace.cached:
        pace, _, _ = _timed(recipe, objective.sample(most), threads)
    return pace


def _timed(recipe: Recipe, sample: Objective, threads: int | None) -> tuple[Pace, int, float]:
    """The pace, and the rows and seconds of the step that it is from."""
    with tempfile.TemporaryDirectory() as folder, threads_of(recipe.training.threads or threads):
        parts = assemble(recipe, recipe.seed_list()[0], sample, SharedStore(Path(folder)))
        cached = parts.tuning.reader.cache is not None
        sample.progressed(1.0)
        steps = [sample.step(i) for i in range(_STEPS)]
        rows, tokens = sum(len(s.rows) for s in steps), sum(sum(s.lengths) for s in steps)
        training = moving = reading = seconds = 0.0
        step = steps[-1]
        if parts.tuning.solve is None:
            move = _mover(recipe, parts)
            _pass(parts, step, train=True)  # the first one is slower
            move()
            step = sample.step(_STEPS)
            seconds = _pass(parts, step, train=True)
            moving = move()
            training = _by_row(seconds, step, rows, tokens)
        final: float | None = None
        if cached:
            reading = parts.tuning.spent(0, 0).seconds / sample.description()["sizes"]["train"]
        elif (judging := _judging(parts)) is not None:
            reading, final = judging
        else:
            reading = _by_row(_pass(parts, step, train=False), step, rows, tokens)
        once = sample.spent_once()[1] / sample.description()["sizes"]["train"]
        pace = Pace(reading, training, cached, tokens / rows or 1.0, final, moving, sample.step_rows(), once)
        return pace, len(step.rows), seconds


def _by_row(seconds: float, step: Step, rows: int, tokens: int) -> float:
    """Of an average row: rows of one step are about as long as each other, so it is counted by tokens."""
    read = sum(step.lengths)
    return seconds / read * tokens / rows if read else seconds / len(step.rows)


def _mover(recipe: Recipe, parts: Assembly) -> Callable[[], float]:
    """A function that moves the weights once and returns the seconds of it."""
    parameters = parts.tuning.trainable()
    maps = linear_maps(parts.tuning.reader.module)
    optimiser = make_optimiser(parameters, recipe.training, parts.tuning.lr_scale, maps)

    def move() -> float:
        started = time.perf_counter()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        return time.perf_counter() - started

    return move


def _judging(parts: Assembly) -> tuple[float, float] | None:
    parts.tuning.train(False)
    return parts.objective.judging_seconds(parts.tuning.reader)


def _pass(parts: Assembly, step: Step, train: bool) -> float:
    """The seconds of one step over the sample, with its gradients or without."""
    objective, tuning = parts.objective, parts.tuning
    tuning.train(train)
    started = time.perf_counter()
    with torch.set_grad_enabled(train):
        for partial in objective.losses(tuning.reader, step, objective.counts(step), Parts(1), lambda part: None):
            if train:
                partial.loss.backward()  # type: ignore[no-untyped-call]
    return time.perf_counter() - started


def _mean(paces: Iterable[Pace]) -> Pace:
    known = list(paces)
    keys = ("reading", "training", "tokens", "moving", "once")
    reading, training, tokens, moving, once = (sum(getattr(p, key) for p in known) / len(known) for key in keys)
    final = sum(p.reading if p.final is None else p.final for p in known) / len(known)
    in_step = [p.step_rows for p in known if p.step_rows]
    step_rows = sum(in_step) / len(in_step) if in_step else None
    return Pace(reading, training, any(p.cached for p in known), tokens, final, moving, step_rows, once)
