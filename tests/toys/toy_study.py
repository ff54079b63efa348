"""A toy kind of study, as another package would write it: the loss of models of several sizes at equal compute. Steps
and learning rate follow from a budget and a size; nothing is chosen."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from heedful.evaluation.metrics import Metric
from heedful.recipes.schema import StudyTable
from heedful.report.page.pieces import Column, Row, Section, Table, section
from heedful.storage.runs import Study, read_run
from heedful.storage.study_record import StudyRecord
from heedful.studies.kinds.protocol import SoFar, StudyKind
from heedful.studies.parts import SettingPlan, StudyPlan


class BudgetsTable(StudyTable):
    kind: Literal["budgets"] = "budgets"
    """Several sizes, each trained for as many steps as a budget of compute allows."""
    sizes: list[list[int]]
    """Layers and width of each."""
    budgets: list[float]
    """FLOPs of training."""
    halve: bool = False
    """Whether half the smallest budget is run too, in the end."""


class Budgets(StudyKind):
    name = "budgets"
    Table = BudgetsTable
    chooses = False

    def __init__(self, table: BudgetsTable) -> None:
        self.table = table
        self.bases: tuple[SettingPlan, ...] = ()

    def settings(self, bases: tuple[SettingPlan, ...], seeds: tuple[int, ...]) -> StudyPlan:
        self.bases = bases
        return StudyPlan(self._at(self.table.budgets), seeds, self)

    def after(self, so_far: SoFar) -> StudyPlan | None:
        if len(so_far.plans) > 1 or not self.table.halve:
            return None
        return StudyPlan(self._at([min(self.table.budgets) / 2]), so_far.plan.seeds, self)

    def statistics(self, directory: Path, study: StudyRecord, judged: str, metric: Metric) -> dict[str, Any]:
        runs = {run.setting: read_run(directory / "runs" / run.name) for run in study.runs}
        losses: dict[float, dict[str, float]] = {}
        for setting in study.settings:
            loss = runs[setting.name].scores(judged).number(metric.name)
            losses.setdefault(setting.values["budget"], {})[setting.name] = loss
        return {"lowest": {str(budget): min(known, key=lambda n: known[n]) for budget, known in losses.items()}}

    @classmethod
    def sections(cls, study: Study) -> Sequence[Section | None]:
        lowest = study.statistics.extra.get("lowest", {})
        rows = tuple(Row((budget, name)) for budget, name in lowest.items())
        table = Table("The lowest loss of each budget", (Column("FLOPs", numeric=True), Column("setting")), rows)
        return [section("budgets", "Budgets", [table if rows else None])]

    def _at(self, budgets: Sequence[float]) -> tuple[SettingPlan, ...]:
        settings = []
        for base in self.bases:
            tokens_of_step = base.recipe.training.batch_size * base.recipe.training.max_length
            for layers, width in self.table.sizes:
                for budget in budgets:
                    steps = round(budget / (6 * 12 * layers * width**2 * tokens_of_step))
                    size = {"model.layers": layers, "model.width": width}
                    follows = {"model.heads": width // 8, "training.steps": max(1, steps), "training.lr": 0.1 / width}
                    name = f"{base.name}-{layers}x{width}-{budget:.0e}"
                    settings.append(base.variant(name, {**size, **follows}, {**size, "budget": budget}))
        return tuple(settings)
