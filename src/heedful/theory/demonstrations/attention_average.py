"""Attention as averaging: two keys with equal scores."""

import torch
from torch import Tensor
from torch.linalg import vector_norm

from heedful.report.page.pieces import Block
from heedful.theory.demonstration import Check, Shown
from heedful.theory.drawing import curves
from heedful.theory.draws import normal, uniform
from heedful.theory.lookup import attend, margin, needed_table, orthonormal
from heedful.theory.page import Page

PAGE = Page.read(__name__)

N, WIDTH = 10, 16


def show(draws: int, generator: torch.Generator) -> Shown:
    keys, values = orthonormal(generator, draws, N, WIDTH), normal(generator, draws, N, WIDTH)
    m = uniform(generator, 0, 20, draws)
    c, weights = attend(m[:, None, None] * _sum(keys), keys, values)
    w = 1 / (2 + (N - 2) * torch.exp(-m))
    half, rest = values[:, :2].mean(dim=1), values[:, 2:].mean(dim=1)
    eps = 10 ** uniform(generator, -6, -1, draws)
    needed = margin(N - 2, 2 * eps, wanted=2)
    return Shown(
        checks=(
            PAGE.holds("weights", (weights[:, 0, :2] - w[:, None]).abs().amax(dim=-1), 1e-12),
            PAGE.holds("miss", vector_norm(c[:, 0] - half - (1 - 2 * w)[:, None] * (rest - half), dim=-1), 1e-12),
            PAGE.holds("needed", (_weight(keys, needed) - (0.5 - eps)).abs(), 1e-12),
            PAGE.holds("enough", (0.5 - eps) - _weight(keys, 1.01 * needed), 0.0),
        ),
        figures=_figures(),
        limits=_limits(draws, generator, keys, eps, needed),
    )


def _sum(keys: Tensor) -> Tensor:
    """k_a + k_b, the first two."""
    return keys[:, :2].sum(dim=1, keepdim=True)


def _weight(keys: Tensor, m: Tensor) -> Tensor:
    return attend(m[:, None, None] * _sum(keys), keys, keys)[1][:, 0, 0]


def _limits(draws: int, generator: torch.Generator, keys: Tensor, eps: Tensor, needed: Tensor) -> tuple[Check, ...]:
    large = torch.full_like(eps, 50)
    longer = keys * uniform(generator, 0.5, 2, draws, N, 1)
    askew = normal(generator, draws, N, WIDTH)
    dual = torch.linalg.pinv(askew)[..., :2].sum(dim=-1)  # its product with k_a and k_b is 1, with the others 0
    wanted = torch.softmax(normal(generator, draws, N), dim=-1)
    mixed = (torch.linalg.pinv(askew) @ wanted.log()[:, :, None]).mT
    return (
        PAGE.fails("less", (0.5 - eps) - _weight(keys, 0.99 * needed), 0.0),
        PAGE.fails("near-one", (_weight(keys, large) - 1).abs(), 0.1),
        PAGE.fails("unequal-lengths", (_weight(longer, large) - 0.5).abs(), 0.01),
        PAGE.fails("random-keys", (_weight(askew, large) - 0.5).abs(), 0.01),
        PAGE.holds("dual", (attend(50 * dual[:, None], askew, askew)[1][:, 0, :2] - 0.5).abs().amax(dim=-1), 1e-9),
        PAGE.holds("any-weights", (attend(mixed, askew, askew)[1][:, 0] - wanted).abs().amax(dim=-1), 1e-9),
    )


def _figures() -> tuple[Block, ...]:
    m = torch.linspace(0, 12, 61, dtype=torch.float64)
    w = 1 / (2 + (N - 2) * torch.exp(-m))
    series = {"v_a, and v_b as well": w, "the other eight together": 1 - 2 * w}
    table = needed_table(
        PAGE.caption("needed-table"), (10, 100, 1000, 10_000), lambda n, eps: margin(n - 2, 2 * eps, wanted=2)
    )
    return (PAGE.figure("weights", curves(m, series, "M", "weight")), table)
