"""What a model has to beat: guessing, the commonest answer, and TF-IDF with a linear model. Seconds, not hours.

They learn from the training examples alone, their one hyperparameter included.
"""

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from heedful.errors import RequestError
from heedful.evaluation.features import TextFeatures
from heedful.evaluation.metrics import Floats, Ints, class_columns, number_columns
from heedful.evaluation.scores import score_classes, score_numbers
from heedful.streams import shuffled

Examples = tuple[Sequence[str], Sequence[str] | None, Sequence[float] | None]
"""Texts, their pairs or None, and labels (integers, or numbers to predict); None where the labels are hidden."""

STRENGTHS = (0.3, 1.0, 3.0, 10.0, 30.0)
"""C of the logistic regression; its inverse is the ridge's penalty."""
FOLDS = 3
LARGEST_CHOICE = 10_000
"""Examples from which the strength is chosen; more would cost minutes and not change the choice."""


def baselines(
    train_texts: Sequence[str],
    train_pairs: Sequence[str] | None,
    train_labels: Sequence[float],
    eval_sets: Mapping[str, Examples],
    n_classes: int | None,
    seed: int,
    labels: Sequence[str] | None = None,
) -> dict[str, dict[str, Any]]:
    """The scores of each baseline on each set: {"random" | "majority" | "tfidf": {set: scores, "seconds": …}}.

    `n_classes` None means that the labels are numbers: {"mean" | "tfidf": …}. `labels` names the classes in the
    scores. Sets whose labels are hidden have no scores. The seed decides the guesses and the folds; all but "seconds"
    is the same each time. "tfidf" also says the strength that was chosen, under "strength". "values" holds the columns
    of each set, one number for each example, by which a model can be compared with the baseline.
    """
    if not len(train_texts):
        raise RequestError("there are no training examples for the baselines.")
    if len(train_texts) != len(train_labels) or (train_pairs is not None and len(train_pairs) != len(train_texts)):
        raise ValueError("texts, pairs and labels must be equally many")
    import sklearn.linear_model  # noqa: F401 (here, so that no baseline's seconds count the import)

    sets = {name: examples for name, examples in eval_sets.items() if examples[2] is not None}
    if n_classes is None:
        return _number_baselines(train_texts, train_pairs, train_labels, sets, seed)
    names = list(labels) if labels is not None else [str(k) for k in range(n_classes)]
    if len(names) != n_classes:
        raise ValueError(f"{len(names)} label names for {n_classes} classes")
    gold = np.asarray(train_labels, dtype=np.int64)
    if gold.min() < 0 or gold.max() >= n_classes:
        raise ValueError(f"training labels must be 0 … {n_classes - 1}")
    return _class_baselines(train_texts, train_pairs, gold, sets, names, seed)


def _class_baselines(
    texts: Sequence[str],
    pairs: Sequence[str] | None,
    gold_n: Ints,
    sets: Mapping[str, Examples],
    names: list[str],
    seed: int,
) -> dict[str, dict[str, Any]]:
    c = len(names)

    def random(examples: Examples) -> Floats:
        """Evenly unsure, with the tie broken by chance."""
        p_nc = np.full((len(examples[0]), c), 1 / c)
        drawn = shuffled(len(p_nc), seed) % c
        p_nc[np.arange(len(p_nc)), drawn] += 1e-9
        return p_nc

    def majority(examples: Examples) -> Floats:
        """The classes' shares in training, one example added to each: the unseen is unlikely, not impossible."""
        counts = np.bincount(gold_n, minlength=c) + 1.0
        return np.tile(counts / counts.sum(), (len(examples[0]), 1))

    def score(predict: Callable[[Examples], Floats]) -> dict[str, Any]:
        predicted = {name: predict(e) for name, e in sets.items()}
        scores: dict[str, Any] = {name: score_classes(sets[name][2], p, names) for name, p in predicted.items()}  # type: ignore[arg-type]
        return {**scores, "values": {name: _lists(class_columns(sets[name][2], p)) for name, p in predicted.items()}}  # type: ignore[arg-type]

    def tfidf() -> dict[str, Any]:
        features = TextFeatures().fit(texts, pairs)
        x = features.transform(texts, pairs)

        def accuracy(train: Ints, held_out: Ints, strength: float) -> float:
            model = _logistic(x[train], gold_n[train], strength, seed)
            return float((model.predict(x[held_out]) == gold_n[held_out]).mean())

        strength = _choose_strength(gold_n, seed, accuracy)
        model = _logistic(x, gold_n, strength, seed) if len(set(gold_n.tolist())) > 1 else None

        def predict(examples: Examples) -> Floats:
            if model is None:
                return majority(examples)
            p_nc = np.zeros((len(examples[0]), c))
            p_nc[:, model.classes_] = model.predict_proba(features.transform(examples[0], examples[1]))
            return p_nc

        return {**score(predict), "strength": strength}

    return {
        "random": _with_seconds(lambda: score(random)),
        "majority": _with_seconds(lambda: score(majority)),
        "tfidf": _with_seconds(tfidf),
    }


def _number_baselines(
    texts: Sequence[str],
    pairs: Sequence[str] | None,
    labels: Sequence[float],
    sets: Mapping[str, Examples],
    seed: int,
) -> dict[str, dict[str, Any]]:
    gold_n = np.asarray(labels, dtype=np.float64)

    def score(predict: Callable[[Examples], Floats]) -> dict[str, Any]:
        predicted = {name: predict(e) for name, e in sets.items()}
        scores: dict[str, Any] = {name: score_numbers(sets[name][2], y) for name, y in predicted.items()}  # type: ignore[arg-type]
        return {**scores, "values": {name: _lists(number_columns(sets[name][2], y)) for name, y in predicted.items()}}  # type: ignore[arg-type]

    def tfidf() -> dict[str, Any]:
        features = TextFeatures().fit(texts, pairs)
        x = features.transform(texts, pairs)

        def closeness(train: Ints, held_out: Ints, strength: float) -> float:
            errors = _ridge(x[train], gold_n[train], strength).predict(x[held_out]) - gold_n[held_out]
            return -float(np.mean(errors**2))

        strength = _choose_strength(gold_n, seed, closeness)
        model = _ridge(x, gold_n, strength)
        return {**score(lambda e: model.predict(features.transform(e[0], e[1]))), "strength": strength}

    return {
        "mean": _with_seconds(lambda: score(lambda e: np.full(len(e[0]), gold_n.mean()))),
        "tfidf": _with_seconds(tfidf),
    }


def _lists(columns: Mapping[str, Floats]) -> dict[str, list[float]]:
    return {name: column.tolist() for name, column in columns.items()}


def _with_seconds(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    start = time.perf_counter()
    outcome = work()
    return {**outcome, "seconds": time.perf_counter() - start}


def _choose_strength(gold_n: npt.NDArray[Any], seed: int, score: Callable[[Ints, Ints, float], float]) -> float:
    """The strength with the best mean score over the folds, the weakest of equals."""
    folds = list(_folds(gold_n, seed))
    if not folds:
        return 1.0
    means = [np.mean([score(train, held_out, strength) for train, held_out in folds]) for strength in STRENGTHS]
    return STRENGTHS[int(np.argmax(means))]


def _folds(gold_n: npt.NDArray[Any], seed: int) -> Iterator[tuple[Ints, Ints]]:
    """Train and held-out rows; each label is dealt evenly over the folds, however rare it is."""
    drawn = shuffled(len(gold_n), seed)[:LARGEST_CHOICE]
    by_label = drawn[np.argsort(gold_n[drawn], kind="stable")]
    for k in range(FOLDS):
        held_out = np.sort(by_label[k::FOLDS])
        train = np.setdiff1d(by_label, held_out)
        if len(held_out) and len(set(gold_n[train].tolist())) > 1:
            yield train, held_out


def _logistic(x: Any, gold_n: Any, strength: float, seed: int) -> Any:
    """By liblinear's dual solver, ten times as fast on sparse text as the default; many classes: one against all."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier

    model = LogisticRegression(C=strength, solver="liblinear", dual=True, max_iter=1000, random_state=seed)
    if len(set(gold_n.tolist())) > 2:
        model = OneVsRestClassifier(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a baseline stopped at 1000 steps is a baseline
        return model.fit(x, gold_n)


def _ridge(x: Any, gold_n: Any, strength: float) -> Any:
    from sklearn.linear_model import Ridge

    return Ridge(alpha=1 / strength, solver="sparse_cg", tol=1e-6, max_iter=500).fit(x, gold_n)
