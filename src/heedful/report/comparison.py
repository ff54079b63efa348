"""A study's runs gathered by setting: who scored what over which seeds, and what the baselines scored."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from heedful.evaluation.spread import summarise
from heedful.report.files import Run, Study, number, records, table
from heedful.report.run_sections import judged_split, primary_of
from heedful.report.words import higher_is_better

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
        return summarise([v for run in self.runs if (v := number(table(run.manifest, "cost"), key)) is not None])


@dataclass(frozen=True)
class Comparison:
    study: Study
    settings: tuple[Setting, ...]
    """Best first, by the judged score; those without a finished run come last."""
    metric: str
    split: str | None
    """None if no run has a score."""

    @property
    def evidence(self) -> dict[str, Any]:
        """What statistics.json says of the judged split; empty if it speaks of another."""
        found = self.study.statistics
        return found if found.get("split") == self.split else {}

    @property
    def runs(self) -> list[Run]:
        return [run for setting in self.settings for run in setting.runs]

    @property
    def scored(self) -> list[Setting]:
        """The settings that have a judged score."""
        return [s for s in self.settings if self.split and s.summary(self.split, self.metric)["n"]]

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
                values = by_name.setdefault(name, {}) if table(b, split) else {}
                value = number(table(b, split), metric)
                if value is not None:
                    values[run.seed] = value
        return {
            name: summarise(list(values.values())[:1] if len(set(values.values())) == 1 else list(values.values()))
            for name, values in by_name.items()
        }

    def best_baseline(self, split: str, metric: str) -> tuple[str, dict[str, Any]] | None:
        found = {name: summary for name, summary in self.baselines(split, metric).items() if summary["n"]}
        if not found:
            return None
        pick = max if higher_is_better(metric) else min
        return pick(found.items(), key=lambda pair: pair[1]["mean"])

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
    metric = primary_of(runs[0]) if runs else "accuracy"
    split = _common_split(runs)
    return Comparison(study, tuple(_ranked(settings, split, metric)), metric, split)


def score(run: Run, split: str, metric: str) -> float | None:
    return number(run.scores().get(split, {}), metric)


def overlap(a: dict[str, Any], b: dict[str, Any]) -> bool | None:
    """Whether two intervals touch; None where one of them has none."""
    if a["low"] is None or b["low"] is None:
        return None
    return bool(a["low"] <= b["high"] and b["low"] <= a["high"])


def _common_split(runs: Sequence[Run]) -> str | None:
    """The split that judges all: test if every run has a score on it, so that no setting is judged on another."""
    splits = [judged_split(run) for run in runs]
    known = [s for s in splits if s is not None]
    if not known:
        return None
    return known[0] if len(set(splits)) == 1 else "dev" if "dev" in known else known[0]


def _ranked(settings: Sequence[Setting], split: str | None, metric: str) -> list[Setting]:
    sign = -1 if higher_is_better(metric) else 1

    def place(setting: Setting) -> tuple[bool, float]:
        mean = setting.summary(split, metric)["mean"] if split else None
        return (mean is None, 0.0 if mean is None else sign * mean)

    return sorted(settings, key=place)


def _rows(run: Run) -> float:
    return number(table(table(run.manifest, "data"), "sizes"), "train") or 0.0
