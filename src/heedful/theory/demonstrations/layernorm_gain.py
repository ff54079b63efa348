"""How long a vector is after LayerNorm with gain and bias: exactly, and between which bounds."""

import torch
from torch import Tensor
from torch.linalg import vector_norm

from heedful.nn.norms import layer_norm
from heedful.report.page import plots
from heedful.report.page.pieces import Figure
from heedful.theory.demonstration import Check, Demonstration, Shown
from heedful.theory.directions import curvatures, extremes
from heedful.theory.draws import normal

D = 8


def show(draws: int, generator: torch.Generator) -> Shown:
    root = D**0.5
    x, gain, bias = (normal(generator, draws, D) for _ in range(3))
    hat = layer_norm(x, x.new_ones(D), x.new_zeros(D), 0.0)
    length = vector_norm(layer_norm(x, gain, bias, 0.0), dim=-1)
    stretched, shift = vector_norm(gain * hat, dim=-1), vector_norm(bias, dim=-1)
    square = (gain**2 * hat**2).sum(-1) + 2 * (gain * bias * hat).sum(-1) + (bias**2).sum(-1)
    curvature = curvatures(gain)
    least, most = gain.abs().amin(dim=-1) * root, gain.abs().amax(dim=-1) * root
    low, high = (D * curvature[:, 0]).sqrt(), (D * curvature[:, -1]).sqrt()
    both = extremes(gain, bias)
    return Shown(
        checks=(
            Check("‖LN(x)‖ = √(Σγᵢ²x̂ᵢ² + 2Σγᵢβᵢx̂ᵢ + ‖β‖²), ε = 0.", (length - square.sqrt()).abs(), 1e-9),
            Check("β = 0: √d·min|γᵢ| ≤ ‖γ∘x̂‖ ≤ √d·max|γᵢ|.", _outside(stretched, least, most), 1e-9),
            Check("β = 0: √(d·λ₁) ≤ ‖γ∘x̂‖ ≤ √(d·λ_{d−1}).", _outside(stretched, low, high), 1e-9),
            Check(
                "The λⱼ lie between neighbours among the sorted γᵢ², so these bounds are never wider.",
                _between_neighbours(curvature, gain),
                1e-9,
            ),
            Check("Each λⱼ solves Σ 1/(γᵢ² − λ) = 0, relative to Σ 1/|γᵢ² − λ|.", _secular(curvature, gain), 1e-6),
            Check(
                "Any β: |‖γ∘x̂‖ − ‖β‖| ≤ ‖LN(x)‖ ≤ ‖γ∘x̂‖ + ‖β‖.",
                _outside(length, (stretched - shift).abs(), stretched + shift),
                1e-9,
            ),
            Check("Any β: the tight bounds.", _outside(length, both.shortest, both.longest), 1e-9),
            Check(
                "They are reached: at the x̂ that they belong to, Σx̂ᵢ = 0 and ‖x̂‖ = √d.",
                torch.maximum(_off_the_sphere(both.at_shortest), _off_the_sphere(both.at_longest)),
                1e-6,
            ),
        ),
        figures=_figures(generator),
        limits=_limits(x, gain, bias),
    )


def _outside(value: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """By how much it is not between the two."""
    return torch.maximum(low - value, value - high)


def _between_neighbours(curvature: Tensor, gain: Tensor) -> Tensor:
    squares = (gain**2).sort(dim=-1).values
    return _outside(curvature, squares[:, :-1], squares[:, 1:]).amax(dim=-1)


def _secular(curvature: Tensor, gain: Tensor) -> Tensor:
    terms = 1 / ((gain**2)[:, None, :] - curvature[:, :, None])
    return (terms.sum(dim=-1).abs() / terms.abs().sum(dim=-1)).amax(dim=-1)


def _off_the_sphere(x: Tensor) -> Tensor:
    return torch.maximum(x.sum(dim=-1).abs(), (vector_norm(x, dim=-1) - D**0.5).abs())


def _limits(x: Tensor, gain: Tensor, bias: Tensor) -> tuple[Check, ...]:
    root, none = D**0.5, torch.zeros_like(bias)
    equal = gain.abs().mean(dim=-1, keepdim=True)
    signs = torch.sign(gain) * equal
    typical = (gain**2).mean(dim=-1).sqrt()
    most = gain.abs().amax(dim=-1)

    def off(gain: Tensor, bias: Tensor, wanted: Tensor) -> Tensor:
        return torch.abs(vector_norm(layer_norm(x, gain, bias, 0.0), dim=-1) / wanted - 1)

    short = vector_norm(layer_norm(1e-4 * x, gain, none, 1e-5), dim=-1)
    bounds = [(D * λ).sqrt() for λ in (curvatures(gain)[:, 0], curvatures(gain)[:, -1])]
    return (
        Check("g√d, if all |γᵢ| = g (their signs may differ) and β = 0.", off(signs, none, equal[:, 0] * root), 1e-9),
        Check("g√d to 1 %, if all |γᵢ| = g and β is not 0.", off(signs, bias, equal[:, 0] * root), 0.01, "fails"),
        Check("√d times the root mean square of γ to 1 %, β = 0.", off(gain, none, typical * root), 0.01, "fails"),
        Check("√d·max|γᵢ| to 1 %, β = 0.", off(gain, none, most * root), 0.01, "fails"),
        Check("Entries of about 0.0001, ε = 10⁻⁵, β = 0: never below √(d·λ₁).", bounds[0] - short, 0.0, "fails"),
        Check("The same: never above √(d·λ_{d−1}).", short - bounds[1], 0.0),
    )


def _figures(generator: torch.Generator) -> tuple[Figure, ...]:
    gain = torch.tensor([[2.0, 1.5, 1.2, 1.0, 0.8, 0.6, 0.4, 0.2]], dtype=torch.float64)
    bias = torch.tensor([[0.5, -0.5, 1.0, 0.0, 0.3, -1.0, 0.2, 0.4]], dtype=torch.float64)
    x = normal(generator, 4000, D)
    lengths = {
        "β = 0": vector_norm(layer_norm(x, gain[0], torch.zeros_like(bias[0]), 0.0), dim=-1).tolist(),
        "with β": vector_norm(layer_norm(x, gain[0], bias[0], 0.0), dim=-1).tolist(),
    }
    found = extremes(gain, bias)
    marks = {
        "shortest": float(found.shortest),
        "√d·rms(γ)": float((gain**2).mean().sqrt()) * D**0.5,
        "longest": float(found.longest),
    }
    return (
        Figure(
            "layernorm-gain-lengths",
            "4,000 random vectors of 8 entries after LayerNorm with one fixed gain (from 2 down to 0.2). Their lengths "
            "are spread, with bias and without; the dashed lines are the tight bounds with the bias, and √d times the "
            "root mean square of γ.",
            plots.histogram(lengths, "‖LN(x)‖", marks=marks),
        ),
    )


DEMONSTRATION = Demonstration(
    name="layernorm-gain",
    chapter="LayerNorm",
    order=3,
    title="With gain and bias the length depends on the direction",
    claim=(
        "With gain γ and bias β the length after LayerNorm is √(Σγᵢ²x̂ᵢ² + 2Σγᵢβᵢx̂ᵢ + ‖β‖²), x̂ being the vector "
        "before both. It is “γ√d” only if all |γᵢ| are equal and β = 0; else it varies with x between bounds that are "
        "known exactly."
    ),
    reason=(
        "LayerNorm ends with yᵢ = γᵢx̂ᵢ + βᵢ. Squared and added up:",
        "    ‖y‖² = Σ(γᵢx̂ᵢ + βᵢ)² = Σγᵢ²x̂ᵢ² + 2Σγᵢβᵢx̂ᵢ + Σβᵢ²",
        "Nothing is left to simplify unless γ and β are special. If all |γᵢ| are g and β = 0, the first sum is "
        "g²‖x̂‖² = g²d, and the length is g√d.",
        "Bounds for β = 0. Σγᵢ²x̂ᵢ² is an average of the γᵢ² with the weights x̂ᵢ²/d (which add up to 1), times d. "
        "So it lies between d·min γᵢ² and d·max γᵢ². But all weight can only be on one entry if x̂ has a single "
        "entry that is not 0, and then Σx̂ᵢ = 0 is impossible. Among the vectors with Σx̂ᵢ = 0 the extremes are d·λ₁ "
        "and d·λ_{d−1}, the smallest and the largest solution λ of",
        "    Σ 1/(γᵢ² − λ) = 0",
        "There are d − 1 solutions, one between any two neighbours among the sorted γᵢ² (where two of these are equal, "
        "λ is equal to them). They are the eigenvalues of diag(γ²) on the vectors orthogonal to 𝟏: at an extreme the "
        "gradient of Σγᵢ²x̂ᵢ² is a mixture of the gradients of the two conditions, γᵢ²x̂ᵢ = λx̂ᵢ + c, hence "
        "x̂ᵢ = c/(γᵢ² − λ), and these must add up to 0.",
        "Bounds for any β. The triangle inequality gives |‖γ∘x̂‖ − ‖β‖| ≤ ‖y‖ ≤ ‖γ∘x̂‖ + ‖β‖. The tight bounds come "
        "from the same condition with β in it: in the axes of those eigenvectors, x̂ has the entries "
        "zⱼ = bⱼ/(m − λⱼ), b being γ∘β in these axes, and m solves Σ bⱼ²/(m − λⱼ)² = d. The solution above all λ gives "
        "the longest y, the one below all λ the shortest. (Where there is none, as for β = 0, m is the extreme λ "
        "itself, and what z lacks in length lies along its axis.)",
    ),
    ends=(
        "“γ√d” is right for equal |γᵢ| and β = 0, and wrong otherwise. Neither the root mean square nor the largest "
        "of the γᵢ in the place of γ repairs it: no single number is the length of all vectors.",
        "The bounds are for ε = 0. With ε, x̂ is shorter than √d: the upper bounds stay true, the lower ones do not.",
    ),
    show=show,
    published=(
        "A published answer gives γ√d and leaves β ≠ 0 open. The first is right if all |γᵢ| are equal and β = 0; the "
        "formula above is the answer for all γ and β."
    ),
    see=("nn/norms.py",),
)
