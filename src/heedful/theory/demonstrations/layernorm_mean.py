"""How long vectors are on the average after LayerNorm with gain and bias."""

import torch
from torch import Tensor
from torch.linalg import vector_norm

from heedful.nn.norms import layer_norm
from heedful.report.page import plots
from heedful.report.page.pieces import Figure
from heedful.theory.demonstration import Check, Demonstration, Shown
from heedful.theory.directions import basis
from heedful.theory.draws import normal, orthogonal

D = 8


def show(draws: int, generator: torch.Generator) -> Shown:
    gain, bias = normal(generator, draws, D), normal(generator, draws, D)
    wanted = (gain**2).sum(dim=-1) + (bias**2).sum(dim=-1)
    corners = _corners(generator, draws)
    hat = layer_norm(corners, torch.ones(D, dtype=torch.float64), torch.zeros(D, dtype=torch.float64), 0.0)
    y = layer_norm(corners, gain[:, None], bias[:, None], 0.0)
    moments = hat.mT @ hat / hat.shape[1]
    plane = (torch.eye(D, dtype=torch.float64) - 1 / D) * D / (D - 1)
    outlier = 0.1 * normal(generator, draws, 400, D)
    outlier[..., 0] += 1
    typical = layer_norm(outlier, gain[:, None], bias[:, None], 0.0)
    return Shown(
        checks=(
            Check(
                "The vectors averaged over are what LayerNorm leaves: Σx̂ᵢ = 0 and ‖x̂‖ = √d.",
                torch.maximum(hat.sum(-1).abs(), (vector_norm(hat, dim=-1) - D**0.5).abs()).amax(dim=-1),
                1e-9,
            ),
            Check("The mean of x̂ᵢ² is 1 and that of x̂ᵢ is 0.", _moments_off(hat), 1e-9),
            Check(
                "The mean of x̂ᵢx̂ⱼ for i ≠ j is −1/(d − 1).",
                (moments - plane).abs().amax(dim=(-2, -1)),
                1e-9,
            ),
            Check("The mean of ‖γ∘x̂ + β‖² is ‖γ‖² + ‖β‖².", ((y**2).sum(-1).mean(-1) - wanted).abs(), 1e-9),
        ),
        figures=_figures(generator),
        limits=(
            Check(
                "Over the same vectors the mean of ‖γ∘x̂ + β‖ itself is √(‖γ‖² + ‖β‖²) to 0.1 %.",
                (vector_norm(y, dim=-1).mean(-1) / wanted.sqrt() - 1).abs(),
                0.001,
                "fails",
            ),
            Check("It is never above it.", vector_norm(y, dim=-1).mean(-1) - wanted.sqrt(), 1e-9),
            Check(
                "‖γ‖² + ‖β‖² to 10 % where one entry of x is 1 and the others are noise of deviation 0.1.",
                ((typical**2).sum(-1).mean(-1) / wanted - 1).abs(),
                0.1,
                "fails",
            ),
        ),
    )


def _corners(generator: torch.Generator, draws: int) -> Tensor:
    """(draws, 2(d − 1), d): both ends of d − 1 axes that are orthogonal to each other and to 𝟏, turned at random."""
    axes = orthogonal(generator, draws, D - 1) @ basis(D).T
    return torch.cat([axes, -axes], dim=1)


def _moments_off(hat: Tensor) -> Tensor:
    return torch.maximum(((hat**2).mean(dim=1) - 1).abs().amax(dim=-1), hat.mean(dim=1).abs().amax(dim=-1))


def _figures(generator: torch.Generator) -> tuple[Figure, ...]:
    gain = torch.tensor([2.0, 1.5, 1.2, 1.0, 0.8, 0.6, 0.4, 0.2], dtype=torch.float64)
    bias = torch.tensor([0.5, -0.5, 1.0, 0.0, 0.3, -1.0, 0.2, 0.4], dtype=torch.float64)
    squares = (layer_norm(normal(generator, 4000, D), gain, bias, 0.0) ** 2).sum(dim=-1)
    mean = float((gain**2).sum() + (bias**2).sum())
    return (
        Figure(
            "layernorm-mean-squares",
            f"‖LN(x)‖² of 4,000 normal vectors with one fixed gain and bias. ‖γ‖² + ‖β‖² is {mean:.2f}; the mean of "
            f"these is {float(squares.mean()):.2f}.",
            plots.histogram({"draws": squares.tolist()}, "‖LN(x)‖²", marks={"‖γ‖² + ‖β‖²": mean}),
        ),
    )


DEMONSTRATION = Demonstration(
    name="layernorm-mean",
    chapter="LayerNorm",
    order=4,
    title="The squared length is ‖γ‖² + ‖β‖² on the average",
    claim=(
        "If all directions of x̂ are equally likely, the mean of the squared length after LayerNorm is exactly "
        "‖γ‖² + ‖β‖²."
    ),
    reason=(
        "Take the mean of each term of ‖y‖² = Σγᵢ²x̂ᵢ² + 2Σγᵢβᵢx̂ᵢ + ‖β‖² over all directions. x̂ and −x̂ are equally "
        "likely, so the mean of x̂ᵢ is 0 and the middle term is gone.",
        "No entry is different from any other, so all x̂ᵢ² have the same mean. They add up to ‖x̂‖² = d, hence this "
        "mean is 1:",
        "    mean of ‖y‖² = Σγᵢ²·1 + 0 + ‖β‖² = ‖γ‖² + ‖β‖²",
        "That the x̂ lie in the plane Σx̂ᵢ = 0 changes nothing in this. It does change the mean of products: x̂ᵢx̂ⱼ "
        "has the mean −1/(d − 1), not 0, because (Σx̂ᵢ)² = 0. But ‖y‖² contains no such product.",
        "This can be checked without an error of sampling. The mean of a quadratic function over a sphere is equal "
        "to its mean over the 2(d − 1) ends of any set of orthogonal axes. Each draw turns the axes at random and "
        "draws γ and β anew. Normal x, with entries that are independent and of one variance, have directions that "
        "are equally likely; the figure shows them.",
    ),
    ends=(
        "The mean of the length is less than the root of the mean of its square, unless all lengths are equal.",
        "Real activations do not point in all directions alike. If one entry is always far larger than the others, "
        "as in trained transformers, x̂ hardly moves: nearly x̂₁² = d − 1 for that entry and 1/(d − 1) for the "
        "others, and so do their γᵢ² count.",
    ),
    show=show,
    see=("nn/norms.py",),
)
