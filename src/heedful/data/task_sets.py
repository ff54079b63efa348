"""Several labelled sets, one for each task."""

import difflib
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from pydantic import Field

from heedful.data.labelled import LabelledData, LabelledTable
from heedful.data.loading import load_data
from heedful.data.protocol import Data
from heedful.errors import RequestError
from heedful.recipes.schema import DataTable, Recipe
from heedful.storage.hashing import sha256_of_json
from heedful.storage.shared import SharedStore

SPLITS = ("dev", "test")
_NAME = re.compile(r"\w[\w-]{0,39}")
_STRIDE = 10**8  # more than a data set has rows


class TaskTable(LabelledTable):
    """The data set of one of several tasks: the keys of [data] for one set, and these."""

    task: str | None = None
    """Name of the task and its head. Default: the name of the data set, or of the train file without its ending."""
    metric: str = "auto"
    """Metric of this task, such as "matthews"; only metrics for which higher is better. Default: accuracy for
    classes, the Pearson correlation for scores."""

    @property
    def title(self) -> str:
        """The name of the task."""
        return self.task or self.name or Path(self.train or "").name.split(".")[0]

    def source(self) -> LabelledTable:
        """Return its data as the [data] of a recipe with one task."""
        return LabelledTable(**{key: getattr(self, key) for key in LabelledTable.model_fields})


class TasksTable(DataTable):
    tasks: list[TaskTable] = Field([])
    """For objective.kind = "multi-task": a table [[data.tasks]] for each task, with the keys of [data] for one data set
    and `task`, its name. [data] itself then has no other key."""

    @property
    def redrawn(self) -> bool:
        return any(task.redraw for task in self.tasks)

    def files(self, name: str) -> list[str]:
        split, _, task = name.partition("-")
        table = next((one for one in self.tasks if one.title == task), None)
        return [] if table is None else table.files(split)


class TaskData(Data):
    Table = TasksTable

    def __init__(self, tasks: Mapping[str, LabelledData], trained: Iterable[str], sequential: bool) -> None:
        """`trained`: the tasks that are trained, of all that are evaluated; `sequential`: one after another."""
        self.tasks, self.trained, self.sequential = dict(tasks), list(trained), sequential
        self.number = {task: i for i, task in enumerate(self.tasks)}

    @staticmethod
    def check(recipe: Recipe) -> None:
        table = tasks_of(recipe)
        if not table:
            raise RequestError("data.tasks is missing or empty: name the data of each task in a table [[data.tasks]].")
        for i, task in enumerate(table):
            task.refuse_two_sources(f"data.tasks.{i}")
        titles = [_checked_name(i, task) for i, task in enumerate(table)]
        twice = next((task for task in titles if titles.count(task) > 1), None)
        if twice is not None:
            raise RequestError(f'data.tasks: two are called {twice!r}; give each a name of its own, task = "…".')
        for title, task in zip(titles, table, strict=True):
            with about_task(title):
                LabelledData.check(task_recipe(recipe, task))

    @classmethod
    def read(cls, recipe: Recipe, seed: int, store: SharedStore) -> Self:
        tasks, pairs = {}, getattr(recipe.model, "pairs", None)
        for table in tasks_of(recipe):
            with about_task(table.title):
                own = task_recipe(recipe, table)
                if pairs is not None and load_data(table.source(), seed, store).train.pairs is None:
                    own = own.model_copy(update={"model": own.model.model_copy(update={"pairs": None})})
                tasks[table.title] = LabelledData.read(own, seed, store)
        if pairs is not None and not any(data.has_pairs for data in tasks.values()):
            raise RequestError("model.pairs is for pairs of texts, but no task has pairs. Remove it.")
        trained = getattr(recipe.objective, "train_on", None) or tasks
        return cls(tasks, trained, getattr(recipe.objective, "sampling", "") == "in-turn")

    @staticmethod
    def instead(key: str) -> str:
        return "put it into the table of each task, [[data.tasks]]"

    def describe(self) -> dict[str, Any]:
        each = {task: data.describe() for task, data in self.tasks.items()}
        prints = {split: {t: d["fingerprints"].get(split) for t, d in each.items()} for split in ("train", *SPLITS)}
        fingerprints = {split: sha256_of_json(of) for split, of in prints.items()}
        fingerprints |= {f"{split}-{t}": p for split, of in prints.items() for t, p in of.items() if p is not None}
        sizes = {"train": sum(each[task]["sizes"]["train"] for task in self.trained)}
        sizes |= {s: sum(each[t]["sizes"][s] for t in of) for s in SPLITS if (of := self.scored(s))}
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
            "in_turn": self.sequential,
            "trained_on": self.trained,
            "tasks": {
                task: {key: d[key] for key in ("name", "kind", "labels", "pairs", "sizes", "hidden")}
                for task, d in each.items()
            },
        }

    def examples(self, name: str) -> list[dict[str, Any]]:
        split, _, task = name.partition("-")
        if task:
            return self.tasks[task].examples(split)
        return [
            {**line, "row": combined_row(self.number[t], line["row"]), "task": t}
            for t in self.scored(split)
            for line in self.tasks[t].examples(split)
        ]

    def texts(self) -> Iterable[str]:
        return itertools.chain.from_iterable(self.tasks[task].texts() for task in self.trained)

    def sets(self) -> dict[str, bool]:
        whole = {split: True for split in SPLITS if self.scored(split)}
        return whole | {f"{split}-{t}": known for t, d in self.tasks.items() for split, known in d.sets().items()}

    def scored(self, split: str) -> list[str]:
        """Return the tasks of which the answers of this set are known."""
        return [task for task, data in self.tasks.items() if data.sets().get(split)]

    def sample(self, rows: int) -> Self:
        """Return a sample of the task with the most rows."""
        largest = max(self.trained, key=lambda task: len(self.tasks[task].dataset.train))
        return type(self)({largest: self.tasks[largest].sample(rows)}, [largest], False)


def tasks_of(recipe: Recipe) -> list[TaskTable]:
    """Return the tables of a recipe's tasks."""
    assert isinstance(recipe.data, TasksTable)
    return recipe.data.tasks


@contextmanager
def about_task(task: str) -> Iterator[None]:
    """Whatever is refused inside is about this task."""
    try:
        yield
    except RequestError as error:
        words = str(error).replace("evaluation.metric", "metric")  # each task has its own
        raise RequestError(f"the task {task}: {words}") from None


def task_recipe(recipe: Recipe, table: TaskTable) -> Recipe:
    """Return the recipe of one task only; its objective is still that of the whole."""
    evaluation = recipe.evaluation.model_copy(update={"metric": table.metric})
    return recipe.model_copy(update={"data": table.source(), "evaluation": evaluation})


def combined_row(task: int, row: int) -> int:
    """Return the number of a row among those of all tasks."""
    return (task + 1) * _STRIDE + row


def refuse_unknown_tasks(key: str, named: Iterable[str], known: Iterable[str]) -> None:
    """Refuse a key that names a task that is not there, or one twice."""
    names, tasks = list(named), list(known)
    for task in names:
        if task not in tasks:
            near = difflib.get_close_matches(task, tasks, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"these are {', '.join(tasks)}."
            raise RequestError(f"{key}: there is no task {task!r}; {hint}")
    if len(set(names)) < len(names):
        raise RequestError(f"{key}: name each task once.")


def _checked_name(number: int, table: TaskTable) -> str:
    if table.name is None and table.train is None:
        raise RequestError(f"data.tasks.{number} needs either name or train.")
    if not _NAME.fullmatch(table.title):
        raise RequestError(
            f"data.tasks.{number}: {table.title[:60]!r} is not a valid task name. Use letters, digits, hyphens "
            'and underscores, task = "…".'
        )
    return table.title
