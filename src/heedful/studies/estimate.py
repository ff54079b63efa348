"""How long a study will take, from a step of each kind of run that it has.

Where the kinds are many, some are measured, and the others follow from their FLOPs and the rate of those.
"""

import json
import math
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.optimize import nnls

from heedful.building.body import BodyTable
from heedful.checkpoints.config import read_family, read_json, read_shape
from heedful.checkpoints.fresh import shape_from
from heedful.errors import RequestError
from heedful.inputs.protocol import Step
from heedful.models.flops import forward_flops
from heedful.models.shape import Shape
from heedful.nn.attention import linear_maps
from heedful.objectives.protocol import StepContext
from heedful.recipes.schema import Recipe, TrainingTable
from heedful.storage.shared import SharedStore
from heedful.streams import Parts
from heedful.training.assembly import Assembly, Source, assemble, read_source
from heedful.training.optimisers.common import make_optimiser
from heedful.training.threads import threads_of

_KINDS = 6  # up to which each is measured; of more, two or more of each family, the others by their FLOPs
_ROWS, _MOST_ROWS, _SHORT = 32, 1024, 0.1  # that are timed; at most, where the few take less than so many seconds
_STEPS = 8  # that say how long rows are on average


@dataclass(frozen=True)
class Pace:
    """Seconds for each row, and how many rows a step has."""

    reading: float
    """For a row that is read, or evaluated during training."""
    training: float
    """For a row that is trained on, forward and backward."""
    cached: bool = False
    """Whether every row is read once for all runs, because the body is frozen."""
    tokens: float = 1.0
    """In a row."""
    final: float | None = None
    """For a row that is evaluated at the end; None: as during training."""
    moving: float = 0.0
    """For the optimiser, in each step."""
    step_rows: float | None = None
    """In a step, where training.batch_tokens says how large it is; None: training.batch_size."""
    once: float = 0.0
    """For a row, of what is computed once for all runs and all sets."""
    rows: int = 1
    """In the step that was measured."""
    shape: Shape | None = None
    """Of the body that was measured."""
    row_flops: Callable[[Shape], float] | None = None
    """The FLOPs of a forward pass of an average row, through a body of any shape."""


def expected_seconds(runs: Iterable[tuple[Recipe, int]], store: SharedStore, threads: int | None) -> float:
    """Return the time of all these runs (recipe and seed) in a row, each with its number of threads. Rough: half or
    twice as long is possible, since machines are shared and a step says little of the next. What is computed once for
    several runs counts once."""
    runs = list(runs)
    kinds: dict[str, tuple[Recipe, int]] = {}
    for recipe, seed in runs:
        kinds.setdefault(_kind(recipe), (recipe, seed))
    paces = _paces(kinds, store, threads)
    sizes: dict[str, Mapping[str, int]] = {}
    stages: dict[str, int] = {}
    counted: set[str] = set()
    total = 0.0
    for recipe, seed in runs:
        data = json.dumps([recipe.data.model_dump(mode="json"), seed if recipe.data.redrawn else None])
        kind, learned = _kind(recipe), data + recipe.objective.model_dump_json()
        if learned not in sizes:
            described = read_source(recipe, seed, store).data.describe()
            sizes[learned] = described["sizes"]
            stages[learned] = len(described["trained_on"]) if described.get("in_turn") else 1
        shared = (_features(recipe) if paces[kind].cached else kind) + data
        total += _seconds(recipe, sizes[learned], stages[learned], paces[kind], new=shared not in counted)
        counted.add(shared)
    return total


def _kind(recipe: Recipe) -> str:
    """Return what the pace of a run depends on, as text."""
    return json.dumps([recipe.model.model_dump(mode="json", exclude={"dropout"}), _family(recipe)])


def _family(recipe: Recipe) -> str:
    """Return what kinds have in common that differ only in their model: the pace of one follows from the others."""
    table, tables = recipe.training, (recipe.tokenizer, recipe.objective)
    facts: list[Any] = [one and one.model_dump(mode="json") for one in tables]
    facts += [recipe.tuning.method, table.batch_tokens, table.max_length, table.long_texts, table.precision]
    return json.dumps([*facts, table.optimiser])


def _paces(kinds: Mapping[str, tuple[Recipe, int]], store: SharedStore, threads: int | None) -> dict[str, Pace]:
    """Return the pace of each kind of run, given a recipe and a seed of each."""
    families: dict[str, list[str]] = {}
    for kind, (recipe, _) in kinds.items():
        families.setdefault(_family(recipe), []).append(kind)
    paces: dict[str, Pace] = {}
    in_family: dict[str, list[Pace]] = {}
    each = len(kinds) if len(kinds) <= _KINDS else max(2, _KINDS // len(families))
    for family, members in list(families.items())[:_KINDS]:
        members.sort(key=lambda kind: _size(_shape(kinds[kind][0])))
        places = sorted({round(place) for place in np.linspace(0, len(members) - 1, each)})
        for kind in [members[place] for place in places]:
            recipe, seed = kinds[kind]
            paces[kind] = _measure(recipe, read_source(recipe, seed, store), threads)
            in_family.setdefault(family, []).append(paces[kind])
    measured = list(paces.values())
    for kind, (recipe, _) in kinds.items():
        if kind not in paces:
            paces[kind] = _by_flops(recipe, in_family.get(_family(recipe), measured))
    return paces


def _shape(recipe: Recipe) -> Shape | None:
    """Return the sizes of a body, if they are known without downloading a model or reading weights."""
    table = recipe.model
    if isinstance(table, BodyTable) and table.shape is not None:
        return shape_from(table.shape, table.sizes())
    path = Path(table.name or "")
    if table.name is None or not (path / "config.json").is_file():
        return None
    try:
        config = read_json(path / "config.json")
        return read_shape(path, config, read_family(path, config, [], None), pooler=False)
    except RequestError:  # it is no body with heads, such as a translator, or the run says what is wrong
        return None


def _size(shape: Shape | None) -> float:
    return 0.0 if shape is None else forward_flops(shape, [64])


def _by_flops(recipe: Recipe, measured: Sequence[Pace]) -> Pace:
    """Return the pace of a kind that was not measured: a time for each step, for each layer and for each FLOP, fitted
    to those that were measured. Where no shape is known, it is their mean."""
    known = [(p, p.shape, p.row_flops) for p in measured if p.shape is not None and p.row_flops is not None]
    shape = _shape(recipe)
    if shape is None or not known:
        return _mean(measured)
    largest, like, row_flops = known[-1]
    if recipe.model.name is None:  # the tokenizer, and so the vocabulary, is that of the others
        shape = replace(shape, vocabulary=like.vocabulary)
    rows = max(1, int(min(_MOST_ROWS, largest.step_rows or recipe.training.batch_size) // recipe.training.accumulate))

    def fitted(of: Callable[[Pace], float], a_step: bool = False) -> float:
        """Return the seconds of a row, or of a whole step."""
        points = [_costs(known_shape, row_flops(known_shape), 1 if a_step else p.rows) for p, known_shape, _ in known]
        at = _costs(shape, row_flops(shape), 1 if a_step else rows)
        return _predicted(points, [of(p) for p, _, _ in known], at)

    return replace(
        largest,
        reading=fitted(lambda p: p.reading),
        training=fitted(lambda p: p.training),
        moving=fitted(lambda p: p.moving, a_step=True),
        final=None if largest.final is None else fitted(lambda p: p.final or p.reading),
        once=fitted(lambda p: p.once),
        shape=shape,
    )


def _costs(shape: Shape, flops: float, rows: int) -> tuple[float, float, float]:
    """Return what a row costs: its FLOPs, and its share of the overhead of a step and of the layers in it."""
    return flops, 1 / rows, shape.layers / rows


def _predicted(points: Sequence[tuple[float, ...]], seconds: Sequence[float], at: Sequence[float]) -> float:
    """Return the seconds by the rates that fit the measured ones with the least relative error. None is below 0, and
    there are as many as points at most."""
    timed = [i for i, value in enumerate(seconds) if value > 0]
    if not timed:
        return 0.0
    costs = np.array([points[i][: len(timed)] for i in timed]) / np.array([[seconds[i]] for i in timed])
    scale = np.maximum(costs.max(axis=0), 1e-300)
    rates, _ = nnls(costs / scale, np.ones(len(timed)))
    return float(np.dot(rates / scale, at[: len(timed)]))


def _features(recipe: Recipe) -> str:
    """Return what the features of a frozen body depend on, as text; several tunings may share them."""
    model, table = recipe.model.model_dump(mode="json"), recipe.training
    keys = [model.get(key) for key in ("name", "revision", "pooling", "pairs")]
    return json.dumps([*keys, table.max_length, table.long_texts])


def _seconds(recipe: Recipe, sizes: Mapping[str, int], stages: int, pace: Pace, new: bool) -> float:
    """Return the time of a run. `stages`: how many follow each other, each as long as the recipe says; `new`: no
    earlier run has computed what several share."""
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
    """Return the share of all rows that a batch warm-up saves: see `inputs/warmup.py`."""
    return warmup * (0.75 + 0.5) / 2


def _marks(table: TrainingTable, rows: float, steps: int, tokens: float, train: int) -> int:
    """Return the number of evaluations during training: by default, one an epoch."""
    if table.mark_steps is not None:
        return math.ceil(steps / table.mark_steps)
    if table.mark_tokens is not None:
        return math.ceil(rows * tokens / table.mark_tokens)
    return max(1, math.ceil(rows / max(1, train)))


def _measure(recipe: Recipe, source: Source, threads: int | None) -> Pace:
    """Time a step of a few rows; if that is very fast, one of the usual size, where a row takes less."""
    table = recipe.training
    few = max(1, min(_ROWS, table.batch_size // table.accumulate))
    pace, rows, seconds = _timed(recipe, source.sample(few), threads)
    most = int(min(_MOST_ROWS, (pace.step_rows or table.batch_size) // table.accumulate))
    if rows < most and seconds < _SHORT and not pace.cached:
        pace, _, _ = _timed(recipe, source.sample(most), threads)
    return pace


def _timed(recipe: Recipe, sample: Source, threads: int | None) -> tuple[Pace, int, float]:
    """Return the pace, and the rows and seconds of the step that was timed."""
    with tempfile.TemporaryDirectory() as folder, threads_of(recipe.training.threads or threads):
        parts = assemble(sample, SharedStore(Path(folder)))
        rows_read = parts.describe()["sizes"]["train"]
        cached = parts.tuning.reader.cache is not None
        steps = [parts.sampler.step(i, 1.0) for i in range(_STEPS)]
        rows, tokens = sum(len(s.rows) for s in steps), sum(sum(s.lengths) for s in steps)
        training = moving = reading = seconds = 0.0
        step = steps[-1]
        if parts.tuning.solve is None:
            move = _mover(recipe, parts)
            _pass(parts, step, train=True)  # the first one is slower
            move()
            step = parts.sampler.step(_STEPS, 1.0)
            seconds = _pass(parts, step, train=True)
            moving = move()
            training = _by_row(seconds, step, rows, tokens)
        final: float | None = None
        if cached:
            reading = parts.tuning.cost(0, 0).seconds / rows_read
        elif (judging := _judging(parts)) is not None:
            reading, final = judging
        else:
            reading = _by_row(_pass(parts, step, train=False), step, rows, tokens)
        once = parts.inputs.spent_once()[1] / rows_read
        pace = Pace(
            reading, training, cached, tokens / rows or 1.0, final, moving, parts.sampler.step_rows(), once,
            len(step.rows), *_flops_of(parts, step),
        )  # fmt: skip
        return pace, len(step.rows), seconds


def _flops_of(parts: Assembly, step: Step) -> tuple[Shape | None, Callable[[Shape], float] | None]:
    """Return the shape of a body, and a function from any shape to the FLOPs of a row of this step. None for a model
    that is not a body with heads."""
    shape = getattr(parts.tuning.reader.module, "shape", None)
    if not isinstance(shape, Shape):
        return None, None
    return shape, lambda other: step.forward_flops(other) / len(step.rows)


def _by_row(seconds: float, step: Step, rows: int, tokens: int) -> float:
    """Return the seconds of an average row, by its tokens: the rows of one step are all about as long."""
    read = sum(step.lengths)
    return seconds / read * tokens / rows if read else seconds / len(step.rows)


def _mover(recipe: Recipe, parts: Assembly) -> Callable[[], float]:
    """Return a function that takes one step of the optimiser and returns its seconds."""
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
    return parts.evaluator.seconds_per_example(parts.tuning.reader, parts.inputs)


def _pass(parts: Assembly, step: Step, train: bool) -> float:
    """Return the seconds of one step over the sample, with gradients or without."""
    objective, tuning = parts.objective, parts.tuning
    tuning.train(train)
    context = StepContext(Parts(1), lambda part: None, lambda rows: rows)
    started = time.perf_counter()
    with torch.set_grad_enabled(train):
        for partial in objective.losses(tuning.reader, step, objective.counts(step), context):
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
