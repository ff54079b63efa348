"""Which rows form a step: a function of (seed, epoch) alone, so that a run can be continued anywhere."""

from collections.abc import Sequence

import numpy as np

from heedful.streams import shuffled

_POOL = 50  # batches' worth of rows that are sorted by length together: little padding, and still a fair shuffle


class EpochRows:
    """The rows of every step of every epoch: each row once in an epoch, rows of similar length together.

    By count (`size` rows, the last batch smaller), or by `tokens`: rows times longest row. Where a row has two texts
    that are padded apart, as a target and its source, `beside` are the lengths of the other ones; then rows are alike
    in both lengths, and neither side of a batch has more than `tokens`.
    """

    def __init__(
        self,
        lengths: Sequence[int],
        seed: int,
        size: int,
        tokens: int | None = None,
        beside: Sequence[int] | None = None,
    ) -> None:
        self.lengths, self.seed, self.size, self.tokens, self.beside = lengths, seed, size, tokens, beside
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
    def mean_rows(self) -> float | None:
        """Of a step, about, where steps are measured by tokens; None: `size`, or fewer in the last of an epoch."""
        if self.tokens is None:
            return None
        longest = self.lengths if self.beside is None else np.maximum(self.lengths, self.beside)
        return max(1.0, self.tokens / float(np.mean(longest)))

    @property
    def epoch(self) -> int:
        """That of the step that was asked for last."""
        return self._epoch

    def batches(self, epoch: int) -> list[list[int]]:
        order = shuffled(len(self.lengths), self.seed, epoch, "rows")
        length = np.asarray(self.lengths)
        longest = length if self.beside is None else np.maximum(length, self.beside)
        counted = longest.tolist()
        batches: list[list[int]] = []
        per_row = max(1, int(longest.mean()))
        pool = self.size * _POOL if self.tokens is None else max(1, _POOL * self.tokens // per_row)
        for at in range(0, len(order), pool):
            rows = order[at : at + pool]
            # By the longer side, which the tokens are counted by, then by the other; equal ones stay shuffled.
            rows = rows[np.lexsort((-length[rows], -longest[rows]))]
            if self.tokens is None:
                batches += [rows[i : i + self.size].tolist() for i in range(0, len(rows), self.size)]
            else:
                batches += by_tokens(rows.tolist(), counted, self.tokens)
        return [batches[i] for i in shuffled(len(batches), self.seed, epoch, "batches")]


def by_tokens(rows: Sequence[int], lengths: Sequence[int], tokens: int) -> list[list[int]]:
    """Rows in their order, in batches of at most so many tokens, padding included; at least one row each."""
    batches: list[list[int]] = []
    longest = 0
    for row in rows:
        longest = max(longest, lengths[row])
        if batches and (len(batches[-1]) + 1) * longest <= tokens:
            batches[-1].append(row)
        else:
            batches.append([row])
            longest = lengths[row]
    return batches


def padding_share(batches: Sequence[Sequence[int]], *sides: Sequence[Sequence[int]]) -> float:
    """Share of the positions computed that are padding; a row may have several chunks, each with its length. Several
    `sides` are padded apart."""
    real = computed = 0
    for lengths in sides:
        chunks = [[length for row in batch for length in lengths[row]] for batch in batches]
        real += sum(map(sum, chunks))
        computed += sum(len(batch) * max(batch) for batch in chunks)
    return 1 - real / computed
