"""Floating-point operations of a body, by formula."""

from collections.abc import Iterable

from heedful.models.shape import Shape


def forward_flops(shape: Shape, lengths: Iterable[int], one_read: bool = False) -> int:
    """One forward pass over texts of these lengths: two operations for each multiplication and addition of a matrix
    product, nothing else counted. `one_read`: the last block is computed for one token of each text alone."""
    d, f = shape.width, shape.inner
    total = 0
    for n in lengths:
        block = 2 * n * (4 * d * d + 2 * d * f) + 4 * n * n * d
        total += shape.layers * block
        if one_read:
            total -= 2 * (n - 1) * (2 * d * d + 2 * d * f) + 4 * (n - 1) * n * d
    return total
