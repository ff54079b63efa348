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
from heedful.evaluation.metrics import CLASS_METRICS, Metric, class_columns, scored
from heedful.evaluation.statistics.stability import failed_runs, stability
from heedful.evaluation.statistics.wording import Words

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

    def score(self, metric: Metric, seed: int, of_e: npt.NDArray[np.bool_] | None = None) -> float | None:
        """What one seed gets, on some of the examples if `of_e` says which; None where that is undefined."""
        which = slice(None) if of_e is None else of_e
        if of_e is not None and not of_e.any():
            return None
        return scored(metric, class_columns(self.gold_e[which], self.p_sek[seed, which]))


def class_statistics(
    votes: Mapping[str, Votes],
    chosen: str,
    metric: Metric,
    labels: Sequence[str],
    examples: Sequence[Mapping[str, Any]],
    dev: Votes | None = None,
    random: bool = True,
) -> dict[str, Any]:
    """ "settings", "abstention" and "doubtful" of statistics.json, the last two about the chosen setting alone: None if
    it has no predictions, or one seed that none can contradict though seeds play a part in it (`random`).

    `votes` of each setting on the set that is judged, whose `examples` (row, gold, text, pair) are in the order of the
    votes; `dev`: those of the chosen setting on dev, on which thresholds are chosen.
    """
    best = votes.get(chosen)
    return {
        "settings": {name: _seeds_of(name, v, metric) for name, v in votes.items()},
        "abstention": None if best is None else _abstention(chosen, best, dev, metric),
        "doubtful": None
        if best is None or (random and len(best.p_sek) < 2)
        else _doubtful(chosen, best, examples, labels),
    }


def statistics_of_predictions(
    chosen: str,
    predictions: Mapping[str, Predictions],
    examples: Mapping[str, Sequence[Mapping[str, Any]]],
    judged: str,
    metric: Metric,
    random: bool,
    labels: Sequence[str],
) -> dict[str, Any]:
    """The same from what the runs wrote: by evaluation set, the columns p:<class> of each run and the examples in the
    same order. Empty where the gold labels are hidden."""
    votes = _votes(predictions[judged], examples[judged], labels)
    if not votes:
        return {}
    with_dev = judged != "dev" and chosen in predictions.get("dev", {})
    dev = _votes({chosen: predictions["dev"][chosen]}, examples["dev"], labels) if with_dev else {}
    return class_statistics(votes, chosen, metric, labels, examples[judged], dev.get(chosen), random)


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


def _seeds_of(name: str, v: Votes, metric: Metric) -> dict[str, Any]:
    metric = metric if v.score(metric, 0) is not None else CLASS_METRICS["accuracy"]
    shares = np.bincount(v.gold_e, minlength=v.p_sek.shape[2]) / len(v.gold_e)
    commonest = Votes(np.broadcast_to(shares, (1, *v.p_sek.shape[1:])), v.gold_e).score(metric, 0)
    scores = [v.score(metric, seed) for seed in range(len(v.p_sek))]
    found = failed_runs(name, scores, commonest, list(v.predicted_se), Words(metric))
    facts: dict[str, Any] = {"failed": asdict(found)}
    if len(scores) > 1:
        facts["stability"] = asdict(stability(name, v.predicted_se, v.gold_e))
    return facts


def _abstention(chosen: str, judged: Votes, dev: Votes | None, metric: Metric) -> dict[str, Any]:
    """If the least sure answers were left to a person: thresholds from dev, what they mean on the judged set, by the
    metric that was asked for if it has a value on each part of the examples, else by the accuracy."""
    rows = _abstention_rows(judged, dev, metric)
    if any(row["score"] is None for row in rows):
        metric = CLASS_METRICS["accuracy"]
        rows = _abstention_rows(judged, dev, metric)
    everything, most, words = rows[0], rows[2], Words(metric)
    sentence = ""
    if everything["score"] is not None and most["score"] is not None:
        sentence = (
            f"Answering only where it is at least {most['threshold']:.0%} sure, {chosen} answers "
            f"{most['answered']:.0%} of the examples, with {words.a_score} of {words.figure(most['score'])} on them "
            f"instead of {words.figure(everything['score'])} on all."
        )
    facts = {"setting": chosen, "metric": metric.name, "title": metric.title}
    return {**facts, "chosen_on": "the same examples" if dev is None else "dev", "rows": rows, "sentence": sentence}


def _abstention_rows(judged: Votes, dev: Votes | None, metric: Metric) -> list[dict[str, Any]]:
    chosen_on, seeds, rows = judged if dev is None else dev, len(judged.p_sek), []
    for share in _SHARES:
        thresholds = np.quantile(chosen_on.p_sek.max(axis=2), 1 - share, axis=1) if share < 1 else np.zeros(seeds)
        sure_se = judged.p_sek.max(axis=2) >= thresholds[:seeds, None]
        row: dict[str, Any] = {"threshold": float(np.mean(thresholds)), "answered": float(sure_se.mean())}
        for key, by in (("score", metric), ("accuracy", CLASS_METRICS["accuracy"])):
            scores = [judged.score(by, seed, sure_se[seed]) for seed in range(seeds) if sure_se[seed].any()]
            known = [score for score in scores if score is not None]
            row[key] = float(np.mean(known)) if known and len(known) == len(scores) else None
        rows.append(row)
    return rows


def _doubtful(chosen: str, v: Votes, examples: Sequence[Mapping[str, Any]], labels: Sequence[str]) -> dict[str, Any]:
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
    who = f"All {len(predicted)} seeds of {chosen} agree with each other and not with the label"
    who = who if len(predicted) > 1 else f"{chosen} contradicts the label"
    sentence = (
        f"{who} on {len(rows)} of {len(examples)} examples; each of these is hard, mislabelled, or beyond this model."
    )
    return {
        "setting": chosen,
        "agreed_wrong": len(rows),
        "examples": wrong,
        "seeds_disagree": unsure,
        "sentence": sentence,
    }
