"""The mean over tasks of each task's own metric, as one metric of all their examples together.

Each task's statistics stand in columns of their own, 0 in the rows of other tasks, beside a column that says whose rows
these are. So the mean over tasks is a function of column means like any other metric, and intervals, tests and
baselines know nothing of tasks.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from heedful.evaluation.metrics import Columns, Floats, Metric, pseudo_values

TASK = "task"
"""The column with the number of each example's task."""
TASK_MEAN = Metric("task_mean", "mean over tasks", True)
"""Its name and direction; `task_mean` makes that of given tasks."""


@dataclass(frozen=True)
class JudgedTask:
    metric: Metric
    """By which the task is judged; a higher one is better."""
    classes: int
    """How many it has; 0 for scores."""


def task_mean(tasks: Sequence[JudgedTask]) -> Metric:
    """Over those of the tasks that have examples in a set, from columns as `combined_columns` makes them."""
    widths = [_statistics(task, _probe(task)).shape[1] for task in tasks]
    starts = np.cumsum([0, *(width + 1 for width in widths)])

    def statistics(columns: Columns) -> Floats:
        x_ek = np.zeros((len(columns[TASK]), int(starts[-1])))
        for i, rows_e, own in _apart(columns, len(tasks)):
            x_ek[rows_e, starts[i]] = 1.0
            x_ek[np.ix_(rows_e, range(starts[i] + 1, starts[i + 1]))] = _statistics(tasks[i], own)
        return x_ek

    def value(mean_k: Floats) -> Floats:
        total = count = np.zeros(mean_k.shape[:-1])
        for i, task in enumerate(tasks):
            share = mean_k[..., starts[i]]
            there = share > 0
            own = mean_k[..., starts[i] + 1 : starts[i + 1]] / np.where(there, share, 1.0)[..., None]
            assert task.metric.value is not None
            total = total + np.where(there, task.metric.value(own), 0.0)
            count = count + there
        return np.asarray(total / np.where(count > 0, count, np.nan))

    def influence(columns: Columns) -> Floats:
        """A task's examples pull its metric, one of m: n / (n_task · m) times as far as in a set of their own."""
        apart = list(_apart(columns, len(tasks)))
        pull_e = np.zeros(len(columns[TASK]))
        for i, rows_e, own in apart:
            _, values = pseudo_values(tasks[i].metric, own)
            pull_e[rows_e] = (values - values.mean()) * len(pull_e) / (len(rows_e) * len(apart))
        return pull_e

    ends = [task.metric.bounds for task in tasks]
    low, high = (
        None if None in side else float(np.mean([float(end) for end in side if end is not None]))
        for side in zip(*ends, strict=True)
    )
    return Metric(TASK_MEAN.name, TASK_MEAN.title, True, statistics, value, bounds=(low, high), influence=influence)


def combined_columns(parts: Mapping[int, Columns]) -> dict[str, Floats]:
    """The columns of several tasks, by their numbers, one after another: 0 where a task has no such column."""
    names = dict.fromkeys(name for columns in parts.values() for name in columns)
    sizes = {i: len(next(iter(columns.values()))) for i, columns in parts.items()}
    made = {TASK: np.concatenate([np.full(sizes[i], float(i)) for i in parts])}
    for name in names:
        own = [np.asarray(parts[i].get(name, np.zeros(sizes[i])), dtype=np.float64) for i in parts]
        made[name] = np.concatenate(own)
    return made


def _apart(columns: Columns, tasks: int) -> Iterator[tuple[int, Any, Columns]]:
    """Of each task that has examples: its number, their places, and their columns."""
    which_e = np.asarray(columns[TASK])
    for i in range(tasks):
        rows_e = np.flatnonzero(which_e == i)
        if len(rows_e):
            yield i, rows_e, {name: np.asarray(column)[rows_e] for name, column in columns.items() if name != TASK}


def _statistics(task: JudgedTask, columns: Columns) -> Floats:
    """As many columns whichever classes occur: where these decide, an example of the last class is there meanwhile."""
    assert task.metric.statistics is not None
    if not task.metric.of_pairs:
        return task.metric.statistics(columns)
    more = {name: np.append(columns[name], task.classes - 1) for name in ("gold", "predicted")}
    return task.metric.statistics(more)[:-1]


def _probe(task: JudgedTask) -> Columns:
    """One example, whose values mean nothing."""
    names = ("gold", "predicted", "right", "log_loss", "squared_error", "absolute_error")
    return {name: np.zeros(1) for name in names}
