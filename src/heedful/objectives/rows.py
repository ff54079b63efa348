"""Which rows form a step: a function of (seed, epoch) alone, so that a run can be continued anywhere."""

from collections.abc import Sequence

import numpy as np

from heedful.streams import shuffled

_POOL = 50  # batches' worth of rows that are sorted by length together: little padding, and still a fair shuffle


class EpochRows:
    """The rows of every step of every epoch: each row once in an epoch, rows of similar length together.

    By count (`size` rows, the last batch smaller), or by `tokens`: rows times longest row.
    """

    def __init__(self, lengths: Sequence[int], seed: int, size: int, tokens: int | None = None) -> None:
        self.lengths, self.seed, self.size, self.tokens = lengths, seed, size, tokens
        self._ends: list[int] = []
        self._epoch = -1
        self._batches: list[list[int]] = []

    def steps(self, epoch: int) -> int:
        if self.tokens is None:
            return -(-len(self.lengths) // self.size)
        return len(self.batches(epoch))

    def of_step(self, number: int) -> list[int]:
        """The rows of step `number`, counted from 0 over all epochs."""
        while not self._ends or self._ends[-1] <= number:
            self._ends.append((self._ends[-1] if self._ends else 0) + self.steps(len(self._ends)))
        epoch = int(np.searchsorted(self._ends, number, side="right"))
        if epoch != self._epoch:
            self._epoch, self._batches = epoch, self.batches(epoch)
        return self._batches[number - (self._ends[epoch - 1] if epoch else 0)]

    @property
    def epoch(self) -> int:
        """That of the step that was asked for last."""
        return self._epoch

    def batches(self, epoch: int) -> list[list[int]]:
        order = shuffled(len(self.lengths), self.seed, epoch, "rows")
        length = np.asarray(self.lengths)
        batches: list[list[int]] = []
        per_row = max(1, int(length.mean()))
        pool = self.size * _POOL if self.tokens is None else max(1, _POOL * self.tokens // per_row)
        for at in range(0, len(order), pool):
            rows = order[at : at + pool]
            rows = rows[np.argsort(-length[rows], kind="stable")]
            if self.tokens is None:
                batches += [rows[i : i + self.size].tolist() for i in range(0, len(rows), self.size)]
            else:
                batches += by_tokens(rows.tolist(), self.lengths, self.tokens)
        return [batches[i] for i in shuffled(len(batches), self.seed, epoch, "batches")]


def by_tokens(rows: list[int], lengths: Sequence[int], tokens: int) -> list[list[int]]:
    """Rows, given the longest first, in batches of at most so many tokens, padding included; at least one row each."""
    batches: list[list[int]] = []
    for row in rows:  # longest first, so a batch's first row is its longest
        if batches and (len(batches[-1]) + 1) * lengths[batches[-1][0]] <= tokens:
            batches[-1].append(row)
        else:
            batches.append([row])
    return batches


def padding_share(batches: Sequence[Sequence[int]], lengths: Sequence[Sequence[int]]) -> float:
    """Share of the positions computed that are padding; a row may have several chunks, each with its length."""
    chunks = [[length for row in batch for length in lengths[row]] for batch in batches]
    return 1 - sum(map(sum, chunks)) / sum(len(batch) * max(batch) for batch in chunks)
