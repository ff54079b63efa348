"""Several tasks, one body: a head for each data set, trained mixed or one after another.

Each task is a `Classify` with a recipe of its own. Mixed, every step asks one of them, drawn by (seed, step). In turn,
training has a stage for each, and after each stage all tasks so far are judged again: the forgetting matrix.
"""

import bisect
import difflib
import hashlib
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import Field

from heedful.checkpoints.directory import Checkpoint
from heedful.checkpoints.heads import NewHead
from heedful.errors import RequestError
from heedful.evaluation.metrics import METRICS, Columns, Metric, scored
from heedful.evaluation.task_mean import TASK_MEAN, JudgedTask, combined_columns, combined_row, task_mean
from heedful.inference.items import EncodedText
from heedful.inference.reader import TextReader
from heedful.models.modules import is_part_name
from heedful.models.shape import Shape
from heedful.nn.heads import Reading
from heedful.objectives.classify import TERM, Classify, ClassifyTable
from heedful.objectives.loading import load_data
from heedful.objectives.protocol import Judgement, Objective, Partial, Reseed, Step
from heedful.objectives.task_draws import EXPONENTS, TaskDraws, annealed
from heedful.recipes.schema import ObjectiveTable, Recipe, TaskTable
from heedful.storage.shared import SharedStore
from heedful.streams import Parts

_SPLITS = ("dev", "test")
_ERRORS = 20
_NAME = re.compile(r"\w[\w-]{0,39}")


class MultiTaskTable(ObjectiveTable):
    kind: Literal["multi-task"] = "multi-task"
    """Several data sets, [[data.tasks]]: one body, a classification head for each."""
    sampling: Literal["uniform", "proportional", "square-root", "annealed", "in-turn"] = "square-root"
    """Which task a step asks. All alike; by their training rows; by the root of these; "annealed", by their rows to a
    power that falls from 1 in the first epoch to 0.2 in the last (Stickland and Murray, 2019), or where training.steps
    says how long to train, in a line from the first step to the last. An epoch has as many steps as the training rows
    of all tasks make. Or "in-turn": one task after another, each for training.epochs epochs (or training.steps steps),
    with its own rise and fall of the learning rate, a fresh optimiser, and its own best mark on dev."""
    weights: dict[str, Annotated[float, Field(gt=0)]] = Field({})
    """By what the loss of a task is multiplied, such as {rte = 2.0}. Default: 1."""
    train_on: list[str] | None = Field(None, min_length=1)
    """Train these tasks alone, in this order if in turn; all are judged. Default: all, in the order of data.tasks."""


@dataclass(frozen=True)
class TaskStep(Step):
    """A step of one task, with its own numbers of rows."""

    task: str = ""


class MultiTask(Objective):
    Table = MultiTaskTable
    METRICS = (TASK_MEAN,)
    TASKS = True

    def __init__(self, recipe: Recipe, seed: int, tasks: Mapping[str, Classify]) -> None:
        table = recipe.objective
        assert isinstance(table, MultiTaskTable)
        self.recipe, self.seed, self.table, self.tasks = recipe, seed, table, dict(tasks)
        self.trained = list(table.train_on or tasks)
        self.in_turn = table.sampling == "in-turn"
        self.number = {task: i for i, task in enumerate(self.tasks)}
        named = {one.title: one.metric for one in recipe.data.tasks}
        self.own = {t: next(m for m in c.metrics if named[t] in ("auto", m.name)) for t, c in self.tasks.items()}
        self.mean = task_mean([JudgedTask(self.own[t], len(c.data.labels)) for t, c in self.tasks.items()])
        self.asked: Sequence[str] = self.trained
        """The tasks that are trained just now."""
        self.after: dict[str, list[list[float | None]]] = {split: [] for split in _SPLITS}
        """In turn: the score of each task on dev and test after each stage."""

    # The data

    @staticmethod
    def check(recipe: Recipe) -> None:
        table = recipe.objective
        assert isinstance(table, MultiTaskTable)
        tasks = [_checked_name(i, task) for i, task in enumerate(recipe.data.tasks)]
        twice = next((task for task in tasks if tasks.count(task) > 1), None)
        if twice is not None:
            raise RequestError(f'data.tasks: two are called {twice!r}; give each a name of its own, task = "…".')
        for task, one in zip(tasks, recipe.data.tasks, strict=True):
            with _Of(task):
                Classify.check(_recipe_of(recipe, one))
                if one.metric != "auto" and not (one.metric in METRICS and METRICS[one.metric].higher_is_better):
                    known = ", ".join(name for name, m in METRICS.items() if m.higher_is_better)
                    raise RequestError(f'metric = "{one.metric}" has no place in a mean over tasks; choose {known}.')
        for key, named in (("weights", list(table.weights)), ("train_on", table.train_on or [])):
            for task in named:
                if task not in tasks:
                    near = difflib.get_close_matches(task, tasks, 1)
                    hint = f"did you mean {near[0]!r}?" if near else f"these are {', '.join(tasks)}."
                    raise RequestError(f"objective.{key}: there is no task {task!r}; {hint}")
            if len(set(named)) < len(named):
                raise RequestError(f"objective.{key}: name each task once.")
        _check_in_turn(recipe, table)

    @classmethod
    def read(cls, recipe: Recipe, seed: int, store: SharedStore) -> "MultiTask":
        tasks, pairs = {}, recipe.model.pairs
        for one in recipe.data.tasks:
            with _Of(one.title):
                own = _recipe_of(recipe, one)
                if pairs is not None and load_data(own.data, seed, store).train.pairs is None:
                    own = own.model_copy(update={"model": own.model.model_copy(update={"pairs": None})})
                tasks[one.title] = Classify.read(own, seed, store, one.title)
        if pairs is not None and not any(task.has_pairs() for task in tasks.values()):
            raise RequestError("model.pairs says how pairs of texts are read, and no task has pairs; leave it out.")
        return cls(recipe, seed, tasks)

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The mean over tasks, and those of the tasks' own sets."""
        own = [*self.own.values(), *(m for task in self.tasks.values() for m in task.metrics)]
        return (self.mean, *{metric.name: metric for metric in own}.values())

    def description(self) -> dict[str, Any]:
        each = {task: one.description() for task, one in self.tasks.items()}
        prints = {split: {t: d["fingerprints"].get(split) for t, d in each.items()} for split in ("train", *_SPLITS)}
        fingerprints = {split: hashlib.sha256(json.dumps(of).encode()).hexdigest() for split, of in prints.items()}
        fingerprints |= {f"{split}-{t}": p for split, of in prints.items() for t, p in of.items() if p is not None}
        sizes = {"train": sum(each[task]["sizes"]["train"] for task in self.trained)}
        sizes |= {s: sum(each[t]["sizes"][s] for t in of) for s in _SPLITS if (of := self._scored(s))}
        return {
            "name": " + ".join(self.tasks),
            "kind": "tasks",
            "labels": [],
            "pairs": any(d["pairs"] for d in each.values()),
            "sizes": sizes,
            "fingerprints": fingerprints,
            "hidden": [f"{split}-{task}" for task, d in each.items() for split in d["hidden"]],
            "licence": "; ".join(f"{task}: {d['licence']}" for task, d in each.items() if d["licence"]),
            "contamination": "; ".join(f"{t}: {d['contamination']}" for t, d in each.items() if d["contamination"]),
            "notes": [f"{task}: {note}" for task, d in each.items() for note in d["notes"]],
            "checks": [
                {**check, "sentence": f"{task}: {check['sentence']}"}
                for task, d in each.items()
                for check in d["checks"]
            ],
            "in_turn": self.in_turn,
            "trained_on": self.trained,
            "tasks": {
                task: {
                    "metric": self.own[task].name,
                    **{key: d[key] for key in ("name", "kind", "labels", "pairs", "sizes", "hidden")},
                }
                for task, d in each.items()
            },
        }

    def examples(self, name: str) -> list[dict[str, Any]]:
        split, _, task = name.partition("-")
        if task:
            return self.tasks[task].examples(split)
        return [
            {**line, "row": combined_row(self.number[t], line["row"]), "task": t}
            for t in self._scored(split)
            for line in self.tasks[t].examples(split)
        ]

    def texts(self) -> Iterable[str]:
        return itertools.chain.from_iterable(self.tasks[task].texts() for task in self.trained)

    # The model

    def trains(self, head: str) -> bool:
        return head in self.trained

    def labelled_texts(self, name: str) -> tuple[Sequence[EncodedText], Sequence[str | None]]:
        split, _, task = name.partition("-")
        return self.tasks[task].labelled_texts(split) if task in self.tasks else ((), ())

    def heads(self, reading: Reading) -> Mapping[str, NewHead]:
        return {name: head for task in self.tasks.values() for name, head in task.heads(reading).items()}

    def prepare(self, checkpoint: Checkpoint, facts: Mapping[str, Any], store: SharedStore) -> None:
        for name, task in self.tasks.items():
            with _Of(name):
                task.prepare(checkpoint, facts, store)
            if name not in self.trained:
                del task.items["train"]
        self._plan()

    def token_ids(self) -> Iterable[int]:
        return itertools.chain.from_iterable(task.token_ids() for task in self.tasks.values())

    def renumber(self, new_id: Sequence[int]) -> None:
        for task in self.tasks.values():
            task.renumber(new_id)

    def cached_texts(self) -> Mapping[str, Sequence[EncodedText]]:
        """By name, so that runs with other orders of tasks do not wait for each other in a circle."""
        every = {name: texts for task in self.tasks.values() for name, texts in task.cached_texts().items()}
        return dict(sorted(every.items()))

    def texts_are_cached(self) -> None:
        for task in self.trained:
            self.tasks[task].texts_are_cached()
        self._plan()

    # A step

    def _plan(self) -> None:
        """When which task is asked, from the tasks' steps."""
        table = self.recipe.training
        each = [self.tasks[task].rows for task in self.trained]
        if self.in_turn:
            stages = []  # of each, its epochs
            for rows in each:
                lengths = map(rows.steps, itertools.count() if table.steps else range(table.epochs))
                stages.append(_up_to(lengths, table.steps))
            self._epochs = [steps for stage in stages for steps in stage]
            self._stages = [sum(stage) for stage in stages]
            self._ends = list(itertools.accumulate(self._stages))
        counts = [len(self.tasks[task].items["train"]) for task in self.trained]
        self._draws = TaskDraws(self.seed, counts, self._exponent)
        self._epoch_ends: list[int] = []

    def _exponent(self, number: int) -> float:
        """Of the tasks' training rows, in a step."""
        if self.table.sampling != "annealed":
            return EXPONENTS[self.table.sampling]
        steps, epochs = self.recipe.training.steps, self.recipe.training.epochs
        if steps is not None:
            return annealed(min(1.0, number / max(1, steps - 1)))
        while not self._epoch_ends or self._epoch_ends[-1] <= number:
            before = self._epoch_ends[-1] if self._epoch_ends else 0
            self._epoch_ends.append(before + self.epoch_steps(len(self._epoch_ends)))
        epoch = bisect.bisect_right(self._epoch_ends, number)
        return annealed(min(1.0, epoch / max(1, epochs - 1)))

    def epoch_steps(self, epoch: int) -> int:
        if self.in_turn:
            return self._epochs[epoch]
        return sum(self.tasks[task].rows.steps(epoch) for task in self.trained)

    def stages(self) -> Sequence[int]:
        return self._stages if self.in_turn else ()

    def step(self, number: int) -> TaskStep:
        if self.in_turn:
            stage = bisect.bisect_right(self._ends, number)
            task, own = self.trained[stage], number - (self._ends[stage - 1] if stage else 0)
            self.asked = [task]
        else:
            which, own = self._draws.of_step(number)
            task = self.trained[which]
        step = self.tasks[task].step(own)
        return TaskStep(step.rows, step.lengths, task)

    def counts(self, step: Step) -> dict[str, float]:
        return {_task(step): self.tasks[_task(step)].counts(step)[TERM]}

    def losses(
        self, reader: TextReader, step: Step, counts: Mapping[str, float], parts: Parts, reseed: Reseed
    ) -> Iterator[Partial]:
        task = _task(step)
        weight = self.table.weights.get(task, 1.0)
        for one in self.tasks[task].losses(reader, step, {TERM: counts[task]}, parts, reseed):
            yield Partial(weight * one.loss, {task: weight * one.terms[TERM]})

    def forward_flops(self, step: Step, shape: Shape) -> int:
        return self.tasks[_task(step)].forward_flops(step, shape)

    def where(self, step: Step) -> str:
        return f"{_task(step)}, {self.tasks[_task(step)].where(step)}"

    def end_stage(self, stage: int, reader: TextReader) -> dict[str, Any]:
        """Every task so far is judged: a line of the forgetting matrix."""
        scores: dict[str, float | None] = {}
        for split in _SPLITS:
            so_far = [task for task in self.trained[: stage + 1] if task in self._scored(split)]
            judged = {task: self.tasks[task].judge(reader, split).metrics for task in so_far}
            found = {task: judged[task].get(self.own[task].name) for task in so_far}
            line = {task: _number(found.get(task)) for task in self.trained}
            self.after[split].append(list(line.values()))
            scores |= {f"{split}-{task}": line[task] for task in so_far}
        return {"task": self.trained[stage], "judged": scores}

    def state(self) -> dict[str, Any]:
        return {"after": self.after} if self.in_turn else {}

    def restore(self, state: Mapping[str, Any]) -> None:
        for split, lines in state.get("after", {}).items():
            self.after[split] = [list(line) for line in lines]

    # How well it went

    def sets(self) -> dict[str, bool]:
        whole = {split: True for split in _SPLITS if self._scored(split)}
        return whole | {f"{split}-{t}": known for t, c in self.tasks.items() for split, known in c.sets().items()}

    def _scored(self, split: str) -> list[str]:
        """The tasks whose gold of this set is known."""
        return [task for task, one in self.tasks.items() if one.sets().get(split)]

    def judge(self, reader: TextReader, name: str) -> Judgement:
        return self.judge_all(reader, [name])[name]

    def judge_all(self, reader: TextReader, names: Iterable[str]) -> dict[str, Judgement]:
        """Each task's set once, also where the mean over tasks is wanted too."""
        wanted = list(names)
        own = [name for name in wanted if "-" in name]
        own += [f"{split}-{task}" for split in wanted if "-" not in split for task in self._scored(split)]
        made = {}
        for name in dict.fromkeys(own):
            split, _, task = name.partition("-")
            made[name] = self.tasks[task].judge(reader, split)
        made |= {split: self._together(split, made) for split in wanted if "-" not in split}
        return {name: made[name] for name in wanted}

    def _together(self, split: str, judged: Mapping[str, Judgement]) -> Judgement:
        each = {task: judged[f"{split}-{task}"] for task in self._scored(split)}
        columns = combined_columns({self.number[task]: j.columns for task, j in each.items()})
        rows = [combined_row(self.number[task], row) for task, j in each.items() for row in j.rows]

        metrics = self._scores(columns, {task: j.metrics for task, j in each.items()})
        return Judgement(metrics, rows, columns)  # what was predicted is in the tasks' own sets

    def _scores(self, columns: Columns, each: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """The mean over tasks, and beside it the metric of each."""
        own = {f"{task}/{self.own[task].name}": m.get(self.own[task].name) for task, m in each.items()}
        return {"n": sum(m["n"] for m in each.values()), TASK_MEAN.name: scored(self.mean, columns), **own}

    def mark_score(self, scores: Mapping[str, Any], metric: Metric) -> float | None:
        """Of the tasks that are trained just now."""
        if set(self.asked) == set(self.tasks):
            return super().mark_score(scores, metric)
        own = [scores.get(f"{task}/{self.own[task].name}") for task in self.asked if task in self._scored("dev")]
        known = [score for score in own if score is not None]
        return float(np.mean(known)) if known and len(known) == len(own) else None

    def calibrate(self, reader: TextReader) -> None:
        for task in self.trained:
            self.tasks[task].calibrate(reader)

    def conclude(self, judgements: Mapping[str, Judgement]) -> dict[str, Any]:
        """Of each task what `Classify` says of it, and the forgetting matrix."""
        more: dict[str, Any] = {"temperatures": {}, "calibration": {}, "errors": []}
        for task, one in self.tasks.items():
            own = {split: judgements[f"{split}-{task}"] for split in _SPLITS if f"{split}-{task}" in judgements}
            found = one.conclude(own)
            if "temperature" in found:
                more["temperatures"][task] = found["temperature"]
                more["calibration"] |= {f"{split}-{task}": facts for split, facts in found["calibration"].items()}
            if task in self.trained:
                more["errors"] += [{"task": task, **error} for error in found.get("errors", [])]
        worst = sorted(more["errors"], key=lambda error: -error["probability"])
        more["errors"] = [e for split in _SPLITS for e in [e for e in worst if e["split"] == split][:_ERRORS]]
        if self.in_turn:
            metrics = [self.own[task].name for task in self.trained]
            known = {s: lines for s, lines in self.after.items() if any(x is not None for line in lines for x in line)}
            more["forgetting"] = {"tasks": self.trained, "metrics": metrics, **known}
        return more

    def baselines(self) -> dict[str, dict[str, Any]]:
        """Those of each task on its own sets; one that every task has, such as TF-IDF, on all of them together too."""
        each = {task: one.baselines() for task, one in self.tasks.items()}
        made = {}
        for name in dict.fromkeys(name for of_task in each.values() for name in of_task):
            own = {task: of_task[name] for task, of_task in each.items() if name in of_task}
            facts: dict[str, Any] = {"seconds": sum(b["seconds"] for b in own.values()), "values": {}}
            for task, b in own.items():
                facts |= {f"{split}-{task}": b[split] for split in _SPLITS if split in b}
                facts["values"] |= {f"{split}-{task}": columns for split, columns in b["values"].items()}
            if len(own) == len(self.tasks):
                facts |= self._baseline_together(own, facts["values"])
            made[name] = facts
        return made

    def _baseline_together(self, own: Mapping[str, Mapping[str, Any]], values: dict[str, Any]) -> dict[str, Any]:
        """Its scores on the sets of all tasks, whose columns go into `values`."""
        facts: dict[str, Any] = {}
        for split in _SPLITS:
            parts = {task: b["values"][split] for task, b in own.items() if split in b["values"]}
            if parts:
                arrays = {
                    self.number[task]: {k: np.asarray(c) for k, c in columns.items() if k != "row"}
                    for task, columns in parts.items()
                }
                columns = combined_columns(arrays)
                facts[split] = self._scores(columns, {task: own[task][split] for task in parts})
                rows = [
                    combined_row(self.number[t], int(row)) for t, of_task in parts.items() for row in of_task["row"]
                ]
                values[split] = {**{k: c.tolist() for k, c in columns.items()}, "row": rows}
        facts["floor"] = all(b.get("floor") for b in own.values())
        if all(b.get("tested") for b in own.values()):
            facts["tested"] = True
            facts["prediction_seconds"] = float(np.mean([b.get("prediction_seconds") or 0.0 for b in own.values()]))
            facts["model_bytes"] = sum(b.get("model_bytes") or 0 for b in own.values())
        return facts

    def finish(self, checkpoint: Checkpoint) -> None:
        """A head that was not trained has nothing to say, and is not saved."""
        for name, task in self.tasks.items():
            if name in self.trained:
                task.finish(checkpoint)
            else:
                del checkpoint.transformer.heads[name], checkpoint.transformer.head_shapes[name]

    def prediction_seconds(self, checkpoint: Checkpoint, device: torch.device) -> float | None:
        """The mean over tasks."""
        each = [self.tasks[task].prediction_seconds(checkpoint, device) for task in self.trained]
        known = [seconds for seconds in each if seconds is not None]
        return sum(known) / len(known) if known else None

    def reading(self) -> dict[str, float]:
        """The means over training rows."""
        each = [(len(self.tasks[task].items["train"]), self.tasks[task].reading()) for task in self.trained]
        rows = sum(count for count, _ in each)
        return {key: sum(count * facts[key] for count, facts in each) / rows for key in each[0][1]}

    def sample(self, rows: int) -> Objective:
        """Of the task with the most rows."""
        return max((self.tasks[task] for task in self.trained), key=lambda one: len(one.data.train)).sample(rows)


OBJECTIVE = MultiTask


class _Of:
    """Whatever is refused inside is about this task."""

    def __init__(self, task: str) -> None:
        self.task = task

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if kind is RequestError:
            words = str(error).replace("evaluation.metric", "metric")  # each task has its own
            raise RequestError(f"the task {self.task}: {words}") from None


def _task(step: Step) -> str:
    assert isinstance(step, TaskStep)
    return step.task


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _up_to(lengths: Iterable[int], steps: int | None) -> list[int]:
    """Epochs of these lengths, so many steps in all, the last one cut short; None: all of them."""
    epochs: list[int] = []
    for length in lengths:
        epochs.append(length if steps is None else min(length, steps - sum(epochs)))
        if steps is not None and sum(epochs) == steps:
            break
    return epochs


def _recipe_of(recipe: Recipe, one: TaskTable) -> Recipe:
    """That of a task alone."""
    evaluation = recipe.evaluation.model_copy(update={"metric": one.metric})
    return recipe.model_copy(update={"data": one.source(), "objective": ClassifyTable(), "evaluation": evaluation})


def _checked_name(place: int, one: TaskTable) -> str:
    if one.name is None and one.train is None:
        raise RequestError(f"data.tasks.{place} needs either name or train.")
    if not _NAME.fullmatch(one.title) or not is_part_name(one.title):
        raise RequestError(
            f"data.tasks.{place}: {one.title[:60]!r} is no name for a task; give it one of letters, digits, hyphens "
            'and underscores, task = "…".'
        )
    return one.title


def _check_in_turn(recipe: Recipe, table: MultiTaskTable) -> None:
    """What makes no sense if tasks are trained one after another, or not all of them."""
    if table.sampling in ("in-turn", "annealed") and recipe.training.tokens is not None:
        raise RequestError(
            f'objective.sampling = "{table.sampling}" must know how many steps there are, which training.tokens does '
            "not say; use training.steps or training.epochs."
        )
    if table.sampling == "in-turn" and recipe.training.patience is not None:
        raise RequestError(
            'training.patience ends the whole training, and with objective.sampling = "in-turn" the tasks to come with '
            "it; leave it out."
        )
    if table.sampling == "in-turn" and table.weights:
        raise RequestError(
            'objective.weights weighs tasks against each other, and with objective.sampling = "in-turn" none has to '
            "yield; leave it out."
        )
    study = recipe.study.model_dump() if recipe.study is not None else {}
    if study.get("search") != "tpe" or study["prune"] is False:
        return
    swept = study["objective"].get("sampling", [])
    partly = table.train_on is not None or "train_on" in study["objective"]
    if partly or "in-turn" in [table.sampling, *(swept if isinstance(swept, list) else [])]:
        raise RequestError(
            "study.prune compares runs mark by mark, which says nothing of tasks that are trained in turn or alone; "
            "set study.prune = false."
        )
