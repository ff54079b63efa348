"""When what happens in a training: the learning rate of each step, where epochs and stages end, and the marks.

A mark is a point at which a run is judged, may be stopped, and keeps its best weights: the end of an epoch, or every so
many steps or tokens; the end of training, and of each stage of it, is always one.
"""

import bisect
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

from heedful.errors import RequestError
from heedful.inputs.protocol import Sampler
from heedful.recipes.schema import TrainingTable


def lr_factor(
    step: int, steps: int, warmup: float, schedule: str, cooldown: float = 1.0, highest: int | None = None
) -> float:
    """The share of the highest learning rate in step `step` = 0 … steps − 1. `highest`: the step, counted from 1, in
    which it is 1; else it rises over the share `warmup` of the steps."""
    rising = int(warmup * steps) if highest is None else highest - 1
    if step < rising:
        return (step + 1) / (rising + 1)
    if schedule == "inverse-sqrt":
        return math.sqrt((rising + 1) / (step + 1))
    if schedule == "trapezoid":
        return min(1.0, (steps - step) / (int(cooldown * steps) + 1))
    return _fallen((step - rising) / max(1, steps - rising), schedule)


def lr_factor_by_tokens(before: float, after: float, warmup: float, schedule: str, cooldown: float = 1.0) -> float:
    """The same in the step that takes the share of tokens that were read from `before` to `after`: never zero, since
    the rise is counted to the end of a step and the fall to its beginning."""
    if before < warmup:
        return min(1.0, after / warmup)
    if schedule == "inverse-sqrt":
        return math.sqrt(warmup / before)
    if schedule == "trapezoid":
        return min(1.0, (1 - before) / cooldown)
    return _fallen((before - warmup) / (1 - warmup), schedule)


def _fallen(through: float, schedule: str) -> float:
    """`through`: the share of what follows the warm-up."""
    if schedule == "constant":
        return 1.0
    return 1 - through if schedule == "linear" else 0.5 * (1 + math.cos(math.pi * through))


@dataclass
class Schedule:
    table: TrainingTable
    steps: int | None
    """In all: known before the first, since the learning rate needs it; None where training ends by tokens."""
    ends: list[int]
    """The number of steps after which each epoch ends; none for a stream."""
    stage_ends: tuple[int, ...] = ()
    """The same of each stage, if there are several: each has its own rise and fall of the learning rate."""
    epoch_steps: Callable[[int], int | None] | None = None
    """By tokens, of how many steps each epoch is: how many epochs there will be nobody knows, so that `ends` grows."""

    def is_end(self, step: int, tokens: int) -> bool:
        """Whether training ends after so many steps and tokens."""
        return step == self.steps if self.table.tokens is None else tokens >= self.table.tokens

    def share(self, step: int, tokens: int) -> float:
        """Of the whole training, after so many steps and tokens."""
        if self.steps is not None:
            return step / self.steps
        return min(1.0, tokens / self._tokens)

    def expected_steps(self, step: int, tokens: int) -> int:
        """In all, as far as can be told after so many steps and tokens."""
        return self.steps if self.steps is not None else math.ceil(step * max(1.0, self._tokens / tokens))

    @property
    def _tokens(self) -> int:
        assert self.table.tokens is not None  # where the steps are not known
        return self.table.tokens

    def lr(self, step: int, tokens: int = 0, more: int = 0) -> float:
        """In a step before which so many steps were made and tokens read, and which reads so many `more`."""
        table = self.table
        if self.steps is None:
            before, after = tokens / self._tokens, (tokens + more) / self._tokens
            return table.lr * lr_factor_by_tokens(before, after, table.warmup, table.schedule, table.cooldown)
        begin, end = 0, self.steps
        if self.stage_ends:
            stage = bisect.bisect_right(self.stage_ends, step)
            begin, end = self.stage_ends[stage - 1] if stage else 0, self.stage_ends[stage]
        factor = lr_factor(step - begin, end - begin, table.warmup, table.schedule, table.cooldown, table.warmup_steps)
        return table.lr * factor

    def is_mark(self, step: int, tokens_before: int, tokens: int) -> bool:
        """Whether the training is at a mark after so many steps; the last of them took it from `tokens_before` to
        `tokens`."""
        if self.is_end(step, tokens) or step in self.stage_ends:
            return True
        if self.table.mark_steps is not None:
            return step % self.table.mark_steps == 0
        if self.table.mark_tokens is not None:
            return tokens // self.table.mark_tokens > tokens_before // self.table.mark_tokens
        self._reach(step)
        return step in self.ends

    def stage(self, step: int) -> int:
        """Return which stage (from 0) step number `step` (from 1) is in; 0 where there is one."""
        return bisect.bisect_left(self.stage_ends, step)

    def epoch(self, step: int) -> int | None:
        """Which epoch (from 1) step number `step` (from 1) is in; None in a stream."""
        self._reach(step)
        return bisect.bisect_left(self.ends, step) + 1 if self.ends else None

    def epochs_done(self, step: int) -> float | None:
        """How many epochs so many steps are, a whole number at the end of one; None in a stream."""
        self._reach(step)
        if not self.ends:
            return None
        before = bisect.bisect_right(self.ends, step)
        if before == len(self.ends):
            return before
        begin = self.ends[before - 1] if before else 0
        part = (step - begin) / (self.ends[before] - begin)
        return before + round(part, 4) if part else before

    def _reach(self, step: int) -> None:
        """By tokens: so that `ends` has the epoch that this step is in."""
        while self.epoch_steps is not None and (not self.ends or self.ends[-1] < step):
            steps = self.epoch_steps(len(self.ends))
            if steps is None:
                return
            self.ends.append((self.ends[-1] if self.ends else 0) + steps)


def make_schedule(table: TrainingTable, sampler: Sampler) -> Schedule:
    if table.tokens is not None:
        return Schedule(table, None, [], (), sampler.epoch_steps)
    ends: list[int] = []
    stage_ends = tuple(itertools.accumulate(sampler.stages()))
    steps_in_all = stage_ends[-1] if stage_ends else table.steps
    while len(ends) < table.epochs if steps_in_all is None else not ends or ends[-1] < steps_in_all:
        steps = sampler.epoch_steps(len(ends))
        if steps is None:
            if table.steps is None:
                raise RequestError(
                    "training.steps is missing: a stream has no epochs, so say how many steps to make, or with "
                    "training.tokens how many tokens to read."
                )
            return Schedule(table, steps_in_all or table.steps, [], stage_ends)
        ends.append((ends[-1] if ends else 0) + steps)
    return Schedule(table, steps_in_all or ends[-1], ends, stage_ends)
