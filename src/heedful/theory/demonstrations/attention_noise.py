"""Averaging with keys that are a little uncertain."""

import torch
from torch import Tensor

from heedful.report.page import plots
from heedful.report.page.pieces import Figure
from heedful.theory.demonstration import Check, Demonstration, Shown
from heedful.theory.draws import normal, uniform
from heedful.theory.lookup import attend, orthonormal

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
            Check(
                "w_a/(w_a + w_b) = σ(δ), δ = qᵀ(k_a − k_b) being the difference of the two scores.",
                (w[:, 0] / (w[:, 0] + w[:, 1]) - torch.sigmoid(delta)).abs(),
                1e-9,
            ),
            Check("|w_a − ½| ≤ |δ|/4 + ½(1 − w_a − w_b).", (w[:, 0] - 0.5).abs() - delta.abs() / 4 - rest / 2, 1e-9),
            Check(
                f"The variance of δ is 4αM²: in each draw over {SAMPLES:,} pairs of keys, in standard errors.",
                (squares - 1).abs() / (2 / SAMPLES) ** 0.5,
                6.0,
            ),
            Check(
                "α = 10⁻⁶, M = 10: w_a and w_b are ½ up to 0.03.",
                _off(means, noise, 1e-6, 10.0),
                0.03,
            ),
        ),
        figures=_figures(generator),
        limits=(
            Check("α = 10⁻⁶, M = 1: ½ up to 0.03.", _off(means, noise, 1e-6, 1.0), 0.03, "fails"),
            Check("α = 10⁻⁶, M = 3,000: ½ up to 0.03.", _off(means, noise, 1e-6, 3000.0), 0.03, "fails"),
            Check("α = 0.01, M = 10: ½ up to 0.03.", _off(means, noise, 0.01, 10.0), 0.03, "fails"),
        ),
    )


def _off(means: Tensor, noise: Tensor, alpha: float, m: float) -> Tensor:
    keys = means + alpha**0.5 * noise
    w = attend(m * means[:, :2].sum(dim=1, keepdim=True), keys, keys)[1][:, 0, :2]
    return (w - 0.5).abs().amax(dim=-1)


def _figures(generator: torch.Generator) -> tuple[Figure, ...]:
    means, noise = orthonormal(generator, 400, N, WIDTH), normal(generator, 400, N, WIDTH)
    rows = []
    for name, alpha in (("α = 10⁻⁶", 1e-6), ("α = 10⁻⁴", 1e-4), ("α = 10⁻²", 1e-2)):
        for power in torch.linspace(0, 4, 33, dtype=torch.float64).tolist():
            typical = float((_off(means, noise, alpha, 10**power) ** 2).mean().sqrt())
            rows.append({"M, logarithmic": 10**power, "typical distance from ½, logarithmic": typical, "α": name})
    return (
        Figure(
            "attention-noise-window",
            "How far the weights of v_a and v_b are from ½ (the root mean square over 400 sets of ten keys). With "
            "small M the other values have a share, with large M the noise decides; the less noise, the wider the "
            "window.",
            plots.lines(rows, "M, logarithmic", "typical distance from ½, logarithmic", "α", log_x=True, log_y=True),
        ),
    )


DEMONSTRATION = Demonstration(
    name="attention-noise",
    chapter="Attention",
    order=3,
    title="Averaging bears little noise, and less the larger M is",
    claim=(
        "If keys vary a little, kᵢ ~ N(μᵢ, αI) with orthonormal μᵢ, then q = M(μ_a + μ_b) still averages v_a and v_b, "
        "as long as M is large against ln n and small against 1/(2√α)."
    ),
    reason=(
        "The two scores are no longer equal. Their difference is δ = qᵀ(k_a − k_b). Its mean is "
        "M(μ_a + μ_b)ᵀ(μ_a − μ_b) = M(1 − 1) = 0. The noise of k_a − k_b has the variance 2α in each direction, and "
        "‖μ_a + μ_b‖² = 2, so",
        "    δ ~ N(0, 4αM²)",
        "Between themselves v_a and v_b share as σ(δ) to σ(−δ), since the softmax of two scores is the sigmoid of "
        "their difference. The slope of σ is ¼ at the most, so that moves w_a by at most |δ|/4 from half of what the "
        "two have together. What they lack together, 1 − w_a − w_b, falls with e^(−M) as before.",
        "So there is a window: M must be large, so that the other values get nothing, and M·2√α must be small, so that "
        "the noise decides nothing. As α → 0 the window opens without end.",
    ),
    ends=(
        "With M above 1/(2√α) the softmax picks whichever of the two keys happens to be a little larger: it copies, at "
        "random. More M does not help, it harms.",
    ),
    show=show,
    published="A published answer gives q = M(μ_a + μ_b) for α → 0, M large: right if α is small against 1/M².",
    see=("nn/attention.py",),
)
