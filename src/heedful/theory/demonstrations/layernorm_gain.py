"""How long a vector is after LayerNorm with gain and bias: exactly, and between which bounds."""

import torch
from torch import Tensor
from torch.linalg import vector_norm

from heedful.nn.norms import layer_norm
from heedful.report.page import plots
from heedful.report.page.pieces import Figure
from heedful.theory.demonstration import Check, Shown
from heedful.theory.directions import curvatures, extremes
from heedful.theory.draws import normal
from heedful.theory.page import Page

PAGE = Page.read(__name__)

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
            PAGE.holds("length", (length - square.sqrt()).abs(), 1e-9),
            PAGE.holds("loose-bounds", _outside(stretched, least, most), 1e-9),
            PAGE.holds("tight-bounds", _outside(stretched, low, high), 1e-9),
            PAGE.holds("neighbours", _between_neighbours(curvature, gain), 1e-9),
            PAGE.holds("secular", _secular(curvature, gain), 1e-6),
            PAGE.holds("triangle", _outside(length, (stretched - shift).abs(), stretched + shift), 1e-9),
            PAGE.holds("tight-with-bias", _outside(length, both.shortest, both.longest), 1e-9),
            PAGE.holds(
                "reached", torch.maximum(_off_the_sphere(both.at_shortest), _off_the_sphere(both.at_longest)), 1e-6
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
        PAGE.holds("equal-gains", off(signs, none, equal[:, 0] * root), 1e-9),
        PAGE.fails("equal-gains-with-bias", off(signs, bias, equal[:, 0] * root), 0.01),
        PAGE.fails("root-mean-square", off(gain, none, typical * root), 0.01),
        PAGE.fails("largest", off(gain, none, most * root), 0.01),
        PAGE.fails("eps-lower", bounds[0] - short, 0.0),
        PAGE.holds("eps-upper", short - bounds[1], 0.0),
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
    return (PAGE.figure("lengths", plots.histogram(lengths, "‖LN(x)‖", marks=marks)),)
