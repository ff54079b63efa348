"""Demonstrations: a claim, its reason, checks over many random draws, figures, and where it stops being true.

A demonstration is a module in `demonstrations/` with a function `show`, and a Markdown file with the words.
Text and numbers of a page come from one run, so that they cannot disagree.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from heedful.report.page.pieces import Block
from heedful.report.page.words import share

DRAWS = 1000
"""How many random draws each check makes, at least."""
ROUNDING = 1e-6
"""A tolerance up to which a deviation is rounding, which differs between machines."""


@dataclass(frozen=True)
class Check:
    """One statement, held against many random draws in double precision."""

    statement: str
    """One sentence, with the symbols of the page."""
    deviations: Tensor
    """One number for each draw: how far the draw is from what is stated. For an inequality, by how much it is broken (a
    negative number is a margin)."""
    tolerance: float
    expected: Literal["holds", "fails"] = "holds"
    """ "fails": a counterexample. Beyond the limits of a claim most draws must break it, or the limit is not real."""

    @property
    def draws(self) -> int:
        return self.deviations.numel()

    @property
    def worst(self) -> float:
        return float(self.deviations.max())

    @property
    def broken(self) -> float:
        """The share of draws that are further off than the tolerance. NaN counts as broken."""
        return float((~(self.deviations <= self.tolerance)).double().mean())

    @property
    def passed(self) -> bool:
        return self.broken == 0 if self.expected == "holds" else self.broken > 0.5


@dataclass(frozen=True)
class Shown:
    """The results of one run of a demonstration."""

    checks: tuple[Check, ...]
    """Checks of the claim."""
    figures: tuple[Block, ...]
    """Charts, with the prose and tables between them."""
    limits: tuple[Check, ...]
    """Where the claim stops being true (`expected="fails"`), or what holds instead there."""

    @property
    def passed(self) -> bool:
        return all(check.passed for check in (*self.checks, *self.limits))


@dataclass(frozen=True)
class Demonstration:
    name: str
    """Name on the command line: layernorm-length."""
    chapter: str
    """Page on which it appears: "LayerNorm"."""
    title: str
    claim: str
    """In one or two sentences."""
    reason: tuple[str, ...]
    """Why it is true: paragraphs for a student, each step of the derivation. A paragraph that begins with four spaces
    is a formula."""
    ends: tuple[str, ...]
    """Where it stops being true, in paragraphs, with formulas as above."""
    show: Callable[[int, torch.Generator], Shown]
    """Run it with a number of draws from a generator."""
    published: str = ""
    """What the literature or a published answer says, and whether it is right."""
    paper: str = ""
    """The paper it comes from, if any."""
    see: tuple[str, ...] = field(default=())
    """Our files that implement it: "nn/norms.py"."""
    order: int = 0
    """Position in its chapter; ties are sorted by name."""


def outcome(check: Check) -> str:
    """Return the outcome of a check in one to three words."""
    if check.expected == "holds":
        return "holds" if check.passed else "DOES NOT HOLD"
    return "counterexample confirmed" if check.passed else "COUNTEREXAMPLE NOT FOUND"


def measured(check: Check, exactly: bool) -> str:
    """Return the number of draws, the worst deviation and the tolerance. `exactly` gives the deviation even where it is
    only rounding, which differs between machines."""
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
