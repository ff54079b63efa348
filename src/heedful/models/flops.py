"""Floating-point operations of a body, by formula."""

from collections.abc import Sequence
from typing import NamedTuple

from heedful.models.kinds import ATTENTION_KINDS
from heedful.models.shape import Shape


class MemorySize(NamedTuple):
    """A memory that every block looks at: how wide its states are, and how many there are for each text."""

    width: int
    lengths: Sequence[int]


def forward_flops(
    shape: Shape, lengths: Sequence[int], read: Sequence[int] | None = None, memories: Sequence[MemorySize] = ()
) -> int:
    """One forward pass over texts of these lengths: two operations for each multiplication and addition of a matrix
    product, nothing else counted. `read`: for how many tokens of each text the last block is computed; None: all."""
    d, f, kind = shape.width, shape.inner, ATTENTION_KINDS[shape.attention]

    def block(text: int, rows: int) -> int:
        """One block over a text, of which so many rows are computed."""
        n = lengths[text]
        each_row = kind.row_maps * d * d + 2 * d * f + kind.pair_products * n * d
        looks = sum(rows * (2 * d * d + 2 * m[text] * d) + 2 * m[text] * width * d for width, m in memories)
        return 2 * (rows * each_row + n * kind.text_maps * d * d + looks)

    last = lengths if read is None else read
    return sum((shape.layers - 1) * block(i, lengths[i]) + block(i, last[i]) for i in range(len(lengths)))
