"""The learning curves of a study: the score of each setting against the number of rows that it was trained on."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from heedful.evaluation.statistics.curve import learning_curve
from heedful.studies.table import facts_of

_SIZES = {"data.fraction", "data.limit"}


def learning_curves(study: Path, facts: Mapping[str, Any], split: str) -> list[dict[str, Any]]:
    """Of each group of settings that differ in their number of training rows alone: its points, those of TF-IDF on the
    same rows, and the fitted curve if there are three sizes or more."""
    groups: dict[str, list[str]] = {}
    for setting in facts["settings"]:
        if setting.get("values") and set(setting["values"]) <= _SIZES:
            groups.setdefault(setting["group"], []).append(setting["name"])
    found = []
    for group, names in groups.items():
        points, baseline, metric = _points(study, facts["runs"], names, split)
        if len(points) > 1:
            curve: dict[str, Any] = {"group": group, "metric": metric, "points": points, "tfidf": baseline}
            found.append({**curve, "fit": _fit(points, metric)})
    return found


def _points(
    study: Path, runs: Sequence[Mapping[str, Any]], names: Sequence[str], split: str
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], str]:
    """By number of rows, the scores of each seed: ours, and those of TF-IDF on the same rows."""
    ours: dict[int, dict[int, float]] = {}
    theirs: dict[int, dict[int, float]] = {}
    metric = ""
    for run in runs:
        known = facts_of(study / "runs" / run["name"]) if run["setting"] in names else None
        if known is None:
            continue
        manifest, metrics = known
        metric, rows = metrics["primary"], manifest["data"]["sizes"]["train"]
        tfidf = (metrics.get("baselines") or {}).get("tfidf", {})
        for found, scores in ((ours, metrics["splits"]), (theirs, tfidf)):
            score = scores.get(split, {}).get(metric)
            if score is not None:
                found.setdefault(rows, {})[run["seed"]] = score
    listed = [
        [{"rows": rows, "scores": list(by_seed.values())} for rows, by_seed in sorted(found.items())]
        for found in (ours, theirs)
    ]
    return listed[0], listed[1], metric


def _fit(points: Sequence[Mapping[str, Any]], metric: str) -> dict[str, Any] | None:
    """Of the error, which is what is missing to 1, or the log-loss itself."""
    if len(points) < 3:
        return None
    errors = {p["rows"]: [s if metric == "log_loss" else 1 - s for s in p["scores"]] for p in points}
    measure = {"accuracy": "error", "log_loss": "log-loss"}.get(metric, f"distance of {metric} from 1")
    return asdict(learning_curve(errors, measure=measure))
