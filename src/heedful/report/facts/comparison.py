"""A study's runs gathered by setting: who scored what over which seeds, and what the baselines scored."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from heedful.evaluation.metrics import METRICS, Metric
from heedful.evaluation.spread import summarise
from heedful.report.facts.run import metrics_of, primary_of
from heedful.storage.reading import mapping, number, records
from heedful.storage.runs import Run, Study, judging_order

MOST_DRAWN = 8
"""Settings that a chart tells apart: as many as the palette has colours."""
MOST_STILLS = 6
"""Settings that have a picture and a table of their own on paper, where the page has a choice of all."""


@dataclass(frozen=True)
class Setting:
    name: str
    facts: dict[str, Any]
    runs: tuple[Run, ...]
    """Those that are done; only they count."""
    unfinished: int

    def summary(self, split: str, metric: str) -> dict[str, Any]:
        return summarise([v for run in self.runs if (v := score(run, split, metric)) is not None])

    def cost(self, key: str) -> dict[str, Any]:
        return summarise([v for run in self.runs if (v := number(mapping(run.manifest, "cost"), key)) is not None])


@dataclass(frozen=True)
class Comparison:
    study: Study
    settings: tuple[Setting, ...]
    """Best first, by the judged score; those without a finished run come last."""
    metrics: dict[str, Metric]
    """Those of the runs, by name."""
    metric: Metric
    """The one that decides."""
    split: str | None
    """The evaluation set by which all are judged; None if no run has a score."""

    @property
    def statistics(self) -> dict[str, Any]:
        """What statistics.json says of the judged set and the deciding metric; empty if it speaks of others."""
        known = self.study.statistics
        alike = known.get("split") == self.split and known.get("metric", "accuracy") == self.metric.name
        return known if alike else {}

    @property
    def not_compared(self) -> dict[str, str]:
        """The settings that could not be compared with the chosen one, each with the reason in words."""
        return {str(one.get("setting")): str(one.get("reason")) for one in records(self.statistics, "not_compared")}

    @property
    def runs(self) -> list[Run]:
        return [run for setting in self.settings for run in setting.runs]

    @property
    def scored(self) -> list[Setting]:
        """The settings that have a judged score."""
        return [s for s in self.settings if self.split and s.summary(self.split, self.metric.name)["n"]]

    @property
    def drawn(self) -> list[Setting]:
        """The best of them, each with a colour of its own."""
        return self.scored[:MOST_DRAWN]

    def baselines(self, split: str, metric: str) -> dict[str, dict[str, Any]]:
        """Each baseline's summary over the seeds; one value where it is the same for every seed, n 0 if undefined."""
        by_name: dict[str, dict[str, float]] = {}
        most = max((_rows(run) for run in self.runs), default=0.0)  # of a learning curve, the baselines with all rows
        for run in [run for run in self.runs if _rows(run) == most]:
            for name, b in run.baselines().items():
                values = by_name.setdefault(name, {}) if mapping(b, split) else {}
                value = number(mapping(b, split), metric)
                if value is not None:
                    values[run.seed] = value
        return {
            name: summarise(list(values.values())[:1] if len(set(values.values())) == 1 else list(values.values()))
            for name, values in by_name.items()
        }

    def best_baseline(self, split: str) -> tuple[str, dict[str, Any]] | None:
        """The strongest one by the deciding metric."""
        summaries = [(name, s) for name, s in self.baselines(split, self.metric.name).items() if s["n"]]
        return max(summaries, key=lambda pair: self.metric.sign * pair[1]["mean"], default=None)

    def baseline_seconds(self, name: str) -> float | None:
        values = [v for run in self.runs if (v := number(run.baselines().get(name, {}), "seconds")) is not None]
        return sum(values) / len(values) if values else None


def compare(study: Study) -> Comparison:
    chosen = records(study.facts, "chosen")
    described = {str(s.get("name", "")): s for s in chosen or records(study.facts, "settings")}
    for entry, _ in study.runs if not chosen else []:
        described.setdefault(str(entry.get("setting", "")), {})
    settings = []
    for name, facts in described.items():
        entries = [(entry, run) for entry, run in study.runs if str(entry.get("setting", "")) == name]
        done = [run for entry, run in entries if run is not None and run.done and entry.get("state", "done") == "done"]
        settings.append(Setting(name, facts, tuple(done), len(entries) - len(done)))
    runs = [run for s in settings for run in s.runs]
    metrics = metrics_of(runs[0]) if runs else dict(METRICS)
    metric = primary_of(runs[0]) if runs else next(iter(metrics.values()))
    split = _common_set(runs, metric)
    return Comparison(study, tuple(_ranked(settings, split, metric)), metrics, metric, split)


def score(run: Run, split: str, metric: str) -> float | None:
    return number(run.scores().get(split, {}), metric)


def overlap(a: dict[str, Any], b: dict[str, Any]) -> bool | None:
    """Whether two intervals touch; None where one of them has none."""
    if a["low"] is None or b["low"] is None:
        return None
    return bool(a["low"] <= b["high"] and b["low"] <= a["high"])


def _common_set(runs: Sequence[Run], metric: Metric) -> str | None:
    """The evaluation set that judges all: test if every run has a score on it, so that none is judged on another."""
    counts: dict[str, int] = {}
    for run in runs:
        for name in run.scores():
            counts[name] = counts.get(name, 0) + (score(run, name, metric.name) is not None)
    most = max(counts.values(), default=0)
    return next((name for name in judging_order(counts) if counts[name] == most), None) if most else None


def _ranked(settings: Sequence[Setting], split: str | None, metric: Metric) -> list[Setting]:
    def place(setting: Setting) -> tuple[bool, float]:
        mean = setting.summary(split, metric.name)["mean"] if split else None
        return (mean is None, 0.0 if mean is None else -metric.sign * mean)

    return sorted(settings, key=place)


def _rows(run: Run) -> float:
    return number(mapping(mapping(run.manifest, "data"), "sizes"), "train") or 0.0
