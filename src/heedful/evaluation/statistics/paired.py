"""Does A beat B on the same examples? Tests that pair the two example by example, and seed by seed.

Scores are arrays (seeds, examples): 1 where a run is right on an example, else 0 (or any score per example, higher is
better). One seed is an array (1, examples).
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy import stats

Floats = npt.NDArray[np.float64]
DRAWS = 10_000
_EXACT = 16  # pairs up to which all 2ⁿ signs are enumerated
_BLOCK = 2_000_000  # numbers held at a time
_MOST_CACHED = 20_000_000  # counts that are kept for the next comparison


@dataclass(frozen=True)
class Test:
    name: str
    difference: float
    """Mean of A minus mean of B."""
    p: float
    """Two-sided."""
    low: float | None
    high: float | None
    """95 % interval of the difference, where the test gives one."""
    sentence: str


def permutation_over_examples(a_se: Floats, b_se: Floats, draws: int = DRAWS, seed: int = 0) -> Test:
    """If A and B were alike, which of the two got which score on an example would be a coin's toss.

    The seeds are averaged first: the answer is about these runs on other examples, not about other seeds.
    """
    d_e = _means(a_se).mean(axis=0) - _means(b_se).mean(axis=0)
    p = sign_flips(d_e, draws, seed)
    difference = float(d_e.mean())
    words = f"Over {len(d_e)} examples, A is {_ahead(difference)}; {_chance(p)} (permutation test)."
    return Test("permutation over examples", difference, p, None, None, words + " " + _verdict(p))


def permutation_over_seeds(a_se: Floats, b_se: Floats) -> Test:
    """The same with whole runs: seed i of A is paired with seed i of B. The smallest p possible is 2/2ⁿ."""
    a, b = _means(a_se), _means(b_se)
    if len(a) != len(b):
        raise ValueError(f"seeds are paired, but A has {len(a)} and B has {len(b)}")
    d_s = a.mean(axis=1) - b.mean(axis=1)
    n = len(d_s)
    p = sign_flips(d_s, DRAWS, 0)
    difference = float(d_s.mean())
    words = f"Over {n} pairs of seeds, A is {_ahead(difference)}; {_chance(p)} (permutation test)."
    if 2 / 2**n > 0.05:
        words += f" With {n} pairs this test can never reach 0.05: its smallest p is {2 / 2**n:.2g}."
    else:
        words += " " + _verdict(p)
    return Test("permutation over seeds", difference, p, None, None, words)


def sign_flips(d_n: Floats, draws: int, seed: int) -> float:
    """The two-sided p of a mean under random signs: exact up to 16 numbers that are not zero, else by `draws`."""
    d_n = d_n[d_n != 0]
    n = len(d_n)
    if n == 0:
        return 1.0
    observed = abs(d_n.sum()) - 1e-9 * np.abs(d_n).sum()  # equal sums may differ in the last bit
    if n <= _EXACT:
        signs = 1.0 - 2.0 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)
        return float((np.abs(signs @ d_n) >= observed).mean())
    random, hits, block = np.random.default_rng(seed), 0, max(1, _BLOCK // n)
    for at in range(0, draws, block):
        heads = random.integers(0, 2, size=(min(block, draws - at), n), dtype=np.int8)
        hits += int((np.abs((2.0 * heads - 1.0) @ d_n) >= observed).sum())
    return (hits + 1) / (draws + 1)


def paired_bootstrap(a_se: Floats, b_se: Floats, draws: int = DRAWS, seed: int = 0) -> Test:
    """Other examples and other seeds: both are redrawn with replacement, the examples alike for A and B.

    Seeds of A and B are drawn apart: they share a number, nothing else. With one seed each, only examples are drawn.
    """
    a_se, b_se = _means(a_se), _means(b_se)
    random, differences = np.random.default_rng([seed, 1]), []
    examples = a_se.shape[1]
    for counts_de in _other_examples(examples, draws, seed):
        size, drawn = len(counts_de), []
        for x_se in (a_se, b_se):
            n = len(x_se)
            weights_ds = random.multinomial(n, np.full(n, 1 / n), size=size) / n
            drawn.append(((counts_de.astype(np.float64) @ x_se.T) / examples * weights_ds).sum(axis=1))
        differences.append(drawn[0] - drawn[1])
    d = np.concatenate(differences)
    difference = float(a_se.mean() - b_se.mean())
    low, high = (float(q) for q in np.quantile(d, [0.025, 0.975]))
    below, above = int((d <= 0).sum()), int((d >= 0).sum())
    p = min(1.0, 2 * (min(below, above) + 1) / (draws + 1))
    what = "examples" if len(a_se) == len(b_se) == 1 else "examples and seeds"
    words = (
        f"A is {_ahead(difference)}; drawing other {what} moves the difference between {low:+.3f} and {high:+.3f} "
        f"(95 % paired bootstrap, p = {p:.3g}). {_verdict(p)}"
    )
    few = min((len(x_se) for x_se in (a_se, b_se) if len(x_se) > 1), default=1)
    if 1 < few < 10:
        words += f" With {few} seeds the share of the seeds in this interval is itself a rough guess, and too small."
    return Test("paired bootstrap", difference, p, low, high, words)


def _other_examples(examples: int, draws: int, seed: int) -> Iterable[npt.NDArray[np.uint16]]:
    """How often each example is drawn, draw by draw, in blocks. A study compares many pairs on the same examples, and
    these draws are most of the work, so the last ones are kept unless they are too many."""
    return _cached_draws(examples, draws, seed) if examples * draws <= _MOST_CACHED else _draw(examples, draws, seed)


@lru_cache(maxsize=1)
def _cached_draws(examples: int, draws: int, seed: int) -> tuple[npt.NDArray[np.uint16], ...]:
    return tuple(_draw(examples, draws, seed))


def _draw(examples: int, draws: int, seed: int) -> Iterator[npt.NDArray[np.uint16]]:
    random, block = np.random.default_rng([seed, 0]), max(1, _BLOCK // examples)
    for at in range(0, draws, block):
        size = min(block, draws - at)
        yield random.multinomial(examples, np.full(examples, 1 / examples), size=size).astype(np.uint16)


def mcnemar(a_e: npt.NDArray[np.bool_], b_e: npt.NDArray[np.bool_]) -> Test:
    """One run against one run: of the examples that only one of them gets right, is it a coin's toss which? (exact)"""
    only_a, only_b = int((a_e & ~b_e).sum()), int((~a_e & b_e).sum())
    p = float(stats.binomtest(only_a, only_a + only_b).pvalue) if only_a + only_b else 1.0
    difference = (only_a - only_b) / len(a_e)
    words = (
        f"Of {len(a_e)} examples only A is right on {only_a}, only B on {only_b}; {_chance(p)} "
        f"(McNemar's exact test). {_verdict(p)}"
    )
    return Test("McNemar", difference, p, None, None, words)


def _means(x: Floats) -> Floats:
    x = np.asarray(x, dtype=np.float64)
    if x.ndim != 2 or 0 in x.shape:
        raise ValueError(f"scores are (seeds, examples), not {x.shape}")
    return x


def _ahead(difference: float) -> str:
    if difference == 0:
        return "neither ahead nor behind"
    return f"{abs(difference):.3f} {'ahead' if difference > 0 else 'behind'}"


def _chance(p: float) -> str:
    return f"if the two were alike, so large a difference would come up with probability {p:.3g}"


def _verdict(p: float) -> str:
    if math.isnan(p) or p > 0.05:
        return "This does not show a difference."
    return "The difference is significant at 0.05."
