"""A lookup written into K, Q and V by hand."""

import math

import torch
from torch import Tensor
from torch.linalg import vector_norm

from heedful.report.page import plots
from heedful.report.page.pieces import Block, Column, Figure, Row, Table
from heedful.theory.demonstration import Check, Demonstration, Shown
from heedful.theory.draws import normal, uniform
from heedful.theory.lookup import attend, orthonormal
from heedful.theory.wording import number

WIDTH = 8


def tokens(u: Tensor) -> Tensor:
    """x₁ = u_d + u_b, x₂ = u_a, x₃ = u_c + u_b."""
    a, b, c, d = u.unbind(dim=1)
    return torch.stack([d + b, a, c + b], dim=1)


def outputs(u: Tensor, boost: float = 1.0) -> Tensor:
    """c₁, c₂, c₃ with K = I, V = (u_bu_bᵀ − u_cu_cᵀ)/β², Q = (u_du_aᵀ + u_cu_dᵀ)/β², Q `boost` times as large."""
    a, b, c, d = u.unbind(dim=1)
    square = (a**2).sum(dim=-1)[:, None, None]
    query = boost * (_outer(d, a) + _outer(c, d)) / square
    value = (_outer(b, b) - _outer(c, c)) / square
    x = tokens(u)
    return attend(x @ query.mT, x, x @ value.mT)[0]


def show(draws: int, generator: torch.Generator) -> Shown:
    beta = uniform(generator, 0.2, 5, draws)
    u = beta[:, None, None] * orthonormal(generator, draws, 4, WIDTH)
    _, b, c, _ = u.unbind(dim=1)
    first, second, third = outputs(u).unbind(dim=1)
    w = 1 / (torch.exp(beta**2) + 2)
    eps = 10 ** uniform(generator, -6, -1, draws)
    needed = (math.sqrt(5) / eps - 2).log().sqrt()
    directions = orthonormal(generator, draws, 4, WIDTH)
    return Shown(
        checks=(
            Check(
                "c₂ misses u_b by exactly −w(u_b + u_c), w = 1/(e^(β²) + 2).",
                vector_norm(second - b + w[:, None] * (b + c), dim=-1),
                1e-9,
            ),
            Check(
                "c₁ misses u_b − u_c by exactly −w(u_b − 2u_c).",
                vector_norm(first - (b - c) + w[:, None] * (b - 2 * c), dim=-1),
                1e-9,
            ),
            Check("c₃ is (2u_b − u_c)/3, a plain mean.", vector_norm(third - (2 * b - c) / 3, dim=-1), 1e-9),
            Check(
                "β = √ln(√5/ε − 2): the worse of the two is off by exactly ε in units of β, ε from 10⁻⁶ to 0.1.",
                (_worse(needed, directions) - eps).abs(),
                1e-9,
            ),
            Check("1 % more β is enough.", _worse(1.01 * needed, directions) - eps, 0.0),
        ),
        figures=_figures(),
        limits=_limits(draws, generator, directions, eps, needed),
    )


def _outer(left: Tensor, right: Tensor) -> Tensor:
    return left[:, :, None] * right[:, None, :]


def _worse(beta: Tensor, directions: Tensor, boost: float = 1.0) -> Tensor:
    """How far c₁ is from u_b − u_c, or c₂ from u_b if that is further; in units of β."""
    u = beta[:, None, None] * directions
    _, b, c, _ = u.unbind(dim=1)
    first, second, _ = outputs(u, boost).unbind(dim=1)
    return torch.maximum(vector_norm(first - (b - c), dim=-1), vector_norm(second - b, dim=-1)) / beta


def _limits(
    draws: int, generator: torch.Generator, directions: Tensor, eps: Tensor, needed: Tensor
) -> tuple[Check, ...]:
    small = uniform(generator, 0.05, 1, draws)
    three = torch.full_like(eps, 3)
    askew = normal(generator, draws, 4, WIDTH)
    askew = askew / vector_norm(askew, dim=-1, keepdim=True)
    return (
        Check("1 % less β would do.", _worse(0.99 * needed, directions) - eps, 0.0, "fails"),
        Check("β from 0.05 to 1: off by 0.1 at the most.", _worse(small, directions), 0.1, "fails"),
        Check("The same β with Q 6,000 times as large: off by 0.1 at the most.", _worse(small, directions, 6000), 0.1),
        Check("β = 3, but the u in random directions: off by 0.1 at the most.", _worse(three, askew), 0.1, "fails"),
    )


def _figures() -> tuple[Block, ...]:
    betas = torch.linspace(0.1, 3.5, 69, dtype=torch.float64)
    directions = torch.eye(4, WIDTH, dtype=torch.float64).expand(len(betas), 4, WIDTH)
    u = betas[:, None, None] * directions
    found = outputs(u)
    targets = {"c₂ from u_b": (1, u[:, 1]), "c₁ from u_b − u_c": (0, u[:, 1] - u[:, 2])}
    rows = [
        {"β": beta, "distance / β, logarithmic": distance / beta, "of": name}
        for name, (token, target) in targets.items()
        for beta, distance in zip(betas.tolist(), vector_norm(found[:, token] - target, dim=-1).tolist(), strict=True)
    ]
    table = Table(
        "The β that is needed so that c₁ and c₂ are off by no more than ε·β.",
        (Column("ε", numeric=True), Column("β", numeric=True)),
        tuple(
            Row((number(eps), f"{math.sqrt(math.log(math.sqrt(5) / eps - 2)):.2f}"))
            for eps in (0.5, 0.1, 0.01, 0.001, 1e-6)
        ),
    )
    return (
        Figure(
            "attention-construction-error",
            "The error falls with e^(−β²): at β = 1 the answers are a blur, at β = 3 they are exact to the eye.",
            plots.lines(rows, "β", "distance / β, logarithmic", "of", log_y=True),
        ),
        table,
    )


DEMONSTRATION = Demonstration(
    name="attention-construction",
    chapter="Attention",
    order=6,
    title="K, Q and V by hand: a lookup that is exact to e^(−β²)",
    claim=(
        "Let u_a, u_b, u_c, u_d be orthogonal and of length β, and x₁ = u_d + u_b, x₂ = u_a, x₃ = u_c + u_b. With K = "
        "I, V = (u_bu_bᵀ − u_cu_cᵀ)/β² and Q = (u_du_aᵀ + u_cu_dᵀ)/β² attention gives c₂ ≈ u_b and c₁ ≈ u_b − u_c, up "
        "to √5β/(e^(β²) + 2)."
    ),
    reason=(
        "Such matrices are read from right to left: u_du_aᵀ/β² turns u_a into u_d and anything orthogonal to u_a "
        "into 0.",
        "Values. V keeps what a token has of u_b and turns the sign of what it has of u_c:",
        "    v₁ = u_b,   v₂ = 0,   v₃ = u_b − u_c",
        "So c₂ ≈ u_b means that x₂ copies from x₁, and c₁ ≈ u_b − u_c that x₁ copies from x₃.",
        "Queries. x₂ = u_a is to find x₁, which alone has u_d in it: Q turns u_a into u_d. x₁ = u_d + u_b is to find "
        "x₃, which alone has u_c in it: Q turns u_d into u_c. Hence q₂ = u_d, q₁ = u_c and q₃ = 0.",
        "Scores. q₂ᵀx₁ = u_dᵀ(u_d + u_b) = β² and 0 with the other two; q₁ᵀx₃ = β² and 0 with the other two. The "
        "wanted token has the weight e^(β²)/(e^(β²) + 2), each of the others w = 1/(e^(β²) + 2).",
        "Add up, with 1 − 2w for the wanted token:",
        "    c₂ = (1 − 2w)u_b + w·0 + w(u_b − u_c) = u_b − w(u_b + u_c)\n"
        "    c₁ = w·u_b + w·0 + (1 − 2w)(u_b − u_c) = u_b − u_c − w(u_b − 2u_c)",
        "The errors are √2βw and √5βw long. The second is ε·β for e^(β²) = √5/ε − 2.",
    ),
    ends=(
        "For small β the scores β² are too small for the softmax to choose. Length is not needed for its own sake: Q "
        "may be made larger instead.",
        "The vectors must be orthogonal. Where they point in random directions, each matrix also catches part of the "
        "others, and both scores and values are wrong.",
        "x₃ asks for nothing, q₃ = 0, and gets the mean of all values.",
    ),
    show=show,
    published=(
        "The K, Q and V are those of a published answer, and they are right if β is large. How large is in the table."
    ),
    see=("nn/attention.py",),
)
