"""What a study of several tasks shows of each: how every setting does on every task, what is forgotten when tasks are
trained in turn, and whether training tasks together helps or hurts each of them. Entries of statistics.json.

Which tasks there are, and what each is judged by, the runs say in their manifests; nothing here knows an objective.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from heedful.evaluation.metrics import Metric
from heedful.evaluation.spread import summarise
from heedful.evaluation.statistics.crossed import (
    SeedsByExamples,
    half_of_difference,
    p_of_difference,
    pooled,
    variance_of_difference,
)
from heedful.evaluation.statistics.size import holm
from heedful.evaluation.statistics.wording import Words, p_text, percent
from heedful.storage.runs import Run
from heedful.studies.values import NotComparableError, aligned, values_of

Matrix = list[list[float | None]]


@dataclass(frozen=True)
class _Trained:
    """A setting as its runs describe it."""

    tasks: Mapping[str, str]
    """Every task that is judged, and the name of the metric that judges it."""
    on: Sequence[str]
    """The tasks that were trained."""
    in_turn: bool
    like: tuple[Any, ...]
    """Which model and tuning."""


def task_statistics(
    runs: Mapping[str, Sequence[Run]], judged: str, metrics: Mapping[str, Metric], alpha: float
) -> dict[str, Any]:
    """The entries "tasks", "forgetting" and "interference", as far as the runs have tasks."""
    trained = {name: one for name, of in runs.items() if (one := _described(of[0])) is not None}
    if not trained:
        return {}
    tasks = {task: metric for one in trained.values() for task, metric in one.tasks.items()}
    made: dict[str, Any] = {"tasks": {"set": judged, "metrics": tasks, "settings": {}}}
    for name, one in trained.items():
        scores = {t: summarise(_scores(runs[name], f"{judged}-{t}", metric)) for t, metric in one.tasks.items()}
        facts = {"trained_on": list(one.on), "in_turn": one.in_turn}
        made["tasks"]["settings"][name] = {**facts, "scores": scores}
    forgotten = [forgetting(name, runs[name], judged) for name, one in trained.items() if one.in_turn]
    made["forgetting"] = [one for one in forgotten if one is not None]
    made["interference"] = _interference(runs, trained, judged, metrics, alpha)
    return {key: entry for key, entry in made.items() if entry}


def _described(run: Run) -> _Trained | None:
    data, asked = run.manifest.data, run.manifest.asked
    tasks = {task: str(about.metric) for task, about in data.tasks.items()}
    like = (json.dumps(asked.model.written, sort_keys=True), asked.tuning.method)
    return _Trained(tasks, data.trained_on, data.in_turn, like) if tasks else None


def _scores(runs: Sequence[Run], name: str, metric: str) -> list[float]:
    every = [run.scores(name).number(metric) for run in runs]
    return [score for score in every if score is not None]


def forgetting(setting: str, runs: Sequence[Run], judged: str) -> dict[str, Any] | None:
    """Over the seeds: the score of each task after each stage, and how far it falls from its best to the end. None
    where no run has such a matrix on the judged set."""
    kept = [run.metrics.forgetting for run in runs if run.metrics.forgetting.matrix(judged)]
    if not kept:
        return None
    tasks = kept[0].tasks
    matrices: list[Matrix] = [one.matrix(judged) for one in kept]
    cells = [[summarise(_known([m[i][j] for m in matrices])) for j in range(len(tasks))] for i in range(len(tasks))]
    falls = [fall for matrix in matrices if (fall := average_forgetting(matrix)) is not None]
    average = summarise(falls)
    return {
        "setting": setting, "set": judged, "tasks": tasks, "metrics": kept[0].metrics, "n": len(matrices),
        **{key: [[cell[key] for cell in line] for line in cells] for key in ("mean", "std")},
        "average": average, "sentence": forgetting_in_words(average, judged, len(tasks) - 1),
    }  # fmt: skip


def average_forgetting(matrix: Matrix) -> float | None:
    """The mean over all tasks but the last of the best score before the last stage minus the final one (Chaudhry and
    others, 2018); None if there is no such task."""
    falls = []
    for task in range(len(matrix) - 1):
        before, last = _known([line[task] for line in matrix[:-1]]), matrix[-1][task]
        if before and last is not None:
            falls.append(max(before) - last)
    return float(np.mean(falls)) if falls else None


def forgetting_in_words(average: Mapping[str, Any], judged: str, earlier: int) -> str:
    mean, std, n = average["mean"], average["std"], average["n"]
    if mean is None:
        return ""
    tasks = "the earlier task scores" if earlier == 1 else f"the {earlier} earlier tasks score"
    spread = f" ± {std:.3f}" if std is not None else ""
    seeds = f"{n} seeds" if n > 1 else "one seed, so how much another would differ is not known"
    over = "" if earlier == 1 else "on average "
    way, whose = "below" if mean >= 0 else "above", "its" if earlier == 1 else "their"
    return (
        f"At the end {tasks} {over}{abs(mean):.3f}{spread} {way} {whose} best before the last task was trained, on "
        f"{judged} ({seeds})."
    )


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _interference(
    runs: Mapping[str, Sequence[Run]],
    trained: Mapping[str, _Trained],
    judged: str,
    metrics: Mapping[str, Metric],
    alpha: float,
) -> list[dict[str, Any]]:
    """Each setting that was trained on several tasks mixed against one that was trained on one of them alone, with the
    same model and tuning: of several such, the best on dev of that task. On the task's own examples, corrected for all
    of these comparisons (Holm)."""
    found: list[dict[str, Any]] = []
    for name, one in trained.items():
        for task in one.on if len(one.on) > 1 and not one.in_turn else ():
            metric = metrics.get(one.tasks[task])
            alone = [s for s, other in trained.items() if list(other.on) == [task] and other.like == one.like]
            if metric is None or not alone:
                continue
            means = {s: summarise(_scores(runs[s], f"dev-{task}", metric.name))["mean"] for s in alone}
            single = max(alone, key=lambda s: -np.inf if means[s] is None else metric.sign * means[s])
            facts: dict[str, Any] = {"task": task, "setting": name, "single": single, "metric": metric.name}
            try:
                facts |= _difference(runs, [name, single], alone, f"{judged}-{task}", metric, alpha)
            except NotComparableError as error:
                facts |= {"difference": None, "p": None, "reason": f"{task}: {error}"}
            found.append(facts)
    tested = [facts for facts in found if facts["p"] is not None]
    if tested:
        for facts, p in zip(tested, holm([facts["p"] for facts in tested]), strict=True):
            facts["p_corrected"] = float(p)
    for facts in found:
        facts["sentence"] = _in_words(facts, metrics[facts["metric"]], judged, len(tested), alpha)
    return found


def _difference(
    runs: Mapping[str, Sequence[Run]],
    pair: Sequence[str],
    alone: Sequence[str],
    name: str,
    metric: Metric,
    alpha: float,
) -> dict[str, Any]:
    """Together minus alone, with its interval and p; no p where one seed stands for a setting."""
    prints = {run.fingerprint(name) for setting in pair for run in runs[setting]}
    if len(prints) > 1:
        raise NotComparableError(f"{pair[0]} and {pair[1]} were tested on other rows")
    rows, _ = values_of(runs[pair[0]][0], name, metric)
    values = {}
    for setting in dict.fromkeys((*pair, *alone)):
        own = [values_of(run, name, metric) for run in runs[setting]]
        values[setting] = SeedsByExamples(np.stack([aligned(*one, rows, name, pair[0]) for one in own]))
    a, b = (values[setting] for setting in pair)
    difference = float(a.score - b.score)
    facts: dict[str, Any] = {"difference": difference, "low": None, "high": None, "p": None, "p_corrected": None}
    facts |= {"seeds": [a.seeds, b.seeds], "examples": a.examples}
    if a.examples > 1:
        together = pooled(list(values.values()))
        of = variance_of_difference(a, b, together)
        half = float(half_of_difference(of, a.examples, 1 - alpha, metric.bounds))
        low, high = metric.bounds
        width = float("inf") if low is None or high is None else high - low
        facts |= {"low": max(difference - half, -width), "high": min(difference + half, width)}
        if min(a.seeds, b.seeds) > 1:
            facts["p"] = float(p_of_difference(a, b, together))
    return facts


def _in_words(facts: Mapping[str, Any], metric: Metric, judged: str, tests: int, alpha: float) -> str:
    if facts["difference"] is None:
        return f"{facts['reason']}, so this is not compared."
    words, d = Words(metric, judged), facts["difference"]
    how = "the same" if d == 0 else words.higher(d)
    start = f"{facts['task']}: trained with the others ({facts['setting']}) it scored {how}"
    start += " as alone" if d == 0 else " than alone"
    start += f" ({facts['single']})"
    if facts["low"] is None:
        return f"{start}, on one example, which shows nothing."
    between = f"{percent(1 - alpha)}: {words.signed(facts['low'])} to {words.signed(facts['high'])}"
    if facts["p_corrected"] is None:
        return f"{start} ({between} for these very runs); one seed says nothing of other seeds."
    many = f", corrected for {tests} comparisons" if tests > 1 else ""
    verdict = ", which is shown" if facts["p_corrected"] <= alpha else ", which cannot be told from chance here"
    return f"{start}{verdict if d else ''} ({between}; {p_text(facts['p_corrected'])}{many})."
