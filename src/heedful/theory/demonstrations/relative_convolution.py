"""Relative attention computes a 1-D convolution with any kernel whose entries have one sign."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.nn.attention import Attend, Places
from heedful.nn.dropout import dropout as dropped
from heedful.report.page import plots
from heedful.report.page.pieces import Block, Figure, Prose
from heedful.theory.demonstration import Check, Demonstration, Shown
from heedful.theory.draws import attention_of, normal, uniform

EXACT = 1e-11
LENGTH, WIDTH, REACH = 14, 3, 3


class RelativeAttention(Attend):
    """softmax_j(q_iᵀk_j/√k + p_{i−j})

    p is (b or 1, h or 1, 2r + 1), for δ = i − j from −r to r; beyond these p is −∞.
    """

    def __init__(self, p: Tensor) -> None:
        self.p = p

    def __call__(
        self,
        q_bhtk: Tensor,
        k_bhsk: Tensor,
        v_bhsk: Tensor,
        mask: Tensor | None,
        places: Places,
        dropout: float,
        want_weights: bool,
    ) -> tuple[Tensor, Tensor | None]:
        reach = self.p.shape[-1] // 2
        offset_ts = places[0][:, None] - places[1][None, :]
        p_bhts = self.p[..., offset_ts.clamp(-reach, reach) + reach]
        scores_bhts = q_bhtk @ k_bhsk.transpose(-1, -2) / math.sqrt(q_bhtk.shape[-1]) + p_bhts
        seen = offset_ts.abs() <= reach if mask is None else (offset_ts.abs() <= reach) & mask
        weights_bhts = scores_bhts.masked_fill(~seen, -math.inf).softmax(dim=-1)
        weights_bhts = weights_bhts.nan_to_num(0.0)  # a query that may look at nothing yields zeros
        return dropped(weights_bhts, dropout) @ v_bhsk, weights_bhts if want_weights else None


def bias_of(kernel: Tensor) -> Tensor:
    """p_δ = ln w_δ; a weight of zero becomes −∞."""
    return kernel.log()


def convolved(x_bnd: Tensor, kernel_bw: Tensor) -> Tensor:
    """y_i = Σ_δ w_δ x_{i−δ} with zeros beyond both ends, each draw with its own kernel: PyTorch's, which knows no
    attention."""
    b, n, d = x_bnd.shape
    reach = kernel_bw.shape[1] // 2
    weight = kernel_bw.flip(1).repeat_interleave(d, dim=0)[:, None]
    y = F.conv1d(x_bnd.transpose(1, 2).reshape(1, b * d, n), weight, padding=reach, groups=b * d)
    return y.view(b, d, n).transpose(1, 2)


def one_head(x_bnd: Tensor, kernel_bw: Tensor, sign: float = 1.0) -> Tensor:
    """W_Q = W_K = 0, p = ln w, W_V = ±(Σw) I."""
    values = sign * kernel_bw.sum(dim=1)[:, None, None] * x_bnd
    nothing, places = torch.zeros_like(x_bnd)[:, None], torch.arange(x_bnd.shape[1])
    attend = RelativeAttention(bias_of(kernel_bw)[:, None])
    y, _ = attend(nothing, nothing, values[:, None], None, (places, places), 0.0, False)
    return y[:, 0]


def framed(x_bnd: Tensor, reach: int) -> Tensor:
    """With so many zero tokens before and after."""
    return F.pad(x_bnd, (0, 0, reach, reach))


def show(draws: int, generator: torch.Generator) -> Shown:
    x = normal(generator, draws, LENGTH, WIDTH)
    kernel = _kernels(draws, generator)
    whole = convolved(x, kernel)
    inside = slice(REACH, LENGTH - REACH)
    example = _example()
    y = example(x).y_btd
    plain = one_head(x, kernel)
    checks = (
        Check(
            "With p₁ = ln 2, p₋₁ = 0, every other p = −∞, W_Q = W_K = 0 and W_V = 3I: y_i = 2x_{i−1} + x_{i+1}, away "
            "from both ends.",
            _worst(y[:, 1:-1] - (2 * x[:, :-2] + x[:, 2:])),
            EXACT,
        ),
        Check(
            f"For any kernel w ≥ 0 of {2 * REACH + 1} entries, some of them zero: y_i = Σ_δ w_δ x_{{i−δ}}, at least "
            f"{REACH} tokens away from both ends.",
            _worst(plain[:, inside] - whole[:, inside]),
            EXACT,
        ),
        Check(
            f"With {REACH} zero tokens before and after the text the same holds at every token.",
            _worst(one_head(framed(x, REACH), kernel)[:, REACH:-REACH] - whole),
            EXACT,
        ),
        Check(
            "For any kernel w ≤ 0 one head is enough as well: p = ln |w|, W_V = −(Σ|w|) I.",
            _worst(one_head(framed(x, REACH), kernel, -1.0)[:, REACH:-REACH] + whole),
            EXACT,
        ),
    )
    return Shown(checks, _figures(generator), (*_borders(x, y, kernel, whole), *_signs(draws, generator)))


def _kernels(draws: int, generator: torch.Generator) -> Tensor:
    """Non-negative, about a third of the entries zero, never all."""
    kernel = uniform(generator, 0.1, 2.0, draws, 2 * REACH + 1)
    zero = uniform(generator, 0.0, 1.0, draws, 2 * REACH + 1) < 0.3
    zero[:, REACH] = False
    return kernel.masked_fill(zero, 0.0)


def _example() -> torch.nn.Module:
    eye, nothing = torch.eye(WIDTH, dtype=torch.float64), torch.zeros(WIDTH, WIDTH, dtype=torch.float64)
    p = bias_of(torch.tensor([1.0, 0.0, 2.0], dtype=torch.float64))
    return attention_of(nothing, nothing, 3 * eye, attend=RelativeAttention(p[None, None]))


def _borders(x: Tensor, y: Tensor, kernel: Tensor, whole: Tensor) -> tuple[Check, ...]:
    """`y` is what the example's head makes of x, `whole` the convolution of x with zeros beyond its ends."""
    there = convolved(torch.ones_like(x[..., :1]), kernel)  # the sum of those weights that meet a token
    share = kernel.sum(dim=1)[:, None, None] / there
    return (
        Check(
            "At the first token: y₁ = x₂, as if zeros stood before the text.",
            _worst(y[:, :1] - x[:, 1:2]),
            1e-3,
            "fails",
        ),
        Check("At the first token instead: y₁ = 3x₂.", _worst(y[:, :1] - 3 * x[:, 1:2]), EXACT),
        Check(
            "At every token of a text without zero tokens: y_i is the convolution times Σw / (the sum of the weights "
            "that meet a token).",
            _worst(one_head(x, kernel) - whole * share),
            EXACT,
        ),
    )


def _signs(draws: int, generator: torch.Generator) -> tuple[Check, ...]:
    """What negative entries need, and what needs a head for every offset."""
    x = framed(normal(generator, draws, LENGTH, WIDTH), REACH)
    inside = slice(REACH, LENGTH + REACH)
    mixed = uniform(generator, 0.1, 2.0, draws, 2 * REACH + 1) * torch.where(
        torch.arange(2 * REACH + 1) % 2 == 0, 1.0, -1.0
    )
    whole = convolved(x, mixed)[:, inside]
    above, below = mixed.clamp(min=0), (-mixed).clamp(min=0)
    keep_above = above.norm(dim=1) >= below.norm(dim=1)
    best = torch.where(keep_above[:, None, None], one_head(x, above), one_head(x, below, -1.0))[:, inside]
    matrices = normal(generator, draws, 2 * REACH + 1, WIDTH, WIDTH)
    wanted = sum(_moved(x, offset) @ matrices[:, offset + REACH] for offset in range(-REACH, REACH + 1))
    made = torch.zeros_like(x)
    for offset in range(2 * REACH + 1):
        alone = torch.eye(2 * REACH + 1, dtype=torch.float64)[offset].expand(draws, -1)
        made = made + one_head(x, alone) @ matrices[:, offset]
    return (
        Check(
            "One head, the best of all, computes a kernel with entries of both signs.",
            _worst(best - whole),
            1e-3,
            "fails",
        ),
        Check(
            "With W_Q = W_K = 0, no weights a ≥ 0 and no factor c bring c·a nearer to w than the smaller of ‖w⁺‖, "
            "‖w⁻‖ (random a, a near w⁺ and w⁻, and these two, which come as near as that).",
            torch.minimum(above.norm(dim=1), below.norm(dim=1)) - nearest(mixed, generator),
            1e-12,
        ),
        Check(
            "Whatever its queries, keys, biases p and values are: to one token u at offset δ, and to u at offset δ′, "
            "one head's answers have cosine +1 (a kernel with w_δ > 0 > w_δ′ asks for −1).",
            _cosines(draws, generator),
            1e-9,
        ),
        Check(
            "Two heads do: w = w⁺ − w⁻, one head for each part, the second subtracted.",
            _worst(one_head(x, above)[:, inside] - one_head(x, below)[:, inside] - whole),
            EXACT,
        ),
        Check(
            "A matrix of its own for each offset, y_i = Σ_δ W_δ x_{i−δ}: one head for each offset, W_V = W_δ.",
            _worst((made - wanted)[:, inside]),
            EXACT,
        ),
    )


def nearest(kernel: Tensor, generator: torch.Generator) -> Tensor:
    """How near kernels of one sign come, each with the factor that suits it best: a random one, w⁺ and w⁻, and two
    that are near these."""
    parts = (kernel.clamp(min=0), (-kernel).clamp(min=0))
    near = [part + uniform(generator, 0.0, 0.1, *kernel.shape) for part in parts]
    distances = []
    for a in (uniform(generator, 0.0, 1.0, *kernel.shape), *parts, *near):
        c = (a * kernel).sum(dim=1, keepdim=True) / (a * a).sum(dim=1, keepdim=True)
        distances.append((c * a - kernel).norm(dim=1))
    return torch.stack(distances).amin(dim=0)


def _moved(x_bnd: Tensor, offset: int) -> Tensor:
    """x_{i−δ} at i, for texts that are framed by zeros at least as wide."""
    return x_bnd.roll(offset, dims=1)


def _cosines(draws: int, generator: torch.Generator) -> Tensor:
    """1 − the cosine of a random head's answers to the same token at two offsets, every other token zero."""
    query, key, value = (normal(generator, draws, WIDTH, WIDTH) for _ in range(3))
    attend = RelativeAttention(normal(generator, draws, 1, 2 * REACH + 1))
    u = normal(generator, draws, WIDTH)
    places = torch.arange(2 * REACH + 1)
    answers: list[Tensor] = []
    for offset in (1, -2):
        x = torch.zeros(draws, 2 * REACH + 1, WIDTH, dtype=torch.float64)
        x[:, REACH - offset] = u
        q, k, v = ((x @ matrix)[:, None] for matrix in (query, key, value))
        y, _ = attend(q, k, v, None, (places, places), 0.0, False)
        answers.append(y[:, 0, REACH])
    return 1 - F.cosine_similarity(answers[0], answers[1], dim=1)


def _worst(difference: Tensor) -> Tensor:
    """The largest of each draw."""
    return difference.abs().flatten(1).amax(dim=1)


def _figures(generator: torch.Generator) -> tuple[Block, ...]:
    x = normal(generator, 1, LENGTH, WIDTH)
    example = _example()
    weights = example(x, want_weights=True).weights_bhts[0, 0]
    cells = [
        {"token j": j + 1, "token i": i + 1, "weight": round(float(weights[i, j]), 3)}
        for i in range(LENGTH)
        for j in range(LENGTH)
    ]
    ramp = torch.ones(1, LENGTH, WIDTH, dtype=torch.float64)
    kernel = torch.tensor([[1.0, 0.0, 2.0]], dtype=torch.float64)
    series = {
        "the convolution": convolved(ramp, kernel),
        "one head": one_head(ramp, kernel),
        "one head, a zero token at each end": one_head(framed(ramp, 1), kernel)[:, 1:-1],
    }
    rows = [
        {"token i": i + 1, "y_i": round(float(y[0, i, 0]), 6), "of": name}
        for name, y in series.items()
        for i in range(LENGTH)
    ]
    return (
        Figure(
            "relative-convolution-weights",
            "The attention weights of the example. Each row sums to 1: two thirds on the token before, one third on "
            "the token after. In the first and in the last row one of the two does not exist, and the other gets all.",
            plots.grid(cells, "token j", "token i", "weight"),
        ),
        Prose("A text of ones shows the borders best: the convolution must be 1 at the first token and 2 at the last."),
        Figure(
            "relative-convolution-borders",
            "What the kernel 2x_{i−1} + x_{i+1} makes of a text of ones: the head alone answers 3 everywhere, and "
            "with zero tokens it is the convolution.",
            plots.lines(rows, "token i", "y_i", "of", points=True),
        ),
    )


DEMONSTRATION = Demonstration(
    name="relative-convolution",
    chapter="Relative attention",
    order=1,
    title="Relative attention can be a convolution",
    claim=(
        "Attention with a bias for each distance, softmax_j(q_iᵀk_j/√k + p_{i−j}), computes the convolution "
        "y_i = Σ_δ w_δ x_{i−δ} exactly, for every kernel w whose entries are all ≥ 0 (or all ≤ 0)."
    ),
    reason=(
        "The letters: x_i is the i-th token, a vector; q_i = W_Q x_i and k_j = W_K x_j are its query and key, of "
        "width k; W_V x_j is its value. δ = i − j says how far token j stands before token i (negative: behind it). "
        "p_δ is a number for each distance. Token i looks at token j with the weight a_ij = softmax_j(q_iᵀk_j/√k + "
        "p_{i−j}).",
        "Step 1. Set W_Q = W_K = 0. All products q_iᵀk_j are 0, so a_ij = exp(p_{i−j}) / Σ_m exp(p_{i−m}): the "
        "weights depend on the distance alone, as in a convolution.",
        "Step 2. Set p_δ = ln w_δ, and p_δ = −∞ where w_δ = 0. Then exp(p_δ) = w_δ, and a_ij = w_{i−j} / Σw.",
        "Step 3. The softmax has divided by Σw. Set W_V = (Σw) I, which multiplies by it again: "
        "y_i = Σ_j a_ij W_V x_j = Σ_δ w_δ x_{i−δ}.",
        "The example: w₁ = 2 and w₋₁ = 1, so p₁ = ln 2, p₋₁ = ln 1 = 0, every other p = −∞, and W_V = 3I. "
        "Then y_i = 2x_{i−1} + x_{i+1}.",
    ),
    ends=(
        "At the borders. The first token has none before it. The softmax still makes the weights sum to 1, so the "
        "token after it gets all: y₁ = 3x₂ and not x₂. The remedy is as many zero tokens at each end as the kernel "
        "reaches: they take their share of the weight, and their value is W_V · 0 = 0 (if W_V has no bias).",
        "Negative entries. Weights of a softmax are never negative. One head can turn the sign of all of them at "
        "once, with −W_V, and so do a kernel that is ≤ 0 everywhere. It cannot do a kernel with both signs, whatever "
        "its queries and keys are: let all tokens be 0 but one, u. The head's answer is a · W_V u with a number a ≥ "
        "0. At a distance with w_δ > 0 this must be w_δ u, so W_V u points along u; at a distance with w_δ′ < 0 it "
        "must point the other way. With W_Q = W_K = 0 the nearest that one head comes is to drop the smaller of the "
        "two parts, and its squared error is ‖w⁻‖² or ‖w⁺‖² (the smaller) for each coordinate of independent standard "
        "normal tokens. Two heads, one for w⁺ and one for w⁻, and the difference of the two, are exact.",
        "A kernel here is one number for each distance, the same for all coordinates. If each coordinate has its own "
        "kernel, each needs its own head (two, with both signs). A full convolution has a matrix W_δ for each "
        "distance; one head for each distance does it, with p_δ = 0 there and −∞ elsewhere, and then signs do not "
        "matter.",
    ),
    show=show,
    published=(
        "A published answer gives the weights of the example; they are right away from the borders. At the borders "
        "they need the zero tokens."
    ),
    paper=(
        "“Self-Attention with Relative Position Representations” (2018); “On the Relationship between Self-Attention "
        "and Convolutional Layers” (2020)"
    ),
    see=("nn/attention.py",),
)
