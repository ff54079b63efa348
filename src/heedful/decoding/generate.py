"""Prompts continued token by token, several at a time; a text that has ended leaves the batch.

Letters: b texts, n tokens that the model has not read yet, v tokens in the vocabulary.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, Self, TypeVar

import torch
from torch import Tensor

from heedful.decoding.choosing import damaged, draw, log_probability, restrict
from heedful.decoding.repetition import discourage
from heedful.decoding.settings import Limits, Repetition, Sampling
from heedful.streams import uniform

Reason = Literal["stop", "max_new_tokens", "max_length"]
"""Why a text ended: with a stop token, or because it had as many new tokens as were asked for, or as many tokens as the
model reads."""


NO_PENALTY = Repetition()


class Past(Protocol):
    """What a model keeps of the tokens that it has read, a row for each text."""

    def reorder(self, index_b: Tensor) -> Self:
        """Row i becomes what row index_b[i] was; a row may be taken several times, or not at all."""
        ...


P = TypeVar("P", bound=Past)


class Reader(Protocol[P]):
    """Reads new tokens after those of the past: the scores (b, v) of what follows the last, and the longer past.

    `real_bn` is False on padding, which stands before a prompt alone; None: there is none. `past` is None at the
    beginning.
    """

    def __call__(self, ids_bn: Tensor, real_bn: Tensor | None, past: P | None, /) -> tuple[Tensor, P]: ...


@dataclass
class Continuation:
    """What was added to one prompt."""

    ids: list[int] = field(default_factory=list)
    """A stop token that ended it included."""
    log_probabilities: list[float] = field(default_factory=list)
    """Of each token under the model as it is: without temperature, restrictions or a minimal length."""
    reason: Reason = "max_new_tokens"


@torch.inference_mode()
def generate(
    read: Reader[P],
    prompts: Sequence[Sequence[int]],
    sampling: Sampling,
    limits: Limits,
    rows: Sequence[int] | None = None,
    on_token: Callable[[int, int], None] | None = None,
    device: torch.device | str = "cpu",
    repetition: Repetition = NO_PENALTY,
) -> list[Continuation]:
    """Each prompt needs a token, and at most `limits.max_length`; one with exactly so many gets no token.

    `rows` are the numbers of the texts on which their draws depend (default: 0, 1, …): with them, a text comes out the
    same whatever else is in the batch. `on_token` is called with the place of a text in `prompts` and each new token.
    """
    rows = range(len(prompts)) if rows is None else rows
    results = [Continuation() for _ in prompts]
    room = [tokens_left(prompt, limits) for prompt in prompts]
    for result, free in zip(results, room, strict=True):
        result.reason = longest_reason(free, limits)
    active = [i for i, free in enumerate(room) if free > 0]
    if not active:
        return results
    stop = torch.tensor(sorted(limits.stop), dtype=torch.long, device=device)
    ids_bn, real_bn = pad_left([prompts[i] for i in active], device)
    past: P | None = None
    for number in range(limits.max_new_tokens):
        scores_bv, past = read(ids_bn, real_bn, past)
        allowed_bv = scores_bv if number >= limits.min_new_tokens else scores_bv.index_fill(1, stop, -torch.inf)
        if repetition.active:
            allowed_bv = discourage(allowed_bv, [[*prompts[i], *results[i].ids] for i in active], repetition)
        chosen_b = choose(allowed_bv, sampling, [rows[i] for i in active], number)
        kept = []
        log_p = log_probability(scores_bv, chosen_b).tolist()
        for at, (i, token, log_p_token) in enumerate(zip(active, chosen_b.tolist(), log_p, strict=True)):
            if not math.isfinite(log_p_token):
                raise damaged()
            results[i].ids.append(token)
            results[i].log_probabilities.append(log_p_token)
            if on_token is not None:
                on_token(i, token)
            if token in limits.stop:
                results[i].reason = "stop"
            elif number + 1 < room[i]:
                kept.append(at)
        if not kept:
            break
        if len(kept) < len(active):
            index_b = torch.tensor(kept, device=device)
            active, chosen_b, past = [active[at] for at in kept], chosen_b[index_b], past.reorder(index_b)
        ids_bn, real_bn = chosen_b[:, None], None
    return results


def choose(scores_bv: Tensor, sampling: Sampling, rows: Sequence[int], number: int) -> Tensor:
    """(b): the token that comes as number so and so in the texts with these numbers."""
    if sampling.greedy:
        return scores_bv.argmax(-1)
    drawn = [uniform(sampling.seed, row, number, "generate") for row in rows]
    return draw(restrict(scores_bv, sampling), torch.tensor(drawn, dtype=torch.float64, device=scores_bv.device))


def pad_left(prompts: Sequence[Sequence[int]], device: torch.device | str) -> tuple[Tensor, Tensor | None]:
    """(b, n) to the longest, and where there are tokens; None if everywhere."""
    n = max(map(len, prompts))
    ids_bn = torch.tensor([[*[0] * (n - len(prompt)), *prompt] for prompt in prompts], device=device)
    if all(len(prompt) == n for prompt in prompts):
        return ids_bn, None
    first_b = torch.tensor([n - len(prompt) for prompt in prompts], device=device)
    return ids_bn, torch.arange(n, device=device) >= first_b[:, None]


def tokens_left(prompt: Sequence[int], limits: Limits) -> int:
    """How many tokens may follow."""
    if not prompt:
        raise ValueError("a prompt without tokens has nothing after which a token could come")
    if limits.max_length is None:
        return limits.max_new_tokens
    if len(prompt) > limits.max_length:
        raise ValueError(f"a prompt of {len(prompt)} tokens is longer than max_length, {limits.max_length}")
    return min(limits.max_new_tokens, limits.max_length - len(prompt))


def longest_reason(left: int, limits: Limits) -> Reason:
    """Why a prompt after which so many tokens may follow gets no more than these."""
    return "max_length" if left < limits.max_new_tokens else "max_new_tokens"
