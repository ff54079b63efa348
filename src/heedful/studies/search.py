"""The settings that a search tries: all combinations, some that are drawn, rounds that learn, or a learning curve."""

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from heedful.errors import RequestError
from heedful.recipes.reading import make_recipe
from heedful.recipes.schema import Range, Recipe, StudyTable
from heedful.studies.parts import SettingPlan, StudyPlan
from heedful.studies.tpe import Axes, Trial, propose

_TABLES = ("model", "data", "objective", "tuning", "training")
_MOST = 1000  # settings of a study


def searched(settings: tuple[SettingPlan, ...], seeds: tuple[int, ...], study: StudyTable | None) -> StudyPlan:
    """Each setting with everything that [study] says to try of it; without that, as it is."""
    bases = tuple(replace(s, recipe=s.recipe.model_copy(update={"study": None})) for s in settings)
    axes, rows = _axes(study), _rows(study)
    if study is None or not (axes or rows or study.curve):
        return StudyPlan(bases, seeds)
    if bool(axes) + bool(rows) + bool(study.curve) > 1:
        raise RequestError("[study] has more than one of axes, rows and a curve; keep one of them.")
    if study.curve:
        return StudyPlan(tuple(s for base in bases for s in _curve(base, study.curve)), seeds)
    final = study.final_seeds if study.test == "chosen" else 0
    if study.search == "tpe":

        def rounds(tried: Mapping[str, Sequence[Trial]]) -> tuple[SettingPlan, ...]:
            return tuple(s for base in bases for s in _round(base, axes, tried.get(base.name, ()), study))

        return StudyPlan(rounds({}), seeds, final, rounds, study.prune is not False)
    tried = rows or (_drawn(axes, study) if study.search == "random" else _grid(axes))
    found = [setting for base in bases for setting in _numbered(base, tried, study, 0, len(tried))]
    return StudyPlan(tuple(found), seeds, final)


def _numbered(
    base: SettingPlan, tried: Sequence[dict[str, Any]], study: StudyTable, before: int, in_all: int
) -> list[SettingPlan]:
    found = []
    for number, values in enumerate(tried, start=before + 1):
        content = _with(base.recipe, values)
        if study.test == "chosen":
            content["evaluation"] |= {"test": False}
        recipe = make_recipe(content, f"setting {number} of the search")
        name = f"{base.name}-{number:0{len(str(in_all))}}"
        found.append(replace(base, name=name, recipe=recipe, values=tuple(values.items()), group=base.name))
    return found


def _round(base: SettingPlan, axes: Axes, tried: Sequence[Trial], study: StudyTable) -> list[SettingPlan]:
    trials = study.trials or 0
    count = min(study.round, trials - len(tried))
    values = propose(axes, tried, count, trials, study.draw_seed) if count > 0 else []
    return _numbered(base, values, study, len(tried), trials)


def _curve(base: SettingPlan, sizes: Sequence[float]) -> list[SettingPlan]:
    """The setting on each share or number of the training rows."""
    if list(sizes) != sorted(set(sizes)) or sizes[0] <= 0 or len(sizes) < 2:
        raise RequestError(f"study.curve = {list(sizes)} is not two or more shares or numbers of rows that rise.")
    found = []
    for size in sizes:
        values: dict[str, Any] = {"data.fraction": float(size)} if size <= 1 else {"data.limit": size}
        recipe = make_recipe(_with(base.recipe, values), "study.curve")
        name = f"{base.name}-{size:g}"
        found.append(replace(base, name=name, recipe=recipe, values=tuple(values.items()), group=base.name))
    return found


def _with(recipe: Recipe, values: Mapping[str, Any]) -> dict[str, Any]:
    """The recipe's tables with these values in them."""
    content = recipe.model_dump(exclude={"seeds", "study"})
    for key, value in values.items():
        table, _, name = key.partition(".")
        content[table] = {**(content.get(table) or {}), name: value}
    return content


def _axes(study: StudyTable | None) -> Axes:
    if study is None:
        return {}
    axes = {f"{table}.{key}": values for table in _TABLES for key, values in getattr(study, table).items()}
    for key, values in axes.items():
        if not values:
            raise RequestError(f"study.{key} has no values; name at least one.")
    return axes


def _rows(study: StudyTable | None) -> list[dict[str, Any]]:
    found = []
    for row in study.rows if study is not None else []:
        for table, held in row.items():
            if table not in _TABLES or not isinstance(held, dict):
                raise RequestError(f"study.rows: {table} is not a table that can vary; these are {', '.join(_TABLES)}.")
        found.append({f"{table}.{key}": value for table, held in row.items() for key, value in held.items()})
    return found


def _grid(axes: Axes) -> list[dict[str, Any]]:
    lists = [values for values in axes.values() if isinstance(values, list)]  # ranges were refused
    count = math.prod(len(values) for values in lists)
    if count > _MOST:
        raise RequestError(f'[study] makes {count} settings; try fewer values, or study.search = "random".')
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*lists)]


def _drawn(axes: Axes, study: StudyTable) -> list[dict[str, Any]]:
    """Different combinations at random; all of them if there are no more."""
    generator, wanted = np.random.default_rng(study.draw_seed), min(study.trials or 0, _MOST)
    lists = [values for values in axes.values() if isinstance(values, list)]
    if len(lists) == len(axes):
        count, sizes = math.prod(map(len, lists)), [len(values) for values in lists]
        chosen = sorted(generator.permutation(count)[:wanted].tolist())
        places = [np.unravel_index(number, sizes) for number in chosen]
        return [{k: v[int(i)] for k, v, i in zip(axes, lists, at, strict=True)} for at in places]
    found: dict[str, dict[str, Any]] = {}
    for _ in range(20 * wanted):
        if len(found) < wanted:
            values = {key: _draw(held, generator) for key, held in axes.items()}
            found.setdefault(json.dumps(values), values)
    return list(found.values())


def _draw(values: list[Any] | Range, generator: np.random.Generator) -> Any:
    if isinstance(values, list):
        return values[int(generator.integers(len(values)))]
    whole = isinstance(values.low, int) and isinstance(values.high, int)
    low, high = (values.low, values.high + 1) if whole else (values.low, values.high)
    if values.log:
        drawn = math.exp(generator.uniform(math.log(low), math.log(high)))
    else:
        drawn = float(generator.uniform(low, high))
    return min(int(drawn), int(values.high)) if whole else float(f"{drawn:.4g}")
