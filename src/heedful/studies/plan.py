"""What a study runs: settings (a recipe each) times seeds, each a job with a directory of its own."""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from heedful.errors import RequestError
from heedful.recipes.reading import make_recipe
from heedful.recipes.schema import Recipe, StudyTable

METHODS: Mapping[str, Mapping[str, Any]] = {
    "frozen": {"tuning": {"method": "frozen"}, "training": {"epochs": 30, "lr": 3e-3, "warmup": 0.0}},
    "full": {"tuning": {"method": "full"}, "training": {"epochs": 5, "lr": 1e-4}},
}
"""What `compare` takes for each method unless it is told otherwise: a head alone wants larger and more steps."""
_AXES = ("model", "data", "objective", "tuning", "training")
_MOST = 1000  # settings of a study


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
    final_seeds: int = 0
    """With how many fresh seeds the chosen setting of each group is run; 0: nothing is chosen."""

    def jobs(self, directory: Path) -> Iterator[Job]:
        """Seed by seed, so that a study that is stopped early has compared all settings on some seeds."""
        for seed in self.seeds:
            for setting in self.settings:
                name = f"{setting.name}-seed{seed}"
                yield Job(name, setting, seed, directory / "runs" / name)

    def final(self, rows: Sequence[Mapping[str, Any]]) -> "StudyPlan | None":
        """The chosen settings with fresh seeds and their test, given the rows of the search's table."""
        if not self.final_seeds:
            return None
        by_name = {s.name: s for s in self.settings}
        chosen = []
        for group in dict.fromkeys(s.group for s in self.settings):
            best = choose([r for r in rows if by_name[r["setting"]].group == group])
            if best is not None:
                setting = by_name[best["setting"]]
                content = setting.recipe.model_dump(exclude={"seeds", "study"})
                content["evaluation"] |= {"test": True}
                chosen.append(replace(setting, name=f"{group}-chosen", recipe=make_recipe(content)))
        first = max(self.seeds) + 1
        return StudyPlan(tuple(chosen), tuple(range(first, first + self.final_seeds))) if chosen else None


def choose(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The row with the best mean on dev; None where none has one."""
    scored = [r for r in rows if r.get("dev_mean") is not None]
    if not scored:
        return None
    sign = -1 if scored[0]["metric"] == "log_loss" else 1
    return max(scored, key=lambda r: float(sign * r["dev_mean"]))


def plan_recipe(recipe: Recipe, name: str, seeds: Sequence[int] | None = None) -> StudyPlan:
    """One recipe over its own seeds or over others; with [study], the settings of its search."""
    held = tuple(recipe.seed_list() if seeds is None else seeds)
    if not held or len(set(held)) != len(held):
        raise RequestError(f"seeds={list(held)}: name at least one, and each once.")
    setting = SettingPlan(name, recipe.model.name or str(recipe.model.shape), recipe.tuning.method, recipe)
    return _searched((setting,), held, recipe.study)


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
    for table, key, option in (("model", "name", "--models"), ("tuning", "method", "--methods")):
        if key in ((changes or {}).get(table) or {}):
            raise RequestError(f"--set {table}.{key}: say it with {option}, which names what is compared.")
    settings = []
    for model in models:
        for method in methods:
            content: dict[str, Any] = {"model": {"name": model}, "data": dict(data)}
            for tables in (METHODS[method], changes or {}):
                for table, values in tables.items():
                    if not isinstance(values, dict):
                        raise RequestError(f"--set {table}: set a key of a table, such as training.lr=1e-4.")
                    content[table] = {**content.get(table, {}), **values}
            name = re.sub(r"[^\w.-]+", "-", f"{Path(model).name}-{method}").strip("-.") or method
            settings.append(SettingPlan(name, model, method, make_recipe(content, "compare")))
    if len({s.name for s in settings}) != len(settings):
        raise RequestError("--models: two of them have the same last name; copy or rename one of the directories.")
    return _searched(tuple(settings), tuple(seeds), settings[0].recipe.study)


def _searched(settings: tuple[SettingPlan, ...], seeds: tuple[int, ...], study: StudyTable | None) -> StudyPlan:
    """Each setting once for every combination of the axes."""
    combinations = _combinations(study) if study is not None else []
    if study is None or not combinations:
        plain = tuple(replace(s, recipe=s.recipe.model_copy(update={"study": None})) for s in settings)
        return StudyPlan(plain, seeds)
    found = []
    for setting in settings:
        for number, values in enumerate(combinations, start=1):
            content = setting.recipe.model_dump(exclude={"seeds", "study"})
            for key, value in values.items():
                table, _, name = key.partition(".")
                content[table] = {**(content.get(table) or {}), name: value}
            if study.test == "chosen":
                content["evaluation"] |= {"test": False}
            recipe = make_recipe(content, f"setting {number} of the search")
            name = f"{setting.name}-{number:0{len(str(len(combinations)))}}"
            found.append(replace(setting, name=name, recipe=recipe, values=tuple(values.items()), group=setting.name))
    return StudyPlan(tuple(found), seeds, study.final_seeds if study.test == "chosen" else 0)


def _combinations(study: StudyTable) -> list[dict[str, Any]]:
    axes = {f"{table}.{key}": values for table in _AXES for key, values in getattr(study, table).items()}
    for key, values in axes.items():
        if not values:
            raise RequestError(f"study.{key} has no values; name at least one.")
    rows = [{f"{t}.{k}": v for t, held in row.items() for k, v in _held(t, held).items()} for row in study.rows]
    if axes and rows:
        raise RequestError("[study] has axes and rows; keep one of the two.")
    count = len(rows) or int(np.prod([len(v) for v in axes.values()])) if axes or rows else 0
    if study.search == "random" and axes:
        assert study.trials is not None  # the recipe was refused otherwise
        chosen = np.random.default_rng(study.draw_seed).permutation(count)[: study.trials]
        sizes = [len(v) for v in axes.values()]
        found = []
        for number in sorted(chosen.tolist()):
            at = np.unravel_index(number, sizes)
            found.append({key: values[int(i)] for (key, values), i in zip(axes.items(), at, strict=True)})
        return found
    if count > _MOST:
        raise RequestError(f'[study] makes {count} settings; try fewer values, or study.search = "random".')
    return rows or [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values()) if axes]


def _held(table: str, held: Any) -> dict[str, Any]:
    if table not in _AXES or not isinstance(held, dict):
        raise RequestError(f"study.rows: {table} is not a table that can vary; these are {', '.join(_AXES)}.")
    return held
