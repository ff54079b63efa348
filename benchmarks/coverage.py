"""Do the statistics keep their word? Studies are drawn from a world whose truth is known, thousands of times.

    python benchmarks/coverage.py [--studies N]

Intervals over seeds: n scores from a normal distribution, and from one in which one run in ten fails; how often does
the nominal 95 % interval hold the true mean? Tests over examples: two methods of the same true accuracy, 200 examples
of unequal difficulty, s seeds each whose skill varies from run to run; how often does a test at 5 % cry wolf, and how
often does the interval of the difference hold zero? "same seeds" asks about these very runs on other examples, "other
seeds" about the methods. The Monte-Carlo error (one standard error) stands beside each share.
"""

import argparse
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from heedful.evaluation.statistics.curve import learning_curve
from heedful.evaluation.statistics.intervals import bootstrap_interval, t_interval
from heedful.evaluation.statistics.paired import mcnemar, paired_bootstrap, permutation_over_examples

Floats = npt.NDArray[np.float64]
EXAMPLES, DRAWS = 200, 1000
SPREAD = 0.25
"""Standard deviation of a run's skill, in logits: about 0.03 of accuracy at 0.8."""


def share(hits: int, studies: int) -> dict[str, float]:
    p = hits / studies
    return {"share": round(p, 4), "error": round(math.sqrt(p * (1 - p) / studies), 4)}


def normal(random: np.random.Generator, n: int) -> Floats:
    return random.normal(0.8, 0.02, n)


def with_failures(random: np.random.Generator, n: int) -> Floats:
    return np.where(random.random(n) < 0.1, 0.5, random.normal(0.8, 0.02, n))


WORLDS: dict[str, tuple[Callable[[np.random.Generator, int], Floats], float]] = {
    "normal": (normal, 0.8),
    "one run in ten fails": (with_failures, 0.77),
}


def intervals(studies: int) -> list[dict[str, Any]]:
    rows = []
    for world, (draw, mean) in WORLDS.items():
        for n in (3, 5, 10):
            for name, make in (("t", t_interval), ("bootstrap", lambda x: bootstrap_interval(x, draws=DRAWS))):
                random, hits = np.random.default_rng(n), 0
                for _ in range(studies):
                    found = make(draw(random, n).tolist())
                    assert found.low is not None
                    assert found.high is not None
                    hits += found.low <= mean <= found.high
                rows.append({"world": world, "n": n, "interval": name, "covers": share(hits, studies)})
                print(json.dumps(rows[-1]), flush=True)
    return rows


def runs(random: np.random.Generator, difficulty_e: Floats, skill_s: Floats) -> Floats:
    """Right or wrong, (seeds, examples): logistic in skill minus difficulty."""
    p_se = 1 / (1 + np.exp(difficulty_e - skill_s[:, None]))
    return (random.random(p_se.shape) < p_se).astype(np.float64)


def tests(studies: int) -> list[dict[str, Any]]:
    rows = []
    for seeds in (1, 3, 5, 10):
        for question, spread in (("same seeds", 0.0), ("other seeds", SPREAD)):
            random = np.random.default_rng([seeds, int(100 * spread)])
            false = {"paired bootstrap": 0, "permutation": 0, "McNemar": 0}
            covered = 0
            for study in range(studies):
                difficulty = random.normal(-1.8, 1.5, EXAMPLES)
                a, b = (runs(random, difficulty, random.normal(0, spread, seeds)) for _ in range(2))
                boot = paired_bootstrap(a, b, DRAWS, study)
                assert boot.low is not None
                assert boot.high is not None
                false["paired bootstrap"] += boot.p < 0.05
                covered += boot.low <= 0 <= boot.high
                false["permutation"] += permutation_over_examples(a, b, DRAWS, study).p < 0.05
                false["McNemar"] += mcnemar(a[0] > 0, b[0] > 0).p < 0.05
            row: dict[str, Any] = {"seeds": seeds, "asked about": question, "covers": share(covered, studies)}
            row |= {name: share(hits, studies) for name, hits in false.items() if name != "McNemar" or seeds == 1}
            rows.append(row)
            print(json.dumps(row), flush=True)
    return rows


def curves(studies: int) -> None:
    """Five sizes, errors that fall by a power of the rows or not at all: is the error with twice the rows inside its
    interval, and how often is it said that more labels would help?"""
    sizes = (280, 560, 1120, 2240, 4480)
    for world, (a, b, c) in {"falling": (1.5, 0.4, 0.05), "flat": (0.0, 0.4, 0.3)}.items():
        for seeds in (3, 5):
            random, inside, told = np.random.default_rng(seeds), 0, 0
            for study in range(studies):
                errors = {n: (a * n**-b + c + random.normal(0, 0.01, seeds)).tolist() for n in sizes}
                found = learning_curve(errors, study)
                inside += found.low <= a * (2 * sizes[-1]) ** -b + c <= found.high
                told += "more labels would help." in found.sentence
            row = {"curve": world, "seeds": seeds, "covers": share(inside, studies), "would help": share(told, studies)}
            print(json.dumps(row), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--studies", type=int, default=5000)
    studies = parser.parse_args().studies
    intervals(studies)
    tests(studies)
    curves(studies // 5)  # a curve takes as long as many tests


if __name__ == "__main__":
    main()
