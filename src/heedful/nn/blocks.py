"""One layer of a transformer: attention, then a feed-forward network, each inside its residual wiring."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from heedful.nn.activations import Activation
from heedful.nn.attention import Attend, MultiHeadAttention, dot_product, fused_dot_product
from heedful.nn.norms import Normalise, Residual, fused_layer_norm, layer_norm


class Kernels(NamedTuple):
    """Which of two equal computations runs: the written-out reference or its fused twin."""

    attend: Attend
    normalise: Normalise


REFERENCE = Kernels(dot_product, layer_norm)
FUSED = Kernels(fused_dot_product, fused_layer_norm)


class FeedForward(nn.Module):
    """W₂ φ(W₁ x + b₁) + b₂, at each position alone."""

    def __init__(self, width: int, inner: int, activation: Activation) -> None:
        super().__init__()
        self.up = nn.Linear(width, inner)
        self.down = nn.Linear(inner, width)
        self.activation = activation

    def forward(self, x_btd: Tensor) -> Tensor:
        return self.down(self.activation(self.up(x_btd)))  # type: ignore[no-any-return]


class Block(nn.Module):
    """The two `Residual`s decide between pre- and post-norm, and hold the slots for adapters."""

    def __init__(
        self,
        attention: MultiHeadAttention,
        feed_forward: FeedForward,
        around_attention: Residual,
        around_feed_forward: Residual,
    ) -> None:
        super().__init__()
        self.attention = attention
        self.feed_forward = feed_forward
        self.around_attention = around_attention
        self.around_feed_forward = around_feed_forward

    def forward(
        self, x_btd: Tensor, mask: Tensor | None = None, read: slice | None = None, want_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """`read`: compute only these positions of the output, exactly; they still look at all positions of x."""
        h = self.around_attention.enter(x_btd)
        if read is None:
            y, weights = self.attention(h, mask=mask, want_weights=want_weights)
        else:
            x_btd = x_btd[:, read]
            if mask is not None and mask.shape[-2] > 1:
                mask = mask[..., read, :]
            t = torch.arange(h.shape[1], device=h.device)
            y, weights = self.attention(h[:, read], h, mask, (t[read], t), want_weights)
        x_btd = self.around_attention.leave(y, x_btd)
        y = self.feed_forward(self.around_feed_forward.enter(x_btd))
        return self.around_feed_forward.leave(y, x_btd), weights
