"""The settings that a search tries: all combinations, some that are drawn, rounds that learn, or a learning curve."""

import itertools
import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from heedful import plugins
from heedful.errors import RequestError
from heedful.recipes.reading import make_recipe, unused_keys
from heedful.recipes.schema import Range, Recipe, StudyTable
from heedful.streams import shuffled, uniform
from heedful.studies.parts import SettingPlan, StudyPlan
from heedful.studies.tpe import Axes, Trial, propose

_TABLES = ("model", "data", "objective", "tuning", "training")
_LENGTHS = {"training.epochs", "training.steps", "training.tokens", "training.mark_steps", "training.mark_tokens"}
_MOST_SETTINGS = 1000  # in one study
_MOST_EPOCHS = 10_000  # that a recipe may have


def plan_search(settings: tuple[SettingPlan, ...], seeds: tuple[int, ...], study: StudyTable | None) -> StudyPlan:
    """Each setting with everything that [study] says to try of it; without that, as it is."""
    bases = tuple(replace(s, recipe=s.recipe.model_copy(update={"study": None})) for s in settings)
    if study is None:
        return StudyPlan(bases, seeds)
    axes, rows = _axes(study), _rows(study)
    _refuse_unused_keys(study, axes)
    unused = {base.name: _of_other_tunings(base, bases) | unused_keys(base.recipe) for base in bases}
    for key in (*axes, *(key for row in rows for key in row)):
        if all(key in keys for keys in unused.values()):
            raise RequestError(f"study.{key} means nothing {unused[bases[0].name][key]}; leave it out.")
    for key, values in axes.items():  # a setting of a late round must not turn out to be impossible
        base = next(b for b in bases if key not in unused[b.name])
        for end in (values.low, values.high) if isinstance(values, Range) else ():
            make_recipe(_tables_with(base.recipe, {key: end}), f"an end of study.{key}")
    plan = StudyPlan(bases, seeds, study.final_seeds if study.test == "chosen" else 0, search=_keys_set_by(study))
    if study.curve:
        return replace(plan, settings=tuple(s for b in bases for s in _curve_settings(b, study.curve)), final_seeds=0)
    if study.search == "tpe":

        def rounds(trials: Mapping[str, Sequence[Trial]]) -> tuple[SettingPlan, ...]:
            return tuple(
                setting
                for base in bases
                for setting in _next_round(base, _without(axes, unused[base.name]), trials.get(base.name, ()), study)
            )

        # at one mark, a short schedule is further than a long one: they cannot be compared
        prune = not _LENGTHS & axes.keys() if study.prune is None else study.prune
        return replace(plan, settings=rounds({}), rounds=rounds, prune=prune)
    tried = []
    for base in bases:  # each with the keys that it uses
        own = _without(axes, unused[base.name])
        drawn = _draw_combinations(own, study) if study.search == "random" else _all_combinations(own)
        combinations = _different(_without(row, unused[base.name]) for row in rows) if rows else drawn
        tried += _make_settings(base, combinations, study, 0, len(combinations))
    return replace(plan, settings=tuple(tried))


def _of_other_tunings(base: SettingPlan, bases: Sequence[SettingPlan]) -> dict[str, str]:
    """Keys of [tuning] that others have and this one has not, and why they mean nothing with it."""
    keys = {key for other in bases for key in type(other.recipe.tuning).model_fields}
    own = type(base.recipe.tuning).model_fields
    return {f"tuning.{key}": f'with tuning.method = "{base.method}"' for key in keys if key not in own}


def _without(values: Mapping[str, Any], keys: Collection[str]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in keys}


def _different(combinations: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return list({json.dumps(values): values for values in combinations}.values())


def _keys_set_by(study: StudyTable) -> dict[str, Any]:
    content: dict[str, Any] = study.model_dump(mode="json", exclude_unset=True)
    return content


def _refuse_unused_keys(study: StudyTable, axes: Axes) -> None:
    """A key that would have no effect is a mistake."""
    kinds = [kind for kind, present in (("axes", axes), ("rows", study.rows), ("a curve", study.curve)) if present]
    if len(kinds) != 1:
        raise RequestError(f"[study] needs one of axes, rows and a curve; it has {' and '.join(kinds) or 'none'}.")
    allowed = {"a curve": {"curve"}, "rows": {"rows", "test", "final_seeds"}}.get(kinds[0])
    if allowed is None:
        allowed = {*_TABLES, "search", "test", "final_seeds"}
        allowed |= {"trials", "draw_seed"} if study.search != "grid" else set()
        allowed |= {"round", "prune"} if study.search == "tpe" else set()
    unused = sorted(study.model_fields_set - allowed)
    if unused:
        with_what = kinds[0] if kinds[0] != "axes" else f'search = "{study.search}"'
        raise RequestError(f"study.{unused[0]} means nothing with {with_what}; leave it out.")
    if study.prune and _LENGTHS & axes.keys():
        key = sorted(_LENGTHS & axes.keys())[0]
        raise RequestError(f"study.prune compares runs mark by mark; do not search over {key} with it.")


def _make_settings(
    base: SettingPlan, combinations: Sequence[dict[str, Any]], study: StudyTable, already_made: int, total: int
) -> list[SettingPlan]:
    plans = []
    for number, values in enumerate(combinations, start=already_made + 1):
        content = _tables_with(base.recipe, values)
        if study.test == "chosen":
            content["evaluation"] = {**content.get("evaluation", {}), "test": False}
        recipe = make_recipe(content, f"setting {number} of the search")
        name = f"{base.name}-{number:0{len(str(total))}}"
        plans.append(_tried(base, name, recipe, values))
    return plans


def _tried(base: SettingPlan, name: str, recipe: Recipe, values: Mapping[str, Any]) -> SettingPlan:
    """A setting of a search; model and method are its own, since they may be among the values."""
    model, method = recipe.model.title, recipe.tuning.method
    return replace(
        base, name=name, model=model, method=method, recipe=recipe, values=tuple(values.items()), group=base.name
    )


def _next_round(base: SettingPlan, axes: Axes, trials: Sequence[Trial], study: StudyTable) -> list[SettingPlan]:
    total = study.trials or 0
    count = min(study.round, total - len(trials))
    if not axes:  # nothing of it varies
        return _make_settings(base, [{}][len(trials) :], study, 0, 1)
    combinations = propose(axes, trials, count, total, study.draw_seed) if count > 0 else []
    return _make_settings(base, combinations, study, len(trials), total)


def _curve_settings(base: SettingPlan, sizes: Sequence[float]) -> list[SettingPlan]:
    """The setting on each share or number of the training rows; each seed draws its own. Fewer rows are read more
    often, so that what more rows bring is not what more steps bring."""
    if base.recipe.data.limit is not None or base.recipe.data.fraction is not None:
        raise RequestError("study.curve says how many rows are trained on; leave data.limit and data.fraction out.")
    shares = all(size <= 1 for size in sizes)
    if list(sizes) != sorted(set(sizes)) or sizes[0] <= 0 or len(sizes) < 2 or (not shares and sizes[0] <= 1):
        raise RequestError(f"study.curve = {list(sizes)} is neither rising shares up to 1 nor rising numbers of rows.")
    plans = []
    for size in sizes:
        values: dict[str, Any] = {"data.fraction": float(size)} if shares else {"data.limit": size}
        changes = {**values, "data.redraw": True, **_as_many_steps(base.recipe, sizes[-1] / size)}
        recipe = make_recipe(_tables_with(base.recipe, changes), "study.curve")
        name = f"{base.name}-{size}"
        plans.append(_tried(base, name, recipe, values))
    return plans


def _as_many_steps(recipe: Recipe, times: float) -> dict[str, Any]:
    """The length of a training on so many times fewer rows, counted in epochs; nothing if the recipe counts steps or
    tokens, or the head is solved and not trained."""
    training = recipe.training
    counted = training.steps is not None or training.tokens is not None
    if times == 1 or counted or plugins.find("tuning", recipe.tuning.method).solves(recipe):
        return {}
    changes = {"training.epochs": min(_MOST_EPOCHS, round(times * training.epochs))}
    if training.patience is not None and training.mark_steps is None and training.mark_tokens is None:
        changes["training.patience"] = round(times * training.patience)
    return changes


def _tables_with(recipe: Recipe, values: Mapping[str, Any]) -> dict[str, Any]:
    """The recipe's tables with these values in them."""
    content = recipe.identity()
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
    combinations = []
    for row in study.rows:
        for table, values in row.items():
            if table not in _TABLES or not isinstance(values, dict):
                raise RequestError(f"study.rows: {table} is not a table that can vary; these are {', '.join(_TABLES)}.")
        combinations.append({f"{table}.{key}": value for table, values in row.items() for key, value in values.items()})
    return combinations


def _all_combinations(axes: Axes) -> list[dict[str, Any]]:
    lists = [values for values in axes.values() if isinstance(values, list)]  # ranges were refused
    count = math.prod(len(values) for values in lists)
    if count > _MOST_SETTINGS:
        raise RequestError(f'[study] makes {count} settings; try fewer values, or study.search = "random".')
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*lists)]


def _draw_combinations(axes: Axes, study: StudyTable) -> list[dict[str, Any]]:
    """Different combinations at random; all of them if there are no more."""
    wanted = min(study.trials or 0, _MOST_SETTINGS)
    lists = [values for values in axes.values() if isinstance(values, list)]
    if len(lists) == len(axes):
        count, sizes = math.prod(map(len, lists)), [len(values) for values in lists]
        chosen = sorted(shuffled(count, study.draw_seed)[:wanted].tolist())
        places = [np.unravel_index(number, sizes) for number in chosen]
        return [{k: v[int(i)] for k, v, i in zip(axes, lists, at, strict=True)} for at in places]
    combinations: dict[str, dict[str, Any]] = {}
    for attempt in range(20 * wanted):
        if len(combinations) < wanted:
            values = {key: _value_at(axis, uniform(study.draw_seed, attempt, key)) for key, axis in axes.items()}
            combinations.setdefault(json.dumps(values), values)
    return list(combinations.values())


def _value_at(values: list[Any] | Range, share: float) -> Any:
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
