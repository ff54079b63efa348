"""What every body is asked and answers. `Stack` is the body there is; another (a recurrent network, say) fits if it

- is called as `Stack.forward` is and returns `States` (it may refuse a memory or a cache that it cannot use);
- has `embeddings.token`, the token table that tied heads read, and a `pooler`, which may be None;
- answers `parts()`: its parts by name in the order in which their weights are drawn, each a function of a generator.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from heedful.models.batch import Batch
from heedful.nn.blocks import Kept, MemoryMask


class States(NamedTuple):
    """`last` (b, t, d), or only the rows read; the others only if they were asked for."""

    last: Tensor
    layers: tuple[Tensor, ...] | None = None
    """The embeddings, then the states after each block."""
    weights: tuple[Tensor, ...] | None = None
    """The attention weights (b, h, t, s) of each block, where its kind of attention has any."""
    memory_weights: tuple[Tensor, ...] | None = None
    """The same of its attention to the memory."""
    cache: "Cache | None" = None
    """If one was given: that one with this call's tokens added."""


class Below(NamedTuple):
    """States (b, t, d) after the first `blocks` blocks, computed before: the blocks above go on from them."""

    x_btd: Tensor
    blocks: int


@dataclass(frozen=True)
class Memory:
    """What a body with cross attention looks at: another body's states, say."""

    states_bsm: Tensor
    real_bs: Tensor | None = None
    """As in `Batch`."""
    blocks_bs: Tensor | None = None
    """As in `Batch`; the text of a block sees the memory of the block with the same number."""
    beside: "Memory | None" = None
    """A second memory, for a body whose blocks look at two."""

    @property
    def rows(self) -> int:
        return len(self.states_bsm)

    def reorder(self, index_b: Tensor) -> "Memory":
        """Row i becomes what row index_b[i] was; a row may be taken several times, or not at all."""
        return Memory(
            self.states_bsm[index_b],
            None if self.real_bs is None else self.real_bs[index_b],
            None if self.blocks_bs is None else self.blocks_bs[index_b],
            None if self.beside is None else self.beside.reorder(index_b),
        )


@dataclass(frozen=True)
class Cache:
    """The keys and values of the tokens so far, and of the memory: a causal body goes on from them with new tokens.

    `Cache()` is the beginning. A cache is never changed: each call returns a longer one (`States.cache`).
    """

    layers: tuple[Kept, ...] = ()
    positions_bs: Tensor | None = None
    """Of the tokens so far; None: there are none yet."""
    real_bs: Tensor | None = None
    """As in `Batch`."""
    memory_mask: MemoryMask = None

    @property
    def rows(self) -> int:
        return 0 if self.positions_bs is None else len(self.positions_bs)

    @property
    def tokens(self) -> int:
        """How many there are so far in each row, padding included."""
        return 0 if self.positions_bs is None else self.positions_bs.shape[1]

    def reorder(self, index_b: Tensor) -> "Cache":
        """Row i becomes what row index_b[i] was; a row may be taken several times, or not at all."""
        return Cache(
            tuple(kept.reorder(index_b) for kept in self.layers),
            None if self.positions_bs is None else self.positions_bs[index_b],
            None if self.real_bs is None else self.real_bs[index_b],
            _reorder_mask(self.memory_mask, index_b),
        )

    def extend(self, batch: Batch, positions: Tensor, memory_mask: MemoryMask) -> "Cache":
        """With the places of the batch's tokens added; their keys and values are the blocks' to add."""
        real_bs, positions_bs = batch.real_bt, positions.expand(batch.ids_bt.shape)
        if self.positions_bs is not None:
            if self.real_bs is not None or real_bs is not None:
                past, new = (
                    torch.ones_like(p, dtype=torch.bool) if r is None else r.bool()
                    for r, p in ((self.real_bs, self.positions_bs), (real_bs, positions_bs))
                )
                real_bs = torch.cat([past, new], dim=1)
            positions_bs = torch.cat([self.positions_bs, positions_bs], dim=1)
        return replace(self, positions_bs=positions_bs, real_bs=real_bs, memory_mask=memory_mask)


def _reorder_mask(mask: MemoryMask, index_b: Tensor) -> MemoryMask:
    if isinstance(mask, tuple):
        return tuple(None if m is None else m[index_b] for m in mask)
    return None if mask is None else mask[index_b]
