"""What the files of one run say: its metrics and the one that decides, the set that judges it, its way over dev."""

from collections.abc import Sequence
from typing import Any

from heedful.evaluation.metrics import Metric, metric_named, stated_metrics
from heedful.storage.run_record import Scores
from heedful.storage.runs import Run, judging_order


def metrics_of(run: Run) -> dict[str, Metric]:
    """Those that the run states, by name, in the order in which they are shown."""
    return stated_metrics(run.manifest)


def primary_of(run: Run) -> Metric:
    """The metric that decides: as metrics.json says, else the first of the run's that its scores hold."""
    metrics = metrics_of(run)
    if run.metrics.primary:
        return metric_named(run.metrics.primary, metrics)
    sets = run.metrics.splits.values()
    return next((m for scores in sets for m in scored(run, scores)), next(iter(metrics.values())))


def scored(run: Run, scores: Scores) -> list[Metric]:
    """The metrics of the run that a set of scores holds."""
    return [metric for name, metric in metrics_of(run).items() if name in scores.extra]


def judged_set(run: Run) -> str | None:
    """The evaluation set by which a model is judged: the first that has a score."""
    primary, sets = primary_of(run).name, run.metrics.splits
    return next((name for name in judging_order(sets) if sets[name].number(primary) is not None), None)


def best_baseline(run: Run, name: str, metric: Metric) -> tuple[str, float] | None:
    """The strongest baseline that has this score on this evaluation set."""
    values = [
        (baseline, value)
        for baseline, b in run.metrics.baselines.items()
        if (value := b.scores(name).number(metric.name)) is not None
    ]
    return max(values, key=lambda pair: metric.sign * pair[1], default=None)


def dev_points(run: Run, metric: Metric) -> list[dict[str, Any]]:
    """Step, epoch (None where there are none), mark and score of each evaluation on dev during training."""
    return [
        {"step": line.step, "epoch": line.epoch, "mark": line.mark or float(n), "score": value}
        for n, line in enumerate(run.evaluations, start=1)
        if line.step is not None and (value := line.scores.get(metric.name)) is not None
    ]


def keeps_best(run: Run) -> bool:
    """Whether its weights are those of the best mark on dev; else, of the last."""
    return run.manifest.asked.training.keep == "best"


def chose_on_dev(run: Run) -> bool:
    """Whether dev has chosen its weights among those of several marks."""
    return keeps_best(run) and len(run.evaluations) > 1


def tell_marks_apart(epochs: Sequence[float | None]) -> bool:
    """Whether the epochs of a run's marks do: not where there are none, or several marks in one."""
    return None not in epochs and len(set(epochs)) == len(epochs)


def early_stop(run: Run) -> str:
    """Where training.patience has ended a run, in words; "" if it has not."""
    stop = run.manifest.stopped_early
    return "" if stop.step is None or stop.steps is None else f"at step {stop.step:.0f} of {stop.steps:.0f}"


def place_of_mark(run: Run, mark: float) -> str:
    """Where a mark was in training, in words: after an epoch where each has one mark, else at a step."""
    apart = tell_marks_apart([line.epoch for line in run.evaluations])
    for n, line in enumerate(run.evaluations, start=1):
        if (line.mark or n) == mark:
            if line.epoch is not None and line.epoch == int(line.epoch) and apart:
                return f"after epoch {line.epoch:.0f}"
            if line.step is not None:
                return f"at step {line.step:.0f}"
    return f"at mark {mark:.0f}"
