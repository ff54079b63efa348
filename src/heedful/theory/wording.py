"""What a check came to, in words: with the measured number for a terminal, and so that it reads the same on every
machine for a page that is kept."""

from heedful.report.page.words import share
from heedful.theory.demonstration import Check

ROUNDING = 1e-6
"""A tolerance up to which a deviation is rounding, which differs between machines."""


def outcome(check: Check) -> str:
    """In a word or three."""
    if check.expected == "holds":
        return "holds" if check.passed else "DOES NOT HOLD"
    return "fails, as it should" if check.passed else "DOES NOT FAIL"


def measured(check: Check, exactly: bool) -> str:
    """How many draws, how far the worst of them is off, and what would have been too far; `exactly`: with the number
    itself even where it is rounding alone."""
    draws, tolerance, worst = f"{check.draws:,} draws", number(check.tolerance), number(check.worst)
    if check.expected == "fails" or not check.passed:
        return f"{draws}; {share(check.broken)} are off by more than {tolerance}, the worst by {worst}"
    if check.worst < 0 and (exactly or check.worst < -ROUNDING):
        return f"{draws}; the closest has {number(-check.worst)} to spare"
    if 0 < check.tolerance <= ROUNDING and not exactly:  # another machine's rounding may be 0, or not
        return f"{draws}; none is off by more than {tolerance}"
    if check.worst <= 0:
        return f"{draws}; none is off"
    return f"{draws}; the worst is off by {worst}, {tolerance} is allowed"


def number(value: float) -> str:
    """Two digits: 0.013, 2.5e−7."""
    return f"{value:.2g}".replace("e-0", "e-").replace("e+0", "e").replace("-", "−") if value else "0"
