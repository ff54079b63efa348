"""Several tasks, one body: a head for each data set, trained mixed or one after another.

Each task is a `Classify` with a recipe of its own. Mixed, every step asks one of them, drawn by (seed, step). In turn,
training has a stage for each, and after each stage all tasks so far are judged again: the forgetting matrix.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field

from heedful.checkpoints.directory import Checkpoint
from heedful.checkpoints.heads import NewHead
from heedful.data.task_sets import TaskData, about_task, refuse_unknown_tasks, task_recipe, tasks_of
from heedful.errors import RequestError
from heedful.evaluation.metrics import METRICS
from heedful.evaluators.tasks import TaskEvaluator
from heedful.inference.reader import TextReader
from heedful.inputs.labelled import LabelledStep
from heedful.inputs.protocol import Setup
from heedful.inputs.tasks import TaskInputs
from heedful.models.modules import is_part_name
from heedful.nn.heads import HeadInput
from heedful.objectives.classify import TERM, Classify, ClassifyTable
from heedful.objectives.protocol import Objective, Partial, StepContext
from heedful.recipes.schema import ObjectiveTable, Recipe


class MultiTaskTable(ObjectiveTable):
    kind: Literal["multi-task"] = "multi-task"
    """Train several data sets, [[data.tasks]], with one body and a classification head for each."""
    sampling: Literal["uniform", "proportional", "square-root", "annealed", "in-turn"] = "square-root"
    """How the task of a step is sampled: uniformly; in proportion to the number of training rows; to its square
    root; "annealed": to a power of it that falls from 1 in the first epoch to 0.2 in the last (Stickland and
    Murray, 2019), or linearly from the first step to the last with training.steps. An epoch has as many steps as
    the training rows of all tasks need. Or "in-turn": one task after another, each for training.epochs epochs (or
    training.steps steps), with its own learning-rate schedule, a new optimiser, and its own best evaluation step on
    dev."""
    weights: dict[str, Annotated[float, Field(gt=0)]] = Field({})
    """Factor of each task's loss, such as {rte = 2.0}. Default: 1."""
    train_on: list[str] | None = Field(None, min_length=1)
    """Train only these tasks, in this order if in turn; all tasks are evaluated. Default: all, in the order of
    data.tasks."""


class MultiTask(Objective):
    Table = MultiTaskTable
    DATA = TaskData
    EVALUATOR = TaskEvaluator

    def __init__(self, recipe: Recipe, data: TaskData) -> None:
        table = recipe.objective
        assert isinstance(table, MultiTaskTable)
        self.recipe, self.data, self.table = recipe, data, table
        tables = {one.title: one for one in tasks_of(recipe)}
        self.named = {task: tables[task].metric for task in data.tasks}
        self.tasks = {}
        for task, own in data.tasks.items():
            single = task_recipe(recipe, tables[task]).model_copy(update={"objective": ClassifyTable()})
            self.tasks[task] = Classify(single, own, task)

    @staticmethod
    def check(recipe: Recipe) -> None:
        table = recipe.objective
        assert isinstance(table, MultiTaskTable)
        for i, task in enumerate(tasks_of(recipe)):
            if not is_part_name(task.title):
                raise RequestError(
                    f"data.tasks.{i}: {task.title!r} is not a valid task name. Use letters, digits, hyphens "
                    'and underscores, task = "…".'
                )
            with about_task(task.title):
                if task.metric != "auto" and not (task.metric in METRICS and METRICS[task.metric].higher_is_better):
                    known = ", ".join(name for name, m in METRICS.items() if m.higher_is_better)
                    raise RequestError(f'metric = "{task.metric}" has no place in a mean over tasks; choose {known}.')
        titles = [task.title for task in tasks_of(recipe)]
        refuse_unknown_tasks("objective.weights", table.weights, titles)
        refuse_unknown_tasks("objective.train_on", table.train_on or [], titles)
        _check_in_turn(recipe, table)

    def heads(self, default: HeadInput) -> Mapping[str, NewHead]:
        """Return a head for each task; one that is only judged is left as it was drawn."""
        heads = {name: head for task in self.tasks.values() for name, head in task.heads(default).items()}
        return {name: replace(head, trained=name in self.data.trained) for name, head in heads.items()}

    def inputs(self, checkpoint: Checkpoint, setup: Setup) -> TaskInputs:
        tasks = {}
        for name, task in self.tasks.items():
            with about_task(name):
                tasks[name] = task.inputs(checkpoint, setup)
        metrics = {name: metric.name for name, metric in self.evaluator().own.items()}
        return TaskInputs(self.data, tasks, metrics, self.table.sampling, self.recipe.training, setup.seed)

    def evaluator(self) -> TaskEvaluator:
        tasks = {}
        for name, task in self.tasks.items():
            with about_task(name):
                tasks[name] = task.evaluator()
        return TaskEvaluator(self.data, tasks, self.named)

    def counts(self, step: LabelledStep) -> dict[str, float]:
        return {step.task: self.tasks[step.task].counts(step)[TERM]}

    def losses(
        self, reader: TextReader, step: LabelledStep, counts: Mapping[str, float], context: StepContext
    ) -> Iterator[Partial]:
        task, weight = step.task, self.table.weights.get(step.task, 1.0)
        for partial in self.tasks[task].losses(reader, step, {TERM: counts[task]}, context):
            yield Partial(weight * partial.loss, {task: weight * partial.terms[TERM]})

    def finish(self, checkpoint: Checkpoint) -> None:
        """Remove the heads that were not trained: they have nothing to say."""
        for name, task in self.tasks.items():
            if name in self.data.trained:
                task.finish(checkpoint)
            else:
                del checkpoint.transformer.heads[name], checkpoint.transformer.head_shapes[name]


OBJECTIVE = MultiTask


def _check_in_turn(recipe: Recipe, table: MultiTaskTable) -> None:
    """Refuse what makes no sense if tasks are trained one after another, or not all of them."""
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
