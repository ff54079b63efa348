"""Texts of several lengths as one rectangle."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Batch(NamedTuple):
    ids_bt: Tensor
    real_bt: Tensor | None
    """False on padding; None where there is none, which computes faster."""
    segments_bt: Tensor | None


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
