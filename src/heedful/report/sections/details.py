"""The sections of a study's report that look inside the scores: confusions, calibration, errors that stay."""

from typing import Any

from heedful.evaluation.spread import summarise
from heedful.report.facts.comparison import MOST_STILLS, Comparison, Setting
from heedful.report.page import charts
from heedful.report.page.pieces import Block, Column, Figure, Row, Section, Table, in_short
from heedful.report.page.pieces import section as make_section
from heedful.report.page.words import figure, mean_and_deviation
from heedful.report.sections.shared import (
    confusion_of,
    confusion_rows,
    confusion_table,
    labels_of,
    reliability_rows,
)
from heedful.storage.reading import mapping, number

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
        matrices = [m for run in s.runs if (m := confusion_of(run.scores().get(c.split, {}), labels)) is not None]
        if matrices and cells + len(labels) ** 2 <= MOST_CELLS:
            sums.append(
                (s.name, [[sum(cell) for cell in zip(*rows, strict=True)] for rows in zip(*matrices, strict=True)])
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


def calibration(c: Comparison) -> Section | None:
    """How far confidence can be believed: a table of all settings, and the bins of each, pooled over its seeds."""
    if c.split is None:
        return None
    lines, rows, names, stills = [], [], [], []
    for s in c.scored:
        error, loss = s.summary(c.split, "ece"), s.summary(c.split, "log_loss")
        if not error["n"]:
            continue
        warmth = summarise([t for run in s.runs if (t := number(run.metrics, "temperature")) is not None])
        cells = (s.name, mean_and_deviation(error), mean_and_deviation(loss), mean_and_deviation(warmth, 3))
        lines.append(Row((*cells, str(error["n"]))))
        pooled = reliability_rows(pooled_bins(s, c.split))
        if pooled:
            names.append(s.name)
            rows += [{**row, "setting": s.name} for row in pooled]
            if len(names) <= MOST_STILLS:
                words = f"Confidence and the share that is right, {s.name}, on {c.split}."
                stills.append((f"reliability-{len(names)}", words, charts.reliability(pooled)))
    for name, summary in c.baselines(c.split, "ece").items():
        if name == "tfidf" and summary["n"]:  # the others have no confidence to speak of
            theirs = c.baselines(c.split, "log_loss").get(name)
            words = figure(theirs["mean"]) if theirs else "–"
            lines.append(Row(("TF-IDF and a linear model", figure(summary["mean"]), words, "–", "1"), "baseline"))
    if not lines:
        return None
    titles = ("calibration error", "log-loss", "temperature")
    columns = (Column("setting"), *(Column(t, numeric=True) for t in titles), Column("n", numeric=True))
    whole = Table(f"Calibration on {c.split}, mean ± standard deviation", columns, tuple(lines))
    blocks: list[Block] = in_short(whole, "settings")
    if rows:
        caption = (
            f"Confidence against the share that is right, on {c.split}, seeds pooled. On the dashed line confidence "
            "means what it says; below it the model is too sure of itself."
        )
        blocks.append(Figure("reliability", caption, charts.reliability(rows, names), tuple(stills)))
    return make_section("calibration", "Calibration", blocks)


def pooled_bins(setting: Setting, split: str) -> list[dict[str, Any]]:
    """The bins of all seeds as if their predictions were one set."""
    pooled: dict[tuple[float, float], dict[str, Any]] = {}
    for run in setting.runs:
        for b in reliability_rows(run.scores().get(split, {}).get("bins")):
            if any(number(b, k) is None for k in ("low", "high", "confidence", "accuracy", "n")):
                continue
            one = pooled.setdefault((b["low"], b["high"]), {"n": 0, "confidence": 0.0, "accuracy": 0.0})
            for k in ("confidence", "accuracy"):
                one[k] = (one[k] * one["n"] + b[k] * b["n"]) / (one["n"] + b["n"])
            one["n"] += b["n"]
    return [{"low": low, "high": high, **one} for (low, high), one in sorted(pooled.items())]


def _labels(c: Comparison, split: str) -> list[str]:
    data = mapping(c.study.facts, "data")
    return next((labels for run in c.runs if (labels := labels_of(data, run.scores().get(split, {})))), [])
