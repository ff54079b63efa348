"""What a finished training is worth: scores beside baselines, calibration, predictions, the worst errors."""

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from heedful.data.examples import Dataset, Examples
from heedful.evaluation.baselines import baselines as make_baselines
from heedful.evaluation.calibration import apply as probabilities
from heedful.evaluation.calibration import before_and_after, fit_temperature
from heedful.evaluation.metrics import score_classes, score_numbers
from heedful.recipes.schema import Recipe
from heedful.training.setting import Setting
from heedful.training.state import Progress

Floats = npt.NDArray[np.float64]
_ROWS = 64  # in a batch of predictions
_ERRORS = 20


@dataclass
class Outcome:
    recipe: Recipe
    seed: int
    setting: Setting
    progress: Progress


def primary(recipe: Recipe, kind: str) -> str:
    metric = recipe.evaluation.metric
    return ("accuracy" if kind == "classes" else "pearson") if metric == "auto" else metric


def raw_scores(setting: Setting, split: str) -> Floats:
    """(n, k) before softmax, in the order of the rows; the longest rows are computed first."""
    lengths = setting.method.lengths(split)
    order = sorted(range(len(lengths)), key=lambda r: -lengths[r])
    found = np.empty((len(lengths), max(1, setting.loss.classes)))
    setting.method.train(False)
    with torch.inference_mode():
        for at in range(0, len(order), _ROWS):
            rows = order[at : at + _ROWS]
            found[rows] = setting.method.scores(split, rows).double().cpu().numpy()
    return found


def score(setting: Setting, split: str, scores_nk: Floats) -> dict[str, Any]:
    gold = setting.targets[split].cpu().numpy()
    if setting.dataset.kind == "score":
        return score_numbers(gold, scores_nk[:, 0])
    return score_classes(gold, probabilities(scores_nk), setting.dataset.labels)


def judge_dev(recipe: Recipe, setting: Setting) -> dict[str, Any]:
    found = score(setting, "dev", raw_scores(setting, "dev"))
    metric = primary(recipe, setting.dataset.kind)
    value = found.get(metric)
    shown = {metric: value, **{k: v for k, v in found.items() if isinstance(v, float) and k != metric}}
    number = float("-inf") if value is None else float(value)
    return {"score": -number if metric == "log_loss" else number, "metrics": shown}


def write_outcome(directory: Path, outcome: Outcome, known: dict[str, Any] | None) -> dict[str, Any]:
    """Writes the predictions of every split but train; returns what metrics.json holds."""
    setting, recipe = outcome.setting, outcome.recipe
    data = setting.dataset
    (directory / "predictions").mkdir(exist_ok=True)
    raw = {split: raw_scores(setting, split) for split in setting.examples if split != "train"}
    for split, scores_nk in raw.items():
        write_predictions(directory / "predictions" / f"{split}.tsv", data, setting.examples[split].rows, scores_nk)
    metrics: dict[str, Any] = {"primary": primary(recipe, data.kind), "splits": {}, "best": outcome.progress.best}
    known_splits = [s for s in raw if s in setting.targets]
    for split in known_splits:
        metrics["splits"][split] = score(setting, split, raw[split])
    if data.kind == "classes" and "dev" in known_splits:
        temperature = fit_temperature(raw["dev"], setting.targets["dev"].tolist())
        metrics["temperature"] = temperature
        metrics["calibration"] = {
            split: before_and_after(raw[split], setting.targets[split].tolist(), temperature) for split in known_splits
        }
    if recipe.evaluation.baselines:
        metrics["baselines"] = known if known is not None else without_predictions(baselines_of(data))
    if data.kind == "classes":
        metrics["errors"] = [e for split in known_splits for e in _errors(setting, split, raw[split])]
    return metrics


def baselines_of(data: Dataset) -> dict[str, Any]:
    """They depend on the data alone: one seed serves every run."""
    known = {split: e for split, e in (("dev", data.dev), ("test", data.test)) if e is not None and len(e)}
    sets = {split: (e.texts, e.pairs, _gold(data, e)) for split, e in known.items()}
    classes = len(data.labels) if data.kind == "classes" else None
    train, gold = data.train, _gold(data, data.train)
    assert gold is not None  # nobody can train on hidden labels
    return make_baselines(train.texts, train.pairs, gold, sets, classes, 0, data.labels if classes else None)


def without_predictions(baselines: dict[str, Any]) -> dict[str, Any]:
    """Their scores alone."""
    return {name: {k: v for k, v in b.items() if k != "predicted"} for name, b in baselines.items()}


def _gold(data: Dataset, examples: Examples) -> list[float] | None:
    if data.kind == "score":
        return examples.scores
    return None if examples.labels is None else [data.labels.index(label) for label in examples.labels]


def write_predictions(path: Path, data: Dataset, rows: list[int], scores_nk: Floats) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        if data.kind == "score":
            file.write("row\tscore\n")
            file.writelines(f"{row}\t{value:.6g}\n" for row, value in zip(rows, scores_nk[:, 0], strict=True))
            return
        table = csv.writer(file, "excel-tab", lineterminator="\n")  # a class may have a tab in its name
        table.writerow(["row", "label", *(f"p:{name}" for name in data.labels)])
        for row, p_k in zip(rows, probabilities(scores_nk), strict=True):
            table.writerow([row, data.labels[int(p_k.argmax())], *(f"{p:.6f}" for p in p_k)])


def _errors(setting: Setting, split: str, scores_nk: Floats) -> list[dict[str, Any]]:
    """The most confident mistakes, worst first."""
    p_nk, gold, held = probabilities(scores_nk), setting.targets[split].cpu().numpy(), setting.examples[split]
    wrong = np.flatnonzero(p_nk.argmax(axis=1) != gold)
    worst = wrong[np.argsort(-p_nk[wrong].max(axis=1), kind="stable")][:_ERRORS]
    labels = setting.dataset.labels
    return [
        {
            "split": split,
            "row": held.rows[i],
            "text": held.texts[i],
            "pair": held.pairs[i] if held.pairs is not None else None,
            "gold": labels[gold[i]],
            "predicted": labels[int(p_nk[i].argmax())],
            "probability": float(p_nk[i].max()),
        }
        for i in map(int, worst)
    ]
