"""Into how many parts a step's rows are cut, and what its losses are computed in."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


def at_least_float32(scores: Tensor) -> Tensor:
    """For a loss: bfloat16 is too coarse there."""
    return scores.to(torch.promote_types(scores.dtype, torch.float32))


@dataclass(frozen=True)
class Parts:
    """Into how many parts the rows of a step are cut, and which of them are computed by this process."""

    count: int
    mine: range | None = None
    """Their numbers; None: all."""


def in_parts(rows: Sequence[int], parts: Parts) -> list[tuple[int, Sequence[int]]]:
    """The rows of a step in at most so many parts of equal size, the last one smaller: of those that are computed here
    the number, by which it is seeded, and the rows. There may be none, where rows are few."""
    size = -(-len(rows) // parts.count)
    every = enumerate(rows[at : at + size] for at in range(0, len(rows), size))
    return [(part, some) for part, some in every if parts.mine is None or part in parts.mine]
