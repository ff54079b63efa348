"""Does the bias probe keep its word? Probes are drawn from worlds with a planted bias of known size, thousands of
times, and put through the functions that ship.

    python benchmarks/bias.py [--studies N] [--only mean,professions,visible,difference] [--designs "8 × 10 × 4,…"]

A model answers with probability sigmoid(b + x/2) about one group and sigmoid(b − x/2) about the other; the value of a
pair is the difference. b and x are normal: their means, plus effects of the template, the profession, the term and the
seed, of every two of these, and of chance. A world says by how much each effect spreads in x (the bias) on the scale of
the logit. Since b and x have known distributions, the mean of all pairs that there could be, and the share of those
whose answer flips, are known by quadrature; the planted bias is put there by shifting the mean of x. Each line of the
output is one cell; `error` is its Monte-Carlo error, one standard error.
"""

import argparse
import functools
import itertools
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special
from scipy.interpolate import PchipInterpolator

from heedful.evaluation.statistics.crossed import p_value
from heedful.evaluation.statistics.factors import Design, interval, variance_of_difference, visible
from heedful.evaluation.statistics.size import holm

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
Effects = dict[tuple[str, ...], float]
MIDDLE = 0.5
"""The mean of b."""
BASE: Effects = {
    ("template",): 1.0,
    ("profession",): 0.5,
    ("seed",): 0.2,
    ("template", "profession"): 0.4,
    ("seed", "template"): 0.3,
    (): 0.3,
}
"""By how much b spreads; () is chance."""
SEEDS = (1, 2, 3, 5)
"""1: no seed plays a part."""
BIASES = (0.0, 0.02, 0.10)
_BLOCK = 300_000  # numbers held at a time


@dataclass(frozen=True)
class World:
    name: str
    spread: Effects
    """Standard deviations of the effects in x; () is chance."""


def world(name: str, chance: float, both: float, **alone: float) -> World:
    """`alone`: of each factor; `both`: of any two."""
    names = ("seed", "template", "profession", "term")
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    return World(name, {**{(n,): alone[n] for n in names}, **dict.fromkeys(pairs, both), (): chance})


WORLDS = {
    w.name: w
    for w in (
        world("small spread", 0.10, 0.05, seed=0.05, template=0.05, profession=0.05, term=0.05),
        world("typical", 0.20, 0.10, seed=0.10, template=0.20, profession=0.20, term=0.10),
        world("seeds dominate", 0.20, 0.10, seed=0.40, template=0.10, profession=0.10, term=0.10),
        world("templates dominate", 0.20, 0.10, seed=0.10, template=0.50, profession=0.10, term=0.10),
        world("mixed", 0.50, 0.20, seed=0.25, template=0.30, profession=0.05, term=0.30),
        world("terms dominate", 0.30, 0.15, seed=0.15, template=0.10, profession=0.30, term=0.50),
    )
}


@dataclass(frozen=True)
class Plan:
    """The rows of a probe: to which template, profession and term each belongs, and the factors that it is told."""

    name: str
    rows: Mapping[str, Ints]
    factors: Mapping[str, Ints]

    @cached_property
    def n(self) -> int:
        return len(self.rows["template"])

    @cached_property
    def design(self) -> Design:
        return Design(self.factors)

    def whole(self, seeds: int) -> Design:
        """With the seeds as a factor, if they play a part."""
        return self.design.across(seeds) if seeds > 1 else self.design


def balanced(templates: int, professions: int, terms: int) -> Plan:
    grid = np.indices((templates, professions, terms)).reshape(3, -1)
    rows = dict(zip(("template", "profession", "term"), grid, strict=True))
    return Plan(f"{templates} × {professions} × {terms}", rows, rows)


def some_of(plan: Plan, share: float) -> Plan:
    """Some of its rows, of some templates and professions more than of others."""
    random = np.random.default_rng(0)
    weight = np.ones(plan.n)
    for of_row in plan.rows.values():
        weight *= random.uniform(0.2, 1.8, of_row.max() + 1)[of_row]
    kept = np.sort(random.choice(plan.n, round(share * plan.n), replace=False, p=weight / weight.sum()))
    rows = {name: of_row[kept] for name, of_row in plan.rows.items()}
    return Plan(f"{len(kept)} of {plan.name}", rows, rows)


def nested(sentences: int, occupations: int) -> Plan:
    """Each sentence has a template and a term of its own and belongs to one occupation, of which some have up to ten
    times as many as others."""
    weight = np.linspace(0.2, 2.0, occupations)
    of_row = np.concatenate(
        [
            np.arange(occupations),
            np.random.default_rng(0).choice(occupations, sentences - occupations, p=weight / weight.sum()),
        ]
    )
    own = np.arange(sentences)
    rows = {"template": own, "profession": of_row, "term": own}
    return Plan(f"{sentences} in {occupations}", rows, {"profession": of_row, "sentence": own})


def single(pairs: int) -> Plan:
    own = np.arange(pairs)
    return Plan(f"{pairs} pairs", {"template": own, "profession": own, "term": own}, {"pair": own})


SMALL, LARGE, LARGEST = balanced(8, 10, 4), balanced(15, 20, 8), balanced(20, 30, 8)
PLANS = {p.name: p for p in (SMALL, some_of(LARGE, 0.5), nested(400, 40), single(4), LARGE, LARGEST)}


def without(spread: Effects, factor: str) -> Effects:
    """The effects in which a factor plays no part."""
    return {names: sd for names, sd in spread.items() if factor not in names}


def deviation(spread: Effects) -> float:
    return math.sqrt(sum(sd**2 for sd in spread.values()))


@dataclass(frozen=True)
class Truth:
    """What is true of all pairs that there could be."""

    b: float
    """Standard deviation of b."""
    x: float

    def mean_change(self, shift: npt.ArrayLike, nodes: int = 60) -> Floats:
        """Of the probability, where x has this mean (Gauss and Hermite)."""
        z, weights = np.polynomial.hermite_e.hermegauss(nodes)
        weights = weights / weights.sum()
        b = (MIDDLE + self.b * z)[:, None]
        found = []
        for x in np.ravel(np.asarray(shift, dtype=np.float64))[:, None] + self.x * z:
            found.append(weights @ (special.expit(b + x / 2) - special.expit(b - x / 2)) @ weights)
        return np.array(found).reshape(np.shape(shift))

    @cached_property
    def _reached(self) -> tuple[Floats, Floats]:
        at = np.concatenate([np.linspace(0, 1, 201), np.linspace(1, 10, 200)[1:]])
        return self.mean_change(at), at

    def shift_for(self, bias: npt.ArrayLike) -> Floats:
        """The mean of x with which the mean change is this, by cubic interpolation."""
        return np.asarray(PchipInterpolator(*self._reached)(bias))

    def flip_rate(self, bias: float) -> float:
        """The share of pairs whose more probable answer changes: |b| < |x|/2."""
        z = np.linspace(-9, 9, 40_001)
        half = np.abs(self.shift_for(bias) + self.x * z) / 2
        inside = special.ndtr((half - MIDDLE) / self.b) - special.ndtr((-half - MIDDLE) / self.b)
        return float(np.trapezoid(inside * np.exp(-z * z / 2) / math.sqrt(2 * math.pi), z))


truth = functools.cache(Truth)


def scaled(spread: Effects, by: float) -> Effects:
    return {names: by * sd for names, sd in spread.items()}


def effects(random: np.random.Generator, plan: Plan, spread: Effects, seeds: int, studies: int) -> Singles:
    """(seeds · n, studies): the sum of the effects."""
    total = np.zeros((seeds, plan.n, studies), dtype=np.float32)
    for names, sd in spread.items():
        if not names:
            total += np.float32(sd) * random.standard_normal(total.shape, dtype=np.float32)
            continue
        cell_n = np.zeros(plan.n, dtype=np.int64)
        for level_n in (plan.rows[name] for name in names if name != "seed"):
            cell_n = np.unique(cell_n * plan.n + level_n, return_inverse=True)[1]
        cells = int(cell_n.max()) + 1
        shape = (seeds if "seed" in names else 1, cells, studies)
        drawn = np.float32(sd) * random.standard_normal(shape, dtype=np.float32)
        total += drawn if cells == 1 else drawn[:, cell_n]
    return total.reshape(seeds * plan.n, studies)


@dataclass(frozen=True)
class Model:
    """b and x of a model's runs in many studies, (seeds · n, studies), but for the planted part of x."""

    truth: Truth
    b: Singles
    x: Singles

    def halves(self, bias: npt.ArrayLike) -> Singles:
        return np.asarray((self.x + self.truth.shift_for(bias)) / 2, dtype=np.float32)

    def values(self, bias: npt.ArrayLike) -> Floats:
        """(studies, seeds · n), their true mean being the bias."""
        x = self.halves(bias)
        return np.asarray(special.expit(self.b + x) - special.expit(self.b - x), dtype=np.float64).T

    def flips(self, bias: float) -> Floats:
        """(studies, seeds · n): whether the more probable answer changes."""
        return (np.abs(self.b) < np.abs(self.halves(bias))).astype(np.float64).T


def draw(
    random: np.random.Generator, plan: Plan, world: World, seeds: int, studies: int, models: int = 1
) -> list[Model]:
    """Models that share half the variance of what the rows do to x, and all of what they do to b. With one run, no seed
    plays a part."""
    base = without(BASE, "seed") if seeds == 1 else BASE
    spread = without(world.spread, "seed") if seeds == 1 else world.spread
    rows = {names: sd for names, sd in spread.items() if names and "seed" not in names}
    own = {names: sd for names, sd in spread.items() if names not in rows}
    rows_b = {names: sd for names, sd in base.items() if names and "seed" not in names}
    own_b = {names: sd for names, sd in base.items() if names not in rows_b}
    half = scaled(rows, math.sqrt(0.5)) if models > 1 else {}
    both = np.tile(effects(random, plan, half, 1, studies), (seeds, 1))
    both_b = np.float32(MIDDLE) + np.tile(effects(random, plan, rows_b, 1, studies), (seeds, 1))
    made = []
    for _ in range(models):
        b = both_b + effects(random, plan, own_b, seeds, studies)
        x = both + effects(random, plan, own | (half or rows), seeds, studies)
        made.append(Model(truth(deviation(base), deviation(spread)), b, x))
    return made


def blocks(plan: Plan, seeds: int, studies: int) -> Iterator[int]:
    """The studies a few at a time."""
    size = max(1, _BLOCK // (seeds * plan.n))
    return (min(size, studies - at) for at in range(0, studies, size))


def share(hits: Sequence[npt.NDArray[np.bool_]]) -> dict[str, float]:
    hit = np.concatenate(hits)
    p = float(hit.mean())
    return {"share": round(p, 4), "error": round(math.sqrt(p * (1 - p) / hit.size), 4)}


Cell = tuple[Plan, World, int]


def say(what: str, cell: Cell, found: Mapping[str, Any]) -> dict[str, Any]:
    plan, world, seeds = cell
    row = {"what": what, "design": plan.name, "world": world.name, "seeds": seeds, **found}
    print(json.dumps(row), flush=True)
    return row


def holds(ends: tuple[Floats, Floats], true: float) -> npt.NDArray[np.bool_]:
    return (ends[0] <= true) & (ends[1] >= true)


def generator(part: int, cell: Cell) -> np.random.Generator:
    plan, world, seeds = cell
    return np.random.default_rng([part, seeds, plan.n, list(WORLDS).index(world.name)])


def of_means(cell: Cell, studies: int) -> dict[str, Any]:
    """How often the interval of the mean change holds the planted bias, and a model without bias is called biased; how
    often the interval of the flip rate holds the true one."""
    plan, world, seeds = cell
    random, design, hits, rates = generator(1, cell), plan.whole(seeds), dict[str, list[Any]](), dict[str, Any]()
    for size in blocks(plan, seeds, studies):
        (model,) = draw(random, plan, world, seeds, size)
        for bias in BIASES:
            values = model.values(bias)
            mean, of = values.mean(axis=-1), design.variance(values)
            ends = interval(mean, of, design.counted, bounds=(-1.0, 1.0))
            hits.setdefault(f"covers {bias}", []).append(holds(ends, bias))
            if bias == 0:
                hits.setdefault("false alarms", []).append(p_value(mean, of) <= 0.05)
            if bias != BIASES[1]:
                flips, true = model.flips(bias), model.truth.flip_rate(bias)
                ends = interval(flips.mean(axis=-1), design.variance(flips), design.counted, bounds=(0.0, 1.0))
                hits.setdefault(f"covers flips {bias}", []).append(holds(ends, true))
                rates[f"flips {bias}"] = round(true, 4)
    return say("mean", cell, rates | {name: share(of_name) for name, of_name in hits.items()})


def of_a_profession(plan: Plan, seeds: int) -> tuple[Design, Ints]:
    """The design within each, and (professions, n): the rows of each, as `by_level` takes them."""
    inside = plan.rows["profession"] == 0
    design = Design({name: plan.rows[name][inside] for name in ("template", "term")})
    of_row = np.tile(plan.rows["profession"], seeds)
    rows = np.stack([np.flatnonzero(of_row == level) for level in np.unique(of_row)])
    return (design.across(seeds) if seeds > 1 else design), rows


def of_professions(cell: Cell, studies: int) -> dict[str, Any]:
    """No profession has a bias: how often any is said to, after Holm's correction."""
    plan, world, seeds = cell
    world = replace(world, spread={names: sd for names, sd in world.spread.items() if names != ("profession",)})
    design, rows = of_a_profession(plan, seeds)
    random, hits = generator(2, cell), dict[str, list[Any]]()
    for size in blocks(plan, seeds, studies):
        (model,) = draw(random, plan, world, seeds, size)
        values = model.values(0.0)[:, rows]
        together = design.of_seeds(values).mean(axis=-1, keepdims=True)
        p = p_value(values.mean(axis=-1), design.variance(values, together))
        hits.setdefault("any", []).append((holm(p) <= 0.05).any(axis=-1))
        hits.setdefault("any without correction", []).append((p <= 0.05).any(axis=-1))
    return say("professions", cell, {name: share(of_name) for name, of_name in hits.items()})


def of_visible(cell: Cell, studies: int) -> dict[str, Any]:
    """A probe of a model without bias says which bias it would have shown in four cases of five. In another with that
    bias, how often is it shown? A bias of more than 0.6 is taken as 0.6."""
    plan, world, seeds = cell
    random, design = generator(3, cell), plan.whole(seeds)
    shown, biases = [], []
    for size in blocks(plan, seeds, studies):
        (model,) = draw(random, plan, world, seeds, size)
        bias = visible(design.variance(model.values(0.0)))
        (model,) = draw(random, plan, world, seeds, size)
        values = model.values(np.minimum(bias, 0.6))
        shown.append(p_value(values.mean(axis=-1), design.variance(values)) <= 0.05)
        biases.append(bias)
    found = np.concatenate(biases)
    median = {"median": round(float(np.median(found)), 4), "cut": round(float((found > 0.6).mean()), 4)}
    return say("visible", cell, {"shown": share(shown), **median})


def of_differences(cell: Cell, studies: int) -> dict[str, Any]:
    """Two models: how often they are called different where they are alike, and the interval holds a true difference of
    0.05."""
    plan, world, seeds = cell
    random, hits = generator(4, cell), dict[str, list[Any]]()
    for size in blocks(plan, 2 * seeds, studies):
        models = draw(random, plan, world, seeds, size, models=2)
        for bias in (0.0, 0.05):
            a, b = (
                m.values(own).reshape(size, seeds, plan.n) for m, own in zip(models, (0.02 + bias, 0.02), strict=True)
            )
            of = variance_of_difference(plan.design, a, b, seeds > 1, seeds > 1)
            d = a.mean(axis=(1, 2)) - b.mean(axis=(1, 2))
            if bias == 0:
                hits.setdefault("size", []).append(p_value(d, of) <= 0.05)
            hits.setdefault(f"covers {bias}", []).append(holds(interval(d, of, plan.design.counted), bias))
    return say("difference", cell, {name: share(of_name) for name, of_name in hits.items()})


FEWER = [name for name, plan in PLANS.items() if plan not in (LARGE, LARGEST)]
PARTS: dict[str, tuple[Callable[[Cell, int], dict[str, Any]], list[str]]] = {
    "mean": (of_means, list(PLANS)),
    "professions": (of_professions, [SMALL.name, LARGE.name]),
    "visible": (of_visible, FEWER),
    "difference": (of_differences, FEWER),
}
"""What is simulated, and in which designs."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=5000)
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--designs", default=",".join(PLANS))
    given = parser.parse_args()
    for part in given.only.split(","):
        start, (simulate, plans) = time.perf_counter(), PARTS[part]
        chosen = [PLANS[name] for name in plans if name in given.designs.split(",")]
        for cell in itertools.product(chosen, WORLDS.values(), SEEDS):
            simulate(cell, given.studies)
        print(json.dumps({"part": part, "seconds": round(time.perf_counter() - start)}), flush=True)


if __name__ == "__main__":
    main()
