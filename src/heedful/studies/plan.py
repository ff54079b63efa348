"""From a request to what a study runs: one recipe with its search, or a comparison of models and methods."""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from heedful import plugins
from heedful.building.body import body_table
from heedful.checkpoints.catalog import CATALOG
from heedful.errors import RequestError
from heedful.recipes.reading import draft_recipe, make_recipe, unused_keys
from heedful.recipes.schema import Recipe
from heedful.studies.baselines import data_key
from heedful.studies.kinds.protocol import StudyKind
from heedful.studies.parts import SettingPlan, StudyPlan


def plan_recipe(recipe: Recipe, name: str, seeds: Sequence[int] | None = None) -> StudyPlan:
    """Plan one recipe with its own seeds or with others; with [study], the settings that this asks for."""
    wanted = tuple(recipe.seed_list() if seeds is None else seeds)
    if not wanted or len(set(wanted)) != len(wanted):
        raise RequestError(f"seeds={list(wanted)}: name at least one, and each once.")
    setting = SettingPlan(name, recipe.model.title, recipe.tuning.method, recipe)
    return _planned((setting,), wanted)


def plan_comparison(
    data: Mapping[str, Any],
    models: Sequence[str],
    methods: Sequence[str],
    seeds: Sequence[int],
    changes: Mapping[str, Mapping[str, Any]] | None = None,
    for_methods: Mapping[str, Mapping[str, Any]] | None = None,
) -> StudyPlan:
    """Plan each model with each method. `data` is a recipe's [data] table; `changes` are tables of a recipe that
    replace the defaults of every method that uses them, and `for_methods` those that replace one method's, by its name.
    """
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
    unused: dict[str, dict[str, str]] = {}
    shared = {key for tuning in tunings.values() for key in tuning.Table.model_fields}
    for model in models:
        for method in methods:
            of_method = (for_methods or {}).get(method, {})
            content, unused[method] = _content(model, tunings[method], method, data, changes or {}, of_method, shared)
            recipe = make_recipe(content, "compare")
            settings.append(SettingPlan(_setting_name(model, method), model, method, recipe))
    for key, why in unused[methods[0]].items():
        if all(key in of_method for of_method in unused.values()):
            raise RequestError(f"--set {key}: means nothing {why}; leave it out.")
    if len({s.name for s in settings}) != len(settings):
        raise RequestError("--models: two of them have the same last name; copy or rename one of the directories.")
    return _planned(tuple(settings), tuple(seeds))


def _planned(settings: tuple[SettingPlan, ...], seeds: tuple[int, ...]) -> StudyPlan:
    """Return what the kind of study makes of these settings, which share one [study] or have none."""
    study = settings[0].recipe.study
    kind: StudyKind = plugins.find("study", "compare")() if study is None else plugins.find("study", study.kind)(study)
    bases = tuple(replace(s, recipe=s.recipe.model_copy(update={"study": None})) for s in settings)
    plan = kind.settings(bases, seeds)
    said = None if study is None else study.model_dump(mode="json", exclude_unset=True, exclude={"kind"})
    return replace(plan, search=said)


def _setting_name(model: str, method: str) -> str:
    """Return a name from the last part of a model's path; for a model of a run, from the name of the run."""
    path = Path(model.replace("-seed{seed}", "").replace("{seed}", ""))
    parts = path.parts
    if len(parts) > 2 and parts[-2] == "marks":
        called = f"{parts[-3]}-{parts[-1].lstrip('0') or parts[-1]}"
    elif len(parts) > 1 and parts[-1] in ("model", "best"):
        called = parts[-2]
    else:
        called = path.name
    return re.sub(r"[^\w.-]+", "-", f"{called}-{method}").strip("-.") or method


def _content(
    model: str,
    tuning: Any,
    method: str,
    data: Mapping[str, Any],
    changes: Mapping[str, Any],
    of_method: Mapping[str, Any],
    shared: set[str],
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the recipe of a model and a method, and which of the changes for all mean nothing with it, and why; those
    `of_method` must mean something. `shared`: the keys that any method's [tuning] has."""
    for table, values in (*changes.items(), *of_method.items()):
        if not isinstance(values, dict):
            raise RequestError(f"--set {table}: set a key of a table, such as training.lr=1e-4.")
    own = CATALOG[model].compared_with.get(method, {}) if model in CATALOG else {}
    defaults = _defaults(_merged(tuning.COMPARE_DEFAULTS, own), _merged(changes, of_method))
    content = {"model": {"name": model}, "data": dict(data), "tuning": {"method": method}}
    content = _merged(_merged(content, defaults), changes)
    others = shared - tuning.Table.model_fields.keys()
    content["tuning"] = {key: value for key, value in content["tuning"].items() if key not in others}
    unused = unused_keys(draft_recipe(content, "compare"))
    for key in unused:
        table, _, name = key.partition(".")
        content.get(table, {}).pop(name, None)
    return _merged(content, of_method), {key: why for key, why in unused.items() if _is_set(changes, key)}


def _is_set(changes: Mapping[str, Any], key: str) -> bool:
    table, _, name = key.partition(".")
    return name in (changes.get(table) or {})


def _merged(changes: Mapping[str, Any], further: Mapping[str, Any]) -> dict[str, Any]:
    """Return tables with the keys of both; the further ones win."""
    tables = {table: dict(values) for table, values in changes.items()}
    for table, values in further.items():
        tables[table] = {**tables.get(table, {}), **values}
    return tables


def _defaults(compared: Mapping[str, Mapping[str, Any]], changes: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the defaults of a method, given the changes; steps or tokens replace epochs."""
    tables = {table: dict(values) for table, values in compared.items()}
    study = changes.get("study")
    for training in (changes.get("training"), study.get("training") if isinstance(study, Mapping) else None):
        if isinstance(training, Mapping) and training.keys() & {"steps", "tokens"}:
            tables.get("training", {}).pop("epochs", None)
    return tables


def with_baselines(plan: StudyPlan, of_pairs: Collection[str]) -> StudyPlan:
    """Add a setting of each tuning that is a baseline, where baselines are wanted and the settings are tested.
    `of_pairs` are the keys of the data whose texts come in pairs."""
    if plan.later_seeds:
        return plan
    return replace(plan, settings=(*plan.settings, *_baselines_of(plan.settings, of_pairs)))


def _baselines_of(settings: Sequence[SettingPlan], of_pairs: Collection[str]) -> tuple[SettingPlan, ...]:
    """Return the baselines of these settings, each kind once, on the most rows. They differ where the settings differ
    in what a baseline reads, such as the pooling, and are then named after it."""
    asked = {(_model_and_data(s.recipe), s.method) for s in settings}
    kinds: dict[str, tuple[SettingPlan, str, Recipe, str]] = {}
    poolings: dict[tuple[str, str], set[str]] = {}
    for setting in settings:
        source = _model_and_data(setting.recipe)
        wanted = setting.recipe.evaluation.baselines
        for method, recipe in _baseline_recipes(setting.recipe, data_key(setting.recipe) in of_pairs) if wanted else ():
            if (source, method) not in asked:
                pooling = body_table(recipe).pooling or plugins.find("tuning", method).HEAD_INPUT.reads
                content = recipe.identity()
                content["model"].pop("pooling", None)
                rows = {key: value for key, value in content.pop("data").items() if key not in ("limit", "fraction")}
                kinds[json.dumps([method, pooling, rows, content])] = (setting, method, recipe, pooling)
                poolings.setdefault((source, method), set()).add(pooling)
    added: list[SettingPlan] = []
    for setting, method, recipe, pooling in kinds.values():
        model = setting.recipe.model.name or setting.model
        several = len(poolings[_model_and_data(setting.recipe), method]) > 1
        parts = [_setting_name(model, method), *_swept_values(setting, recipe, [pooling] if several else [])]
        name = re.sub(r"[^\w.-]+", "-", "-".join(parts))
        taken = {s.name for s in (*settings, *added)}
        name = next(n for n in (name, *(f"{name}-{i}" for i in range(2, 10_000))) if n not in taken)
        added.append(SettingPlan(name, model, method, recipe, baseline=True))
    return tuple(added)


def _swept_values(setting: SettingPlan, baseline: Recipe, default: Sequence[str]) -> list[str]:
    """Return the values of a search that its baseline has too, except the model and the rows; `default` if the search
    has no pooling."""
    content, values = baseline.identity(), dict(setting.values)
    shared = []
    for key, value in values.items():
        table, _, name = key.partition(".")
        if key not in ("model.name", "data.limit", "data.fraction") and content.get(table, {}).get(name) == value:
            shared.append(str(value))
    return shared if "model.pooling" in values else [*shared, *default]


def _model_and_data(recipe: Recipe) -> str:
    return json.dumps([recipe.model.name, recipe.model.revision, data_key(recipe)])


def _baseline_recipes(recipe: Recipe, has_pairs: bool) -> Iterator[tuple[str, Recipe]]:
    """Yield the name and the recipe of each tuning that is a baseline for this recipe; it is tested."""
    evaluation = {**recipe.identity().get("evaluation", {}), "test": True}
    for method in plugins.names("tuning"):
        try:
            tuning = plugins.find("tuning", method)
        except RequestError:  # a package that nobody has asked for
            continue
        tables = tuning.as_baseline(recipe, has_pairs)
        if tables is not None:
            content = {**tables, "tuning": {"method": method, **tables.get("tuning", {})}, "evaluation": evaluation}
            yield method, make_recipe(content, f"{method} as a baseline")
