"""The metrics: what each is called, which way is better, and how it is made of numbers that each example has.

e examples, k statistics, c classes. A metric is a function of the means of some statistics over the examples: the
accuracy is the mean of one column, F1 and correlations take several. So one formula gives the score of a set, of the
set without one of its examples, and of any sample of it. `scores.py` scores a whole set of predictions at once.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from heedful.errors import RequestError
from heedful.storage.run_record import Manifest

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Columns = Mapping[str, npt.NDArray[Any]]
"""One number for each example, by name: gold, predicted, log_loss …"""
Bounds = tuple[float | None, float | None]

_TINY = 1e-14  # a variance of numbers up to 1 that is as good as none


@dataclass(frozen=True)
class Metric:
    name: str
    """The key of its score in metrics.json."""
    title: str
    """As people write it in a sentence."""
    higher_is_better: bool
    statistics: Callable[[Columns], Floats] | None = None
    """(e, k): what the metric is made of, for each example, from its columns. None where a metric is not made so, or
    where only its name and direction are known: then it has no interval over examples."""
    value: Callable[[Floats], Floats] | None = None
    """The metric from the means of these over examples, for any leading axes; NaN where it is undefined."""
    is_mean: bool = False
    """Whether it is the mean of one column."""
    bounds: Bounds = (None, None)
    """The least and the most that it can be, which no interval may leave; None where it has no such end."""
    influence: Callable[[Columns], Floats] | None = None
    """(e,): how far each example pulls the metric, times e, with a mean of 0. None: found by leaving it out."""
    of_pairs: bool = False
    """Whether the gold and the predicted class are all that counts, so that examples with the same two are alike."""
    signature: str = ""
    """What tells apart the ways in which others compute a metric of this name; "": nothing."""

    @property
    def sign(self) -> int:
        """Times this, higher is better."""
        return 1 if self.higher_is_better else -1

    def better(self, a: float, b: float) -> bool:
        """Whether a is better than b."""
        return self.sign * a > self.sign * b

    def stated(self) -> dict[str, Any]:
        """What manifest.json says of it, so that a report needs no code of the objective."""
        said = {"name": self.name, "title": self.title, "higher_is_better": self.higher_is_better}
        return {**said, "signature": self.signature} if self.signature else said


def mean_of(name: str, title: str, higher_is_better: bool, column: str, bounds: Bounds = (None, None)) -> Metric:
    """A metric that is the mean of a column."""

    def statistics(columns: Columns) -> Floats:
        return np.asarray(columns[column], dtype=np.float64)[:, None]

    return Metric(name, title, higher_is_better, statistics, lambda mean_k: mean_k[..., 0], True, bounds)


def ratio_of(
    name: str, title: str, higher_is_better: bool, over: str, under: str, bounds: Bounds = (0.0, None)
) -> Metric:
    """A metric that is one column's sum divided by another's, such as a loss by the words that were predicted."""

    def statistics(columns: Columns) -> Floats:
        return np.stack([np.asarray(columns[key], dtype=np.float64) for key in (over, under)], axis=1)

    def value(mean_k: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(mean_k[..., 0] / mean_k[..., 1], dtype=np.float64)

    return Metric(name, title, higher_is_better, statistics, value, bounds=bounds)


def pseudo_values(metric: Metric, columns: Columns) -> tuple[float, Floats]:
    """The score T of a set, and what each example contributes to it.

    Of a mean, these are the values themselves; of a correlation T + its influence values; else the jackknife's
    pseudo-values ψ_e = E·T − (E − 1)·T₋ₑ, whose mean is T but for its bias, and whose spread is that of T over other
    examples (Tukey, 1958). NaN where T₋ₑ is undefined.
    """
    if metric.statistics is None or metric.value is None:
        raise ValueError(f"{metric.name} has no value for each example")
    if metric.of_pairs:
        return _pseudo_values_of_pairs(metric, columns)
    x_ek = metric.statistics(columns)
    n = len(x_ek)
    whole = float(metric.value(x_ek.mean(axis=0)))
    if metric.is_mean:
        return whole, x_ek[:, 0]
    if n < 2:
        return whole, np.full(n, whole)
    if metric.influence is not None:
        return whole, whole + metric.influence(columns)
    without_e = metric.value((x_ek.sum(axis=0) - x_ek) / (n - 1))
    return whole, np.asarray(n * whole - (n - 1) * without_e, dtype=np.float64)


def _pseudo_values_of_pairs(metric: Metric, columns: Columns) -> tuple[float, Floats]:
    """The same, once for each pair of a gold and a predicted class: many classes times many examples need much room."""
    assert metric.statistics is not None
    assert metric.value is not None
    gold_e, predicted_e = (np.asarray(columns[name]).astype(np.int64) for name in ("gold", "predicted"))
    classes, n = int(max(gold_e.max(initial=0), predicted_e.max(initial=0))) + 1, len(gold_e)
    pairs, which_e, counts = np.unique(gold_e * classes + predicted_e, return_inverse=True, return_counts=True)
    gold_u, predicted_u = np.divmod(pairs, classes)
    x_uk = metric.statistics({"gold": gold_u, "predicted": predicted_u})
    sum_k = counts @ x_uk
    whole = float(metric.value(sum_k / n))
    if n < 2:
        return whole, np.full(n, whole)
    without_u = metric.value((sum_k - x_uk) / (n - 1))
    return whole, np.asarray(n * whole - (n - 1) * without_u, dtype=np.float64)[which_e]


def scored(metric: Metric, columns: Columns) -> float | None:
    """The metric of a set, from its columns; None where it is undefined, or not made of them."""
    if metric.statistics is None or metric.value is None:
        return None
    value = float(metric.value(metric.statistics(columns).mean(axis=0)))
    return value if math.isfinite(value) else None


def fill_in(scores: dict[str, Any], columns: Columns, metrics: Iterable[Metric]) -> dict[str, Any]:
    """The scores with those of the metrics that they lack, None where one is undefined."""
    for metric in metrics:
        if metric.name not in scores and metric.statistics is not None:
            scores[metric.name] = scored(metric, columns)
    return scores


def stated_metrics(manifest: Manifest) -> dict[str, Metric]:
    """The metrics that a run says it has, its default first; of a damaged one that says nothing, the built-in ones."""
    stated = {
        one.name: Metric(one.name, one.title or one.name, one.higher_is_better, signature=one.signature)
        for one in manifest.metrics
        if one.name and one.higher_is_better is not None
    }
    return stated or dict(METRICS)


def metric_named(name: str, metrics: Mapping[str, Metric]) -> Metric:
    """Never guessed from its name: a metric whose direction nobody states is refused."""
    if name not in metrics:
        raise RequestError(
            f"nobody states whether a higher or a lower {name!r} is better: it is not among the metrics of this run "
            f"({', '.join(metrics)}); name one of these, or run again."
        )
    return metrics[name]


def class_columns(gold: npt.ArrayLike, p_nc: npt.ArrayLike) -> dict[str, Floats]:
    """The columns of n classifications, from the numbers of the gold classes and the probabilities."""
    gold_n, p_nc = np.asarray(gold, dtype=np.int64), np.asarray(p_nc, dtype=np.float64)
    predicted_n = p_nc.argmax(axis=1)
    return {
        "gold": gold_n.astype(np.float64),
        "predicted": predicted_n.astype(np.float64),
        "right": (predicted_n == gold_n).astype(np.float64),
        "log_loss": log_losses(gold_n, p_nc),
    }


def number_columns(gold: npt.ArrayLike, predicted: npt.ArrayLike) -> dict[str, Floats]:
    """The columns of n predicted numbers."""
    gold_n, predicted_n = np.asarray(gold, dtype=np.float64), np.asarray(predicted, dtype=np.float64)
    with np.errstate(over="ignore"):
        error_n = predicted_n - gold_n
        squared_n = error_n**2
    return {"gold": gold_n, "predicted": predicted_n, "squared_error": squared_n, "absolute_error": np.abs(error_n)}


def log_losses(gold_n: Ints, p_nc: Floats) -> Floats:
    """−log p of the gold class; a probability of zero counts as the smallest difference of doubles."""
    p_n = p_nc[np.arange(len(gold_n)), gold_n]
    return np.asarray(-np.log(np.clip(p_n, np.finfo(np.float64).eps, 1.0)) + 0.0, dtype=np.float64)


def ranks(x_n: Floats) -> Floats:
    """1 for the smallest; equals share their mean rank."""
    _, which, counts = np.unique(x_n, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[which], dtype=np.float64)


def centred(x_n: Floats) -> Floats:
    """With a mean of 0 and a largest absolute value of 1, so that no square overflows or vanishes; 0 if constant."""
    x_n = x_n / (np.abs(x_n).max() or 1.0)
    x_n = x_n - x_n.mean()
    return np.asarray(x_n / (np.abs(x_n).max() or 1.0), dtype=np.float64)


def _one_hot(columns: Columns) -> tuple[Floats, Floats]:
    """(e, c) each: the gold class and the predicted class."""
    gold_e, predicted_e = (np.asarray(columns[name]).astype(np.int64) for name in ("gold", "predicted"))
    classes = np.arange(max(gold_e.max(initial=0), predicted_e.max(initial=0)) + 1)
    return (gold_e[:, None] == classes).astype(np.float64), (predicted_e[:, None] == classes).astype(np.float64)


def _hits(columns: Columns) -> Floats:
    """Of each class: whether it is gold and predicted; gold; predicted."""
    gold_ec, predicted_ec = _one_hot(columns)
    return np.concatenate([gold_ec * predicted_ec, gold_ec, predicted_ec], axis=1)


def _f1_of_each(mean_k: Floats) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """F1 of each class, 0 where a class does not occur, and where it does."""
    hit, gold, predicted = np.split(mean_k, 3, axis=-1)
    both = gold + predicted
    occurs = both > 0
    return np.asarray(2 * hit / np.where(occurs, both, 1.0)), occurs


def _macro_f1(mean_k: Floats) -> Floats:
    f1, occurs = _f1_of_each(mean_k)
    return np.asarray(f1.sum(axis=-1) / np.maximum(occurs.sum(axis=-1), 1))


def _second_class(columns: Columns) -> Floats:
    gold_e, predicted_e = (np.asarray(columns[name]) == 1 for name in ("gold", "predicted"))
    return np.stack([gold_e & predicted_e, gold_e, predicted_e], axis=1).astype(np.float64)


def _f1(mean_k: Floats) -> Floats:
    return np.asarray(_f1_of_each(mean_k)[0][..., 0])


def _agreement(columns: Columns) -> Floats:
    gold_ec, predicted_ec = _one_hot(columns)
    return np.concatenate([(gold_ec * predicted_ec).sum(axis=1, keepdims=True), gold_ec, predicted_ec], axis=1)


def _matthews(mean_k: Floats) -> Floats:
    """Gorodkin's R_K (2004) from the shares of the classes; 0 where one side is constant."""
    right, shares = mean_k[..., 0], mean_k[..., 1:]
    gold, predicted = np.split(shares, 2, axis=-1)
    together = right - (gold * predicted).sum(axis=-1)
    apart = (1 - (gold**2).sum(axis=-1)) * (1 - (predicted**2).sum(axis=-1))
    defined = apart > _TINY
    return np.asarray(np.where(defined, together / np.sqrt(np.where(defined, apart, 1.0)), 0.0))


def _moments(gold_e: Floats, predicted_e: Floats) -> Floats:
    x, y = centred(gold_e), centred(predicted_e)
    return np.stack([x, y, x * x, y * y, x * y], axis=1)


def _values_of_both(columns: Columns) -> Floats:
    return _moments(*(np.asarray(columns[name], dtype=np.float64) for name in ("gold", "predicted")))


def _ranks_of_both(columns: Columns) -> Floats:
    """The ranks are those in the whole set, also where examples are left out."""
    return _moments(*(ranks(np.asarray(columns[name], dtype=np.float64)) for name in ("gold", "predicted")))


def _correlation(mean_k: Floats) -> Floats:
    x, y, xx, yy, xy = np.moveaxis(mean_k, -1, 0)
    var_x, var_y = xx - x * x, yy - y * y
    defined = (var_x > _TINY) & (var_y > _TINY)
    r = (xy - x * y) / np.sqrt(np.where(defined, var_x * var_y, 1.0))
    return np.asarray(np.where(defined, np.clip(r, -1.0, 1.0), np.nan))


def _standardised(columns: Columns, of: Callable[[Floats], Floats]) -> tuple[Floats, Floats]:
    """Gold and predicted with a mean of 0 and a deviation of 1; NaN where one is constant."""
    x, y = (centred(of(np.asarray(columns[name], dtype=np.float64))) for name in ("gold", "predicted"))
    with np.errstate(divide="ignore", invalid="ignore"):
        return x / x.std(), y / y.std()


def _pull_on_pearson(columns: Columns) -> Floats:
    """z_x·z_y − r·(z_x² + z_y²)/2 (Devlin, Gnanadesikan and Kettenring, 1975)."""
    x, y = _standardised(columns, lambda values: values)
    r = float((x * y).mean())
    return np.asarray(x * y - r * (x * x + y * y) / 2)


def _pull_on_spearman(columns: Columns) -> Floats:
    """That on the correlation of the ranks, and what an example does by moving the ranks of the others: by one where it
    is below, by a half where it is equal (Croux and Dehon, 2010, with ties)."""
    x, y = _standardised(columns, ranks)
    r = float((x * y).mean())
    pull = x * y - r * (x * x + y * y) / 2
    for name, own, other in (("gold", x, y), ("predicted", y, x)):
        values = ranks(np.asarray(columns[name], dtype=np.float64))
        each, which = np.unique(values, return_inverse=True)
        slopes = np.bincount(which, other - r * own, len(each)) / (len(values) * values.std())
        above = np.cumsum(slopes[::-1])[::-1] - slopes / 2
        pull = pull + len(values) * (above[which] - above[which].mean())
    return np.asarray(pull)


def _by_name(*metrics: Metric) -> dict[str, Metric]:
    return {metric.name: metric for metric in metrics}


_SHARE, _CORRELATION, _LOSS = (0.0, 1.0), (-1.0, 1.0), (0.0, None)

CLASS_METRICS = _by_name(
    mean_of("accuracy", "accuracy", True, column="right", bounds=_SHARE),
    Metric("macro_f1", "macro F1", True, _hits, _macro_f1, bounds=_SHARE, of_pairs=True),
    Metric("f1", "F1", True, _second_class, _f1, bounds=_SHARE, of_pairs=True),
    Metric("matthews", "Matthews correlation", True, _agreement, _matthews, bounds=_CORRELATION, of_pairs=True),
    mean_of("log_loss", "log-loss", False, column="log_loss", bounds=_LOSS),
    Metric("ece", "calibration error", False, bounds=_SHARE),
)
"""Of classes, from the columns of `class_columns`; the default first. `f1` is of the second of two classes."""
NUMBER_METRICS = _by_name(
    Metric(
        "pearson", "Pearson correlation", True, _values_of_both, _correlation,
        bounds=_CORRELATION, influence=_pull_on_pearson,
    ),
    Metric(
        "spearman", "Spearman correlation", True, _ranks_of_both, _correlation,
        bounds=_CORRELATION, influence=_pull_on_spearman,
    ),
    mean_of("mse", "mean squared error", False, column="squared_error", bounds=_LOSS),
    mean_of("mae", "mean absolute error", False, column="absolute_error", bounds=_LOSS),
)  # fmt: skip
"""Of numbers, from the columns of `number_columns`; the default first."""
METRICS = CLASS_METRICS | NUMBER_METRICS
