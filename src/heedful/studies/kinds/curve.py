"""`study.curve`: would more labels help? Each setting on rising numbers of training rows."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from heedful import plugins
from heedful.errors import RequestError
from heedful.evaluation.metrics import Metric
from heedful.recipes.schema import Recipe, RowsTable, StudyTable
from heedful.storage.study_record import StudyRecord
from heedful.studies.curves import largest_sizes, learning_curves
from heedful.studies.kinds.protocol import StudyKind
from heedful.studies.parts import SettingPlan, StudyPlan

if TYPE_CHECKING:
    from heedful.report.page.pieces import Section
    from heedful.storage.runs import Study

_MOST_EPOCHS = 10_000  # that a recipe may have


class CurveTable(StudyTable):
    """A learning curve."""

    kind: Literal["curve"] = "curve"
    """Plot the score against the number of training rows. Setting `study.curve` is enough."""
    curve: list[float | int]
    """Shares of the training rows (up to 1) or numbers of rows, such as [0.125, 0.25, 0.5, 1]. Each size is trained
    for about as many steps as the largest (more epochs for fewer rows), unless `training.steps` is set or nothing
    is trained step by step. Every size is tested; the largest, or a baseline that is better on dev, is chosen."""


class Curve(StudyKind):
    name = "curve"
    Table = CurveTable

    def __init__(self, table: CurveTable) -> None:
        self.sizes = table.curve

    def settings(self, bases: tuple[SettingPlan, ...], seeds: tuple[int, ...]) -> StudyPlan:
        return StudyPlan(tuple(setting for base in bases for setting in self._sizes_of(base)), seeds, self)

    def candidates(self, settings: Sequence[SettingPlan]) -> Sequence[SettingPlan]:
        return largest_sizes(settings)

    def statistics(self, directory: Path, study: StudyRecord, judged: str, metric: Metric) -> dict[str, Any]:
        curves = learning_curves(directory, study, judged, metric)
        return {"curves": curves} if curves else {}

    @classmethod
    def sections(cls, study: "Study") -> Sequence["Section | None"]:
        from heedful.report.facts.comparison import compare
        from heedful.report.sections.more_labels import more_labels

        return [more_labels(compare(study))]

    def _sizes_of(self, base: SettingPlan) -> list[SettingPlan]:
        """Return the setting on each share or number of the training rows; each seed draws its own. Fewer rows are
        read more often, so that what more rows bring is not what more steps bring."""
        sizes = self.sizes
        data = base.recipe.data
        if not isinstance(data, RowsTable):
            raise RequestError(
                f'study.curve needs data with rows, which objective.kind = "{base.recipe.objective.kind}" has not.'
            )
        if data.limit is not None or data.fraction is not None:
            raise RequestError("study.curve says how many rows are trained on; leave data.limit and data.fraction out.")
        shares = all(size <= 1 for size in sizes)
        rising = len(sizes) > 1 and list(sizes) == sorted(set(sizes)) and sizes[0] > 0
        if not rising or (not shares and sizes[0] <= 1):
            raise RequestError(
                f"study.curve = {list(sizes)} is neither rising shares up to 1 nor rising numbers of rows."
            )
        settings = []
        for size in sizes:
            values = {"data.fraction": float(size)} if shares else {"data.limit": size}
            changes = {**values, "data.redraw": True, **_as_many_steps(base.recipe, sizes[-1] / size)}
            settings.append(base.variant(f"{base.name}-{size}", changes, values, "study.curve"))
        return settings


def _as_many_steps(recipe: Recipe, times: float) -> dict[str, Any]:
    """Return the length of a training on so many times fewer rows, counted in epochs; nothing if the recipe counts
    steps or tokens, or the head is solved and not trained."""
    training = recipe.training
    counted = training.steps is not None or training.tokens is not None
    if times == 1 or counted or plugins.find("tuning", recipe.tuning.method).solves(recipe):
        return {}
    changes = {"training.epochs": min(_MOST_EPOCHS, round(times * training.epochs))}
    if training.patience is not None and training.mark_steps is None and training.mark_tokens is None:
        changes["training.patience"] = round(times * training.patience)
    return changes


STUDY = Curve
