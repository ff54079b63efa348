"""Attention ("Attention Is All You Need", section 3.2): of a text to itself, and to a memory.

Letters: b batch, h heads, t queries, s keys, k width of a head, d width of the model = h·k, m width of a memory.
A mask is boolean and broadcasts to (b, h, t, s): True where query t may look at key s; None hides nothing.
Places are the positions of the queries (t) and of the keys (s), each also with an axis b in front, for the kinds of
attention that look at positions.

A kind of self-attention is a module that is called as `MultiHeadAttention` is and that draws its own weights
(`draw`). It may have parameters, and it need not have queries and keys: it is given the states themselves. Low-rank
changes are passed only to kinds whose maps they change.
"""

import math
from typing import NamedTuple, Protocol, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from heedful.nn.dropout import dropout as dropped
from heedful.nn.initial import Scale, draw_linear
from heedful.nn.linear import Delta, Linear

Places = tuple[Tensor, Tensor]


class KeysValues(NamedTuple):
    """What attention computed of the tokens it looked at, (b, h, s, k) each: kept, it need not be computed again."""

    k_bhsk: Tensor
    v_bhsk: Tensor

    def reorder(self, index_b: Tensor) -> "KeysValues":
        """Row i becomes what row index_b[i] was; a row may be taken several times, or not at all."""
        # Copies whole rows, which is faster on a CPU than indexing with a tensor.
        return KeysValues(self.k_bhsk.index_select(0, index_b), self.v_bhsk.index_select(0, index_b))


class Keeps(Protocol):
    """What is kept of something that was looked at, a row for each text: `KeysValues`, or several of them."""

    def reorder(self, index_b: Tensor) -> Self:
        """Row i becomes what row index_b[i] was; a row may be taken several times, or not at all."""
        ...


class Attended(NamedTuple):
    y_btd: Tensor
    weights_bhts: Tensor | None
    """If they were wanted, and if there are any."""
    kept: KeysValues
    """Of all that was looked at, what was kept before included: what the next call may be given."""


class Attend(Protocol):
    """How queries, keys and values become an output: a plain function, or a module, which draws its weights, if it has
    any, in `draw`.

    Returns y (b, h, t, k), and the weights (b, h, t, s) if they are wanted, else None. A query that may look at
    nothing yields zeros.
    """

    def __call__(
        self,
        q_bhtk: Tensor,
        k_bhsk: Tensor,
        v_bhsk: Tensor,
        mask: Tensor | None,
        places: Places,
        dropout: float,
        want_weights: bool,
    ) -> tuple[Tensor, Tensor | None]: ...


class DotProduct(Attend, Protocol):
    """Attention by dot products, to whose scores a bias that broadcasts to (b, h, t, s) may be added."""

    def __call__(
        self,
        q_bhtk: Tensor,
        k_bhsk: Tensor,
        v_bhsk: Tensor,
        mask: Tensor | None,
        places: Places,
        dropout: float,
        want_weights: bool,
        bias: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]: ...


def dot_product(
    q_bhtk: Tensor,
    k_bhsk: Tensor,
    v_bhsk: Tensor,
    mask: Tensor | None,
    places: Places,
    dropout: float,
    want_weights: bool,
    bias: Tensor | None = None,
) -> tuple[Tensor, Tensor | None]:
    """The reference, as in the paper: softmax(QKᵀ/√d_k) V; with a bias, softmax(QKᵀ/√d_k + B) V."""
    scores_bhts = q_bhtk @ k_bhsk.transpose(-1, -2) / math.sqrt(q_bhtk.shape[-1])
    if bias is not None:
        scores_bhts = scores_bhts + bias
    return attend_by_scores(scores_bhts, v_bhsk, mask, dropout, want_weights)


def attend_by_scores(
    scores_bhts: Tensor, v_bhsk: Tensor, mask: Tensor | None, dropout: float, want_weights: bool
) -> tuple[Tensor, Tensor | None]:
    """softmax(scores) V over the keys that the mask shows, wherever the scores are from; answers as `Attend` does."""
    if mask is not None:
        scores_bhts = scores_bhts.masked_fill(~mask, torch.finfo(scores_bhts.dtype).min)
    weights_bhts = torch.softmax(scores_bhts, dim=-1)
    if mask is not None and not mask.any(dim=-1).all():
        weights_bhts = weights_bhts * mask  # the row of a query that may look at nothing is uniform; make it zero
    y_bhtk = dropped(weights_bhts, dropout) @ v_bhsk
    return y_bhtk, weights_bhts if want_weights else None


_MOST_SCORES = 512 * 512


def fused_dot_product(
    q_bhtk: Tensor,
    k_bhsk: Tensor,
    v_bhsk: Tensor,
    mask: Tensor | None,
    places: Places,
    dropout: float,
    want_weights: bool,
    bias: Tensor | None = None,
) -> tuple[Tensor, Tensor | None]:
    """The twin of `dot_product` through PyTorch's fused kernel, which never holds the weights in memory.

    On a CPU there is none with dropout, and what PyTorch does instead is slower than the reference; and the one for
    bfloat16 is slower backward than the reference (docs/log.md), but for the memory that this takes with long texts.
    """
    on_cpu = q_bhtk.device.type == "cpu"
    narrow = q_bhtk.dtype == torch.bfloat16 and q_bhtk.shape[2] * k_bhsk.shape[2] <= _MOST_SCORES
    if want_weights or (on_cpu and (dropout or narrow)):
        return dot_product(q_bhtk, k_bhsk, v_bhsk, mask, places, dropout, want_weights, bias)
    if bias is not None:
        mask = (bias if mask is None else torch.where(mask, bias, -torch.inf)).to(q_bhtk.dtype)
    return F.scaled_dot_product_attention(q_bhtk, k_bhsk, v_bhsk, attn_mask=mask, dropout_p=dropout), None


class Projections(nn.Linear):
    """W_Q, W_K and W_V as the three thirds of one matrix: self-attention needs one multiplication.

    `delta`: a low-rank change, which is added to queries, keys and values.
    """

    def __init__(self, width: int) -> None:
        super().__init__(width, 3 * width)

    def all_three(self, x_btd: Tensor, delta: "ProjectionsDelta | None" = None) -> tuple[Tensor, ...]:
        thirds = self(x_btd).chunk(3, dim=-1)
        if delta is None:
            return thirds  # type: ignore[no-any-return]
        return tuple(y + delta(x_btd, third) for third, y in enumerate(thirds))

    def query(self, x_btd: Tensor, delta: "ProjectionsDelta | None" = None) -> Tensor:
        d = self.in_features
        q = F.linear(x_btd, self.weight[:d], self.bias[:d])
        return q if delta is None else q + delta(x_btd, 0)

    def keys_values(self, whole_bsd: Tensor, delta: "ProjectionsDelta | None" = None) -> tuple[Tensor, ...]:
        d = self.in_features
        both = F.linear(whole_bsd, self.weight[d:], self.bias[d:]).chunk(2, dim=-1)
        if delta is None:
            return both
        return tuple(y + delta(whole_bsd, third) for third, y in enumerate(both, 1))


class ProjectionsDelta(Protocol):
    """What is added to the queries (0), keys (1) or values (2) of x; 0.0 where nothing is."""

    def __call__(self, x_btd: Tensor, third: int) -> Tensor | float: ...


class AttentionChanges(NamedTuple):
    """The low-rank changes of an attention's linear maps in one pass."""

    projections: ProjectionsDelta | None = None
    output: Delta | None = None


UNCHANGED = AttentionChanges()


class MultiHeadAttention(nn.Module):
    """Concat(head₁ … head_h) W_O, head_i = attend(x W_Q, x W_K, x W_V): a text looks at itself."""

    def __init__(self, width: int, heads: int, dropout: float = 0.0, attend: Attend = fused_dot_product) -> None:
        super().__init__()
        _check_heads(width, heads)
        self.heads, self.dropout = heads, dropout
        self.qkv = Projections(width)
        self.output = Linear(width, width)
        self.attend = attend

    def forward(
        self,
        x_btd: Tensor,
        whole_bsd: Tensor | None = None,
        mask: Tensor | None = None,
        places: Places | None = None,
        past: KeysValues | None = None,
        want_weights: bool = False,
        changes: AttentionChanges = UNCHANGED,
    ) -> Attended:
        """Return the states of x. They look at the whole text, of which x may be only the rows that are read, and at
        the past's keys and values before it. Without places, queries and keys are counted from 0."""
        if whole_bsd is None:
            q, k, v = self.qkv.all_three(x_btd, changes.projections)
        else:
            q = self.qkv.query(x_btd, changes.projections)
            k, v = self.qkv.keys_values(whole_bsd, changes.projections)
        q, k, v = (split_heads(part, self.heads) for part in (q, k, v))
        if past is not None:
            k, v = torch.cat([past.k_bhsk, k], dim=2), torch.cat([past.v_bhsk, v], dim=2)
        if places is None:
            places = torch.arange(q.shape[-2], device=q.device), torch.arange(k.shape[-2], device=q.device)
        dropout = self.dropout if self.training else 0.0
        y_bhtk, weights = self.attend(q, k, v, mask, places, dropout, want_weights)
        return Attended(self.output(join_heads(y_bhtk), changes.output), weights, KeysValues(k, v))

    def draw(self, generator: torch.Generator, scale: Scale) -> None:
        draw_linear(self.qkv, generator, scale.sigma)
        draw_linear(self.output, generator, scale.residual)
        draw_more = getattr(self.attend, "draw", None)  # most ways to attend have no weights
        if draw_more is not None:
            draw_more(generator, scale)


class MemoryAttention(nn.Module):
    """Concat(head₁ … head_h) W_O, head_i = attend(x W_Q, m W_K, m W_V): a text looks at a memory m, whose width may be
    another (cross attention)."""

    def __init__(
        self, width: int, memory_width: int, heads: int, dropout: float = 0.0, attend: Attend = fused_dot_product
    ) -> None:
        super().__init__()
        _check_heads(width, heads)
        self.heads, self.dropout = heads, dropout
        self.query = nn.Linear(width, width)
        self.keys_values = nn.Linear(memory_width, 2 * width)
        self.output = Linear(width, width)
        self.attend = attend

    def forward(
        self,
        x_btd: Tensor,
        memory_bsm: Tensor | None = None,
        mask: Tensor | None = None,
        kept: KeysValues | None = None,
        want_weights: bool = False,
    ) -> Attended:
        """Where the memory's keys and values were kept, they are not computed again, and the memory is not needed."""
        if kept is None:
            k, v = self.keys_values(memory_bsm).chunk(2, dim=-1)
            kept = KeysValues(split_heads(k, self.heads), split_heads(v, self.heads))
        q = split_heads(self.query(x_btd), self.heads)
        places = torch.arange(q.shape[-2], device=q.device), torch.arange(kept.k_bhsk.shape[-2], device=q.device)
        dropout = self.dropout if self.training else 0.0
        y_bhtk, weights = self.attend(q, *kept, mask, places, dropout, want_weights)
        return Attended(self.output(join_heads(y_bhtk)), weights, kept)

    def draw(self, generator: torch.Generator, scale: Scale) -> None:
        draw_linear(self.query, generator, scale.sigma)
        draw_linear(self.keys_values, generator, scale.sigma)
        draw_linear(self.output, generator, scale.residual)


def linear_maps(module: nn.Module) -> dict[str, int]:
    """The weights of all linear maps inside by their names, and of how many maps on top of each other each is made."""
    maps: dict[str, int] = {}
    for name, part in module.named_modules():
        if isinstance(part, MemoryAttention):
            maps[f"{name}.keys_values.weight".lstrip(".")] = 2
        elif isinstance(part, nn.Linear):
            maps.setdefault(f"{name}.weight".lstrip("."), 3 if isinstance(part, Projections) else 1)
    return maps


@torch.no_grad()
def draw_glorot(module: nn.Module, generator: torch.Generator) -> None:
    """U(−√(6/(n+m)), √(6/(n+m))) for every map from n to m inside (Glorot and Bengio, 2010), as translation models are
    drawn. Maps that are stored on top of each other are drawn as if each were alone; biases stay as they are."""
    for name, maps in linear_maps(module).items():
        weight = module.get_parameter(name)
        bound = math.sqrt(6 / (weight.shape[1] + weight.shape[0] // maps))
        weight.uniform_(-bound, bound, generator=generator)


def split_heads(x_btd: Tensor, heads: int) -> Tensor:
    """(b, h, t, k)."""
    b, t, d = x_btd.shape
    return x_btd.view(b, t, heads, d // heads).transpose(1, 2)


def join_heads(y_bhtk: Tensor) -> Tensor:
    """(b, t, d)."""
    return y_bhtk.transpose(1, 2).flatten(2)


def _check_heads(width: int, heads: int) -> None:
    if width % heads:
        raise ValueError(f"a width of {width} cannot be divided among {heads} heads")
