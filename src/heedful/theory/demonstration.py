"""What a demonstration is: a claim, its reason, checks over many random draws, figures, and where it stops being true.

A demonstration is a module in `demonstrations/` that ends with `DEMONSTRATION = Demonstration(…)`. Text and numbers of
its page come from one run of it, so that they cannot disagree.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from heedful.report.page.pieces import Block

DRAWS = 1000
"""How many random draws each check makes, at least."""


@dataclass(frozen=True)
class Check:
    """One statement, held against many random draws in double precision."""

    statement: str
    """In a sentence, with the symbols of the page."""
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
    """What one run of a demonstration has to show."""

    checks: tuple[Check, ...]
    """Of the claim."""
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
    """As it is called on the command line: layernorm-length."""
    chapter: str
    """The page that it stands on: "LayerNorm"."""
    title: str
    claim: str
    """In one or two sentences."""
    reason: tuple[str, ...]
    """Why it is true: paragraphs for a student, each step of the derivation. One that begins with four spaces is a
    formula, which stands on a line of its own."""
    ends: tuple[str, ...]
    """Where it stops being true, in paragraphs, with formulas as above."""
    show: Callable[[int, torch.Generator], Shown]
    """Runs it with so many draws of a generator."""
    published: str = ""
    """What the literature or a published answer says, and whether it is right."""
    paper: str = ""
    """Named once, where there is one."""
    see: tuple[str, ...] = field(default=())
    """The files of ours in which the thing itself is: "nn/norms.py"."""
    order: int = 0
    """Its place in its chapter; those of equal order stand by their names."""
