"""What a study runs: settings (a recipe each) times seeds, each a job with a directory of its own."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heedful.errors import RequestError
from heedful.recipes.reading import make_recipe
from heedful.recipes.schema import Recipe

METHODS: Mapping[str, Mapping[str, Any]] = {
    "frozen": {"tuning": {"method": "frozen"}, "training": {"epochs": 30, "lr": 3e-3, "warmup": 0.0}},
    "full": {"tuning": {"method": "full"}, "training": {"epochs": 5, "lr": 1e-4}},
}
"""What `compare` takes for each method unless it is told otherwise: a head alone wants larger and more steps."""


@dataclass(frozen=True)
class SettingPlan:
    name: str
    model: str
    method: str
    recipe: Recipe


@dataclass(frozen=True)
class Job:
    name: str
    setting: SettingPlan
    seed: int
    directory: Path


@dataclass(frozen=True)
class StudyPlan:
    settings: tuple[SettingPlan, ...]
    seeds: tuple[int, ...]

    def jobs(self, directory: Path) -> Iterator[Job]:
        """Seed by seed, so that a study that is stopped early has compared all settings on some seeds."""
        for seed in self.seeds:
            for setting in self.settings:
                name = f"{setting.name}-seed{seed}"
                yield Job(name, setting, seed, directory / "runs" / name)


def plan_recipe(recipe: Recipe, name: str, seeds: Sequence[int] | None = None) -> StudyPlan:
    """One recipe over its own seeds, or over others."""
    setting = SettingPlan(name, recipe.model.name or str(recipe.model.shape), recipe.tuning.method, recipe)
    return StudyPlan((setting,), tuple(recipe.seed_list() if seeds is None else seeds))


def plan_comparison(
    data: Mapping[str, Any],
    models: Sequence[str],
    methods: Sequence[str],
    seeds: Sequence[int],
    changes: Mapping[str, Mapping[str, Any]] | None = None,
) -> StudyPlan:
    """`data` is a recipe's [data] table; `changes` are tables of a recipe that go over every method's own."""
    for method in methods:
        if method not in METHODS:
            raise RequestError(f"--methods: {method!r} is unknown; choose from {', '.join(METHODS)}.")
    for what, given in (("--models", models), ("--methods", methods)):
        if not given or len(set(given)) != len(given):
            raise RequestError(f"{what}: name each one once, at least one.")
    settings = []
    for model in models:
        for method in methods:
            content: dict[str, Any] = {"model": {"name": model}, "data": dict(data)}
            for tables in (METHODS[method], changes or {}):
                for table, values in tables.items():
                    content[table] = {**content.get(table, {}), **values}
            name = re.sub(r"[^\w.-]+", "-", f"{Path(model).name}-{method}").strip("-.") or method
            settings.append(SettingPlan(name, model, method, make_recipe(content, "compare")))
    if len({s.name for s in settings}) != len(settings):
        raise RequestError("--models: two of them have the same last name; copy or rename one of the directories.")
    return StudyPlan(tuple(settings), tuple(seeds))
