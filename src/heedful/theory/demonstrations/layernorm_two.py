"""LayerNorm of two entries: one bit is left."""

import torch

from heedful.nn.norms import layer_norm
from heedful.report.page import plots
from heedful.report.page.pieces import Figure
from heedful.theory.demonstration import Check, Demonstration, Shown
from heedful.theory.draws import normal

EPS = 1e-5


def show(draws: int, generator: torch.Generator) -> Shown:
    x = normal(generator, draws, 2)
    gain, bias = normal(generator, draws, 2), normal(generator, draws, 2)
    one, zero = torch.ones(2, dtype=torch.float64), torch.zeros(2, dtype=torch.float64)
    sign = torch.sign(x[:, :1] - x[:, 1:])
    corner = torch.cat([sign, -sign], dim=1)
    half = (x[:, :1] - x[:, 1:]).abs() / 2
    near = x[:, :1] + 1e-3 * x
    three = normal(generator, draws, 3)
    of_three = layer_norm(three, one.new_ones(3), one.new_zeros(3), 0.0)
    plain = layer_norm(x, one, zero, 0.0)
    return Shown(
        checks=(
            Check(
                "ε = 0: LN(x) is (1, −1) if x₁ > x₂ and (−1, 1) if x₁ < x₂.",
                (plain - corner).abs().amax(dim=1),
                1e-9,
            ),
            Check(
                "With γ and β: LN(x) is (γ₁ + β₁, −γ₂ + β₂) or (−γ₁ + β₁, γ₂ + β₂).",
                (layer_norm(x, gain, bias, 0.0) - (gain * corner + bias)).abs().amax(dim=1),
                1e-9,
            ),
            Check(
                "With ε: LN(x) = ±(1, −1)·h/√(h² + ε), where h = |x₁ − x₂|/2.",
                (layer_norm(x, one, zero, EPS) - corner * half / (half**2 + EPS).sqrt()).abs().amax(dim=1),
                1e-9,
            ),
        ),
        figures=(
            Figure(
                "layernorm-two-step",
                "The first entry after LayerNorm against the difference of the two before it. With ε = 0 it is a step; "
                "with ε it is a steep slope, as wide as √ε.",
                plots.lines(_rows(), *_AXES),
            ),
        ),
        limits=(
            Check(
                "±(1, −1) to 1 % where x₁ and x₂ differ by about 0.001 and ε = 10⁻⁵.",
                (layer_norm(near, one, zero, EPS) - corner).abs().amax(dim=1),
                0.01,
                "fails",
            ),
            Check("(0, 0) where x₁ = x₂.", layer_norm(x[:, :1].expand(-1, 2), one, zero, EPS).abs().amax(dim=1), 1e-9),
            Check(
                "Three entries: the largest becomes 1 and the smallest −1.",
                torch.maximum((of_three.amax(dim=1) - 1).abs(), (of_three.amin(dim=1) + 1).abs()),
                0.01,
                "fails",
            ),
        ),
    )


_AXES = ("x₁ − x₂", "first entry of LN(x)", "ε")


def _rows() -> list[dict[str, float | str]]:
    difference = torch.linspace(-0.05, 0.05, 201, dtype=torch.float64)
    x = torch.stack([difference / 2, -difference / 2], dim=-1)[difference != 0]
    one, zero = torch.ones(2, dtype=torch.float64), torch.zeros(2, dtype=torch.float64)
    rows: list[dict[str, float | str]] = []
    for name, eps in (("ε = 0", 0.0), ("ε = 1e-5", 1e-5), ("ε = 1e-4", 1e-4)):
        for point, first in zip(x, layer_norm(x, one, zero, eps)[:, 0].tolist(), strict=True):
            rows.append(dict(zip(_AXES, (float(point[0] - point[1]), first, name), strict=True)))
    return rows


DEMONSTRATION = Demonstration(
    name="layernorm-two",
    chapter="LayerNorm",
    order=2,
    title="Of two entries, LayerNorm keeps which is larger",
    claim=(
        "For d = 2 and x₁ ≠ x₂ LayerNorm gives (1, −1) or (−1, 1), whatever the numbers are; with gain and bias "
        "(±γ₁ + β₁, ∓γ₂ + β₂). All that is left of x is one bit."
    ),
    reason=(
        "The mean of two numbers is halfway between them, so both are equally far from it, h = |x₁ − x₂|/2, on "
        "opposite sides:",
        "    x₁ − μ = ±h,   x₂ − μ = ∓h,   Var = (h² + h²)/2 = h²",
        "Dividing by √Var = h leaves the signs. This is the sphere of radius √2 cut by the line x₁ + x₂ = 0 : two "
        "points. Multiplying by γ and adding β entry by entry moves these two points, and there are still two.",
        "With ε the points come nearer to each other, by the factor h/√(h² + ε).",
    ),
    ends=(
        "If x₁ = x₂ the answer is (0, 0), and with γ and β it is β. If the two differ by no more than about √ε, it is "
        "in between.",
        "With three entries or more a direction is left and not only signs: the largest entry is not 1 any more. For "
        "d = 3 the answers lie on a circle.",
    ),
    show=show,
    published="A published answer gives (±γ₁ + β₁, ∓γ₂ + β₂), which is right.",
    see=("nn/norms.py",),
)
