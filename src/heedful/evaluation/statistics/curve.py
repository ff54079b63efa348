"""Would more labels help? The error against the number of training rows: what the last rows brought, and what a fitted
curve says of more.

error(n) = a·n^−b + c is the power law that errors follow over wide ranges of n (Hestness et al., 2017), and not over
all: a curve that has become flat looks like one if it is steep at first. So a gain is promised only if the curve
through all sizes but the smallest promises it too, and the points do not speak against such a curve.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import special

from heedful.evaluation.statistics.crossed import SeedsByExamples, pooled, variance_of_difference

Floats = npt.NDArray[np.float64]

_POWERS = np.arange(0.02, 2.005, 0.02)
_DRAWS = 1000
_WORTH = 0.01  # a gain that people would label for, in the measure's own units
_LEVEL = 0.05  # at which a lack of fit objects


@dataclass(frozen=True)
class Step:
    """From the last size but one to the last, as it was seen."""

    before: int
    after: int
    gain: float
    """What it took off the error."""
    low: float | None
    high: float | None


@dataclass(frozen=True)
class LearningCurve:
    a: float
    b: float
    c: float
    rows: int
    """The most that were trained on."""
    now: float
    """The curve's error there."""
    doubled: float
    """The curve's error with twice as many."""
    low: float | None
    high: float | None
    """The 95 % interval of the error with twice as many; None with one seed for each size."""
    gain_low: float | None
    gain_high: float | None
    """The 95 % interval of what doubling takes off the error."""
    without_smallest: tuple[float, float] | None
    """The same by the curve through all sizes but the smallest; None where these are fewer than three."""
    lack_of_fit: float | None
    """The p of points that lie so far off, if errors follow such a curve; None with three sizes, which lie on one."""
    last: Step
    verdict: Literal["help", "hardly", "open"]
    sentence: str


def learning_curve(errors: Mapping[int, Floats], seed: int = 0, measure: str = "error") -> LearningCurve:
    """From the errors (s, e) of each seed on each example for each number of rows (or something else that falls, under
    the name of `measure`); (s, 1) if only the means are known.

    Least squares over the means, weighted by their numbers of seeds, with a, c ≥ 0 and b from 0.02 to 2. The intervals
    are those of 1,000 curves through means redrawn with the seeds' pooled spread, by Student's t, and with the spread
    over the examples, which all sizes share. They hold for other training rows only if each seed had its own.
    """
    sizes = sorted(errors)
    if len(sizes) < 3:
        raise ValueError("a learning curve needs three or more numbers of rows")
    settings = [SeedsByExamples(np.asarray(errors[n], dtype=np.float64)) for n in sizes]
    means, last = np.array([float(x.score) for x in settings]), _last_step(sizes, settings)
    weights = np.array([x.seeds for x in settings], dtype=np.float64)
    x = np.array(sizes, dtype=np.float64) / sizes[-1]  # a of the scaled curve is of the size of the errors
    a, b, c = (float(v[0]) for v in _fit(x, means[None], weights))
    now, doubled = a + c, a * 2.0**-b + c
    level = gain = without = lack = None
    together = pooled(settings)
    if together is not None:
        spread, freedom = float(together.between), together.freedom
        noise = _noise(settings, spread, freedom, seed)
        level, gain = _doubling(x, means + noise, weights)
        if len(sizes) > 3:
            without = _doubling(x[1:], (means + noise)[:, 1:], weights[1:])[1]
            lack = _lack_of_fit(settings, means - (a * x**-b + c), spread, freedom)
    verdict = _verdict(gain, without, lack)
    words = _sentence(sizes[-1], measure, last, now, doubled, level, gain, verdict, without, lack)
    return LearningCurve(
        a=a * sizes[-1] ** b, b=b, c=c, rows=sizes[-1], now=now, doubled=doubled,
        low=level[0] if level else None, high=level[1] if level else None,
        gain_low=gain[0] if gain else None, gain_high=gain[1] if gain else None,
        without_smallest=without, lack_of_fit=lack, last=last, verdict=verdict, sentence=words,
    )  # fmt: skip


def _last_step(sizes: list[int], settings: list[SeedsByExamples]) -> Step:
    before, after = settings[-2:]
    gain = float(before.score - after.score)
    if before.examples < 2 and not (before.seeds_count and after.seeds_count):
        return Step(sizes[-2], sizes[-1], gain, None, None)
    half = float(variance_of_difference(before, after, pooled(settings)).half(0.95))
    return Step(sizes[-2], sizes[-1], gain, gain - half, gain + half)


def _noise(settings: list[SeedsByExamples], spread: float, freedom: int, seed: int) -> Floats:
    """(draws, sizes): what other seeds and other examples might have added to each mean."""
    random, k = np.random.default_rng(seed), len(settings)
    of_seeds = special.stdtrit(freedom, random.uniform(size=(_DRAWS, k)))
    noise = np.sqrt(spread / np.array([x.seeds for x in settings])) * of_seeds
    examples = settings[0].examples
    if examples > 1:
        centred_ke = np.stack([x.mean_e - x.score for x in settings])
        covariance = centred_ke @ centred_ke.T / (examples - 1) / examples
        values, vectors = np.linalg.eigh(covariance)
        noise = noise + random.standard_normal((_DRAWS, k)) @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
    return np.asarray(noise, dtype=np.float64)


def _doubling(x: Floats, means: Floats, weights: Floats) -> tuple[tuple[float, float], tuple[float, float]]:
    """The 95 % intervals of the error with twice the rows, and of the gain."""
    a, b, c = _fit(x, means, weights)
    later = a * 2.0**-b + c
    (low, high), (least, most) = (np.quantile(v, [0.025, 0.975]).tolist() for v in (later, a + c - later))
    return (low, high), (least, most)


def _lack_of_fit(settings: list[SeedsByExamples], off: Floats, spread: float, freedom: int) -> float:
    """The F test of the means about the curve, against the spread of the seeds and of the examples' differences."""
    noise = np.array([spread / x.seeds for x in settings])
    if settings[0].examples > 1:
        mean_ke = np.stack([x.mean_e for x in settings])
        noise = noise + (mean_ke - mean_ke.mean(axis=0)).var(axis=1, ddof=1) / settings[0].examples
        noise = noise - np.array([float(x.residual) / (x.seeds * x.examples) for x in settings])
    noise = np.maximum(noise, 1e-30)
    among = len(settings) - 3
    return float(special.fdtrc(among, freedom, float((off**2 / noise).sum()) / among))


def _fit(x_s: Floats, y_ks: Floats, weights_s: Floats) -> tuple[Floats, Floats, Floats]:
    """a, b and c of k curves through s points each: for each power the best line with a, c ≥ 0, then the best power."""
    w = weights_s / weights_s.sum()
    least = np.full(len(y_ks), np.inf)
    a, b, c = np.zeros(len(y_ks)), np.zeros(len(y_ks)), np.zeros(len(y_ks))
    mean_y = y_ks @ w
    for power in _POWERS:
        z = x_s**-power
        mean_z = float(z @ w)
        variance = float((z - mean_z) ** 2 @ w)
        slope = ((y_ks - mean_y[:, None]) * (z - mean_z)) @ w / variance
        slope = np.maximum(slope, 0.0)
        level = mean_y - slope * mean_z
        through_zero = np.maximum((y_ks * z) @ w / float(z**2 @ w), 0.0)
        slope, level = np.where(level < 0, through_zero, slope), np.maximum(level, 0.0)
        off = (y_ks - slope[:, None] * z - level[:, None]) ** 2 @ w
        better = off < least - 1e-15
        least, b = np.where(better, off, least), np.where(better, power, b)
        a, c = np.where(better, slope, a), np.where(better, level, c)
    return a, b, c


def _verdict(
    gain: tuple[float, float] | None, without: tuple[float, float] | None, lack: float | None
) -> Literal["help", "hardly", "open"]:
    if gain is None:
        return "open"
    if without is not None and min(gain[0], without[0]) >= _WORTH and lack is not None and lack > _LEVEL:
        return "help"  # a curve cannot rise, so that a gain above zero alone says little
    if max(gain[1], without[1] if without is not None else 0.0) < _WORTH:
        return "hardly"
    return "open"


def _sentence(
    rows: int, measure: str, last: Step, now: float, doubled: float, level: tuple[float, float] | None,
    gain: tuple[float, float] | None, verdict: str, without: tuple[float, float] | None, lack: float | None,
) -> str:  # fmt: skip
    article = "an" if measure[0] in "aeiou" else "a"
    moved = f"{'fell' if last.gain >= 0 else 'rose'} by {abs(last.gain):.3f}"
    if last.low is not None and last.high is not None:
        ends = (last.low, last.high) if last.gain >= 0 else (-last.high, -last.low)
        moved += f" ({ends[0]:.3f} to {ends[1]:.3f})".replace("-", "−")
    seen = f"From {last.before:,} to {last.after:,} rows the {measure} {moved}. "
    expected = f"With twice the {rows:,} rows the fitted curve expects {article} {measure} of {doubled:.3f}"
    if level is None or gain is None:
        return f"{seen}{expected} instead of {now:.3f}; with one seed for each size nothing says how sure that is."
    expected = f"{seen}{expected} ({level[0]:.3f} to {level[1]:.3f}) instead of {now:.3f}"
    if verdict == "help":
        return f"{expected}: more labels would help."
    if verdict == "hardly":
        return f"{expected}: more labels would hardly help; look at the model, the texts or the labels themselves."
    promised = f"{expected}, a gain of {gain[0]:.3f} to {gain[1]:.3f}"
    if gain[0] < _WORTH:
        return f"{promised}: these seeds and examples cannot tell whether more labels would help much."
    if without is None:
        return f"{promised}; three sizes cannot show whether the curve has this shape, so that is no promise."
    if lack is not None and lack <= _LEVEL:
        return f"{promised}; but the points do not lie on such a curve, so that is no promise."
    return f"{promised}; but without the smallest size it promises less, so that is no promise."
