"""What the runs of a study show together: what score to expect of each setting, who beats whom, and what it would take
to say more. Kept as statistics.json, numbers and sentences side by side.

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
from heedful.evaluation.metrics import Columns, Metric, metric_named
from heedful.evaluation.statistics.classes import Predictions
from heedful.evaluation.statistics.compare import (
    ALPHA,
    Comparison,
    compare_all,
    expected_score,
    facts_of_many_seeds,
    untold,
)
from heedful.evaluation.statistics.crossed import SeedsByExamples, pooled
from heedful.evaluation.statistics.wording import Words, p_text, percent
from heedful.evaluators.protocol import Evaluation
from heedful.storage.examples import places_of, read_examples, read_predictions
from heedful.storage.runs import Run, read_run
from heedful.storage.statistics_record import FORMAT
from heedful.storage.study_record import SettingRecord, StudyRecord
from heedful.storage.whole import write_json
from heedful.studies.parts import direction
from heedful.studies.table import judged_set
from heedful.studies.tasks import task_statistics
from heedful.studies.values import NotComparableError, aligned, baselines_beside, contributions, values_of

Floats = npt.NDArray[np.float64]
Further = Callable[
    [str, Mapping[str, Predictions], Mapping[str, Sequence[Mapping[str, Any]]], str, Metric, bool], dict[str, Any]
]
"""What else an evaluator has to say, as entries of statistics.json, of which those under "settings" join the others. It
is given the name of the chosen setting, which may be a baseline without runs; by evaluation set (the judged one, and
dev if that is another), the predictions of each compared setting with runs and of the chosen baseline, and the examples
in the same order; the name of the judged set; the metric that was asked for; and whether a seed plays a part in the
chosen setting."""
Answers = Callable[[str, str], Evaluation | None]
"""`BaselineSet.evaluate`: what a baseline says of an evaluation set."""
Entries = Callable[[str, Metric], dict[str, Any]]
"""`StudyKind.statistics`: what the kind of study adds, given the judged set and the metric."""


@dataclass
class Compared:
    """The settings that were tested on the same rows."""

    rows: list[int]
    settings: dict[str, SeedsByExamples] = field(default_factory=dict)
    """In the metric's own direction; the mean of a line is a seed's score."""
    baselines: set[str] = field(default_factory=set)
    """Which of them are baselines."""
    floors: set[str] = field(default_factory=set)
    """Which of these are compared with the chosen setting only."""
    left_out: list[dict[str, str]] = field(default_factory=list)
    """The settings that are not compared, each with the reason in words."""


def write_statistics(
    directory: Path,
    study: StudyRecord,
    rows: Sequence[Mapping[str, Any]],
    metrics: Mapping[str, Metric],
    baselines: Mapping[str, Mapping[str, Columns]] | None = None,
    further: Further | None = None,
    answers: Answers | None = None,
    *,
    entries: Entries | None = None,
    chooses: bool = True,
    floors: Mapping[str, Mapping[str, Columns]] | None = None,
    chosen: str | None = None,
    alpha: float = ALPHA,
    look: int = 1,
    difference: float | None = None,
    most_seeds: int | None = None,
) -> dict[str, Any]:
    """Writes statistics.json from the record of the study, the rows of the table and the values of the runs,
    and returns it; there is none, and it is empty, if no run has a score.

    `metrics` are the evaluator's. `baselines` are the columns of each baseline on each evaluation set, the numbers of
    the rows among them under "row", beside those that the runs have judged themselves; `answers` is for one that is
    chosen. `floors` are the columns of baselines that are compared with the chosen setting only. `chosen` is the name
    of the setting, or of the baseline, that dev has chosen; without it, the best on dev of the table, unless the study
    does not choose (`chooses`): then nothing is compared in pairs. `entries` are those of the kind of study. `alpha` is
    the level of this `look` at the data, and two settings that differ by less than `difference` (None: see
    `compare.DIFFERENCE`) are alike; `most_seeds`: how many a setting may ever get.
    """
    path = directory / "statistics.json"
    path.unlink(missing_ok=True)
    judged = judged_set(rows)
    if judged is None:
        return {}
    metric = metric_named(str(next(row["metric"] for row in rows if f"{judged}_mean" in row)), metrics)
    ranked = ranked_settings(rows)
    chosen = (chosen or ranked[0]) if chooses else ""
    runs = _runs(directory, study, [*([chosen] if chosen else []), *(name for name in ranked if name != chosen)])
    content: dict[str, Any] = {"format": FORMAT, "split": judged, "metric": metric.name}
    content |= {"higher_is_better": metric.higher_is_better, "chosen": chosen or None}
    first = next(iter(runs.values()), [])[:1]
    beside = {name: sets for run in first for name, sets in baselines_beside(run, judged, metric).items()}
    competing, floors = {**beside, **(baselines or {})}, floors or {}
    compared = gather_values(runs, {**competing, **floors}, judged, metric, study, chosen)
    compared.floors.update(floors)
    content |= compared_settings(compared, metric, chosen, judged, alpha, look, difference, most_seeds)
    if metric.statistics is None:
        by_name, about = {row["setting"]: row for row in rows}, study.described
        content["settings"] = {
            s: _of_the_table(by_name[s], about.get(s, SettingRecord()), judged, metric) for s in ranked
        }
    if further is not None and content["settings"]:
        with_runs = {n: runs[n] for n in runs if n in content["settings"]}
        random = content["settings"].get(chosen, {}).get("random", True)
        predictions, examples = _predicted(directory, with_runs, chosen, judged, answers)
        made = further(chosen, predictions, examples, judged, metric, random) if judged in predictions else {}
        for name, about in made.pop("settings", {}).items():
            content["settings"][name] |= about
        content |= made
    content |= task_statistics(runs, judged, metrics, alpha)
    content |= entries(judged, metric) if entries is not None else {}
    write_json(path, content)
    return content


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


def _runs(directory: Path, study: StudyRecord, settings: Sequence[str]) -> dict[str, list[Run]]:
    """The finished runs of each setting that has any."""
    done = [entry for entry in study.runs if entry.state == "done"]
    every = {s: [read_run(directory / "runs" / e.name) for e in done if e.setting == s] for s in settings}
    return {setting: runs for setting, runs in every.items() if runs}


def gather_values(
    runs: Mapping[str, Sequence[Run]],
    baselines: Mapping[str, Mapping[str, Columns]],
    judged: str,
    metric: Metric,
    study: StudyRecord,
    chosen: str,
) -> Compared:
    """One value for each seed and example of the settings and baselines that were tested on the chosen one's rows, or
    on those of the first that has such values."""
    about = study.described
    compared = Compared([], baselines={name for name, s in about.items() if s.baseline} | set(baselines))
    if metric.statistics is None:
        reason = f"{metric.title} is not made of one value for each example, so the settings are not compared by it."
        compared.left_out = [{"setting": name, "reason": reason} for name in dict.fromkeys((*runs, *baselines))]
        return compared
    columns = {name: sets[judged] for name, sets in baselines.items() if judged in sets and name not in runs}
    first, prints = "", None
    if chosen in columns:
        first, compared.rows = chosen, [int(row) for row in columns[chosen]["row"]]
    for setting, of_setting in runs.items():
        try:
            own = {run.fingerprint(judged) for run in of_setting}
            if len(own) > 1:
                raise NotComparableError(f"has runs that were tested on different rows of {judged}")
            if prints not in (None, own):
                raise NotComparableError(f"was tested on other rows of {judged} than {first}")
            gathered = [values_of(run, judged, metric) for run in of_setting]
            rows = compared.rows or gathered[0][0]
            values_se = np.stack([aligned(*one, rows, judged, first or setting) for one in gathered])
            first, prints, compared.rows = first or setting, own, rows
            compared.settings[setting] = SeedsByExamples(values_se, not about.get(setting, SettingRecord()).fixed)
        except NotComparableError as error:
            compared.left_out.append({"setting": setting, "reason": f"{setting} {error}, so it is not compared."})
    for name, own_columns in columns.items():
        arrays = {key: np.asarray(column) for key, column in own_columns.items() if key != "row"}
        try:
            values_e = contributions(metric, arrays, f"the baseline {name}")
            rows = [int(row) for row in own_columns["row"]]
            aligned_e = aligned(rows, values_e, compared.rows or rows, judged, first)
            first, compared.rows = first or name, compared.rows or rows
            compared.settings[name] = SeedsByExamples(aligned_e[None], random=False)
        except NotComparableError as error:
            compared.left_out.append({"setting": name, "reason": f"{name} {error}, so it is not compared."})
    return compared


def compared_settings(
    compared: Compared, metric: Metric, chosen: str, judged: str,
    alpha: float, look: int, difference: float | None, most_seeds: int | None,
) -> dict[str, Any]:  # fmt: skip
    """What score to expect of each setting, how all pairs differ, and what this study could have shown."""
    settings, words = compared.settings, Words(metric, judged)
    together = pooled(list(settings.values()))
    facts: dict[str, Any] = {"examples": len(compared.rows)} if compared.rows else {}
    facts |= {"alpha": alpha, "look": look, "settings": {}}
    for name, x in settings.items():
        about: dict[str, Any] = {"baseline": name in compared.baselines, "random": x.random, "seeds": x.seeds}
        facts["settings"][name] = about | {"expected": asdict(expected_score(x, words, together))}
    first = chosen if chosen in settings else next(iter(settings), None)
    found = []
    if first is not None and chosen:
        floors = compared.floors
        found = compare_all(settings, metric, first, alpha, difference, most_seeds, where=judged, floors=floors)
    facts["comparisons"] = [
        asdict(one) | facts_of_many_seeds(settings[one.a], settings[one.b], metric.sign) for one in found
    ]
    with_chosen = [one for one in found if one.a == chosen]
    if with_chosen:
        rivals = [one for one in with_chosen if one.b not in compared.floors] or with_chosen
        most = max(rivals, key=lambda one: metric.sign * float(settings[one.b].score))
        facts["how_many_more"] = {"a": most.a, "b": most.b, **asdict(most.visible)}
        facts["how_many_more"]["sentence"] = _how_many_more(most)
    facts["higher_on_test"] = [_higher(one, words, alpha) for one in with_chosen if metric.better(0, one.difference)]
    facts["not_compared"] = compared.left_out
    return facts


def _how_many_more(one: Comparison) -> str:
    """What could be shown, and what it would take for the second smallest of the differences that are asked for, or
    the smallest where that one is in sight."""
    visible = one.visible
    could = visible.difference
    out_of_sight = [need for need in visible.needs[:2] if could is not None and need.difference < could]
    start = f"Of {one.a} and {one.b}: {visible.sentence[0].lower()}{visible.sentence[1:]}"
    return " ".join([start, *(need.sentence for need in out_of_sight[-1:])])


def _higher(one: Comparison, words: Words, alpha: float) -> dict[str, Any]:
    """A setting that scored better on the set that judges than the chosen one, turned so that it comes first."""
    low, high = (None if end is None else -end for end in (one.high, one.low))
    start = f"{one.b} scored {words.higher(-one.difference)} on {words.where} than {one.a}"
    if low is None or high is None:
        sentence = f"{start}, on one example, which shows nothing."
    else:
        between = f"{percent(1 - alpha)}: {words.signed(low)} to {words.signed(high)}"
        if one.p_corrected is None:
            sentence = f"{start} ({between}); with one seed nothing says whether other seeds would too."
        elif one.better is None:
            sentence = f"{start}, {untold(low, high, one.pairs)} ({between}; {p_text(one.p_corrected)})."
        else:
            sentence = f"{start}, and that is shown ({between}; {p_text(one.p_corrected)}), though dev chose {one.a}."
    facts = {"setting": one.b, "difference": -one.difference, "low": low, "high": high}
    return {**facts, "p_corrected": one.p_corrected, "sentence": sentence}


def _of_the_table(row: Mapping[str, Any], about: SettingRecord, judged: str, metric: Metric) -> dict[str, Any]:
    """Of a metric that is not made of one value for each example: its mean over seeds, and nothing of how sure."""
    mean, std = row[f"{judged}_mean"], row.get(f"{judged}_std")
    sentence = f"{metric.title} {mean:.3f} on {judged}; how sure that is cannot be told of this metric."
    random, seeds = not (about.fixed or (about.random is None and row.get("random") is False)), row.get("n")
    holds_for = "examples" if not random else "this run" if seeds == 1 else "seeds and examples"
    expected = {"mean": mean, "low": None, "high": None, "level": 1 - ALPHA, "std": std, "about": holds_for}
    facts = {
        "baseline": bool(row.get("baseline") if about.baseline is None else about.baseline),
        "random": random,
        "seeds": seeds,
    }
    return {**facts, "expected": {**expected, "sentence": sentence}}


def _predicted(
    study: Path, runs: Mapping[str, Sequence[Run]], chosen: str, judged: str, answers: Answers | None
) -> tuple[dict[str, Predictions], dict[str, Sequence[Mapping[str, Any]]]]:
    """What the runs, and a chosen baseline, say of the judged set and of dev, and the examples that the study has kept
    of these, if they are those that the runs were tested on."""
    predictions: dict[str, Predictions] = {}
    examples: dict[str, Sequence[Mapping[str, Any]]] = {}
    first = chosen if chosen in runs else next(iter(runs), None)
    if first is None:
        return predictions, examples
    for name in dict.fromkeys((judged, "dev")):
        run = runs[first][0]
        kept = read_examples(study / "examples", name, run.fingerprint(name))
        alike = {s: of_s for s, of_s in runs.items() if all(_same_rows(r, run, name) for r in of_s)}
        if kept and first in alike:
            wanted = [example["row"] for example in kept]
            found = {s: [_predictions(r, name, wanted) for r in of_s] for s, of_s in alike.items()}
            judgement = answers(chosen, name) if answers is not None and chosen not in runs else None
            places = None if judgement is None else places_of(judgement.rows, wanted)
            if judgement is not None and places is not None:
                columns = zip(judgement.header, zip(*judgement.predictions(), strict=True), strict=True)
                found[chosen] = [{key: [column[i] for i in places] for key, column in columns}]
            predictions[name], examples[name] = found, kept
    return predictions, examples


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
