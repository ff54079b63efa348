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
from heedful.evaluation.metrics import Floats, Ints, score_classes, score_numbers
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
    """The scores of each baseline on each set: {"random" | "majority" | "tfidf": {split: scores, "seconds": …}}.

    `n_classes` None means that the labels are numbers: {"mean" | "tfidf": …}. `labels` names the classes in the
    scores. Sets whose labels are hidden have no scores. The seed decides the guesses and the folds; all but "seconds"
    is the same each time. "tfidf" also says the strength that was chosen, under "strength"; where there are classes,
    "predicted" has the number of each example's.
    """
    if not len(train_texts):
        raise RequestError("there are no training examples for the baselines.")
    if len(train_texts) != len(train_labels) or (train_pairs is not None and len(train_pairs) != len(train_texts)):
        raise ValueError("texts, pairs and labels must be equally many")
    import sklearn.linear_model  # noqa: F401 (here, so that no baseline's seconds count the import)

    sets = {split: examples for split, examples in eval_sets.items() if examples[2] is not None}
    if n_classes is None:
        return _for_numbers(train_texts, train_pairs, train_labels, sets, seed)
    names = list(labels) if labels is not None else [str(k) for k in range(n_classes)]
    if len(names) != n_classes:
        raise ValueError(f"{len(names)} label names for {n_classes} classes")
    gold = np.asarray(train_labels, dtype=np.int64)
    if gold.min() < 0 or gold.max() >= n_classes:
        raise ValueError(f"training labels must be 0 … {n_classes - 1}")
    return _for_classes(train_texts, train_pairs, gold, sets, names, seed)


def _for_classes(
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
        found = {split: predict(e) for split, e in sets.items()}
        scores: dict[str, Any] = {split: score_classes(sets[split][2], p, names) for split, p in found.items()}  # type: ignore[arg-type]
        return {**scores, "predicted": {split: p.argmax(axis=1).tolist() for split, p in found.items()}}

    def tfidf() -> dict[str, Any]:
        features = TextFeatures().fit(texts, pairs)
        x = features.transform(texts, pairs)

        def accuracy(train: Ints, held: Ints, strength: float) -> float:
            model = _logistic(x[train], gold_n[train], strength, seed)
            return float((model.predict(x[held]) == gold_n[held]).mean())

        strength = _choose(gold_n, seed, accuracy)
        model = _logistic(x, gold_n, strength, seed) if len(set(gold_n.tolist())) > 1 else None

        def predict(examples: Examples) -> Floats:
            if model is None:
                return majority(examples)
            p_nc = np.zeros((len(examples[0]), c))
            p_nc[:, model.classes_] = model.predict_proba(features.transform(examples[0], examples[1]))
            return p_nc

        return {**score(predict), "strength": strength}

    return {
        "random": _timed(lambda: score(random)),
        "majority": _timed(lambda: score(majority)),
        "tfidf": _timed(tfidf),
    }


def _for_numbers(
    texts: Sequence[str],
    pairs: Sequence[str] | None,
    labels: Sequence[float],
    sets: Mapping[str, Examples],
    seed: int,
) -> dict[str, dict[str, Any]]:
    gold_n = np.asarray(labels, dtype=np.float64)

    def score(predict: Callable[[Examples], Floats]) -> dict[str, Any]:
        return {split: score_numbers(e[2], predict(e)) for split, e in sets.items()}  # type: ignore[arg-type]

    def tfidf() -> dict[str, Any]:
        features = TextFeatures().fit(texts, pairs)
        x = features.transform(texts, pairs)

        def closeness(train: Ints, held: Ints, strength: float) -> float:
            off = _ridge(x[train], gold_n[train], strength).predict(x[held]) - gold_n[held]
            return -float(np.mean(off**2))

        strength = _choose(gold_n, seed, closeness)
        model = _ridge(x, gold_n, strength)
        return {**score(lambda e: model.predict(features.transform(e[0], e[1]))), "strength": strength}

    return {
        "mean": _timed(lambda: score(lambda e: np.full(len(e[0]), gold_n.mean()))),
        "tfidf": _timed(tfidf),
    }


def _timed(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    start = time.perf_counter()
    found = work()
    return {**found, "seconds": time.perf_counter() - start}


def _choose(gold_n: npt.NDArray[Any], seed: int, score: Callable[[Ints, Ints, float], float]) -> float:
    """The strength with the best mean score over the folds, the weakest of equals."""
    folds = list(_folds(gold_n, seed))
    if not folds:
        return 1.0
    means = [np.mean([score(train, held, strength) for train, held in folds]) for strength in STRENGTHS]
    return STRENGTHS[int(np.argmax(means))]


def _folds(gold_n: npt.NDArray[Any], seed: int) -> Iterator[tuple[Ints, Ints]]:
    """Train and held-out rows; each label is dealt evenly over the folds, however rare it is."""
    drawn = shuffled(len(gold_n), seed)[:LARGEST_CHOICE]
    dealt = drawn[np.argsort(gold_n[drawn], kind="stable")]
    for k in range(FOLDS):
        held = np.sort(dealt[k::FOLDS])
        train = np.setdiff1d(dealt, held)
        if len(held) and len(set(gold_n[train].tolist())) > 1:
            yield train, held


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
