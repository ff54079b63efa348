"""What the seeds of a classifier show together: what depends on the seed, which runs failed,
when the model should leave an answer to a person, and which labels look wrong.

s seeds, e examples, k classes: probabilities p_sek, gold classes gold_e.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from heedful.errors import RequestError
from heedful.evaluation.statistics.stability import failed_runs, stability

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Predictions = Mapping[str, Sequence[Mapping[str, Sequence[str]]]]
"""By setting, for each of its seeds: the columns of its predictions as text, all in the order of the same examples."""

_LISTED = 25
_SHARES = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5)


@dataclass(frozen=True)
class Votes:
    """What the runs of one setting say of the same examples."""

    p_sek: Floats
    gold_e: Ints

    @property
    def predicted_se(self) -> Ints:
        return np.asarray(self.p_sek.argmax(axis=2), dtype=np.int64)

    @property
    def right_se(self) -> Floats:
        return np.asarray(self.predicted_se == self.gold_e, dtype=np.float64)


def class_statistics(
    votes: Mapping[str, Votes],
    chosen: str,
    labels: Sequence[str],
    examples: Sequence[Mapping[str, Any]],
    dev: Votes | None = None,
) -> dict[str, Any]:
    """ "settings", "abstention" and "doubtful" of statistics.json.

    `votes` of each setting on the set that is judged, whose `examples` (row, gold, text, pair) are in the order of the
    votes; `dev`: those of the chosen setting on dev, on which thresholds are chosen.
    """
    best = votes[chosen]
    return {
        "settings": {name: _seeds_of(v) for name, v in votes.items()},
        "abstention": _abstention(best, dev),
        "doubtful": _doubtful(best, examples, labels) if len(best.p_sek) > 1 else None,
    }


def statistics_of_predictions(
    chosen: str,
    predictions: Mapping[str, Predictions],
    examples: Mapping[str, Sequence[Mapping[str, Any]]],
    judged: str,
    labels: Sequence[str],
) -> dict[str, Any]:
    """The same from what the runs wrote: by evaluation set, the columns p:<class> of each run and the examples in the
    same order. Empty where the gold labels are hidden."""
    votes = _votes(predictions[judged], examples[judged], labels)
    if not votes:
        return {}
    with_dev = judged != "dev" and "dev" in predictions
    dev = _votes({chosen: predictions["dev"][chosen]}, examples["dev"], labels) if with_dev else {}
    return class_statistics(votes, chosen, labels, examples[judged], dev.get(chosen))


def _votes(predictions: Predictions, examples: Sequence[Mapping[str, Any]], labels: Sequence[str]) -> dict[str, Votes]:
    if not examples or any(example.get("gold") is None for example in examples):
        return {}
    number = {label: i for i, label in enumerate(labels)}
    try:
        gold_e = np.array([number[example["gold"]] for example in examples])
        return {
            setting: Votes(np.stack([_probabilities(columns, labels) for columns in runs]), gold_e)
            for setting, runs in predictions.items()
        }
    except (KeyError, ValueError) as error:
        words = f"the predictions do not fit the classes {', '.join(labels)} ({error}); run again."
        raise RequestError(words) from None


def _probabilities(columns: Mapping[str, Sequence[str]], labels: Sequence[str]) -> Floats:
    return np.array([columns[f"p:{label}"] for label in labels], dtype=np.float64).T


def _seeds_of(v: Votes) -> dict[str, Any]:
    majority = float(np.bincount(v.gold_e).max() / len(v.gold_e))
    scores = v.right_se.mean(axis=1).tolist()
    facts: dict[str, Any] = {"failed": asdict(failed_runs(scores, majority, list(v.predicted_se)))}
    if len(scores) > 1:
        facts["stability"] = asdict(stability(v.predicted_se, v.gold_e))
    return facts


def _abstention(judged: Votes, dev: Votes | None) -> dict[str, Any]:
    """If the least sure answers were left to a person: thresholds from dev, what they mean on the judged set."""
    chosen_on, seeds = judged if dev is None else dev, len(judged.p_sek)
    rows = []
    for share in _SHARES:
        kept, right = [], []
        thresholds = np.quantile(chosen_on.p_sek.max(axis=2), 1 - share, axis=1) if share < 1 else [0.0] * seeds
        for seed, threshold in enumerate(thresholds):
            sure = judged.p_sek[seed].max(axis=1) >= threshold
            kept.append(float(sure.mean()))
            right.append(float(judged.right_se[seed, sure].mean()) if sure.any() else float("nan"))
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


def _doubtful(v: Votes, examples: Sequence[Mapping[str, Any]], labels: Sequence[str]) -> dict[str, Any]:
    """Where all seeds agree on another label than the one given, the surest first; and where they disagree."""
    predicted, mean_ek = v.predicted_se, v.p_sek.mean(axis=0)
    agreed = (predicted == predicted[0]).all(axis=0) & (predicted[0] != v.gold_e)
    rows = np.flatnonzero(agreed)
    order = rows[np.argsort(-(mean_ek[rows, predicted[0, rows]] - mean_ek[rows, v.gold_e[rows]]), kind="stable")]
    wrong = [
        {
            **{key: examples[i].get(key) for key in ("row", "text", "pair", "gold")},
            "predicted": labels[predicted[0, i]],
            "probability": float(mean_ek[i, predicted[0, i]]),
        }
        for i in map(int, order[:_LISTED])
    ]
    flips = np.flatnonzero(~(predicted == predicted[0]).all(axis=0))
    closest = sorted(flips, key=lambda i: float(np.ptp(mean_ek[i])))[:_LISTED]
    unsure = [
        {
            **{key: examples[i].get(key) for key in ("row", "text", "pair", "gold")},
            "votes": {labels[k]: int((predicted[:, i] == k).sum()) for k in sorted(set(predicted[:, i].tolist()))},
        }
        for i in map(int, closest)
    ]
    sentence = (
        f"All {len(predicted)} seeds agree with each other and not with the label on {len(rows)} of {len(examples)} "
        "examples; each of these is hard, or mislabelled."
    )
    return {"agreed_wrong": len(rows), "examples": wrong, "seeds_disagree": unsure, "sentence": sentence}
