"""A study's runs gathered by setting: who scored what over which seeds, what was expected and tested of each, and
which one was chosen."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from heedful import plugins
from heedful.errors import RequestError
from heedful.evaluation.metrics import METRICS, Metric
from heedful.evaluation.spread import summarise
from heedful.report.facts.run import metrics_of, primary_of
from heedful.storage.run_record import BaselineScores, Cost, Manifest, Metrics, RecipeView, Scores
from heedful.storage.runs import Run, Study, judging_order
from heedful.storage.statistics_record import FORMAT as STATISTICS
from heedful.storage.statistics_record import ComparisonRecord, Expected, Statistics
from heedful.storage.study_record import SettingRecord, TableRow

MOST_DRAWN = 8
"""Settings that a chart tells apart: as many as the palette has colours."""
MOST_STILLS = 6
"""Settings that have a picture and a table of their own on paper, where the page has a choice of all."""


@dataclass(frozen=True)
class Setting:
    name: str
    record: SettingRecord
    """What study.json says of it."""
    row: TableRow
    """Its row in the table of the study."""
    runs: tuple[Run, ...]
    """Those that are done; only they count."""
    unfinished: int
    borrowed: bool = False
    """A baseline that has no run of its own: its one run here is what the other runs say of it."""

    @property
    def baseline(self) -> bool:
        return bool(self.record.baseline or self.row.baseline)

    def summary(self, split: str, metric: str) -> dict[str, Any]:
        return summarise([v for run in self.runs if (v := score(run, split, metric)) is not None])

    def cost(self, key: str) -> float | None:
        """As the table has it, else the mean over the runs."""
        spent = [v for run in self.runs if (v := run.manifest.cost.number(key)) is not None]
        known = self.row.number(key)
        return known if known is not None else sum(spent) / len(spent) if spent else None


@dataclass(frozen=True)
class Comparison:
    study: Study
    settings: tuple[Setting, ...]
    """The chosen one first, then by the judged score; those without a finished run come last."""
    metrics: dict[str, Metric]
    """Those of the runs, by name."""
    metric: Metric
    """The one that decides."""
    split: str | None
    """The evaluation set by which all are judged; None if no run has a score."""

    @property
    def statistics(self) -> Statistics:
        """What statistics.json says of the judged set and the deciding metric; empty if it speaks of others, or of the
        chosen setting in other words than this version's."""
        known = self.study.statistics
        alike = (known.split, known.metric, known.format) == (self.split, self.metric.name, STATISTICS)
        return known if alike else Statistics()

    @property
    def chosen(self) -> str | None:
        """The setting that is best on dev, which everything is about."""
        return chosen_of(self.study)

    @property
    def alpha(self) -> float:
        return self.statistics.alpha

    def setting(self, name: str | None) -> Setting | None:
        return next((s for s in self.settings if s.name == name), None)

    def expected(self, name: str | None) -> Expected:
        """mean, low and high for other seeds and examples; empty where nothing is known."""
        return self.statistics.about(name).expected

    def against(self, name: str) -> ComparisonRecord:
        """What was found of the chosen setting (a) against this one (b); empty where they were not compared."""
        rows = self.statistics.comparisons
        return next((row for row in rows if (row.a, row.b) == (self.chosen, name)), ComparisonRecord())

    @property
    def not_compared(self) -> dict[str, str]:
        """The settings that could not be compared, each with the reason in words."""
        return {one.setting: one.reason for one in self.statistics.not_compared}

    @property
    def runs(self) -> list[Run]:
        return [run for setting in self.settings if not setting.borrowed for run in setting.runs]

    @property
    def scored(self) -> list[Setting]:
        """The settings that have a judged score."""
        return [s for s in self.settings if self.split and s.summary(self.split, self.metric.name)["n"]]

    @property
    def drawn(self) -> list[Setting]:
        """The first of them, each with a colour of its own."""
        return self.scored[:MOST_DRAWN]

    def baselines(self, split: str, metric: str) -> dict[str, dict[str, Any]]:
        """The summary over the seeds of each baseline that is not a setting; one value where it is the same for every
        seed, n 0 if undefined."""
        by_name: dict[str, dict[str, float]] = {}
        for run in _with_most_rows(self.runs):
            for name, b in run.metrics.baselines.items():
                if self.setting(name) is not None:
                    continue
                values = by_name.setdefault(name, {}) if split in b.sets else {}
                value = b.scores(split).number(metric)
                if value is not None:
                    values[run.seed] = value
        return {
            name: summarise(list(values.values())[:1] if len(set(values.values())) == 1 else list(values.values()))
            for name, values in by_name.items()
        }

    def best_baseline(self, split: str) -> tuple[str, float] | None:
        """Name and mean of the strongest one by the deciding metric, whether it is a setting or not."""
        means = {name: s["mean"] for name, s in self.baselines(split, self.metric.name).items() if s["n"]}
        means |= {s.name: s.summary(split, self.metric.name)["mean"] for s in self.settings if s.baseline}
        known = [(name, mean) for name, mean in means.items() if mean is not None]
        return max(known, key=lambda pair: self.metric.sign * pair[1], default=None)

    def baseline_seconds(self, name: str) -> float | None:
        values = [v for run in self.runs if (v := run.baseline(name).seconds) is not None]
        return sum(values) / len(values) if values else None


def compare(study: Study) -> Comparison:
    record = study.record
    table = {row.setting: row for row in record.table}
    described = {s.name: s for s in record.final_settings or record.settings}
    for entry, _ in study.runs if not record.final_settings else []:
        described.setdefault(entry.setting, SettingRecord())
    competing = {s.name: s for s in record.settings if s.baseline}
    competing |= {name: SettingRecord() for name, row in table.items() if row.baseline and name not in competing}
    tested = study.statistics.settings  # a baseline that is no model has no row, and is compared too
    unsaved = [name for name, about in tested.items() if about.baseline and name not in competing]
    competing |= {name: SettingRecord(baseline=True, random=False) for name in unsaved}
    settings = []
    for name, about in (described | {n: described.get(n) or s for n, s in competing.items()}).items():
        entries = [(entry, run) for entry, run in study.runs if entry.setting == name]
        done = [run for entry, run in entries if run is not None and run.done and entry.state == "done"]
        row = table.get(name, TableRow())
        if name in competing and not entries:
            borrowed = _borrowed(study, name, row)
            settings += [Setting(name, about, row, (borrowed,), 0, borrowed=True)] if borrowed else []
        else:
            settings.append(Setting(name, about, row, tuple(done), len(entries) - len(done)))
    runs = [run for s in settings if not s.borrowed for run in s.runs]
    metrics = metrics_of(runs[0]) if runs else _metrics_without_scores(study)
    metric = primary_of(runs[0]) if runs else _asked_for(study, metrics)
    split = _common_set(runs, metric)
    return Comparison(study, tuple(_ranked(settings, split, metric, chosen_of(study))), metrics, metric, split)


def _metrics_without_scores(study: Study) -> dict[str, Metric]:
    """Those that a run has stated before it failed, else those of the objective that was asked for."""
    for run in (run for _, run in study.runs if run is not None and run.manifest.metrics):
        return metrics_of(run)
    with suppress(RequestError):  # another package's, which is no longer there
        kind = _asked(study).objective.kind
        known = plugins.find("objective", kind).EVALUATOR.METRICS if kind else METRICS.values()
        return {metric.name: metric for metric in known}
    return METRICS


def _asked_for(study: Study, metrics: Mapping[str, Metric]) -> Metric:
    """The metric that the recipe names, else the first."""
    return metrics.get(str(_asked(study).evaluation.metric), next(iter(metrics.values())))


def _asked(study: Study) -> RecipeView:
    return next((setting.asked for setting in study.record.settings), RecipeView())


def chosen_of(study: Study) -> str | None:
    return study.record.chosen.setting or study.statistics.chosen or None


def score(run: Run, split: str, metric: str) -> float | None:
    return run.scores(split).number(metric)


def _borrowed(study: Study, name: str, row: TableRow) -> Run | None:
    """What is known of a baseline, as if it were a run; None if nothing. The row of the table says what it scored; of
    study.json and the runs, those whose settings had other rows to train on mean another one. Where runs differ, what
    the first of the chosen setting says counts, as it does in the statistics."""
    chosen = [entry.setting == chosen_of(study) for entry, _ in study.runs]
    ordered = sorted(range(len(chosen)), key=lambda i: (chosen[i], -i))
    runs = [run for i in ordered if (run := study.runs[i][1]) is not None and run.done]
    means, metric = row.means, str(row.metric)
    known = [run.baseline(name) for run in (runs if means else _with_most_rows(runs))]
    splits: dict[str, Scores] = {}
    seconds = None
    for one in (study.record.baselines.get(name, BaselineScores()), *known):
        if all(one.scores(split).number(metric) in (None, mean) for split, mean in means.items()):
            splits |= one.sets
            seconds = one.seconds if one.seconds is not None else seconds
    for split, mean in means.items():
        splits[split] = Scores.model_validate({**splits.get(split, Scores()).written, metric: mean})
    if not splits:
        return None
    training = row.training_seconds if "training_seconds" in row.written else seconds
    cost = Cost(training_seconds=training, prediction_seconds=row.prediction_seconds, model_bytes=row.model_bytes)
    return Run(study.directory / "baselines" / name, Manifest(state="done", cost=cost), Metrics(splits=splits))


def _common_set(runs: Sequence[Run], metric: Metric) -> str | None:
    """The evaluation set that judges all: test if every run has a score on it, so that none is judged on another."""
    counts: dict[str, int] = {}
    for run in runs:
        for name in run.metrics.splits:
            counts[name] = counts.get(name, 0) + (score(run, name, metric.name) is not None)
    most = max(counts.values(), default=0)
    return next((name for name in judging_order(counts) if counts[name] == most), None) if most else None


def _ranked(settings: Sequence[Setting], split: str | None, metric: Metric, chosen: str | None) -> list[Setting]:
    def place(setting: Setting) -> tuple[bool, bool, float]:
        mean = setting.summary(split, metric.name)["mean"] if split else None
        return (setting.name != chosen, mean is None, 0.0 if mean is None else -metric.sign * mean)

    return sorted(settings, key=place)


def _with_most_rows(runs: Sequence[Run]) -> list[Run]:
    """Of a learning curve, those that were trained on all rows."""
    sizes = [run.manifest.data.sizes.get("train", 0) for run in runs]
    return [run for run, rows in zip(runs, sizes, strict=True) if rows == max(sizes)]
