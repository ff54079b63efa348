"""A lookup written into K, Q and V by hand."""

import math

import torch
from torch import Tensor
from torch.linalg import vector_norm

from heedful.report.page.pieces import Block
from heedful.theory.demonstration import Check, Shown, number
from heedful.theory.drawing import curves
from heedful.theory.draws import normal, uniform
from heedful.theory.lookup import attend, orthonormal
from heedful.theory.page import Page

PAGE = Page.read(__name__)

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
            PAGE.holds("second", vector_norm(second - b + w[:, None] * (b + c), dim=-1), 1e-9),
            PAGE.holds("first", vector_norm(first - (b - c) + w[:, None] * (b - 2 * c), dim=-1), 1e-9),
            PAGE.holds("third", vector_norm(third - (2 * b - c) / 3, dim=-1), 1e-9),
            PAGE.holds("needed", (_worse(needed, directions) - eps).abs(), 1e-9),
            PAGE.holds("enough", _worse(1.01 * needed, directions) - eps, 0.0),
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
        PAGE.fails("less", _worse(0.99 * needed, directions) - eps, 0.0),
        PAGE.fails("small-beta", _worse(small, directions), 0.1),
        PAGE.holds("sharper-query", _worse(small, directions, 6000), 0.1),
        PAGE.fails("random-directions", _worse(three, askew), 0.1),
    )


def _figures() -> tuple[Block, ...]:
    betas = torch.linspace(0.1, 3.5, 69, dtype=torch.float64)
    directions = torch.eye(4, WIDTH, dtype=torch.float64).expand(len(betas), 4, WIDTH)
    u = betas[:, None, None] * directions
    found = outputs(u)
    targets = {"c₂ from u_b": (1, u[:, 1]), "c₁ from u_b − u_c": (0, u[:, 1] - u[:, 2])}
    off = {name: vector_norm(found[:, i] - target, dim=-1) / betas for name, (i, target) in targets.items()}
    needed = {eps: math.sqrt(math.log(math.sqrt(5) / eps - 2)) for eps in (0.5, 0.1, 0.01, 0.001, 1e-6)}
    return (
        PAGE.figure("error", curves(betas, off, "β", "distance / β, logarithmic", log_y=True)),
        PAGE.table("needed-table", ("ε", "β"), [(number(eps), f"{beta:.2f}") for eps, beta in needed.items()]),
    )
