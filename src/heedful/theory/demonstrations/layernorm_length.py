"""How long a vector is after LayerNorm without gain and bias."""

import torch
from torch import Tensor

from heedful.nn.norms import layer_norm
from heedful.report.page import plots
from heedful.report.page.pieces import Figure
from heedful.theory.demonstration import Check, Demonstration, Shown

D = 16


def normalised(x: Tensor, eps: float) -> Tensor:
    """x̂: LayerNorm with γ = 1 and β = 0."""
    d = x.shape[-1]
    return layer_norm(x, x.new_ones(d), x.new_zeros(d), eps)


def show(draws: int, generator: torch.Generator) -> Shown:
    x = torch.randn(draws, D, generator=generator, dtype=torch.float64)
    x = x * 10 ** (4 * torch.rand(draws, 1, generator=generator, dtype=torch.float64) - 3)  # from 0.001 to 10
    variance = x.var(dim=-1, correction=0)
    root = D**0.5

    def off(eps: float) -> Tensor:
        return torch.abs(normalised(x, eps).norm(dim=-1) - (D * variance / (variance + eps)).sqrt())

    unbiased = x.var(dim=-1, correction=1, keepdim=True)
    sample = (x - x.mean(dim=-1, keepdim=True)) / unbiased.sqrt()
    small = x / variance.sqrt()[:, None] * 1e-3
    constant = x[:, :1].expand(-1, D)
    return Shown(
        checks=(
            Check("ε = 0: ‖x̂‖ = √d.", (normalised(x, 0.0).norm(dim=-1) - root).abs(), 1e-9),
            Check("ε = 10⁻⁵: ‖x̂‖ = √(d·Var/(Var + ε)).", off(1e-5), 1e-9),
            Check("ε = 10⁻¹²: the same formula.", off(1e-12), 1e-9),
            Check("ε = 10⁻⁵: ‖x̂‖ is below √d, always.", normalised(x, 1e-5).norm(dim=-1) - root, 0.0),
        ),
        figures=(Figure("layernorm-length", _caption(), plots.lines(_rows(), *_AXES, log_x=True)),),
        limits=(
            Check(
                "√d to 1 % although the deviation of x is 0.001 and ε = 10⁻⁵.",
                (normalised(small, 1e-5).norm(dim=-1) / root - 1).abs(),
                0.01,
                "fails",
            ),
            Check(
                "√d to 1 % for a vector of equal entries, whose variance is 0.",
                (normalised(constant, 1e-5).norm(dim=-1) / root - 1).abs(),
                0.01,
                "fails",
            ),
            Check(
                "√d with the variance of a sample, Σ(xᵢ − μ)²/(d − 1).",
                (sample.norm(dim=-1) - root).abs(),
                1e-9,
                "fails",
            ),
            Check("√(d − 1) with the variance of a sample.", (sample.norm(dim=-1) - (D - 1) ** 0.5).abs(), 1e-9),
        ),
    )


_AXES = ("standard deviation of x, logarithmic", "‖x̂‖ / √d", "ε")


def _rows() -> list[dict[str, float | str]]:
    shape = torch.linspace(-1, 1, D, dtype=torch.float64)
    shape = shape / shape.var(correction=0).sqrt()
    rows: list[dict[str, float | str]] = []
    for name, eps in (("ε = 1e-12 (BERT)", 1e-12), ("ε = 1e-5 (GPT-2)", 1e-5)):
        for power in torch.linspace(-8, 1, 91, dtype=torch.float64).tolist():
            length = float(normalised(10**power * shape, eps).norm()) / D**0.5
            rows.append(dict(zip(_AXES, (10**power, length, name), strict=True)))
    return rows


def _caption() -> str:
    return (
        "LayerNorm makes every vector equally long, unless its entries differ by no more than √ε: at a standard "
        "deviation of exactly √ε the length is √d/√2."
    )


DEMONSTRATION = Demonstration(
    name="layernorm-length",
    chapter="LayerNorm",
    order=1,
    title="Every vector gets the length √d",
    claim=(
        "Without gain and bias (γ = 𝟏, β = 0) LayerNorm gives every vector of d entries that are not all equal the "
        "same length, √d, when ε is 0; with ε it is exactly √(d·Var/(Var + ε))."
    ),
    reason=(
        "LayerNorm subtracts from each entry the mean μ of the vector and divides by the root of its variance, "
        "Var = Σ(xᵢ − μ)²/d, to which a small ε is added so that nobody divides by zero:",
        "    x̂ᵢ = (xᵢ − μ) / √(Var + ε)",
        "Square and add up. The numerators give Σ(xᵢ − μ)², which is d·Var by the definition of the variance:",
        "    ‖x̂‖² = Σ(xᵢ − μ)² / (Var + ε) = d·Var / (Var + ε)",
        "With ε = 0 the variance cancels and d is left. So LayerNorm puts all vectors on one sphere of radius √d; "
        "as their entries also add up to 0, on the part of it that is orthogonal to 𝟏. What survives is the direction "
        "of x − μ𝟏.",
    ),
    ends=(
        "ε counts once Var is not far larger than it. A vector whose entries are nearly equal stays short, and one of "
        "equal entries becomes 0: there is no direction to keep.",
        "The variance is the biased one, divided by d. With the variance of a sample, divided by d − 1, the length is "
        "√(d − 1).",
    ),
    show=show,
    published=("A published answer gives √d for ε → 0, which is right. The exact length with ε is the line above."),
    paper="“Layer Normalization” (2016)",
    see=("nn/norms.py",),
)
