"""Texts that beam search has ended, and when a prompt needs no more of them."""

from bisect import insort_right
from dataclasses import dataclass

from heedful.decoding.generate import Reason
from heedful.decoding.settings import Beam, Stopping


@dataclass(frozen=True)
class Hypothesis:
    """One text that beam search found to follow a prompt."""

    ids: list[int]
    """A stop token that ended it included."""
    log_probabilities: list[float]
    """Of each token under the model as it is, whatever was banned."""
    log_probability: float
    """Of the whole: their sum."""
    score: float
    """By which texts are ranked: see `Beam`."""
    reason: Reason


class Finished:
    """The best ended texts of one prompt, best first; of equal ones that which was found first."""

    def __init__(self, beam: Beam, longest: int) -> None:
        """`longest`: the most tokens that may follow the prompt."""
        self._beam, self._longest = beam, longest
        self._rule: Stopping = "early" if beam.width == 1 else beam.stopping
        self._places = beam.n_best if self._rule == "exact" else beam.width
        self.best: list[Hypothesis] = []

    @property
    def full(self) -> bool:
        return len(self.best) == self._places

    def takes(self, score: float) -> bool:
        return not self.full or score > self.best[-1].score

    def add(self, hypothesis: Hypothesis) -> None:
        insort_right(self.best, hypothesis, key=lambda other: -other.score)
        del self.best[self._places :]

    def closed(self, log_probability: float, length: int) -> bool:
        """Whether to stop, where the likeliest text that still grows has this log-probability and so many tokens."""
        if not self.full or self._rule == "early":
            return self.full
        lp = self._beam.lp
        if self._rule == "heuristic":
            attainable = log_probability / lp(length)
        else:
            # Further tokens add at most 0 to the sum and coverage at most 0 to the score; lp goes one way, so that the
            # best length is the shortest or the longest there can be.
            attainable = max(log_probability / lp(length + 1), log_probability / lp(self._longest))
        return self.best[-1].score >= attainable
