"""The mean over tasks is the plain average of the tasks' metrics, and its spread that of such an average."""

import numpy as np
import pytest

from heedful.data.task_sets import combined_row
from heedful.evaluation.metrics import CLASS_METRICS, METRICS, NUMBER_METRICS, pseudo_values, scored
from heedful.evaluation.task_mean import JudgedTask, combined_columns, task_mean
from heedful.storage.examples import row_keys


def classes(n: int, c: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    gold = rng.integers(c, size=n)
    predicted = np.where(rng.random(n) < 0.6, gold, rng.integers(c, size=n))
    return {"gold": gold * 1.0, "predicted": predicted * 1.0, "right": (gold == predicted) * 1.0}


def numbers(n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    gold = rng.normal(size=n)
    return {"gold": gold, "predicted": gold + rng.normal(size=n)}


TASKS = [
    JudgedTask(CLASS_METRICS["accuracy"], 2),
    JudgedTask(CLASS_METRICS["macro_f1"], 5),
    JudgedTask(CLASS_METRICS["matthews"], 3),
    JudgedTask(NUMBER_METRICS["spearman"], 0),
]


def parts(seed: int = 0, sizes: tuple[int, ...] = (40, 90, 25, 60)) -> dict[int, dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    return {
        i: numbers(n, rng) if not t.classes else classes(n, t.classes, rng)
        for i, (t, n) in enumerate(zip(TASKS, sizes, strict=True))
    }


@pytest.mark.parametrize("left_out", [None, 0, 3])
def test_it_is_the_plain_average_of_the_tasks_metrics(left_out: int | None) -> None:
    own = {i: columns for i, columns in parts().items() if i != left_out}
    each = [scored(TASKS[i].metric, columns) for i, columns in own.items()]
    metric = task_mean(TASKS)
    columns = combined_columns(own)
    assert scored(metric, columns) == pytest.approx(float(np.mean(each)), rel=1e-12)
    mixed = np.random.default_rng(1).permutation(len(columns["task"]))
    shuffled = {name: column[mixed] for name, column in columns.items()}
    assert scored(metric, shuffled) == pytest.approx(float(np.mean(each)), rel=1e-9)


def test_a_task_of_which_a_class_never_occurs_is_judged_alike() -> None:
    own = parts()
    own[1] = {name: column[own[1]["gold"] + own[1]["predicted"] < 3] for name, column in own[1].items()}
    each = [scored(TASKS[i].metric, columns) for i, columns in own.items()]
    assert scored(task_mean(TASKS), combined_columns(own)) == pytest.approx(float(np.mean(each)), rel=1e-12)


def test_it_is_undefined_where_one_of_the_metrics_is() -> None:
    own = parts()
    own[3]["predicted"] = np.zeros_like(own[3]["predicted"])
    assert scored(task_mean(TASKS), combined_columns(own)) is None


def test_what_each_example_contributes_has_the_spread_of_an_average() -> None:
    """var(T) = Σ var(T_t) / m², each task's by its own examples; and the mean is the score."""
    own = parts()
    score, values = pseudo_values(task_mean(TASKS), combined_columns(own))
    assert values.mean() == pytest.approx(score, rel=1e-12)
    each = [pseudo_values(TASKS[i].metric, columns)[1] for i, columns in own.items()]
    expected = sum(v.var() / len(v) for v in each) / len(own) ** 2
    assert values.var() / len(values) == pytest.approx(expected, rel=1e-9)


def test_its_influence_is_that_of_leaving_one_out() -> None:
    metric = task_mean(TASKS[:3])
    columns = combined_columns({i: c for i, c in parts().items() if i < 3})
    assert metric.influence is not None
    assert metric.value is not None
    assert metric.statistics is not None
    x = metric.statistics(columns)
    n = len(x)
    whole = float(metric.value(x.mean(axis=0)))
    without = metric.value((x.sum(axis=0) - x) / (n - 1))
    jackknife = (n - 1) * (whole - without)
    found = metric.influence(columns)
    assert np.corrcoef(jackknife, found)[0, 1] > 0.9999
    assert np.allclose(jackknife - jackknife.mean(), found, atol=0.12)  # n − 1 of all, or of the task's own


def test_bounds_and_rows() -> None:
    assert task_mean(TASKS[:2]).bounds == (0.0, 1.0)
    assert task_mean(TASKS).bounds == (-0.5, 1.0)
    rows = [combined_row(task, row) for task in range(3) for row in (1, 2, 10**6)]
    assert len(set(rows)) == len(rows) == len(row_keys(rows))
    assert all(m.bounds != (None, None) for m in METRICS.values())
