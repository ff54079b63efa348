"""Relative attention computes a 1-D convolution with any kernel whose entries have one sign."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.nn.attention import Attend, Places
from heedful.nn.dropout import dropout as dropped
from heedful.report.page.pieces import Block
from heedful.theory.demonstration import Check, Shown
from heedful.theory.drawing import curves, heatmap
from heedful.theory.draws import attention_of, normal, uniform, worst
from heedful.theory.page import Page

PAGE = Page.read(__name__)

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
        PAGE.holds("example", worst(y[:, 1:-1] - (2 * x[:, :-2] + x[:, 2:])), EXACT),
        PAGE.holds("any-kernel", worst(plain[:, inside] - whole[:, inside]), EXACT, entries=2 * REACH + 1, reach=REACH),
        PAGE.holds("padded", worst(one_head(framed(x, REACH), kernel)[:, REACH:-REACH] - whole), EXACT, reach=REACH),
        PAGE.holds("negative-kernel", worst(one_head(framed(x, REACH), kernel, -1.0)[:, REACH:-REACH] + whole), EXACT),
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
        PAGE.fails("border-as-zero", worst(y[:, :1] - x[:, 1:2]), 1e-3),
        PAGE.holds("border", worst(y[:, :1] - 3 * x[:, 1:2]), EXACT),
        PAGE.holds("borders", worst(one_head(x, kernel) - whole * share), EXACT),
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
        PAGE.fails("mixed-signs", worst(best - whole), 1e-3),
        PAGE.holds(
            "one-head-bound", torch.minimum(above.norm(dim=1), below.norm(dim=1)) - nearest(mixed, generator), 1e-12
        ),
        PAGE.holds("cosine", _cosines(draws, generator), 1e-9),
        PAGE.holds("two-heads", worst(one_head(x, above)[:, inside] - one_head(x, below)[:, inside] - whole), EXACT),
        PAGE.holds("matrices", worst((made - wanted)[:, inside]), EXACT),
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


def _figures(generator: torch.Generator) -> tuple[Block, ...]:
    x = normal(generator, 1, LENGTH, WIDTH)
    example = _example()
    weights = example(x, want_weights=True).weights_bhts[0, 0]
    ramp = torch.ones(1, LENGTH, WIDTH, dtype=torch.float64)
    kernel = torch.tensor([[1.0, 0.0, 2.0]], dtype=torch.float64)
    series = {
        "the convolution": convolved(ramp, kernel)[0, :, 0],
        "one head": one_head(ramp, kernel)[0, :, 0],
        "one head, a zero token at each end": one_head(framed(ramp, 1), kernel)[0, 1:-1, 0],
    }
    return (
        PAGE.figure("weights", heatmap(weights, "token j", "token i", "weight")),
        PAGE.prose("borders-prose"),
        PAGE.figure("borders", curves(range(1, LENGTH + 1), series, "token i", "y_i", points=True)),
    )
