"""The section of a study's report that sets the score against what it cost: time, memory, parameters trained."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from heedful.report.facts.comparison import Comparison, Setting, score
from heedful.report.page import charts
from heedful.report.page.pieces import Block, Choice, Column, Figure, Prose, Row, Section, Table, in_short
from heedful.report.page.pieces import section as make_section
from heedful.report.page.words import NOTHING, capital, count, duration, listed, size, title_of
from heedful.storage.runs import Run

_SHARED = (
    "A model with adapters is counted with its body, so that it can be used as it is; where the file system can, the "
    "runs of a study share one file of it."
)
_ALIKE = 1.02  # costs that differ by less are one cost, and no chart is drawn of them


@dataclass(frozen=True)
class Cost:
    stem: str
    name: str
    of: Callable[[Run], float | None]
    in_words: Callable[[float], str]
    units: tuple[tuple[float, str], ...]
    """How many of the plain unit each is, and what the axis says; the largest that fits the middle of the axis."""
    form: str = ",~r"


def trainable(run: Run) -> float | None:
    return run.manifest.model.parameters.trainable


def _spent(key: str) -> Callable[[Run], float | None]:
    return lambda run: run.manifest.cost.number(key)


_TIME = ((1.0, " in seconds"), (60.0, " in minutes"), (3600.0, " in hours"))
_BYTES = ((1e6, " in MB"), (1e9, " in GB"))
COSTS = (
    Cost("time", "training time", _spent("training_seconds"), duration, _TIME),
    Cost("prediction", "time for 1,000 texts", _spent("prediction_seconds"), duration, _TIME),
    Cost("size", "size on disk", _spent("model_bytes"), size, _BYTES),
    Cost("memory", "peak memory", _spent("peak_memory_bytes"), size, _BYTES),
    Cost("gpu-memory", "GPU memory", _spent("gpu_memory_bytes"), size, _BYTES),
    Cost("parameters", "parameters trained", trainable, count, ((1.0, ""),), "~s"),
)


def against_cost(c: Comparison) -> Section | None:
    return make_section("cost", "Score and cost", [*_table(c), *cost_blocks(c, "score")])


def _table(c: Comparison) -> list[Block]:
    """What each model costs to make, to use and to keep."""
    titles = ["training a run", "predicting 1,000 texts", "model on disk", "parameters trained", "peak memory"]
    adapted = any(s.cost("adapter_bytes") is not None for s in c.settings)
    if adapted:
        titles.insert(3, "adapters alone")
    rows = []
    for s in c.settings:
        peak = [v for run in s.runs if (v := run.manifest.cost.peak_memory_bytes) is not None]
        cells = (
            title_of(s.name),
            duration(s.cost("training_seconds")),
            duration(s.cost("prediction_seconds")),
            size(s.cost("model_bytes")),
            *([size(s.cost("adapter_bytes"))] if adapted else []),
            count(next((trainable(run) for run in s.runs), None)),
            size(max(peak, default=None)),
        )
        rows.append(Row(cells, "best" if s.name == c.chosen else "baseline" if s.baseline else ""))
    if not any(cell != NOTHING for row in rows for cell in row.cells[1:]):
        return []
    columns = (Column("setting"), *(Column(title, numeric=True) for title in titles))
    blocks = in_short(Table("What each costs, means over its runs", columns, tuple(rows)), "settings")
    return [*blocks, Prose(_SHARED, "note")] if adapted else blocks


def cost_blocks(c: Comparison, stem: str) -> list[Block]:
    """A chart for each cost in which the settings differ, the others in a sentence; nothing where there is one setting.
    `stem` is what the names of the figures begin with."""
    if c.split is None or len(c.scored) < 2:
        return []
    figures: list[tuple[str, Figure]] = []
    same: list[str] = []
    for cost in COSTS:
        values = [v for s in c.scored for run in s.runs if (v := cost.of(run)) is not None]
        if sum(any(cost.of(run) is not None for run in s.runs) for s in c.scored) < 2:
            continue
        if max(values) <= _ALIKE * min(values):
            same.append(f"{cost.name} ({cost.in_words(max(values))})")
        else:
            drawn = _figure(c, c.split, cost, min(values), max(values))
            figures.append((cost.name, replace(drawn, name=f"{stem}-{cost.stem}")))
    blocks: list[Block] = [Choice("Cost", tuple(figures))] if len(figures) > 1 else [f for _, f in figures]
    if figures and same:
        blocks.append(Prose(f"Alike for all, and not drawn: {listed(same)}.", "note"))
    return blocks


def _figure(c: Comparison, split: str, cost: Cost, smallest: float, largest: float) -> Figure:
    """The settings that have no colour of their own are grey, and their seeds are left out."""
    one, unit = _unit(cost, math.sqrt(max(smallest, largest / charts.WIDE**2) * largest))
    groups = {title_of(s.name): title_of(s.name) for s in c.drawn}
    others = len(c.scored) - len(groups)
    seeds: list[dict[str, Any]] = []
    means: list[dict[str, Any]] = []
    for s in reversed(c.scored):  # the best are drawn last, on top
        group = groups.get(title_of(s.name), f"{others} others")
        means += _mean(c, split, s, cost, one, group)
        seeds += _seeds(c, split, s, cost, one) if title_of(s.name) in groups else []
    axis = charts.cost_axis(f"{cost.name}{unit}", smallest / one, largest / one, cost.form)
    legend = [*groups, *([f"{others} others"] if others else [])]
    chart = charts.score_against_cost(seeds, means, c.metric.title, axis, legend, baseline_line(c, split))
    caption = (
        f"{capital(c.metric.title)} on {split} against {cost.name}. Small dots are seeds, large dots means; "
        "the bars are what to expect with other seeds and examples."
    )
    if others:
        caption += f" The first {len(groups)} settings have colours and seeds; the other {others} are grey."
    return Figure(cost.stem, caption, chart)


def _mean(c: Comparison, split: str, s: Setting, cost: Cost, one: float, group: str) -> list[dict[str, Any]]:
    """The setting's row, if it has a cost. Where nothing is known of other seeds, the bar has no length."""
    spent = [v for run in s.runs if (v := cost.of(run)) is not None]
    if not spent:
        return []
    summary, mean = s.summary(split, c.metric.name), sum(spent) / len(spent)
    middle, expected = summary["mean"], c.expected(s.name)
    low, high = (middle if end is None else end for end in (expected.low, expected.high))
    row = {
        "setting": title_of(s.name),
        "group": group,
        "cost": mean / one,
        "words": cost.in_words(mean),
        "score": middle,
    }
    return [{**row, "low": low, "high": high, "seeds": summary["n"]}]


def _seeds(c: Comparison, split: str, s: Setting, cost: Cost, one: float) -> list[dict[str, Any]]:
    dots = []
    for run in s.runs:
        spent, value = cost.of(run), score(run, split, c.metric.name)
        if spent is not None and value is not None:
            row = {"setting": title_of(s.name), "group": title_of(s.name), "seed": run.seed, "cost": spent / one}
            dots.append({**row, "words": cost.in_words(spent), "score": value})
    return dots


def _unit(cost: Cost, middle: float) -> tuple[float, str]:
    return next((unit for unit in reversed(cost.units) if middle >= 2 * unit[0]), cost.units[0])


def baseline_line(c: Comparison, split: str) -> tuple[str, float] | None:
    """Name and score of the strongest baseline, for a chart."""
    best = c.best_baseline(split)
    return (title_of(best[0]), best[1]) if best else None
