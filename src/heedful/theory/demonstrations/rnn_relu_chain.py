"""The gradient through a chain of ReLU units is the product of the weights, or exactly zero."""

import math

import torch
from torch import Tensor, nn

from heedful.report.page.pieces import Block
from heedful.theory.demonstration import Shown
from heedful.theory.drawing import curves
from heedful.theory.draws import normal, uniform
from heedful.theory.page import Page

PAGE = Page.read(__name__)

LENGTH, SHORT = 30, 3
RELATIVE = 1e-12
LEAK = 0.01


class Chain:
    """z_i = φ(w_i z_{i−1} + b_i) of each draw, z_0 = x; its gradient by automatic differentiation."""

    def __init__(self, x: Tensor, weights_bn: Tensor, biases_bn: Tensor | None = None, leak: float = 0.0) -> None:
        x = x.detach().requires_grad_()
        z, before = x, []
        for i in range(weights_bn.shape[1]):
            a = weights_bn[:, i] * z
            a = a if biases_bn is None else a + biases_bn[:, i]
            before.append(a.detach())
            z = nn.functional.leaky_relu(a, leak) if leak else torch.relu(a)
        (self.gradient,) = torch.autograd.grad(z.sum(), x)
        self.positive_bn = torch.stack(before, dim=1) > 0
        self.alive = self.positive_bn.all(dim=1)


def product(weights_bn: Tensor) -> Tensor:
    """Π|w_i|"""
    return weights_bn.abs().prod(dim=1)


def show(draws: int, generator: torch.Generator) -> Shown:
    x, weights = _alive(draws, generator)
    open_chain = Chain(x, weights)
    closed = weights.clone()
    which = torch.randint(LENGTH, (draws,), generator=generator)
    closed[torch.arange(draws), which] *= -1
    shut = Chain(x, closed)
    biases = normal(generator, draws, LENGTH).abs()
    biased = Chain(x, weights, biases)
    leaky = Chain(x, closed, leak=LEAK)
    slopes = torch.where(leaky.positive_bn, 1.0, torch.tensor(LEAK, dtype=torch.float64)).prod(dim=1)
    signed = normal(generator, draws, SHORT)
    fair = Chain(x, signed)
    return Shown(
        checks=(
            PAGE.holds("product", _relative(open_chain.gradient, product(weights)), RELATIVE, length=LENGTH),
            PAGE.holds("off", shut.gradient.abs(), 0.0),
            PAGE.holds("biases", _relative(biased.gradient[biased.alive], product(weights)[biased.alive]), RELATIVE),
            PAGE.holds(
                "random-signs",
                torch.where(fair.alive, _relative(fair.gradient, product(signed)), fair.gradient.abs()),
                RELATIVE,
                short=SHORT,
            ),
        ),
        figures=_figures(draws, generator),
        limits=(
            PAGE.fails("leaky", leaky.gradient.abs(), 0.0, leak=LEAK),
            PAGE.holds("leaky-product", _relative(leaky.gradient, product(closed) * slopes), RELATIVE, leak=LEAK),
            PAGE.fails("layer", _layer_gradient(draws, generator), 1e-9),
        ),
    )


def _alive(draws: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """x of either sign, w_1 of the same sign, the others positive: then every pre-activation is positive."""
    x = normal(generator, draws)
    weights = uniform(generator, math.log(0.5), math.log(2.0), draws, LENGTH).exp()
    weights[:, 0] *= x.sign()
    return x, weights


def _relative(gradient: Tensor, stated: Tensor) -> Tensor:
    return (gradient.abs() / stated - 1).abs()


def _layer_gradient(draws: int, generator: torch.Generator) -> Tensor:
    """The largest |∂f/∂x_i| of two layers of 8 units of which the first is off."""
    x = normal(generator, draws, 8).abs().requires_grad_()
    first, second = (uniform(generator, 0.1, 1.0, draws, 8, 8) for _ in range(2))
    first[:, 0] *= -1
    hidden = torch.relu((first @ x[..., None])[..., 0])
    out = torch.relu((second @ hidden[..., None])[..., 0])
    return torch.autograd.grad(out.sum(), x)[0].abs().amax(dim=1)


def _figures(draws: int, generator: torch.Generator) -> tuple[Block, ...]:
    steps = normal(generator, draws, LENGTH)
    sizes = {
        f"median |w| = {centre:g}": (math.log(centre) + 0.3 * steps).cumsum(dim=1).exp().median(dim=0).values
        for centre in (0.8, 1.0, 1.25)
    }
    chain = normal(generator, draws, LENGTH)
    alive = (chain[:, 1:] > 0).cumprod(dim=1).double().mean(dim=0)
    shares = {"random signs": [1.0, *alive[:11].tolist()], "2^(1−n)": [0.5**n for n in range(12)]}
    return (
        PAGE.figure("product", curves(range(1, LENGTH + 1), sizes, "units n", "|∂f/∂x|, median", log_y=True)),
        PAGE.figure("alive", curves(range(1, 13), shares, "units n", "share of chains", points=True)),
    )
