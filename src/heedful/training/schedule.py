"""When what happens in a training: the learning rate of each step, where epochs and stages end, and the marks.

A mark is a point at which a run is judged, may be stopped, and keeps its best weights: the end of an epoch, or every so
many steps or tokens; the end of training, and of each stage of it, is always one.
"""

import bisect
import itertools
import math
from dataclasses import dataclass

from heedful.errors import RequestError
from heedful.objectives.protocol import Objective
from heedful.recipes.schema import TrainingTable


def lr_factor(step: int, steps: int, warmup: float, schedule: str) -> float:
    """The share of the highest learning rate in step `step` = 0 … steps − 1."""
    rising = int(warmup * steps)
    if step < rising:
        return (step + 1) / (rising + 1)
    if schedule == "constant":
        return 1.0
    through = (step - rising) / max(1, steps - rising)
    return 1 - through if schedule == "linear" else 0.5 * (1 + math.cos(math.pi * through))


@dataclass(frozen=True)
class Schedule:
    table: TrainingTable
    steps: int
    """In all: known before the first, since the learning rate needs it."""
    ends: tuple[int, ...]
    """The number of steps after which each epoch ends; none for a stream."""
    stage_ends: tuple[int, ...] = ()
    """The same of each stage, if there are several: each has its own rise and fall of the learning rate."""

    def lr(self, step: int) -> float:
        begin, end = 0, self.steps
        if self.stage_ends:
            stage = bisect.bisect_right(self.stage_ends, step)
            begin, end = self.stage_ends[stage - 1] if stage else 0, self.stage_ends[stage]
        return self.table.lr * lr_factor(step - begin, end - begin, self.table.warmup, self.table.schedule)

    def is_mark(self, step: int, tokens_before: int, tokens: int) -> bool:
        """Whether the training is at a mark after so many steps; the last of them took it from `tokens_before` to
        `tokens`."""
        if step == self.steps or step in self.stage_ends:
            return True
        if self.table.mark_steps is not None:
            return step % self.table.mark_steps == 0
        if self.table.mark_tokens is not None:
            return tokens // self.table.mark_tokens > tokens_before // self.table.mark_tokens
        return step in self.ends

    def epoch(self, step: int) -> int | None:
        """Which epoch (from 1) step number `step` (from 1) is in; None in a stream."""
        return bisect.bisect_left(self.ends, step) + 1 if self.ends else None

    def epochs_done(self, step: int) -> float | None:
        """How many epochs so many steps are, a whole number at the end of one; None in a stream."""
        if not self.ends:
            return None
        before = bisect.bisect_right(self.ends, step)
        if before == len(self.ends):
            return before
        begin = self.ends[before - 1] if before else 0
        part = (step - begin) / (self.ends[before] - begin)
        return before + round(part, 4) if part else before


def make_schedule(table: TrainingTable, objective: Objective) -> Schedule:
    ends: list[int] = []
    stage_ends = tuple(itertools.accumulate(objective.stages()))
    steps_in_all = stage_ends[-1] if stage_ends else table.steps
    while len(ends) < table.epochs if steps_in_all is None else not ends or ends[-1] < steps_in_all:
        steps = objective.epoch_steps(len(ends))
        if steps is None:
            if table.steps is None:
                raise RequestError("training.steps is missing: a stream has no epochs, so say how many steps to make.")
            return Schedule(table, steps_in_all or table.steps, (), stage_ends)
        ends.append((ends[-1] if ends else 0) + steps)
    return Schedule(table, steps_in_all or ends[-1], tuple(ends), stage_ends)
