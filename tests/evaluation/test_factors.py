"""Several crossed factors: by matrices written out, by the analysis of variance, by crossed.py, and by what must hold
whatever the numbers."""

import math
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from heedful.evaluation.statistics import crossed
from heedful.evaluation.statistics.crossed import SeedsByExamples, Variance, p_value, pooled, variance_of_score
from heedful.evaluation.statistics.factors import (
    ROWS,
    Design,
    Estimate,
    by_level,
    difference,
    estimate,
    interval,
    variance_of_difference,
    visible,
)
from heedful.evaluation.statistics.size import holm
from tests.support.benchmark_modules import load_benchmark

Floats = npt.NDArray[np.float64]
Levels = dict[str, npt.NDArray[np.int64]]


def unbalanced(n: int = 45, seed: int = 0) -> Levels:
    """Seeds × templates × professions with uneven numbers, sentences within professions, and rows that share all."""
    random = np.random.default_rng(seed)
    levels = {"seed": random.integers(0, 3, n), "template": random.integers(0, 4, n)}
    levels["profession"] = random.choice(5, n, p=[0.4, 0.3, 0.1, 0.1, 0.1])
    levels["sentence"] = 10 * levels["profession"] + random.integers(0, 3, n)
    return {name: np.concatenate([of_row, of_row[:3]]) for name, of_row in levels.items()}


def grid(*sizes: int, names: tuple[str, ...] = ("seed", "template", "profession", "term")) -> Levels:
    return dict(zip(names, np.indices(sizes).reshape(len(sizes), -1), strict=False))


def share_all(levels: Levels, names: tuple[str, ...]) -> Floats:
    """K."""
    n = len(levels["seed"])
    if names == ROWS:
        return np.eye(n)
    return np.logical_and.reduce([levels[name][:, None] == levels[name] for name in names]).astype(float)


def test_matrices_written_out() -> None:
    levels = unbalanced()
    n, y = len(levels["seed"]), np.random.default_rng(1).normal(size=len(levels["seed"]))
    found, design = estimate(y, levels), Design(levels)
    k = {names: share_all(levels, names) for names in design.sets}
    for size in (1, 2, 3, 4):  # every set of factors has the cells of one that is kept, and none is kept twice
        for names in combinations(levels, size):
            assert sum(np.array_equal(share_all(levels, names), matrix) for matrix in k.values()) == 1
    assert ("profession", "sentence") not in k
    assert ROWS in k
    centre = np.eye(n) - 1 / n
    moments = np.array([[np.trace(a @ centre @ b @ centre) for b in k.values()] for a in k.values()])
    e = y - y.mean()
    components = np.linalg.lstsq(moments, np.array([e @ matrix @ e for matrix in k.values()]), rcond=None)[0]
    assert list(found.components.values()) == pytest.approx(components, abs=1e-9)
    of_mean = sum(c * matrix.sum() for c, matrix in zip(components, k.values(), strict=True)) / n**2
    alone = []
    for name in levels:
        matrix = k[(name,)]
        alone.append(matrix.sum() / n**2 * (e @ matrix @ e) / np.trace(matrix @ centre @ matrix @ centre))
    assert found.variance == pytest.approx(max(of_mean, *alone))
    assert (found.mean, found.n, found.fixed, found.this_run) == (pytest.approx(y.mean()), n, (), False)
    assert found.levels == {name: len(np.unique(of_row)) for name, of_row in levels.items()}


def test_balanced_is_the_analysis_of_variance() -> None:
    sizes = (4, 7, 6)
    random = np.random.default_rng(2)
    y = random.normal(size=sizes) + 2 * random.normal(size=(4, 1, 1)) + random.normal(size=(1, 7, 1))
    y += random.normal(size=(1, 7, 6))

    def mean_square(kept: tuple[int, ...]) -> float:
        effect = y - y.mean()
        for axis in range(3):
            mean = effect.mean(axis=axis, keepdims=True)
            effect = effect - mean if axis in kept else np.broadcast_to(mean, sizes)
        return float((effect**2).sum() / math.prod(sizes[axis] - 1 for axis in kept))

    sets = [kept for size in (1, 2, 3) for kept in combinations(range(3), size)]
    by_hand = sum((-1) ** (len(kept) - 1) * mean_square(kept) for kept in sets) / y.size
    found = estimate(y.ravel(), grid(*sizes))
    assert by_hand == pytest.approx(float(Design(grid(*sizes)).unbiased(Design(grid(*sizes)).squares(y.ravel()))))
    assert found.variance == pytest.approx(by_hand)  # larger here than any factor's alone
    alone = [float(y.mean(axis=tuple({0, 1, 2} - {f})).var(ddof=1)) / sizes[f] for f in range(3)]
    weights = [alone[0] / sum(alone), *((v / by_hand) ** 2 for v in alone[1:])]
    assert 1 / found.freedom == pytest.approx(sum(w / (g - 1) for w, g in zip(weights, sizes, strict=True)))
    assert found.components["seed", "template", "profession"] == pytest.approx(mean_square((0, 1, 2)))
    half = stats.t.ppf(0.975, found.freedom) * math.sqrt(by_hand)
    assert found.interval() == pytest.approx((found.mean - half, found.mean + half))
    assert found.p == pytest.approx(2 * stats.t.sf(abs(found.mean) / math.sqrt(by_hand), found.freedom))


@pytest.mark.parametrize(("a_seeds", "b_seeds"), [(2, 3), (4, 7), (6, 2)])
def test_two_factors_are_those_of_seeds_and_examples(a_seeds: int, b_seeds: int) -> None:
    random = np.random.default_rng(a_seeds)
    shared = random.normal(size=30)
    a, b = (random.normal(size=(s, 30)) + random.normal(size=(s, 1)) + shared for s in (a_seeds, b_seeds))
    rows = Design({"pair": np.arange(30)})
    x, y = SeedsByExamples(a), SeedsByExamples(b)
    assert rows.across(a_seeds).variance(a.ravel()).v == pytest.approx(float(variance_of_score(x).v))
    expected = crossed.variance_of_difference(x, y, pooled([x, y]))
    found = variance_of_difference(rows, a, b)
    assert (found.v, found.of_seeds) == (pytest.approx(float(expected.v)), pytest.approx(float(expected.of_seeds)))
    assert found.freedom == pytest.approx(float(expected.freedom))
    one = SeedsByExamples(b[:1], random=False)
    assert variance_of_difference(rows, a, b[:1], random_b=False).v == pytest.approx(
        float(crossed.variance_of_difference(x, one, pooled([x, one])).v)
    )


def test_the_variance_is_without_bias() -> None:
    """Where each effect's variance is known, so is that of the mean; the usual one of independent rows is not near."""
    levels = {name: of_row for name, of_row in unbalanced(300, seed=4).items() if name != "seed"}
    random, design, n = np.random.default_rng(5), Design(levels), 303
    spread = {("template",): 1.0, ("profession",): 0.7, ("template", "profession"): 0.8, ("sentence",): 0.5, ROWS: 1.0}
    values, true = np.zeros((600, n)), 0.0
    for names, sd in spread.items():
        cell = np.unique(np.stack([levels[name] for name in names]), axis=1, return_inverse=True)[1] if names else None
        cell = np.arange(n) if cell is None else cell
        values += sd * random.normal(size=(600, cell.max() + 1))[:, cell]
        true += sd**2 * float((np.bincount(cell) ** 2).sum()) / n**2
    unbiased = design.unbiased(design.squares(values))
    assert unbiased.mean() == pytest.approx(true, abs=4 * unbiased.std() / math.sqrt(600))
    assert unbiased.std() / math.sqrt(600) < 0.06 * true
    assert values.mean(axis=1).var() == pytest.approx(true, rel=0.25)
    assert (values.var(axis=1, ddof=1) / n).mean() < 0.1 * true


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.floats(-5, 5), st.floats(0.01, 100))
def test_order_names_and_scale_change_nothing(seed: int, shift: float, scale: float) -> None:
    random = np.random.default_rng(seed)
    levels = unbalanced(int(random.integers(6, 40)), seed)
    y = random.normal(size=len(levels["seed"]))
    order, names = random.permutation(len(y)), random.permutation(list(levels))
    renamed = {name: random.permutation(100)[levels[name]][order] for name in names}
    one, two = estimate(y, levels), estimate(shift + scale * y[order], renamed)
    assert two.mean == pytest.approx(shift + scale * one.mean)
    assert two.variance == pytest.approx(scale**2 * one.variance, rel=1e-5)
    assert two.freedom == pytest.approx(one.freedom, rel=1e-5)
    assert one.freedom >= 1
    low, high = two.interval()
    assert low < two.mean < high
    assert two.visible(tests=10) > two.visible() > (high - low) / 2


def test_what_has_one_level_is_left_out_and_named() -> None:
    levels = grid(1, 1, 6, 5)
    y = np.random.default_rng(6).normal(size=30)
    found = estimate(y, levels)
    assert (found.fixed, found.this_run, found.levels) == (("seed", "template"), True, {"profession": 6, "term": 5})
    assert found.variance == estimate(y, {name: levels[name] for name in ("profession", "term")}).variance
    assert not estimate(y, {name: levels[name] for name in ("template", "profession")}).this_run
    unknown = estimate([0.3], {"pair": [0]})
    assert (unknown.interval(), unknown.p, unknown.visible()) == ((-math.inf, math.inf), 1.0, math.inf)
    assert unknown.interval(bounds=(0.0, 1.0)) == (0, 1)
    assert unknown.interval(bounds=(-1.0, 1.0)) == (-1, 1)
    for bad in ({}, {"pair": [0, 1], "term": [0]}, {"pair": []}):
        with pytest.raises(ValueError, match="a level of every row"):
            estimate([1.0, 2.0], bad)
    with pytest.raises(ValueError, match="2 rows"):
        estimate([1.0], {"pair": [0, 1]})


def test_intervals_within_bounds() -> None:
    wide = Estimate(0.9, 0.04, 3.0, 20, {"pair": 20})
    assert wide.interval(bounds=(-1.0, 1.0)) == (pytest.approx(wide.interval()[0]), 1.0)
    low, high = wide.interval(bounds=(0.0, 1.0))
    assert 0 < low < 0.9 < high < 1
    assert Estimate(0.0, 0.0, 1.0, 20, {"pair": 20}).interval(bounds=(0.0, 1.0)) == (
        0.0,
        pytest.approx(3.8415 / (20 + 3.8415), rel=1e-3),
    )
    nothing = Estimate(0.0, 0.0, 1.0, 20, {"pair": 20})
    assert (nothing.p, nothing.interval(), nothing.visible()) == (1.0, (0.0, 0.0), 0.0)
    assert Estimate(0.1, 0.0, 1.0, 20, {"pair": 20}).p == 0


def test_by_level_is_the_estimate_of_a_part() -> None:
    levels, random = grid(3, 5, 4, 3), np.random.default_rng(7)
    y = random.normal(size=180) + random.normal(size=4)[levels["profession"]]
    found = by_level(y, levels, "profession")
    assert [level for level, _ in found] == [0, 1, 2, 3]
    for level, part in found:
        inside = levels["profession"] == level
        assert part == estimate(y[inside], {k: v[inside] for k, v in levels.items() if k != "profession"})
    assert all(part.this_run for _, part in by_level(y, levels, "seed"))
    (_, alone), _ = by_level([0.1, 0.2], {"pair": np.array([3, 5])}, "pair")
    assert alone.variance == math.inf

    two = grid(2, 5, 4, 3)
    y = random.normal(size=120) + np.where(two["profession"] == 0, 0.0, 3.0 * two["seed"])
    lines = [y[two["profession"] == level].reshape(2, -1).mean(axis=1) for level in range(4)]
    floor = np.mean([line.var(ddof=1) / 2 for line in lines])
    (_, agreeing), *_ = by_level(y, two, "profession")  # the two seeds agree here alone
    assert lines[0].var(ddof=1) / 2 < 0.1 * floor <= 0.1 * agreeing.variance


def test_difference() -> None:
    levels, random = grid(5, 4, 3, names=("template", "profession", "term")), np.random.default_rng(8)
    shared = 5 * random.normal(size=60)
    a, b = (random.normal(size=(3, 60)) + random.normal(size=(3, 1)) + shared for _ in "ab")
    found = difference(a, b, levels)
    assert found.mean == pytest.approx(a.mean() - b.mean())
    alone = estimate(a.ravel(), grid3(levels, 3))
    assert alone.variance > 5 * sum(alone.components["seed",] / 3 for _ in "ab")  # most is the rows', which are shared:
    assert found.variance < 0.5 * alone.variance
    assert found.levels == {"seed of a": 3, "seed of b": 3, "template": 5, "profession": 4, "term": 3}
    assert not found.this_run
    swapped = difference(b, a, levels)
    assert (swapped.variance, swapped.freedom, swapped.mean) == pytest.approx(
        (found.variance, found.freedom, -found.mean)
    )
    nothing = np.zeros((1, 60))
    against_nothing = difference(a, nothing, levels, random_b=False)
    assert (against_nothing.variance, against_nothing.freedom) == pytest.approx((alone.variance, alone.freedom))
    one = difference(a[:1], b, levels)
    assert (one.this_run, one.fixed) == (True, ("seed of a",))
    fixed = difference(a[:1], b[:1], levels, random_a=False, random_b=False)
    assert (fixed.this_run, fixed.variance) == (False, pytest.approx(estimate((a - b)[0], levels).variance))
    assert difference(a, a, levels).p == 1
    pair = difference(a[:, :1], b[:, :1], {"pair": [0]})
    own = [float(x[:, 0].var(ddof=1)) for x in (a, b)]
    assert pair.variance == pytest.approx(sum(max(s, sum(own) / 2) for s in own) / 3)
    with pytest.raises(ValueError, match="60 rows"):
        difference(a[:, :5], b, levels)


def grid3(levels: Levels, seeds: int) -> Levels:
    n = len(levels["template"])
    return {"seed": np.repeat(np.arange(seeds), n), **{name: np.tile(of_row, seeds) for name, of_row in levels.items()}}


def test_what_could_have_been_shown() -> None:
    sure = Estimate(0.0, 4.0, 1e9, 100, {"pair": 100})
    assert sure.visible() == pytest.approx(2 * 2.8016, rel=1e-3)
    assert sure.visible(tests=10) == pytest.approx(2 * (stats.norm.ppf(0.9975) + stats.norm.ppf(0.8)), rel=1e-3)
    random = np.random.default_rng(9)
    first, second = (random.chisquare(5, size=40_000) / 5 for _ in range(2))
    shown = visible(Variance(first, np.full(40_000, 5.0), first)) + random.normal(size=40_000)
    assert (shown > stats.t.ppf(0.975, 5) * np.sqrt(second)).mean() == pytest.approx(0.8, abs=0.01)


@pytest.fixture(scope="module")
def simulation() -> Any:
    return load_benchmark("bias")


def test_a_planted_bias_is_covered(simulation: Any) -> None:
    """The simulation of benchmarks/bias.py in small. Rows taken as independent would not do."""
    cell = (simulation.SMALL, simulation.WORLDS["typical"], 3)
    design = simulation.SMALL.whole(3)
    (model,) = simulation.draw(np.random.default_rng(1), *cell, 400)
    values = model.values(0.05)
    mean, of = values.mean(axis=-1), design.variance(values)
    inside = simulation.holds(interval(mean, of, design.counted, bounds=(-1.0, 1.0)), 0.05).mean()
    assert 0.94 <= inside <= 0.995
    assert of.v.mean() == pytest.approx(mean.var(), rel=0.25)
    half = 1.96 * values.std(axis=-1) / math.sqrt(values.shape[1])
    assert (np.abs(mean - 0.05) <= half).mean() < 0.5
    one = estimate(values[0], design.levels)  # what the simulation looks at is what is shipped
    assert (one.variance, one.freedom) == pytest.approx((of.v[0], of.freedom[0]))
    assert one.visible() == pytest.approx(visible(of)[0])


@pytest.mark.full
def test_coverage_false_alarms_and_power(simulation: Any) -> None:
    for plan in ("8 × 10 × 4", "400 in 40"):
        for name in ("typical", "seeds dominate"):
            for seeds in (1, 2, 3, 5):
                cell = (simulation.PLANS[plan], simulation.WORLDS[name], seeds)
                row = simulation.of_means(cell, 1500)
                for bias in simulation.BIASES:
                    assert row[f"covers {bias}"]["share"] >= 0.915, row
                assert row["false alarms"]["share"] <= 0.085, row
                assert simulation.of_differences(cell, 1000)["size"]["share"] <= 0.085
                if seeds != 2:
                    assert 0.68 <= simulation.of_visible(cell, 1000)["shown"]["share"] <= 0.9


@pytest.mark.full
def test_the_simulated_professions_are_by_level(simulation: Any) -> None:
    plan, seeds = simulation.SMALL, 2
    (model,) = simulation.draw(np.random.default_rng(2), plan, simulation.WORLDS["seeds dominate"], seeds, 1)
    values, levels = model.values(0.0)[0], plan.whole(seeds).levels
    found = by_level(values, levels, "profession")
    design, rows = simulation.of_a_profession(plan, seeds)
    parts = values[rows]
    of = design.variance(parts, design.of_seeds(parts).mean())
    assert holm([x.p for _, x in found]) == pytest.approx(holm(p_value(parts.mean(axis=-1), of)))
    assert simulation.of_professions((plan, simulation.WORLDS["seeds dominate"], seeds), 800)["any"]["share"] <= 0.07
