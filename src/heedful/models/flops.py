"""Floating-point operations of a body, by formula."""

from collections.abc import Sequence

from heedful.models.shape import Shape


def forward_flops(shape: Shape, lengths: Sequence[int], read: Sequence[int] | None = None) -> int:
    """One forward pass over texts of these lengths: two operations for each multiplication and addition of a matrix
    product, nothing else counted. `read`: for how many tokens of each text the last block is computed; None: all."""
    d, f = shape.width, shape.inner
    total = 0
    for i, n in enumerate(lengths):
        block = 2 * n * (4 * d * d + 2 * d * f) + 4 * n * n * d
        total += shape.layers * block
        if read is not None:
            unread = n - read[i]
            total -= 2 * unread * (2 * d * d + 2 * d * f) + 4 * unread * n * d
    return total
