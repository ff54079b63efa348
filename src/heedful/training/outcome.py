"""How good a finished model is: its evaluations on every set, as files."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from heedful.evaluation.metrics import Metric
from heedful.recipes.schema import Recipe
from heedful.storage.examples import write_lines, write_values
from heedful.training.assembly import Assembly
from heedful.training.state import Progress


def primary_metric(recipe: Recipe, metrics: tuple[Metric, ...]) -> Metric:
    """What dev is judged by: the one that the recipe names, else the first."""
    wanted = recipe.evaluation.metric
    return metrics[0] if wanted == "auto" else next(m for m in metrics if m.name == wanted)


def dev_judge(recipe: Recipe, parts: Assembly) -> Callable[[int], dict[str, Any]] | None:
    """What the loop asks at a mark; None without a dev set that can be scored."""
    if not parts.data.sets().get("dev"):
        return None
    metric = primary_metric(recipe, parts.evaluator.metrics)

    def judge(stage: int) -> dict[str, Any]:
        evaluation = parts.evaluator.evaluate(parts.tuning.reader, parts.inputs, "dev")
        scores = evaluation.metrics
        value = parts.evaluator.selection_score(scores, metric, stage)
        floats = {k: v for k, v in scores.items() if isinstance(v, float) and k != metric.name}
        shown = {metric.name: scores.get(metric.name), **floats}
        score = float("-inf") if value is None else metric.sign * float(value)
        begun = value is not None and value != _before_learning(metric)
        # Training in steps never asks for the loss: its best mark is the first of equals.
        loss = parts.evaluator.loss(evaluation, "dev") if parts.tuning.solve is not None else None
        return {"score": score, "loss": loss, "begun": begun, "metrics": shown}

    return judge


def _before_learning(metric: Metric) -> float | None:
    """What a model scores that has learned nothing yet: the worst that there is, or no correlation at all."""
    low, high = metric.bounds
    return 0.0 if (low, high) == (-1.0, 1.0) else low if metric.higher_is_better else high


def write_outcome(
    directory: Path, recipe: Recipe, parts: Assembly, progress: Progress, known: dict[str, Any] | None
) -> dict[str, Any]:
    """Calibrates the model, and writes its predictions and values of every evaluation set; returns what metrics.json
    holds. `known`: the baselines' scores, if a study has them for all its runs."""
    evaluator = parts.evaluator
    parts.tuning.train(False)
    evaluator.calibrate(parts.tuning.reader, parts.inputs)
    sets = {name: known for name, known in parts.data.sets().items() if name != "test" or recipe.evaluation.test}
    evaluations = evaluator.evaluate_all(parts.tuning.reader, parts.inputs, sets)
    for folder in ("predictions", "values"):
        (directory / folder).mkdir(exist_ok=True)
    for name, evaluation in evaluations.items():
        if evaluation.header:
            lines = zip(evaluation.rows, evaluation.predictions(), strict=True)
            header, path = ["row", *evaluation.header], directory / "predictions" / f"{name}.tsv"
            write_lines(path, header, ([row, *line] for row, line in lines))
        if evaluation.columns:
            write_values(directory / "values" / f"{name}.tsv", evaluation.rows, evaluation.columns)
    scored = {name: dict(e.metrics) for name, e in evaluations.items() if sets[name]}
    primary = primary_metric(recipe, evaluator.metrics).name
    metrics: dict[str, Any] = {"primary": primary, "splits": scored, "best": progress.best}
    if recipe.evaluation.baselines:
        scores = known if known is not None else without_values(evaluator.baselines().scores())
        seen = recipe.evaluation.test
        metrics["baselines"] = {
            n: {k: v for k, v in b.items() if seen or k.partition("-")[0] != "test"} for n, b in scores.items()
        }
    return {**metrics, **evaluator.conclude(evaluations, progress.stages), **parts.tuning.conclude(parts.inputs)}


def without_values(baselines: dict[str, Any]) -> dict[str, Any]:
    """Their scores alone."""
    return {name: {k: v for k, v in b.items() if k != "values"} for name, b in baselines.items()}
