"""A residual connection keeps a path on which the gradient is neither shrunk nor stretched."""

import torch
from torch import Tensor

from heedful.nn.norms import LayerNorm, PostNorm, PreNorm
from heedful.report.page import plots
from heedful.report.page.pieces import Block
from heedful.theory.demonstration import Check, Shown
from heedful.theory.draws import jacobian, normal, orthogonal, stretch, uniform
from heedful.theory.page import Page

PAGE = Page.read(__name__)

WIDTH, DEPTH = 6, 8


class Layers:
    """f_t(x) = L · B tanh(A x), A and B with σ_max = 1: Lipschitz with the constant L, which each draw has its own."""

    def __init__(self, draws: int, generator: torch.Generator, constant_b: Tensor) -> None:
        self.constant = constant_b[:, None]
        parts = normal(generator, DEPTH, 2, draws, WIDTH, WIDTH)
        self.parts = parts / stretch(parts)[..., None, None]

    def __call__(self, t: int, x_bd: Tensor) -> Tensor:
        inner, outer = self.parts[t].unbind()
        return self.constant * (outer @ (inner @ x_bd[..., None]).tanh())[..., 0]


def stacked(layers: Layers, x_bd: Tensor, residual: bool) -> Tensor:
    """∂x_n/∂x_0 of x_{t+1} = x_t + f_t(x_t), or of x_{t+1} = f_t(x_t)."""
    first = x_bd.detach().requires_grad_()
    x = first
    for t in range(DEPTH):
        x = x + layers(t, x) if residual else layers(t, x)
    return jacobian(x, first)


def wired(layers: Layers, x_bd: Tensor, kind: type[PreNorm] | type[PostNorm]) -> Tensor:
    """The same in the wiring of our blocks."""
    wiring = kind(LayerNorm(WIDTH, 1e-12), 0.0).double()
    first = x_bd.detach().requires_grad_()
    x = first
    for t in range(DEPTH):
        x = wiring.leave(layers(t, wiring.enter(x)), x)
    return jacobian(x, first)


def undone(x_bd: Tensor, share: float = 1.0) -> Tensor:
    """The singular values of one pre-norm block whose f(y) = −½y · share meets an x of standard deviation ½. There
    LayerNorm is a projection times 2."""
    centred = x_bd - x_bd.mean(dim=1, keepdim=True)
    short = x_bd / (2 * centred.square().mean(dim=1, keepdim=True).sqrt())
    first = short.detach().requires_grad_()
    wiring = PreNorm(LayerNorm(WIDTH, 1e-12), 0.0).double()
    values: Tensor = torch.linalg.svdvals(jacobian(wiring.leave(-0.5 * share * wiring.enter(first), first), first))
    return values


def bounds(constant: Tensor) -> tuple[Tensor, Tensor]:
    """(1 − L)^n and (1 + L)^n"""
    return (1 - constant) ** DEPTH, (1 + constant) ** DEPTH


def show(draws: int, generator: torch.Generator) -> Shown:
    constant = uniform(generator, 0.05, 0.9, draws)
    x = normal(generator, draws, WIDTH)
    layers = Layers(draws, generator, constant)
    lowest, highest = bounds(constant)
    with_identity = torch.linalg.svdvals(stacked(layers, x, residual=True))
    without = stretch(stacked(layers, x, residual=False))
    attained = [_linear(draws, constant, sign, generator) for sign in (-1.0, 1.0)]
    checks = (
        PAGE.holds(
            "bounds", torch.maximum(lowest / with_identity[:, -1], with_identity[:, 0] / highest) - 1, 1e-9, depth=DEPTH
        ),
        PAGE.holds("without-identity", without / constant**DEPTH - 1, 1e-9),
        PAGE.holds(
            "attained",
            torch.stack([(attained[0] / lowest - 1).abs(), (attained[1] / highest - 1).abs()]).amax(dim=0),
            1e-9,
        ),
        PAGE.holds("kept", _tenth(draws, generator), 0.0),
    )
    return Shown(checks, _figures(draws, generator), _limits(draws, generator, x))


def _linear(draws: int, constant: Tensor, sign: float, generator: torch.Generator) -> Tensor:
    """The one singular value of (I ± L I)ⁿ, seen in a random basis."""
    basis = orthogonal(generator, draws, WIDTH)
    step = basis @ (torch.eye(WIDTH) * (1 + sign * constant)[:, None, None]) @ basis.mT
    return stretch(torch.matrix_power(step, DEPTH))


def _tenth(draws: int, generator: torch.Generator) -> Tensor:
    """By how much 0.43 and 10⁻⁸ are broken."""
    layers = Layers(draws, generator, torch.full((draws,), 0.1, dtype=torch.float64))
    x = normal(generator, draws, WIDTH)
    smallest = torch.linalg.svdvals(stacked(layers, x, residual=True))[:, -1]
    largest = stretch(stacked(layers, x, residual=False))
    return torch.maximum(0.43 - smallest, largest - 1e-8)


def _limits(draws: int, generator: torch.Generator, x: Tensor) -> tuple[Check, ...]:
    half = Layers(draws, generator, torch.full((draws,), 0.5, dtype=torch.float64))
    post = torch.linalg.svdvals(wired(half, x, PostNorm))
    pre = wired(half, x, PreNorm)
    mean = torch.ones(WIDTH, dtype=torch.float64)
    lowest, _ = bounds(torch.tensor(0.5, dtype=torch.float64))
    gone = _linear(draws, torch.ones(draws, dtype=torch.float64), -1.0, generator)
    return (
        PAGE.fails("identity-lost", 1e-9 - gone, 0.0),
        PAGE.fails("post-norm", lowest - post[:, -1], 0.0),
        PAGE.holds("post-norm-zero", post[:, -2], 1e-9),
        PAGE.holds("pre-norm", 1e-6 - torch.linalg.svdvals(pre)[:, -1], 0.0),
        PAGE.holds("pre-norm-constant", (pre @ mean - mean).abs().amax(dim=1), 1e-9),
        PAGE.fails("pre-norm-lost", 1e-6 - undone(x)[:, -1], 0.0),
    )


def _figures(draws: int, generator: torch.Generator) -> tuple[Block, ...]:
    rows = []
    draws = min(draws, 200)  # enough for a median
    x = normal(generator, draws, WIDTH)
    for constant in (0.1, 0.3, 0.6, 0.9):
        fixed = torch.full((draws,), constant, dtype=torch.float64)
        layers = Layers(draws, generator, fixed)
        values = torch.linalg.svdvals(stacked(layers, x, residual=True))
        plain = stretch(stacked(layers, x, residual=False))
        lowest, highest = (float(part[0]) for part in bounds(fixed))
        named = {
            "(1 + L)^n": highest,
            "largest, x + f(x)": float(values[:, 0].median()),
            "smallest, x + f(x)": float(values[:, -1].median()),
            "(1 − L)^n": lowest,
            "largest, f(x) alone": float(plain.median()),
        }
        rows += [{"L": constant, "singular value": float(f"{v:.2g}"), "of": name} for name, v in named.items()]
    return (
        PAGE.figure("bounds", plots.lines(rows, "L", "singular value", "of", log_y=True, points=True), depth=DEPTH),
    )
