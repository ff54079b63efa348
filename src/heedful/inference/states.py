"""Rows of tokens as one batch, padded or packed, and which of their states are read.

Letters: b rows of the batch, t tokens, r of them read, n states that are wanted in all.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from heedful.models.batch import Batch, pack, pad
from heedful.models.body import States
from heedful.models.transformer import Transformer

_MOST_READ = 0.7  # of all tokens; where more are read, the whole last block is computed


@dataclass(frozen=True)
class Wanted:
    batch: Batch
    read_br: Tensor | None
    """Which tokens of each row of the batch are read, filled up with the first; None: all."""
    index_n: Tensor
    """Where what is wanted is among the states that are read, (b·r), row after row as they were given."""

    def states(self, transformer: Transformer, head: str) -> Tensor:
        """Return what is wanted (n, d), read as this head reads; of the last block no more is computed than that."""
        states: States = transformer.body(self.batch, self.read_br, adapters=transformer.through(head))
        return states.last.flatten(0, 1)[self.index_n]


def collate_rows(
    ids: Sequence[list[int]],
    segments: Sequence[list[int]] | None,
    places: Sequence[Sequence[int]],
    pad_id: int | None,
    device: torch.device,
    room: int | None = None,
    first_position: int = 0,
) -> Wanted:
    """`places`: of each row, the tokens whose states are wanted. `room`: several short rows share one of the batch, of
    at most so many tokens (see `pack`)."""
    if room is None:
        batch, starts = pad(ids, segments, pad_id, device), [(b, 0) for b in range(len(ids))]
    else:
        packed = pack(ids, segments, pad_id, device, room, first_position)
        batch, starts = packed.batch, [(b, span.start) for b, span in packed.spans]
    b, t = batch.ids_bt.shape
    if sum(map(len, places)) >= _MOST_READ * b * t:
        flat = [row * t + start + p for (row, start), some in zip(starts, places, strict=True) for p in some]
        return Wanted(batch, None, _indices(flat, device))
    wanted: list[list[int]] = [[] for _ in range(b)]
    firsts = []
    for (row, start), some in zip(starts, places, strict=True):
        firsts.append((row, len(wanted[row])))
        wanted[row] += [start + p for p in some]
    r = max(1, *map(len, wanted))  # at least one: not every kind of attention computes an empty last block
    read_br = _indices([row + [0] * (r - len(row)) for row in wanted], device)
    flat = [row * r + at + i for (row, at), some in zip(firsts, places, strict=True) for i in range(len(some))]
    return Wanted(batch, read_br, _indices(flat, device))


def _indices(numbers: list[int] | list[list[int]], device: torch.device) -> Tensor:
    """Whole numbers, also where there are none."""
    return torch.tensor(numbers, dtype=torch.long, device=device)
