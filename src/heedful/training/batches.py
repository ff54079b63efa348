"""Which rows form a step: a function of (seed, epoch) alone, so that a run can be continued anywhere."""

from collections.abc import Sequence

import numpy as np

from heedful.streams import shuffled

_POOL = 50  # batches' worth of rows that are sorted by length together: little padding, and still a fair shuffle


def epoch_batches(
    lengths: Sequence[int], seed: int, epoch: int, size: int, tokens: int | None = None
) -> list[list[int]]:
    """Every row once. By count (`size` rows, the last batch smaller), or by `tokens`: rows times longest row."""
    order = shuffled(len(lengths), seed, epoch, "rows")
    length = np.asarray(lengths)
    batches: list[list[int]] = []
    pool = size * _POOL if tokens is None else max(1, _POOL * tokens // max(1, int(length.mean())))
    for at in range(0, len(order), pool):
        rows = order[at : at + pool]
        rows = rows[np.argsort(-length[rows], kind="stable")]
        if tokens is None:
            batches += [rows[i : i + size].tolist() for i in range(0, len(rows), size)]
        else:
            batches += _by_tokens(rows.tolist(), lengths, tokens)
    return [batches[i] for i in shuffled(len(batches), seed, epoch, "batches")]


def _by_tokens(rows: list[int], lengths: Sequence[int], tokens: int) -> list[list[int]]:
    batches: list[list[int]] = []
    for row in rows:  # longest first, so a batch's first row is its longest
        if batches and (len(batches[-1]) + 1) * lengths[batches[-1][0]] <= tokens:
            batches[-1].append(row)
        else:
            batches.append([row])
    return batches


def padding_share(batches: Sequence[Sequence[int]], lengths: Sequence[Sequence[int]]) -> float:
    """Share of the positions computed that are padding; a row may have several chunks, each with its length."""
    held = [[length for row in batch for length in lengths[row]] for batch in batches]
    return 1 - sum(map(sum, held)) / sum(len(chunks) * max(chunks) for chunks in held)
