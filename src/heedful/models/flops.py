"""Floating-point operations of a body, by formula."""

from collections.abc import Iterable

from heedful.models.kinds import ATTENTION_KINDS
from heedful.models.shape import Shape


def forward_flops(shape: Shape, lengths: Iterable[int], one_read: bool = False) -> int:
    """One forward pass over texts of these lengths: two operations for each multiplication and addition of a matrix
    product, nothing else counted. `one_read`: the last block is computed for one token of each text alone."""
    d, f, kind = shape.width, shape.inner, ATTENTION_KINDS[shape.attention]

    def block(n: int, rows: int) -> int:
        """One block over a text of n tokens, of which so many rows are computed."""
        each_row = kind.row_maps * d * d + 2 * d * f + kind.pair_products * n * d
        return 2 * (rows * each_row + n * kind.text_maps * d * d)

    return sum((shape.layers - one_read) * block(n, n) + one_read * block(n, 1) for n in lengths)
