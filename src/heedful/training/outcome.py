"""What a finished training is worth: its judgements on every evaluation set, as files."""

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


def dev_judge(recipe: Recipe, parts: Assembly) -> Callable[[], dict[str, Any]] | None:
    """What the loop asks at a mark; None without a dev set that can be scored."""
    if not parts.objective.sets().get("dev"):
        return None
    metric = primary_metric(recipe, parts.objective.metrics)

    def judge() -> dict[str, Any]:
        judgement = parts.objective.judge(parts.tuning.reader, "dev")
        scores = judgement.metrics
        value = parts.objective.mark_score(scores, metric)
        floats = {k: v for k, v in scores.items() if isinstance(v, float) and k != metric.name}
        shown = {metric.name: scores.get(metric.name), **floats}
        score = float("-inf") if value is None else metric.sign * float(value)
        begun = value is not None and value != _before_learning(metric)
        # Training in steps never asks for the loss: its best mark is the first of equals.
        loss = parts.objective.judged_loss(judgement, "dev") if parts.tuning.solve is not None else None
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
    objective = parts.objective
    parts.tuning.train(False)
    objective.calibrate(parts.tuning.reader)
    sets = {name: known for name, known in objective.sets().items() if name != "test" or recipe.evaluation.test}
    judgements = objective.judge_all(parts.tuning.reader, sets)
    for folder in ("predictions", "values"):
        (directory / folder).mkdir(exist_ok=True)
    for name, judgement in judgements.items():
        if judgement.header:
            lines = zip(judgement.rows, judgement.predictions(), strict=True)
            header, path = ["row", *judgement.header], directory / "predictions" / f"{name}.tsv"
            write_lines(path, header, ([row, *line] for row, line in lines))
        if judgement.columns:
            write_values(directory / "values" / f"{name}.tsv", judgement.rows, judgement.columns)
    scored = {name: dict(j.metrics) for name, j in judgements.items() if sets[name]}
    primary = primary_metric(recipe, objective.metrics).name
    metrics: dict[str, Any] = {"primary": primary, "splits": scored, "best": progress.best}
    if recipe.evaluation.baselines:
        scores = known if known is not None else without_values(objective.baselines())
        seen = recipe.evaluation.test
        metrics["baselines"] = {
            n: {k: v for k, v in b.items() if seen or k.partition("-")[0] != "test"} for n, b in scores.items()
        }
    return {**metrics, **objective.conclude(judgements), **parts.tuning.conclude(objective)}


def without_values(baselines: dict[str, Any]) -> dict[str, Any]:
    """Their scores alone."""
    return {name: {k: v for k, v in b.items() if k != "values"} for name, b in baselines.items()}
