"""Every metric of the tables from its statistics, against the scores; pseudo-values against leaving examples out."""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heedful.errors import RequestError
from heedful.evaluation.metrics import (
    CLASS_METRICS,
    METRICS,
    NUMBER_METRICS,
    Metric,
    class_columns,
    mean_of,
    metric_named,
    number_columns,
    pseudo_values,
    stated_metrics,
)
from heedful.evaluation.scores import score_classes, score_numbers
from heedful.storage.run_record import Manifest


@st.composite
def classes(draw: Any) -> tuple[Mapping[str, np.ndarray], dict[str, Any]]:
    c, n = draw(st.integers(2, 5)), draw(st.integers(1, 30))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    p = rng.dirichlet(np.full(c, draw(st.sampled_from([0.1, 1.0]))), size=n)
    gold = rng.integers(draw(st.integers(1, c)), size=n)
    return class_columns(gold, p), score_classes(gold, p, [str(k) for k in range(c)])


@st.composite
def numbers(draw: Any) -> tuple[Mapping[str, np.ndarray], dict[str, Any]]:
    n = draw(st.integers(1, 30))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    gold = rng.integers(0, draw(st.integers(1, 6)), size=n) * draw(st.sampled_from([1.0, 1e-3, 1e6])) + 1000.0
    predicted = gold + rng.normal(size=n) * draw(st.sampled_from([0.0, 0.1, 100.0]))
    return number_columns(gold, predicted), score_numbers(gold, predicted)


@settings(max_examples=60)
@given(classes() | numbers())
def test_the_mean_of_the_statistics_gives_the_score(case: tuple[Mapping[str, np.ndarray], dict[str, Any]]) -> None:
    columns, scores = case
    seen = 0
    for metric in METRICS.values():
        if metric.name not in scores or metric.statistics is None or metric.value is None:
            continue
        seen += 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            value = float(metric.value(metric.statistics(columns).mean(axis=0)))
        if scores[metric.name] is None:
            assert np.isnan(value)
        else:
            assert value == pytest.approx(scores[metric.name], abs=1e-12, rel=1e-12)
    assert seen >= 4


def left_out(metric: Metric, columns: Mapping[str, np.ndarray]) -> np.ndarray:
    """By brute force; for Spearman's the others are ranked anew."""
    assert metric.statistics is not None
    assert metric.value is not None
    n = len(columns["gold"])
    whole = float(metric.value(metric.statistics(columns).mean(axis=0)))
    found = []
    for e in range(n):
        rest = {name: np.delete(column, e) for name, column in columns.items()}
        found.append(n * whole - (n - 1) * float(metric.value(metric.statistics(rest).mean(axis=0))))
    return np.array(found)


@settings(max_examples=40)
@given(classes() | numbers())
def test_pseudo_values_are_those_of_leaving_out(case: tuple[Mapping[str, np.ndarray], dict[str, Any]]) -> None:
    columns, scores = case
    if len(columns["gold"]) < 3:
        return
    for metric in METRICS.values():
        if scores.get(metric.name) is None or metric.statistics is None:
            continue
        whole, values = pseudo_values(metric, columns)
        assert whole == pytest.approx(scores[metric.name], abs=1e-12, rel=1e-12)
        if metric.influence is not None:
            continue
        np.testing.assert_allclose(values, left_out(metric, columns), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["pearson", "spearman"])
@pytest.mark.parametrize("ties", [False, True])
def test_pulls_on_a_correlation_are_what_leaving_out_does(name: str, ties: bool) -> None:
    """Without an example the others are ranked anew; a pull is the limit of that for many examples."""
    rng = np.random.default_rng(0)
    gold = rng.normal(size=150)
    predicted = 0.8 * gold + 0.6 * rng.normal(size=150)
    if ties:
        gold, predicted = np.round(2 * gold) / 2, np.round(predicted)
    columns = {"gold": gold, "predicted": predicted}
    whole, values = pseudo_values(NUMBER_METRICS[name], columns)
    expected = left_out(NUMBER_METRICS[name], columns)
    assert values.mean() == pytest.approx(whole)
    assert np.corrcoef(values, expected)[0, 1] > 0.999
    assert values.std() == pytest.approx(expected.std(), rel=0.04)


def test_pseudo_values_by_pairs_of_classes() -> None:
    """Once for each pair of classes, they are those of every example by itself."""
    rng = np.random.default_rng(0)
    gold = rng.integers(0, 40, 300).astype(float)
    columns = {"gold": gold, "predicted": np.where(rng.random(300) < 0.9, gold, 0.0)}
    for name in ("macro_f1", "f1", "matthews"):
        whole, values = pseudo_values(CLASS_METRICS[name], columns)
        plain_whole, plain = pseudo_values(replace(CLASS_METRICS[name], of_pairs=False), columns)
        assert whole == pytest.approx(plain_whole)
        np.testing.assert_allclose(values, plain, atol=1e-9)


def test_pseudo_values_of_a_mean_are_its_values() -> None:
    columns = {"right": np.array([1.0, 0.0, 1.0])}
    whole, values = pseudo_values(CLASS_METRICS["accuracy"], columns)
    assert (whole, values.tolist()) == (2 / 3, [1.0, 0.0, 1.0])


def test_the_spread_of_pseudo_values_is_that_of_other_examples() -> None:
    """The jackknife's error of F1 against drawing the examples anew from where they come from."""
    rng = np.random.default_rng(0)

    def draw(n: int) -> dict[str, np.ndarray]:
        gold = (rng.random(n) < 0.3).astype(float)
        return {"gold": gold, "predicted": np.where(rng.random(n) < 0.2, 1 - gold, gold)}

    truth = np.std([pseudo_values(CLASS_METRICS["f1"], draw(300))[0] for _ in range(800)])
    guesses = [np.std(pseudo_values(CLASS_METRICS["f1"], draw(300))[1], ddof=1) / np.sqrt(300) for _ in range(50)]
    assert np.mean(guesses) == pytest.approx(truth, rel=0.1)


def test_one_example_and_metrics_without_values() -> None:
    whole, values = pseudo_values(CLASS_METRICS["macro_f1"], {"gold": np.array([1.0]), "predicted": np.array([1.0])})
    assert (whole, values.tolist()) == (1.0, [1.0])
    with pytest.raises(ValueError, match="ece has no value for each example"):
        pseudo_values(CLASS_METRICS["ece"], {})


def test_the_direction_is_stated_never_guessed() -> None:
    assert {m.name for m in METRICS.values() if not m.higher_is_better} == {"log_loss", "ece", "mse", "mae"}
    assert METRICS["log_loss"].better(0.1, 0.2)
    assert METRICS["accuracy"].better(0.2, 0.1)
    assert not METRICS["accuracy"].better(0.2, 0.2)
    mine = mean_of("cross_loss", "cross loss", True, column="x")
    assert stated_metrics(Manifest.model_validate({"metrics": [mine.stated()]}))["cross_loss"].higher_is_better
    assert list(stated_metrics(Manifest())) == list(METRICS)
    assert list(stated_metrics(Manifest.model_validate({"metrics": [{"name": "loss"}, 3]}))) == list(METRICS)
    with pytest.raises(RequestError, match="nobody states whether a higher or a lower 'word_error' is better"):
        metric_named("word_error", METRICS)
