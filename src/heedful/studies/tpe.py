"""Searches that learn from what was tried: Optuna's tree-structured Parzen estimator (TPE), in rounds.

A round is proposed from the rounds before it alone, and a run is given the scores that it must reach, mark by mark,
before it starts. So nothing depends on which run ends first: with the same number of threads for each run, the same
study comes out on one core, on many, on a cluster, and after having been stopped.
"""

import itertools
import json
import math
import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from heedful.errors import RequestError
from heedful.recipes.schema import Range

Axes = Mapping[str, list[Any] | Range]
_LISTED = 10_000  # settings that are written out to see which are left
_FEWEST = 3  # earlier runs from which a median is taken


@dataclass(frozen=True)
class Trial:
    """A setting that was tried: its mean score on dev (higher is better), None if it failed."""

    values: dict[str, Any]
    score: float | None
    pruned: bool = False
    curve: Mapping[int, float] | None = None
    """Mean scores by evaluation, of what was stopped early."""


def propose(axes: Axes, tried: Sequence[Trial], count: int, trials: int, seed: int) -> list[dict[str, Any]]:
    """Return `count` settings that were not tried yet: random ones at first, then those that TPE proposes; a random one
    where TPE repeats itself. Fewer, or none, if no more are left."""
    try:
        import optuna
    except ImportError:
        raise RequestError('study.search = "tpe" needs Optuna: pip install "heedful[sweep]".') from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    space = {key: _distribution(key, values) for key, values in axes.items()}
    sampler = optuna.samplers.TPESampler(
        n_startup_trials=max(4, min(10, trials // 3)), constant_liar=True, seed=seed * 100_003 + len(tried)
    )
    study = optuna.create_study(direction="maximize", sampler=sampler)
    for trial in tried:
        study.add_trial(_as_optuna(trial, space))
    known = {_key(t.values) for t in tried}
    proposed: list[dict[str, Any]] = []
    while len(proposed) < count:
        asked = study.ask(space)
        values = {key: asked.params[key] for key in axes}
        if _key(values) in known:
            study.tell(asked, state=optuna.trial.TrialState.FAIL)
            other = _untried(axes, known, random.Random(f"{seed} {len(known)}"))  # noqa: S311 (nothing is secret)
            if other is None:
                break
            values = other
            study.enqueue_trial(values)
            study.ask(space)  # it counts as under way, so that the next one keeps its distance
        known.add(_key(values))
        proposed.append(values)
    return proposed


def _untried(axes: Axes, known: set[str], draw: random.Random) -> dict[str, Any] | None:
    """Return any setting that is left; None if there is none, or none is found."""
    lists = [v if isinstance(v, list) else _whole(v) for v in axes.values()]
    if all(v is not None for v in lists) and math.prod(len(v or ()) for v in lists) <= _LISTED:
        left = (dict(zip(axes, values, strict=True)) for values in itertools.product(*(v or () for v in lists)))
        rest = [values for values in left if _key(values) not in known]
        return draw.choice(rest) if rest else None
    for _ in range(_LISTED):
        values = {key: draw.choice(v) if isinstance(v, list) else _drawn(v, draw) for key, v in axes.items()}
        if _key(values) not in known:
            return values
    return None


def _whole(values: Range) -> Sequence[int] | None:
    return range(values.low, values.high + 1) if isinstance(values.low, int) and isinstance(values.high, int) else None


def _drawn(values: Range, draw: random.Random) -> float:
    if isinstance(values.low, int) and isinstance(values.high, int):
        return draw.randint(values.low, values.high)
    return draw.uniform(values.low, values.high)


def thresholds(curves: Sequence[Mapping[int, float]]) -> dict[int, float]:
    """Return the score that a run must have reached by each evaluation: the median of earlier runs (Optuna's median
    pruner). Empty while these are few."""
    if len(curves) < _FEWEST:
        return {}
    marks = sorted({mark for curve in curves for mark in curve})
    return {m: statistics.median(c[m] for c in curves if m in c) for m in marks}


def _key(values: Mapping[str, Any]) -> str:
    return json.dumps(values, sort_keys=True)


def _distribution(key: str, values: list[Any] | Range) -> Any:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(values, list):
        if not all(isinstance(v, str | int | float) for v in values):
            raise RequestError(f'study.{key}: "tpe" chooses among words and numbers alone.')
        return CategoricalDistribution(values)
    if isinstance(values.low, int) and isinstance(values.high, int):
        return IntDistribution(values.low, values.high, log=values.log)
    return FloatDistribution(values.low, values.high, log=values.log)


def _as_optuna(trial: Trial, space: Mapping[str, Any]) -> Any:
    from optuna.trial import TrialState, create_trial

    setting: dict[str, Any] = {"params": dict(trial.values), "distributions": dict(space)}
    if trial.score is None:
        return create_trial(state=TrialState.FAIL, **setting)
    if trial.pruned:
        return create_trial(state=TrialState.PRUNED, intermediate_values=dict(trial.curve or {}), **setting)
    return create_trial(value=trial.score, **setting)
