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
from heedful.streams import shuffled, uniform
from heedful.studies.parts import SettingPlan, StudyPlan
from heedful.studies.tpe import Axes, Trial, propose

_TABLES = ("model", "data", "objective", "tuning", "training")
_MOST = 1000  # settings of a study


def searched(settings: tuple[SettingPlan, ...], seeds: tuple[int, ...], study: StudyTable | None) -> StudyPlan:
    """Each setting with everything that [study] says to try of it; without that, as it is."""
    bases = tuple(replace(s, recipe=s.recipe.model_copy(update={"study": None})) for s in settings)
    if study is None:
        return StudyPlan(bases, seeds)
    axes, rows = _axes(study), _rows(study)
    _refuse_idle_keys(study, axes)
    for key, values in axes.items():  # a setting of a late round must not turn out to be impossible
        for end in (values.low, values.high) if isinstance(values, Range) else ():
            make_recipe(_with(bases[0].recipe, {key: end}), f"an end of study.{key}")
    plan = StudyPlan(bases, seeds, study.final_seeds if study.test == "chosen" else 0, search=_said(study))
    if study.curve:
        return replace(plan, settings=tuple(s for b in bases for s in _curve(b, study.curve)), final_seeds=0)
    if study.search == "tpe":

        def rounds(tried: Mapping[str, Sequence[Trial]]) -> tuple[SettingPlan, ...]:
            return tuple(s for base in bases for s in _round(base, axes, tried.get(base.name, ()), study))

        # at one epoch, a short schedule is further than a long one: they cannot be held against each other
        prune = "training.epochs" not in axes if study.prune is None else study.prune
        return replace(plan, settings=rounds({}), rounds=rounds, prune=prune)
    tried = rows or (_drawn(axes, study) if study.search == "random" else _grid(axes))
    return replace(plan, settings=tuple(s for b in bases for s in _numbered(b, tried, study, 0, len(tried))))


def _said(study: StudyTable) -> dict[str, Any]:
    content: dict[str, Any] = study.model_dump(mode="json", exclude_unset=True)
    return content


def _refuse_idle_keys(study: StudyTable, axes: Axes) -> None:
    """What would be read and not heeded is a mistake."""
    kinds = [kind for kind, there in (("axes", axes), ("rows", study.rows), ("a curve", study.curve)) if there]
    if len(kinds) != 1:
        raise RequestError(f"[study] needs one of axes, rows and a curve; it has {' and '.join(kinds) or 'none'}.")
    heeded = {"a curve": {"curve"}, "rows": {"rows", "test", "final_seeds"}}.get(kinds[0])
    if heeded is None:
        heeded = {*_TABLES, "search", "test", "final_seeds"}
        heeded |= {"trials", "draw_seed"} if study.search != "grid" else set()
        heeded |= {"round", "prune"} if study.search == "tpe" else set()
    idle = sorted(study.model_fields_set - heeded)
    if idle:
        with_what = kinds[0] if kinds[0] != "axes" else f'search = "{study.search}"'
        raise RequestError(f"study.{idle[0]} means nothing with {with_what}; leave it out.")
    if study.prune and "training.epochs" in axes:
        raise RequestError("study.prune compares runs epoch by epoch; do not search over training.epochs with it.")


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
    """The setting on each share or number of the training rows, which are drawn anew for each seed."""
    if base.recipe.data.limit is not None or base.recipe.data.fraction is not None:
        raise RequestError("study.curve says how many rows are trained on; leave data.limit and data.fraction out.")
    shares = all(size <= 1 for size in sizes)
    if list(sizes) != sorted(set(sizes)) or sizes[0] <= 0 or len(sizes) < 2 or (not shares and sizes[0] <= 1):
        raise RequestError(f"study.curve = {list(sizes)} is neither rising shares up to 1 nor rising numbers of rows.")
    found = []
    for size in sizes:
        values: dict[str, Any] = {"data.fraction": float(size)} if shares else {"data.limit": size}
        recipe = make_recipe(_with(base.recipe, {**values, "data.redraw": True}), "study.curve")
        name = f"{base.name}-{size}"
        found.append(replace(base, name=name, recipe=recipe, values=tuple(values.items()), group=base.name))
    return found


def _with(recipe: Recipe, values: Mapping[str, Any]) -> dict[str, Any]:
    """The recipe's tables with these values in them."""
    content = recipe.model_dump(exclude={"seeds", "study"})
    for key, value in values.items():
        table, _, name = key.partition(".")
        content[table] = {**(content.get(table) or {}), name: value}
    return content


def _axes(study: StudyTable) -> Axes:
    axes = {f"{table}.{key}": values for table in _TABLES for key, values in getattr(study, table).items()}
    for key, values in axes.items():
        if not values:
            raise RequestError(f"study.{key} has no values; name at least one.")
    return axes


def _rows(study: StudyTable) -> list[dict[str, Any]]:
    found = []
    for row in study.rows:
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
    wanted = min(study.trials or 0, _MOST)
    lists = [values for values in axes.values() if isinstance(values, list)]
    if len(lists) == len(axes):
        count, sizes = math.prod(map(len, lists)), [len(values) for values in lists]
        chosen = sorted(shuffled(count, study.draw_seed)[:wanted].tolist())
        places = [np.unravel_index(number, sizes) for number in chosen]
        return [{k: v[int(i)] for k, v, i in zip(axes, lists, at, strict=True)} for at in places]
    found: dict[str, dict[str, Any]] = {}
    for attempt in range(20 * wanted):
        if len(found) < wanted:
            values = {key: _draw(held, uniform(study.draw_seed, attempt, key)) for key, held in axes.items()}
            found.setdefault(json.dumps(values), values)
    return list(found.values())


def _draw(values: list[Any] | Range, share: float) -> Any:
    """The value at this share of the way, from 0 up to 1."""
    if isinstance(values, list):
        return values[int(share * len(values))]
    whole = isinstance(values.low, int) and isinstance(values.high, int)
    low, high = (values.low, values.high + 1) if whole else (values.low, values.high)
    if values.log:
        drawn = math.exp(math.log(low) + share * (math.log(high) - math.log(low)))
    else:
        drawn = low + share * (high - low)
    return min(int(drawn), int(values.high)) if whole else float(f"{drawn:.4g}")
