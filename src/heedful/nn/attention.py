"""Attention ("Attention Is All You Need", section 3.2), and the seam for its kinds.

Letters: b batch, h heads, t queries, s keys, k width of a head, d width of the model = h·k.
A mask is boolean and broadcasts to (b, h, t, s): True where query t may look at key s; None hides nothing.
"""

import math
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Attend(Protocol):
    """The seam: how queries, keys and values become an output. A plain function, or a module if it has parameters.

    Returns y (b, h, t, k), and the weights (b, h, t, s) if they are wanted, else None. A query that may look at
    nothing yields zeros.
    """

    def __call__(
        self, q_bhtk: Tensor, k_bhsk: Tensor, v_bhsk: Tensor, mask: Tensor | None, dropout: float, want_weights: bool
    ) -> tuple[Tensor, Tensor | None]: ...


def dot_product(
    q_bhtk: Tensor, k_bhsk: Tensor, v_bhsk: Tensor, mask: Tensor | None, dropout: float, want_weights: bool
) -> tuple[Tensor, Tensor | None]:
    """The reference, as in the paper: softmax(QKᵀ/√d_k) V."""
    scores_bhts = q_bhtk @ k_bhsk.transpose(-1, -2) / math.sqrt(q_bhtk.shape[-1])
    if mask is not None:
        scores_bhts = scores_bhts.masked_fill(~mask, torch.finfo(scores_bhts.dtype).min)
    weights_bhts = torch.softmax(scores_bhts, dim=-1)
    if mask is not None:
        weights_bhts = weights_bhts * mask  # the row of a query that may look at nothing would be uniform; make it zero
    y_bhtk = F.dropout(weights_bhts, dropout) @ v_bhsk
    return y_bhtk, weights_bhts if want_weights else None


def fused_dot_product(
    q_bhtk: Tensor, k_bhsk: Tensor, v_bhsk: Tensor, mask: Tensor | None, dropout: float, want_weights: bool
) -> tuple[Tensor, Tensor | None]:
    """The twin of `dot_product` through PyTorch's fused kernel, which never holds the weights in memory."""
    if want_weights:
        return dot_product(q_bhtk, k_bhsk, v_bhsk, mask, dropout, want_weights)
    return F.scaled_dot_product_attention(q_bhtk, k_bhsk, v_bhsk, attn_mask=mask, dropout_p=dropout), None


class MultiHeadAttention(nn.Module):
    """Concat(head₁ … head_h) W_O, head_i = attend(x W_Q, m W_K, m W_V), where m is the memory looked at.

    W_Q, W_K and W_V are the three thirds of one matrix, so that self-attention needs one multiplication.
    """

    def __init__(self, width: int, heads: int, dropout: float = 0.0, attend: Attend = fused_dot_product) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"a width of {width} cannot be divided among {heads} heads")
        self.width, self.heads, self.dropout = width, heads, dropout
        self.qkv = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)
        self.attend = attend

    def forward(
        self, x_btd: Tensor, memory_bsd: Tensor | None = None, mask: Tensor | None = None, want_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """Without a memory, x looks at itself."""
        if memory_bsd is None:
            q, k, v = self.qkv(x_btd).chunk(3, dim=-1)
        else:
            w, b, d = self.qkv.weight, self.qkv.bias, self.width
            q = F.linear(x_btd, w[:d], b[:d])
            k, v = F.linear(memory_bsd, w[d:], b[d:]).chunk(2, dim=-1)
        dropout = self.dropout if self.training else 0.0
        y_bhtk, weights = self.attend(self._split(q), self._split(k), self._split(v), mask, dropout, want_weights)
        return self.output(y_bhtk.transpose(1, 2).flatten(2)), weights

    def _split(self, x_btd: Tensor) -> Tensor:
        b, t, d = x_btd.shape
        return x_btd.view(b, t, self.heads, d // self.heads).transpose(1, 2)
