"""What the files of one run say: its metrics and the one that decides, the set that judges it, its way over dev."""

from collections.abc import Sequence
from typing import Any

from heedful.evaluation.metrics import Metric, metric_named, stated_metrics
from heedful.storage.reading import mapping, number
from heedful.storage.runs import Run, judging_order


def metrics_of(run: Run) -> dict[str, Metric]:
    """Those that the run states, by name, in the order in which they are shown."""
    return stated_metrics(run.manifest)


def primary_of(run: Run) -> Metric:
    """The metric that decides: as metrics.json says, else the first of the run's that its scores hold."""
    metrics = metrics_of(run)
    named = run.metrics.get("primary")
    if isinstance(named, str) and named:
        return metric_named(named, metrics)
    return next((m for scores in run.scores().values() for m in scored(run, scores)), next(iter(metrics.values())))


def scored(run: Run, scores: dict[str, Any]) -> list[Metric]:
    """The metrics of the run that a set of scores holds."""
    return [metric for name, metric in metrics_of(run).items() if name in scores]


def judged_set(run: Run) -> str | None:
    """The evaluation set by which a model is judged: the first that has a score."""
    primary, sets = primary_of(run).name, run.scores()
    return next((name for name in judging_order(sets) if number(sets[name], primary) is not None), None)


def best_baseline(run: Run, name: str, metric: Metric) -> tuple[str, float] | None:
    """The strongest baseline that has this score on this evaluation set."""
    values = [
        (baseline, value)
        for baseline, b in run.baselines().items()
        if (value := number(mapping(b, name), metric.name)) is not None
    ]
    return max(values, key=lambda pair: metric.sign * pair[1], default=None)


def dev_points(run: Run, metric: Metric) -> list[dict[str, Any]]:
    """Step, epoch (None where there are none), mark and score of each evaluation on dev during training."""
    lines = [line for line in run.log if mapping(line, "dev")]
    return [
        {"step": step, "epoch": number(line, "epoch"), "mark": number(line, "mark") or float(n), "score": value}
        for n, line in enumerate(lines, start=1)
        if (step := number(line, "step")) is not None
        and (value := number(mapping(line, "dev"), metric.name)) is not None
    ]


def keeps_best(run: Run) -> bool:
    """Whether its weights are those of the best mark on dev; else, of the last."""
    return bool(mapping(mapping(run.manifest, "recipe"), "training").get("keep", "best") == "best")


def chose_on_dev(run: Run) -> bool:
    """Whether dev has chosen its weights among those of several marks."""
    return keeps_best(run) and sum(bool(mapping(line, "dev")) for line in run.log) > 1


def tell_marks_apart(epochs: Sequence[float | None]) -> bool:
    """Whether the epochs of a run's marks do: not where there are none, or several marks in one."""
    return None not in epochs and len(set(epochs)) == len(epochs)


def early_stop(run: Run) -> str:
    """Where training.patience has ended a run, in words; "" if it has not."""
    facts = mapping(run.manifest, "stopped_early")
    step, steps = number(facts, "step"), number(facts, "steps")
    if step is None or steps is None:
        return ""
    return f"at step {step:.0f} of {steps:.0f}"


def place_of_mark(run: Run, mark: float) -> str:
    """Where a mark was in training, in words: after an epoch where each has one mark, else at a step."""
    lines = [line for line in run.log if mapping(line, "dev")]
    epochs = [number(line, "epoch") for line in lines]
    for n, (line, epoch) in enumerate(zip(lines, epochs, strict=True), start=1):
        if (number(line, "mark") or float(n)) == mark:
            if epoch is not None and epoch == int(epoch) and tell_marks_apart(epochs):
                return f"after epoch {epoch:.0f}"
            step = number(line, "step")
            if step is not None:
                return f"at step {step:.0f}"
    return f"at mark {mark:.0f}"
