"""Do the statistics keep their word? Studies are drawn from worlds whose truth is known, thousands of times, and put
through the functions that ship.

    python benchmarks/coverage.py [--studies N] [--only score,difference,family,looks,power,metrics,curves]

A world has runs that are right with probability 0.88. Whether run s of setting k is right on example e hangs on the sum
of four normal numbers: the skill of the run, the difficulty of the example, its difficulty for this setting, and
chance; the last three have variances of 0.75, 0.10 and 0.15, so that two runs of a setting differ on about 7 % of the
examples and runs of two settings on about 10 %. The true accuracy of the runs spreads by 0.003 (stable), 0.010
(typical) or 0.031 (unstable). Each line of the output is one cell; `error` is its Monte-Carlo error, one standard
error.
"""

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from heedful.evaluation.metrics import CLASS_METRICS, METRICS, NUMBER_METRICS, Metric, pseudo_values
from heedful.evaluation.statistics.compare import alpha_of_look, corrected, decide
from heedful.evaluation.statistics.crossed import (
    SeedsByExamples,
    Spread,
    p_value,
    pooled,
    variance_of_difference,
    variance_of_score,
    within,
)
from heedful.evaluation.statistics.curve import learning_curve
from heedful.evaluation.statistics.more import components, visible_difference

Floats = npt.NDArray[np.float64]
ACCURACY = 0.88
SHARED, OWN, CHANCE = 0.75, 0.10, 0.15
SEEDS = (2, 3, 5, 10)
FEWER = (2, 3, 5)
_BLOCK = 6_000_000  # numbers held at a time


@dataclass(frozen=True)
class World:
    name: str
    spread: float
    """Standard deviation of a run's true accuracy."""
    examples: int

    @property
    def skill(self) -> float:
        """The same of what a run adds to the sum, whose other parts have a variance of 1."""
        return self.spread / normal_density(float(special.ndtri(ACCURACY)))

    def blocks(self, studies: int, settings: int, seeds: int) -> Iterator[tuple[int, int]]:
        """The studies a few at a time: from which one, and how many."""
        size = max(1, _BLOCK // (settings * seeds * self.examples))
        return ((at, min(size, studies - at)) for at in range(0, studies, size))


WORLDS = (
    World("stable", 0.003, 265),
    World("typical", 0.010, 265),
    World("typical", 0.010, 1800),
    World("unstable", 0.031, 265),
    World("unstable", 0.031, 1800),
)


def normal_density(x: float) -> float:
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def sums(
    random: np.random.Generator, world: World, studies: int, settings: int, seeds: int, fixed: bool = False
) -> list[Floats]:
    """Of each setting (studies, seeds, examples): the sum without its mean. `fixed`: one more of one run, all of the
    same skill."""
    hard = math.sqrt(SHARED) * random.standard_normal((studies, 1, world.examples), dtype=np.float32)
    made = []
    for k in range(settings + fixed):
        runs, skill = (seeds, world.skill) if k < settings else (1, 0.0)
        x = math.sqrt(CHANCE) * random.standard_normal((studies, runs, world.examples), dtype=np.float32)
        x += math.sqrt(OWN) * random.standard_normal((studies, 1, world.examples), dtype=np.float32)
        x += skill * random.standard_normal((studies, runs, 1), dtype=np.float32)
        made.append(x + hard)
    return made


def draw(
    random: np.random.Generator, world: World, studies: int, settings: int, seeds: int, apart: Any = 0.0
) -> list[SeedsByExamples]:
    """Settings that are right with probability 0.88; `apart` between the first and the others."""
    made = []
    for k, x in enumerate(sums(random, world, studies, settings, seeds)):
        highest = np.minimum(ACCURACY + np.asarray(apart, dtype=np.float64) / 2, 0.995)
        accuracy = highest - (apart if k else 0.0)
        mean = special.ndtri(accuracy) * math.sqrt(1 + world.skill**2)
        made.append(SeedsByExamples((x + mean[..., None, None] > 0 if mean.ndim else x + mean > 0).astype(np.float64)))
    return made


def with_a_fixed_one(
    random: np.random.Generator, world: World, studies: int, seeds: int
) -> tuple[SeedsByExamples, SeedsByExamples, SeedsByExamples]:
    """Two settings with seeds, and one of the same accuracy in which no seed plays a part."""
    *runs, fixed = sums(random, world, studies, 2, seeds, fixed=True)
    z = float(special.ndtri(ACCURACY))
    a, b = (SeedsByExamples((x + z * math.sqrt(1 + world.skill**2) > 0).astype(np.float64)) for x in runs)
    return a, b, SeedsByExamples((fixed + z > 0).astype(np.float64), random=False)


def share(hits: npt.ArrayLike) -> dict[str, float]:
    hit = np.asarray(hits, dtype=np.float64)
    p = float(hit.mean())
    return {"share": round(p, 4), "error": round(math.sqrt(p * (1 - p) / hit.size), 4)}


def say(row: dict[str, Any]) -> dict[str, Any]:
    print(json.dumps(row), flush=True)
    return row


def interval(x: SeedsByExamples, settings: Sequence[SeedsByExamples], metric: Metric) -> tuple[Floats, Floats]:
    half = variance_of_score(x, pooled(settings)).half(0.95)
    return within(x.score, half, metric.bounds, x.examples, 0.95)


def test(a: SeedsByExamples, b: SeedsByExamples, together: Spread | None) -> Floats:
    """The p of a difference."""
    return p_value(a.score - b.score, variance_of_difference(a, b, together))


def of_scores(studies: int) -> list[dict[str, Any]]:
    """How often the interval of the score holds the truth: of a setting alone, of one of three, whose spreads are taken
    together up to three seeds, and Student's over seeds, as it was."""
    rows = []
    for world in WORLDS:
        for n in SEEDS:
            random, held = np.random.default_rng([1, n, world.examples]), dict[str, list[Any]]()
            for _, size in world.blocks(studies, 3, n):
                settings = draw(random, world, size, 3, n)
                x = settings[0]
                for name, (low, high) in {
                    "alone": interval(x, [x], METRICS["accuracy"]),
                    "of three": interval(x, settings, METRICS["accuracy"]),
                }.items():
                    held.setdefault(name, []).append((low <= ACCURACY) & (high >= ACCURACY))
                    held.setdefault("leaves [0, 1]", []).append((low < 0) | (high > 1))
                half = special.stdtrit(n - 1, 0.975) * np.sqrt(x.between / n)
                held.setdefault("t over seeds", []).append(np.abs(x.score - ACCURACY) <= half)
            row: dict[str, Any] = {"what": "score", "world": world.name, "examples": world.examples, "seeds": n}
            rows.append(say(row | {name: share(np.concatenate(hits)) for name, hits in held.items()}))
    return rows


def of_differences(studies: int) -> list[dict[str, Any]]:
    """How often two settings that are alike are called different, and two that differ by 0.06 (0.04 with 1,800
    examples) found to; a baseline without seeds, that is alike, called different."""
    rows = []
    for world in WORLDS:
        true = 0.06 if world.examples == 265 else 0.04
        for n in SEEDS:
            random = np.random.default_rng([2, n, world.examples])
            hits: dict[str, list[Any]] = {"size": [], "power": [], "covers": []}
            hits |= {"size against a fixed one": [], "the same, of two": []}
            for _, size in world.blocks(studies, 4, n):
                a, b = draw(random, world, size, 2, n)
                hits["size"].append(test(a, b, pooled([a, b])) <= 0.05)
                a, b = draw(random, world, size, 2, n, true)
                of = variance_of_difference(a, b, pooled([a, b]))
                hits["power"].append(p_value(a.score - b.score, of) <= 0.05)
                hits["covers"].append(np.abs(a.score - b.score - true) <= of.half(0.95))
                a, b, fixed = with_a_fixed_one(random, world, size, n)
                hits["size against a fixed one"].append(test(a, fixed, pooled([a, fixed])) <= 0.05)
                hits["the same, of two"].append(test(a, fixed, pooled([a, b, fixed])) <= 0.05)
            row: dict[str, Any] = {"what": "difference", "world": world.name, "examples": world.examples, "seeds": n}
            rows.append(say(row | {name: share(np.concatenate(of)) for name, of in hits.items()}))
    return rows


def of_families(studies: int) -> list[dict[str, Any]]:
    """Five settings that are alike, all ten pairs: how often any is called different."""
    rows = []
    for world in WORLDS:
        for n in SEEDS:
            random, hits = np.random.default_rng([3, n, world.examples]), []
            for _, size in world.blocks(studies, 5, n):
                _, p = corrected(draw(random, world, size, 5, n))
                hits.append((p <= 0.05).any(axis=-1))
            row = {"what": "family", "world": world.name, "examples": world.examples, "seeds": n}
            rows.append(say(row | {"any": share(np.concatenate(hits))}))
    return rows


def of_looks(studies: int, most: int = 20) -> list[dict[str, Any]]:
    """Settings that are alike, a seed more of each for each look, from 2 to `most`: how often a pair is ever called
    different, with the level of each look, and at 0.05 each time; how often all are called alike."""
    rows = []
    for world, settings in ((w, k) for k in (2, 5) for w in WORLDS if (k, w.examples) != (5, 1800)):
        random = np.random.default_rng([4, settings, world.examples])
        wrong, plain, alike = [], [], []
        for _, size in world.blocks(studies, settings, most):
            whole = draw(random, world, size, settings, most)
            ever, always, settled = np.zeros(size, bool), np.zeros(size, bool), np.zeros(size, bool)
            for look, n in enumerate(range(2, most + 1), start=1):
                some = [SeedsByExamples(x.values[:, :n]) for x in whole]
                pairs, p = corrected(some)
                together = pooled(some)
                alpha = alpha_of_look(look)
                found = []
                for k, (i, j) in enumerate(pairs):
                    half = variance_of_difference(some[i], some[j], together).half(1 - alpha)
                    found.append(decide(some[i].score - some[j].score, half, p[:, k], alpha, 0.02))
                said = np.stack(found, axis=-1)
                ever |= (said == "different").any(axis=-1)
                settled |= (said == "alike").all(axis=-1)
                always |= (p <= 0.05).any(axis=-1)
            wrong.append(ever)
            plain.append(always)
            alike.append(settled & ~ever)
        row = {"what": "looks", "world": world.name, "examples": world.examples, "settings": settings}
        row |= {"ever different": share(np.concatenate(wrong)), "at 0.05 each": share(np.concatenate(plain))}
        rows.append(say(row | {"alike": share(np.concatenate(alike))}))
    return rows


def of_power(studies: int) -> list[dict[str, Any]]:
    """A study says which difference it could show in four cases of five. In another of its kind, with that difference,
    how often is it shown?"""
    rows = []
    for world in WORLDS:
        for n in SEEDS:
            random, shown = np.random.default_rng([5, n, world.examples]), []
            for _, size in world.blocks(studies, 2, n):
                c = components(*draw(random, world, size, 2, n))
                delta = visible_difference(c, (n, n), world.examples)
                a, b = draw(random, world, size, 2, n, np.minimum(delta, 0.8))
                shown.append(test(a, b, pooled([a, b])) <= 0.05)
            row: dict[str, Any] = {"what": "power", "world": world.name, "examples": world.examples, "seeds": n}
            rows.append(say(row | {"shown": share(np.concatenate(shown))}))
    return rows


SHARES = {"f1": (0.7, 0.3), "matthews": (0.7, 0.3), "macro_f1": (0.6, 0.3, 0.1)}
SIGMA = 0.62  # of what is added to the gold number: a correlation of 0.85


def correlation_skill(world: World) -> float:
    """What the logarithm of the noise varies by, for correlations that spread as the accuracies do."""
    return world.spread / (SIGMA**2 / (1 + SIGMA**2) ** 1.5)


def truth(name: str, world: World) -> float:
    """The metric of infinitely many examples, averaged over seeds (Gauss and Hermite)."""
    x, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    if name in NUMBER_METRICS:
        r = 1 / np.sqrt(1 + (SIGMA * np.exp(correlation_skill(world) * x)) ** 2)
        return float(weights @ (r if name == "pearson" else 6 / np.pi * np.arcsin(r / 2)))
    shares = np.array(SHARES[name])
    right = special.ndtr(special.ndtri(ACCURACY) * math.sqrt(1 + world.skill**2) + world.skill * x)
    values = []
    for p in right:
        table = np.where(np.eye(len(shares)) > 0, p, (1 - p) / (len(shares) - 1)) * shares[:, None]
        gold, predicted = np.divmod(np.arange(table.size), len(shares))
        metric = CLASS_METRICS[name]
        assert metric.statistics is not None
        assert metric.value is not None
        cells = metric.statistics({"gold": gold, "predicted": predicted})
        values.append(float(metric.value(table.reshape(-1) @ cells)))
    return float(weights @ np.array(values))


def contributions(name: str, random: np.random.Generator, world: World, seeds: int) -> list[Floats]:
    """(seeds, examples) of two settings that are alike, of one study, by a metric that is not a mean."""
    metric, made = METRICS[name], []
    if name in NUMBER_METRICS:
        gold = random.standard_normal(world.examples)
        flat = World("", 0.0, world.examples)
        for x in sums(random, flat, 1, 2, seeds):
            scale = SIGMA * np.exp(correlation_skill(world) * random.standard_normal((seeds, 1)))
            made.append([{"gold": gold, "predicted": gold + noise} for noise in scale * x[0]])
    else:
        shares = SHARES[name]
        gold = random.choice(len(shares), world.examples, p=shares)
        wrong = (gold + random.integers(1, len(shares), world.examples)) % len(shares)
        for x in draw(random, world, 1, 2, seeds):
            made.append([{"gold": gold, "predicted": np.where(line > 0, gold, wrong)} for line in x.values[0]])
    settings = []
    for runs in made:
        lines = []
        for columns in runs:
            score, values = pseudo_values(metric, columns)
            lines.append(values - values.mean() + score)
        settings.append(np.stack(lines))
    return settings


def of_metrics(studies: int) -> list[dict[str, Any]]:
    """Metrics that are not means: coverage of the score (one of two settings), size of the difference."""
    rows = []
    for world in (WORLDS[1], WORLDS[3], WORLDS[2]):
        for name in ("f1", "macro_f1", "matthews", "pearson", "spearman"):
            random, true = np.random.default_rng([6, world.examples]), truth(name, world)
            held: dict[int, list[Any]] = {n: [] for n in FEWER}
            called: dict[int, list[Any]] = {n: [] for n in FEWER}
            for _, size in world.blocks(studies, 2, max(FEWER)):
                made = [contributions(name, random, world, max(FEWER)) for _ in range(size)]
                whole = [np.stack([both[k] for both in made]) for k in range(2)]
                for n in FEWER:
                    a, b = (SeedsByExamples(x[:, :n]) for x in whole)
                    low, high = interval(a, [a, b], METRICS[name])
                    held[n].append((low <= true) & (high >= true))
                    called[n].append(test(a, b, pooled([a, b])) <= 0.05)
            for n in FEWER:
                row = {"what": "metric", "metric": name, "world": world.name, "examples": world.examples, "seeds": n}
                found = {"covers": share(np.concatenate(held[n])), "size": share(np.concatenate(called[n]))}
                rows.append(say(row | found))
    return rows


SIZES = (280, 560, 1120, 2240, 4480)
LAWS: dict[str, Callable[[Floats], Floats]] = {
    "a plateau from 2,240 rows": lambda n: 0.12 + 0.06 * np.maximum(0.0, np.log2(2240 / n)),
    "flat": lambda n: np.full_like(n, 0.12),
    "falling slowly": lambda n: 1.5 * n**-0.4 + 0.05,
    "falling fast": lambda n: 6.0 * n**-0.5 + 0.02,
}
"""The true error with n training rows: doubling the most of these takes off 0, 0, 0.013 and 0.026."""


def of_curves(studies: int) -> list[dict[str, Any]]:
    """Five sizes, 1,800 examples, runs that spread as in the typical world: is the error with twice the rows inside its
    interval, and how often is it said that more labels would help, or would hardly help?"""
    rows, world, n = [], WORLDS[2], np.array(SIZES, dtype=np.float64)
    for law, error in LAWS.items():
        for seeds in (3, 5):
            random = np.random.default_rng([7, seeds])
            inside, said, alone = [], [], []
            for _ in range(studies):
                wrong = {}
                for size, x in zip(SIZES, sums(random, world, 1, len(SIZES), seeds), strict=True):
                    mean = special.ndtri(1 - error(np.array([float(size)]))[0]) * math.sqrt(1 + world.skill**2)
                    wrong[size] = (x[0] + mean <= 0).astype(np.float64)
                found = learning_curve(wrong)
                assert found.low is not None
                assert found.high is not None
                assert found.gain_low is not None
                inside.append(found.low <= float(error(2 * n)[-1]) <= found.high)
                said.append(found.verdict)
                alone.append(found.gain_low >= 0.01)
            row: dict[str, Any] = {"what": "curve", "errors": law, "seeds": seeds, "covers": share(inside)}
            row |= {"the whole curve alone": share(alone)}
            rows.append(say(row | {word: share(np.array(said) == word) for word in ("help", "hardly")}))
    return rows


PARTS: dict[str, Callable[[int], list[dict[str, Any]]]] = {
    "score": of_scores,
    "difference": of_differences,
    "family": of_families,
    "looks": of_looks,
    "power": of_power,
    "metrics": of_metrics,
    "curves": of_curves,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=5000)
    parser.add_argument("--only", default=",".join(PARTS))
    given = parser.parse_args()
    for name in given.only.split(","):
        start = time.perf_counter()
        PARTS[name](given.studies)
        print(json.dumps({"part": name, "seconds": round(time.perf_counter() - start)}), flush=True)


if __name__ == "__main__":
    main()
