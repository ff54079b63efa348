"""Rotary positions: the product of query and key sees p − p′ alone."""

import torch
from torch import Tensor

from heedful.nn.attention import MultiHeadAttention, dot_product
from heedful.nn.positions import RotaryAttention, rotate
from heedful.report.page import plots
from heedful.report.page.pieces import Block, Figure
from heedful.theory.demonstration import Check, Demonstration, Shown
from heedful.theory.draws import normal, redraw

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
        Check(
            f"(R_p q)·(R_p′ k) does not change if p and p′ are shifted together, p and p′ up to {FARTHEST:,}.",
            (scores(q, k, p + shift, other + shift) - score).abs(),
            ROUNDING,
        ),
        Check(
            "It is q·(R_{p′−p} k): the rotation by the distance, of the key alone.",
            ((q * turned(k, other - p)).sum(dim=1) - score).abs(),
            ROUNDING,
        ),
        Check("Rotations keep lengths: ‖R_p q‖ = ‖q‖.", (turned(q, p).norm(dim=1) - q.norm(dim=1)).abs(), ROUNDING),
        Check(
            "A whole layer of rotary attention gives the same output if all its tokens stand 1,000 places later.",
            (near - far).abs().flatten(1).amax(dim=1),
            ROUNDING,
        ),
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
        Check(
            "The score falls with every step of the distance from 0 to 50 (random q and k).",
            random.diff(dim=1).amax(dim=1),
            0.0,
            "fails",
        ),
        Check("It does so if the key equals the query.", equal.diff(dim=1).amax(dim=1), 0.0, "fails"),
        Check(
            "What holds if the key equals the query: the score is largest at distance 0.",
            (equal - equal[:, :1]).amax(dim=1),
            ROUNDING,
        ),
        Check(
            "If the values are rotated as well, the output still does not change when all tokens stand 1,000 places "
            "later.",
            (early - late).abs().flatten(1).amax(dim=1),
            0.01,
            "fails",
        ),
    )


def _figures(generator: torch.Generator) -> tuple[Block, ...]:
    distances = torch.arange(101)
    q, k = normal(generator, 3, WIDTH), normal(generator, 3, WIDTH)
    ones = torch.ones(1, WIDTH, dtype=torch.float64)
    series = {"q = k = (1, …, 1)": profile(ones, ones, distances)[0]}
    for i, values in enumerate(profile(q, k, distances)[:2]):
        series[f"random q and k, {i + 1}"] = values
    rows = [
        {"distance p − p′": n, "score / √d": round(float(value) / WIDTH**0.5, 3), "of": name}
        for name, values in series.items()
        for n, value in enumerate(values)
    ]
    n = 24
    text = rotate(q[1:2, None].expand(1, 1, n, WIDTH), torch.arange(n))[0, 0]
    keys = rotate(k[1:2, None].expand(1, 1, n, WIDTH), torch.arange(n))[0, 0]
    cells = [
        {"p′": j, "p": i, "score": round(float(text[i] @ keys[j]) / WIDTH**0.5, 3)} for i in range(n) for j in range(n)
    ]
    return (
        Figure(
            "positions-rotary-scores",
            "Scores of one query and one key at all pairs of positions: the same along each diagonal (blue above "
            "zero, orange below).",
            plots.grid(cells, "p′", "p", "score", signed=True),
        ),
        Figure(
            "positions-rotary-profile",
            "The score against the distance. For a query and key of ones it is the profile of sinusoidal positions "
            "(twice); for others it may be anything.",
            plots.lines(rows, "distance p − p′", "score / √d", "of"),
        ),
    )


DEMONSTRATION = Demonstration(
    name="positions-rotary",
    chapter="Positions",
    order=3,
    title="Rotary positions: products see the distance alone",
    claim=(
        "If the query at position p is rotated by R_p and the key at position p′ by R_p′, their product depends on q, "
        "k and the distance p − p′ alone, for every q and k."
    ),
    reason=(
        "The letters: q and k are a query and a key of even width d, p and p′ their positions. R_p turns each pair of "
        "coordinates (x_2i, x_2i+1) by the angle pω_i, with the frequencies ω_i of sinusoidal positions.",
        "A rotation by −a undoes a rotation by a, so R_pᵀ = R_{−p}; and two rotations add their angles. Therefore",
        "    (R_p q)·(R_p′ k) = qᵀ R_pᵀ R_p′ k = qᵀ R_{p′−p} k.",
        "p and p′ have gone; p′ − p is left. No matrix W_Q or W_K can change this, because the rotation comes after "
        "them: this is what sinusoidal positions, which are added to the tokens, cannot promise.",
        "The values are not rotated. So a whole layer of attention is unchanged if the text begins at another "
        "position.",
    ),
    ends=(
        "It does not say that near tokens count more. The score falls with the distance for no q and k that one draws "
        "at random, and even for k = q it falls only at first. For k = q it is largest at distance 0.",
        "If the values were rotated too, outputs would depend on the positions themselves.",
        "A causal mask and the ends of the text still tell a layer where it is: how many tokens it may see.",
    ),
    show=show,
    published=(
        "The paper derives this identity; it is right. Its “long-term decay” is a statement about an upper bound, not "
        "about the score of a given query and key."
    ),
    paper="“RoFormer: Enhanced Transformer with Rotary Position Embedding” (2021)",
    see=("nn/positions.py",),
)
