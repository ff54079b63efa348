"""Each statistic against a source that is not ours: scipy, a published example, or enumeration of every case."""

import itertools
import math
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from heedful.evaluation.metrics import METRICS
from heedful.evaluation.statistics.order import almost_stochastic_order, violation_ratio
from heedful.evaluation.statistics.size import effect_size, holm
from heedful.evaluation.statistics.stability import failed_runs, stability
from heedful.evaluation.statistics.wording import Words

numbers = st.lists(st.floats(-5, 5, allow_nan=False).map(lambda x: round(x, 3)), min_size=2, max_size=9)


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


@settings(max_examples=60)
@given(numbers, numbers)
def test_violation_ratio_by_numerical_integration(a: list[float], b: list[float]) -> None:
    def quantile(values: list[float], t: float) -> float:
        return sorted(values)[min(len(values) - 1, math.ceil(t * len(values) - 1e-9) - 1)]

    grid = (np.arange(5040) + 0.5) / 5040  # 5040 is divisible by every length there is
    gap = np.array([quantile(b, t) - quantile(a, t) for t in grid])
    whole = (gap**2).sum()
    expected = (np.maximum(gap, 0) ** 2).sum() / whole if whole > 0 else 0.5
    assert violation_ratio(np.array(a), np.array(b)) == pytest.approx(expected, abs=1e-9)


def test_almost_stochastic_order_of_normals() -> None:
    """Against the integral over the two normal distributions; dominance, its reverse, and no order."""
    a, b = 0.3 + draw(4000, seed=1), 1.5 * draw(4000, seed=2)

    def gap(t: float) -> float:
        return float(1.5 * stats.norm.ppf(t) - (0.3 + stats.norm.ppf(t)))

    above = integrate.quad(lambda t: max(gap(t), 0) ** 2, 1e-9, 1 - 1e-9, limit=400)[0]
    expected = above / integrate.quad(lambda t: gap(t) ** 2, 1e-9, 1 - 1e-9, limit=400)[0]
    found = almost_stochastic_order(a.tolist(), b.tolist(), draws=200)
    assert found.violation == pytest.approx(expected, abs=0.03)
    assert found.violation < found.bound < found.violation + 0.1
    better = almost_stochastic_order([0.9, 0.91, 0.92, 0.93, 0.94], [0.8, 0.81, 0.82, 0.83, 0.84])
    assert (better.violation, better.bound) == (0, 0)
    assert "almost stochastically better" in better.sentence
    worse = almost_stochastic_order([0.8, 0.81, 0.82], [0.9, 0.91, 0.92])
    assert (worse.violation, worse.bound) == (1, 1)
    assert "not shown" in worse.sentence
    with pytest.raises(ValueError, match="at least two"):
        almost_stochastic_order([1.0], [0.5, 0.6])


@settings(max_examples=60)
@given(st.lists(st.floats(0.0001, 1), min_size=1, max_size=6))
def test_holm_is_closed_testing(ps: list[float]) -> None:
    """A hypothesis may be rejected if every set of hypotheses with it is, by Bonferroni: all sets, enumerated."""
    sets = [s for n in range(1, len(ps) + 1) for s in itertools.combinations(range(len(ps)), n)]
    for i, adjusted in enumerate(holm(ps)):
        assert adjusted == pytest.approx(max(min(1, len(s) * min(ps[j] for j in s)) for s in sets if i in s))


@settings(max_examples=60)
@given(numbers, numbers)
def test_superiority_is_mann_whitneys_u(a: list[float], b: list[float]) -> None:
    found = effect_size(a, b)
    assert found.superiority == pytest.approx(stats.mannwhitneyu(a, b).statistic / (len(a) * len(b)))


def test_hedges_g_by_its_definition() -> None:
    """Unbiased for the true effect: its mean over many studies of five against five is the effect."""
    random = np.random.default_rng(0)
    found = [effect_size(random.normal(0.8, 1, 5), random.normal(0, 1, 5)).g for _ in range(6000)]
    error = np.std(found) / math.sqrt(len(found))
    assert fmean(found) == pytest.approx(0.8, abs=4 * error)
    assert effect_size([1.0, 1.0], [0.0, 0.0]).g == math.inf
    assert effect_size([1.0, 1.0], [1.0, 1.0]).g == 0


@settings(max_examples=40)
@given(st.integers(2, 5), st.integers(1, 12), st.integers(0, 1000))
def test_stability_by_counting(seeds: int, examples: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    predicted, gold = random.integers(0, 3, (seeds, examples)), random.integers(0, 3, examples)
    found = stability("mine", predicted, gold)
    columns = [[int(predicted[s, e] == gold[e]) for s in range(seeds)] for e in range(examples)]
    assert found.always == sum(all(c) for c in columns)
    assert found.never == sum(not any(c) for c in columns)
    assert found.always + found.never + found.sometimes == examples
    pairs = list(itertools.combinations(range(seeds), 2))
    same = [fmean(int(predicted[i, e] == predicted[j, e]) for e in range(examples)) for i, j in pairs]
    assert found.agreement == pytest.approx(fmean(same))


def test_a_higher_loss_is_called_worse() -> None:
    accuracy, loss = Words(METRICS["accuracy"]), Words(METRICS["log_loss"])
    assert [accuracy.higher(0.25), accuracy.higher(-0.25)] == ["0.250 higher", "0.250 lower"]
    assert [loss.higher(0.25), loss.higher(-0.25)] == ["0.250 higher (worse)", "0.250 lower (better)"]


def test_failed_runs() -> None:
    one_class, both = np.zeros(6, dtype=np.int64), np.array([0, 1, 0, 1, 0, 1])
    accuracy, loss = Words(METRICS["accuracy"]), Words(METRICS["log_loss"])
    found = failed_runs("mine", [0.9, 0.5, 0.8, 0.52], 0.52, [both, both, one_class, both], accuracy)
    assert found.failed == [1, 2, 3]
    assert found.share == 0.75
    assert "3 of the 4 runs of mine (75%)" in found.sentence
    assert failed_runs("mine", [0.9, 0.8], 0.5, [both, both], accuracy).failed == []
    assert failed_runs("mine", [0.3, 0.7], 0.69, [both, both], loss).failed == [1]
