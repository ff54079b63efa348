"""Several tasks: each by its own metric, and the mean over them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from heedful.checkpoints.directory import Checkpoint
from heedful.data.task_sets import SPLITS, TaskData, combined_row
from heedful.evaluation.metrics import Columns, Metric, scored
from heedful.evaluation.task_mean import TASK_MEAN, JudgedTask, combined_columns, task_mean
from heedful.evaluators.labelled import LabelledEvaluator
from heedful.evaluators.protocol import BaselineSet, Evaluation, Evaluator
from heedful.inference.reader import TextReader
from heedful.inputs.tasks import TaskInputs

_ERRORS = 20


class TaskEvaluator(Evaluator[TaskData]):
    METRICS = (TASK_MEAN,)

    def __init__(self, data: TaskData, tasks: Mapping[str, LabelledEvaluator], named: Mapping[str, str]) -> None:
        """`named`: what the recipe says each task is judged by."""
        self.data, self.tasks = data, dict(tasks)
        self.own = {t: next(m for m in e.metrics if named[t] in ("auto", m.name)) for t, e in self.tasks.items()}
        self.mean = task_mean([JudgedTask(self.own[t], len(e.data.dataset.labels)) for t, e in self.tasks.items()])

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The mean over tasks, and those of the tasks' own sets."""
        own = [*self.own.values(), *(m for task in self.tasks.values() for m in task.metrics)]
        return (self.mean, *{metric.name: metric for metric in own}.values())

    def evaluate(self, reader: TextReader, inputs: TaskInputs, name: str, final: bool = False) -> Evaluation:
        return self.evaluate_all(reader, inputs, [name])[name]

    def evaluate_all(self, reader: TextReader, inputs: TaskInputs, names: Iterable[str]) -> dict[str, Evaluation]:
        """Evaluate each task's set once, also where the mean over tasks is wanted too."""
        wanted = list(names)
        own = [name for name in wanted if "-" in name]
        own += [f"{split}-{task}" for split in wanted if "-" not in split for task in self.data.scored(split)]
        each = {name: self._evaluate_task(reader, inputs, name) for name in dict.fromkeys(own)}
        each |= {split: self._together(split, each) for split in wanted if "-" not in split}
        return {name: each[name] for name in wanted}

    def _evaluate_task(self, reader: TextReader, inputs: TaskInputs, name: str) -> Evaluation:
        split, _, task = name.partition("-")
        return self.tasks[task].evaluate(reader, inputs.tasks[task], split)

    def _together(self, split: str, evaluations: Mapping[str, Evaluation]) -> Evaluation:
        each, number = {task: evaluations[f"{split}-{task}"] for task in self.data.scored(split)}, self.data.number
        columns = combined_columns({number[task]: e.columns for task, e in each.items()})
        rows = [combined_row(number[task], row) for task, e in each.items() for row in e.rows]
        metrics = self.scores(columns, {task: e.metrics for task, e in each.items()})
        return Evaluation(metrics, rows, columns)  # what was predicted is in the tasks' own sets

    def scores(self, columns: Columns, each: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """Return the mean over tasks, and the metric of each."""
        own = {f"{task}/{self.own[task].name}": m.get(self.own[task].name) for task, m in each.items()}
        return {"n": sum(m["n"] for m in each.values()), TASK_MEAN.name: scored(self.mean, columns), **own}

    def selection_score(self, scores: Mapping[str, Any], metric: Metric, stage: int) -> float | None:
        """Return the score of the tasks that are trained in this stage."""
        trained = self.data.trained[stage : stage + 1] if self.data.sequential else self.data.trained
        if set(trained) == set(self.tasks):
            return super().selection_score(scores, metric, stage)
        own = [scores.get(f"{task}/{self.own[task].name}") for task in trained if task in self.data.scored("dev")]
        known = [score for score in own if score is not None]
        return float(np.mean(known)) if known and len(known) == len(own) else None

    def end_stage(self, reader: TextReader, inputs: TaskInputs, stage: int) -> dict[str, Any]:
        """Evaluate every task so far: a line of the forgetting matrix."""
        scores: dict[str, float | None] = {}
        for split in SPLITS:
            so_far = [task for task in self.data.trained[: stage + 1] if task in self.data.scored(split)]
            for task in so_far:
                metrics = self.tasks[task].evaluate(reader, inputs.tasks[task], split).metrics
                value = metrics.get(self.own[task].name)
                scores[f"{split}-{task}"] = None if value is None else float(value)
        return {"task": self.data.trained[stage], "judged": scores}

    def calibrate(self, reader: TextReader, inputs: TaskInputs) -> None:
        for task in self.data.trained:
            self.tasks[task].calibrate(reader, inputs.tasks[task])

    def conclude(
        self, evaluations: Mapping[str, Evaluation], stages: Sequence[Mapping[str, Any]] = ()
    ) -> dict[str, Any]:
        """Return of each task what is said of a single one, and the forgetting matrix."""
        more: dict[str, Any] = {"temperatures": {}, "calibration": {}, "errors": []}
        for task, evaluator in self.tasks.items():
            own = {split: evaluations[f"{split}-{task}"] for split in SPLITS if f"{split}-{task}" in evaluations}
            concluded = evaluator.conclude(own)
            if "temperature" in concluded:
                more["temperatures"][task] = concluded["temperature"]
                more["calibration"] |= {f"{split}-{task}": c for split, c in concluded["calibration"].items()}
            if task in self.data.trained:
                more["errors"] += [{"task": task, **error} for error in concluded.get("errors", [])]
        worst = sorted(more["errors"], key=lambda error: -error["probability"])
        more["errors"] = [e for split in SPLITS for e in [e for e in worst if e["split"] == split][:_ERRORS]]
        if self.data.sequential:
            more["forgetting"] = self._forgetting(stages)
        return more

    def _forgetting(self, stages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the score of each task on dev and test after each stage."""
        trained = self.data.trained
        matrix = {s: [[stage["judged"].get(f"{s}-{t}") for t in trained] for stage in stages] for s in SPLITS}
        known = {s: lines for s, lines in matrix.items() if any(x is not None for line in lines for x in line)}
        return {"tasks": trained, "metrics": [self.own[task].name for task in trained], **known}

    def baselines(self) -> BaselineSet:
        return TaskBaselines(self)

    def prediction_seconds(self, checkpoint: Checkpoint, inputs: TaskInputs, device: torch.device) -> float | None:
        """Return the mean over tasks."""
        each = [
            self.tasks[task].prediction_seconds(checkpoint, inputs.tasks[task], device) for task in self.data.trained
        ]
        known = [seconds for seconds in each if seconds is not None]
        return sum(known) / len(known) if known else None


class TaskBaselines(BaselineSet):
    """Those of each task on its own sets; one that every task has, such as TF-IDF, on all of them together too."""

    def __init__(self, evaluator: TaskEvaluator) -> None:
        self.evaluator, self.data = evaluator, evaluator.data

    def scores(self) -> dict[str, dict[str, Any]]:
        each = {task: own.baselines().scores() for task, own in self.evaluator.tasks.items()}
        made = {}
        for name in dict.fromkeys(name for of_task in each.values() for name in of_task):
            own = {task: of_task[name] for task, of_task in each.items() if name in of_task}
            baseline: dict[str, Any] = {"seconds": sum(b["seconds"] for b in own.values()), "values": {}}
            for task, b in own.items():
                baseline |= {f"{split}-{task}": b[split] for split in SPLITS if split in b}
                baseline["values"] |= {f"{split}-{task}": columns for split, columns in b["values"].items()}
            if len(own) == len(self.data.tasks):
                baseline |= self._together(own, baseline["values"])
            made[name] = baseline
        return made

    def _together(self, own: Mapping[str, Mapping[str, Any]], values: dict[str, Any]) -> dict[str, Any]:
        """Return its scores on the sets of all tasks, whose columns go into `values`."""
        together: dict[str, Any] = {}
        number = self.data.number
        for split in SPLITS:
            parts = {task: b["values"][split] for task, b in own.items() if split in b["values"]}
            if parts:
                arrays = {
                    number[task]: {k: np.asarray(c) for k, c in columns.items() if k != "row"}
                    for task, columns in parts.items()
                }
                columns = combined_columns(arrays)
                together[split] = self.evaluator.scores(columns, {task: own[task][split] for task in parts})
                rows = [combined_row(number[t], int(row)) for t, of_task in parts.items() for row in of_task["row"]]
                values[split] = {**{k: c.tolist() for k, c in columns.items()}, "row": rows}
        together["floor"] = all(b.get("floor") for b in own.values())
        if all(b.get("tested") for b in own.values()):
            together["tested"] = True
            together["prediction_seconds"] = float(np.mean([b.get("prediction_seconds") or 0.0 for b in own.values()]))
            together["model_bytes"] = sum(b.get("model_bytes") or 0 for b in own.values())
        return together
