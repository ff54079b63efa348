"""What cannot be done by adding to a token when K = Q = V = I."""

import math

import torch
from torch import Tensor
from torch.linalg import vector_norm

from heedful.report.page import plots
from heedful.report.page.pieces import Figure
from heedful.theory.demonstration import Check, Demonstration, Shown
from heedful.theory.demonstrations.attention_construction import WIDTH, outputs, tokens
from heedful.theory.draws import normal, uniform
from heedful.theory.lookup import attend, orthonormal


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
            Check(
                "With nothing added and β from 3 to 10: c₂ is u_a up to 0.001β.",
                vector_norm(attend(plain, plain, plain)[0][:, 1] - large[:, 0], dim=-1)
                / vector_norm(large[:, 0], dim=-1),
                0.001,
            ),
            Check("Any s and t, any β: x₂ gives most weight to itself.", w[:, [0, 2]].amax(dim=-1) - w[:, 1], 1e-12),
            Check("Its weight is at least 1/(1 + 2e^(−¾β²)), which is more than ⅓.", bound - w[:, 1], 1e-12),
            Check(
                "Any s and t, any β: c₂ is further than (√2/3)β from u_b.",
                math.sqrt(2) / 3 - _distance(u, any_s, any_t),
                1e-12,
            ),
            Check(
                "s ≥ 0 and t ≥ 0 (added, not taken away): further than ⅔β.",
                2 / 3 - _distance(u, more_s, more_t),
                1e-12,
            ),
            Check("Only u_c added, any amount: further than ⅔β.", 2 / 3 - _distance(u, more_s, nothing), 1e-12),
            Check("Only u_d added, any amount: further than ⅔β.", 2 / 3 - _distance(u, nothing, more_t), 1e-12),
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
        Check("⅔β also where about 1 of each is taken away and β is below 0.1.", 2 / 3 - found, 1e-12, "fails"),
        Check("There the distance is (√2/3)β up to 0.02β: the bound cannot be better.", found - math.sqrt(2) / 3, 0.02),
        Check(
            "(√2/3)β also with the K, Q, V that are made for it, β from 3 to 10.",
            math.sqrt(2) / 3 - built,
            0.0,
            "fails",
        ),
    )


def _figure() -> Figure:
    amounts = torch.linspace(-3, 3, 121, dtype=torch.float64)
    rows = []
    for name, beta in (("β = 0.1", 0.1), ("β = 1", 1.0), ("β = 3", 3.0)):
        u = beta * torch.eye(4, WIDTH, dtype=torch.float64).expand(len(amounts), 4, WIDTH)
        for amount, distance in zip(amounts.tolist(), _distance(u, amounts, amounts).tolist(), strict=True):
            rows.append(
                {"s = t, the amount of u_c and of u_d that is added": amount, "distance / β": distance, "β": name}
            )
    rows += [
        {"s = t, the amount of u_c and of u_d that is added": amount, "distance / β": math.sqrt(2) / 3, "β": "√2/3"}
        for amount in (-3.0, 3.0)
    ]
    return Figure(
        "attention-addition-distance",
        "How far c₂ is from u_b when as much of u_c as of u_d is added to x₂. No amount brings it below √2/3.",
        plots.lines(rows, "s = t, the amount of u_c and of u_d that is added", "distance / β", "β"),
    )


DEMONSTRATION = Demonstration(
    name="attention-addition",
    chapter="Attention",
    order=5,
    title="With K = Q = V = I a token looks at itself most",
    claim=(
        "Let u_a, u_b, u_c, u_d be orthogonal and of length β, x₁ = u_d + u_b, x₂ = u_a, x₃ = u_c + u_b and "
        "K = Q = V = I. Then c₂ ≈ u_a, and no amount of u_c and u_d added to x₂ brings c₂ nearer than (√2/3)β to u_b."
    ),
    reason=(
        "Scores are products of the tokens themselves. x₂ = u_a is orthogonal to x₁ and x₃, and x₂ᵀx₂ = β². So x₂ "
        "attends to itself, and for large β c₂ ≈ x₂ = u_a.",
        "Now let x₂ = u_a + s·u_c + t·u_d. To bring x₁ or x₃ in, s or t must be large; but then x₂ is longer, too:",
        "    x₂ᵀx₁ = tβ²,   x₂ᵀx₃ = sβ²,   x₂ᵀx₂ = (1 + s² + t²)β²",
        "1 + s² + t² − t = ¾ + s² + (t − ½)² is at least ¾, and the same holds for s. So x₂ᵀx₂ is above each of the "
        "other scores by ¾β² or more, whatever s and t are. The weight of x₂ itself is at least 1/(1 + 2e^(−¾β²)) > "
        "⅓.",
        "c₂ = w₁(u_d + u_b) + w₂x₂ + w₃(u_c + u_b) has w₂ of u_a, where u_b has 0, and w₁ + w₃ = 1 − w₂ of u_b, "
        "where u_b has 1. These two alone make the distance at least √2·w₂β, which is above (√2/3)β.",
        "If u_c and u_d are only added (s, t ≥ 0), c₂ also has w₃ + s·w₂ of u_c and w₁ + t·w₂ of u_d, which add up "
        "to at least 1 − w₂. Two numbers with the sum 1 − w₂ have squares that add up to at least ½(1 − w₂)², so the "
        "squared distance is at least (2w₂² + ½(1 − w₂)²)β². For w₂ > ⅓ this is above (4/9)β².",
    ),
    ends=(
        "The distance is not large for every s and t: with about −1 of each and a small β it comes down to (√2/3)β, "
        "which the bound says is the end.",
        "It is K = Q that forces a token to look at itself, and V = I that forces it to take u_d along with u_b. "
        "With other K, Q and V it can be done: see “K, Q and V by hand”.",
    ),
    show=show,
    published=(
        "A published answer says that c₂ ≈ u_a and that adding u_c or u_d to x₂ cannot make c₂ ≈ u_b, which is right. "
        "The bound is ours."
    ),
    see=("nn/attention.py",),
)
