"""The fitted learning curve: planted laws, scipy's own optimiser, and how often its intervals hold."""

import numpy as np
import pytest
from scipy.optimize import curve_fit

from heedful.evaluation.statistics.curve import learning_curve

SIZES = (100, 200, 400, 800, 1600)


def law(a: float, b: float, c: float, spread: float = 0.0, seeds: int = 3, seed: int = 0) -> dict[int, np.ndarray]:
    """Of each size (seeds, 1): means alone."""
    noise = np.random.default_rng(seed).normal(0, 1, (len(SIZES), seeds)) * spread
    return {n: (a * n**-b + c + noise[i])[:, None] for i, n in enumerate(SIZES)}


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
    found = learning_curve({n: np.full((2, 1), 0.2 + n / 10_000) for n in SIZES})
    assert found.doubled == found.now == pytest.approx(np.mean([0.2 + n / 10_000 for n in SIZES]))


def test_the_sentence_says_what_the_figures_say() -> None:
    helps = learning_curve(law(2, 0.4, 0.0, 0.003, seed=1))
    assert (helps.verdict, helps.sentence[-23:]) == ("help", "more labels would help.")
    assert helps.sentence.startswith("From 800 to 1,600 rows the error fell by 0.03")
    flat = learning_curve(law(0, 0.4, 0.3, 0.003))
    assert flat.verdict == "hardly"
    assert "would hardly help" in flat.sentence
    unsure = learning_curve(law(0.5, 0.3, 0.1, 0.03, seed=3))
    assert unsure.verdict == "open"
    assert "cannot tell" in unsure.sentence
    alone = learning_curve(law(2, 0.4, 0.0, seeds=1))
    assert (alone.verdict, alone.low, alone.gain_high, alone.last.low) == ("open", None, None, None)
    assert "how sure" in alone.sentence
    few = {n: scores for n, scores in law(2, 0.4, 0.0, 0.003).items() if n > 200}
    assert "three sizes cannot show" in learning_curve(few).sentence
    assert "expects a log-loss of" in learning_curve(few, measure="log-loss").sentence


def test_a_plateau_is_no_promise() -> None:
    """Errors that fell and fall no more: the whole curve promises a gain, what speaks against it is heard."""
    noise = np.random.default_rng(0).normal(0, 0.004, (5, 4, 1))
    plateau = learning_curve({n: 0.12 + 0.06 * max(0, 3 - i) + noise[i] for i, n in enumerate(SIZES)})
    assert plateau.gain_low is not None
    assert plateau.gain_low > 0.01
    assert plateau.verdict == "open"
    assert plateau.sentence.endswith("no promise.")
    assert abs(plateau.last.gain) < 0.01
    assert plateau.lack_of_fit is not None
    assert plateau.lack_of_fit < 0.05


def test_other_examples_widen_the_intervals() -> None:
    """Runs that are wrong on the same examples: the level is unsure, what more rows bring is not."""
    at = np.random.default_rng(0).permutation(400)
    shares = dict(zip(SIZES, (0.32, 0.26, 0.21, 0.18, 0.16), strict=True))
    jitter = (-0.005, 0.0, 0.005)
    errors = {n: np.stack([(at < 400 * (share + j)).astype(float) for j in jitter]) for n, share in shares.items()}
    found = learning_curve(errors)
    means = learning_curve({n: values.mean(axis=1, keepdims=True) for n, values in errors.items()})
    assert (found.a, found.b, found.c) == pytest.approx((means.a, means.b, means.c))
    assert found.low is not None
    assert found.high is not None
    assert means.low is not None
    assert means.high is not None
    assert found.high - found.low > 2 * (means.high - means.low)
    assert found.last.gain == pytest.approx(0.02)
    assert found.last.low is not None
    assert means.last.low is not None
    assert found.last.low < means.last.low


def test_two_sizes_are_no_curve() -> None:
    with pytest.raises(ValueError, match="three or more"):
        learning_curve({100: np.full((1, 1), 0.3), 200: np.full((1, 1), 0.2)})


def test_the_intervals_hold() -> None:
    """At least 88 % of the nominal 95 % intervals of 60 studies have the truth; flat ones cry wolf rarely."""
    inside, wolf, truth = 0, 0, 1.5 * 3200**-0.4 + 0.05
    for seed in range(60):
        found = learning_curve(law(1.5, 0.4, 0.05, 0.01, seed=seed))
        assert found.low is not None
        assert found.high is not None
        inside += found.low <= truth <= found.high
        wolf += learning_curve(law(0, 0.4, 0.3, 0.01, seed=seed)).verdict == "help"
    assert inside >= 53
    assert wolf == 0
