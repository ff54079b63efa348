"""The section of a study's report that asks whether more labels would help."""

from typing import Any

from heedful.evaluation.metrics import Metric
from heedful.evaluation.spread import summarise
from heedful.report.facts.comparison import Comparison
from heedful.report.page import charts
from heedful.report.page.pieces import Block, Column, Figure, Prose, Row, Section, Table
from heedful.report.page.pieces import section as make_section
from heedful.report.page.words import NOTHING, capital, count, mean_and_deviation, plain, title_of
from heedful.storage.statistics_record import Curve, CurvePoint

_STEPS = 40  # points of a drawn curve


def more_labels(c: Comparison) -> Section | None:
    """The score against the number of training rows: each seed, the fitted curve up to twice the rows, a baseline."""
    curves = c.statistics.curves
    if not curves:
        return None
    seeds, lines, names = [], [], []
    for curve in curves:
        names.append(curve.group)
        for point in _whole(curve.points):
            seeds += [{"setting": curve.group, "rows": point.rows, "score": score} for score in point.scores]
        lines += _fitted(curve, c.metric)
    baseline = curves[0].baseline
    theirs = [{"rows": p.rows, "score": summarise(p.scores)["mean"]} for p in _whole(baseline.points)]
    title = c.metric.title
    chart = charts.size_curve(seeds, lines, theirs, f"{title} on {c.split}", names)
    caption = f"{title} on {c.split} against the rows trained on, logarithmic. Dots are seeds."
    if lines:
        caption += " The lines are the fitted curves, drawn on to twice the rows"
        caption += ", with the 95 % interval there." if any("low" in line for line in lines) else "."
    if theirs:
        caption += f" Dashed is {title_of(plain(baseline.name))} on the same rows, the mean over the seeds."
    blocks: list[Block] = [Prose(f"{curve.group}: {_sentence(curve)}") for curve in curves]
    blocks += [Figure("rows", capital(caption), chart), _table(curves, str(c.split), title)]
    note = (
        "The curve is error = a·n^−b + c, fitted to the means; its intervals are for other seeds and, if the metric is "
        "made of one value for each example, for other such examples."
    )
    if c.study.record.search.curve:
        note = (
            "Fewer rows are read more often, so that each size trains for about as many steps. Each seed draws rows of "
            f"its own, fewer being a part of more. {note}"
        )
    return make_section("labels", "Would more labels help?", [*blocks, Prose(note, "note")])


def _sentence(curve: Curve) -> str:
    if curve.fit:
        return plain(curve.fit.sentence)
    if len(_whole(curve.points)) < 3:
        return "two sizes are too few for a curve; name three or more."
    return "no such curve goes with scores whose best is not 1."


def _fitted(curve: Curve, metric: Metric) -> list[dict[str, Any]]:
    """Points of the fitted curve as scores; the last one, at twice the rows, has the interval."""
    fit, points = curve.fit, _whole(curve.points)
    if fit.a is None or fit.b is None or fit.c is None or fit.rows is None or not points:
        return []
    a, b, c, first = fit.a, fit.b, fit.c, float(points[0].rows or 1.0)
    at = [first * (2 * fit.rows / first) ** (i / _STEPS) for i in range(_STEPS + 1)]

    def score(error: float) -> float:
        return 1 - error if metric.higher_is_better else error

    line: list[dict[str, Any]] = [{"setting": curve.group, "rows": n, "score": score(a * n**-b + c)} for n in at]
    if fit.low is not None and fit.high is not None:
        low, high = sorted((score(fit.low), score(fit.high)))
        line[-1] |= {"low": low, "high": high}
    return line


def _table(curves: list[Curve], split: str, title: str) -> Table:
    sizes = sorted({n for curve in curves for n in _by_rows(curve.points)})
    rows = []
    for curve in curves:
        ours = _by_rows(curve.points)
        cells = [mean_and_deviation(ours[n], 3) if n in ours else NOTHING for n in sizes]
        rows.append(Row((curve.group, *cells)))
    theirs = _by_rows([point for curve in curves for point in curve.baseline.points])
    if theirs:
        cells = [mean_and_deviation(theirs[n], 3) if n in theirs else NOTHING for n in sizes]
        name = next(plain(curve.baseline.name) for curve in curves if curve.baseline)
        rows.append(Row((title_of(name), *cells), "baseline"))
    columns = (Column("rows trained on"), *(Column(count(n), numeric=True) for n in sizes))
    return Table(f"{title} on {split} by training rows, mean ± standard deviation", columns, tuple(rows))


def _by_rows(points: list[CurvePoint]) -> dict[int, dict[str, Any]]:
    return {int(point.rows or 0): summarise(point.scores) for point in _whole(points)}


def _whole(points: list[CurvePoint]) -> list[CurvePoint]:
    """Those with a number of rows and the scores of one seed or more."""
    return [point for point in points if point.rows is not None and point.scores]
