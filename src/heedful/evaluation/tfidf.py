"""TF-IDF with a linear model, fitted on training texts alone: a baseline, and a model like any other.

n examples, f features, c classes, k rows of weights: one for each class that training has, one alone for two classes or
for a number, none where training has one class.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from heedful.evaluation.features import TextFeatures
from heedful.evaluation.metrics import Floats, Ints, Metric
from heedful.evaluation.scores import score_classes, score_numbers
from heedful.streams import shuffled

STRENGTHS = (0.3, 1.0, 3.0, 10.0, 30.0)
"""C of the logistic regression; its inverse is the ridge's penalty."""
FOLDS = 3
LARGEST_CHOICE = 10_000
"""Examples from which the strength is chosen; more would cost minutes and not change the choice."""


@dataclass(frozen=True)
class Linear:
    """The linear model as it is saved: what was fitted in double precision is rounded once, before anybody asks it."""

    weight_kf: npt.NDArray[np.float32]
    bias_k: Floats
    seen: tuple[int, ...]
    """The classes that training has; empty for a number."""
    shares_c: Floats
    """The classes' shares in training, which are the answer where training has one class; empty for a number."""

    @cached_property
    def _weight_fk(self) -> Floats:
        return np.ascontiguousarray(self.weight_kf.T, dtype=np.float64)

    def predict(self, x_nf: Any) -> Floats:
        """(n, c) probabilities, or (n,) numbers."""
        c, n = len(self.shares_c), x_nf.shape[0]
        if c and not len(self.bias_k):
            return np.tile(self.shares_c, (n, 1))
        z_nk = np.asarray(x_nf @ self._weight_fk + self.bias_k)
        if not c:
            return z_nk[:, 0]
        from scipy.special import expit

        p_nk = np.asarray(expit(z_nk), dtype=np.float64)
        p_nk = np.hstack([1 - p_nk, p_nk]) if len(self.seen) == 2 else p_nk / p_nk.sum(axis=1, keepdims=True)
        p_nc = np.zeros((n, c))
        p_nc[:, list(self.seen)] = p_nk
        return p_nc


@dataclass(frozen=True)
class TfidfModel:
    labels: tuple[str, ...]
    """The names of the classes; empty for a number."""
    pairs: bool
    """Whether it reads two texts."""
    features: TextFeatures
    linear: Linear
    strength: float

    def predict(self, texts: Sequence[str], pairs: Sequence[str] | None = None) -> Floats:
        """(n, c) probabilities, or (n,) numbers."""
        if (pairs is not None) != self.pairs:
            raise ValueError("as many texts for each example as in training")
        if not len(texts):
            return np.zeros((0, len(self.labels)) if self.labels else 0)
        return self.linear.predict(self.features.transform(texts, pairs))


def fit_tfidf(
    texts: Sequence[str],
    pairs: Sequence[str] | None,
    gold_n: npt.NDArray[Any],
    labels: Sequence[str],
    metric: Metric,
    seed: int,
) -> TfidfModel:
    """`gold_n` are the numbers of the classes that `labels` names; without labels, numbers to predict. The strength is
    the one that is best by the metric on parts of the training examples that are held out."""
    features = TextFeatures().fit(texts, pairs)
    x = features.transform(texts, pairs)

    def fit(rows: Any, strength: float) -> Linear:
        if not labels:
            return _fit_numbers(x[rows], gold_n[rows], strength)
        return _fit_classes(x[rows], gold_n[rows], len(labels), strength, seed)

    def score(train: Ints, held_out: Ints, strength: float) -> float:
        predicted, gold = fit(train, strength).predict(x[held_out]), gold_n[held_out]
        scores = score_classes(gold, predicted, labels) if labels else score_numbers(gold, predicted)
        value = scores.get(metric.name)
        return -np.inf if value is None else metric.sign * value

    strength = _choose_strength(gold_n, seed, score)
    return TfidfModel(tuple(labels), pairs is not None, features, fit(slice(None), strength), strength)


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


def _fit_classes(x: Any, gold_n: Ints, c: int, strength: float, seed: int) -> Linear:
    """By liblinear's dual solver, ten times as fast on sparse text as the default; many classes: one against all."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    seen = sorted(set(gold_n.tolist()))
    rows = [] if len(seen) < 2 else seen[1:] if len(seen) == 2 else seen
    weights, biases = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a baseline stopped at 1000 steps is a baseline
        for label in rows:
            model = LogisticRegression(C=strength, solver="liblinear", dual=True, max_iter=1000, random_state=seed)
            model.fit(x, gold_n == label)
            weights.append(model.coef_[0])
            biases.append(model.intercept_[0])
    weight_kf = np.array(weights, dtype=np.float32).reshape(len(rows), x.shape[1])
    return Linear(weight_kf, np.array(biases, dtype=np.float64), tuple(seen), class_shares(gold_n, c))


def _fit_numbers(x: Any, gold_n: Floats, strength: float) -> Linear:
    from sklearn.linear_model import Ridge

    model = Ridge(alpha=1 / strength, solver="sparse_cg", tol=1e-6, max_iter=500).fit(x, gold_n)
    weight_kf = np.asarray(model.coef_, dtype=np.float32)[None]
    return Linear(weight_kf, np.array([model.intercept_], dtype=np.float64), (), np.zeros(0))


def class_shares(gold_n: Ints, c: int) -> Floats:
    """The classes' shares in training, one example added to each: the unseen is unlikely, not impossible."""
    counts = np.bincount(gold_n, minlength=c) + 1.0
    return np.asarray(counts / counts.sum(), dtype=np.float64)
