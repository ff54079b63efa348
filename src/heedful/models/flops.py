"""Floating-point operations of a body, by formula."""

from collections.abc import Sequence

from heedful.models.kinds import ATTENTION_KINDS
from heedful.models.shape import Shape


def forward_flops(shape: Shape, lengths: Sequence[int], read: Sequence[int] | None = None) -> int:
    """One forward pass over texts of these lengths: two operations for each multiplication and addition of a matrix
    product, nothing else counted. `read`: for how many tokens of each text the last block is computed; None: all."""
    d, f, kind = shape.width, shape.inner, ATTENTION_KINDS[shape.attention]

    def block(n: int, rows: int) -> int:
        """One block over a text of n tokens, of which so many rows are computed."""
        each_row = kind.row_maps * d * d + 2 * d * f + kind.pair_products * n * d
        return 2 * (rows * each_row + n * kind.text_maps * d * d)

    last = lengths if read is None else read
    return sum((shape.layers - 1) * block(n, n) + block(n, rows) for n, rows in zip(lengths, last, strict=True))
