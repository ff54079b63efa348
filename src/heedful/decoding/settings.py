"""How tokens are chosen and when a text ends; checked when they are made. Does not wait for torch."""

import math
from dataclasses import dataclass

from heedful.errors import RequestError


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
            raise RequestError(f"temperature={self.temperature!r} is not a number from 0; 0 takes the likeliest token.")
        if self.top_k is not None and not _is_whole(self.top_k, 1):
            raise RequestError(f"top_k={self.top_k!r} is not a whole number from 1; leave it out to draw from all.")
        if self.top_p is not None and not (_is_number(self.top_p) and 0 < self.top_p <= 1):
            raise RequestError(
                f"top_p={self.top_p!r} is not a number above 0 and up to 1; leave it out for all tokens."
            )
        if not _is_whole(self.seed):
            raise RequestError(f"seed={self.seed!r} is not a whole number.")
        for name, value in (("top_k", self.top_k), ("top_p", self.top_p)):
            if self.greedy and value is not None:
                raise RequestError(
                    f"{name}={value} has no effect with temperature 0, which takes the likeliest token; leave one out."
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


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: object, least: float = -math.inf) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
