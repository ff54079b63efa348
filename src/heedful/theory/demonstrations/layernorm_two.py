"""LayerNorm of two entries: one bit is left."""

import torch

from heedful.nn.norms import layer_norm
from heedful.report.page.pieces import Figure
from heedful.theory.demonstration import Shown
from heedful.theory.drawing import curves
from heedful.theory.draws import normal
from heedful.theory.page import Page

PAGE = Page.read(__name__)

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
            PAGE.holds("step", (plain - corner).abs().amax(dim=1), 1e-9),
            PAGE.holds("gain", (layer_norm(x, gain, bias, 0.0) - (gain * corner + bias)).abs().amax(dim=1), 1e-9),
            PAGE.holds(
                "eps", (layer_norm(x, one, zero, EPS) - corner * half / (half**2 + EPS).sqrt()).abs().amax(dim=1), 1e-9
            ),
        ),
        figures=(_figure(),),
        limits=(
            PAGE.fails("near", (layer_norm(near, one, zero, EPS) - corner).abs().amax(dim=1), 0.01),
            PAGE.holds("equal", layer_norm(x[:, :1].expand(-1, 2), one, zero, EPS).abs().amax(dim=1), 1e-9),
            PAGE.fails(
                "three", torch.maximum((of_three.amax(dim=1) - 1).abs(), (of_three.amin(dim=1) + 1).abs()), 0.01
            ),
        ),
    )


def _figure() -> Figure:
    difference = torch.linspace(-0.05, 0.05, 201, dtype=torch.float64)
    x = torch.stack([difference / 2, -difference / 2], dim=-1)[difference != 0]
    one, zero = torch.ones(2, dtype=torch.float64), torch.zeros(2, dtype=torch.float64)
    series = {
        name: layer_norm(x, one, zero, eps)[:, 0]
        for name, eps in (("ε = 0", 0.0), ("ε = 1e-5", 1e-5), ("ε = 1e-4", 1e-4))
    }
    return PAGE.figure("step", curves(x[:, 0] - x[:, 1], series, "x₁ − x₂", "first entry of LN(x)", "ε"))
