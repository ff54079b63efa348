"""How a question is put to a language model, and what it says: in training, where a run is judged, and in probes.

A question is    begin question M    after which the answer and another M are expected (M: the mask token, or the one
that ends a text). A model that recalls (`Head.recalls`) says what it has read of the subject first, which may be
nothing, then M, and then the answer.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

import torch

from heedful.decoding.generate import Continuation, generate
from heedful.decoding.settings import Limits, Sampling
from heedful.models.next_token import NextToken
from heedful.models.transformer import Transformer
from heedful.text.tokenizer import Tokenizer

ANSWER_TOKENS = 32
"""The longest answer that is waited for, unless a recipe says otherwise."""
_ROWS = 64  # questions at a time
_DOCUMENTS = 1024  # at a time that are spelled
_SHOWN = 40  # characters of an answer


def first_of(*ids: int | None) -> int | None:
    """Return the first that is not None."""
    return next((i for i in ids if i is not None), None)


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


@dataclass(frozen=True)
class Answered:
    answer: Continuation
    """Its end included."""
    before: list[int]
    """What it follows: the prompt, what was recalled, and the marker after that."""
    recalled: list[int]


def say_answers(
    transformer: Transformer,
    head: str,
    prompts: Sequence[Sequence[int]],
    marker: int,
    most_tokens: int,
    device: torch.device | str,
    room: int = 0,
) -> list[Answered]:
    """What the model says, greedily, up to the marker: `most_tokens` of the answer, and before it as much as leaves
    place for them, or for `room` tokens if that is more."""
    longest, read = transformer.shape.longest, NextToken(transformer, head)

    def go_on(texts: Sequence[Sequence[int]], tokens: int, longest: int) -> list[Continuation]:
        said: list[Continuation] = []
        limits = Limits(tokens, stop=frozenset([marker]), max_length=longest)
        for at in range(0, len(texts), _ROWS):
            said += generate(read, texts[at : at + _ROWS], Sampling(temperature=0.0), limits, device=device)
        return said

    before, recalled = [list(prompt) for prompt in prompts], [list[int]() for _ in prompts]
    if transformer.head_shapes[head].recalls:
        most = longest - max(room, most_tokens) - 1
        able = [i for i, prompt in enumerate(prompts) if len(prompt) <= most]
        for i, one in zip(able, go_on([before[i] for i in able], longest, most), strict=True):
            recalled[i] = one.ids[:-1] if one.reason == "stop" else one.ids
            before[i] = [*before[i], *recalled[i], marker]
    answers = go_on(before, most_tokens, longest)
    return [Answered(*one) for one in zip(answers, before, recalled, strict=True)]


def stands_in(answer: str, texts: Iterable[str]) -> bool:
    """Whether one of the texts has the answer as whole words: London does not stand in Londonderry."""
    pattern = re.compile(rf"(?<!\w){re.escape(answer)}(?!\w)")
    return bool(answer) and any(pattern.search(text) for text in texts)


def spelled(tokenizer: Tokenizer, texts: Sequence[str]) -> list[str]:
    """The texts as a model with this tokenizer can say them: one that folds case says no capitals. What it cannot spell
    stands there as its unknown token."""
    return [tokenizer.decode(ids, skip_special=False).strip() for ids in tokenizer.plain(list(texts))]


def spelled_answers(tokenizer: Tokenizer, answers: Sequence[str]) -> list[str | None]:
    """The same of answers; None for one of which the tokenizer cannot spell every letter: nothing that a model says is
    that answer."""
    made: list[str | None] = []
    for answer, ids in zip(answers, tokenizer.plain(list(answers)), strict=True):
        text = tokenizer.decode(ids).strip()
        lost = tokenizer.unk_id in ids or not text or _letters(text) < _letters(answer)
        made.append(None if lost else text)
    return made


def _letters(text: str) -> int:
    """Without accents, which a tokenizer may take away from them."""
    return sum(character.isalnum() for character in unicodedata.normalize("NFKD", text.casefold()))


def spelled_text(tokenizer: Tokenizer, documents: Iterable[str]) -> str:
    """Documents as one text in which what is said can be looked for, a line or more for each."""
    if tokenizer.exact:
        return "\n".join(documents)
    remaining, lines = iter(documents), list[str]()
    while some := list(islice(remaining, _DOCUMENTS)):
        lines += spelled(tokenizer, some)
    return "\n".join(lines)


def said_text(tokenizer: Tokenizer, said: Answered, marker: int) -> str:
    """The answer without its end. An unknown token stands in it as such: the rest is not what was said."""
    ids = said.answer.ids[:-1] if said.answer.ids[-1:] == [marker] else said.answer.ids
    return tokenizer.decode(ids, skip_special=tokenizer.unk_id not in ids).strip()


def unspelled_note(name: str, answers: Sequence[str], made: Sequence[str | None]) -> str:
    """How many of a set's answers cannot be spelled (`spelled_answers`); nothing if all can."""
    lost = [answer for answer, text in zip(answers, made, strict=True) if text is None]
    if not lost:
        return ""
    return (
        f"{name}: {len(lost):,} of {len(answers):,} answers, such as {lost[0][:_SHOWN]!r}, have letters that the "
        "tokenizer cannot spell, so the model cannot answer them correctly."
    )
