"""Sinusoidal positions: a shift is a rotation, and the product of two positions sees their distance alone."""

import torch
from torch import Tensor

from heedful.nn.positions import angles, frequencies, sinusoidal
from heedful.report.page.pieces import Block
from heedful.theory.demonstration import Check, Shown
from heedful.theory.drawing import curves, heatmap
from heedful.theory.draws import normal, worst
from heedful.theory.page import Page

PAGE = Page.read(__name__)

WIDTH = 32
FARTHEST = 10_000
ROUNDING = 1e-9
"""Sines of angles up to 10⁴ are right to about 10⁻¹²."""
BASE = 10_000.0


def shift_matrix(k: Tensor, d: int = WIDTH) -> Tensor:
    """(…, d, d): M_k, which takes PE(p) to PE(p + k); blocks (cos kω, sin kω; −sin kω, cos kω) on the diagonal."""
    angle = k.double()[..., None] * frequencies(d, BASE)
    cos, sin = angle.cos(), angle.sin()
    matrix = torch.zeros(*k.shape, d, d, dtype=torch.float64)
    even = torch.arange(0, d, 2)
    matrix[..., even, even] = matrix[..., even + 1, even + 1] = cos
    matrix[..., even, even + 1], matrix[..., even + 1, even] = sin, -sin
    return matrix


def profile(distance: Tensor, d: int = WIDTH) -> Tensor:
    """Σ_i cos(k ω_i)"""
    return (distance.double()[..., None] * frequencies(d, BASE)).cos().sum(dim=-1)


def show(draws: int, generator: torch.Generator) -> Shown:
    p, q = (torch.randint(0, FARTHEST, (draws,), generator=generator) for _ in range(2))
    k, m = (torch.randint(-100, 101, (draws,), generator=generator) for _ in range(2))
    here, there = sinusoidal(p, WIDTH), sinusoidal(q, WIDTH)
    matrix = shift_matrix(k)
    moved = (matrix @ here[..., None])[..., 0]
    product = (here * there).sum(dim=1)
    checks = (
        PAGE.holds(
            "matrix",
            (moved - sinusoidal(p + k, WIDTH)).abs().amax(dim=1),
            ROUNDING,
            width=WIDTH,
            farthest=f"{FARTHEST:,}",
        ),
        PAGE.holds(
            "rotation",
            torch.maximum(
                worst(matrix.mT @ matrix - torch.eye(WIDTH)), worst(matrix @ shift_matrix(m) - shift_matrix(k + m))
            ),
            ROUNDING,
        ),
        PAGE.holds("product", (product - profile(p - q)).abs(), ROUNDING),
        PAGE.holds("length", (here.norm(dim=1) - (WIDTH / 2) ** 0.5).abs(), ROUNDING),
        PAGE.holds("nearest", torch.where(p == q, -1.0, product - WIDTH / 2), 0.0),
    )
    return Shown(checks, _figures(), _limits(draws, generator))


def first_rise(d: int) -> int:
    """The smallest distance k for which k + 1 has the larger product."""
    values = profile(torch.arange(2000), d)
    return int((values[1:] > values[:-1]).nonzero()[0, 0])


def _limits(draws: int, generator: torch.Generator) -> tuple[Check, ...]:
    falls = profile(torch.arange(1002)).diff()
    far = torch.randint(1, 1001, (draws,), generator=generator)
    steepest = falls.cummax(dim=0).values[far]
    p, q, k = (torch.randint(0, 500, (draws,), generator=generator) for _ in range(3))
    learned = normal(generator, draws, WIDTH, WIDTH)
    before = torch.einsum("bd,bde,be->b", sinusoidal(p, WIDTH), learned, sinusoidal(q, WIDTH))
    after = torch.einsum("bd,bde,be->b", sinusoidal(p + k + 1, WIDTH), learned, sinusoidal(q + k + 1, WIDTH))
    table = normal(generator, draws, 40, 8)
    fitted = torch.linalg.lstsq(table[:, :-1], table[:, 1:]).solution
    left = worst(table[:, :-1] @ fitted - table[:, 1:])
    distant = torch.randint(10**6, 10**7, (draws,), generator=generator)
    single = (distant.float()[:, None] * frequencies(WIDTH).float()).double()
    return (
        PAGE.fails("falls", steepest, 0.0),
        PAGE.fails("learned-matrix", (before - after).abs(), 0.01),
        PAGE.fails("learned-table", left, 0.01),
        PAGE.fails("single-precision", (single - angles(distant, WIDTH)).abs().amax(dim=1), 0.01),
    )


def _figures() -> tuple[Block, ...]:
    small = 12
    distances = torch.arange(121)
    profiles = {f"d = {d}": profile(distances, d) / (d / 2) for d in (16, 64, 512)}
    axes = "distance |p − q|", "PE(p)·PE(q) / (d/2)", "d"
    n = 32
    vectors = sinusoidal(torch.arange(n), WIDTH)
    return (
        PAGE.figure(
            "shift", heatmap(shift_matrix(torch.tensor(3), small), "column", "row", "entry", signed=True), small=small
        ),
        PAGE.figure(
            "profile", curves(distances, profiles, *axes), **{f"rise_{d}": first_rise(d) for d in (16, 64, 512)}
        ),
        PAGE.figure(
            "products", heatmap(vectors @ vectors.T / (WIDTH / 2), "q", "p", "product", first=0), n=n, width=WIDTH
        ),
    )
