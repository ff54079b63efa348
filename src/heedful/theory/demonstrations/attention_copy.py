"""Attention as copying: one key dominates."""

import torch
from torch.linalg import vector_norm

from heedful.nn.attention import dot_product
from heedful.report.page import plots
from heedful.report.page.pieces import Block, Figure
from heedful.theory.demonstration import Check, Demonstration, Shown
from heedful.theory.draws import normal, uniform
from heedful.theory.lookup import attend, margin, needed_table, orthonormal

N, WIDTH = 10, 16


def show(draws: int, generator: torch.Generator) -> Shown:
    keys, values = orthonormal(generator, draws, N, WIDTH), normal(generator, draws, N, WIDTH)
    m = uniform(generator, 0, 20, draws)
    c, weights = attend(m[:, None, None] * keys[:, :1], keys, values)
    c, w = c[:, 0], weights[:, 0, 0]
    rest = values[:, 1:].mean(dim=1)
    eps = 10 ** uniform(generator, -6, -1, draws)
    needed = margin(N - 1, eps)
    k, q = normal(generator, draws, N, WIDTH), normal(generator, draws, WIDTH)
    scores = (k @ q[:, :, None])[..., 0]
    first, second = scores.topk(2, dim=-1).values.T
    largest = attend(q[:, None], k, values)[1][:, 0].amax(dim=-1)
    return Shown(
        checks=(
            Check(
                "q = M·k_j, orthonormal keys: the weight of v_j is 1/(1 + (n − 1)e^(−M)).",
                (w - 1 / (1 + (N - 1) * torch.exp(-m))).abs(),
                1e-12,
            ),
            Check(
                "The output misses v_j by (1 − w)·(the mean of the other values − v_j).",
                vector_norm(c - values[:, 0] - (1 - w)[:, None] * (rest - values[:, 0]), dim=-1),
                1e-12,
            ),
            Check(
                "M = ln((n − 1)(1 − ε)/ε) gives the weight 1 − ε, for ε from 10⁻⁶ to 0.1.",
                (_weight(keys, needed) - (1 - eps)).abs(),
                1e-12,
            ),
            Check("1 % more M is enough.", (1 - eps) - _weight(keys, 1.01 * needed), 0.0),
            Check(
                "Any keys, any q: a score that is m above the next has at least the weight 1/(1 + (n − 1)e^(−m)).",
                1 / (1 + (N - 1) * torch.exp(second - first)) - largest,
                1e-12,
            ),
        ),
        figures=_figures(),
        limits=_limits(draws, generator, keys, eps),
    )


def _weight(keys: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
    return attend(m[:, None, None] * keys[:, :1], keys, keys)[1][:, 0, 0]


def _limits(draws: int, generator: torch.Generator, keys: torch.Tensor, eps: torch.Tensor) -> tuple[Check, ...]:
    needed = margin(N - 1, eps)
    twins = torch.cat([keys[:, :1], keys[:, :1], keys[:, 2:]], dim=1)
    shares = torch.softmax(normal(generator, draws, 1, N - 1), dim=-1)
    hidden = torch.cat([shares @ keys[:, 1:], keys[:, 1:]], dim=1)
    own = hidden[:, :1] / (hidden[:, :1] ** 2).sum(dim=-1, keepdim=True)
    q = uniform(generator, 0, 50, draws, 1, 1) * own + normal(generator, draws, 1, WIDTH)
    inside = attend(q, hidden, hidden)[1][:, 0, 0]
    places = torch.arange(1), torch.arange(N)
    divided = dot_product(
        (needed[:, None, None] * keys[:, :1])[:, None], keys[:, None], keys[:, None], None, places, 0.0, True
    )[1]
    assert divided is not None
    return (
        Check("1 % less M would do.", (1 - eps) - _weight(keys, 0.99 * needed), 0.0, "fails"),
        Check(
            "The same M suffices where scores are divided by √k, as transformers do.",
            (1 - eps) - divided[:, 0, 0, 0],
            1e-12,
            "fails",
        ),
        Check(
            "Two equal keys: one of them gets the weight 0.9 with M = 50.",
            0.9 - _weight(twins, torch.full_like(eps, 50)),
            0.0,
            "fails",
        ),
        Check(
            "A key that is an average of others gets the weight 0.9 from a q along itself.",
            0.9 - inside,
            0.0,
            "fails",
        ),
        Check("Such a key never gets more than ½, whatever q is.", inside - 0.5, 0.0),
    )


def _figures() -> tuple[Block, ...]:
    sizes = (2, 10, 100, 1000, 10_000)
    rows = [
        {"M": float(m), "weight of v_j": float(1 / (1 + (n - 1) * torch.exp(-m))), "keys": f"n = {n:,}"}
        for n in sizes
        for m in torch.linspace(0, 20, 81, dtype=torch.float64)
    ]
    caption = "The M that is needed for the weight 1 − ε among n orthonormal keys."
    table = needed_table(caption, sizes, lambda n, eps: margin(n - 1, eps))
    return (
        Figure(
            "attention-copy-weight",
            "The weight of the wanted value against M. Ten times as many keys ask for ln 10 ≈ 2.3 more.",
            plots.lines(rows, "M", "weight of v_j", "keys"),
        ),
        table,
    )


DEMONSTRATION = Demonstration(
    name="attention-copy",
    chapter="Attention",
    order=1,
    title="Attention copies a value when one score dominates",
    claim=(
        "With the query q = M·k_j and n orthonormal keys attention returns v_j up to the share ε exactly when "
        "M ≥ ln((n − 1)(1 − ε)/ε)."
    ),
    reason=(
        "Attention returns an average of the values, c = Σ wᵢvᵢ, with the weights w = softmax of the scores kᵢᵀq. "
        "(Here the scores are not divided by √k; that would only make M larger by √k.) To copy v_j its weight must "
        "be nearly 1, so its score must be well above all others.",
        "Let q = M·k_j. For orthonormal keys k_jᵀk_j = 1 and kᵢᵀk_j = 0, so the scores are M for j and 0 for the "
        "others:",
        "    w_j = e^M / (e^M + n − 1) = 1 / (1 + (n − 1)e^(−M))",
        "What is not on v_j is shared equally by the others, so c − v_j = (1 − w_j)(v̄ − v_j), v̄ being the mean of "
        "the other values. It is copied as well as 1 − w_j is small.",
        "Set w_j = 1 − ε and solve for M:",
        "    M = ln((n − 1)(1 − ε)/ε)",
        "M grows with the logarithm of n and of 1/ε only, which is why a softmax can look up one key among "
        "thousands. For other keys the same holds of the margin m by which the score of j is above the next: w_j is "
        "at least 1/(1 + (n − 1)e^(−m)), and exactly that if all other scores are equal.",
    ),
    ends=(
        "No finite M makes the weight 1: the others always keep a little. And M must be √k times as large where scores "
        "are divided by √k.",
        "A key that is equal to another cannot be picked; each gets half of what they get together. Nor can a key "
        "that is an average of other keys: its score is the same average of their scores, one of which is at least "
        "as large, so it never gets more than ½.",
    ),
    show=show,
    published="A published answer says that k_jᵀq must be far larger than the other scores, which is right.",
    see=("nn/attention.py",),
)
