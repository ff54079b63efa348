"""Averaging with keys that are a little uncertain."""

import torch
from torch import Tensor

from heedful.report.page.pieces import Figure
from heedful.theory.demonstration import Shown
from heedful.theory.drawing import curves
from heedful.theory.draws import normal, uniform
from heedful.theory.lookup import attend, orthonormal
from heedful.theory.page import Page

PAGE = Page.read(__name__)

N, WIDTH = 10, 16
SAMPLES = 2000


def show(draws: int, generator: torch.Generator) -> Shown:
    means = orthonormal(generator, draws, N, WIDTH)
    noise = normal(generator, draws, N, WIDTH)
    alpha = 10 ** uniform(generator, -6, 0, draws)
    m = uniform(generator, 0, 20, draws)
    q = m[:, None] * means[:, :2].sum(dim=1)
    keys = means + alpha.sqrt()[:, None, None] * noise
    w = attend(q[:, None], keys, keys)[1][:, 0]
    delta = (q * (keys[:, 0] - keys[:, 1])).sum(dim=-1)
    rest = 1 - w[:, 0] - w[:, 1]
    differences = normal(generator, SAMPLES, WIDTH) - normal(generator, SAMPLES, WIDTH)  # (k_a − k_b)/√α but for means
    squares = ((means[:, :2].sum(dim=1) @ differences.T) ** 2).mean(dim=-1) / 4  # of δ/(2M√α)
    return Shown(
        checks=(
            PAGE.holds("logit", (w[:, 0] / (w[:, 0] + w[:, 1]) - torch.sigmoid(delta)).abs(), 1e-9),
            PAGE.holds("bound", (w[:, 0] - 0.5).abs() - delta.abs() / 4 - rest / 2, 1e-9),
            PAGE.holds("variance", (squares - 1).abs() / (2 / SAMPLES) ** 0.5, 6.0, samples=f"{SAMPLES:,}"),
            PAGE.holds("near", _off(means, noise, 1e-6, 10.0), 0.03),
        ),
        figures=_figures(generator),
        limits=(
            PAGE.fails("little-m", _off(means, noise, 1e-6, 1.0), 0.03),
            PAGE.fails("large-m", _off(means, noise, 1e-6, 3000.0), 0.03),
            PAGE.fails("large-noise", _off(means, noise, 0.01, 10.0), 0.03),
        ),
    )


def _off(means: Tensor, noise: Tensor, alpha: float, m: float) -> Tensor:
    keys = means + alpha**0.5 * noise
    w = attend(m * means[:, :2].sum(dim=1, keepdim=True), keys, keys)[1][:, 0, :2]
    return (w - 0.5).abs().amax(dim=-1)


def _figures(generator: torch.Generator) -> tuple[Figure, ...]:
    means, noise = orthonormal(generator, 400, N, WIDTH), normal(generator, 400, N, WIDTH)
    ms = [10**power for power in torch.linspace(0, 4, 33, dtype=torch.float64).tolist()]
    typical = {
        name: [float((_off(means, noise, alpha, m) ** 2).mean().sqrt()) for m in ms]
        for name, alpha in (("α = 10⁻⁶", 1e-6), ("α = 10⁻⁴", 1e-4), ("α = 10⁻²", 1e-2))
    }
    axes = "M, logarithmic", "typical distance from ½, logarithmic", "α"
    return (PAGE.figure("window", curves(ms, typical, *axes, log_x=True, log_y=True)),)
