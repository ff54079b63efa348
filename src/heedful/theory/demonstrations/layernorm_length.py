"""How long a vector is after LayerNorm without gain and bias."""

import torch
from torch import Tensor

from heedful.nn.norms import layer_norm
from heedful.report.page.pieces import Figure
from heedful.theory.demonstration import Shown
from heedful.theory.drawing import curves
from heedful.theory.page import Page

PAGE = Page.read(__name__)

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
            PAGE.holds("no-eps", (normalised(x, 0.0).norm(dim=-1) - root).abs(), 1e-9),
            PAGE.holds("eps", off(1e-5), 1e-9),
            PAGE.holds("small-eps", off(1e-12), 1e-9),
            PAGE.holds("below", normalised(x, 1e-5).norm(dim=-1) - root, 0.0),
        ),
        figures=(_figure(),),
        limits=(
            PAGE.fails("small-deviation", (normalised(small, 1e-5).norm(dim=-1) / root - 1).abs(), 0.01),
            PAGE.fails("equal-entries", (normalised(constant, 1e-5).norm(dim=-1) / root - 1).abs(), 0.01),
            PAGE.fails("sample-variance", (sample.norm(dim=-1) - root).abs(), 1e-9),
            PAGE.holds("sample-length", (sample.norm(dim=-1) - (D - 1) ** 0.5).abs(), 1e-9),
        ),
    )


def _figure() -> Figure:
    shape = torch.linspace(-1, 1, D, dtype=torch.float64)
    shape = shape / shape.var(correction=0).sqrt()
    deviations = 10 ** torch.linspace(-8, 1, 91, dtype=torch.float64)
    series = {
        name: normalised(deviations[:, None] * shape, eps).norm(dim=-1) / D**0.5
        for name, eps in (("ε = 1e-12 (BERT)", 1e-12), ("ε = 1e-5 (GPT-2)", 1e-5))
    }
    axes = "standard deviation of x, logarithmic", "‖x̂‖ / √d", "ε"
    return PAGE.figure("deviation", curves(deviations, series, *axes, log_x=True))
