"""Where two aligned texts come apart: for a while, though they have equally many lines, as one line is lost on one side
and another elsewhere on the other; or to the end, as one side has lost lines.

Long sentences have long translations. Where that holds for a line and a neighbour of its own, and not for the line
itself, the sides are shifted against each other. Letters: n lines, d the shift, k … m the lines that are shifted.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_SHIFTS = (1, -1, 2, -2, 3, -3)
_ENOUGH = 50
"""Lines that must be shifted, and lines that must not be, before anything is said."""
_CLEAR = 6.0
"""Standard errors by which the neighbours must fit better: so many that, looked for at every place of a million lines,
they hardly come by chance."""
_TOGETHER = 0.3
"""The least correlation of lengths that go together."""
_FEWEST = 10
"""Lines after a loss that must fit shifted, before its place is named."""
_SURE = 4.0
"""Standard errors by which they must fit better so: looked for at every place, but with one shift, which is known."""
_NEAR = 50
"""Lines on each side of a loss that must fit: where lines are lost in several places, some do not."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Shift:
    first: int
    """The place of the first pair that is shifted, from 0."""
    last: int
    by: int
    """Line i of the source goes with line i + by of the target."""
    own: float
    """The correlation of the lengths there, of each line and its own."""
    shifted: float
    elsewhere: float
    """Of each line and its own, where nothing is shifted."""


def find_shift(sources: Sequence[str], targets: Sequence[str]) -> Shift | None:
    """Find the stretch of lines that fits best with its neighbours, if that cannot be chance."""
    if len(sources) < 2 * _ENOUGH:
        return None
    from scipy.stats import rankdata  # takes a second to import

    # Ranks from −1 to 1, so that no line counts for more than another, however long it is.
    a_n, b_n = ((2 * rankdata(list(map(len, side))) - 1) / len(side) - 1.0 for side in (sources, targets))
    found = [shift for d in _SHIFTS if (shift := _shifted_by(d, a_n, b_n)) is not None]
    return max(found, key=lambda shift: (shift.last - shift.first) * (shift.shifted - shift.own), default=None)


def _shifted_by(d: int, a_n: Floats, b_n: Floats) -> Shift | None:
    n, skip = len(a_n), max(0, -d)
    a, own, other = a_n[skip : n - max(0, d)], b_n[skip : n - max(0, d)], b_n[skip + d : n + min(0, d)]
    gain = a * (other - own)  # its mean is below 0 where lines are in place
    k, m = _best_stretch(gain)
    if m - k < _ENOUGH or len(a) - (m - k) < _ENOUGH:
        return None
    rest = np.r_[0:k, m : len(a)]
    elsewhere, straight, shifted = (
        correlation(a[rest], own[rest]),
        correlation(a[k:m], own[k:m]),
        correlation(a[k:m], other[k:m]),
    )
    clear = gain[k:m].mean() * np.sqrt(m - k) > _CLEAR * gain[k:m].std()
    if not clear or min(shifted, elsewhere) < _TOGETHER or shifted < 2 * straight:
        return None
    return Shift(skip + k, skip + m - 1, d, straight, shifted, elsewhere)


def find_loss(more: Sequence[str], fewer: Sequence[str]) -> int | None:
    """Find where the shorter side lost its lines: the place, from 0, before which pairs fit as they are, and after
    which they fit shifted by the difference of the sides. None if that is not certain, or if all pairs fit as they are.
    """
    d, n = len(more) - len(fewer), len(fewer)
    if n < _FEWEST:
        return None
    a_m, b_n = (np.log1p([len(text) for text in side]) for side in (more, fewer))
    own_n, other_n = a_m[:n], a_m[d:]
    usual = np.median(a_m) - np.median(b_n)
    gain_n = np.abs(own_n - b_n - usual) - np.abs(other_n - b_n - usual)
    k = n - int(np.argmax(np.concatenate([[0.0], np.cumsum(gain_n[::-1])])))
    gain = gain_n[k:]
    if len(gain) < _FEWEST or gain.mean() * np.sqrt(len(gain)) <= _SURE * gain.std():
        return None
    before, after = slice(max(0, k - _NEAR), k), slice(k, k + _NEAR)
    straight, shifted = _steps_together(b_n[after], own_n[after]), _steps_together(b_n[after], other_n[after])
    if shifted - max(0.0, straight) < _TOGETHER:
        return None
    fits_before = k < _FEWEST or _steps_together(b_n[before], own_n[before]) >= _TOGETHER
    return k if fits_before else None


def _steps_together(a: Floats, b: Floats) -> float:
    """Return the correlation of changes from line to line. Lengths that drift on both sides correlate everywhere."""
    return correlation(np.diff(a), np.diff(b))


def _best_stretch(gain: Floats) -> tuple[int, int]:
    """Return k and m, between which the sum is greatest."""
    sums = np.concatenate([[0.0], np.cumsum(gain)])
    least = np.minimum.accumulate(sums)
    m = int(np.argmax(sums - least))
    return int(np.argmin(sums[: m + 1])), m


def correlation(a: Floats, b: Floats) -> float:
    """Return Pearson's correlation; 0 where a side never changes."""
    return float(np.corrcoef(a, b)[0, 1]) if a.std() > 0 and b.std() > 0 else 0.0
