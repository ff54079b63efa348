"""The fitted learning curve: planted laws, scipy's own optimiser, and how often its intervals hold."""

import numpy as np
import pytest
from scipy.optimize import curve_fit

from heedful.evaluation.statistics.curve import LearningCurve, learning_curve

SIZES = (100, 200, 400, 800, 1600)


def law(a: float, b: float, c: float, spread: float = 0.0, seeds: int = 3, seed: int = 0) -> dict[int, list[float]]:
    noise = np.random.default_rng(seed).normal(0, 1, (len(SIZES), seeds)) * spread
    return {n: (a * n**-b + c + noise[i]).tolist() for i, n in enumerate(SIZES)}


@pytest.mark.parametrize(("a", "b", "c"), [(1.5, 0.4, 0.08), (3.0, 0.6, 0.0), (0.9, 0.1, 0.05)])
def test_a_planted_law_is_found(a: float, b: float, c: float) -> None:
    found = learning_curve(law(a, b, c))
    assert (found.a, found.b, found.c) == pytest.approx((a, b, c), abs=1e-6)
    assert found.doubled == pytest.approx(a * 3200**-b + c)
    assert (found.low, found.high) == pytest.approx((found.doubled, found.doubled), abs=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_no_worse_than_scipys_optimiser(seed: int) -> None:
    errors = law(1.5, 0.4, 0.08, 0.01, seed=seed)
    found = learning_curve(errors)
    x, y = np.array(SIZES, dtype=float), np.array([np.mean(errors[n]) for n in SIZES])

    def curve(n: np.ndarray, a: float, b: float, c: float) -> np.ndarray:
        return a * n**-b + c

    theirs, _ = curve_fit(curve, x, y, p0=(1, 0.5, 0.1), bounds=([0, 0.02, 0], [np.inf, 2, np.inf]), max_nfev=20_000)
    ours = float(((curve(x, found.a, found.b, found.c) - y) ** 2).sum())
    assert ours <= float(((curve(x, *theirs) - y) ** 2).sum()) + 1e-6  # the powers are a grid


def test_what_rises_is_flat() -> None:
    found = learning_curve({n: [0.2 + n / 10_000] * 2 for n in SIZES})
    assert found.doubled == found.now == pytest.approx(np.mean([0.2 + n / 10_000 for n in SIZES]))


def verdict(found: LearningCurve) -> str:
    return next(w for w in ("would help.", "hardly help", "cannot tell", "how sure") if w in found.sentence)


def test_the_sentence_says_what_the_figures_say() -> None:
    assert verdict(learning_curve(law(2, 0.4, 0.0, 0.003))) == "would help."
    assert verdict(learning_curve(law(0, 0.4, 0.3, 0.003))) == "hardly help"
    assert verdict(learning_curve(law(0.5, 0.3, 0.1, 0.03, seed=3))) == "cannot tell"
    alone = learning_curve(law(2, 0.4, 0.0, seeds=1))
    assert (verdict(alone), alone.low, alone.gain_high) == ("how sure", None, None)
    few = {n: scores for n, scores in law(2, 0.4, 0.0, 0.003).items() if n > 200}
    assert "Three sizes cannot show" in learning_curve(few).sentence
    assert "expects a log-loss of" in learning_curve(few, measure="log-loss").sentence


def test_two_sizes_are_no_curve() -> None:
    with pytest.raises(ValueError, match="three or more"):
        learning_curve({100: [0.3], 200: [0.2]})


def test_the_intervals_hold() -> None:
    """At least 88 % of the nominal 95 % intervals of 60 studies have the truth; flat ones cry wolf rarely."""
    inside, wolf, truth = 0, 0, 1.5 * 3200**-0.4 + 0.05
    for seed in range(60):
        found = learning_curve(law(1.5, 0.4, 0.05, 0.01, seed=seed))
        assert found.low is not None
        assert found.high is not None
        inside += found.low <= truth <= found.high
        wolf += verdict(learning_curve(law(0, 0.4, 0.3, 0.01, seed=seed))) == "would help."
    assert inside >= 53
    assert wolf <= 4
