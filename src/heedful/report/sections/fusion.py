"""The section on which adapter a fusion uses, layer by layer and label by label: of a run, and of the seeds of each
setting of a study."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from heedful.evaluation.spread import summarise
from heedful.report.facts.comparison import MOST_STILLS, Comparison
from heedful.report.facts.run import judged_set
from heedful.report.page import plots
from heedful.report.page.pieces import Block, Column, Figure, Fold, Heading, Prose, Row, Section, Table
from heedful.report.page.pieces import section as make_section
from heedful.report.page.words import figure, mean_and_deviation, several, signed, title_of
from heedful.storage.runs import Run, judging_order

Place = tuple[str, int]
"""Of a fusion: "attention" or "feed_forward", and the number of the layer."""
_PLACES = {"attention": "attention", "feed_forward": "the feed-forward network"}
MOST_ROWS = 40
"""Of the heat map by label: an adapter and a label each."""
MOST_WORDS = 14
"""Columns up to which the weights are written into the cells."""
LITTLE = 0.05
"""Differences between labels below this are called small, and are pale in the heat map."""
NOTE = (
    "Weights are means over the tokens of each text: a mean near uniform does not say that single tokens weigh the "
    "adapters evenly. A weight says how much of an adapter's output is taken, not how much that changes the answer."
)


@dataclass(frozen=True)
class Use:
    """How a fusion weighs its adapters on the texts of one evaluation set."""

    adapters: tuple[str, ...]
    split: str
    texts: int
    weights: Mapping[Place, Sequence[float]]
    """From the bottom up, one weight for each adapter."""
    by_label: Mapping[str, Mapping[Place, Sequence[float]]]

    def overall(self, adapter: int) -> float:
        return fmean(weights[adapter] for weights in self.weights.values())

    @property
    def alike(self) -> Any:
        """Equal for what can be averaged."""
        return self.adapters, self.split, tuple(self.weights), tuple(self.by_label)


def use_of(run: Run, split: str | None = None) -> Use | None:
    """As metrics.json has it, on the set that judges or the next best; None if there is none that can be read."""
    adapters, sets = tuple(run.metrics.fusion.adapters), run.metrics.fusion.sets
    known = [name for name in [split, *judging_order(sets)] if name in sets]
    if len(adapters) < 2 or not known:
        return None
    found = sets[str(known[0])]
    weights: dict[Place, list[float]] = {}
    by_label: dict[str, dict[Place, list[float]]] = {}
    for layer in found.layers:
        if layer.layer is None or len(layer.weights) != len(adapters) or layer.place not in _PLACES:
            return None
        place = (layer.place, int(layer.layer))
        weights[place] = layer.weights
        for label, its in layer.by_label.items():
            if len(its) == len(adapters):
                by_label.setdefault(label, {})[place] = its
    whole = {label: its for label, its in by_label.items() if its.keys() == weights.keys()}
    return Use(adapters, str(known[0]), int(found.texts or 0), weights, whole) if weights else None


def of_run(run: Run) -> Section | None:
    use = use_of(run, judged_set(run))
    return None if use is None else make_section("fusion", "Which adapters are used", _blocks([use], "fusion"))


def of_study(c: Comparison) -> Section | None:
    """Means over the seeds of each setting with a fusion."""
    blocks: list[Block] = []
    found = [(s, uses) for s in c.scored if (uses := [use for run in s.runs if (use := use_of(run, c.split))])]
    for i, (setting, uses) in enumerate(found[:MOST_STILLS], start=1):
        alike = [use for use in uses if use.alike == uses[0].alike]
        if len(found) > 1:
            blocks.append(Heading(f"fusion-{i}", title_of(setting.name)))
        blocks += _blocks(alike, f"fusion-{i}")
        if len(alike) < len(uses):
            blocks.append(Prose(f"{several(len(uses) - len(alike), 'seed')} with other adapters left out.", "note"))
    if len(found) > MOST_STILLS:
        blocks.append(Prose(f"The first {MOST_STILLS} of {len(found)} settings with a fusion are shown.", "note"))
    return make_section("fusion", "Which adapters are used", blocks)


def _blocks(uses: Sequence[Use], stem: str) -> list[Block]:
    """`uses`: of the seeds of one setting, alike."""
    mean = _mean(uses)
    blocks: list[Block] = [Prose(" ".join([_most_used(uses, mean), _from_uniform(uses, mean), _labels(uses, mean)]))]
    places = [place for place in _PLACES if any(place == where for where, _ in mean.weights)]
    blocks += [_heat_map(mean, place, f"{stem}-{place.replace('_', '-')}", len(uses)) for place in places]
    blocks.append(Fold("The weights in figures", (_table(uses, mean),)))
    if len(mean.by_label) > 1:
        blocks += [_by_label(mean, place, f"{stem}-labels-{place.replace('_', '-')}", len(uses)) for place in places]
        blocks.append(Fold("The weights of each label in figures", (_label_table(mean, len(uses)),)))
    return [*blocks, Prose(NOTE, "note")]


def _mean(uses: Sequence[Use]) -> Use:
    first = uses[0]

    def mean(of: Sequence[Mapping[Place, Sequence[float]]]) -> dict[Place, list[float]]:
        return {place: [fmean(each) for each in zip(*(one[place] for one in of), strict=True)] for place in of[0]}

    by_label = {label: mean([use.by_label[label] for use in uses]) for label in first.by_label}
    return Use(first.adapters, first.split, first.texts, mean([use.weights for use in uses]), by_label)


# In words


def _most_used(uses: Sequence[Use], mean: Use) -> str:
    """Which adapter counts most, and where."""
    overall = [mean.overall(i) for i in range(len(mean.adapters))]
    top = max(range(len(overall)), key=overall.__getitem__)
    place = max(mean.weights, key=lambda at: mean.weights[at][top])
    uniform = 1 / len(overall)
    where = f"On {mean.split} ({several(mean.texts, 'text')}), as a mean over the layers"
    most = f"“{mean.adapters[top]}” has the largest weight, {figure(overall[top], 3)}"
    if overall[top] < 1.1 * uniform:
        where, most = f"No adapter stands out: {where[:1].lower()}{where[1:]}", f"even {most}"
    words = f"{where}, {most} (uniform: {figure(uniform, 3)})"
    if len(mean.weights) > 1:
        words += f"; its share is largest {_at(mean, place)} ({figure(mean.weights[place][top], 3)})"
    if len(uses) == 1:
        return f"{words}. It is one seed: how far another would differ is not known."
    first = sum(max(range(len(overall)), key=use.overall).__eq__(top) for use in uses)
    spread = summarise([use.overall(top) for use in uses])["std"]
    return (
        f"{words}. These are means over {several(len(uses), 'seed')}; that weight has a standard deviation of "
        f"{figure(spread, 3)} over them, and “{mean.adapters[top]}” is first in {first} of {len(uses)}."
    )


def _from_uniform(uses: Sequence[Use], mean: Use) -> str:
    uniform = 1 / len(mean.adapters)
    every = [weight for weights in mean.weights.values() for weight in weights]
    off = fmean(abs(weight - uniform) for weight in every)
    ends = f"Over layers and adapters the weights lie between {figure(min(every), 3)} and {figure(max(every), 3)}"
    words = f"{ends}, on average {figure(off, 3)} from uniform"
    if len(uses) > 1:
        spreads = [
            float(summarise([use.weights[place][i] for use in uses])["std"] or 0.0)
            for place in mean.weights
            for i in range(len(mean.adapters))
        ]
        words += f"; another seed moves one of them by {figure(fmean(spreads), 3)} (mean standard deviation)"
    return f"{words}."


def _labels(uses: Sequence[Use], mean: Use) -> str:
    """Whether labels differ, by the largest difference that there is, and of how many."""
    labels = list(mean.by_label)
    if len(labels) < 2:
        return ""
    cells = [(place, i) for place in mean.weights for i in range(len(mean.adapters))]

    def ends(cell: tuple[Place, int]) -> tuple[str, str]:
        place, i = cell
        order = sorted(labels, key=lambda label: mean.by_label[label][place][i])
        return order[-1], order[0]

    def gap(use: Use, cell: tuple[Place, int], high: str, low: str) -> float:
        return use.by_label[high][cell[0]][cell[1]] - use.by_label[low][cell[0]][cell[1]]

    cell = max(cells, key=lambda cell: gap(mean, cell, *ends(cell)))
    high, low = ends(cell)
    difference = gap(mean, cell, high, low)
    which = f"“{mean.adapters[cell[1]]}” {_at(mean, cell[0])}, {high} against {low}"
    if difference < LITTLE:
        words = f"Labels hardly differ in this: at most by {figure(difference, 3)} ({which})"
    else:
        words = f"Between labels they differ by up to {figure(difference, 3)} ({which})"
        words += f", the largest of {several(len(cells), 'difference')}, which chance makes look larger than it is"
    if len(uses) > 1:
        same = sum(gap(use, cell, high, low) > 0 for use in uses)
        words += f"; it has this sign in {same} of {several(len(uses), 'seed')}"
    return f"{words}."


def _at(use: Use, place: Place) -> str:
    both = len({where for where, _ in use.weights}) > 1
    return f"in layer {place[1]}" + (f" after {_PLACES[place[0]]}" if both else "")


# In figures


def _heat_map(use: Use, place: str, name: str, seeds: int) -> Figure:
    uniform = 1 / len(use.adapters)
    layers = [at for at in use.weights if at[0] == place]
    rows: list[dict[str, Any]] = [
        {"adapter": adapter, "layer": at[1], "off": weight - uniform, "words": _short(weight)}
        for i, adapter in enumerate(use.adapters)
        for at in layers
        for weight in [use.weights[at][i]]
    ]
    full = max(uniform / 2, *(abs(row["off"]) for row in rows))
    caption = (
        f"Which adapter is used, layer by layer, after {_PLACES[place]}: mean weight on {use.split}{_over(seeds)}. "
        f"Blue is above the uniform weight of {figure(uniform, 3)}, orange below, no shade is uniform; the deepest "
        f"shade is {figure(full, 2)} from it."
    )
    return Figure(name, caption, _grid(rows, full, len(layers)))


def _by_label(use: Use, place: str, name: str, seeds: int) -> Figure:
    """What each label differs by from all texts."""
    layers = [at for at in use.weights if at[0] == place]

    def off(label: str, at: Place, i: int) -> float:
        return use.by_label[label][at][i] - use.weights[at][i]

    every = list(use.by_label)
    cells = [(at, i) for at in layers for i in range(len(use.adapters))]
    order = sorted(every, key=lambda label: -max(abs(off(label, *cell)) for cell in cells))
    kept = set(order[: max(2, MOST_ROWS // len(use.adapters))])
    rows: list[dict[str, Any]] = [
        {
            "adapter": f"{adapter}: {label}",
            "layer": at[1],
            "off": off(label, at, i),
            "words": _change(off(label, at, i)),
        }
        for i, adapter in enumerate(use.adapters)
        for label in every
        if label in kept
        for at in layers
    ]
    full = max(LITTLE, *(abs(row["off"]) for row in rows))
    fewer = f" Of {len(every)} labels those that differ most are drawn." if len(kept) < len(every) else ""
    caption = (
        f"The same for each label: how far the mean weight on its texts is from that on all texts, after "
        f"{_PLACES[place]}{_over(seeds)}. Blue is more, orange less; the deepest shade is {figure(full, 2)}.{fewer}"
    )
    return Figure(name, caption, _grid(rows, full, len(layers)))


def _grid(rows: list[dict[str, Any]], full: float, columns: int) -> Any:
    named = [{**row, "": row["adapter"]} for row in rows]
    words = "words" if columns <= MOST_WORDS else None
    return plots.grid(named, "layer", "", "off", signed=True, full=full, words=words)


def _table(uses: Sequence[Use], mean: Use) -> Table:
    rows = [(_row_name(mean, at), [[use.weights[at][i] for use in uses] for i in _each(mean)]) for at in mean.weights]
    rows.append(("all layers", [[use.overall(i) for use in uses] for i in _each(mean)]))
    columns = (Column("mean weight"), *(Column(adapter, numeric=True) for adapter in mean.adapters))
    lines = tuple(Row((name, *(_cell(values) for values in cells))) for name, cells in rows)
    what = ", mean ± standard deviation over the seeds" if len(uses) > 1 else ""
    return Table(f"Mean weight of each adapter on {mean.split}{what}", columns, lines)


def _label_table(mean: Use, seeds: int) -> Table:
    columns = (Column("mean weight"), Column("label"), *(Column(adapter, numeric=True) for adapter in mean.adapters))
    rows = tuple(
        Row((_row_name(mean, at), label, *(figure(weight, 3) for weight in of[at])))
        for at in mean.weights
        for label, of in mean.by_label.items()
    )
    return Table(f"Mean weight on {mean.split} by label{_over(seeds)}", columns, rows)


def _row_name(use: Use, at: Place) -> str:
    return _at(use, at).removeprefix("in ")


def _cell(values: Sequence[float]) -> str:
    return figure(values[0], 3) if len(values) == 1 else mean_and_deviation(summarise(values), 3)


def _each(use: Use) -> Iterable[int]:
    return range(len(use.adapters))


def _over(seeds: int) -> str:
    return f", mean over {several(seeds, 'seed')}" if seeds > 1 else ""


def _short(weight: float) -> str:
    return f"{weight:.2f}".removeprefix("0") if weight < 0.995 else "1"


def _change(value: float) -> str:
    return "0" if abs(value) < 0.005 else signed(value, 2).replace("0.", ".")
