"""Charts as Vega-Lite specifications: rows of plain data in, a chart out.

Text and lines take the colour of the page (`currentColor`) and fills are drawn over it by opacity, so that one
specification serves light, dark and paper. On the page a chart is as wide as its container, as a picture `PNG_WIDTH`.
The names of fields are ours; a user's text is data alone.
"""

import functools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

import altair as alt

from heedful.report.page.words import visible

Chart = alt.Chart | alt.LayerChart | alt.FacetChart
Rows = Sequence[dict[str, Any]]

ACCENT, SECOND, QUIET = "#3b7dd8", "#d9822b", "#7f8894"
PALETTE = [ACCENT, SECOND, "#2f9e77", "#b15bb5", "#c94f4f", "#8f8f2e", "#2aa5b8", "#a0684a"]
"""Each stands out from white and from near-black alike."""
INK = "#22262b"
PNG_WIDTH = 640
FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif'
WIDE = 20
"""How many times the smallest the largest cost is before an axis is logarithmic."""
MOST_COUNTS = 16
"""Classes up to which a confusion matrix has its counts written in."""


def loss_curve(curves: Mapping[str, Rows]) -> Chart:
    """Rows of step, loss, by the name of what they are the loss of: the whole alone, or the whole and its terms."""
    if len(curves) == 1:
        base = alt.Chart(inline(thinned(next(iter(curves.values())), "step", "loss")), height=220)
        line = base.mark_line(color=ACCENT, strokeWidth=1.5, tooltip=True)
        return cast("Chart", line.encode(x=_number("step", "step"), y=_number("loss", "training loss")))
    rows = [{**row, "term": name} for name, rows in curves.items() for row in thinned(rows, "step", "loss")]
    colours = [PALETTE[i % len(PALETTE)] for i in range(len(curves))]
    colour = alt.Color("term:N", sort=list(curves), scale=alt.Scale(domain=list(curves), range=colours))
    line = alt.Chart(inline(rows), height=240).mark_line(strokeWidth=1.5, tooltip=True)
    return cast("Chart", line.encode(x=_number("step", "step"), y=_number("loss", "training loss"), color=colour))


def score_curve(rows: Rows, title: str, best: float | None, baseline: tuple[str, float] | None) -> Chart:
    """Rows of step, score on dev; the step that was kept, and the best baseline for comparison."""
    layers: list[alt.Chart] = [
        alt.Chart(inline(rows), height=220)
        .mark_line(color=ACCENT, strokeWidth=1.5, point=alt.OverlayMarkDef(color=ACCENT, size=36), tooltip=True)
        .encode(x=_number("step", "step"), y=_number("score", title))
    ]
    if best is not None:
        layers.append(
            alt.Chart(inline([{"step": best}]))
            .mark_rule(color=SECOND, strokeDash=[2, 3])
            .encode(x=_number("step", "step"))
        )
    if baseline is not None:
        layers.extend(_baseline(*baseline))
    return alt.layer(*layers)


def bands(
    rows: Rows, unit: str, title: str, settings: Sequence[str], baseline: tuple[str, float] | None, across: str = ""
) -> Chart:
    """Rows of setting, the `unit` of training ("epoch", "step" or "tokens"), score (the mean over seeds), low, high (±
    one deviation), seeds. `across` is the title of the axis of that unit, if it is not the unit's name."""
    base = alt.Chart(inline(rows), height=280).encode(x=_number(unit, across or unit), color=_by_setting(settings))
    ends = {row[key] for row in rows for key in ("low", "high")} | ({baseline[1]} if baseline else set())
    at = _number("score", title)
    if len(ends) == 1:  # an axis without any length has a zero on it, whatever the value
        (only,) = ends
        at.scale = alt.Scale(domain=[only - (abs(only) or 1) / 10, only + (abs(only) or 1) / 10])
    area = base.mark_area(opacity=0.16).encode(y=_number("low", title), y2="high:Q")
    line = base.mark_line(strokeWidth=1.7, point=alt.OverlayMarkDef(size=26)).encode(
        y=at, tooltip=_tips("setting", unit, "score", "low", "high", "seeds")
    )
    return alt.layer(area, line, *(_baseline(*baseline) if baseline else ()))


def confusion(rows: Rows, labels: Sequence[str], choice: Sequence[str] = ()) -> Chart:
    """Rows of gold, predicted, n, share (of the gold class), and setting where `choice` offers settings to pick."""
    base = _picked(alt.Chart(inline(rows), height=max(160, min(26, 900 // len(labels)) * len(labels))), choice)
    few = len(labels) <= MOST_COUNTS
    angle = 0 if len(labels) * max(len(label) for label in labels) <= 36 else -40 if few else -90
    font = 11 if len(labels) <= 24 else 8
    axis: dict[str, Any] = {"labelLimit": 110, "labelFontSize": font, "ticks": False, "domain": False, "grid": False}
    axis["labelOverlap"] = False if few else "greedy"  # it takes slanting labels for their bounding boxes
    base = base.encode(
        x=alt.X("predicted:N", sort=list(labels), title="predicted", axis=alt.Axis(labelAngle=angle, **axis)),
        y=alt.Y("gold:N", sort=list(labels), title="gold", axis=alt.Axis(**axis)),
        tooltip=_tips("gold", "predicted", "n", "share"),
    )
    cells = base.mark_rect(color=ACCENT, stroke="currentColor", strokeOpacity=0.12, strokeWidth=0.5).encode(
        fillOpacity=alt.FillOpacity("share:Q", scale=alt.Scale(domain=[0, 1], range=[0.02, 0.62]), legend=None),
    )
    if not few:
        return cast("Chart", cells)
    return alt.layer(cells, base.mark_text(color="currentColor", fontSize=11).encode(text=alt.Text("n:Q", format=",d")))


def reliability(rows: Rows, choice: Sequence[str] = ()) -> Chart:
    """Rows of low, high, confidence, accuracy, n, and setting where `choice` offers settings to pick."""
    base = _picked(alt.Chart(inline(rows), height=300), choice)
    unit = alt.Scale(domain=[0, 1])
    bars = base.mark_rect(color=ACCENT, opacity=0.22, stroke=ACCENT, strokeWidth=0.5).encode(
        x=alt.X("low:Q", scale=unit, title="confidence", axis=alt.Axis(tickCount=5)),
        x2="high:Q",
        y=alt.Y("accuracy:Q", scale=unit, title="share that is right"),
        y2=alt.Y2Datum(0),
        tooltip=_tips("confidence", "accuracy", "n"),
    )
    points = base.mark_circle(color=ACCENT, opacity=1).encode(
        x=alt.X("confidence:Q", scale=unit, title="confidence"),
        y=alt.Y("accuracy:Q", scale=unit, title="share that is right"),
        size=alt.Size("n:Q", scale=alt.Scale(range=[15, 260]), legend=None),
        tooltip=_tips("confidence", "accuracy", "n"),
    )
    diagonal = (
        alt.Chart(inline([{"x": 0, "y": 0}, {"x": 1, "y": 1}]))
        .mark_line(color=QUIET, strokeDash=[4, 4], strokeWidth=1)
        .encode(x=alt.X("x:Q", scale=unit, title="confidence"), y=alt.Y("y:Q", title="share that is right"))
    )
    return alt.layer(bars, diagonal, points)


def score_against_cost(
    seeds: Rows, means: Rows, title: str, cost: alt.X, groups: Sequence[str], baseline: tuple[str, float] | None
) -> Chart:
    """Every seed as a small dot (setting, group, seed, cost, words, score), each mean as a large one with its interval
    (low, high). `words` are the cost with its unit; a group after those that have a colour is grey."""
    colour = alt.Color("group:N", scale=alt.Scale(domain=list(groups), range=[*PALETTE, QUIET][: len(groups)]))
    small = alt.Chart(inline(seeds), height=280).mark_circle(size=30, opacity=0.45)
    small = small.encode(
        x=cost, y=_number("score", title), color=colour, tooltip=_tips("setting", "seed", "words", "score")
    )
    base = alt.Chart(inline(means)).encode(x=cost, color=colour)
    tips = _tips("setting", "words", "score", "low", "high", "seeds")
    bars = base.mark_rule(strokeWidth=1.6).encode(y=_number("low", title), y2="high:Q", tooltip=tips)
    large = base.mark_point(filled=True, size=120, opacity=1).encode(y=_number("score", title), tooltip=tips)
    return alt.layer(small, bars, large, *(_baseline(*baseline) if baseline else ()))


def cost_axis(title: str, smallest: float, largest: float, form: str = ",~r") -> alt.X:
    """Logarithmic where the costs span more than a factor of `WIDE`; from zero where they span more than two."""
    axis: dict[str, Any] = {"format": form, "labelOverlap": True}
    if 0 < WIDE * smallest < largest:
        powers = range(math.floor(math.log10(smallest)), math.ceil(math.log10(largest)) + 1)
        steps = (1, 3) if len(powers) <= 4 else (1,)
        axis["values"] = [step * 10.0**power for power in powers for step in steps]  # of its own it rules every digit
        scale, title = alt.Scale(type="log", nice=False, padding=24), f"{title}, logarithmic"
    else:
        axis["tickCount"] = 5
        scale = alt.Scale(zero=2 * smallest < largest, nice=True)
    return alt.X("cost:Q", title=title, scale=scale, axis=alt.Axis(**axis))


def size_curve(seeds: Rows, lines: Rows, dashed: Rows, title: str, settings: Sequence[str]) -> Chart:
    """Seeds as dots (setting, rows, score), fitted curves as lines with low and high at their ends, others dashed."""
    rows = alt.X(
        "rows:Q",
        title="training rows, logarithmic",
        scale=alt.Scale(type="log", nice=False, padding=16),
        axis=alt.Axis(tickCount=6, format="~s"),
    )
    colour = _by_setting(settings)
    dots = (
        alt.Chart(inline(seeds), height=280)
        .mark_circle(size=34, opacity=0.7)
        .encode(x=rows, y=_number("score", title), color=colour, tooltip=_tips("setting", "rows", "score"))
    )
    fitted = alt.Chart(inline(lines)).encode(x=rows, color=colour)
    line = fitted.mark_line(strokeWidth=1.5).encode(y=_number("score", title))
    bars = fitted.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=1.5)
    bars = bars.encode(y=_number("low", title), y2="high:Q", tooltip=_tips("setting", "rows", "score", "low", "high"))
    theirs = alt.Chart(inline(dashed)).mark_line(
        color=QUIET, strokeDash=[5, 4], strokeWidth=1.5, point={"color": QUIET}
    )
    return alt.layer(dots, line, bars, theirs.encode(x=rows, y=_number("score", title)))


def class_bars(rows: Rows, labels: Sequence[str]) -> Chart:
    """Rows of label, f1, precision, recall, support; low and high where there are several seeds."""
    bar = max(11, min(24, 700 // len(labels)))
    base = alt.Chart(inline(rows), height=bar * len(labels)).encode(
        y=alt.Y(
            "label:N",
            sort=list(labels),
            title=None,
            axis=alt.Axis(labelLimit=140, labelFontSize=min(11, bar - 2), ticks=False, domain=False),
        )
    )
    bars = base.mark_bar(color=ACCENT, opacity=0.55, height=alt.RelativeBandSize(0.7)).encode(
        x=alt.X("f1:Q", scale=alt.Scale(domain=[0, 1]), title="F1", axis=alt.Axis(tickCount=5)),
        tooltip=_tips("label", "f1", "precision", "recall", "support"),
    )
    return cast("Chart", bars)


def leaderboard(rows: Rows, title: str) -> Chart:
    """Rows of setting, mean, low, high, role (chosen, baseline or other), in their order: dots with intervals."""
    names = [row["setting"] for row in rows]
    roles = alt.Scale(domain=["chosen", "other", "baseline"], range=[ACCENT, SECOND, QUIET])
    base = alt.Chart(inline(rows), height=max(120, 34 * len(rows) + 10)).encode(
        y=alt.Y("setting:N", sort=names, title=None, axis=alt.Axis(labelLimit=150, ticks=False, domain=False)),
        color=alt.Color("role:N", scale=roles, legend=None),
        tooltip=_tips("setting", "mean", "low", "high"),
    )
    scale = alt.Scale(zero=False, padding=8)
    bars = base.mark_rule(strokeWidth=2.2).encode(x=alt.X("low:Q", scale=scale, title=title), x2="high:Q")
    dots = base.mark_point(filled=True, size=110, opacity=1).encode(
        x=alt.X("mean:Q", scale=scale, title=title, axis=alt.Axis(tickCount=5)),
        shape=alt.Shape(
            "role:N", scale=alt.Scale(domain=roles.domain, range=["diamond", "circle", "square"]), legend=None
        ),
    )
    words = base.mark_text(dy=-11, fontSize=11, color="currentColor").encode(
        x=alt.X("mean:Q", scale=scale, title=title),
        text=alt.Text("mean:Q", format=".3f"),
        color=alt.value("currentColor"),
    )
    return alt.layer(bars, dots, words)


def thinned(rows: Rows, x: str, y: str, most: int = 400) -> list[dict[str, Any]]:
    """At most that many points, each the mean of its stretch."""
    stride = math.ceil(len(rows) / most) or 1
    stretches = [rows[i : i + stride] for i in range(0, len(rows), stride)]
    return [{x: s[-1][x], y: sum(r[y] for r in s) / len(s)} for s in stretches]


def for_page(chart: Chart, caption: str = "") -> dict[str, Any]:
    """The specification for the page: the container's width, the page's colours, no address of a schema in it. Whoever
    does not see the chart hears its caption."""
    spec = _specification(chart, "container", "currentColor")
    return {**spec, "description": visible(caption)} if caption else spec


def png(chart: Chart, scale: float = 2) -> bytes:
    """The chart as a picture on white, `scale` times as fine as it is wide."""
    import vl_convert

    spec = _specification(chart, PNG_WIDTH, INK)
    spec["background"] = "white"
    return bytes(vl_convert.vegalite_to_png(_inked(_basic(spec)), vl_version=_vega_lite(), scale=scale))


@functools.cache
def bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script."""
    import vl_convert

    return str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", _vega_lite()))


def _vega_lite() -> str:
    return ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])


def _specification(chart: Chart, width: int | str, ink: str) -> dict[str, Any]:
    spec: dict[str, Any] = _visible(chart.to_dict(validate=False))  # the tests do; it takes as long as all the rest
    spec.pop("$schema", None)
    quiet = {"gridColor": ink, "gridOpacity": 0.12, "domainColor": ink, "domainOpacity": 0.35, "tickOpacity": 0.35}
    text = {"labelColor": ink, "titleColor": ink, "titleFontWeight": "normal", "titleOpacity": 0.8}
    spec["width"] = width
    spec["autosize"] = {"type": "fit-x", "contains": "padding"}
    spec["background"] = "transparent"
    spec["config"] = {
        "font": FONT,
        "view": {"stroke": None},
        "axis": {**quiet, **text, "tickColor": ink, "labelFontSize": 11, "titleFontSize": 12},
        "legend": {
            **text,
            "title": None,
            "orient": "bottom",
            "columns": 1,
            "labelLimit": 320,
            "symbolType": "circle",
            "symbolOpacity": 1,
        },
        "text": {"color": ink},
        "range": {"category": PALETTE},
    }
    return spec


def _visible(spec: Any) -> Any:
    """Labels and names without what would end the renderer, alike wherever they stand."""
    if isinstance(spec, dict):
        return {key: _visible(value) for key, value in spec.items()}
    if isinstance(spec, list):
        return [_visible(value) for value in spec]
    return visible(spec) if isinstance(spec, str) else spec


def _basic(spec: Any) -> Any:
    """A square for every character beyond the basic plane, such as emoji: the renderer shortens long labels by halves
    of them, and cannot draw a half."""
    if isinstance(spec, dict):
        return {_basic(key): _basic(value) for key, value in spec.items()}
    if isinstance(spec, list):
        return [_basic(value) for value in spec]
    return re.sub(r"[\U00010000-\U0010ffff]", "□", spec) if isinstance(spec, str) else spec


def _inked(spec: Any) -> Any:
    """`currentColor` means nothing to a picture."""
    if isinstance(spec, dict):
        return {k: v if k in ("datasets", "values") else _inked(v) for k, v in spec.items()}
    if isinstance(spec, list):
        return [_inked(v) for v in spec]
    return INK if spec == "currentColor" else spec


def inline(rows: Rows) -> alt.InlineData:
    return alt.InlineData(values=[dict(r) for r in rows])


def _picked(chart: alt.Chart, choice: Sequence[str]) -> alt.Chart:
    """The rows of one setting at a time; of a single one there is nothing to pick."""
    if len(choice) < 2:
        return chart
    bound = alt.binding_select(options=list(choice), name="Setting ")
    pick = alt.param(name="setting_shown", value=choice[0], bind=bound)
    return chart.add_params(pick).transform_filter("datum.setting === setting_shown")


def _number(name: str, title: str) -> Any:
    channel = alt.X if name in ("step", "epoch", "tokens") else alt.Y
    axis = alt.Axis(tickCount=6, format="~s") if name == "tokens" else alt.Axis(tickCount=6)
    return channel(f"{name}:Q", title=title, scale=alt.Scale(zero=False), axis=axis)


def _by_setting(settings: Sequence[str]) -> alt.Color:
    colours = [PALETTE[i % len(PALETTE)] for i in range(len(settings))]
    return alt.Color("setting:N", sort=list(settings), scale=alt.Scale(domain=list(settings), range=colours))


def _tips(*names: str) -> list[alt.Tooltip]:
    texts = {"setting": "setting", "gold": "gold", "predicted": "predicted", "label": "label", "seed": "seed"}
    texts["words"] = "cost"
    return [
        alt.Tooltip(f"{n}:N", title=texts[n]) if n in texts else alt.Tooltip(f"{n}:Q", format=".4~r") for n in names
    ]


def _baseline(name: str, value: float) -> list[alt.Chart]:
    """A dashed line across the chart, with its name on it."""
    base = alt.Chart(inline([{"score": value, "name": name}])).encode(y=alt.Y("score:Q"))
    return [
        base.mark_rule(color=QUIET, strokeDash=[5, 4]),
        base.mark_text(align="right", dx=-2, dy=-6, fontSize=11, color="currentColor", opacity=0.75).encode(
            x=alt.value("width"), text="name:N"
        ),
    ]
