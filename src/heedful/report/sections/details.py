"""The sections of a study's report that look inside the scores: each class, confusions, calibration."""

from typing import Any

from heedful.evaluation.spread import summarise
from heedful.report.facts.comparison import MOST_STILLS, Comparison, Setting
from heedful.report.page import charts
from heedful.report.page.pieces import Block, Column, Figure, Prose, Role, Row, Section, Table, in_short
from heedful.report.page.pieces import section as make_section
from heedful.report.page.words import count, figure, several, title_of
from heedful.report.sections.shared import (
    confusion_of,
    confusion_rows,
    confusion_table,
    labels_of,
    reliability_rows,
)
from heedful.storage.run_record import ClassScores

_OF_A_CLASS = ("precision", "recall", "f1")
MOST_CELLS = 30_000
"""Cells of all settings' confusion matrices that a page may hold; the best settings come first."""


def confusions(c: Comparison) -> Section | None:
    """The confusions of each setting, summed over its seeds, one setting at a time."""
    if c.split is None:
        return None
    sums: list[tuple[str, list[list[int]]]] = []
    labels = _labels(c, c.split)
    cells = 0
    for s in c.scored:
        matrices = [m for run in s.runs if (m := confusion_of(run.scores(c.split), labels)) is not None]
        if matrices and cells + len(labels) ** 2 <= MOST_CELLS:
            sums.append(
                (
                    title_of(s.name),
                    [[sum(cell) for cell in zip(*rows, strict=True)] for rows in zip(*matrices, strict=True)],
                )
            )
            cells += len(labels) ** 2
    if not sums:
        return None
    names = [name for name, _ in sums]
    rows = [row for name, matrix in sums for row in confusion_rows(labels, matrix, setting=name)]
    stills = tuple(
        (f"confusion-{i}", f"Confusions of {name} on {c.split}.", charts.confusion(confusion_rows(labels, m), labels))
        for i, (name, m) in enumerate(sums[:MOST_STILLS], start=1)
    )
    caption = (
        f"Confusions on {c.split}, summed over the seeds of a setting: rows are the gold classes, the shade is the "
        "share of the row."
    )
    blocks: list[Block | None] = [Figure("confusion", caption, charts.confusion(rows, labels, names), stills)]
    blocks += [confusion_table(f"{name} as a table", labels, matrix) for name, matrix in sums[:MOST_STILLS]]
    return make_section("confusions", "Confusions", blocks)


def classes(c: Comparison) -> Section | None:
    """Each class as the chosen setting finds it: means over its seeds."""
    chosen = c.setting(c.chosen)
    if c.split is None or chosen is None:
        return None
    found: dict[str, list[ClassScores]] = {}
    for run in chosen.runs:
        for label, scores in run.scores(c.split).per_class.items():
            found.setdefault(label, []).append(scores)
    rows = []
    for label, of_seeds in found.items():
        means = [summarise([v for s in of_seeds if (v := s.number(key)) is not None])["mean"] for key in _OF_A_CLASS]
        rows.append(Row((label, *(figure(mean, 3) for mean in means), count(of_seeds[0].support))))
    columns = (Column("class"), *(Column(t, numeric=True) for t in ("precision", "recall", "F1", "examples")))
    seeds = f", mean over {several(len(chosen.runs), 'seed')}" if len(chosen.runs) > 1 else ""
    whole = Table(f"Each class on {c.split}, {title_of(chosen.name)}{seeds}", columns, tuple(rows))
    return make_section("classes", "Class by class", in_short(whole, "classes") if rows else [])


def calibration(c: Comparison) -> Section | None:
    """How far confidence can be believed: a table of all settings, and the bins of each, pooled over its seeds."""
    if c.split is None:
        return None
    lines, rows, names, stills = [], [], [], []
    for s in c.scored:
        error = s.summary(c.split, "ece")
        if not error["n"]:
            continue
        role: Role = "best" if s.name == c.chosen else "baseline" if s.baseline else ""
        lines.append(Row((title_of(s.name), *_before_and_after(s, c.split), str(error["n"])), role))
        pooled = pooled_bins(s, c.split)
        if pooled:
            names.append(title_of(s.name))
            rows += [{**row, "setting": title_of(s.name)} for row in pooled]
            if len(names) <= MOST_STILLS:
                words = f"Confidence and the share that is right, {title_of(s.name)}, on {c.split}."
                stills.append((f"reliability-{len(names)}", words, charts.reliability(pooled)))
    if not lines:
        return None
    titles = ("calibration error before", "after", "log-loss before", "after", "temperature", "n")
    columns = (Column("setting"), *(Column(t, numeric=True) for t in titles))
    whole = Table(f"Calibration on {c.split} before and after the temperature, means", columns, tuple(lines))
    note = "The temperature was fitted on dev and is part of the saved model: its probabilities are those of “after”."
    blocks: list[Block] = [*in_short(whole, "settings"), Prose(note, "note")]
    if rows:
        caption = (
            f"Confidence against the share that is right, on {c.split}, seeds pooled. On the dashed line confidence "
            "means what it says; below it the model is too sure of itself."
        )
        blocks.append(Figure("reliability", caption, charts.reliability(rows, names), tuple(stills)))
    return make_section("calibration", "Calibration", blocks)


def _before_and_after(s: Setting, split: str) -> list[str]:
    """Calibration error and log-loss without and with the temperature, and the temperature: means over the seeds."""
    sets = [run.metrics.calibration[split] for run in s.runs if split in run.metrics.calibration]
    cells = []
    for key in ("ece", "log_loss"):
        before = summarise([v for one in sets if (v := one.before.number(key)) is not None])["mean"]
        after = summarise([v for one in sets if (v := one.after.number(key)) is not None])["mean"]
        if after is None:  # the scores are those of the model that was saved
            after = s.summary(split, key)["mean"]
        cells += [figure(before, 3), figure(after, 3)]
    warmth = summarise([t for run in s.runs if (t := run.metrics.temperature) is not None])
    return [*cells, figure(warmth["mean"], 3)]


def pooled_bins(setting: Setting, split: str) -> list[dict[str, Any]]:
    """The bins of all seeds as if their predictions were one set."""
    pooled: dict[tuple[float, float], dict[str, Any]] = {}
    for run in setting.runs:
        for b in reliability_rows(run.scores(split).bins):
            if None in b.values():
                continue
            one = pooled.setdefault((b["low"], b["high"]), {"n": 0, "confidence": 0.0, "accuracy": 0.0})
            for k in ("confidence", "accuracy"):
                one[k] = (one[k] * one["n"] + b[k] * b["n"]) / (one["n"] + b["n"])
            one["n"] += b["n"]
    return [{"low": low, "high": high, **one} for (low, high), one in sorted(pooled.items())]


def _labels(c: Comparison, split: str) -> list[str]:
    return next((labels for run in c.runs if (labels := labels_of(c.study.record.data, run.scores(split)))), [])
