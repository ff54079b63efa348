"""Which task each step of a mixture asks: from (seed, step) alone, so that a run can be continued anywhere."""

from collections.abc import Callable, Sequence

from heedful.streams import uniform

EXPONENTS = {"uniform": 0.0, "square-root": 0.5, "proportional": 1.0}
"""A task is drawn with a probability as its number of training rows to this power."""
_FALL = 0.8  # of the exponent of "annealed" over the whole of training (Stickland and Murray, 2019)


def annealed(done: float) -> float:
    """The exponent when this share of training is done: from 1, by rows, down to 0.2, almost alike."""
    return 1 - _FALL * done


def shares(rows: Sequence[int], exponent: float) -> list[float]:
    """The probability of each task, given its training rows."""
    weights = [count**exponent for count in rows]
    return [weight / sum(weights) for weight in weights]


class TaskDraws:
    """The task of each step, and which of the task's own steps it is."""

    def __init__(self, seed: int, rows: Sequence[int], exponent: Callable[[int], float]) -> None:
        """`exponent` of each step: see `shares`."""
        self.seed, self.rows, self.exponent = seed, rows, exponent
        self._drawn: list[tuple[int, int]] = []
        self._counts = [0] * len(rows)
        self._shares: dict[float, list[float]] = {}

    def of_step(self, number: int) -> tuple[int, int]:
        """The task's place in the list, and how often it was asked before."""
        while len(self._drawn) <= number:
            task = self._draw(len(self._drawn))
            self._drawn.append((task, self._counts[task]))
            self._counts[task] += 1
        return self._drawn[number]

    def _draw(self, number: int) -> int:
        exponent = self.exponent(number)
        if exponent not in self._shares:
            self._shares = {exponent: shares(self.rows, exponent)}  # it rises or falls, and does not come back
        point = uniform(self.seed, number, "task")
        for task, share in enumerate(self._shares[exponent]):
            point -= share
            if point < 0:
                return task
        return len(self.rows) - 1
