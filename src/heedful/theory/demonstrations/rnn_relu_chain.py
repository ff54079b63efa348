"""The gradient through a chain of ReLU units is the product of the weights, or exactly zero."""

import math

import torch
from torch import Tensor, nn

from heedful.report.page import plots
from heedful.report.page.pieces import Block, Figure
from heedful.theory.demonstration import Check, Demonstration, Shown
from heedful.theory.draws import normal, uniform

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
            Check(
                f"{LENGTH} units, every pre-activation positive: |∂f/∂x| = Π|w_i| (relative error).",
                _relative(open_chain.gradient, product(weights)),
                RELATIVE,
            ),
            Check("One pre-activation negative, at any unit: ∂f/∂x is exactly 0.", shut.gradient.abs(), 0.0),
            Check(
                "With biases and every pre-activation positive: still Π|w_i|.",
                _relative(biased.gradient[biased.alive], product(weights)[biased.alive]),
                RELATIVE,
            ),
            Check(
                f"Weights with random signs, {SHORT} units: Π|w_i| or exactly 0, as the pre-activations say.",
                torch.where(fair.alive, _relative(fair.gradient, product(signed)), fair.gradient.abs()),
                RELATIVE,
            ),
        ),
        figures=_figures(draws, generator),
        limits=(
            Check(
                f"A leaky ReLU (slope {LEAK} below zero): exactly 0 where one pre-activation is negative.",
                leaky.gradient.abs(),
                0.0,
                "fails",
            ),
            Check(
                f"A leaky ReLU: Π|w_i| times {LEAK} for each negative pre-activation.",
                _relative(leaky.gradient, product(closed) * slopes),
                RELATIVE,
            ),
            Check(
                "Layers of 8 units: one unit that is off makes the whole gradient 0.",
                _layer_gradient(draws, generator),
                1e-9,
                "fails",
            ),
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
    rows = []
    steps = normal(generator, draws, LENGTH)
    for name, centre in (("median |w| = 0.8", 0.8), ("median |w| = 1", 1.0), ("median |w| = 1.25", 1.25)):
        size = (math.log(centre) + 0.3 * steps).cumsum(dim=1).exp().median(dim=0).values
        rows += [
            {"units n": n + 1, "|∂f/∂x|, median": float(f"{float(value):.3g}"), "of": name}
            for n, value in enumerate(size)
        ]
    chain = normal(generator, draws, LENGTH)
    alive = (chain[:, 1:] > 0).cumprod(dim=1).double().mean(dim=0)
    shares = [
        {"units n": n + 1, "share of chains": value, "of": name}
        for n in range(12)
        for name, value in (
            ("drawn", 1.0 if n == 0 else round(float(alive[n - 1]), 3)),
            ("2^(1−n)", 0.5**n),
        )
    ]
    return (
        Figure(
            "rnn-relu-chain-product",
            "A product of n factors grows or shrinks exponentially. Chains in which every pre-activation is positive.",
            plots.lines(rows, "units n", "|∂f/∂x|, median", "of", log_y=True),
        ),
        Figure(
            "rnn-relu-chain-alive",
            "The share of chains whose gradient is not exactly 0, if the sign of every weight is a fair coin and the "
            "first unit is on: each further unit halves it.",
            plots.lines(shares, "units n", "share of chains", "of", points=True),
        ),
    )


DEMONSTRATION = Demonstration(
    name="rnn-relu-chain",
    chapter="RNN gradients",
    order=1,
    title="One ReLU unit after another: the product of the weights, or nothing",
    claim=(
        "For a chain of ReLU units z_i = ReLU(w_i z_{i−1}), z_0 = x, f = z_n: |∂f/∂x| = Π|w_i| if every "
        "pre-activation w_i z_{i−1} is positive, and exactly 0 if one is negative."
    ),
    reason=(
        "The letters: x is a number, w_i the weight of unit i, z_i its output, and a_i = w_i z_{i−1} its "
        "pre-activation. ReLU(a) is a for a > 0, and 0 otherwise.",
        "The derivative of ReLU is 1 for a > 0 and 0 for a < 0. Unit i therefore passes on the factor w_i if it is on "
        "(a_i > 0), and the factor 0 if it is off. By the chain rule the factors are multiplied:",
        "    ∂f/∂x = Π_i w_i · [a_i > 0]",
        "So one unit that is off is enough for 0. If all are on, what is left is Π w_i.",
        "A product is an exponential: ln |∂f/∂x| = Σ ln |w_i|. If |w_i| is typically below 1, the gradient vanishes, "
        "and above 1 it explodes. In a recurrent network all w_i are the same w, and the product is |w|ⁿ.",
        "Which signs allow it? z_0 = x may have either sign, so w_1 must have the sign of x. After that z_i > 0, so "
        "every other weight must be positive. With fair signs, each unit halves the share of chains that are still "
        "on.",
    ),
    ends=(
        "At a_i = 0 exactly, ReLU has no derivative; PyTorch takes 0.",
        "A leaky ReLU has a small slope below zero: the gradient is never exactly 0, it only loses this factor at "
        "every unit that is off.",
        "In a layer of several units there are many paths. One unit that is off closes its own paths alone: in two "
        "layers of 8 positive units the gradient stays above 0 although one is off.",
    ),
    show=show,
    published="A published answer gives the same two cases; it is right.",
)
