"""Every metric against scikit-learn's or scipy's, on whatever predictions hypothesis thinks of; then the edges."""

import json
import math
import warnings

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as peer

from heedful.errors import RequestError, WorkError
from heedful.evaluation.metrics import ranks
from heedful.evaluation.scores import correlation, score_classes, score_numbers


@st.composite
def classified(draw):
    c = draw(st.integers(2, 6))
    n = draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    p = rng.dirichlet(np.full(c, draw(st.sampled_from([0.1, 1.0, 10.0]))), size=n)
    gold = rng.integers(draw(st.integers(1, c)), size=n)  # classes without examples occur
    return gold.tolist(), p


@settings(max_examples=60)
@given(classified())
def test_classes_equal_the_peer(case) -> None:
    gold, p = case
    c = p.shape[1]
    names = [f"class {k}" for k in range(c)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours = score_classes(gold, p, names)
    predicted = p.argmax(axis=1)
    assert ours["n"] == len(gold)
    assert ours["accuracy"] == pytest.approx(peer.accuracy_score(gold, predicted))
    assert ours["macro_f1"] == pytest.approx(peer.f1_score(gold, predicted, average="macro", zero_division=0))
    assert ours["log_loss"] == pytest.approx(peer.log_loss(gold, p, labels=range(c)), rel=1e-9)
    assert ours["confusion"] == peer.confusion_matrix(gold, predicted, labels=range(c)).tolist()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert ours["matthews"] == pytest.approx(peer.matthews_corrcoef(gold, predicted), abs=1e-12)
        theirs = peer.precision_recall_fscore_support(gold, predicted, labels=range(c), zero_division=0)
    for k, name in enumerate(names):
        mine = ours["per_class"][name]
        assert [mine[x] for x in ("precision", "recall", "f1", "support")] == pytest.approx([t[k] for t in theirs])
    if c == 2:
        assert ours["f1"] == pytest.approx(peer.f1_score(gold, predicted, zero_division=0))
    else:
        assert "f1" not in ours
    assert sum(b["n"] for b in ours["bins"]) == len(gold)
    assert json.loads(json.dumps(ours, allow_nan=False)) == ours


@settings(max_examples=40)
@given(classified())
def test_calibration_error_is_its_definition(case) -> None:
    """Guo et al.'s sum, one example at a time."""
    gold, p = case
    by_bin: dict[int, list[tuple[float, bool]]] = {}
    for g, row in zip(gold, p, strict=True):
        b = next(b for b in range(15) if row.max() <= (b + 1) / 15 or b == 14)
        by_bin.setdefault(b, []).append((row.max(), row.argmax() == g))
    expected = sum(abs(sum(c for c, _ in held) - sum(r for _, r in held)) for held in by_bin.values()) / len(gold)
    assert score_classes(gold, p, [str(k) for k in range(p.shape[1])])["ece"] == pytest.approx(expected)


numbers = st.floats(-1e6, 1e6).map(lambda v: round(v, 3))


@settings(max_examples=100)
@given(st.lists(st.tuples(numbers, numbers), min_size=2, max_size=40))
def test_numbers_equal_the_peer(pairs) -> None:
    gold, predicted = map(list, zip(*pairs, strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours = score_numbers(gold, predicted)
    assert ours["mse"] == pytest.approx(peer.mean_squared_error(gold, predicted))
    assert ours["mae"] == pytest.approx(peer.mean_absolute_error(gold, predicted))
    if len(set(gold)) > 1 and len(set(predicted)) > 1:
        assert ours["pearson"] == pytest.approx(scipy.stats.pearsonr(gold, predicted)[0], abs=1e-7)
        assert ours["spearman"] == pytest.approx(scipy.stats.spearmanr(gold, predicted)[0], abs=1e-9)
    else:
        assert ours["pearson"] is None
        assert "all equal" in ours["undefined"]["pearson"]
    json.dumps(ours, allow_nan=False)


@given(st.lists(st.floats(-5, 5).map(lambda v: round(v, 1)), min_size=1, max_size=30))
def test_ranks_equal_the_peer(values) -> None:
    assert ranks(np.array(values)).tolist() == scipy.stats.rankdata(values).tolist()


@pytest.mark.filterwarnings("error")
def test_one_sided_predictions_have_defined_scores() -> None:
    scores = score_classes([1, 1, 0, 1], [[0.0, 1.0]] * 4, ["no", "yes"])
    assert scores["matthews"] == 0.0
    assert scores["f1"] == pytest.approx(6 / 7)
    assert scores["per_class"]["no"] == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 1}
    assert math.isfinite(scores["log_loss"])


@pytest.mark.filterwarnings("error")
def test_correlation_survives_extreme_numbers() -> None:
    assert correlation(np.array([1e300, 2e300, 3e300]), np.array([1e-300, 2e-300, 3e-300])) == pytest.approx(1.0)
    scores = score_numbers([0.0, 1e300], [1e300, 0.0])
    assert scores["mse"] is None
    assert scores["undefined"]["mse"] == "the errors are too large to be averaged"
    json.dumps(scores, allow_nan=False)


def test_one_number_has_no_correlation() -> None:
    assert score_numbers([1.0], [2.0])["undefined"]["spearman"] == "one example has no correlation"


def test_what_cannot_be_scored_is_refused() -> None:
    with pytest.raises(RequestError, match="no examples"):
        score_classes([], np.zeros((0, 2)), ["a", "b"])
    with pytest.raises(RequestError, match="no examples"):
        score_numbers([], [])
    with pytest.raises(WorkError, match="1 of 2 examples are not finite, first in row 1"):
        score_classes([0, 1], [[1, 0], [math.nan, 0]], ["a", "b"])
    with pytest.raises(WorkError, match="predictions of 1 of 1"):
        score_numbers([1.0], [math.inf])
    for gold, p, names, why in (
        ([0], [[0.5, 0.5]], ["a", "a"], "one name"),
        ([2], [[0.5, 0.5]], ["a", "b"], "0 … 1"),
        ([0], [[0.5, 0.6]], ["a", "b"], "sum to 1"),
        ([0], [[0.5, 0.5]], ["a", "b", "c"], "3 labels"),
    ):
        with pytest.raises(ValueError, match=why):
            score_classes(gold, p, names)
