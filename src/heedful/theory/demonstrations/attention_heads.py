"""Averaging when one key varies in length: one head against two."""

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.linalg import vector_norm

from heedful.report.page import plots
from heedful.report.page.pieces import Block
from heedful.report.page.words import share
from heedful.theory.demonstration import Check, Shown
from heedful.theory.drawing import curves
from heedful.theory.draws import normal, uniform
from heedful.theory.lookup import attend, margin, orthonormal
from heedful.theory.page import Page

PAGE = Page.read(__name__)

N, WIDTH = 10, 16
COUNTS = (1, 1, N - 2)
"""How many values v_a, v_b and the others are."""
SAMPLES = 1000
NEGATIVE = float(torch.special.ndtr(torch.tensor(-math.sqrt(2), dtype=torch.float64)))
"""Φ(−√2): how often ε ~ N(1, ½) is below 0."""


Weights = tuple[Tensor, Tensor, Tensor]
"""Of v_a, of v_b, and of each of the others."""


def one_head(eps: Tensor, m: Tensor | float) -> Weights:
    """From q = M(μ_a + μ_b): the scores are Mε, M and 0."""
    a, b = _exp(m * eps), _exp(m + 0 * eps)
    return 1 / (1 + b / a + (N - 2) / a), 1 / (1 + a / b + (N - 2) / b), 1 / (N - 2 + a + b)


def two_heads(eps: Tensor, m: Tensor | float) -> Weights:
    """The mean of q₁ = Mμ_a and q₂ = Mμ_b: the scores are Mε, 0, 0 and 0, M, 0."""
    a, b = _exp(m * eps), _exp(m + 0 * eps)
    first, second = (1 / (1 + (N - 1) / a), 1 / (N - 1 + a)), (1 / (1 + (N - 1) / b), 1 / (N - 1 + b))
    return (first[0] + second[1]) / 2, (first[1] + second[0]) / 2, (first[1] + second[1]) / 2


def _exp(score: Tensor) -> Tensor:
    """With room for quotients: beyond this a weight is 0 or 1 in any case."""
    return torch.exp(score.clamp(-300, 300))


def show(draws: int, generator: torch.Generator) -> Shown:
    means, values = orthonormal(generator, draws, N, WIDTH), orthonormal(generator, draws, N, WIDTH)
    eps = 1 + math.sqrt(0.5) * normal(generator, draws)
    m = uniform(generator, 0, 20, draws)
    exact = _keys(means, eps)
    noisy = exact + 1e-3 * normal(generator, draws, N, WIDTH)
    one, two = _weights(means, exact, m)
    one_noisy, two_noisy = _weights(means, noisy, m)
    many = 1 + math.sqrt(0.5) * normal(generator, draws, SAMPLES)
    negatives = (many < 0).double().mean(dim=-1)
    error = math.sqrt(NEGATIVE * (1 - NEGATIVE) / SAMPLES)
    return Shown(
        checks=(
            PAGE.holds("one-head", (one - torch.stack(one_head(eps, m), dim=-1)).abs().amax(dim=-1), 1e-9),
            PAGE.holds("two-heads", (two - torch.stack(two_heads(eps, m), dim=-1)).abs().amax(dim=-1), 1e-9),
            PAGE.holds("noise", torch.maximum((one_noisy - one).abs(), (two_noisy - two).abs()).amax(dim=-1), 0.05),
            PAGE.holds(
                "negative",
                (negatives - NEGATIVE).abs() / error,
                6.0,
                negative=f"{NEGATIVE:.4f}",
                samples=f"{SAMPLES:,}",
            ),
            PAGE.holds("one-moments", _moments_off(one_head, many, 20.0), 6.0, samples=f"{SAMPLES:,}"),
            PAGE.holds("two-moments", _moments_off(two_heads, many, 20.0), 6.0),
        ),
        figures=_figures(generator),
        limits=_limits(means, values, generator, draws),
    )


def _keys(means: Tensor, eps: Tensor) -> Tensor:
    """μᵢ, but the first is εμ_a."""
    return torch.cat([eps[:, None, None] * means[:, :1], means[:, 1:]], dim=1)


def _outputs(means: Tensor, keys: Tensor, values: Tensor, m: Tensor) -> tuple[Tensor, Tensor]:
    """What one head gives, and the mean of what two give."""
    scaled = m[:, None, None] * means[:, :2]
    one = attend(scaled.sum(dim=1, keepdim=True), keys, values)[0][:, 0]
    return one, attend(scaled, keys, values)[0].mean(dim=1)


def _weights(means: Tensor, keys: Tensor, m: Tensor) -> tuple[Tensor, Tensor]:
    """Of v_a, v_b and the last value: the values are rows of the identity, so the outputs are the weights."""
    one, two = _outputs(means, keys, torch.eye(N, dtype=torch.float64).expand(len(keys), N, N), m)
    return one[:, [0, 1, -1]], two[:, [0, 1, -1]]


def _limits(means: Tensor, values: Tensor, generator: torch.Generator, draws: int) -> tuple[Check, ...]:
    m = torch.full((draws,), 100.0, dtype=torch.float64)
    half = values[:, :2].mean(dim=1)
    eps = 1 + math.sqrt(0.5) * normal(generator, draws)
    below, far = (_below(limit, generator, draws) for limit in (0.0, -0.05))
    least = float(margin(N - 1, 0.02)) / 100
    above = torch.where(eps > least, eps, 2 * least - eps)
    one, _ = _outputs(means, _keys(means, eps), values, m)
    _, low = _outputs(means, _keys(means, below), values, m)
    _, lower = _outputs(means, _keys(means, far), values, m)
    _, high = _outputs(means, _keys(means, above), values, m)
    without = (values[:, 1] + values[:, 1:].mean(dim=1)) / 2
    return (
        PAGE.fails("one-average", vector_norm(one - half, dim=-1), 0.1),
        PAGE.holds("two-average", vector_norm(high - half, dim=-1), 0.02, least=f"{least:.3f}"),
        PAGE.fails("two-negative", vector_norm(low - half, dim=-1), 0.1),
        PAGE.holds("instead", vector_norm(lower - without, dim=-1), 0.01),
    )


def _below(limit: float, generator: torch.Generator, draws: int) -> Tensor:
    """ε ~ N(1, ½), of which those below the limit alone."""
    top = float(torch.special.ndtr(torch.tensor((limit - 1) * math.sqrt(2), dtype=torch.float64)))
    quantile: Tensor = torch.special.ndtri(uniform(generator, 1e-9, top, draws))
    return 1 + math.sqrt(0.5) * quantile


Heads = Callable[[Tensor, Tensor | float], Weights]


def _expected(heads: Heads, m: float, power: int) -> list[float]:
    """The means of the three weights to this power over ε ~ N(1, ½), by the trapezoidal rule."""
    eps = torch.linspace(-6, 8, 56_001, dtype=torch.float64)
    density = torch.exp(-((eps - 1) ** 2)) / math.sqrt(math.pi)
    return [float(torch.trapezoid(w**power * density, eps)) for w in heads(eps, m)]


def _moments_off(heads: Heads, eps: Tensor, m: float) -> Tensor:
    """Mean and mean square of w_a in each row, from what they should be, in standard errors; the larger."""
    w, off = heads(eps, m)[0], []
    for power in (1, 2):
        mean = _expected(heads, m, power)[0]
        deviation = math.sqrt(_expected(heads, m, 2 * power)[0] - mean**2)
        off.append(((w**power).mean(dim=-1) - mean).abs() / (deviation / math.sqrt(eps.shape[-1])))
    return torch.maximum(*off)


def _figures(generator: torch.Generator) -> tuple[Block, ...]:
    eps = 1 + math.sqrt(0.5) * normal(generator, 5000)
    shares = {"one head": one_head(eps, 20)[0].tolist(), "two heads": two_heads(eps, 20)[0].tolist()}
    ms = torch.linspace(1, 60, 119, dtype=torch.float64)
    near = {"one head": _near(one_head, ms), "two heads": _near(two_heads, ms)}
    titles = ("M", *(f"{heads}: {what}" for heads in ("one head", "two heads") for what in ("variance", "near ½")))
    return (
        PAGE.figure("weights", plots.histogram(shares, "w_a"), negative_share=share(NEGATIVE)),
        PAGE.figure(
            "near",
            curves(ms, near, "M", "share of draws with w_a within 0.05 of ½", "heads"),
            positive_share=share(1 - NEGATIVE),
        ),
        PAGE.table("table", titles, [_row(m) for m in (5, 10, 20, 50, 200)]),
    )


def _near(heads: Heads, m: Tensor) -> Tensor:
    """For each M the probability that w_a is within 0.05 of ½. It grows with ε, so this is an interval of ε."""
    low, high = (torch.special.ndtr((_where(heads, m, wanted) - 1) * math.sqrt(2)) for wanted in (0.45, 0.55))
    return torch.sub(high, low)


def _where(heads: Heads, m: Tensor, wanted: float) -> Tensor:
    """For each M the ε at which w_a is that, by halving; 40 if it is never."""
    low, high = torch.full_like(m, -40), torch.full_like(m, 40)
    for _ in range(60):
        middle = (low + high) / 2
        less = heads(middle, m)[0] < wanted
        low, high = torch.where(less, middle, low), torch.where(less, high, middle)
    return high


def _row(m: float) -> tuple[str, ...]:
    cells = [f"{m:g}"]
    for heads in (one_head, two_heads):
        means, squares = (_expected(heads, m, power) for power in (1, 2))
        variance = sum(n * (square - mean**2) for n, square, mean in zip(COUNTS, squares, means, strict=True))
        cells += [f"{variance:.3f}", share(float(_near(heads, torch.tensor([m], dtype=torch.float64))))]
    return tuple(cells)
