"""Rows of tokens as one batch, padded or packed: which of their states are read, and the words asked for there.

Letters: b rows of the batch, t tokens, r of them read, n states that are wanted in all.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from heedful.inference.reader import TextReader
from heedful.models.batch import Batch, pack, pad
from heedful.models.body import States
from heedful.models.transformer import Transformer

Ints = npt.NDArray[np.int64]
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


@dataclass(frozen=True)
class Row:
    ids_t: Ints
    places_n: Ints
    """At which tokens a word is asked for."""
    words_n: Ints
    """Which it is."""
    segments_t: Ints | None = None


@dataclass(frozen=True)
class RowLayout:
    """How rows become a batch."""

    pad_id: int | None
    first_position: int = 0
    room: int | None = None
    """Maximum number of tokens in a row of the batch, which several short rows share; None: each has its own."""

    def collate(self, rows: Sequence[Row], device: torch.device, first: bool = False) -> Wanted:
        """Return the batch and which of its states are wanted; `first`: of each row that of its first token too, before
        those of its words."""
        segments = [row.segments_t.tolist() for row in rows if row.segments_t is not None]
        return collate_rows(
            [row.ids_t.tolist() for row in rows],
            segments or None,
            [[*([0] if first else []), *row.places_n.tolist()] for row in rows],
            self.pad_id,
            device,
            self.room,
            self.first_position,
        )


def words_of(rows: Sequence[Row]) -> Ints:
    """Return the words that are asked for in some rows."""
    return np.concatenate([np.zeros(0, np.int64), *(row.words_n for row in rows)]).astype(np.int64)


def gold_words(rows: Sequence[Row], device: torch.device) -> Tensor:
    """Return the same as a tensor (n)."""
    return torch.from_numpy(np.concatenate([row.words_n for row in rows])).to(device)


def word_scores(reader: TextReader, head: str, x_nd: Tensor) -> Tensor:
    """Return what a head over the token table says of some states (n, v)."""
    model = reader.transformer
    return model.heads[head](x_nd, model.body.embeddings.token.weight)  # type: ignore[no-any-return]
