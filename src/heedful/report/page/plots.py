"""Plain charts for any rows of data: lines, histograms, a grid of values, dots with intervals. Colours and text as in
`charts`."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

import altair as alt

from heedful.report.page.charts import ACCENT, PALETTE, QUIET, Chart, Rows, inline

Marks = Mapping[str, float]
"""Places on the x axis with a name each: dashed lines across the chart."""


def lines(
    rows: Rows,
    x: str,
    y: str,
    by: str | None = None,
    *,
    log_x: bool = False,
    log_y: bool = False,
    points: bool = False,
    marks: Marks | None = None,
) -> Chart:
    """One line for each value of `by`, in the order in which these occur; the names of the columns are the titles."""
    chart = alt.Chart(inline(_renamed(rows, x, y, by)), height=260)
    line = chart.mark_line(strokeWidth=1.7, point=alt.OverlayMarkDef(size=26) if points else False, tooltip=True)
    return cast(
        "Chart", line.encode(x=_axis(rows, alt.X, x, log_x), y=_axis(rows, alt.Y, y, log_y), **_colour(rows, by))
    )


def dots(rows: Rows, x: str, y: str, by: str | None = None, *, log_x: bool = False, log_y: bool = False) -> Chart:
    """A small dot for each row."""
    chart = alt.Chart(inline(_renamed(rows, x, y, by)), height=260).mark_circle(size=24, opacity=0.55, tooltip=True)
    return cast(
        "Chart", chart.encode(x=_axis(rows, alt.X, x, log_x), y=_axis(rows, alt.Y, y, log_y), **_colour(rows, by))
    )


def histogram(
    values: Mapping[str, Sequence[float]], title: str, bins: int = 40, *, marks: Marks | None = None
) -> Chart:
    """Of one or several sets of values on the same bins, as shares."""
    every = [v for one in values.values() for v in one]
    low, high = min(every), max(every)
    width = (high - low) / bins or 1.0
    rows = []
    for name, one in values.items():
        counts = [0] * bins
        for v in one:
            counts[min(bins - 1, int((v - low) / width))] += 1
        rows += [
            {"x": low + i * width, "x2": low + (i + 1) * width, "y": n / len(one), "by": name}
            for i, n in enumerate(counts)
        ]
    chart = alt.Chart(inline(rows), height=240).mark_rect(opacity=0.5, tooltip=True)
    colour = alt.Color("by:N", sort=list(values), scale=alt.Scale(domain=list(values), range=PALETTE[: len(values)]))
    drawn = chart.encode(
        x=alt.X("x:Q", title=title, scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=6)),
        x2="x2:Q",
        y=alt.Y("y:Q", title="share of draws"),
        y2=alt.Y2Datum(0),
        color=colour if len(values) > 1 else alt.value(ACCENT),
    )
    return _marked(drawn, marks, high)


def grid(
    rows: Rows,
    x: str,
    y: str,
    value: str,
    *,
    signed: bool = False,
    full: float | None = None,
    words: str | None = None,
) -> Chart:
    """A matrix as a heat map: the first row of it at the top. `signed` values are blue above zero, orange below. `full`
    has the deepest shade (default: the largest value); `words` is the column with what is written in the cells."""
    xs, ys = (list(dict.fromkeys(row[name] for row in rows)) for name in (x, y))
    made = [{"x": str(r[x]), "y": str(r[y]), "value": r[value], "size": abs(r[value])} for r in rows]
    if words is not None:
        made = [{**cell, "words": str(r[words])} for cell, r in zip(made, rows, strict=True)]
    largest = full or max((row["size"] for row in made), default=1.0) or 1.0
    axis: dict[str, Any] = {"labelAngle": 0, "ticks": False, "domain": False, "grid": False, "labelOverlap": "greedy"}
    row = min(26, 320 // len(ys)) if words is None else 24
    chart = alt.Chart(inline(made), height=max(120 if words is None else 48, row * len(ys))).encode(
        x=alt.X("x:N", sort=[str(v) for v in xs], title=x, axis=alt.Axis(**axis)),
        y=alt.Y("y:N", sort=[str(v) for v in ys], title=y, axis=alt.Axis(**axis)),
    )
    colour = alt.condition("datum.value < 0", alt.value(PALETTE[1]), alt.value(ACCENT))
    shade = alt.Scale(domain=[0, largest], range=[0.02, 0.9 if words is None else 0.7], clamp=True)
    cells = chart.mark_rect(tooltip=True).encode(
        color=colour if signed else alt.value(ACCENT), fillOpacity=alt.FillOpacity("size:Q", scale=shade, legend=None)
    )
    if words is None:
        return cast("Chart", cells)
    return alt.layer(cells, chart.mark_text(color="currentColor", fontSize=11).encode(text="words:N"))


def falls(rows: Rows, tasks: Sequence[str]) -> Chart:
    """Rows of after, task, score, fall: a square of scores with the first stage at the top, the darker the further the
    score has fallen."""
    most = max((row["fall"] for row in rows), default=0.0)
    axis: dict[str, Any] = {"labelAngle": 0, "labelLimit": 110, "ticks": False, "domain": False, "grid": False}
    base = alt.Chart(inline(rows), height=max(100, 34 * len(tasks))).encode(
        x=alt.X("task:N", sort=list(tasks), title="score of", axis=alt.Axis(**axis)),
        y=alt.Y("after:N", sort=list(tasks), title="after training", axis=alt.Axis(**axis)),
    )
    shade = alt.Scale(domain=[0, max(most, 0.05)], range=[0.06, 0.85])
    cells = base.mark_rect(color=PALETTE[1], stroke="currentColor", strokeOpacity=0.12, tooltip=True).encode(
        fillOpacity=alt.FillOpacity("fall:Q", scale=shade, legend=None)
    )
    words = base.mark_text(color="currentColor", fontSize=12).encode(text=alt.Text("score:Q", format=".3f"))
    return alt.layer(cells, words)


def refusals(rows: Rows, wanted: float) -> Chart:
    """Rows of by, threshold, coverage, accuracy, low, high: the share that is right against the share that is answered,
    a line with its band for each value of `by`, and a dashed line at the accuracy that is wanted."""
    unit, names = alt.Scale(domain=[0, 1]), list(dict.fromkeys(str(row["by"]) for row in rows))
    x = alt.X("coverage:Q", scale=unit, title="share of questions answered", axis=alt.Axis(tickCount=5))
    title = "share of these answers that is right"
    base = alt.Chart(inline(rows), height=300).encode(x=x, **_colour(rows, "by"))
    band = base.mark_area(opacity=0.14).encode(y=alt.Y("low:Q", scale=unit, title=title), y2="high:Q")
    fields = ("threshold", "coverage", "accuracy", "low", "high")
    line = base.mark_line(strokeWidth=1.7, point=alt.OverlayMarkDef(size=18)).encode(
        y=alt.Y("accuracy:Q", scale=unit, title=title),
        tooltip=[alt.Tooltip("by:N", title="model"), *(alt.Tooltip(f"{field}:Q", format=".3f") for field in fields)],
    )
    if len(names) == 1:
        band, line = (layer.encode(color=alt.value(ACCENT)) for layer in (band, line))
    goal = alt.Chart(inline([{"y": wanted}])).mark_rule(color=QUIET, strokeDash=[4, 4])
    return alt.layer(band, goal.encode(y=alt.Y("y:Q", scale=unit, title=title)), line)


def _marked(chart: alt.Chart, marks: Marks | None, right: float) -> Chart:
    """With its marks, the names one below the other so that neighbours do not meet, and to the left of those that are
    at the right edge."""
    if not marks:
        return chart
    rows: list[dict[str, Any]]
    rows = [{"x": value, "name": name, "down": 8 + 15 * i} for i, (name, value) in enumerate(marks.items())]
    edge = 0.8 * max(right, *marks.values())
    before, behind = [row for row in rows if row["x"] <= edge], [row for row in rows if row["x"] > edge]
    style: dict[str, Any] = {"fontSize": 11, "color": "currentColor", "opacity": 0.85}
    sides: list[tuple[Rows, dict[str, Any]]] = [
        (before, {"align": "left", "dx": 4}),
        (behind, {"align": "right", "dx": -4}),
    ]
    texts = [
        alt.Chart(inline(some))
        .mark_text(**style, **place)
        .encode(x="x:Q", text="name:N", y=alt.Y("down:Q", scale=None, axis=None))
        for some, place in sides
        if some
    ]
    base = alt.Chart(inline(rows)).encode(x="x:Q")
    layered = alt.layer(chart, base.mark_rule(color=QUIET, strokeDash=[5, 4]), *texts)
    return cast("Chart", layered.resolve_scale(y="independent"))


def _renamed(rows: Rows, x: str, y: str, by: str | None) -> list[dict[str, Any]]:
    """The names of columns are titles, which may hold anything; the fields of a chart are ours."""
    return [{"x": r[x], "y": r[y], "by": "" if by is None else str(r[by])} for r in rows]


def _axis(rows: Rows, channel: Any, title: str, log: bool) -> Any:
    field = "x:Q" if channel is alt.X else "y:Q"
    if not log:
        return channel(field, title=title, scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=6))
    low, high = (math.log10(edge([row[title] for row in rows])) for edge in (min, max))
    powers = range(math.floor(low), math.ceil(high) + 1)
    steps = (1, 3) if len(powers) <= 3 else (1,)  # of its own it rules every digit
    values = [step * 10.0**power for power in powers[:: math.ceil(len(powers) / 9)] for step in steps]
    form = "~e" if low < -3 or high > 5 else ",~r"
    axis = alt.Axis(values=values, format=form)
    return channel(field, title=title, scale=alt.Scale(type="log", nice=False), axis=axis)


def _colour(rows: Rows, by: str | None) -> dict[str, Any]:
    if by is None:
        return {"color": alt.value(ACCENT)}
    names = list(dict.fromkeys(str(row[by]) for row in rows))
    colours = [*PALETTE, QUIET]
    shades = [colours[min(i, len(colours) - 1)] for i in range(len(names))]
    return {"color": alt.Color("by:N", sort=names, scale=alt.Scale(domain=names, range=shades))}


def intervals(rows: Rows, title: str, kinds: Sequence[str] = ()) -> Chart:
    """Rows of name, by (one of `kinds`, in the order of colours), mean, low, high: a dot with its interval for each,
    those of one name beside each other, and a line at zero. Intervals far wider than most are cut off at the edge, or
    the others would be points."""
    names, seen = (list(dict.fromkeys(str(row[key]) for row in rows)) for key in ("name", "by"))
    kinds = list(kinds) or seen
    base = alt.Chart(inline(rows), height=max(70, max(22 * len(names), 15 * len(rows)) + 10)).encode(
        y=alt.Y("name:N", sort=names, title=None, axis=alt.Axis(labelLimit=190, ticks=False, domain=False)),
        color=alt.Color(
            "by:N",
            sort=kinds,
            scale=alt.Scale(domain=kinds, range=[PALETTE[i % len(PALETTE)] for i in range(len(kinds))]),
            legend=alt.Legend(values=seen) if len(seen) > 1 else None,
        ),
        tooltip=[
            alt.Tooltip("name:N", title="name"),
            alt.Tooltip("by:N", title="set"),
            *(alt.Tooltip(f"{field}:Q", format="+.4f") for field in ("mean", "low", "high")),
        ],
    )
    if len(rows) > len(names):
        base = base.encode(yOffset=alt.YOffset("by:N", sort=kinds))
    scale = _with_zero([row[key] for row in rows for key in ("mean", "low", "high") if row[key] is not None])
    bars = base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", scale=scale, title=title), x2="high:Q")
    dots = base.mark_point(filled=True, size=70, opacity=1).encode(
        x=alt.X("mean:Q", scale=scale, title=title, axis=alt.Axis(tickCount=5))
    )
    zero = alt.Chart(inline([{"x": 0}])).mark_rule(color=QUIET, strokeDash=[4, 4])
    return alt.layer(zero.encode(x=alt.X("x:Q", scale=scale, title=title)), bars, dots)


def _with_zero(ends: Sequence[float]) -> alt.Scale:
    """From the least to the greatest end and zero, but no further than a few times as far as three quarters of them."""
    sizes = sorted(abs(end) for end in ends)
    edge = 4 * sizes[(3 * len(sizes)) // 4] if sizes else 0.0
    if not edge or sizes[-1] <= edge:
        return alt.Scale(zero=True, padding=8)
    return alt.Scale(domain=[max(-edge, min(0.0, *ends)), min(edge, max(0.0, *ends))], clamp=True, padding=8)
