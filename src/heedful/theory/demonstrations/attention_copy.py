"""Attention as copying: one key dominates."""

import torch
from torch.linalg import vector_norm

from heedful.nn.attention import dot_product
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
    c, weights = attend(m[:, None, None] * keys[:, :1], keys, values)
    c, w = c[:, 0], weights[:, 0, 0]
    rest = values[:, 1:].mean(dim=1)
    eps = 10 ** uniform(generator, -6, -1, draws)
    needed = margin(N - 1, eps)
    k, q = normal(generator, draws, N, WIDTH), normal(generator, draws, WIDTH)
    scores = (k @ q[:, :, None])[..., 0]
    first, second = scores.topk(2, dim=-1).values.T
    largest = attend(q[:, None], k, values)[1][:, 0].amax(dim=-1)
    return Shown(
        checks=(
            PAGE.holds("weight", (w - 1 / (1 + (N - 1) * torch.exp(-m))).abs(), 1e-12),
            PAGE.holds("miss", vector_norm(c - values[:, 0] - (1 - w)[:, None] * (rest - values[:, 0]), dim=-1), 1e-12),
            PAGE.holds("needed", (_weight(keys, needed) - (1 - eps)).abs(), 1e-12),
            PAGE.holds("enough", (1 - eps) - _weight(keys, 1.01 * needed), 0.0),
            PAGE.holds("any-keys", 1 / (1 + (N - 1) * torch.exp(second - first)) - largest, 1e-12),
        ),
        figures=_figures(),
        limits=_limits(draws, generator, keys, eps),
    )


def _weight(keys: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
    return attend(m[:, None, None] * keys[:, :1], keys, keys)[1][:, 0, 0]


def _limits(draws: int, generator: torch.Generator, keys: torch.Tensor, eps: torch.Tensor) -> tuple[Check, ...]:
    needed = margin(N - 1, eps)
    twins = torch.cat([keys[:, :1], keys[:, :1], keys[:, 2:]], dim=1)
    shares = torch.softmax(normal(generator, draws, 1, N - 1), dim=-1)
    hidden = torch.cat([shares @ keys[:, 1:], keys[:, 1:]], dim=1)
    own = hidden[:, :1] / (hidden[:, :1] ** 2).sum(dim=-1, keepdim=True)
    q = uniform(generator, 0, 50, draws, 1, 1) * own + normal(generator, draws, 1, WIDTH)
    inside = attend(q, hidden, hidden)[1][:, 0, 0]
    places = torch.arange(1), torch.arange(N)
    divided = dot_product(
        (needed[:, None, None] * keys[:, :1])[:, None], keys[:, None], keys[:, None], None, places, 0.0, True
    )[1]
    assert divided is not None
    return (
        PAGE.fails("less", (1 - eps) - _weight(keys, 0.99 * needed), 0.0),
        PAGE.fails("scaled", (1 - eps) - divided[:, 0, 0, 0], 1e-12),
        PAGE.fails("equal-keys", 0.9 - _weight(twins, torch.full_like(eps, 50)), 0.0),
        PAGE.fails("average-key", 0.9 - inside, 0.0),
        PAGE.holds("half", inside - 0.5, 0.0),
    )


def _figures() -> tuple[Block, ...]:
    sizes = (2, 10, 100, 1000, 10_000)
    m = torch.linspace(0, 20, 81, dtype=torch.float64)
    series = {f"n = {n:,}": 1 / (1 + (n - 1) * torch.exp(-m)) for n in sizes}
    table = needed_table(PAGE.caption("needed-table"), sizes, lambda n, eps: margin(n - 1, eps))
    return (PAGE.figure("weight", curves(m, series, "M", "weight of v_j", "keys")), table)
