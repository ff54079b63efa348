"""What the runs of a study show together: who beats whom, what hangs on the seed, which labels look wrong, and at what
confidence a model should rather say nothing. Kept as statistics.json, numbers and sentences side by side."""

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from heedful.data.examples import Dataset, Examples
from heedful.errors import RequestError
from heedful.evaluation.statistics.order import almost_stochastic_order
from heedful.evaluation.statistics.paired import paired_bootstrap, permutation_over_examples
from heedful.evaluation.statistics.size import effect_size, holm, smallest_difference
from heedful.evaluation.statistics.stability import failed_runs, stability
from heedful.studies.curves import learning_curves

Floats = npt.NDArray[np.float64]
BASELINE = "tfidf"
"""What the baseline is called among the comparisons."""
_DOUBTFUL = 25
_KEPT = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5)


@dataclass(frozen=True)
class Votes:
    """What the runs of one setting say of the same examples: s seeds, e examples, k classes."""

    p_sek: Floats
    gold_e: npt.NDArray[np.int64]

    @property
    def predicted_se(self) -> npt.NDArray[np.int64]:
        return np.asarray(self.p_sek.argmax(axis=2), dtype=np.int64)

    @property
    def right_se(self) -> Floats:
        return np.asarray(self.predicted_se == self.gold_e, dtype=np.float64)


def write_examples(folder: Path, dataset: Dataset) -> None:
    """The gold labels (or scores) and texts of dev and test, which the runs' predictions are held against."""
    folder.mkdir(exist_ok=True)
    for split, held in (("dev", dataset.dev), ("test", dataset.test)):
        if held is None or not len(held):
            continue
        path = folder / f"{split}.jsonl"
        part = path.with_name(f".{path.name}")
        with part.open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in _lines(held))
        part.replace(path)


def _lines(held: Examples) -> list[dict[str, Any]]:
    gold: Sequence[Any] = held.labels or held.scores or [None] * len(held)
    pairs: Sequence[Any] = held.pairs or [None] * len(held)
    columns = zip(held.rows, gold, held.texts, pairs, strict=True)
    return [{"row": row, "gold": g, "text": text, "pair": pair} for row, g, text, pair in columns]


def read_examples(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def weigh(
    study: Path,
    facts: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    tfidf: Mapping[str, Sequence[int]] | None = None,
) -> None:
    """Writes statistics.json from what study.json holds and the rows of the table; there is none if there is nothing to
    say. `tfidf` is what that baseline predicts on each split, the number of a class for each example. Where numbers are
    predicted, only learning curves say something yet."""
    path, data = study / "statistics.json", facts.get("data", {})
    path.unlink(missing_ok=True)
    split = next((s for s in ("test", "dev") if any(f"{s}_mean" in row for row in rows)), None)
    if split is None:
        return
    content: dict[str, Any] = {"format": 1, "split": split}
    if data.get("kind") == "classes":
        content |= _of_classes(study, facts, rows, split, (tfidf or {}).get(split))
    curves = learning_curves(study, facts, split)
    if curves:
        content["curves"] = curves
    if len(content) == 2:
        return
    part = path.with_name(f".{path.name}")
    part.write_text(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
    part.replace(path)


def _of_classes(
    study: Path,
    facts: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    split: str,
    tfidf: Sequence[int] | None,
) -> dict[str, Any]:
    data = facts["data"]
    sign = -1 if any(row.get("metric") == "log_loss" for row in rows) else 1
    whole = [r for r in rows if f"{split}_mean" in r and not r.get("pruned")] or [
        r for r in rows if f"{split}_mean" in r
    ]
    ranked = sorted(
        whole, key=lambda r: -sign * r.get("dev_mean", 0.0)
    )  # what was stopped early is compared with nothing
    runs = {
        row["setting"]: [r["name"] for r in facts["runs"] if (r["setting"], r["state"]) == (row["setting"], "done")]
        for row in ranked
    }
    votes = _gather(study, runs, split, data["labels"])
    dev = _gather(study, runs, "dev", data["labels"]) if split == "test" and "dev" in data["sizes"] else {}
    examples = read_examples(study / "examples" / f"{split}.jsonl")
    return evidence(votes, dev, examples, data["labels"], tfidf)


def _gather(study: Path, runs: Mapping[str, Sequence[str]], split: str, labels: Sequence[str]) -> dict[str, Votes]:
    """The votes of each setting, from the predictions of its runs; none where the labels are hidden."""
    examples = read_examples(study / "examples" / f"{split}.jsonl")
    if any(e["gold"] is None for e in examples):
        return {}
    number = {label: i for i, label in enumerate(labels)}
    gold_e = np.array([number[e["gold"]] for e in examples])
    folder = study / "runs"
    return {
        setting: Votes(
            np.stack([_probabilities(folder / n / "predictions" / f"{split}.tsv", labels, len(gold_e)) for n in names]),
            gold_e,
        )
        for setting, names in runs.items()
    }


def _probabilities(path: Path, labels: Sequence[str], examples: int) -> Floats:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = csv.DictReader(file, dialect="excel-tab")
            found = np.array([[float(row[f"p:{label}"]) for label in labels] for row in rows])
        if found.shape != (examples, len(labels)):
            raise ValueError
    except (OSError, ValueError, KeyError, TypeError):
        raise RequestError(f"{path}: damaged; remove the directory of this run, and run again.") from None
    return found


def evidence(
    votes: Mapping[str, Votes],
    dev: Mapping[str, Votes],
    examples: Sequence[dict[str, Any]],
    labels: Sequence[str],
    tfidf: Sequence[int] | None = None,
) -> dict[str, Any]:
    """`votes` on the split that is reported, `dev` those that a threshold may be chosen on; the best setting on dev
    comes first in `votes`. `tfidf` predicts a class for each example."""
    names = list(votes)
    best = votes[names[0]]
    return {
        "best": names[0],
        "comparisons": _against(names[0], votes, tfidf),
        "settings": {name: _alone(v) for name, v in votes.items()},
        "abstention": _abstention(best, dev.get(names[0])),
        "doubtful": _doubtful(best, examples, labels) if len(best.p_sek) > 1 else None,
    }


def _against(first: str, votes: Mapping[str, Votes], tfidf: Sequence[int] | None) -> list[dict[str, Any]]:
    """The first setting against each of the others and against TF-IDF, corrected for how many these are."""
    found: list[dict[str, Any]] = []
    a = votes[first].right_se
    others = {name: v.right_se for name, v in votes.items() if name != first}
    if tfidf is not None:
        others[BASELINE] = np.asarray([np.asarray(tfidf) == votes[first].gold_e], dtype=np.float64)
    for name, b in others.items():
        row: dict[str, Any] = {
            "a": first,
            "b": name,
            "bootstrap": asdict(paired_bootstrap(a, b)),
            "permutation": asdict(permutation_over_examples(a, b)),
        }
        if min(len(a), len(b)) > 1:
            x, y = a.mean(axis=1).tolist(), b.mean(axis=1).tolist()
            pooled = float(np.sqrt((np.var(x, ddof=1) + np.var(y, ddof=1)) / 2))
            effect = effect_size(x, y)
            row["order"] = asdict(almost_stochastic_order(x, y))
            row["effect"] = {**asdict(effect), "g": effect.g if np.isfinite(effect.g) else None}
            row["detectable"] = asdict(smallest_difference(pooled, len(x), len(y)))
        found.append(row)
    for row, p in zip(found, holm([r["bootstrap"]["p"] for r in found]), strict=True):
        row["p_corrected"] = p
    return found


def _alone(v: Votes) -> dict[str, Any]:
    majority = float(np.bincount(v.gold_e).max() / len(v.gold_e))
    scores = v.right_se.mean(axis=1).tolist()
    found: dict[str, Any] = {"failed": asdict(failed_runs(scores, majority, list(v.predicted_se)))}
    if len(scores) > 1:
        found["stability"] = asdict(stability(v.predicted_se, v.gold_e))
    return found


def _abstention(test: Votes, dev: Votes | None) -> dict[str, Any]:
    """If the least sure answers were left to a person: thresholds from dev, what they mean on the reported split."""
    chosen_on, seeds = test if dev is None else dev, len(test.p_sek)
    rows = []
    for share in _KEPT:
        kept, right = [], []
        thresholds = np.quantile(chosen_on.p_sek.max(axis=2), 1 - share, axis=1) if share < 1 else [0.0] * seeds
        for seed, threshold in enumerate(thresholds):
            sure = test.p_sek[seed].max(axis=1) >= threshold
            kept.append(float(sure.mean()))
            right.append(float(test.right_se[seed, sure].mean()) if sure.any() else float("nan"))
        rows.append(
            {
                "threshold": float(np.mean(thresholds)),
                "answered": float(np.mean(kept)),
                "accuracy": float(np.nanmean(right)) if np.isfinite(right).any() else None,
            }
        )
    everything, most = rows[0], rows[2]
    sentence = ""
    if everything["accuracy"] is not None and most["accuracy"] is not None:
        sentence = (
            f"Answering only where it is at least {most['threshold']:.0%} sure, the model answers "
            f"{most['answered']:.0%} of the examples and is right on {most['accuracy']:.1%} of them, instead of "
            f"{everything['accuracy']:.1%} of all."
        )
    return {"chosen_on": "the same examples" if dev is None else "dev", "rows": rows, "sentence": sentence}


def _doubtful(v: Votes, examples: Sequence[dict[str, Any]], labels: Sequence[str]) -> dict[str, Any]:
    """Where all seeds agree on another label than the one given: the surest first."""
    predicted, mean_ek = v.predicted_se, v.p_sek.mean(axis=0)
    agreed = (predicted == predicted[0]).all(axis=0) & (predicted[0] != v.gold_e)
    rows = np.flatnonzero(agreed)
    order = rows[np.argsort(-(mean_ek[rows, predicted[0, rows]] - mean_ek[rows, v.gold_e[rows]]), kind="stable")]
    found = [
        {
            **{key: examples[i][key] for key in ("row", "text", "pair", "gold")},
            "predicted": labels[predicted[0, i]],
            "probability": float(mean_ek[i, predicted[0, i]]),
        }
        for i in map(int, order[:_DOUBTFUL])
    ]
    flips = np.flatnonzero(~(predicted == predicted[0]).all(axis=0))
    split_votes = sorted(flips, key=lambda i: float(np.ptp(mean_ek[i])))[:_DOUBTFUL]
    unsure = [
        {
            **{key: examples[i][key] for key in ("row", "text", "pair", "gold")},
            "votes": {labels[k]: int((predicted[:, i] == k).sum()) for k in sorted(set(predicted[:, i].tolist()))},
        }
        for i in map(int, split_votes)
    ]
    seeds = len(predicted)
    sentence = (
        f"All {seeds} seeds agree with each other and not with the label on {len(rows)} of {len(examples)} examples; "
        "each of these is hard, or mislabelled."
    )
    return {"agreed_wrong": len(rows), "examples": found, "seeds_disagree": unsure, "sentence": sentence}
