"""Several labelled sets as token ids, and which task each step trains."""

import bisect
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from heedful.data.task_sets import TaskData
from heedful.inference.items import EncodedText
from heedful.inputs.labelled import LabelledInputs, LabelledSampler, LabelledStep
from heedful.inputs.protocol import Inputs, Sampler
from heedful.inputs.task_draws import EXPONENTS, TaskDraws, annealed
from heedful.recipes.schema import TrainingTable


class TaskInputs(Inputs[TaskData]):
    def __init__(
        self,
        data: TaskData,
        tasks: Mapping[str, LabelledInputs],
        metrics: Mapping[str, str],
        sampling: str,
        training: TrainingTable,
        seed: int,
    ) -> None:
        """`metrics`: the name of the metric that each task is judged by."""
        self.data, self.tasks, self.metrics = data, dict(tasks), metrics
        self.sampling, self.training, self.seed = sampling, training, seed
        for name, task in self.tasks.items():
            if name not in data.trained:
                del task.items["train"]

    @property
    def trained(self) -> dict[str, LabelledInputs]:
        return {task: self.tasks[task] for task in self.data.trained}

    def sampler(self) -> "TaskSampler":
        return TaskSampler(self)

    def describe(self) -> dict[str, Any]:
        described = self.data.describe()
        tasks = {task: {"metric": self.metrics[task], **own} for task, own in described["tasks"].items()}
        return {**described, "tasks": tasks}

    def statistics(self) -> dict[str, float]:
        """Return the means over training rows."""
        each = [(len(task.items["train"]), task.statistics()) for task in self.trained.values()]
        rows = sum(count for count, _ in each)
        return {key: sum(count * own[key] for count, own in each) / rows for key in each[0][1]}

    def token_ids(self) -> Iterable[int]:
        return itertools.chain.from_iterable(task.token_ids() for task in self.tasks.values())

    def renumber(self, new_id: Sequence[int]) -> None:
        for task in self.tasks.values():
            task.renumber(new_id)

    def cached_texts(self) -> Mapping[str, Sequence[EncodedText]]:
        """Return the texts by name, so that runs with other orders of tasks do not wait for each other in a circle."""
        every = {name: texts for task in self.tasks.values() for name, texts in task.cached_texts().items()}
        return dict(sorted(every.items()))

    def texts_are_cached(self) -> None:
        for task in self.trained.values():
            task.texts_are_cached()

    def labelled_texts(self, name: str) -> tuple[Sequence[EncodedText], Sequence[str | None]]:
        split, _, task = name.partition("-")
        return self.tasks[task].labelled_texts(split) if task in self.tasks else ((), ())


class TaskSampler(Sampler):
    """Mixed, every step trains one of the tasks, drawn by (seed, step). In sequence, training has a stage for each."""

    def __init__(self, inputs: TaskInputs) -> None:
        self.sampling, self.training = inputs.sampling, inputs.training
        self.samplers = {task: LabelledSampler(own) for task, own in inputs.trained.items()}
        self.trained = list(self.samplers)
        self.sequential, table = inputs.data.sequential, inputs.training
        if self.sequential:
            stages = []  # of each, its epochs
            for sampler in self.samplers.values():
                lengths = map(sampler.epoch_steps, itertools.count() if table.steps else range(table.epochs))
                stages.append(_up_to(lengths, table.steps))
            self._epochs = [steps for stage in stages for steps in stage]
            self._stages = [sum(stage) for stage in stages]
            self._ends = list(itertools.accumulate(self._stages))
        counts = [len(own.items["train"]) for own in inputs.trained.values()]
        self._draws = TaskDraws(inputs.seed, counts, self._exponent)
        self._epoch_ends: list[int] = []

    def step(self, number: int, done: float) -> LabelledStep:
        if self.sequential:
            stage = bisect.bisect_right(self._ends, number)
            task, own = self.trained[stage], number - (self._ends[stage - 1] if stage else 0)
        else:
            which, own = self._draws.of_step(number)
            task = self.trained[which]
        return self.samplers[task].step(own, done)

    def epoch_steps(self, epoch: int) -> int:
        if self.sequential:
            return self._epochs[epoch]
        return sum(sampler.epoch_steps(epoch) for sampler in self.samplers.values())

    def stages(self) -> Sequence[int]:
        return self._stages if self.sequential else ()

    def _exponent(self, number: int) -> float:
        """Return the power of the tasks' training rows by which a step draws one."""
        if self.sampling != "annealed":
            return EXPONENTS[self.sampling]
        steps, epochs = self.training.steps, self.training.epochs
        if steps is not None:
            return annealed(min(1.0, number / max(1, steps - 1)))
        while not self._epoch_ends or self._epoch_ends[-1] <= number:
            before = self._epoch_ends[-1] if self._epoch_ends else 0
            self._epoch_ends.append(before + self.epoch_steps(len(self._epoch_ends)))
        epoch = bisect.bisect_right(self._epoch_ends, number)
        return annealed(min(1.0, epoch / max(1, epochs - 1)))


def _up_to(lengths: Iterable[int], steps: int | None) -> list[int]:
    """Return epochs of these lengths, `steps` steps in all, the last one cut short; None: all of them."""
    epochs: list[int] = []
    for length in lengths:
        epochs.append(length if steps is None else min(length, steps - sum(epochs)))
        if steps is not None and sum(epochs) == steps:
            break
    return epochs
