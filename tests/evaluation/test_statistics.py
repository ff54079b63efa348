"""Each statistic against a source that is not ours: scipy, a published example, or enumeration of every case."""

import itertools
import math
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from heedful.evaluation.statistics.intervals import bootstrap_interval, small_sample_coverage, t_interval
from heedful.evaluation.statistics.order import almost_stochastic_order, violation_ratio
from heedful.evaluation.statistics.paired import (
    mcnemar,
    paired_bootstrap,
    permutation_over_examples,
    permutation_over_seeds,
    sign_flips,
)
from heedful.evaluation.statistics.size import effect_size, holm, smallest_difference
from heedful.evaluation.statistics.stability import failed_runs, stability

numbers = st.lists(st.floats(-5, 5, allow_nan=False).map(lambda x: round(x, 3)), min_size=2, max_size=9)


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


@settings(max_examples=50, deadline=None)
@given(numbers, st.sampled_from([0.8, 0.95, 0.99]))
def test_t_interval_is_scipys(values: list[float], level: float) -> None:
    found = t_interval(values, level)
    expected = stats.ttest_1samp(values, 0).confidence_interval(level) if len(set(values)) > 1 else [values[0]] * 2
    assert (found.low, found.high) == pytest.approx(tuple(expected), abs=1e-9)
    assert found.n == len(values)


def test_one_seed_has_no_interval() -> None:
    for make in (t_interval, bootstrap_interval):
        found = make([0.7])
        assert (found.mean, found.std, found.low, found.high) == (0.7, None, None, None)
        assert "one seed" in found.sentence
    with pytest.raises(ValueError, match="at least one"):
        t_interval([])


def test_bootstrap_interval_is_scipys_percentile() -> None:
    values = draw(12).tolist()
    found = bootstrap_interval(values, draws=100_000)
    theirs = stats.bootstrap((values,), np.mean, n_resamples=100_000, method="percentile", rng=1).confidence_interval
    assert (found.low, found.high) == pytest.approx(tuple(theirs), abs=0.01)
    assert "not 95%" in found.sentence
    assert "not 95%" not in bootstrap_interval(draw(40).tolist()).sentence


def test_bootstrap_of_three_values_by_enumeration() -> None:
    """All 27 draws of three: the 2.5 % quantile is the smallest value, since 1/27 of the means are that."""
    found = bootstrap_interval([1.0, 2.0, 4.0], draws=50_000)
    means = sorted(fmean(c) for c in itertools.product([1.0, 2.0, 4.0], repeat=3))
    assert (found.low, found.high) == (means[0], means[-1])


def test_what_is_said_of_small_samples_is_what_happens() -> None:
    """The coverage that the sentence states, by drawing studies."""
    for n in (3, 5, 10):
        x = draw(4000, n, seed=n)
        means = x[:, np.random.default_rng(0).integers(n, size=(1000, n))].mean(axis=-1)
        low, high = np.quantile(means, [0.025, 0.975], axis=1)
        covered = float(((low <= 0) & (high >= 0)).mean())
        expected = small_sample_coverage(n)
        assert expected is not None
        assert covered == pytest.approx(expected, abs=0.035)


@settings(max_examples=40, deadline=None)
@given(numbers)
def test_sign_flips_are_scipys_exact_permutations(values: list[float]) -> None:
    theirs = stats.permutation_test(
        (np.array(values),), lambda x, axis: np.abs(x.mean(axis=axis)), permutation_type="samples",
        n_resamples=np.inf, vectorized=True, alternative="greater",
    ).pvalue  # fmt: skip
    assert sign_flips(np.array(values), 10, 0) == pytest.approx(theirs, abs=1e-12)


def test_sign_flips_by_drawing_agree_with_the_exact_ones() -> None:
    d = draw(15, seed=3) + 0.4
    exact = sign_flips(d, 10, 0)
    drawn = sign_flips(
        np.concatenate([d, [1e-13, 1e-13]]), 20_000, 0
    )  # two more pairs, of no weight: not exact any more
    assert drawn == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 20_000))


def test_permutations_over_examples_and_seeds() -> None:
    a = np.array([[1, 1, 1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 0, 1, 0], [1, 1, 1, 1, 1, 1, 1, 0]])
    b = np.array([[0, 0, 0, 0, 1, 1, 0, 0], [0, 1, 0, 0, 0, 0, 1, 0], [0, 0, 0, 0, 1, 0, 1, 0]])
    found = permutation_over_examples(a, b)
    d = a.mean(0) - b.mean(0)
    every = [abs(fmean(s * x for s, x in zip(signs, d, strict=True))) for signs in itertools.product([1, -1], repeat=8)]
    assert found.p == pytest.approx(fmean(x >= abs(d.mean()) - 1e-12 for x in every))
    assert found.difference == pytest.approx(d.mean())
    seeds = permutation_over_seeds(a, b)
    assert seeds.p == 0.25
    assert "can never reach 0.05" in seeds.sentence
    ten = permutation_over_seeds(np.tile(a, (4, 1))[:10], np.tile(b, (4, 1))[:10])
    assert ten.p == pytest.approx(2 / 1024)
    assert "significant at 0.05" in ten.sentence
    with pytest.raises(ValueError, match="A has 3 and B has 2"):
        permutation_over_seeds(a, b[:2])


def test_paired_bootstrap_of_examples_by_normal_theory() -> None:
    """With many examples and one seed the interval is the difference ± 1.96 standard errors."""
    random = np.random.default_rng(0)
    a, b = (random.random((1, 2000)) < 0.8).astype(float), (random.random((1, 2000)) < 0.77).astype(float)
    found = paired_bootstrap(a, b)
    d = (a - b)[0]
    half = 1.96 * d.std() / math.sqrt(2000)
    assert (found.low, found.high) == pytest.approx((d.mean() - half, d.mean() + half), abs=0.002)
    z = abs(d.mean()) / (d.std() / math.sqrt(2000))
    assert found.p == pytest.approx(2 * stats.norm.sf(z), abs=0.02)
    assert "examples and seeds" not in found.sentence


def test_paired_bootstrap_counts_the_spread_of_seeds() -> None:
    """Seeds that differ widen the interval, by as much as drawing them says; examples are drawn alike for both."""
    random = np.random.default_rng(1)
    levels_a, levels_b = np.array([0.9, 0.7, 0.8, 0.6]), np.array([0.7, 0.5, 0.8, 0.6])
    a = (random.random((4, 3000)) < levels_a[:, None]).astype(float)
    b = (random.random((4, 3000)) < levels_b[:, None]).astype(float)
    found = paired_bootstrap(a, b)
    assert found.low is not None
    assert found.high is not None
    spread = math.sqrt((a.mean(1).var() + b.mean(1).var()) / 4 + (a.mean(0) - b.mean(0)).var() / 3000)
    assert found.high - found.low == pytest.approx(2 * 1.96 * spread, rel=0.1)
    same = paired_bootstrap(a, a)
    assert same.difference == 0
    assert same.p > 0.9


def test_mcnemar_by_enumeration() -> None:
    """By enumeration of the tosses."""
    a = np.array([1] * 9 + [0] * 2 + [1] * 5 + [0] * 4, dtype=bool)
    b = np.array([0] * 9 + [1] * 2 + [1] * 5 + [0] * 4, dtype=bool)
    tail = sum(math.comb(11, k) for k in range(3)) / 2**11
    assert mcnemar(a, b).p == pytest.approx(2 * tail)
    assert mcnemar(a, b).difference == pytest.approx(7 / 20)
    assert mcnemar(a, a).p == 1.0


@settings(max_examples=60, deadline=None)
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


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0.0001, 1), min_size=1, max_size=6))
def test_holm_is_closed_testing(ps: list[float]) -> None:
    """A hypothesis may be rejected if every set of hypotheses with it is, by Bonferroni: all sets, enumerated."""
    sets = [s for n in range(1, len(ps) + 1) for s in itertools.combinations(range(len(ps)), n)]
    for i, adjusted in enumerate(holm(ps)):
        assert adjusted == pytest.approx(max(min(1, len(s) * min(ps[j] for j in s)) for s in sets if i in s))


@settings(max_examples=60, deadline=None)
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


@pytest.mark.parametrize(("n", "d"), [(17, 1.0), (26, 0.8), (64, 0.5), (394, 0.2)])
def test_smallest_difference_is_cohens_table(n: int, d: float) -> None:
    """Cohen, "A power primer" (1992), table 2: rows for two means, power 0.80 at 0.05 (17 by exact computation)."""
    assert smallest_difference(1.0, n).difference == pytest.approx(d, rel=0.015)


def test_smallest_difference_by_simulation_at_three_seeds() -> None:
    found = smallest_difference(2.0, 3)
    random = np.random.default_rng(0)
    a = random.normal(found.difference, 2.0, (20_000, 3))
    p = stats.ttest_ind(a, random.normal(0, 2.0, (20_000, 3)), axis=1).pvalue
    assert (p < 0.05).mean() == pytest.approx(0.8, abs=0.012)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 5), st.integers(1, 12), st.integers(0, 1000))
def test_stability_by_counting(seeds: int, examples: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    predicted, gold = random.integers(0, 3, (seeds, examples)), random.integers(0, 3, examples)
    found = stability(predicted, gold)
    columns = [[int(predicted[s, e] == gold[e]) for s in range(seeds)] for e in range(examples)]
    assert found.always == sum(all(c) for c in columns)
    assert found.never == sum(not any(c) for c in columns)
    assert found.always + found.never + found.sometimes == examples
    pairs = list(itertools.combinations(range(seeds), 2))
    same = [fmean(int(predicted[i, e] == predicted[j, e]) for e in range(examples)) for i, j in pairs]
    assert found.agreement == pytest.approx(fmean(same))


def test_failed_runs() -> None:
    one_class, both = np.zeros(6, dtype=np.int64), np.array([0, 1, 0, 1, 0, 1])
    found = failed_runs([0.9, 0.5, 0.8, 0.52], 0.52, [both, both, one_class, both])
    assert found.failed == [1, 2, 3]
    assert found.share == 0.75
    assert "3 of 4 runs" in found.sentence
    assert failed_runs([0.9, 0.8], 0.5, [both, both]).failed == []
