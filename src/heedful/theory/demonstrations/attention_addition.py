"""What cannot be done by adding to a token when K = Q = V = I."""

import math

import torch
from torch import Tensor
from torch.linalg import vector_norm

from heedful.report.page.pieces import Figure
from heedful.theory.demonstration import Check, Shown
from heedful.theory.demonstrations.attention_construction import WIDTH, outputs, tokens
from heedful.theory.drawing import curves
from heedful.theory.draws import normal, uniform
from heedful.theory.lookup import attend, orthonormal
from heedful.theory.page import Page

PAGE = Page.read(__name__)


def changed(u: Tensor, s: Tensor, t: Tensor) -> Tensor:
    """The tokens with s·u_c + t·u_d added to x₂."""
    x = tokens(u)
    x[:, 1] += s[:, None] * u[:, 2] + t[:, None] * u[:, 3]
    return x


def show(draws: int, generator: torch.Generator) -> Shown:
    beta = 10 ** uniform(generator, -2, 1, draws)
    directions = orthonormal(generator, draws, 4, WIDTH)
    u = beta[:, None, None] * directions
    hard = (torch.arange(draws) % 2 == 0) & (beta < 1)  # near the s and t that come nearest to u_b
    any_s, any_t = (torch.where(hard, -1 + 0.1 * normal(generator, draws), 3 * normal(generator, draws)) for _ in "st")
    more_s, more_t = (10 ** uniform(generator, -3, 1, draws) for _ in "st")
    nothing = torch.zeros_like(beta)
    large = directions * uniform(generator, 3, 10, draws, 1, 1)
    plain = tokens(large)
    x = changed(u, any_s, any_t)
    w = attend(x, x, x)[1][:, 1]
    bound = 1 / (1 + 2 * torch.exp(-0.75 * beta**2))
    return Shown(
        checks=(
            PAGE.holds(
                "nothing-added",
                vector_norm(attend(plain, plain, plain)[0][:, 1] - large[:, 0], dim=-1)
                / vector_norm(large[:, 0], dim=-1),
                0.001,
            ),
            PAGE.holds("most-to-itself", w[:, [0, 2]].amax(dim=-1) - w[:, 1], 1e-12),
            PAGE.holds("least-weight", bound - w[:, 1], 1e-12),
            PAGE.holds("any-amount", math.sqrt(2) / 3 - _distance(u, any_s, any_t), 1e-12),
            PAGE.holds("only-added", 2 / 3 - _distance(u, more_s, more_t), 1e-12),
            PAGE.holds("only-c", 2 / 3 - _distance(u, more_s, nothing), 1e-12),
            PAGE.holds("only-d", 2 / 3 - _distance(u, nothing, more_t), 1e-12),
        ),
        figures=(_figure(),),
        limits=_limits(draws, generator, directions),
    )


def _distance(u: Tensor, s: Tensor, t: Tensor) -> Tensor:
    """Of c₂ from u_b, in units of β."""
    x = changed(u, s, t)
    return torch.div(vector_norm(attend(x, x, x)[0][:, 1] - u[:, 1], dim=-1), vector_norm(u[:, 1], dim=-1))


def _limits(draws: int, generator: torch.Generator, directions: Tensor) -> tuple[Check, ...]:
    short, away = uniform(generator, 0.01, 0.1, draws), uniform(generator, -1.05, -0.95, draws)
    u = short[:, None, None] * directions
    large = uniform(generator, 3, 10, draws)[:, None, None] * directions
    found = _distance(u, away, away)
    built = vector_norm(outputs(large)[:, 1] - large[:, 1], dim=-1) / vector_norm(large[:, 1], dim=-1)
    return (
        PAGE.fails("taken-away", 2 / 3 - found, 1e-12),
        PAGE.holds("attained", found - math.sqrt(2) / 3, 0.02),
        PAGE.fails("other-matrices", math.sqrt(2) / 3 - built, 0.0),
    )


def _figure() -> Figure:
    amounts = torch.linspace(-3, 3, 121, dtype=torch.float64)
    u = torch.eye(4, WIDTH, dtype=torch.float64).expand(len(amounts), 4, WIDTH)
    series = {f"β = {beta:g}": _distance(beta * u, amounts, amounts) for beta in (0.1, 1.0, 3.0)}
    series["√2/3"] = torch.full_like(amounts, math.sqrt(2) / 3)
    axes = "s = t, the amount of u_c and of u_d that is added", "distance / β", "β"
    return PAGE.figure("distance", curves(amounts, series, *axes))
