"""A temperature that was put in must come out, and the fit may never make the dev loss worse."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax

from heedful.errors import WorkError
from heedful.evaluation.calibration import BOUNDS, apply, before_and_after, fit_temperature
from heedful.evaluation.scores import log_loss


def drawn(n: int, c: int, temperature: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Logits, and labels drawn from softmax(logits / temperature)."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, c)) * 3
    p = apply(logits, temperature)
    return logits, (p.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.5, 6.0])
def test_a_known_temperature_is_recovered(temperature: float) -> None:
    logits, gold = drawn(20_000, 4, temperature)
    assert fit_temperature(logits, gold) == pytest.approx(temperature, rel=0.05)


def test_calibration_error_falls() -> None:
    logits, gold = drawn(5_000, 3, 3.0)
    temperature = fit_temperature(logits, gold)
    found = before_and_after(logits / temperature, gold, temperature)
    assert found["before"]["log_loss"] == pytest.approx(log_loss(gold, apply(logits)))
    assert found["before"]["ece"] > 0.2
    assert found["after"]["ece"] < 0.03
    assert found["after"]["log_loss"] < found["before"]["log_loss"]


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 60), st.integers(2, 5), st.floats(0.01, 100))
def test_the_fit_is_the_least_of_a_fine_grid(seed: int, n: int, c: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    logits, gold = rng.normal(size=(n, c)) * scale, rng.integers(c, size=n)
    found = fit_temperature(logits, gold)
    assert BOUNDS[0] <= found <= BOUNDS[1]
    if (logits.argmax(axis=1) == gold).all():
        assert found == 1.0
        return

    def loss(t: float) -> float:
        return float(-log_softmax(logits / t, axis=1)[np.arange(n), gold].mean())

    assert loss(found) <= min(map(loss, np.geomspace(*BOUNDS, 80))) * (1 + 1e-4)


def test_the_likeliest_class_stays_the_likeliest() -> None:
    logits = np.random.default_rng(1).normal(size=(50, 4)) * 200
    for t in (0.05, 1.0, 20.0):
        p = apply(logits, t)
        assert np.allclose(p.sum(axis=1), 1)
        assert (p.argmax(axis=1) == logits.argmax(axis=1)).all()


def test_broken_logits_are_refused() -> None:
    with pytest.raises(WorkError, match="not all finite"):
        fit_temperature([[np.nan, 1.0]], [0])
    with pytest.raises(ValueError, match="n > 0"):
        fit_temperature(np.zeros((0, 2)), [])
