"""The simulation of benchmarks/coverage.py in small: whoever breaks a formula sees it in how often it holds."""

from types import ModuleType
from typing import Any

import pytest

from tests.support.benchmark_modules import load_benchmark

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def simulation() -> ModuleType:
    return load_benchmark("coverage")


def within(found: dict[str, float], low: float, high: float) -> bool:
    """But for three Monte-Carlo errors of a share at the end of what is allowed."""
    slack = 3 * 0.0125
    return low - slack <= found["share"] <= high + slack


def test_scores_and_differences(simulation: Any) -> None:
    for row in simulation.of_scores(300):
        assert within(row["of three"], 0.93, 0.98), row
        assert row["leaves [0, 1]"]["share"] == 0
    for row in simulation.of_differences(300):
        assert within(row["size"], 0.0, 0.06), row
        assert within(row["size against a fixed one"], 0.0, 0.06 if row["seeds"] > 2 else 0.09), row
        assert within(row["covers"], 0.93, 1.0), row


def test_families_looks_and_planned_power(simulation: Any) -> None:
    assert all(within(row["any"], 0.0, 0.08) for row in simulation.of_families(200))
    assert all(within(row["ever different"], 0.0, 0.06) for row in simulation.of_looks(100, most=8))
    assert all(within(row["shown"], 0.7, 0.9) for row in simulation.of_power(300) if row["seeds"] >= 5)


def test_metrics_that_are_not_means(simulation: Any) -> None:
    for row in simulation.of_metrics(150):
        assert row["seeds"] == 2 or (row["covers"]["share"] > 0.86 and row["size"]["share"] < 0.12), row


def test_a_plateau_is_not_called_a_gain(simulation: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plateau = {name: law for name, law in simulation.LAWS.items() if "plateau" in name}
    monkeypatch.setattr(simulation, "LAWS", plateau)
    for row in simulation.of_curves(60):
        assert row["the whole curve alone"]["share"] > 0.4, row  # else the world would show nothing
        assert row["help"]["share"] <= 0.1, row
