"""Would more labels help? The error against the number of training rows, and what the fitted curve says of more."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

Floats = npt.NDArray[np.float64]

_POWERS = np.arange(0.02, 2.005, 0.02)
_DRAWS = 2000
_WORTH = 0.01  # a gain that people would label for, in the measure's own units


@dataclass(frozen=True)
class LearningCurve:
    """error(n) = a·n^−b + c, the power law that errors follow over wide ranges of n (Hestness et al., 2017)."""

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
    sentence: str


def learning_curve(errors: Mapping[int, Sequence[float]], seed: int = 0, measure: str = "error") -> LearningCurve:
    """From the errors (or something else that falls, under the name of `measure`) of each seed for each number of rows.

    Least squares over the means, weighted by their numbers of seeds, with a, c ≥ 0 and b from 0.02 to 2. The intervals
    are those of 2,000 curves through means redrawn with the seeds' pooled spread, by Student's t: three seeds a
    size are few, but all sizes together tell the spread. They hold for these test examples and this shape of curve, and
    for other training rows only if each seed had its own.
    """
    sizes = sorted(errors)
    if len(sizes) < 3:
        raise ValueError("a learning curve needs three or more numbers of rows")
    means = np.array([np.mean(errors[n]) for n in sizes])
    weights = np.array([len(errors[n]) for n in sizes], dtype=np.float64)
    x = np.array(sizes, dtype=np.float64) / sizes[-1]  # a of the scaled curve is of the size of the errors
    a, b, c = (float(v[0]) for v in _fit(x, means[None], weights))
    freedom = int(weights.sum()) - len(sizes)
    spread = np.sqrt(sum(float(np.var(errors[n])) * len(errors[n]) for n in sizes) / freedom) if freedom > 0 else 0.0
    now, doubled = a + c, a * 2.0**-b + c
    facts: dict[str, float | None] = dict.fromkeys(("low", "high", "gain_low", "gain_high"))
    if freedom > 0:
        noise = special.stdtrit(freedom, np.random.default_rng(seed).uniform(size=(_DRAWS, len(sizes))))
        drawn_a, drawn_b, drawn_c = _fit(x, means + spread / np.sqrt(weights) * noise, weights)
        later = drawn_a * 2.0**-drawn_b + drawn_c
        facts["low"], facts["high"] = np.quantile(later, [0.025, 0.975]).tolist()
        facts["gain_low"], facts["gain_high"] = np.quantile(drawn_a + drawn_c - later, [0.025, 0.975]).tolist()
    words = _sentence(sizes[-1], measure, now, doubled, **facts)
    if len(sizes) == 3:
        words += " Three sizes cannot show whether the curve has this shape."
    return LearningCurve(
        a=a * sizes[-1] ** b, b=b, c=c, rows=sizes[-1], now=now, doubled=doubled, **facts, sentence=words
    )


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


def _sentence(
    rows: int, measure: str, now: float, doubled: float,
    low: float | None, high: float | None, gain_low: float | None, gain_high: float | None,
) -> str:  # fmt: skip
    article = "an" if measure[0] in "aeiou" else "a"
    if low is None or high is None or gain_low is None or gain_high is None:
        expected = f"With twice the {rows:,} rows the fitted curve expects {article} {measure} of {doubled:.3f}"
        return f"{expected} instead of {now:.3f}; with one seed for each size nothing says how sure that is."
    expected = (
        f"With twice the {rows:,} rows the fitted curve expects {article} {measure} of {doubled:.3f} "
        f"({low:.3f} … {high:.3f}) instead of {now:.3f}"
    )
    if gain_low >= _WORTH:  # a curve cannot rise, so that a gain above zero alone says little
        return f"{expected}: more labels would help."
    if gain_high < _WORTH:
        return f"{expected}: more labels would hardly help; look at the model, the texts or the labels themselves."
    gain = f"{gain_low:.3f} … {gain_high:.3f}"
    return f"{expected}, a gain of {gain}: these seeds cannot tell whether more labels would help much."
