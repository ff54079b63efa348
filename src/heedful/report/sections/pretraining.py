"""The section of a study's report on what longer pretraining brings: the score of models that began from several marks
of one pretraining, a line for each pretraining and whatever else differs."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from heedful.evaluation.spread import summarise
from heedful.report.facts.comparison import MOST_DRAWN, Comparison, Setting, score
from heedful.report.page import charts
from heedful.report.page.pieces import Block, Column, Figure, Prose, Row, Section, Table, in_short
from heedful.report.page.pieces import section as make_section
from heedful.report.page.words import capital, count, mean_and_deviation, plain
from heedful.report.sections.cost import baseline_line
from heedful.report.sections.record import searched
from heedful.storage.run_record import ModelRecord, Trained

_MARK = re.compile(r"[/\\](marks[/\\]\d+|model)[/\\]?$")
"""How the name of a model ends that a run has left."""


@dataclass(frozen=True)
class _Point:
    """A setting whose seeds began from one mark, each perhaps of a pretraining of its own, in which it may have been
    a few steps or tokens sooner; then these are means."""

    line: dict[str, str]
    """What the settings of one line have in common, by what it is."""
    step: float
    tokens: float | None
    scores: tuple[float, ...]


def longer_pretraining(c: Comparison) -> Section | None:
    """Of the tested settings; where a search tested the chosen one alone, of all that it tried."""
    return _section(c) or (_section(searched(c)) if c.study.record.tried else None)


def _section(c: Comparison) -> Section | None:
    points = [point for s in c.settings if not s.baseline and (point := _point(c, s)) is not None]
    lines = _named(points)
    if c.split is None or not any(len({point.step for point in some}) > 1 for some in lines.values()):
        return None
    unit = "step" if any(point.tokens is None for point in points) else "tokens"
    what = "steps of pretraining" if unit == "step" else "tokens read in pretraining"
    best_first = sorted(lines, key=lambda name: -max(c.metric.sign * fmean(p.scores) for p in lines[name]))
    drawn = [name for name in lines if name in best_first[:MOST_DRAWN]]
    rows = [_drawn(name, unit, point) for name in drawn for point in lines[name]]
    title = f"{c.metric.title} on {c.split}"
    chart = charts.bands(rows, unit, title, drawn, baseline_line(c, c.split), what)
    caption = (
        f"{capital(title)} after more and more {what}: means over the seeds; the bands are ± one standard deviation."
    )
    if len(drawn) < len(lines):
        caption += f" Drawn are the best {len(drawn)} of {len(lines)} lines."
    note = "Each point is a setting of the study; whether two of them differ, the tests say."
    blocks: list[Block] = [Figure("pretraining", caption, chart), *in_short(_table(title, lines), "marks")]
    return make_section("pretraining", "What longer pretraining brings", [*blocks, Prose(note, "note")])


def _point(c: Comparison, setting: Setting) -> _Point | None:
    """None if its models began from elsewhere, or have no score."""
    far = [_how_far(run.manifest.model) for run in setting.runs]
    scores = [v for run in setting.runs if (v := score(run, str(c.split), c.metric.name)) is not None]
    step, tokens = _mean([one.step for one in far]), _mean([one.tokens for one in far])
    return None if step is None or not scores else _Point(_line(setting), step, tokens, tuple(scores))


def _how_far(model: ModelRecord) -> Trained:
    """As the run has noted it, else by the name of the mark, which is its step."""
    mark = re.search(r"[/\\]marks[/\\](\d{8,})$", plain(model.source))
    return Trained(step=int(mark[1])) if mark and not model.pretrained else model.pretrained


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known and len(known) == len(values) else None


def _line(setting: Setting) -> dict[str, str]:
    about = setting.record
    values = {key: plain(value) for key, value in about.values.items() if key != "model.name"}
    method = {"tuning.method": about.method} if about.method else {}
    return {"pretraining": _MARK.sub("", plain(about.asked.model.name)), **method, **values}


def _named(points: Sequence[_Point]) -> dict[str, list[_Point]]:
    """The points of each line in the order of their steps, by what tells it from the others."""
    by_line: dict[tuple[tuple[str, str], ...], list[_Point]] = {}
    for point in sorted(points, key=lambda point: point.step):
        by_line.setdefault(tuple(point.line.items()), []).append(point)
    lines = sorted(by_line)
    runs = {dict(line)["pretraining"] for line in lines}
    short = {run: re.sub(r"-seed\{seed\}$", "", re.split(r"[/\\]", run)[-1]) for run in runs}
    titles = short if len(set(short.values())) == len(runs) else {run: run for run in runs}
    differ = {key for line in lines for key, value in line if any(dict(other).get(key) != value for other in lines)}
    named = {}
    for line in lines:
        facts = dict(line)
        parts = [titles[facts["pretraining"]]] if "pretraining" in differ or not differ else []
        parts += [facts["tuning.method"]] if "tuning.method" in differ and "tuning.method" in facts else []
        parts += [f"{k} {v}" for k, v in line if k in differ - {"pretraining", "tuning.method"}]
        named[", ".join(parts) or titles[facts["pretraining"]]] = by_line[line]
    return named


def _drawn(name: str, unit: str, point: _Point) -> dict[str, Any]:
    summary = summarise(point.scores)
    middle, deviation = summary["mean"], summary["std"] or 0.0
    at = point.step if unit == "step" else point.tokens
    row = {"setting": name, unit: at, "score": middle, "low": middle - deviation, "high": middle + deviation}
    return {**row, "seeds": summary["n"]}


def _table(title: str, lines: dict[str, list[_Point]]) -> Table:
    heads = ("steps", "tokens", f"{title}, mean\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}std", "n")
    columns = (Column("pretraining"), *(Column(head, numeric=True) for head in heads))
    rows = []
    for name, points in lines.items():
        for point in points:
            summary = summarise(point.scores)
            cells = (count(point.step), count(point.tokens), mean_and_deviation(summary), str(summary["n"]))
            rows.append(Row((name, *cells)))
    return Table("After how much pretraining, what score", columns, tuple(rows))
