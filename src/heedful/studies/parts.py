"""What a study runs: settings (a recipe each) times seeds, each a job with a directory of its own; in phases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heedful import plugins
from heedful.recipes.reading import make_recipe
from heedful.recipes.schema import Recipe

if TYPE_CHECKING:
    from heedful.studies.kinds.protocol import StudyKind


@dataclass(frozen=True)
class SettingPlan:
    name: str
    model: str
    method: str
    recipe: Recipe
    values: tuple[tuple[str, Any], ...] = ()
    """What the study varies, by name: mostly keys of the recipe."""
    group: str = ""
    """The setting of the request that this is a variant of: one of each group is chosen."""
    baseline: bool = False
    """Whether it is a baseline that was added to what was asked for."""

    @property
    def random(self) -> bool:
        """Whether it depends on the seed; if not, it is run once."""
        return bool(plugins.find("tuning", self.recipe.tuning.method).random(self.recipe))

    def variant(
        self, name: str, changes: Mapping[str, Any], values: Mapping[str, Any] | None = None, place: str = "[study]"
    ) -> SettingPlan:
        """Return this setting with other values of some keys ("training.lr"), as a member of its group. `values` are
        what the study varies, where some changes only follow from it, as the steps do from a budget of compute and a
        size; `place` begins an error."""
        recipe = make_recipe(tables_with(self.recipe, changes), place)
        return replace(
            self, name=name, model=recipe.model.title, method=recipe.tuning.method, recipe=recipe,
            values=tuple((changes if values is None else values).items()), group=self.name,
        )  # fmt: skip


@dataclass(frozen=True)
class Job:
    name: str
    setting: SettingPlan
    seed: int
    directory: Path


@dataclass(frozen=True)
class DevCurve:
    """The scores of a run on dev (higher is better) by evaluation, and whether it was stopped."""

    setting: str
    seed: int
    scores: Mapping[int, float]
    pruned: bool


def _comparison() -> StudyKind:
    kind: StudyKind = plugins.find("study", "compare")()
    return kind


@dataclass(frozen=True)
class StudyPlan:
    """Settings that are run together; a study is a plan, and the plans that its kind makes of the results."""

    settings: tuple[SettingPlan, ...]
    seeds: tuple[int, ...]
    kind: StudyKind = field(default_factory=_comparison)
    """What the study is for: it says what comes next, and what is concluded."""
    search: Mapping[str, Any] | None = None
    """What [study] says, for the record."""
    seeds_by_setting: Mapping[str, tuple[int, ...]] | None = None
    """Where settings have got more seeds than the others."""
    later_seeds: tuple[int, ...] = ()
    """The seeds with which a later plan tests what is chosen of this one; only that one has baselines."""
    final: bool = False
    """Whether these are the chosen settings of earlier plans, and the only ones that are compared."""

    def jobs(self, directory: Path) -> Iterator[Job]:
        """Yield all runs, seed by seed: a study that is stopped early has compared all settings on some seeds."""
        for seed in dict.fromkeys(seed for setting in self.settings for seed in self.seeds_of(setting)):
            for setting in self.settings:
                if seed in self.seeds_of(setting):
                    name = f"{setting.name}-seed{seed}"
                    yield Job(name, setting, seed, directory / "runs" / name)

    def seeds_of(self, setting: SettingPlan) -> tuple[int, ...]:
        """Return the seeds of a setting; only the first if it does not depend on the seed."""
        seeds = (self.seeds_by_setting or {}).get(setting.name, self.seeds)
        return seeds if setting.random else seeds[:1]


def tables_with(recipe: Recipe, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the recipe's tables with these values in them."""
    content = recipe.identity()
    for key, value in values.items():
        table, _, name = key.partition(".")
        content[table] = {**(content.get(table) or {}), name: value}
    return content


def choose(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the row with the best mean on dev, of those that were trained to the end if there are any. A tie goes to
    the simplest: a baseline, then a setting that does not depend on the seed. None where no row has a mean."""
    scored = [r for r in rows if r.get("dev_mean") is not None]
    scored = [r for r in scored if not r.get("pruned")] or scored
    if not scored:
        return None
    sign = direction(scored[0])
    return max(scored, key=lambda r: (float(sign * r["dev_mean"]), bool(r.get("baseline")), r.get("random") is False))


def direction(row: Mapping[str, Any]) -> int:
    """Return 1 if a higher score of this row's metric is better, else -1."""
    return 1 if row["higher_is_better"] else -1
