"""How a question is put to a language model, and what it says: in training, where a run is judged, and in probes.

A question is    begin question M    after which the answer and another M are expected (M: the mask token, or the one
that ends a text).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from heedful.decoding.generate import Continuation, generate
from heedful.decoding.settings import Limits, Sampling
from heedful.models.next_token import NextToken
from heedful.models.transformer import Transformer
from heedful.objectives.causal import first_of
from heedful.text.tokenizer import Tokenizer

ANSWER_TOKENS = 32
"""The longest answer that is waited for, unless a recipe says otherwise."""
_ROWS = 64  # questions at a time


@dataclass(frozen=True)
class QuestionForm:
    """The tokens around a question."""

    begin: tuple[int, ...]
    """None or one."""
    marker: int
    """M."""

    def prompt(self, question: Sequence[int]) -> list[int]:
        return [*self.begin, *question, self.marker]


def question_form(tokenizer: Tokenizer) -> QuestionForm | None:
    """None if no token can stand for M."""
    marker = first_of(tokenizer.mask_id, tokenizer.eos_id, tokenizer.sep_id)
    begin = first_of(tokenizer.bos_id, tokenizer.cls_id)
    return None if marker is None else QuestionForm(() if begin is None else (begin,), marker)


def say_answers(
    transformer: Transformer,
    head: str,
    prompts: Sequence[Sequence[int]],
    marker: int,
    most_tokens: int,
    device: torch.device | str,
) -> list[Continuation]:
    """What the model says, greedily, up to the marker."""
    limits = Limits(most_tokens, stop=frozenset([marker]), max_length=transformer.shape.longest)
    said: list[Continuation] = []
    for at in range(0, len(prompts), _ROWS):
        read = NextToken(transformer, head)
        said += generate(read, prompts[at : at + _ROWS], Sampling(temperature=0.0), limits, device=device)
    return said


def spelled(tokenizer: Tokenizer, answers: Sequence[str]) -> list[str]:
    """The answers as a model with this tokenizer can say them: one that folds case says no capitals."""
    return [tokenizer.decode(ids).strip() for ids in tokenizer.plain(list(answers))]
