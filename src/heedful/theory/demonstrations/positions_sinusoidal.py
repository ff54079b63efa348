"""Sinusoidal positions: a shift is a rotation, and the product of two positions sees their distance alone."""

import torch
from torch import Tensor

from heedful.nn.positions import angles, frequencies, sinusoidal
from heedful.report.page import plots
from heedful.report.page.pieces import Block, Figure
from heedful.theory.demonstration import Check, Demonstration, Shown
from heedful.theory.draws import normal

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
        Check(
            f"PE(p + k) = M_k PE(p), d = {WIDTH}, p up to {FARTHEST:,}, k from −100 to 100; the matrix knows k alone.",
            (moved - sinusoidal(p + k, WIDTH)).abs().amax(dim=1),
            ROUNDING,
        ),
        Check(
            "M_k is a rotation (M_kᵀM_k = I), and two shifts are one: M_k M_m = M_{k+m}.",
            torch.maximum(
                (matrix.mT @ matrix - torch.eye(WIDTH)).abs().flatten(1).amax(dim=1),
                (matrix @ shift_matrix(m) - shift_matrix(k + m)).abs().flatten(1).amax(dim=1),
            ),
            ROUNDING,
        ),
        Check(
            "PE(p)·PE(q) = Σ_i cos((p − q)ω_i): it depends on the distance alone, and not on which comes first.",
            (product - profile(p - q)).abs(),
            ROUNDING,
        ),
        Check("Every PE(p) has the length √(d/2).", (here.norm(dim=1) - (WIDTH / 2) ** 0.5).abs(), ROUNDING),
        Check(
            "No other position is as near as the position itself: PE(p)·PE(q) < d/2 for p ≠ q.",
            torch.where(p == q, -1.0, product - WIDTH / 2),
            0.0,
        ),
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
    left = (table[:, :-1] @ fitted - table[:, 1:]).abs().flatten(1).amax(dim=1)
    distant = torch.randint(10**6, 10**7, (draws,), generator=generator)
    single = (distant.float()[:, None] * frequencies(WIDTH).float()).double()
    return (
        Check(
            "The product falls with every step of the distance, from 0 to a distance drawn from 1 to 1,000.",
            steepest,
            0.0,
            "fails",
        ),
        Check(
            "With a matrix W = W_QᵀW_K between them, PE(p)ᵀ W PE(q) stays the same if both are shifted (random W).",
            (before - after).abs(),
            0.01,
            "fails",
        ),
        Check(
            "A learned table (random, 40 positions of width 8) has a matrix as well that takes each row to the next.",
            left,
            0.01,
            "fails",
        ),
        Check(
            "In single precision the angles are right to 0.01 at positions from 10⁶ to 10⁷ (ours are computed in "
            "double).",
            (single - angles(distant, WIDTH)).abs().amax(dim=1),
            0.01,
            "fails",
        ),
    )


def _figures() -> tuple[Block, ...]:
    small = 12
    matrix = shift_matrix(torch.tensor(3), small)
    cells = [
        {"column": j + 1, "row": i + 1, "entry": round(float(matrix[i, j]), 3)}
        for i in range(small)
        for j in range(small)
    ]
    lines = [
        {"distance |p − q|": k, "PE(p)·PE(q) / (d/2)": round(float(value) / (d / 2), 4), "d": f"d = {d}"}
        for d in (16, 64, 512)
        for k, value in enumerate(profile(torch.arange(121), d))
    ]
    n = 32
    vectors = sinusoidal(torch.arange(n), WIDTH)
    products = vectors @ vectors.T / (WIDTH / 2)
    pairs = [{"q": q, "p": p, "product": round(float(products[p, q]), 3)} for p in range(n) for q in range(n)]
    return (
        Figure(
            "positions-sinusoidal-shift",
            f"The matrix M_3 for d = {small}: a rotation of each pair of coordinates. The first pairs turn fast, the "
            "last hardly at all (blue above zero, orange below).",
            plots.grid(cells, "column", "row", "entry", signed=True),
        ),
        Figure(
            "positions-sinusoidal-profile",
            "The product of two positions against their distance, divided by its value at distance 0. It falls at "
            f"first, and then it waves: it rises for the first time from distance {first_rise(16)} on for d = 16, "
            f"{first_rise(64)} for d = 64, {first_rise(512)} for d = 512.",
            plots.lines(lines, "distance |p − q|", "PE(p)·PE(q) / (d/2)", "d"),
        ),
        Figure(
            "positions-sinusoidal-products",
            f"PE(p)·PE(q) for the first {n} positions, d = {WIDTH}: the same along each diagonal.",
            plots.grid(pairs, "q", "p", "product"),
        ),
    )


DEMONSTRATION = Demonstration(
    name="positions-sinusoidal",
    chapter="Positions",
    order=2,
    title="Sinusoidal positions: a shift is a rotation",
    claim=(
        "For sinusoidal positions there is one matrix M_k for each shift k, the same for all positions p, with "
        "PE(p + k) = M_k PE(p). Therefore PE(p)·PE(q) depends on p − q alone."
    ),
    reason=(
        "The letters: p is a position, d the width (even), and ω_i = 10000^(−2i/d) for i = 0 … d/2 − 1 a frequency "
        "for each pair of coordinates. PE(p) has the pairs (sin pω_i, cos pω_i).",
        "Step 1. Take one pair. The addition theorems of sine and cosine say",
        "    sin((p + k)ω) =  cos(kω) sin(pω) + sin(kω) cos(pω)\n"
        "    cos((p + k)ω) = −sin(kω) sin(pω) + cos(kω) cos(pω).",
        "On the right stand sin(pω) and cos(pω), with factors that know k and not p. That is a 2 × 2 matrix: the "
        "rotation by the angle kω.",
        "Step 2. M_k has these d/2 rotations on its diagonal. Rotations are orthogonal, M_kᵀM_k = I, and two shifts "
        "make one: M_k M_m = M_{k+m}.",
        "Step 3. The product of two positions: each pair gives sin(pω) sin(qω) + cos(pω) cos(qω) = cos((p − q)ω). The "
        "sum over the pairs is the profile Σ_i cos((p − q)ω_i). At distance 0 it is d/2.",
        "So “three tokens back” is the same linear map everywhere, and a layer can learn it as a matrix.",
    ),
    ends=(
        "The profile does not fall for ever. It is a sum of cosines, falls at first, and then goes up and down: a "
        "position farther away may well have the larger product.",
        "The product sees the distance alone if nothing stands between. Attention has a matrix there, PE(p)ᵀ W_QᵀW_K "
        "PE(q), and for a general matrix this depends on p and q themselves. So do the products of words with "
        "positions. Models can use distances; they are not bound to.",
        "A learned table of positions has no such matrix in general: with more positions than coordinates, nothing "
        "forces all shifts to be one linear map.",
        "Far away the precision matters. Near 10⁶ the numbers of single precision are 0.06 apart, which is too coarse "
        "for an angle; our code computes angles in double precision.",
    ),
    show=show,
    published=(
        "The paper says that for any fixed offset k, PE(p + k) is a linear function of PE(p); that is right. That the "
        "product falls with the distance, as is often said, is right for near positions alone."
    ),
    paper="“Attention Is All You Need” (2017), section 3.5",
    see=("nn/positions.py",),
)
