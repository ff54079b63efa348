"""Gates open a direct path for the gradient: a product of forget gates, which may be near 1."""

import math
from collections.abc import Callable
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from heedful.report.page import plots
from heedful.report.page.pieces import Block, Figure
from heedful.theory.demonstration import Check, Demonstration, Shown
from heedful.theory.draws import jacobian, normal, stretch

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
        Check(
            f"LSTM, {STEPS} steps, along the cell state: ∂c_T/∂c_0 = Π f_t in each coordinate (relative error).",
            along.from_product(),
            ROUNDING,
        ),
        Check(
            f"GRU, {STEPS} steps, along h (no gradient through gates and candidate): ∂h_T/∂h_0 = Π z_t in each "
            "coordinate.",
            along_gru.from_product(),
            ROUNDING,
        ),
        Check(
            "These paths never make a gradient larger: Π f_t < 1 and Π z_t < 1.",
            torch.maximum(along.gradient, along_gru.gradient).amax(dim=1) - 1,
            0.0,
        ),
        Check(
            "If no gate looks at h (the recurrent weights are 0), it is the only path: the whole ∂c_T/∂c_0 is the "
            "diagonal matrix of Π f_t (relative error).",
            alone.from_diagonal(),
            ROUNDING,
        ),
        Check(
            "GRU, the same: the whole ∂h_T/∂h_0 is the diagonal matrix of Π z_t.", alone_gru.from_diagonal(), ROUNDING
        ),
        Check(
            f"With the bias ln(T − 1) of the forget gate and nothing coming in, T = {LONG} steps keep (1 − 1/T)^T ≈ "
            "0.366 of the gradient.",
            _still(draws, generator),
            ROUNDING,
        ),
    )
    limits = (
        Check(
            f"With a forget bias of 1, {STEPS} steps keep a hundredth of the gradient along the cell state (mean over "
            "coordinates).",
            0.01 - biased.product.mean(dim=1),
            0.0,
            "fails",
        ),
        Check(
            "With recurrent weights, 5 steps: the whole ∂c_T/∂c_0 is Π f_t to 1 %.",
            whole.from_diagonal(),
            0.01,
            "fails",
        ),
        Check("GRU, the same: the whole ∂h_T/∂h_0 is Π z_t to 1 %.", whole_gru.from_diagonal(), 0.01, "fails"),
        Check(
            "With recurrent weights sixteen times as large: the whole gradient is no larger than at the start "
            "(σ_max(∂c_T/∂c_0) ≤ 1).",
            stretch(large.jacobian()) - 1,
            0.0,
            "fails",
        ),
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
    rows = [
        {"steps back": t + 1, "norm of the gradient": float(f"{value:.2g}"), "of": name}
        for name, cell in cells.items()
        for t, value in enumerate(_sizes(cell, inputs, direction))
        if t < 60 and value > 1e-30
    ]
    return (
        Figure(
            "rnn-gates-time",
            "How much of a gradient arrives at the states some steps back (median over inputs and cells with "
            "random weights of variance 1/d, before any training).",
            plots.lines(rows, "steps back", "norm of the gradient", "of", log_y=True),
        ),
    )


DEMONSTRATION = Demonstration(
    name="rnn-gates",
    chapter="RNN gradients",
    order=3,
    title="LSTM and GRU: a path whose factors may be near 1",
    claim=(
        "In an LSTM the gradient along the cell state is the product of the forget gates, Π f_t, in each coordinate; "
        "in a GRU the gradient along h is the product of the update gates, Π z_t. No weight matrix is multiplied on "
        "this path."
    ),
    reason=(
        "The letters: h_t is the output at step t, c_t the cell state; f_t, i_t, o_t are the forget, input and output "
        "gates, vectors between 0 and 1; g_t is the candidate. ∘ multiplies coordinate by coordinate.",
        "An LSTM adds to what it had:",
        "    c_t = f_t ∘ c_{t−1} + i_t ∘ g_t,   h_t = o_t ∘ tanh(c_t).",
        "Follow c_{t−1} → c_t and leave out the way by h (the gates look at h_{t−1}). The derivative is f_t, a "
        "diagonal matrix. After T steps it is f_1 ∘ f_2 ∘ … ∘ f_T. The plain recurrence has D_t W at every step "
        "instead.",
        "A GRU mixes: h_t = (1 − z_t) ∘ n_t + z_t ∘ h_{t−1}, with an update gate z_t and a candidate n_t. In the same "
        "way the direct derivative is z_t. (This is how PyTorch writes it; some texts exchange z and 1 − z.)",
        "The gates are learned. Where something must be remembered, f_t can go to 1, and the product does not shrink; "
        "where it must be forgotten, f_t goes to 0, and the gradient is cut as well.",
        "How near to 1 at the start? With bias b and nothing else, f = σ(b). b = 0 gives ½, b = 1 gives 0.73: after "
        "10 steps 0.001 and 0.04 are left. For a memory of T steps take f = 1 − 1/T, which is b = ln(T − 1): after T "
        "steps (1 − 1/T)^T ≈ 0.37 is left.",
    ),
    ends=(
        "A forget gate that begins with bias 1 helps, and it is no cure: 0.73³⁰ is below 10⁻⁴. The gradient of an "
        "untrained LSTM vanishes too, only more slowly.",
        "The direct path is not the whole gradient. The gates look at h, and by this way the weight matrices come "
        "back: the whole ∂c_T/∂c_0 differs from Π f_t, and it can grow. Gates do not prevent explosion.",
    ),
    show=show,
    paper="“Long Short-Term Memory” (1997); “Learning to Forget: Continual Prediction with LSTM” (2000)",
)
