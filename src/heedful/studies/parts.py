"""What a study runs: settings (a recipe each) times seeds, each a job with a directory of its own; in phases."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from heedful import plugins
from heedful.recipes.reading import make_recipe
from heedful.recipes.schema import Recipe
from heedful.studies.tpe import Trial, thresholds


@dataclass(frozen=True)
class SettingPlan:
    name: str
    model: str
    method: str
    recipe: Recipe
    values: tuple[tuple[str, Any], ...] = ()
    """What a search varies, by key."""
    group: str = ""
    """The search that this is a setting of: one of each group is chosen."""
    baseline: bool = False
    """Whether it is there to be beaten, and was not asked for."""

    @property
    def random(self) -> bool:
        """Whether the seed plays a part; if not, it is run once."""
        return bool(plugins.find("tuning", self.recipe.tuning.method).random(self.recipe))


@dataclass(frozen=True)
class Job:
    name: str
    setting: SettingPlan
    seed: int
    directory: Path


@dataclass(frozen=True)
class DevCurve:
    """How a run of a search went: its score on dev (higher is better) at each mark, and whether it was stopped."""

    setting: str
    seed: int
    scores: Mapping[int, float]
    pruned: bool


Rounds = Callable[[Mapping[str, Sequence[Trial]]], tuple[SettingPlan, ...]]
"""From what each group has tried, the settings of the next round; none at the end."""


@dataclass(frozen=True)
class Until:
    """Seeds are added until each comparison with the chosen setting is decided, or cannot be."""

    difference: float | None = None
    """Settings that surely differ by less are alike; None: what is usual for the metric."""
    most_seeds: int = 20


@dataclass(frozen=True)
class StudyPlan:
    settings: tuple[SettingPlan, ...]
    seeds: tuple[int, ...]
    final_seeds: int = 0
    """With how many fresh seeds the chosen setting of each group is run; 0: nothing is chosen."""
    rounds: Rounds | None = None
    """If the search learns from what it has tried."""
    prune: bool = False
    """Whether runs that fall behind earlier rounds are stopped."""
    earlier: tuple[SettingPlan, ...] = ()
    """The settings of the rounds before this one."""
    search: Mapping[str, Any] | None = None
    """What [study] says, for the record."""
    until: Until | None = None
    seeds_by_setting: Mapping[str, tuple[int, ...]] | None = None
    """Where settings have got more seeds than the others."""

    final_baselines: Callable[[Sequence[SettingPlan]], tuple[SettingPlan, ...]] | None = None
    """The baselines that are run with the chosen settings, where settings are chosen."""

    def jobs(self, directory: Path) -> Iterator[Job]:
        """Seed by seed, so that a study that is stopped early has compared all settings on some seeds."""
        for seed in dict.fromkeys(seed for setting in self.settings for seed in self.seeds_of(setting)):
            for setting in self.settings:
                if seed in self.seeds_of(setting):
                    name = f"{setting.name}-seed{seed}"
                    yield Job(name, setting, seed, directory / "runs" / name)

    def seeds_of(self, setting: SettingPlan) -> tuple[int, ...]:
        """The first one alone, if no seed plays a part in the setting."""
        seeds = (self.seeds_by_setting or {}).get(setting.name, self.seeds)
        return seeds if setting.random else seeds[:1]

    def thresholds(self, job: Job, curves: Sequence[DevCurve]) -> dict[int, float]:
        """What this run must reach, mark by mark, given its group's runs with the same seed in earlier rounds."""
        if not self.prune:
            return {}
        peers = {s.name for s in self.earlier if s.group == job.setting.group}
        return thresholds([c.scores for c in curves if c.setting in peers and c.seed == job.seed and not c.pruned])

    def after(self, rows: Sequence[Mapping[str, Any]], curves: Sequence[DevCurve]) -> "StudyPlan | None":
        """What comes next, given the rows of the table so far: the search's next round, or the chosen settings with
        fresh seeds and their test. Runs of a choice bear its name: should another sitting choose otherwise, because a
        run that had failed is made or there are more seeds, they do not meet."""
        tried = (*self.earlier, *self.settings)
        if self.rounds is not None:
            settings = self.rounds(_trials(tried, rows, curves))
            if settings:
                return replace(self, settings=settings, earlier=tried)
        if not self.final_seeds:
            return None
        by_name = {s.name: s for s in tried}
        chosen = []
        for group in dict.fromkeys(s.group for s in tried):
            best = choose([r for r in rows if by_name[r["setting"]].group == group])
            if best is not None:
                setting = by_name[best["setting"]]
                content = setting.recipe.identity()
                content["evaluation"] = {**content.get("evaluation", {}), "test": True}
                chosen.append(replace(setting, name=f"{setting.name}-final", recipe=make_recipe(content)))
        if not chosen:
            return None
        baselines = self.final_baselines(chosen) if self.final_baselines is not None else ()
        return StudyPlan((*chosen, *baselines), self.fresh_seeds)

    @property
    def fresh_seeds(self) -> tuple[int, ...]:
        """Those that take no part in choosing, with which the chosen settings are tested."""
        first = max(self.seeds) + 1
        return tuple(range(first, first + self.final_seeds))


def choose(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The row with the best mean on dev, of those that were trained to the end if there are any; of several that are
    level the simplest: a baseline, then one without a seed. None where none has a mean."""
    scored = [r for r in rows if r.get("dev_mean") is not None]
    scored = [r for r in scored if not r.get("pruned")] or scored
    if not scored:
        return None
    sign = direction(scored[0])
    return max(scored, key=lambda r: (float(sign * r["dev_mean"]), bool(r.get("baseline")), r.get("random") is False))


def direction(row: Mapping[str, Any]) -> int:
    """1 if a higher score of this row's metric is better, else -1."""
    return 1 if row["higher_is_better"] else -1


def _trials(
    settings: Sequence[SettingPlan], rows: Sequence[Mapping[str, Any]], curves: Sequence[DevCurve]
) -> dict[str, list[Trial]]:
    by_name = {row["setting"]: row for row in rows}
    trials: dict[str, list[Trial]] = {}
    for setting in settings:
        row = by_name[setting.name]
        mean = row.get("dev_mean")
        seeds = [c.scores for c in curves if c.setting == setting.name]
        marks = sorted(set.intersection(*(set(s) for s in seeds))) if seeds else []
        curve = {m: sum(s[m] for s in seeds) / len(seeds) for m in marks}
        score = None if mean is None else direction(row) * float(mean)
        trials.setdefault(setting.group, []).append(Trial(dict(setting.values), score, bool(row.get("pruned")), curve))
    return trials
