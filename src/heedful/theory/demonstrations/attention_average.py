"""Attention as averaging: two keys with equal scores."""

import torch
from torch import Tensor
from torch.linalg import vector_norm

from heedful.report.page import plots
from heedful.report.page.pieces import Block, Figure
from heedful.theory.demonstration import Check, Demonstration, Shown
from heedful.theory.draws import normal, uniform
from heedful.theory.lookup import attend, margin, needed_table, orthonormal

N, WIDTH = 10, 16


def show(draws: int, generator: torch.Generator) -> Shown:
    keys, values = orthonormal(generator, draws, N, WIDTH), normal(generator, draws, N, WIDTH)
    m = uniform(generator, 0, 20, draws)
    c, weights = attend(m[:, None, None] * _sum(keys), keys, values)
    w = 1 / (2 + (N - 2) * torch.exp(-m))
    half, rest = values[:, :2].mean(dim=1), values[:, 2:].mean(dim=1)
    eps = 10 ** uniform(generator, -6, -1, draws)
    needed = margin(N - 2, 2 * eps, wanted=2)
    return Shown(
        checks=(
            Check(
                "q = M(k_a + k_b), orthonormal keys: v_a and v_b have the weight 1/(2 + (n − 2)e^(−M)) each.",
                (weights[:, 0, :2] - w[:, None]).abs().amax(dim=-1),
                1e-12,
            ),
            Check(
                "The output misses ½(v_a + v_b) by (1 − 2w)·(the mean of the other values − ½(v_a + v_b)).",
                vector_norm(c[:, 0] - half - (1 - 2 * w)[:, None] * (rest - half), dim=-1),
                1e-12,
            ),
            Check(
                "M = ln((n − 2)(1 − 2ε)/(4ε)) gives the weight ½ − ε each, for ε from 10⁻⁶ to 0.1.",
                (_weight(keys, needed) - (0.5 - eps)).abs(),
                1e-12,
            ),
            Check("1 % more M is enough.", (0.5 - eps) - _weight(keys, 1.01 * needed), 0.0),
        ),
        figures=_figures(),
        limits=_limits(draws, generator, keys, eps, needed),
    )


def _sum(keys: Tensor) -> Tensor:
    """k_a + k_b, the first two."""
    return keys[:, :2].sum(dim=1, keepdim=True)


def _weight(keys: Tensor, m: Tensor) -> Tensor:
    return attend(m[:, None, None] * _sum(keys), keys, keys)[1][:, 0, 0]


def _limits(draws: int, generator: torch.Generator, keys: Tensor, eps: Tensor, needed: Tensor) -> tuple[Check, ...]:
    large = torch.full_like(eps, 50)
    longer = keys * uniform(generator, 0.5, 2, draws, N, 1)
    askew = normal(generator, draws, N, WIDTH)
    dual = torch.linalg.pinv(askew)[..., :2].sum(dim=-1)  # its product with k_a and k_b is 1, with the others 0
    wanted = torch.softmax(normal(generator, draws, N), dim=-1)
    mixed = (torch.linalg.pinv(askew) @ wanted.log()[:, :, None]).mT
    return (
        Check("1 % less M would do.", (0.5 - eps) - _weight(keys, 0.99 * needed), 0.0, "fails"),
        Check("For large M each of the two weights is near 1.", (_weight(keys, large) - 1).abs(), 0.1, "fails"),
        Check(
            "q = M(k_a + k_b) averages where the keys are orthogonal but not equally long (M = 50).",
            (_weight(longer, large) - 0.5).abs(),
            0.01,
            "fails",
        ),
        Check(
            "The same for random keys, which are not orthogonal.",
            (_weight(askew, large) - 0.5).abs(),
            0.01,
            "fails",
        ),
        Check(
            "For any independent keys: q with k_aᵀq = k_bᵀq = M and 0 with the others gives ½ each (M = 50).",
            (attend(50 * dual[:, None], askew, askew)[1][:, 0, :2] - 0.5).abs().amax(dim=-1),
            1e-9,
        ),
        Check(
            "For any independent keys and any positive weights: q with kᵢᵀq = ln wᵢ has exactly these.",
            (attend(mixed, askew, askew)[1][:, 0] - wanted).abs().amax(dim=-1),
            1e-9,
        ),
    )


def _figures() -> tuple[Block, ...]:
    rows: list[dict[str, float | str]] = []
    for m in torch.linspace(0, 12, 61, dtype=torch.float64):
        w = float(1 / (2 + (N - 2) * torch.exp(-m)))
        rows += [
            {"M": float(m), "weight": w, "of": "v_a, and v_b as well"},
            {"M": float(m), "weight": 1 - 2 * w, "of": "the other eight together"},
        ]
    caption = "The M that is needed for the weight ½ − ε each among n orthonormal keys."
    table = needed_table(caption, (10, 100, 1000, 10_000), lambda n, eps: margin(n - 2, 2 * eps, wanted=2))
    return (
        Figure(
            "attention-average-weights",
            "Ten orthonormal keys, q = M(k_a + k_b). The weights of v_a and v_b go to ½ each, not to 1.",
            plots.lines(rows, "M", "weight", "of"),
        ),
        table,
    )


DEMONSTRATION = Demonstration(
    name="attention-average",
    chapter="Attention",
    order=2,
    title="Attention averages two values, ½ each",
    claim=(
        "With the query q = M(k_a + k_b) and n orthonormal keys attention returns ½(v_a + v_b); each of the two "
        "weights is ½ − ε or more exactly when M ≥ ln((n − 2)(1 − 2ε)/(4ε))."
    ),
    reason=(
        "Both k_aᵀq and k_bᵀq are M, because k_aᵀk_b = 0 and both keys have length 1; all other scores are 0. So the "
        "softmax gives both the same weight:",
        "    w = e^M / (2e^M + n − 2) = 1 / (2 + (n − 2)e^(−M))",
        "As M grows this goes to ½ from below. The n − 2 others share 1 − 2w equally, so the output is "
        "½(v_a + v_b) + (1 − 2w)(v̄ − ½(v_a + v_b)), v̄ being the mean of the other values.",
        "Set w = ½ − ε and solve for M:",
        "    M = ln((n − 2)(1 − 2ε)/(4ε))",
    ),
    ends=(
        "It needs scores that are equal, not only large. With keys of different lengths, or not orthogonal, the two "
        "scores M·k_aᵀ(k_a + k_b) and M·k_bᵀ(k_a + k_b) differ, and large M makes the larger one win: it copies.",
        "What it needs is a q whose products with k_a and k_b are equal and the others lower. For linearly independent "
        "keys there always is one, and more: kᵢᵀq = ln wᵢ can be solved for any positive weights that add up to 1.",
    ),
    show=show,
    published=(
        "A published answer gives this q, which is right, and says that both weights are then about 1. That is a slip: "
        "weights add up to 1, so they are about ½."
    ),
    see=("nn/attention.py",),
)
