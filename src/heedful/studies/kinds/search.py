"""A recipe's [study]: all combinations of axes, some of them at random, rounds of them that learn (TPE), or rows.

The best on dev of each model and method is run again with fresh seeds, and only then tested.
"""

import itertools
import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from heedful.errors import RequestError
from heedful.evaluation.metrics import Metric
from heedful.recipes.reading import make_recipe, unused_keys
from heedful.recipes.schema import Range, StudyTable
from heedful.storage.study_record import StudyRecord
from heedful.streams import shuffled, uniform
from heedful.studies.curves import learning_curves
from heedful.studies.kinds.protocol import SoFar, StudyKind
from heedful.studies.parts import DevCurve, Job, SettingPlan, StudyPlan, choose, direction, tables_with
from heedful.studies.tpe import Axes, Trial, propose, thresholds

if TYPE_CHECKING:
    from heedful.report.page.pieces import Section
    from heedful.storage.runs import Study

_TABLES = ("model", "data", "objective", "tuning", "training")
_LENGTHS = {"training.epochs", "training.steps", "training.tokens", "training.mark_steps", "training.mark_tokens"}
_MOST_SETTINGS = 1000  # in one study

Axis = dict[str, list[Any] | Range]


class SearchTable(StudyTable):
    """The axes of a search: under the name of a table, the values of its keys, such as training.lr = [1e-4, 1e-3]. With
    "random" and "tpe" also a range: training.lr = {low = 1e-5, high = 1e-2, log = true}."""

    kind: Literal["search"] = "search"
    """The best of several settings, each model and method by itself."""
    model: Axis = Field({})
    """Values of keys of [model]."""
    data: Axis = Field({})
    """Values of keys of [data]."""
    objective: Axis = Field({})
    """Values of keys of [objective]."""
    tuning: Axis = Field({})
    """Values of keys of [tuning]."""
    training: Axis = Field({})
    """Values of keys of [training]."""
    rows: list[dict[str, Any]] = Field([])
    """Or the settings one by one, each with its keys: {training = {lr = 1e-3}, model = {dropout = 0.3}}."""
    search: Literal["grid", "random", "tpe"] = "grid"
    """Which settings are tried: all combinations of the axes ("grid"), random ones, or those that "tpe" proposes from
    the scores of earlier ones (Optuna, heedful[sweep])."""
    trials: int | None = Field(None, ge=1)
    """Number of settings that "random" and "tpe" try, each once."""
    round: int = Field(4, ge=1)
    """Number of settings in a round of "tpe". It learns from a round when all of it has run."""
    prune: bool | None = None
    """Whether a run is stopped when its score on dev is below the median of earlier rounds at the same evaluation step.
    Default: with "tpe"."""
    draw_seed: int = 0
    """Random seed of "random" and "tpe"."""
    test: Literal["chosen", "all"] = "chosen"
    """Which settings are tested: only the one chosen on dev, run again with seeds that took no part in the search, so
    that the search does not flatter its score; or all of them."""
    final_seeds: int = Field(3, ge=1)
    """Number of fresh seeds with which the chosen setting is run."""

    def check(self) -> None:
        if self.search != "grid" and self.trials is None:
            raise RequestError(f'study.search = "{self.search}" needs study.trials, how many settings to try.')
        for key, values in self.axes().items():
            if isinstance(values, Range) and self.search == "grid":
                raise RequestError(
                    f'study.{key} is a range, so settings must be drawn: set study.search = "random" '
                    'or "tpe", and study.trials.'
                )
            if isinstance(values, Range) and (values.low >= values.high or (values.log and values.low <= 0)):
                raise RequestError(f"study.{key}: low must be below high, and above 0 with log.")

    def axes(self) -> dict[str, list[Any] | Range]:
        """Return what varies, by key ("training.lr")."""
        return {f"{table}.{key}": values for table in _TABLES for key, values in getattr(self, table).items()}


class Search(StudyKind):
    name = "search"
    Table = SearchTable

    def __init__(self, table: SearchTable) -> None:
        self.table = table
        self.final_seeds = table.final_seeds if table.test == "chosen" else 0
        self.bases: tuple[SettingPlan, ...] = ()
        # at one mark, a short schedule is further than a long one: they cannot be compared
        by_itself = table.search == "tpe" and not _LENGTHS & table.axes().keys()
        self.prune = by_itself if table.prune is None else table.prune

    def settings(self, bases: tuple[SettingPlan, ...], seeds: tuple[int, ...]) -> StudyPlan:
        table, axes, rows = self.table, _axes(self.table), _rows(self.table)
        _refuse_unused_keys(table, axes)
        self.bases = bases
        unused = {base.name: self._unused(base) for base in bases}
        for key in (*axes, *(key for row in rows for key in row)):
            if all(key in keys for keys in unused.values()):
                raise RequestError(f"study.{key} means nothing {unused[bases[0].name][key]}; leave it out.")
        for key, values in axes.items():  # a setting of a late round must not turn out to be impossible
            base = next(b for b in bases if key not in unused[b.name])
            for end in (values.low, values.high) if isinstance(values, Range) else ():
                make_recipe(tables_with(base.recipe, {key: end}), f"an end of study.{key}")
        tried = self._round({}) if table.search == "tpe" else self._all(axes, rows)
        return StudyPlan(tuple(tried), seeds, self, later_seeds=_fresh_seeds(seeds, self.final_seeds))

    def after(self, so_far: SoFar) -> StudyPlan | None:
        """Return the next round, or the chosen settings with fresh seeds and their test. Runs of a choice bear its
        name: should another sitting choose otherwise, because a run that had failed is made or there are more seeds,
        they do not meet."""
        if so_far.plan.final:
            return None
        if self.table.search == "tpe":
            settings = self._round(_trials(so_far))
            if settings:
                return replace(so_far.plan, settings=tuple(settings))
        chosen = self._chosen(so_far) if self.final_seeds else []
        return StudyPlan(tuple(chosen), so_far.plan.later_seeds, self, final=True) if chosen else None

    def thresholds(self, job: Job, so_far: SoFar) -> Mapping[int, float]:
        """Return the median of the runs of its group with the same seed in earlier rounds, if they are enough."""
        if not self.prune or so_far.look > 1:
            return {}
        peers = {s.name for s in so_far.settings if s.group == job.setting.group}
        curves = [c for c in so_far.curves if c.setting in peers and c.seed == job.seed]
        return thresholds([c.scores for c in curves if not c.pruned])

    def statistics(self, directory: Path, study: StudyRecord, judged: str, metric: Metric) -> dict[str, Any]:
        """Return the learning curve, where the number of training rows is all that varies."""
        curves = learning_curves(directory, study, judged, metric)
        return {"curves": curves} if curves else {}

    @classmethod
    def sections(cls, study: "Study") -> Sequence["Section | None"]:
        from heedful.report.facts.comparison import compare
        from heedful.report.sections.more_labels import more_labels
        from heedful.report.sections.record import search

        compared = compare(study)
        return [search(compared), more_labels(compared)]

    def _all(self, axes: Axes, rows: Sequence[dict[str, Any]]) -> list[SettingPlan]:
        tried = []
        for base in self.bases:  # each with the keys that it uses
            unused = self._unused(base)
            own = _without(axes, unused)
            drawn = _draw_combinations(own, self.table) if self.table.search == "random" else _all_combinations(own)
            combinations = _different(_without(row, unused) for row in rows) if rows else drawn
            tried += self._variants(base, combinations, 0, len(combinations))
        return tried

    def _round(self, trials: Mapping[str, Sequence[Trial]]) -> list[SettingPlan]:
        """Return the next settings of each group, given what it has tried; none at the end."""
        settings, total, axes = [], self.table.trials or 0, _axes(self.table)
        for base in self.bases:
            tried, own = trials.get(base.name, ()), _without(axes, self._unused(base))
            count = min(self.table.round, total - len(tried))
            if not own:  # nothing of it varies
                settings += self._variants(base, [{}][len(tried) :], 0, 1)
                continue
            combinations = propose(own, tried, count, total, self.table.draw_seed) if count > 0 else []
            settings += self._variants(base, combinations, len(tried), total)
        return settings

    def _variants(
        self, base: SettingPlan, combinations: Sequence[dict[str, Any]], already_made: int, total: int
    ) -> list[SettingPlan]:
        untested = {"evaluation.test": False} if self.table.test == "chosen" else {}
        settings = []
        for number, values in enumerate(combinations, start=already_made + 1):
            name, place = f"{base.name}-{number:0{len(str(total))}}", f"setting {number} of the search"
            settings.append(base.variant(name, {**values, **untested}, values, place))
        return settings

    def _chosen(self, so_far: SoFar) -> list[SettingPlan]:
        """Return the best setting on dev of each group, with its test."""
        by_name, chosen = {s.name: s for s in so_far.settings}, []
        for group in dict.fromkeys(s.group for s in so_far.settings):
            best = choose([row for row in so_far.rows if by_name[row["setting"]].group == group])
            if best is not None:
                setting = by_name[best["setting"]]
                recipe = make_recipe(tables_with(setting.recipe, {"evaluation.test": True}))
                chosen.append(replace(setting, name=f"{setting.name}-final", recipe=recipe))
        return chosen

    def _unused(self, base: SettingPlan) -> dict[str, str]:
        """Return the keys that mean nothing for this setting, and why."""
        return _of_other_tunings(base, self.bases) | unused_keys(base.recipe)


def _fresh_seeds(seeds: Sequence[int], count: int) -> tuple[int, ...]:
    """Return seeds that take no part in choosing, with which the chosen settings are tested."""
    return tuple(range(max(seeds) + 1, max(seeds) + 1 + count))


def _trials(so_far: SoFar) -> dict[str, list[Trial]]:
    """Return what each group has tried, with its mean score on dev and how that came about."""
    by_name = {row["setting"]: row for row in so_far.rows}
    by_setting: dict[str, list[DevCurve]] = {}
    for curve in so_far.curves:
        by_setting.setdefault(curve.setting, []).append(curve)
    trials: dict[str, list[Trial]] = {}
    for setting in so_far.settings:
        row = by_name[setting.name]
        mean = row.get("dev_mean")
        seeds = [curve.scores for curve in by_setting.get(setting.name, [])]
        marks = sorted(set.intersection(*(set(s) for s in seeds))) if seeds else []
        means = {mark: sum(s[mark] for s in seeds) / len(seeds) for mark in marks}
        score = None if mean is None else direction(row) * float(mean)
        trials.setdefault(setting.group, []).append(Trial(dict(setting.values), score, bool(row.get("pruned")), means))
    return trials


def _of_other_tunings(base: SettingPlan, bases: Sequence[SettingPlan]) -> dict[str, str]:
    """Return the keys of [tuning] that only other methods have, and why they mean nothing here."""
    keys = {key for other in bases for key in type(other.recipe.tuning).model_fields}
    own = type(base.recipe.tuning).model_fields
    return {f"tuning.{key}": f'with tuning.method = "{base.method}"' for key in keys if key not in own}


def _without(values: Mapping[str, Any], keys: Collection[str]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in keys}


def _different(combinations: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return list({json.dumps(values): values for values in combinations}.values())


def _refuse_unused_keys(study: SearchTable, axes: Axes) -> None:
    """Refuse keys that would have no effect."""
    kinds = [kind for kind, present in (("axes", axes), ("rows", study.rows)) if present]
    if len(kinds) != 1:
        raise RequestError(f"[study] needs one of axes, rows and a curve; it has {' and '.join(kinds) or 'none'}.")
    allowed = {"kind", "rows", "test", "final_seeds"}
    if kinds[0] == "axes":
        allowed = {"kind", *_TABLES, "search", "test", "final_seeds"}
        allowed |= {"trials", "draw_seed"} if study.search != "grid" else set()
        allowed |= {"round", "prune"} if study.search == "tpe" else set()
    unused = sorted(study.model_fields_set - allowed)
    if unused:
        with_what = kinds[0] if kinds[0] != "axes" else f'search = "{study.search}"'
        raise RequestError(f"study.{unused[0]} means nothing with {with_what}; leave it out.")
    if study.prune and _LENGTHS & axes.keys():
        key = sorted(_LENGTHS & axes.keys())[0]
        raise RequestError(f"study.prune compares runs mark by mark; do not search over {key} with it.")


def _axes(study: SearchTable) -> Axes:
    axes = study.axes()
    for key, values in axes.items():
        if not values:
            raise RequestError(f"study.{key} has no values; name at least one.")
    return axes


def _rows(study: SearchTable) -> list[dict[str, Any]]:
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


def _draw_combinations(axes: Axes, study: SearchTable) -> list[dict[str, Any]]:
    """Return different random combinations; all of them if there are no more."""
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
    """Return the value at this share of the way, from 0 up to 1."""
    if isinstance(values, list):
        return values[int(share * len(values))]
    whole = isinstance(values.low, int) and isinstance(values.high, int)
    low, high = (values.low, values.high + 1) if whole else (values.low, values.high)
    if values.log:
        drawn = math.exp(math.log(low) + share * (math.log(high) - math.log(low)))
    else:
        drawn = low + share * (high - low)
    return min(int(drawn), int(values.high)) if whole else float(f"{drawn:.4g}")


STUDY = Search
