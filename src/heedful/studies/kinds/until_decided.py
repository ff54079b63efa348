"""`--until-decided`: seeds are added until each comparison with the chosen setting is decided, or seeds cannot.

Whoever tests again after each added seed finds a difference sooner or later. So each look spends a part of the 5 %:
α_j = 0.05 / (j (j + 1)) at the j-th look, which add up to 0.05 however many there are.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from heedful.evaluation.metrics import Metric
from heedful.evaluation.statistics.compare import alpha_of_look
from heedful.storage.statistics_record import Statistics
from heedful.storage.study_record import StudyRecord
from heedful.studies.kinds.protocol import SoFar, StudyKind
from heedful.studies.parts import Job, SettingPlan, StudyPlan

_GROWTH = 1.5  # seeds from look to look: few looks, so that each may spend more


@dataclass(frozen=True)
class Until:
    """Seeds are added until each comparison with the chosen setting is decided, or cannot be."""

    difference: float | None = None
    """Settings that surely differ by less are alike; None: what is usual for the metric."""
    most_seeds: int = 20


class UntilDecided(StudyKind):
    """Another kind of study, to which seeds are added when it has ended."""

    def __init__(self, kind: StudyKind, until: Until) -> None:
        self.kind, self.until = kind, until
        self.name, self.chooses = kind.name, kind.chooses

    def settings(self, bases: tuple[SettingPlan, ...], seeds: tuple[int, ...]) -> StudyPlan:
        return replace(self.kind.settings(bases, seeds), kind=self)

    def after(self, so_far: SoFar) -> StudyPlan | None:
        following = self.kind.after(so_far) if so_far.look == 1 else None
        if following is not None:
            return replace(following, kind=self)
        following = next_look(so_far.plan, so_far.statistics, self.until)
        if following is None:
            so_far.notes.append(why_it_ended(so_far.statistics, self.until))
        return following

    def thresholds(self, job: Job, so_far: SoFar) -> Mapping[int, float]:
        return self.kind.thresholds(job, so_far)

    def candidates(self, settings: Sequence[SettingPlan]) -> Sequence[SettingPlan]:
        return self.kind.candidates(settings)

    def tests(self, look: int) -> dict[str, Any]:
        return {"look": look, "alpha": alpha_of_look(look), **asdict(self.until)}

    def statistics(self, directory: Path, study: StudyRecord, judged: str, metric: Metric) -> dict[str, Any]:
        return self.kind.statistics(directory, study, judged, metric)


def why_it_ended(statistics: Statistics, until: Until) -> str:
    """In one sentence, when no look follows."""
    chosen = statistics.chosen
    rows = [row for row in statistics.comparisons if row.a == chosen]
    if not rows:
        return "there is nothing to compare, so nothing to decide"
    undecided = [str(row.b) for row in rows if row.decided == "open"]
    if not undecided:
        return f"every comparison with {chosen} is decided, at look {statistics.look}"
    used_up = any(statistics.about(name).seeds == until.most_seeds for name in (chosen, *undecided))
    reason = f"all {until.most_seeds} seeds are used up" if used_up else "more seeds cannot decide it, more rows may"
    return f"{chosen} against {', '.join(undecided)} stays open: {reason}"


def next_look(phase: StudyPlan, statistics: Statistics, until: Until) -> StudyPlan | None:
    """The same settings, with more seeds for those whose comparison with the chosen one is open; None if there is none
    that more seeds can decide."""
    undecided = [
        row
        for row in statistics.comparisons
        if row.a == statistics.chosen and row.decided == "open" and row.more_seeds_can_decide
    ]
    names = {name for row in undecided for name in (row.a, row.b)}
    seeds = {s.name: phase.seeds_of(s) for s in phase.settings}
    for setting in phase.settings:
        have = seeds[setting.name]
        if setting.name in names and setting.random and len(have) < until.most_seeds:
            wanted = min(until.most_seeds, max(len(have) + 1, math.ceil(_GROWTH * len(have))))
            seeds[setting.name] = (*have, *range(max(have) + 1, max(have) + 1 + wanted - len(have)))
    if all(seeds[s.name] == phase.seeds_of(s) for s in phase.settings):
        return None
    return replace(phase, seeds_by_setting=seeds)
