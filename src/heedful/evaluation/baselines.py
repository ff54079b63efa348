"""What a model has to beat: guessing, the commonest answer, and TF-IDF with a linear model. Seconds, not hours.

They learn from the training examples alone, their one hyperparameter included.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from heedful.errors import RequestError
from heedful.evaluation.metrics import (
    CLASS_METRICS,
    NUMBER_METRICS,
    Floats,
    Metric,
    class_columns,
    number_columns,
)
from heedful.evaluation.scores import score_classes, score_numbers
from heedful.evaluation.tfidf import TfidfModel, class_shares, fit_tfidf
from heedful.streams import shuffled

Examples = tuple[Sequence[str], Sequence[str] | None, Sequence[float] | None]
"""Texts, their pairs or None, and labels (integers, or numbers to predict); None where the labels are hidden."""
_TIMED = 1000  # texts whose prediction is timed


class Baselines(NamedTuple):
    scores: dict[str, dict[str, Any]]
    """{"majority" | "random" | "mean" | "tfidf": {set: scores, "seconds": …}}."""
    tfidf: TfidfModel


def baselines(
    train_texts: Sequence[str],
    train_pairs: Sequence[str] | None,
    train_labels: Sequence[float],
    eval_sets: Mapping[str, Examples],
    n_classes: int | None,
    seed: int,
    labels: Sequence[str] | None = None,
    metric: Metric | None = None,
) -> Baselines:
    """The scores of each baseline on each set.

    `n_classes` None means that the labels are numbers. `labels` names the classes in the scores. Sets whose labels are
    hidden have no scores. The seed decides the guesses and the folds; all but the seconds is the same each time.
    "tfidf" also says the strength that was chosen, by the metric, under "strength", and under "prediction_seconds" how
    long a thousand texts take it. "values" holds the columns of each set, one number for each example, by which a model
    can be compared with the baseline.
    """
    if not len(train_texts):
        raise RequestError("there are no training examples for the baselines.")
    if len(train_texts) != len(train_labels) or (train_pairs is not None and len(train_pairs) != len(train_texts)):
        raise ValueError("texts, pairs and labels must be equally many")
    import sklearn.linear_model  # noqa: F401 (here, so that no baseline's seconds count the import)

    sets = {name: examples for name, examples in eval_sets.items() if examples[2] is not None}
    if n_classes is None:
        names = []
        gold_n: Any = np.asarray(train_labels, dtype=np.float64)
        metric = metric or next(iter(NUMBER_METRICS.values()))
        simple = {"mean": lambda e: np.full(len(e[0]), gold_n.mean())}
    else:
        names = list(labels) if labels is not None else [str(k) for k in range(n_classes)]
        if len(names) != n_classes:
            raise ValueError(f"{len(names)} label names for {n_classes} classes")
        gold_n = np.asarray(train_labels, dtype=np.int64)
        if gold_n.min() < 0 or gold_n.max() >= n_classes:
            raise ValueError(f"training labels must be 0 … {n_classes - 1}")
        metric = metric or next(iter(CLASS_METRICS.values()))
        shares_c = class_shares(gold_n, n_classes)
        simple = {
            "majority": lambda e: np.tile(shares_c, (len(e[0]), 1)),
            "random": lambda e: _guesses(len(e[0]), n_classes, seed),
        }
    found = {name: _with_seconds(lambda p=predict: _score(p, sets, names)) for name, predict in simple.items()}  # type: ignore[misc]
    started = time.perf_counter()
    model = fit_tfidf(train_texts, train_pairs, gold_n, names, metric, seed)
    scores = _score(lambda e: model.predict(e[0], e[1]), sets, names)
    found["tfidf"] = {**scores, "strength": model.strength, "seconds": time.perf_counter() - started}
    found["tfidf"]["prediction_seconds"] = _prediction_seconds(model, train_texts, train_pairs)
    return Baselines(found, model)


def _guesses(n: int, c: int, seed: int) -> Floats:
    """Evenly unsure, with the tie broken by chance."""
    p_nc = np.full((n, c), 1 / c)
    p_nc[np.arange(n), shuffled(n, seed) % c] += 1e-9
    return p_nc


def _score(predict: Callable[[Examples], Floats], sets: Mapping[str, Examples], names: list[str]) -> dict[str, Any]:
    found, values = dict[str, Any](), dict[str, Any]()
    for name, examples in sets.items():
        predicted, gold = predict(examples), np.asarray(examples[2])
        found[name] = score_classes(gold, predicted, names) if names else score_numbers(gold, predicted)
        columns = class_columns(gold, predicted) if names else number_columns(gold, predicted)
        values[name] = {column: numbers.tolist() for column, numbers in columns.items()}
    return {**found, "values": values}


def _prediction_seconds(model: TfidfModel, texts: Sequence[str], pairs: Sequence[str] | None) -> float:
    """For a thousand texts like these."""
    some = min(len(texts), _TIMED)
    started = time.perf_counter()
    model.predict(texts[:some], None if pairs is None else pairs[:some])
    return (time.perf_counter() - started) * 1000 / some


def _with_seconds(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    start = time.perf_counter()
    outcome = work()
    return {**outcome, "seconds": time.perf_counter() - start}
