"""Gates open a direct path for the gradient: a product of forget gates, which may be near 1."""

import math
from collections.abc import Callable
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from heedful.report.page.pieces import Block
from heedful.theory.demonstration import Shown
from heedful.theory.drawing import curves
from heedful.theory.draws import jacobian, normal, stretch
from heedful.theory.page import Page

PAGE = Page.read(__name__)

WIDTH, STEPS = 6, 20
ROUNDING = 1e-12
LONG = 100
"""Steps over which a memory is to last, where the bias of the forget gate is chosen for it."""


class Cells:
    """A cell for each draw, with weights N(0, 1/d) of its own and biases 0. Written out, since a cell of PyTorch has
    the same weights for a whole batch; gates and rows are in its order.

    A step is told apart in `seen`, the h that gates and candidate look at, and `carried`, what is kept from step to
    step.
    """

    parts: ClassVar[int] = 1
    """Gates and candidate."""
    apart: ClassVar[bool] = False
    """Whether what is carried (a cell state) is something else than h."""

    def __init__(self, draws: int, generator: torch.Generator, recurrent: float = 1.0) -> None:
        """`recurrent` is a factor of the recurrent weights."""
        shape = (draws, self.parts * WIDTH, WIDTH)
        self.of_input = WIDTH**-0.5 * normal(generator, *shape)
        self.of_state = recurrent * WIDTH**-0.5 * normal(generator, *shape)
        self.bias = torch.zeros(draws, self.parts, WIDTH, dtype=torch.float64)

    def step(self, u: Tensor, seen: Tensor, carried: Tensor) -> tuple[Tensor, Tensor]:
        """The next h, and the next that is carried."""
        raise NotImplementedError

    def from_input(self, u: Tensor) -> Tensor:
        """(b, parts, d)"""
        return torch.bmm(self.of_input, u[..., None]).view(self.bias.shape) + self.bias

    def from_state(self, seen: Tensor) -> Tensor:
        return torch.bmm(self.of_state, seen[..., None]).view(self.bias.shape)


class Plain(Cells):
    """h_t = φ(W h_{t−1} + U u_t)"""

    def __init__(self, draws: int, generator: torch.Generator, squash: Callable[[Tensor], Tensor]) -> None:
        super().__init__(draws, generator)
        self.squash = squash

    def step(self, u: Tensor, seen: Tensor, carried: Tensor) -> tuple[Tensor, Tensor]:
        h = self.squash(self.from_input(u) + self.from_state(seen))[:, 0]
        return h, h


class LSTM(Cells):
    """Input gate, forget gate, candidate, output gate."""

    parts, apart = 4, True

    def step(self, u: Tensor, seen: Tensor, carried: Tensor) -> tuple[Tensor, Tensor]:
        i, f, g, o = (self.from_input(u) + self.from_state(seen)).unbind(dim=1)
        c = f.sigmoid() * carried + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c

    def remember(self, forget_bias: float) -> "LSTM":
        self.bias[:, 1] = forget_bias
        return self


class GRU(Cells):
    """Reset gate, update gate, candidate."""

    parts = 3

    def step(self, u: Tensor, seen: Tensor, carried: Tensor) -> tuple[Tensor, Tensor]:
        (r, z, n), (r_seen, z_seen, n_seen) = (
            part.unbind(dim=1) for part in (self.from_input(u), self.from_state(seen))
        )
        z = (z + z_seen).sigmoid()
        h = (1 - z) * (n + (r + r_seen).sigmoid() * n_seen).tanh() + z * carried
        return h, h


def kept(cells: Cells, u: Tensor, seen: Tensor) -> Tensor:
    """The forget gate of an LSTM, the update gate of a GRU: the second part of either."""
    with torch.no_grad():
        return (cells.from_input(u) + cells.from_state(seen))[:, 1].sigmoid()


class Path:
    """From the first state that is carried, which is 0, to the last: by every way, or along what is carried alone (no
    gradient through what gates and candidate look at)."""

    def __init__(self, cells: Cells, inputs_nbd: Tensor, direct: bool) -> None:
        self.first = torch.zeros(inputs_nbd.shape[1:], dtype=torch.float64).requires_grad_()
        self.last, self.product = self.first, torch.ones_like(self.first)
        """`product` is that of the forget (update) gates."""
        h = torch.zeros_like(self.first) if cells.apart else self.first
        for u in inputs_nbd:
            seen = h.detach() if direct else h
            self.product = self.product * kept(cells, u, seen)
            h, self.last = cells.step(u, seen, self.last)

    @cached_property
    def gradient(self) -> Tensor:
        """(b, d): coordinate by coordinate, if the Jacobian is diagonal."""
        return torch.autograd.grad(self.last.sum(), self.first)[0]

    def from_product(self) -> Tensor:
        """(b): the relative error of Π in the worst coordinate."""
        return (self.gradient / self.product - 1).abs().amax(dim=1)

    def jacobian(self) -> Tensor:
        return jacobian(self.last, self.first)

    def from_diagonal(self) -> Tensor:
        """(b): how far the whole Jacobian is from the diagonal matrix of Π, in units of its largest entry."""
        return stretch(self.jacobian() - torch.diag_embed(self.product)) / self.product.amax(dim=1)


def show(draws: int, generator: torch.Generator) -> Shown:
    inputs = normal(generator, STEPS, draws, WIDTH)
    along = Path(LSTM(draws, generator), inputs, direct=True)
    along_gru = Path(GRU(draws, generator), inputs, direct=True)
    biased = Path(LSTM(draws, generator).remember(1.0), inputs, direct=True)
    alone, alone_gru = (Path(kind(draws, generator, 0.0), inputs, direct=False) for kind in (LSTM, GRU))
    whole, whole_gru = (Path(kind(draws, generator), inputs[:5], direct=False) for kind in (LSTM, GRU))
    large = Path(LSTM(draws, generator, 16.0), inputs, direct=False)
    checks = (
        PAGE.holds("lstm", along.from_product(), ROUNDING, steps=STEPS),
        PAGE.holds("gru", along_gru.from_product(), ROUNDING, steps=STEPS),
        PAGE.holds("never-larger", torch.maximum(along.gradient, along_gru.gradient).amax(dim=1) - 1, 0.0),
        PAGE.holds("alone", alone.from_diagonal(), ROUNDING),
        PAGE.holds("alone-gru", alone_gru.from_diagonal(), ROUNDING),
        PAGE.holds("forget-bias", _still(draws, generator), ROUNDING, long=LONG),
    )
    limits = (
        PAGE.fails("bias-one", 0.01 - biased.product.mean(dim=1), 0.0, steps=STEPS),
        PAGE.fails("whole", whole.from_diagonal(), 0.01),
        PAGE.fails("whole-gru", whole_gru.from_diagonal(), 0.01),
        PAGE.fails("large-weights", stretch(large.jacobian()) - 1, 0.0),
    )
    return Shown(checks, _figures(min(draws, 200), generator), limits)  # enough for a median


def _still(draws: int, generator: torch.Generator) -> Tensor:
    """Without inputs, from a random cell state; no gate looks at h."""
    cells = LSTM(draws, generator, 0.0).remember(math.log(LONG - 1))
    first = normal(generator, draws, WIDTH).requires_grad_()
    h, c, nothing = torch.zeros_like(first), first, torch.zeros(draws, WIDTH, dtype=torch.float64)
    for _ in range(LONG):
        h, c = cells.step(nothing, h, c)
    (gradient,) = torch.autograd.grad(c.sum(), first)
    return (gradient - (1 - 1 / LONG) ** LONG).abs().amax(dim=1)


def _sizes(cells: Cells, inputs_nbd: Tensor, direction: Tensor) -> list[float]:
    """The median norm of ∂(direction · h_T)/∂(state at t), t from T back to 0; the state of an LSTM is h and c."""
    h, c = (torch.zeros(inputs_nbd.shape[1:], dtype=torch.float64).requires_grad_() for _ in range(2))
    states = [(h, c) if cells.apart else (c, c)]
    for u in inputs_nbd:
        states.append(cells.step(u, *states[-1]))
    parts = 2 if cells.apart else 1
    flat = [part for state in states[:-1] for part in state[:parts]]
    gradients = torch.autograd.grad((states[-1][0] * direction).sum(), flat)
    norms = [torch.cat(gradients[i : i + parts], dim=1).norm(dim=1).median() for i in range(0, len(flat), parts)]
    return [float(value) for value in reversed(norms)]


def _figures(draws: int, generator: torch.Generator) -> tuple[Block, ...]:
    inputs = normal(generator, LONG, draws, WIDTH)
    direction = normal(generator, draws, WIDTH)
    direction = direction / direction.norm(dim=1, keepdim=True)
    cells: dict[str, Cells] = {
        "sigmoid": Plain(draws, generator, torch.sigmoid),
        "tanh": Plain(draws, generator, torch.tanh),
        "GRU": GRU(draws, generator),
        "LSTM, forget bias 0": LSTM(draws, generator),
        "LSTM, forget bias 1": LSTM(draws, generator).remember(1.0),
        f"LSTM, forget bias ln {LONG - 1}": LSTM(draws, generator).remember(math.log(LONG - 1)),
    }
    sizes = {name: _sizes(cell, inputs, direction)[:60] for name, cell in cells.items()}
    chart = curves(range(1, 61), sizes, "steps back", "norm of the gradient", above=1e-30, log_y=True)
    return (PAGE.figure("time", chart),)
