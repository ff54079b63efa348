"""Rotary positions: the product of query and key sees p − p′ alone."""

import torch
from torch import Tensor

from heedful.nn.attention import MultiHeadAttention, dot_product
from heedful.nn.positions import RotaryAttention, rotate
from heedful.report.page.pieces import Block
from heedful.theory.demonstration import Check, Shown
from heedful.theory.drawing import curves, heatmap
from heedful.theory.draws import normal, redraw, worst
from heedful.theory.page import Page

PAGE = Page.read(__name__)

WIDTH, LENGTH = 32, 6
FARTHEST = 10_000
ROUNDING = 1e-9


def turned(x_bd: Tensor, position_b: Tensor) -> Tensor:
    """R_p x of each draw."""
    return rotate(x_bd[:, None, None], position_b[:, None])[:, 0, 0]


def scores(q_bd: Tensor, k_bd: Tensor, p_b: Tensor, other_b: Tensor) -> Tensor:
    """(R_p q)·(R_p′ k)"""
    return (turned(q_bd, p_b) * turned(k_bd, other_b)).sum(dim=1)


def show(draws: int, generator: torch.Generator) -> Shown:
    q, k = normal(generator, draws, WIDTH), normal(generator, draws, WIDTH)
    p, other, shift = (torch.randint(0, FARTHEST, (draws,), generator=generator) for _ in range(3))
    score = scores(q, k, p, other)
    x = normal(generator, draws, LENGTH, WIDTH)
    attention = MultiHeadAttention(WIDTH, 2, attend=RotaryAttention(attend=dot_product)).double().requires_grad_(False)
    redraw(attention, generator, 0.3)
    places, moved = torch.arange(LENGTH), torch.arange(LENGTH) + 1000
    near, far = (attention(x, places=(at, at)).y_btd for at in (places, moved))
    checks = (
        PAGE.holds("shift", (scores(q, k, p + shift, other + shift) - score).abs(), ROUNDING, farthest=f"{FARTHEST:,}"),
        PAGE.holds("distance", ((q * turned(k, other - p)).sum(dim=1) - score).abs(), ROUNDING),
        PAGE.holds("lengths", (turned(q, p).norm(dim=1) - q.norm(dim=1)).abs(), ROUNDING),
        PAGE.holds("layer", worst(near - far), ROUNDING),
    )
    return Shown(checks, _figures(generator), _limits(draws, generator, q, k))


def profile(q_bd: Tensor, k_bd: Tensor, distances: Tensor) -> Tensor:
    """(b, n): the score at each distance p − p′."""
    keys = rotate(k_bd[:, None, None].expand(-1, 1, len(distances), -1), -distances)[:, 0]
    return (keys @ q_bd[..., None])[..., 0]


def _limits(draws: int, generator: torch.Generator, q: Tensor, k: Tensor) -> tuple[Check, ...]:
    distances = torch.arange(51)
    random, equal = profile(q, k, distances), profile(q, q, distances)
    parts = normal(generator, 3, draws, 1, LENGTH, WIDTH)
    places = torch.arange(LENGTH)

    def all_rotated(at: Tensor) -> Tensor:
        q, k, v = (rotate(part, at) for part in parts)
        return dot_product(q, k, v, None, (at, at), 0.0, False)[0]

    early, late = all_rotated(places), all_rotated(places + 1000)
    return (
        PAGE.fails("falls", random.diff(dim=1).amax(dim=1), 0.0),
        PAGE.fails("falls-with-itself", equal.diff(dim=1).amax(dim=1), 0.0),
        PAGE.holds("largest-at-zero", (equal - equal[:, :1]).amax(dim=1), ROUNDING),
        PAGE.fails("rotated-values", worst(early - late), 0.01),
    )


def _figures(generator: torch.Generator) -> tuple[Block, ...]:
    distances = torch.arange(101)
    q, k = normal(generator, 3, WIDTH), normal(generator, 3, WIDTH)
    ones = torch.ones(1, WIDTH, dtype=torch.float64)
    series = {"q = k = (1, …, 1)": profile(ones, ones, distances)[0] / WIDTH**0.5}
    for i, values in enumerate(profile(q, k, distances)[:2]):
        series[f"random q and k, {i + 1}"] = values / WIDTH**0.5
    n = 24
    text = rotate(q[1:2, None].expand(1, 1, n, WIDTH), torch.arange(n))[0, 0]
    keys = rotate(k[1:2, None].expand(1, 1, n, WIDTH), torch.arange(n))[0, 0]
    return (
        PAGE.figure("scores", heatmap(text @ keys.T / WIDTH**0.5, "p′", "p", "score", first=0, signed=True)),
        PAGE.figure("profile", curves(distances, series, "distance p − p′", "score / √d")),
    )
