"""What the runs of a study show together: who beats whom, on one value for each example. Kept as statistics.json,
numbers and sentences side by side.

Values of several runs are matched by the numbers of their rows, and settings are compared only if they were tested on
the same rows. s seeds, e examples.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from heedful.errors import RequestError
from heedful.evaluation.metrics import Columns, Metric, metric_named, pseudo_values
from heedful.evaluation.statistics.classes import Predictions
from heedful.evaluation.statistics.order import almost_stochastic_order
from heedful.evaluation.statistics.paired import paired_bootstrap, permutation_over_examples
from heedful.evaluation.statistics.size import effect_size, holm, smallest_difference
from heedful.storage.examples import places_of, read_examples, read_predictions, read_values
from heedful.storage.runs import Run, read_run
from heedful.storage.whole import write_json
from heedful.studies.curves import learning_curves
from heedful.studies.parts import direction
from heedful.studies.table import judged_set

Floats = npt.NDArray[np.float64]
Further = Callable[[str, Mapping[str, Predictions], Mapping[str, Sequence[Mapping[str, Any]]], str], dict[str, Any]]
"""What else an objective has to say, as entries of statistics.json. It is given the name of the chosen setting; by
evaluation set (the judged one, and dev if that is another), the predictions of each compared setting and the examples
in the same order; and the name of the judged set."""


@dataclass
class Compared:
    """The settings that were tested on the same rows."""

    rows: list[int]
    values: dict[str, Floats] = field(default_factory=dict)
    """By setting (s, e): higher is better, whatever the metric; the mean of a line is a seed's score, or minus it."""
    left_out: list[dict[str, str]] = field(default_factory=list)
    """The settings that are not compared, each with the reason in words."""


def write_statistics(
    study: Path,
    facts: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    metrics: Mapping[str, Metric],
    baselines: Mapping[str, Mapping[str, Columns]] | None = None,
    further: Further | None = None,
) -> None:
    """Writes statistics.json from what study.json holds (`facts`), the rows of the table and the values of the runs;
    there is none if no run has a score.

    `metrics` are the objective's. `baselines` are the columns of each baseline on each evaluation set, the numbers of
    the rows among them under "row".
    """
    path = study / "statistics.json"
    path.unlink(missing_ok=True)
    judged = judged_set(rows)
    if judged is None:
        return
    metric = metric_named(str(next(row["metric"] for row in rows if f"{judged}_mean" in row)), metrics)
    runs = _runs(study, facts, ranked_settings(rows))
    chosen = next(iter(runs))
    content: dict[str, Any] = {"format": 1, "split": judged, "best": chosen}
    content |= {"metric": metric.name, "higher_is_better": metric.higher_is_better}
    compared = gather_values(runs, judged, metric)
    content |= compare_settings(compared, _of_baselines(baselines or {}, judged, metric, compared.rows))
    if further is not None and compared.values:
        content |= _further(study, further, {name: runs[name] for name in compared.values}, judged)
    curves = learning_curves(study, facts, judged, metric)
    if curves:
        content["curves"] = curves
    write_json(path, content)


def ranked_settings(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The settings with a score on the set that judges, the best on dev first, those without a score on dev last; what
    was stopped early is compared with nothing."""
    judged = judged_set(rows)
    scored = [row for row in rows if f"{judged}_mean" in row]
    scored = [row for row in scored if not row.get("pruned")] or scored

    def place(row: Mapping[str, Any]) -> tuple[bool, float]:
        mean = row.get("dev_mean")
        return mean is None, 0.0 if mean is None else -direction(row) * mean

    return [row["setting"] for row in sorted(scored, key=place)]


def _runs(study: Path, facts: Mapping[str, Any], settings: Sequence[str]) -> dict[str, list[Run]]:
    return {
        setting: [
            read_run(study / "runs" / entry["name"])
            for entry in facts["runs"]
            if (entry["setting"], entry["state"]) == (setting, "done")
        ]
        for setting in settings
    }


def gather_values(runs: Mapping[str, Sequence[Run]], judged: str, metric: Metric) -> Compared:
    """One value for each seed and example of the settings that were tested on the rows of the first one."""
    first = next(iter(runs))
    compared = Compared([])
    if metric.statistics is None:
        reason = f"{metric.title} is not made of one value for each example, so the settings are not compared by it."
        compared.left_out = [{"setting": name, "reason": reason} for name in runs]
        return compared
    prints = {run.fingerprint(judged) for run in runs[first]}
    for setting, of_setting in runs.items():
        try:
            own = {run.fingerprint(judged) for run in of_setting}
            if len(own) > 1:
                raise _NotComparableError(f"has runs that were tested on different rows of {judged}")
            if own != prints:
                raise _NotComparableError(f"was tested on other rows of {judged} than {first}")
            gathered = [_values_of(run, judged, metric) for run in of_setting]
            if setting == first:
                compared.rows = gathered[0][0]
            compared.values[setting] = np.stack([_aligned(*one, compared.rows, judged, first) for one in gathered])
        except _NotComparableError as error:
            compared.left_out.append({"setting": setting, "reason": f"{setting} {error}, so it is not compared."})
            if setting == first:
                break
    return compared


class _NotComparableError(Exception):
    """A reason in words, without its subject."""


def _values_of(run: Run, judged: str, metric: Metric) -> tuple[list[int], Floats]:
    path = run.directory / "values" / f"{judged}.tsv"
    if not path.exists():
        raise _NotComparableError(f"has a run without values for each example (values/{judged}.tsv)")
    rows, columns = read_values(path)
    return rows, _contributions(metric, columns, str(path))


def _contributions(metric: Metric, columns: Columns, where: str) -> Floats:
    """What each example contributes to the score, whose mean they have: the jackknife's bias is not taken off, so that
    differences are those of the scores in the table."""
    try:
        score, values_e = pseudo_values(metric, columns)
    except KeyError as error:
        raise RequestError(f"{where} has no column {error}, which {metric.title} is made of; run again.") from None
    if not np.isfinite(values_e).all() or not np.isfinite(score):
        raise _NotComparableError(f"has a run whose {metric.title} is undefined without one of its examples")
    return np.asarray(metric.sign * (values_e - values_e.mean() + score), dtype=np.float64)


def _aligned(rows: Sequence[int], values_e: Floats, wanted: Sequence[int], judged: str, first: str) -> Floats:
    places = places_of(rows, wanted)
    if places is None:
        raise _NotComparableError(f"was tested on other rows of {judged} than {first}")
    return values_e[places]


def _of_baselines(
    baselines: Mapping[str, Mapping[str, Columns]], judged: str, metric: Metric, rows: Sequence[int]
) -> dict[str, Floats]:
    """The values (1, e) of the baselines that were tested on these very rows."""
    values = {}
    for name, sets in baselines.items():
        columns = sets.get(judged)
        if columns is None or metric.statistics is None or not rows:
            continue
        arrays = {key: np.asarray(column) for key, column in columns.items() if key != "row"}
        try:
            values_e = _contributions(metric, arrays, f"the baseline {name}")
            values[name] = _aligned([int(row) for row in columns["row"]], values_e, rows, judged, "")[None]
        except _NotComparableError:
            continue  # a constant has no correlation to compare with
    return values


def compare_settings(compared: Compared, baselines: Mapping[str, Floats] | None = None) -> dict[str, Any]:
    """The first setting against each of the others and against the baselines, corrected for how many these are."""
    comparisons: list[dict[str, Any]] = []
    names = list(compared.values)
    others = {name: compared.values[name] for name in names[1:]} | dict(baselines or {}) if names else {}
    for name, b_se in others.items():
        a_se = compared.values[names[0]]
        row: dict[str, Any] = {
            "a": names[0],
            "b": name,
            "bootstrap": asdict(paired_bootstrap(a_se, b_se)),
            "permutation": asdict(permutation_over_examples(a_se, b_se)),
        }
        if min(len(a_se), len(b_se)) > 1:
            a_s, b_s = a_se.mean(axis=1).tolist(), b_se.mean(axis=1).tolist()
            pooled = float(np.sqrt((np.var(a_s, ddof=1) + np.var(b_s, ddof=1)) / 2))
            effect = effect_size(a_s, b_s)
            row["order"] = asdict(almost_stochastic_order(a_s, b_s))
            row["effect"] = {**asdict(effect), "g": effect.g if np.isfinite(effect.g) else None}
            row["detectable"] = asdict(smallest_difference(pooled, len(a_s), len(b_s)))
        comparisons.append(row)
    for row, p in zip(comparisons, holm([r["bootstrap"]["p"] for r in comparisons]), strict=True):
        row["p_corrected"] = p
    return {"comparisons": comparisons, "not_compared": compared.left_out}


def _further(study: Path, further: Further, runs: Mapping[str, Sequence[Run]], judged: str) -> dict[str, Any]:
    """What the objective adds, if the study has kept the examples that these runs were tested on."""
    chosen = next(iter(runs))
    predictions: dict[str, Predictions] = {}
    examples: dict[str, Sequence[Mapping[str, Any]]] = {}
    for name in dict.fromkeys((judged, "dev")):
        run = runs[chosen][0]
        kept = read_examples(study / "examples", name, run.fingerprint(name))
        alike = {s: of_s for s, of_s in runs.items() if all(_same_rows(r, run, name) for r in of_s)}
        if kept and chosen in alike:
            wanted = [example["row"] for example in kept]
            predictions[name] = {s: [_predictions(r, name, wanted) for r in of_s] for s, of_s in alike.items()}
            examples[name] = kept
    return further(chosen, predictions, examples, judged) if judged in predictions else {}


def _same_rows(run: Run, other: Run, name: str) -> bool:
    there = (run.directory / "predictions" / f"{name}.tsv").exists()
    return there and run.fingerprint(name) == other.fingerprint(name)


def _predictions(run: Run, name: str, wanted: Sequence[int]) -> dict[str, list[str]]:
    path = run.directory / "predictions" / f"{name}.tsv"
    rows, columns = read_predictions(path)
    places = places_of(rows, wanted)
    if places is None:
        raise RequestError(f"{path} is about other rows than the study; remove this run's directory, and run again.")
    return {key: [column[i] for i in places] for key, column in columns.items()}
