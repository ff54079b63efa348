"""Attention ("Attention Is All You Need", section 3.2), and the seam for its kinds.

Letters: b batch, h heads, t queries, s keys, k width of a head, d width of the model = h·k.
A mask is boolean and broadcasts to (b, h, t, s): True where query t may look at key s; None hides nothing.
Places are the positions of the queries (t) and of the keys (s), for the kinds of attention that look at positions.
"""

import math
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from heedful.nn.dropout import dropout as dropped

Places = tuple[Tensor, Tensor]


class Attend(Protocol):
    """The seam: how queries, keys and values become an output. A plain function, or a module if it has parameters.

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


def dot_product(
    q_bhtk: Tensor,
    k_bhsk: Tensor,
    v_bhsk: Tensor,
    mask: Tensor | None,
    places: Places,
    dropout: float,
    want_weights: bool,
) -> tuple[Tensor, Tensor | None]:
    """The reference, as in the paper: softmax(QKᵀ/√d_k) V."""
    scores_bhts = q_bhtk @ k_bhsk.transpose(-1, -2) / math.sqrt(q_bhtk.shape[-1])
    if mask is not None:
        scores_bhts = scores_bhts.masked_fill(~mask, torch.finfo(scores_bhts.dtype).min)
    weights_bhts = torch.softmax(scores_bhts, dim=-1)
    if mask is not None and not mask.any(dim=-1).all():
        weights_bhts = weights_bhts * mask  # the row of a query that may look at nothing is uniform; make it zero
    y_bhtk = dropped(weights_bhts, dropout) @ v_bhsk
    return y_bhtk, weights_bhts if want_weights else None


def fused_dot_product(
    q_bhtk: Tensor,
    k_bhsk: Tensor,
    v_bhsk: Tensor,
    mask: Tensor | None,
    places: Places,
    dropout: float,
    want_weights: bool,
) -> tuple[Tensor, Tensor | None]:
    """The twin of `dot_product` through PyTorch's fused kernel, which never holds the weights in memory.

    On a CPU there is none with dropout, and what PyTorch does instead is slower than the reference.
    """
    if want_weights or (dropout and q_bhtk.device.type == "cpu"):
        return dot_product(q_bhtk, k_bhsk, v_bhsk, mask, places, dropout, want_weights)
    return F.scaled_dot_product_attention(q_bhtk, k_bhsk, v_bhsk, attn_mask=mask, dropout_p=dropout), None


class Projections(nn.Linear):
    """W_Q, W_K and W_V as the three thirds of one matrix: self-attention needs one multiplication.

    Whatever takes its place (LoRA, say) answers the same three calls.
    """

    def __init__(self, width: int) -> None:
        super().__init__(width, 3 * width)

    def query(self, x_btd: Tensor) -> Tensor:
        d = self.in_features
        return F.linear(x_btd, self.weight[:d], self.bias[:d])

    def keys_values(self, memory_bsd: Tensor) -> Tensor:
        d = self.in_features
        return F.linear(memory_bsd, self.weight[d:], self.bias[d:])


class MultiHeadAttention(nn.Module):
    """Concat(head₁ … head_h) W_O, head_i = attend(x W_Q, m W_K, m W_V), where m is the memory looked at."""

    def __init__(self, width: int, heads: int, dropout: float = 0.0, attend: Attend = fused_dot_product) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"a width of {width} cannot be divided among {heads} heads")
        self.heads, self.dropout = heads, dropout
        self.qkv = Projections(width)
        self.output = nn.Linear(width, width)
        self.attend = attend

    def forward(
        self,
        x_btd: Tensor,
        memory_bsd: Tensor | None = None,
        mask: Tensor | None = None,
        places: Places | None = None,
        want_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Without a memory, x looks at itself. Without places, both x and memory are counted from 0."""
        q, k, v = self.project(x_btd, memory_bsd)
        if places is None:
            places = tuple(torch.arange(n.shape[-2], device=n.device) for n in (q, k))  # type: ignore[assignment]
        return self.mix(q, k, v, mask, places, want_weights)  # type: ignore[arg-type]

    def project(self, x_btd: Tensor, memory_bsd: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Queries (b, h, t, k), keys and values (b, h, s, k)."""
        if memory_bsd is None:
            q, k, v = self.qkv(x_btd).chunk(3, dim=-1)
        else:
            q = self.qkv.query(x_btd)
            k, v = self.qkv.keys_values(memory_bsd).chunk(2, dim=-1)
        return self._split(q), self._split(k), self._split(v)

    def mix(
        self, q_bhtk: Tensor, k_bhsk: Tensor, v_bhsk: Tensor, mask: Tensor | None, places: Places, want_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        dropout = self.dropout if self.training else 0.0
        y_bhtk, weights = self.attend(q_bhtk, k_bhsk, v_bhsk, mask, places, dropout, want_weights)
        return self.output(y_bhtk.transpose(1, 2).flatten(2)), weights

    def _split(self, x_btd: Tensor) -> Tensor:
        b, t, d = x_btd.shape
        return x_btd.view(b, t, self.heads, d // self.heads).transpose(1, 2)
