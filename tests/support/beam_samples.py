"""Language models that hang on every token before, and the texts that they have: all of them, or those that a beam
search written with plain lists finds."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from heedful.decoding.coverage import SourceWeights
from heedful.decoding.settings import Beam, Limits
from tests.support.generation_samples import Last

LogP = Callable[[tuple[int, ...]], list[float]]
"""From a whole text to the log-probabilities of what follows."""
Looks = Callable[[tuple[int, ...]], list[float]]
"""From a whole text to the weights of its source when the next token is chosen."""


@lru_cache(maxsize=100_000)
def drawn_scores(vocabulary: int, seed: int, whole: bool, text: tuple[int, ...]) -> Tensor:
    drawn = np.random.default_rng([seed, vocabulary, *text]).normal(size=vocabulary) * 2
    return torch.from_numpy(np.round(drawn / 2) if whole else drawn)


@lru_cache(maxsize=100_000)
def drawn_weights(seed: int, text: tuple[int, ...]) -> Tensor:
    """A source has one to three places, as the first token of the prompt says."""
    return torch.from_numpy(np.random.default_rng([7, seed, *text]).dirichlet([0.4] * (1 + text[0] % 3)))


@dataclass
class PrefixModel:
    """Scores are drawn for each beginning of a text."""

    vocabulary: int
    seed: int = 0
    whole: bool = False
    """Scores are whole numbers: many texts are equally likely."""
    batches: list[int] = field(default_factory=list)
    """How many rows were read, call by call."""

    def __call__(self, ids_rn: Tensor, real_rn: Tensor | None, past: Last | None) -> tuple[Tensor, Last]:
        self.batches.append(len(ids_rn))
        real_rn = torch.ones_like(ids_rn, dtype=torch.bool) if real_rn is None else real_rn
        before: Sequence[tuple[int, ...]] = [()] * len(ids_rn) if past is None else past.read
        texts = tuple(
            (*old, *new[real].tolist()) for old, new, real in zip(before, ids_rn, real_rn.bool(), strict=True)
        )
        return torch.stack([drawn_scores(self.vocabulary, self.seed, self.whole, text) for text in texts]), Last(texts)

    def log_p(self, text: tuple[int, ...]) -> list[float]:
        return drawn_scores(self.vocabulary, self.seed, self.whole, text).log_softmax(-1).tolist()


class AttendingModel(PrefixModel):
    def attend(self, ids_rn: Tensor, real_rn: Tensor | None, past: Last | None) -> tuple[Tensor, Last, SourceWeights]:
        scores, past = self(ids_rn, real_rn, past)
        weights = torch.zeros(len(ids_rn), 3, dtype=torch.float64)
        real = torch.zeros(len(ids_rn), 3, dtype=torch.bool)
        for row, text in enumerate(past.read):
            drawn = drawn_weights(self.seed, text)
            weights[row, : len(drawn)], real[row, : len(drawn)] = drawn, True
        return scores, past, SourceWeights(weights, real)

    def looks(self, text: tuple[int, ...]) -> list[float]:
        return drawn_weights(self.seed, text).tolist()


class Text(NamedTuple):
    score: float
    ids: list[int]
    log_p: list[float]
    reason: str


@dataclass(frozen=True)
class Request:
    """One prompt and what is asked of it."""

    prompt: Sequence[int]
    beam: Beam
    limits: Limits
    prefix: Sequence[int] = ()

    @property
    def room(self) -> int:
        longest = self.limits.max_length
        return self.limits.max_new_tokens if longest is None else min(
            self.limits.max_new_tokens, longest - len(self.prompt)
        )  # fmt: skip

    def following(self, log_p: LogP, ids: Sequence[int]) -> Iterator[tuple[int, float]]:
        """The tokens that may come next, with their log-probabilities."""
        banned = set(self.beam.banned) | (set(self.limits.stop) if len(ids) < self.limits.min_new_tokens else set())
        for token, value in enumerate(log_p((*self.prompt, *ids))):
            forced = len(ids) < len(self.prefix)
            if (token == self.prefix[len(ids)] if forced else token not in banned) and value > -np.inf:
                yield token, value

    def reason(self, ids: Sequence[int]) -> str | None:
        """None: the text goes on."""
        if ids and ids[-1] in self.limits.stop:
            return "stop"
        if len(ids) == self.room:
            return "max_new_tokens" if self.room == self.limits.max_new_tokens else "max_length"
        return None

    def score(self, ids: Sequence[int], total: float, looks: Looks | None) -> float:
        """The formulas, written out."""
        n, alpha, beta = len(ids), self.beam.length_penalty, self.beam.coverage_penalty
        if n == 0:
            return 0.0
        score = total / (n**alpha if self.beam.length_form == "power" else (5 + n) ** alpha / 6**alpha)
        if looks is not None:
            a = np.array([looks((*self.prompt, *ids[:j])) for j in range(n)])
            score += beta * float(np.log(np.minimum(a.sum(0), 1)).sum())
        return score


def all_texts(request: Request, log_p: LogP, looks: Looks | None = None) -> list[Text]:
    """Every text that there is, best first."""
    found = []

    def visit(ids: list[int], log_ps: list[float]) -> None:
        if (reason := request.reason(ids)) is not None:
            found.append(Text(request.score(ids, sum(log_ps), looks), ids, log_ps, reason))
            return
        for token, value in request.following(log_p, ids):
            visit([*ids, token], [*log_ps, value])

    visit([], [])
    return sorted(found, key=lambda text: -text.score)


def plain_beam(request: Request, log_p: LogP, looks: Looks | None = None) -> list[Text]:
    """Of a search that goes on to the end, unless the rule is another than "exact"; best first."""
    beam = request.beam
    rule = "early" if beam.width == 1 else beam.stopping
    growing: list[tuple[float, list[int], list[float]]] = [(0.0, [], [])]
    found: list[Text] = []
    if request.room == 0:
        return [Text(0.0, [], [], "max_length")]
    while growing:
        candidates = [
            (total + value, parent, token, [*ids, token], [*log_ps, value])
            for parent, (total, ids, log_ps) in enumerate(growing)
            for token, value in request.following(log_p, ids)
        ]
        candidates.sort(key=lambda candidate: (-candidate[0], *candidate[1:3]))
        growing = []
        for rank, (total, _, _, ids, log_ps) in enumerate(candidates):
            reason = request.reason(ids)
            if reason is None and len(growing) < beam.width:
                growing.append((total, ids, log_ps))
            elif reason is not None and rank < beam.width:
                found.append(Text(request.score(ids, total, looks), ids, log_ps, reason))
        found.sort(key=lambda text: -text.score)
        if rule != "exact" and len(found) >= beam.width:
            last = found[beam.width - 1].score
            if rule == "early" or (growing and last >= growing[0][0] / beam.lp(len(growing[0][1]))):
                break
    return found[: beam.n_best]
