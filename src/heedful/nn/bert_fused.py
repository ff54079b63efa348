"""BERT-fused layers ("Incorporating BERT into Neural Machine Translation", Zhu et al., 2020, section 4).

Every layer of encoder and decoder looks at the states H_B of another model of the same text as well, beside its usual
attention:
    encoder: ½ (attn_S(h, H, H) + attn_B(h, H_B, H_B)),  H the layer's own input
    decoder: ½ (attn_E(s, H_E, H_E) + attn_B(s, H_B, H_B)),  H_E the encoder's output
and what the two make goes through one residual connection, as attention does.

Letters as in `attention`.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from heedful.nn.attention import KeysValues, MemoryAttention, Places
from heedful.nn.blocks import (
    BlockOutput,
    FeedForward,
    Kept,
    MemoryMask,
    MemoryStates,
    Read,
    narrow,
    narrow_memory_mask,
    narrow_text,
)
from heedful.nn.initial import Scale
from heedful.nn.norms import Residual


class DropNet(nn.Module):
    """The mean of two attentions. In training, one draw for each call: with probability p/2 the usual one alone, with
    p/2 the one beside it alone, else the mean.

    Both are computed whatever is drawn: the cost of a step, and which weights have gradients, do not depend on it.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"the probability of drop-net is from 0 to 1, not {p}")
        self.p = p

    def forward(self, usual_btd: Tensor, beside_btd: Tensor) -> Tensor:
        share = self._draw() if self.training and self.p else 0.5
        return share * usual_btd + (1 - share) * beside_btd

    def _draw(self) -> float:
        """The share of the usual one. From PyTorch's generator, on which a seeded step depends alone."""
        u = float(torch.rand(()))
        return 1.0 if u < self.p / 2 else 0.0 if u >= 1 - self.p / 2 else 0.5


class BothKept(NamedTuple):
    """The keys and values of two memories."""

    usual: KeysValues
    beside: KeysValues

    def reorder(self, index_b: Tensor) -> "BothKept":
        return BothKept(self.usual.reorder(index_b), self.beside.reorder(index_b))


class BothAttended(NamedTuple):
    """As `Attended`; the weights are those of the usual attention."""

    y_btd: Tensor
    weights_bhts: Tensor | None
    kept: BothKept


class BertFusedMemoryAttention(nn.Module):
    """In a decoder's layer, in the place of its attention to the encoder: called as `MemoryAttention` is, with two
    memories and two masks."""

    def __init__(self, usual: MemoryAttention, beside: MemoryAttention, drop_net: float) -> None:
        super().__init__()
        self.usual, self.beside = usual, beside
        self.drop_net = DropNet(drop_net)

    def forward(
        self,
        x_btd: Tensor,
        memory_bsm: tuple[Tensor, Tensor] | None = None,
        mask: tuple[Tensor | None, Tensor | None] | None = None,
        kept: BothKept | None = None,
        want_weights: bool = False,
    ) -> BothAttended:
        usual, beside = memory_bsm or (None, None)
        usual_mask, beside_mask = mask or (None, None)
        usual_kept, beside_kept = kept or (None, None)
        y, weights, usual_kept = self.usual(x_btd, usual, usual_mask, usual_kept, want_weights)
        y_beside, _, beside_kept = self.beside(x_btd, beside, beside_mask, beside_kept)
        return BothAttended(self.drop_net(y, y_beside), weights, BothKept(usual_kept, beside_kept))

    def draw(self, generator: torch.Generator, scale: Scale) -> None:
        self.usual.draw(generator, scale)
        self.beside.draw(generator, scale)


class BertFusedEncoderBlock(nn.Module):
    """An encoder's layer: called as `Block` is. Its memory stands beside its attention to itself, not after it."""

    def __init__(
        self,
        attention: nn.Module,
        beside: MemoryAttention,
        drop_net: float,
        feed_forward: FeedForward,
        around_attention: Residual,
        around_feed_forward: Residual,
    ) -> None:
        super().__init__()
        self.attention, self.beside = attention, beside
        self.drop_net = DropNet(drop_net)
        self.feed_forward = feed_forward
        self.around_attention = around_attention
        self.around_feed_forward = around_feed_forward

    def forward(
        self,
        x_btd: Tensor,
        mask: Tensor | None = None,
        places: Places | None = None,
        read: Read | None = None,
        memory_bsm: MemoryStates | None = None,
        memory_mask: MemoryMask = None,
        past: Kept | None = None,
        want_weights: bool = False,
    ) -> BlockOutput:
        h, whole = self.around_attention.enter(x_btd), None
        if read is not None:
            h, whole, mask, places = narrow_text(h, mask, places, read)
            x_btd, memory_mask = narrow(x_btd, read), narrow_memory_mask(memory_mask, read)
        own, from_memory = past or (None, None)
        y, weights, own = self.attention(h, whole, mask, places, own, want_weights)
        y_beside, memory_weights, from_memory = self.beside(h, memory_bsm, memory_mask, from_memory, want_weights)
        x_btd = self.around_attention.leave(self.drop_net(y, y_beside), x_btd)
        y = self.feed_forward(self.around_feed_forward.enter(x_btd))
        x_btd = self.around_feed_forward.leave(y, x_btd)
        return BlockOutput(x_btd, weights, memory_weights, Kept(own, from_memory))

    def draw(self, generator: torch.Generator, scale: Scale) -> None:
        self.attention.draw(generator, scale)  # type: ignore[operator]
        self.beside.draw(generator, scale)
        self.feed_forward.draw(generator, scale)
        self.around_attention.draw(generator)
        self.around_feed_forward.draw(generator)
