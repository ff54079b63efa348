"""The spread over seeds against the standard library."""

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heedful.evaluation.spread import summarise


@given(st.lists(st.floats(-100, 100).map(lambda v: round(v, 4)), min_size=2, max_size=12))
def test_equals_the_peer(values: list[float]) -> None:
    found = summarise(values)
    assert found["values"] == values
    assert found["n"] == len(values)
    assert found["mean"] == pytest.approx(statistics.fmean(values))
    assert found["std"] == pytest.approx(statistics.stdev(values))


def test_one_value_has_no_spread_and_none_no_mean() -> None:
    assert summarise([0.5]) == {"mean": 0.5, "std": None, "n": 1, "values": [0.5]}
    assert summarise([])["mean"] is None
    assert summarise([0.5, 0.5])["std"] == 0.0


def test_a_score_that_is_not_a_number_is_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        summarise([0.5, math.nan])
