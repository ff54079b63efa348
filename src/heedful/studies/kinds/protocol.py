"""The seam for what a study is for: which settings it runs, what comes after, how it concludes, what it reports.

A kind is one file: here, or in another package behind an entry point of the group `heedful.studies`. A recipe names it
with `study.kind`, and its table is the rest of [study].
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from heedful import plugins
from heedful.errors import RequestError
from heedful.evaluation.metrics import Metric
from heedful.recipes.schema import StudyTable
from heedful.storage.statistics_record import Statistics
from heedful.storage.study_record import StudyRecord
from heedful.studies.parts import DevCurve, Job, SettingPlan, StudyPlan
from heedful.studies.table import Row, dev_curves, table_rows

if TYPE_CHECKING:
    from heedful.report.page.pieces import Section
    from heedful.storage.runs import Study


@dataclass
class SoFar:
    """What a study has run, from which its kind decides what comes next."""

    directory: Path
    conclude: Callable[[SoFar], Statistics]
    """Writes the statistics, the table and the chosen model, and returns what statistics.json holds."""
    plans: list[StudyPlan] = field(default_factory=list)
    """What has been run, in order."""
    rows: list[Row] = field(default_factory=list)
    """Of the table: one for each setting."""
    look: int = 1
    """How often the study will have concluded next time: with each look at the tests, these have to be stricter."""
    notes: list[str] = field(default_factory=list)
    """Sentences for the end of the command."""
    _statistics: Statistics | None = None
    _curves: list[DevCurve] = field(default_factory=list)
    _curves_of: int = 0
    """How many of the plans these are of."""

    def add(self, plan: StudyPlan) -> None:
        """Take in a plan whose runs have ended."""
        self.plans.append(plan)
        rows = {row["setting"]: row for row in self.rows}
        self.rows = list((rows | {row["setting"]: row for row in table_rows(self.directory, plan)}).values())
        if self._statistics is not None:
            self._statistics, self.look = None, self.look + 1

    @property
    def plan(self) -> StudyPlan:
        """The last one."""
        return self.plans[-1]

    @property
    def settings(self) -> tuple[SettingPlan, ...]:
        """All that were tried, each once."""
        return tuple({s.name: s for plan in self.plans for s in plan.settings}.values())

    @property
    def compared(self) -> tuple[SettingPlan, ...]:
        """Those that the study concludes about: where some were chosen and run again, these."""
        return self.plan.settings if self.plan.final else self.settings

    @property
    def curves(self) -> list[DevCurve]:
        """How each finished run scored on dev while it trained; read when a kind asks for it."""
        for plan in self.plans[self._curves_of :]:
            self._curves += dev_curves(self.directory, plan)
        self._curves_of = len(self.plans)
        return self._curves

    @property
    def statistics(self) -> Statistics:
        """What statistics.json holds; the study concludes now if it has not done so since its last runs."""
        if self._statistics is None:
            self._statistics = self.conclude(self)
        return self._statistics


class StudyKind:
    """What a study is for. The defaults are those of a comparison: everything is run once, and the best is chosen."""

    name: str
    """As [study] and study.json say it."""
    Table: ClassVar[type[StudyTable] | None] = None
    """The keys of [study]; None: it is not asked for in a recipe."""
    chooses: bool = True
    """Whether a setting is chosen: it is recommended, compared with the others, and its best model kept as best/."""

    @abstractmethod
    def settings(self, bases: tuple[SettingPlan, ...], seeds: tuple[int, ...]) -> StudyPlan:
        """Return what is run first, given the settings of the request. What cannot work is refused here, before
        anything is written."""

    def after(self, so_far: SoFar) -> StudyPlan | None:
        """Return what comes next; None if the study has ended. Must depend on nothing but `so_far`: a study that was
        killed asks again."""
        return None

    def thresholds(self, job: Job, so_far: SoFar) -> Mapping[int, float]:
        """Return the score on dev that a run must have reached by each of its evaluations, by number, or is stopped."""
        return {}

    def candidates(self, settings: Sequence[SettingPlan]) -> Sequence[SettingPlan]:
        """Return those of the compared settings that may be chosen; baselines always may."""
        return settings

    def tests(self, look: int) -> dict[str, Any]:
        """Return the level of the tests when the study concludes for this time, as `write_statistics` takes it."""
        return {}

    def statistics(self, directory: Path, study: StudyRecord, judged: str, metric: Metric) -> dict[str, Any]:
        """Return further entries of statistics.json, given the record of the study, the evaluation set that judges, and
        the metric."""
        return {}

    @classmethod
    def sections(cls, study: Study) -> Sequence[Section | None]:
        """Return its own sections of the report, which come after the results and the tests."""
        return []


def kind_of_study(study: Study) -> type[StudyKind] | None:
    """Return the kind of a study on disk; None if the package that offers it is no longer there. Studies of earlier
    versions, which did not say, are comparisons, searches or learning curves: the sections of a search suit all."""
    with suppress(RequestError):
        kind: type[StudyKind] = plugins.find("study", study.record.kind)
        return kind
    return None
