"""Windowed attention takes the maximum if its query is a positive constant, and not if it is the token itself."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.nn.attention import MultiHeadAttention, dot_product
from heedful.report.page.pieces import Block
from heedful.theory.demonstration import Check, Shown
from heedful.theory.drawing import curves
from heedful.theory.draws import attention_of, normal, uniform, worst
from heedful.theory.page import Page

PAGE = Page.read(__name__)

REACH, CHANNELS = 2, 4
WINDOW = 2 * REACH + 1
LENGTH, MIDDLE = 9, 4
ROUNDING = 1e-12
TOLERANCE = 1e-6
SHARPNESS = 1000.0
"""C of the published weights."""


def window_mask(n: int) -> Tensor:
    """(1, 1, n, n): a token sees those at most `REACH` away."""
    t = torch.arange(n)
    return ((t[:, None] - t[None, :]).abs() <= REACH)[None, None]


def windows(x_bnd: Tensor) -> Tensor:
    """(b, n, d, window), the largest first; −∞ where the window leaves the text."""
    padded = F.pad(x_bnd, (0, 0, REACH, REACH), value=-math.inf)
    return padded.unfold(1, WINDOW, 1).sort(dim=-1, descending=True).values


def _pooled(attention: MultiHeadAttention, x_bnd: Tensor) -> Tensor:
    y: Tensor = attention(x_bnd, mask=window_mask(x_bnd.shape[1])).y_btd
    return y


def published(x_bn1: Tensor, c: float) -> Tensor:
    """W_Q = W_K = C·I, W_V = I."""
    eye = torch.eye(1, dtype=torch.float64)
    return _pooled(attention_of(c * eye, c * eye, eye), x_bn1)


def constant_query(x_bnd: Tensor, c: float) -> Tensor:
    """W_Q = 0, b_Q = 1, W_K = C·I, W_V = I, one head for each channel (heads of width 1)."""
    d = x_bnd.shape[-1]
    eye = torch.eye(d, dtype=torch.float64)
    attention = attention_of(0 * eye, c * eye, eye, heads=d, query_bias=torch.ones(d, dtype=torch.float64))
    return _pooled(attention, x_bnd)


def constant_coordinate(x_bn1: Tensor, c: float) -> Tensor:
    """The same without a bias: every token is (x, 1), and W_Q reads the 1. √2 undoes the division by √k, k = 2."""
    first = torch.tensor([[1.0, 0.0], [0.0, 0.0]], dtype=torch.float64)
    attention = attention_of(math.sqrt(2) * c * first.roll(1, dims=1), first, first)
    x = torch.cat([x_bn1, torch.ones_like(x_bn1)], dim=-1)
    return _pooled(attention, x)[..., :1]


def sharpness_for(gap: Tensor, spread: Tensor, tolerance: float) -> Tensor:
    """C = ln((m − 1)R/τ)/g, for a window of m tokens, a gap g below the largest, a spread R and a tolerance τ."""
    return ((WINDOW - 1) * spread / tolerance).log() / gap


def show(draws: int, generator: torch.Generator) -> Shown:
    x = normal(generator, draws, LENGTH, CHANNELS)
    ranked = windows(x)
    largest = ranked[..., 0]
    errors = {c: (largest - constant_query(x, c)).flatten(1) for c in (1.0, 10.0, 100.0, 1000.0)}
    uniform_bound = torch.stack([(e - math.log(WINDOW) / c).amax(dim=1) for c, e in errors.items()]).amax(dim=0)
    steps = (largest[..., None] - ranked)[..., 1:].nan_to_num(posinf=0.0)
    gap_bound = torch.stack(
        [
            (e - (steps * (-c * steps).exp()).sum(dim=-1).flatten(1)).amax(dim=1)
            for c, e in ((c, errors[c]) for c in errors)
        ]
    ).amax(dim=0)
    one = constant_query(x[..., :1], 50.0) - constant_coordinate(x[..., :1], 50.0)
    checks = (
        PAGE.holds(
            "constant-query",
            torch.maximum(uniform_bound, torch.stack([-e.amin(dim=1) for e in errors.values()]).amax(dim=0)),
            ROUNDING,
            window=WINDOW,
        ),
        PAGE.holds("gaps", gap_bound, ROUNDING),
        PAGE.holds("sharpness", _with_needed_sharpness(x, ranked), TOLERANCE),
        PAGE.holds("coordinate", worst(one), ROUNDING),
    )
    return Shown(checks, _figures(draws, generator), (*_failure(x), *_ties(x), *_one_head(draws, generator)))


def _with_needed_sharpness(x: Tensor, ranked: Tensor) -> Tensor:
    """How far below the maximum, where every query of every channel is its own C."""
    inside = slice(REACH, LENGTH - REACH)
    c = torch.ones_like(x)
    gap, spread = ranked[..., 0] - ranked[..., 1], ranked[..., 0] - ranked[..., -1]
    c[:, inside] = sharpness_for(gap, spread, TOLERANCE)[:, inside]
    q, k = (part.transpose(1, 2)[..., None] for part in (c, x))
    places = torch.arange(LENGTH)
    y, _ = dot_product(q, k, k, window_mask(LENGTH), (places, places), 0.0, False)
    return worst((ranked[..., 0] - y[..., 0].transpose(1, 2))[:, inside])


def _failure(x: Tensor) -> tuple[Check, ...]:
    """The published weights, where the token in the middle is negative, and where it is zero."""
    below = x[..., :1].clone()
    below[:, MIDDLE] = -below[:, MIDDLE].abs() - 0.01
    seen = below[:, MIDDLE - REACH : MIDDLE + REACH + 1, 0]
    y = published(below, SHARPNESS)[:, MIDDLE, 0]
    bound = math.log(WINDOW) / (SHARPNESS**2 * below[:, MIDDLE, 0].abs())
    zero = x[..., :1].clone()
    zero[:, MIDDLE] = 0.0
    seen_zero = zero[:, MIDDLE - REACH : MIDDLE + REACH + 1, 0]
    y_zero = published(zero, SHARPNESS)[:, MIDDLE, 0]
    above = x[..., :1].clone()
    above[:, MIDDLE] = above[:, MIDDLE].abs() + 0.01
    y_above = published(above, SHARPNESS)[:, MIDDLE, 0]
    top = above[:, MIDDLE - REACH : MIDDLE + REACH + 1, 0].amax(dim=1)
    bound_above = math.log(WINDOW) / (SHARPNESS**2 * above[:, MIDDLE, 0])
    return (
        PAGE.fails("published", seen.amax(dim=1) - y, 0.01),
        PAGE.holds("negative", y - seen.amin(dim=1) - bound, ROUNDING),
        PAGE.holds("zero", (y_zero - seen_zero.mean(dim=1)).abs(), ROUNDING),
        PAGE.holds("positive", top - y_above - bound_above, ROUNDING),
    )


def _ties(x: Tensor) -> tuple[Check, ...]:
    """Two tokens of the window share the maximum; each carries something else in another channel."""
    tied = x[:, : REACH + 1, :2].clone()
    tied[:, 0, 0] = tied[:, 1, 0] = tied[:, 2, 0].abs() + 1.0
    eye = torch.eye(2, dtype=torch.float64)
    first = torch.tensor([[1.0, 0.0], [0.0, 0.0]], dtype=torch.float64)
    bias = torch.tensor([1.0, 0.0], dtype=torch.float64)
    attention = attention_of(0 * eye, 100.0 * first, eye, query_bias=bias)
    y = _pooled(attention, tied)[:, 0]
    payload = tied[:, :2, 1]
    return (
        PAGE.holds("tie", (y[:, 0] - tied[:, 0, 0]).abs(), 1e-9),
        PAGE.fails("tie-payload", (y[:, 1:] - payload).abs().amin(dim=1), 1e-3),
        PAGE.holds("tie-mean", (y[:, 1] - payload.mean(dim=1)).abs(), 1e-9),
    )


def _one_head(draws: int, generator: torch.Generator) -> tuple[Check, ...]:
    """Two tokens of two channels; the first is larger in the one, the second in the other."""
    low = normal(generator, draws, 2)
    difference = uniform(generator, 0.1, 2.0, draws, 2)
    x = torch.stack([low + difference * torch.tensor([1.0, 0.0]), low + difference * torch.tensor([0.0, 1.0])], dim=1)
    wanted = x.amax(dim=1)
    share = uniform(generator, 0.0, 1.0, draws, 1)
    mixed = share * x[:, 0] + (1 - share) * x[:, 1]
    nearest = difference.prod(dim=1) / difference.norm(dim=1)
    eye = torch.eye(2, dtype=torch.float64)
    bias = torch.full((2,), math.sqrt(2), dtype=torch.float64)
    y = attention_of(0 * eye, SHARPNESS * eye, eye, query_bias=bias)(x).y_btd[:, 0]
    return (
        PAGE.fails("one-head", (y - wanted).norm(dim=1), 0.01),
        PAGE.holds("mixture", nearest - (mixed - wanted).norm(dim=1), ROUNDING),
    )


def _figures(draws: int, generator: torch.Generator) -> tuple[Block, ...]:
    around = torch.tensor([-0.6, 0.5, 0.0, -0.2, 0.8], dtype=torch.float64)
    grid = torch.linspace(-1, 1, 81, dtype=torch.float64)
    x = around.repeat(len(grid), 1)
    x[:, REACH] = grid
    scans = {
        "the maximum": x.amax(dim=1),
        "query = token (C = 5)": published(x[..., None], 5.0)[:, REACH, 0],
        "query = token (C = 1000)": published(x[..., None], SHARPNESS)[:, REACH, 0],
        "query = 1 (C = 8)": constant_query(x[..., None], 8.0)[:, REACH, 0],
    }
    drawn = normal(generator, draws, WINDOW, 1)
    factors = [10 ** (i / 8) for i in range(33)]
    below = [(drawn.amax(dim=1) - constant_query(drawn, c)[:, REACH]).flatten() for c in factors]
    errors = {
        "the bound ln(m)/C": [math.log(WINDOW) / c for c in factors],
        "largest": [float(error.max()) for error in below],
        "median": [float(error.median()) for error in below],
    }
    return (
        PAGE.figure("scan", curves(grid, scans, "x_i, the token that looks", "output")),
        PAGE.figure(
            "error",
            curves(factors, errors, "C", "below the maximum", above=1e-9, log_x=True, log_y=True),
            draws=f"{draws:,}",
            window=WINDOW,
        ),
    )
