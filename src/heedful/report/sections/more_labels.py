"""The section of a study's report that asks whether more labels would help."""

from typing import Any

from heedful.evaluation.metrics import Metric
from heedful.evaluation.spread import summarise
from heedful.report.facts.comparison import Comparison
from heedful.report.page import charts
from heedful.report.page.pieces import Block, Column, Figure, Prose, Row, Section, Table
from heedful.report.page.pieces import section as make_section
from heedful.report.page.words import NOTHING, capital, count, mean_and_deviation, plain, title_of
from heedful.storage.reading import mapping, number, records

_STEPS = 40  # points of a drawn curve


def more_labels(c: Comparison) -> Section | None:
    """The score against the number of training rows: each seed, the fitted curve up to twice the rows, a baseline."""
    curves = records(c.statistics, "curves")
    if not curves:
        return None
    seeds, lines, names = [], [], []
    for curve in curves:
        name = plain(curve.get("group"))
        names.append(name)
        for point in _points(curve, "points"):
            seeds += [{"setting": name, "rows": point["rows"], "score": score} for score in point["scores"]]
        lines += _fitted(name, curve, c.metric)
    baseline = mapping(curves[0], "baseline")
    theirs = [{"rows": p["rows"], "score": _mean(p)} for p in _points(baseline, "points")]
    title = c.metric.title
    chart = charts.size_curve(seeds, lines, theirs, f"{title} on {c.split}", names)
    caption = f"{title} on {c.split} against the rows trained on, logarithmic. Dots are seeds."
    if lines:
        caption += " The lines are the fitted curves, drawn on to twice the rows"
        caption += ", with the 95 % interval there." if any("low" in line for line in lines) else "."
    if theirs:
        caption += f" Dashed is {title_of(plain(baseline.get('name')))} on the same rows, the mean over the seeds."
    blocks: list[Block] = [Prose(f"{plain(k.get('group'))}: {_sentence(k)}") for k in curves]
    blocks += [Figure("rows", capital(caption), chart), _table(curves, str(c.split), title)]
    note = (
        "The curve is error = a·n^−b + c, fitted to the means; its intervals are for other seeds and, if the metric is "
        "made of one value for each example, for other such examples."
    )
    if mapping(c.study.facts, "search").get("curve"):
        note = (
            "Fewer rows are read more often, so that each size trains for about as many steps. Each seed draws rows of "
            f"its own, fewer being a part of more. {note}"
        )
    return make_section("labels", "Would more labels help?", [*blocks, Prose(note, "note")])


def _sentence(curve: dict[str, Any]) -> str:
    fit = mapping(curve, "fit")
    if fit:
        return plain(fit.get("sentence"))
    if len(_points(curve, "points")) < 3:
        return "two sizes are too few for a curve; name three or more."
    return "no such curve goes with scores whose best is not 1."


def _fitted(name: str, curve: dict[str, Any], metric: Metric) -> list[dict[str, Any]]:
    """Points of the fitted curve as scores; the last one, at twice the rows, has the interval."""
    fit = mapping(curve, "fit")
    known = {key: number(fit, key) for key in ("a", "b", "c", "rows")}
    sizes = [number(p, "rows") for p in _points(curve, "points")]
    if any(v is None for v in [*known.values(), *sizes]) or not sizes:
        return []
    v, first = {k: float(x or 0.0) for k, x in known.items()}, float(sizes[0] or 1.0)
    at = [first * (2 * v["rows"] / first) ** (i / _STEPS) for i in range(_STEPS + 1)]

    def score(error: float) -> float:
        return 1 - error if metric.higher_is_better else error

    line: list[dict[str, Any]] = [
        {"setting": name, "rows": n, "score": score(v["a"] * n ** -v["b"] + v["c"])} for n in at
    ]
    ends = [number(fit, key) for key in ("low", "high")]
    if ends[0] is not None and ends[1] is not None:
        low, high = sorted((score(ends[0]), score(ends[1])))
        line[-1] |= {"low": low, "high": high}
    return line


def _table(curves: list[dict[str, Any]], split: str, title: str) -> Table:
    sizes = sorted({int(p["rows"]) for k in curves for p in _points(k, "points")})
    rows = []
    for k in curves:
        by_rows = {int(p["rows"]): p["scores"] for p in _points(k, "points")}
        cells = [mean_and_deviation(summarise(by_rows[n]), 3) if n in by_rows else NOTHING for n in sizes]
        rows.append(Row((plain(k.get("group")), *cells)))
    baselines = [mapping(k, "baseline") for k in curves]
    theirs = {int(p["rows"]): summarise(p["scores"]) for baseline in baselines for p in _points(baseline, "points")}
    if theirs:
        cells = [mean_and_deviation(theirs[n], 3) if n in theirs else NOTHING for n in sizes]
        name = next(plain(baseline.get("name")) for baseline in baselines if baseline)
        rows.append(Row((title_of(name), *cells), "baseline"))
    columns = (Column("rows trained on"), *(Column(count(n), numeric=True) for n in sizes))
    return Table(f"{title} on {split} by training rows, mean ± standard deviation", columns, tuple(rows))


def _mean(point: dict[str, Any]) -> float:
    return float(summarise(point["scores"])["mean"])


def _points(curve: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """Those that are whole: a number of rows and the scores of one seed or more."""
    points = []
    for point in records(curve, key):
        scores = [s for s in point.get("scores") or [] if isinstance(s, int | float)]
        if number(point, "rows") is not None and scores:
            points.append({"rows": point["rows"], "scores": scores})
    return points
