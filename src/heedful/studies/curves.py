"""The learning curves of a study: the score of each setting against the number of rows that it was trained on."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from heedful.evaluation.metrics import Metric
from heedful.evaluation.statistics.curve import learning_curve
from heedful.storage.reading import mapping
from heedful.storage.runs import finished_run

_SIZES = {"data.fraction", "data.limit"}


def learning_curves(study: Path, facts: Mapping[str, Any], judged: str, metric: Metric) -> list[dict[str, Any]]:
    """Of each group of settings that differ in their number of training rows alone: its points on the judged set, those
    of TF-IDF on the same rows, and the fitted curve if there are three sizes or more."""
    groups: dict[str, list[str]] = {}
    for setting in facts["settings"]:
        if setting.get("values") and set(setting["values"]) <= _SIZES:
            groups.setdefault(setting["group"], []).append(setting["name"])
    curves = []
    for group, names in groups.items():
        points, tfidf = _points(study, facts["runs"], names, judged, metric)
        if len(points) > 1:
            curve: dict[str, Any] = {"group": group, **metric.stated(), "points": points, "tfidf": tfidf}
            curve["metric"] = curve.pop("name")
            curves.append({**curve, "fit": _fit(points, metric)})
    return curves


def _points(
    study: Path, runs: Sequence[Mapping[str, Any]], names: Sequence[str], judged: str, metric: Metric
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """By number of rows, the scores of each seed: ours, and those of TF-IDF on the same rows."""
    ours: dict[int, dict[int, float]] = {}
    theirs: dict[int, dict[int, float]] = {}
    for entry in runs:
        run = finished_run(study / "runs" / entry["name"]) if entry["setting"] in names else None
        if run is None:
            continue
        rows = run.manifest["data"]["sizes"]["train"]
        for by_rows, scores in ((ours, run.scores()), (theirs, run.baselines().get("tfidf", {}))):
            score = mapping(scores, judged).get(metric.name)
            if score is not None:
                by_rows.setdefault(rows, {})[entry["seed"]] = score
    return _listed(ours), _listed(theirs)


def _listed(by_rows: Mapping[int, Mapping[int, float]]) -> list[dict[str, Any]]:
    return [{"rows": rows, "scores": list(by_seed.values())} for rows, by_seed in sorted(by_rows.items())]


def _fit(points: Sequence[Mapping[str, Any]], metric: Metric) -> dict[str, Any] | None:
    """Of the error: what is missing to 1, or the score itself where lower is better."""
    if len(points) < 3:
        return None
    errors = {p["rows"]: [1 - s if metric.higher_is_better else s for s in p["scores"]] for p in points}
    if min(min(of_size) for of_size in errors.values()) < 0:  # a score whose best is not 1
        return None
    measure = metric.title if not metric.higher_is_better else f"distance of {metric.title} from 1"
    return asdict(learning_curve(errors, measure="error" if metric.name == "accuracy" else measure))
