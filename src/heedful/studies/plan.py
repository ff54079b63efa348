"""From a request to what a study runs: one recipe with its search, or a comparison of models and methods."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from heedful import plugins
from heedful.errors import RequestError
from heedful.recipes.reading import make_recipe
from heedful.recipes.schema import Recipe
from heedful.studies.parts import SettingPlan, StudyPlan
from heedful.studies.search import plan_search


def plan_recipe(recipe: Recipe, name: str, seeds: Sequence[int] | None = None) -> StudyPlan:
    """One recipe over its own seeds or over others; with [study], the settings of its search."""
    wanted = tuple(recipe.seed_list() if seeds is None else seeds)
    if not wanted or len(set(wanted)) != len(wanted):
        raise RequestError(f"seeds={list(wanted)}: name at least one, and each once.")
    setting = SettingPlan(name, recipe.model.name or str(recipe.model.shape), recipe.tuning.method, recipe)
    return plan_search((setting,), wanted, recipe.study)


def plan_comparison(
    data: Mapping[str, Any],
    models: Sequence[str],
    methods: Sequence[str],
    seeds: Sequence[int],
    changes: Mapping[str, Mapping[str, Any]] | None = None,
) -> StudyPlan:
    """`data` is a recipe's [data] table; `changes` are tables of a recipe that go over every method's own."""
    tunings = {}
    for method in methods:
        try:
            tunings[method] = plugins.find("tuning", method)
        except RequestError:
            known = ", ".join(plugins.names("tuning"))
            raise RequestError(f"--methods: {method!r} is unknown; choose from {known}.") from None
    for what, given in (("--models", models), ("--methods", methods)):
        if not given or len(set(given)) != len(given):
            raise RequestError(f"{what}: name each one once, at least one.")
    for table, key, option in (("model", "name", "--models"), ("tuning", "method", "--methods")):
        swept = ((changes or {}).get("study") or {}).get(table) or {}
        if key in ((changes or {}).get(table) or {}) or key in swept:
            raise RequestError(f"{table}.{key}: say it with {option}, which names what is compared.")
    settings = []
    for model in models:
        for method in methods:
            content: dict[str, Any] = {"model": {"name": model}, "data": dict(data), "tuning": {"method": method}}
            for tables in (_defaults(tunings[method].COMPARE_DEFAULTS, changes or {}), changes or {}):
                for table, values in tables.items():
                    if not isinstance(values, dict):
                        raise RequestError(f"--set {table}: set a key of a table, such as training.lr=1e-4.")
                    content[table] = {**content.get(table, {}), **values}
            name = re.sub(r"[^\w.-]+", "-", f"{Path(model).name}-{method}").strip("-.") or method
            settings.append(SettingPlan(name, model, method, make_recipe(content, "compare")))
    if len({s.name for s in settings}) != len(settings):
        raise RequestError("--models: two of them have the same last name; copy or rename one of the directories.")
    return plan_search(tuple(settings), tuple(seeds), settings[0].recipe.study)


def _defaults(compared: Mapping[str, Mapping[str, Any]], changes: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What a tuning takes unless it is told otherwise; steps take the place of epochs."""
    tables = {table: dict(values) for table, values in compared.items()}
    study = changes.get("study")
    for training in (changes.get("training"), study.get("training") if isinstance(study, Mapping) else None):
        if isinstance(training, Mapping) and "steps" in training:
            tables.get("training", {}).pop("epochs", None)
    return tables
