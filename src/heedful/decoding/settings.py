"""How tokens are chosen and when a text ends; checked when they are made. Does not wait for torch."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from heedful.errors import RequestError

LengthForm = Literal["power", "gnmt"]
Stopping = Literal["exact", "early", "heuristic"]
STEEPEST = 10
"""The most that a length penalty may be, either way."""


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen from its scores: temperature first, then top-k, then top-p on what is left."""

    temperature: float = 1.0
    """The scores are divided by it: below 1 likely tokens become likelier still. 0: always the likeliest (greedy)."""
    top_k: int | None = None
    """Only the so many likeliest tokens can be drawn, and any that tie with the last of them."""
    top_p: float | None = None
    """Only the fewest likeliest tokens that together have at least this probability can be drawn (the
    nucleus), and any that tie with the last of them."""
    seed: int = 0
    """Draws depend on it, on the number of the text and on the number of the token, on nothing else."""

    def __post_init__(self) -> None:
        if not _is_number(self.temperature) or not 0 <= self.temperature < math.inf:
            raise RequestError(
                f"temperature={self.temperature!r} is not a number of 0 or more. Use 0 for greedy decoding."
            )
        if self.top_k is not None and not _is_whole(self.top_k, 1):
            raise RequestError(
                f"top_k={self.top_k!r} is not a whole number of 1 or more. Remove it to sample from all tokens."
            )
        if self.top_p is not None and not (_is_number(self.top_p) and 0 < self.top_p <= 1):
            raise RequestError(
                f"top_p={self.top_p!r} is not a number above 0 and up to 1. Remove it to sample from all tokens."
            )
        if not _is_whole(self.seed):
            raise RequestError(f"seed={self.seed!r} is not a whole number.")
        for name, value in (("top_k", self.top_k), ("top_p", self.top_p)):
            if self.greedy and value is not None:
                raise RequestError(
                    f"{name}={value} has no effect with temperature 0, which is greedy. Remove one of them."
                )

    @property
    def greedy(self) -> bool:
        return self.temperature == 0


@dataclass(frozen=True)
class Limits:
    """When a text ends."""

    max_new_tokens: int = 50
    min_new_tokens: int = 0
    """Before so many no stop token can be chosen."""
    stop: frozenset[int] = frozenset()
    """The ids that end a text; the one that did is the last of its tokens."""
    max_length: int | None = None
    """The most tokens that the model reads, those of the prompt included; None: any number."""

    def __post_init__(self) -> None:
        if not _is_whole(self.max_new_tokens, 1):
            raise RequestError(f"max_new_tokens={self.max_new_tokens!r} is not a whole number from 1.")
        if not _is_whole(self.min_new_tokens, 0) or self.min_new_tokens > self.max_new_tokens:
            raise RequestError(
                f"min_new_tokens={self.min_new_tokens!r} is not a whole number from 0 to max_new_tokens, "
                f"{self.max_new_tokens}."
            )


@dataclass(frozen=True)
class Repetition:
    """How repetition in a text is discouraged; what counts is the prompt (for a translation its start token) and the
    tokens so far."""

    penalty: float = 1.0
    """Positive scores of tokens that occurred are divided by it and negative ones multiplied ("CTRL", 2019): above 1
    they become less likely. As in `transformers`, beam search of two texts or more applies it to log-probabilities."""
    ngram_size: int = 0
    """No sequence of this many tokens occurs twice; 0: any may."""

    def __post_init__(self) -> None:
        if not _is_number(self.penalty) or not 0 < self.penalty < math.inf:
            raise RequestError(f"repetition_penalty={self.penalty!r} is not a number above 0; 1 means no penalty.")
        if not _is_whole(self.ngram_size, 0):
            raise RequestError(f"no_repeat_ngram_size={self.ngram_size!r} is not a whole number of 0 or more.")

    @property
    def active(self) -> bool:
        return self.penalty != 1 or self.ngram_size > 0


@dataclass(frozen=True)
class Beam:
    """Beam search: of the texts that begin with the `width` likeliest beginnings, token by token, those of best score.

    The score of a text y with |y| tokens is log p(y) / lp(|y|) + cp(y). |y| counts every new token, as `transformers`
    does: the stop token that ended the text, and tokens with which it was made to begin. The penalties are those of
    "Google's Neural Machine Translation System" (2016), the form of lp by default Hugging Face's. While texts grow,
    they are ranked by log p(y) alone: all have the same length. A `Repetition` changes this log p(y).
    """

    width: int = 4
    """Texts that grow side by side. 1 is greedy: whatever the rule, the first stop token that is the likeliest ends
    the search."""
    n_best: int = 1
    """How many texts are wanted of each prompt, at most `width`."""
    length_penalty: float = 1.0
    """α in lp: above 0 long texts are favoured, at 0 the likeliest text wins, below 0 short texts are favoured."""
    length_form: LengthForm = "power"
    """lp(n): "power" is n^α, "gnmt" is ((5 + n) / 6)^α."""
    coverage_penalty: float = 0.0
    """β in cp(y) = β Σᵢ log min(Σⱼ aᵢⱼ, 1), where aᵢⱼ is how much of the attention that chose token j went to place i
    of the source: what nobody looked at is thought to be untranslated."""
    stopping: Stopping = "exact"
    """When a prompt is done, though texts could still grow.

    - "exact": `n_best` texts have ended, and none that grows could end with a better score than the last of these,
      even if each of its further tokens had the probability 1, at whatever length is best for it. The result is that
      of a search which goes on to the end. Hugging Face's early_stopping="never", which waits for `width` ended texts.
    - "heuristic": `width` texts have ended, and the best that grows would not beat the last of these if it were over
      now. Hugging Face's default, early_stopping=False. Above α = 0 that is wrong: a text's score can rise while it
      grows, and so better ones may be missed. It is quicker, the more so the farther away the most tokens are.
    - "early": `width` texts have ended, however good. Hugging Face's early_stopping=True. It may miss better texts at
      any α, and a wider beam may end with a worse one.
    """
    banned: frozenset[int] = frozenset()
    """Ids that are never chosen, such as those of padding; unless a text is made to begin with them."""
    renormalise: bool = False
    """Whether the tokens that can be chosen share the probability of those that cannot."""

    def __post_init__(self) -> None:
        if not _is_whole(self.width, 1):
            raise RequestError(f"beam={self.width!r} is not a whole number from 1.")
        if not _is_whole(self.n_best, 1) or self.n_best > self.width:
            raise RequestError(
                f"n_best={self.n_best!r} is not a whole number from 1 to beam, {self.width}; widen the beam for more."
            )
        if not _is_number(self.length_penalty) or not -STEEPEST <= self.length_penalty <= STEEPEST:
            raise RequestError(
                f"length_penalty={self.length_penalty!r} is not a number from −{STEEPEST} to {STEEPEST}."
            )
        if not _is_number(self.coverage_penalty) or not 0 <= self.coverage_penalty < math.inf:
            raise RequestError(f"coverage_penalty={self.coverage_penalty!r} is not a number from 0; 0 leaves it out.")
        for name, value, known in (
            ("length_form", self.length_form, get_args(LengthForm)),
            ("stopping", self.stopping, get_args(Stopping)),
        ):
            if value not in known:
                raise RequestError(f"{name}={value!r} is none of {', '.join(known)}.")

    def lp(self, length: int) -> float:
        """Of a text with so many tokens; it rises or falls with the length, but never both."""
        base = length if self.length_form == "power" else (5 + length) / 6
        return float(base**self.length_penalty)


def choose_method(
    sampling: Sampling, beam: int | None, n_best: int = Beam.n_best, length_penalty: float = Beam.length_penalty
) -> Sampling | Beam:
    """Beam search if `beam` is given. What would then have no effect, or has none without it, is refused."""
    if beam is None:
        for name, value, usual in (
            ("n_best", n_best, Beam.n_best),
            ("length_penalty", length_penalty, Beam.length_penalty),
        ):
            if value != usual:
                raise RequestError(f"{name}={value!r} has no effect without beam search; give a beam, too.")
        return sampling
    usual_sampling = Sampling()
    for name in ("temperature", "top_k", "top_p", "seed"):
        value = getattr(sampling, name)
        if value != getattr(usual_sampling, name):
            raise RequestError(
                f"{name}={value!r} has no effect with beam={beam!r}, since beam search does not sample. Remove one of "
                "them."
            )
    return Beam(beam, n_best, length_penalty)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: object, least: float = -math.inf) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
