"""Texts as one rectangle of token ids: padded to the longest, or several short ones packed into each row."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """What a body reads, (b, t) each."""

    ids_bt: Tensor
    real_bt: Tensor | None = None
    """False on padding; None where there is none, which computes faster."""
    segments_bt: Tensor | None = None
    """None: every token is in segment 0."""
    positions_bt: Tensor | None = None
    """Where each token stands, as the body's table of positions counts; None: the body counts itself."""
    blocks_bt: Tensor | None = None
    """Which text of its row each token belongs to, counted from 1, 0 on padding; None: a row is one text."""


def pad(
    ids: Sequence[list[int]], segments: Sequence[list[int]] | None, pad_id: int | None, device: torch.device
) -> Batch:
    """On the right, to the longest. Segments are left out where all are 0, as they then change nothing."""
    lengths = [len(row) for row in ids]
    t = max(lengths)
    fill = pad_id or 0
    ids_bt = torch.tensor([row + [fill] * (t - len(row)) for row in ids], device=device)
    real_bt = segments_bt = None
    if min(lengths) < t:
        real_bt = torch.arange(t, device=device) < torch.tensor(lengths, device=device)[:, None]
    if segments is not None and any(1 in row for row in segments):
        segments_bt = torch.tensor([row + [0] * (t - len(row)) for row in segments], device=device)
    return Batch(ids_bt, real_bt, segments_bt)


@dataclass(frozen=True)
class Packed:
    batch: Batch
    spans: tuple[tuple[int, slice], ...]
    """Where each text stands, in the order in which they were given: its row, and from where to where."""

    def split(self, x_btd: Tensor) -> list[Tensor]:
        """The states (or whatever there is for each token) of each text, in the order in which they were given."""
        return [x_btd[row, span] for row, span in self.spans]


def pack(
    ids: Sequence[list[int]],
    segments: Sequence[list[int]] | None,
    pad_id: int | None,
    device: torch.device,
    room: int,
    first_position: int = 0,
) -> Packed:
    """Rows of at most `room` tokens, each text in the first row that still has room for it; no text is cut.

    A text sees itself alone, and its positions are counted anew from `first_position` (`Shape.first_position`).
    """
    rows: list[list[int]] = []  # the texts of each row
    used: list[int] = []
    spans: list[tuple[int, slice]] = []
    for text, tokens in enumerate(ids):
        if len(tokens) > room:
            raise ValueError(f"a text of {len(tokens)} tokens does not fit into rows of {room}")
        row = next((r for r, n in enumerate(used) if n + len(tokens) <= room), len(rows))
        if row == len(rows):
            rows.append([])
            used.append(0)
        spans.append((row, slice(used[row], used[row] + len(tokens))))
        rows[row].append(text)
        used[row] += len(tokens)
    t = max(used)

    def rectangle(values: Sequence[Sequence[int]], fill: int) -> Tensor:
        return torch.tensor([[*row, *[fill] * (t - len(row))] for row in values], device=device)

    blocks = [[n for n, text in enumerate(row, 1) for _ in ids[text]] for row in rows]
    positions = [[first_position + p for text in row for p in range(len(ids[text]))] for row in rows]
    blocks_bt = rectangle(blocks, 0)
    batch = Batch(
        ids_bt=rectangle([[i for text in row for i in ids[text]] for row in rows], pad_id or 0),
        real_bt=blocks_bt > 0 if min(used) < t else None,
        segments_bt=None
        if segments is None
        else rectangle([[i for text in row for i in segments[text]] for row in rows], 0),
        # Padding stands where the table has its row for padding, or at the beginning: nobody looks at it.
        positions_bt=rectangle(positions, max(first_position - 1, 0)),
        blocks_bt=blocks_bt,
    )
    return Packed(batch, tuple(spans))
