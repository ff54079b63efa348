"""The learning curves of a study: the score of each setting against the number of rows that it was trained on."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from heedful.evaluation.metrics import Metric
from heedful.evaluation.statistics.curve import learning_curve
from heedful.storage.run_record import Scores
from heedful.storage.runs import Run, finished_run
from heedful.storage.study_record import StudyRecord
from heedful.studies.parts import SettingPlan
from heedful.studies.values import NotComparableError, aligned, values_of

Floats = npt.NDArray[np.float64]
_SIZES = {"data.fraction", "data.limit"}


def learning_curves(directory: Path, study: StudyRecord, judged: str, metric: Metric) -> list[dict[str, Any]]:
    """Of each group of settings that differ in their number of training rows alone: its points on the judged set, those
    of the baseline that is tested, on the same rows, and the fitted curve if there are three sizes or more."""
    groups: dict[str, list[str]] = {}
    for setting in study.settings:
        if setting.values and set(setting.values) <= _SIZES:
            groups.setdefault(str(setting.group), []).append(setting.name)
    curves = []
    for group, names in groups.items():
        runs = _runs(directory, study, names, judged, metric)
        points = [_point(rows, _known([run.scores(judged) for run in of], metric)) for rows, of in runs.items()]
        if len(points) > 1:
            curve: dict[str, Any] = {"group": group, **metric.stated(), "points": points}
            curve["metric"] = curve.pop("name")
            curve["baseline"] = _baseline(runs, judged, metric)
            curves.append({**curve, "fit": _fit(runs, judged, metric)})
    return curves


def largest_sizes(settings: Iterable[SettingPlan]) -> list[SettingPlan]:
    """Of each learning curve the setting with the most rows, and those that are on none."""
    by_group: dict[str, SettingPlan] = {}
    for setting in settings:
        key = setting.group if _size(setting) else setting.name
        if key not in by_group or _size(setting) > _size(by_group[key]):
            by_group[key] = setting
    return list(by_group.values())


def _size(setting: SettingPlan) -> float:
    return float(next((value for key, value in setting.values if key in _SIZES), 0))


def _runs(
    directory: Path, study: StudyRecord, names: Sequence[str], judged: str, metric: Metric
) -> dict[int, list[Run]]:
    """The runs with a score, by their number of training rows; of a seed that was run twice on as many, the last."""
    by_rows: dict[int, dict[int, Run]] = {}
    for entry in study.runs:
        run = finished_run(directory / "runs" / entry.name) if entry.setting in names else None
        if run is not None and run.scores(judged).number(metric.name) is not None:
            by_rows.setdefault(int(run.manifest.data.sizes["train"]), {})[entry.seed or 0] = run
    return {rows: list(by_seed.values()) for rows, by_seed in sorted(by_rows.items())}


def _baseline(runs: Mapping[int, Sequence[Run]], judged: str, metric: Metric) -> dict[str, Any] | None:
    """Its name and points; of several that are tested the first, None if there is none."""
    known = [run.metrics.baselines for of_size in runs.values() for run in of_size]
    name = next((name for baselines in known for name, one in baselines.items() if one.tested), None)
    if name is None:
        return None
    points = []
    for rows, of_size in runs.items():
        scores = _known([run.baseline(name).scores(judged) for run in of_size], metric)
        points += [_point(rows, scores)] if scores else []
    return {"name": name, "points": points}


def _known(scores: Sequence[Scores], metric: Metric) -> list[float]:
    return [value for one in scores if (value := one.number(metric.name)) is not None]


def _point(rows: int, scores: Sequence[float]) -> dict[str, Any]:
    return {"rows": rows, "scores": list(scores)}


def _fit(runs: Mapping[int, Sequence[Run]], judged: str, metric: Metric) -> dict[str, Any] | None:
    """Of the error: what is missing to 1, or the score itself where lower is better."""
    if len(runs) < 3:
        return None
    scores = {n: np.array([_known([r.scores(judged) for r in of], metric)]).T for n, of in runs.items()}
    errors = {n: 1 - s if metric.higher_is_better else s for n, s in scores.items()}
    if min(of_size.min() for of_size in errors.values()) < 0:  # a score whose best is not 1
        return None
    values = _values(runs, judged, metric)
    if values is not None:
        errors = {n: 1 - v if metric.higher_is_better else v for n, v in values.items()}
    measure = metric.title if not metric.higher_is_better else f"distance of {metric.title} from 1"
    return asdict(learning_curve(errors, measure="error" if metric.name == "accuracy" else measure))


def _values(runs: Mapping[int, Sequence[Run]], judged: str, metric: Metric) -> dict[int, Floats] | None:
    """By number of rows (s, e), in the order of the first run's examples; None where runs have no value for each."""
    if metric.statistics is None:
        return None
    try:
        first, _ = values_of(next(iter(runs.values()))[0], judged, metric)
        gathered = {n: [values_of(run, judged, metric) for run in of] for n, of in runs.items()}
        return {n: np.stack([aligned(*one, first, judged, "the first") for one in of]) for n, of in gathered.items()}
    except NotComparableError:
        return None
