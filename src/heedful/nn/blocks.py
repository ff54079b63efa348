"""One layer of a transformer: attention, perhaps to a memory too, then a feed-forward network; each inside its residual
wiring."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from heedful.nn.activations import Activation
from heedful.nn.attention import AttentionChanges, DotProduct, Keeps, KeysValues, Places, dot_product, fused_dot_product
from heedful.nn.initial import Scale, draw_linear
from heedful.nn.linear import Delta, Linear
from heedful.nn.norms import Normalise, Residual, Slot, add, fused_layer_norm, layer_norm

Read = slice | Tensor
"""Which rows of a text are computed: those of a slice; or one for each text, by its index (b), or several (b, r)."""
MemoryStates = Tensor | tuple[Tensor, ...]
MemoryMask = Tensor | tuple[Tensor | None, ...] | None
"""States of a memory, or of several for an attention that looks at several; and who may look at them."""


class Kernels(NamedTuple):
    """Which of two equal computations runs: the written-out reference or its fused twin."""

    attend: DotProduct
    normalise: Normalise


REFERENCE = Kernels(dot_product, layer_norm)
FUSED = Kernels(fused_dot_product, fused_layer_norm)


class FeedForward(nn.Module):
    """W₂ φ(W₁ x + b₁) + b₂, at each position alone."""

    def __init__(self, width: int, inner: int, activation: Activation) -> None:
        super().__init__()
        self.up = Linear(width, inner)
        self.down = Linear(inner, width)
        self.activation = activation

    def forward(self, x_btd: Tensor, up: Delta | None = None, down: Delta | None = None) -> Tensor:
        """`up`, `down`: low-rank changes of the two maps."""
        return self.down(self.activation(self.up(x_btd, up)), down)  # type: ignore[no-any-return]

    def draw(self, generator: torch.Generator, scale: Scale) -> None:
        draw_linear(self.up, generator, scale.sigma)
        draw_linear(self.down, generator, scale.residual)


class Kept(NamedTuple):
    """What one block keeps of what it looked at: of the text itself, and of the memory."""

    own: KeysValues
    memory: Keeps | None

    def reorder(self, index_b: Tensor) -> "Kept":
        return Kept(self.own.reorder(index_b), None if self.memory is None else self.memory.reorder(index_b))


class BlockOutput(NamedTuple):
    x_btd: Tensor
    weights: Tensor | None
    memory_weights: Tensor | None
    kept: Kept


@dataclass(frozen=True)
class BlockAdapters:
    """The adapters that one pass uses in one block."""

    attention: Slot = add
    """How attention's output joins the stream."""
    feed_forward: Slot = add
    changes: AttentionChanges | None = None
    """Low-rank changes of attention's maps; None: none."""
    up: Delta | None = None
    down: Delta | None = None
    """Low-rank changes of the feed-forward network's maps."""


NO_ADAPTERS = BlockAdapters()


class Block(nn.Module):
    """The `Residual`s decide between pre- and post-norm.

    `attention` is any kind of self-attention, see `heedful.nn.attention`; `memory_attention` is called as
    `MemoryAttention` is.
    """

    def __init__(
        self,
        attention: nn.Module,
        feed_forward: FeedForward,
        around_attention: Residual,
        around_feed_forward: Residual,
        memory_attention: nn.Module | None = None,
        around_memory_attention: Residual | None = None,
    ) -> None:
        super().__init__()
        self.attention = attention
        self.feed_forward = feed_forward
        self.around_attention = around_attention
        self.around_feed_forward = around_feed_forward
        self.memory_attention = memory_attention
        self.around_memory_attention = around_memory_attention

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
        adapters: BlockAdapters = NO_ADAPTERS,
    ) -> BlockOutput:
        """`read`: compute only these rows of the output, exactly; they still look at the whole text. `past`: the keys
        and values of the tokens before x, and of the memory. Without places, tokens are counted from 0."""
        h, whole = self.around_attention.enter(x_btd), None
        if read is not None:
            h, whole, mask, places = narrow_text(h, mask, places, read)
            x_btd, memory_mask = narrow(x_btd, read), narrow_memory_mask(memory_mask, read)
        own = None if past is None else past.own
        changes = {} if adapters.changes is None else {"changes": adapters.changes}
        y, weights, own = self.attention(h, whole, mask, places, own, want_weights, **changes)
        x_btd = self.around_attention.leave(y, x_btd, adapters.attention)
        memory_weights = from_memory = None
        if self.memory_attention is not None and self.around_memory_attention is not None:
            h = self.around_memory_attention.enter(x_btd)
            from_memory = None if past is None else past.memory
            y, memory_weights, from_memory = self.memory_attention(
                h, memory_bsm, memory_mask, from_memory, want_weights
            )
            x_btd = self.around_memory_attention.leave(y, x_btd)
        y = self.feed_forward(self.around_feed_forward.enter(x_btd), adapters.up, adapters.down)
        x_btd = self.around_feed_forward.leave(y, x_btd, adapters.feed_forward)
        return BlockOutput(x_btd, weights, memory_weights, Kept(own, from_memory))

    def draw(self, generator: torch.Generator, scale: Scale) -> None:
        self.attention.draw(generator, scale)  # type: ignore[operator]
        if self.memory_attention is not None:
            self.memory_attention.draw(generator, scale)  # type: ignore[operator]
        self.feed_forward.draw(generator, scale)
        for wiring in (self.around_attention, self.around_memory_attention, self.around_feed_forward):
            if wiring is not None:
                wiring.draw(generator)


def narrow_text(
    x_btd: Tensor, mask: Tensor | None, places: Places | None, read: Read
) -> tuple[Tensor, Tensor, Tensor | None, Places]:
    """What self-attention is given for the rows that are read: these rows, the whole text, their mask and places."""
    if places is None:
        t = torch.arange(x_btd.shape[1], device=x_btd.device)
        places = t, t
    return narrow(x_btd, read), x_btd, narrow_mask(mask, read), (narrow_places(places[0], read), places[1])


def narrow(x_btd: Tensor, read: Read) -> Tensor:
    """The rows that are read: (b, r, d)."""
    if isinstance(read, slice):
        return x_btd[:, read]
    return x_btd[_texts(read), _rows(read)]


def narrow_places(places: Tensor, read: Read) -> Tensor:
    """Of (t) or (b, t)."""
    if isinstance(read, slice):
        return places[..., read]
    return places[_rows(read)] if places.ndim == 1 else places.gather(1, _rows(read))


def narrow_mask(mask: Tensor | None, read: Read) -> Tensor | None:
    """The queries that are read, of a mask (b or 1, h or 1, t or 1, s)."""
    if mask is None or mask.shape[-2] == 1:
        return mask
    if isinstance(read, slice):
        return mask[..., read, :]
    texts = torch.zeros_like(_texts(read)) if len(mask) == 1 else _texts(read)
    return mask.transpose(1, 2)[texts, _rows(read)].transpose(1, 2)


def narrow_memory_mask(mask: MemoryMask, read: Read) -> MemoryMask:
    """The same for each memory."""
    return tuple(narrow_mask(m, read) for m in mask) if isinstance(mask, tuple) else narrow_mask(mask, read)


def _rows(read: Tensor) -> Tensor:
    """(b, r)."""
    return read[:, None] if read.ndim == 1 else read


def _texts(read: Tensor) -> Tensor:
    """(b, 1): the number of each text."""
    return torch.arange(len(read), device=read.device)[:, None]
