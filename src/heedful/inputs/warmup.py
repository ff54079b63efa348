"""Batches and texts that are small at first and grow: a quarter, then half, then the whole of what the recipe says."""

from heedful.recipes.schema import TrainingTable

_SHORTEST = 4  # tokens, special ones included


def rows_at(table: TrainingTable, share: float) -> int:
    """The rows of a step when this share of training is done."""
    return grown(table.batch_size, table.batch_warmup, share)


def length_at(table: TrainingTable, share: float) -> int:
    """The longest text, in tokens, when this share of training is done."""
    return max(min(_SHORTEST, table.max_length), grown(table.max_length, table.length_warmup, share))


def grown(whole: int, warmup: float, share: float) -> int:
    """A quarter of the whole in the first half of the warm-up, half of it in the second, then the whole; at least 1."""
    if share >= warmup:
        return whole
    return max(1, whole // (4 if share < warmup / 2 else 2))
