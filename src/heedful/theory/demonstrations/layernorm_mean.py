"""How long vectors are on the average after LayerNorm with gain and bias."""

import torch
from torch import Tensor
from torch.linalg import vector_norm

from heedful.nn.norms import layer_norm
from heedful.report.page import plots
from heedful.report.page.pieces import Figure
from heedful.theory.demonstration import Shown
from heedful.theory.directions import basis
from heedful.theory.draws import normal, orthogonal
from heedful.theory.page import Page

PAGE = Page.read(__name__)

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
            PAGE.holds(
                "sphere", torch.maximum(hat.sum(-1).abs(), (vector_norm(hat, dim=-1) - D**0.5).abs()).amax(dim=-1), 1e-9
            ),
            PAGE.holds("moments", _moments_off(hat), 1e-9),
            PAGE.holds("products", (moments - plane).abs().amax(dim=(-2, -1)), 1e-9),
            PAGE.holds("squared-length", ((y**2).sum(-1).mean(-1) - wanted).abs(), 1e-9),
        ),
        figures=_figures(generator),
        limits=(
            PAGE.fails("mean-length", (vector_norm(y, dim=-1).mean(-1) / wanted.sqrt() - 1).abs(), 0.001),
            PAGE.holds("never-above", vector_norm(y, dim=-1).mean(-1) - wanted.sqrt(), 1e-9),
            PAGE.fails("outlier", ((typical**2).sum(-1).mean(-1) / wanted - 1).abs(), 0.1),
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
        PAGE.figure(
            "squares",
            plots.histogram({"draws": squares.tolist()}, "‖LN(x)‖²", marks={"‖γ‖² + ‖β‖²": mean}),
            mean=f"{mean:.2f}",
            sample=f"{float(squares.mean()):.2f}",
        ),
    )
