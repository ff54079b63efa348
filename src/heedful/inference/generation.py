"""Texts from a language model: prompts as texts in, continuations as texts out."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from heedful.checkpoints.dialect import SLOTS
from heedful.decoding.beam import beam_search
from heedful.decoding.finished import Hypothesis
from heedful.decoding.generate import Continuation, Reason, generate
from heedful.decoding.settings import Beam, Limits, Repetition, Sampling
from heedful.errors import RequestError
from heedful.inference.batching import BatchRule, batches
from heedful.inference.given_texts import check_batch_size
from heedful.inference.predictor import TransformerModel
from heedful.models.composition import Composition
from heedful.models.next_token import NextToken
from heedful.models.transformer import Transformer, evaluating
from heedful.text.continuing import ContinuedText, continuation, encode_prompts
from heedful.text.rows import list_texts
from heedful.text.tokenizer import Tokenizer

OnText = Callable[[int, str], None]
"""Told the number of a prompt and the next piece of its text, whole characters."""
_SHOWN = 40  # characters of a prompt


@dataclass(frozen=True)
class RankedText:
    """One of the best texts that beam search found for a prompt; the fields are as in `Generated`."""

    text: str
    tokens: list[int]
    log_probabilities: npt.NDArray[np.float64]
    score: float
    """The sum of these by the number of tokens to the power of the length penalty: by it texts are ranked. A repetition
    penalty changes what is added up."""
    reason: Reason


@dataclass(frozen=True, repr=False)
class Generated:
    """One entry for each prompt, in their order; with beam search, of its best text."""

    prompts: list[str]
    texts: list[str]
    """What follows each prompt, without the prompt and without a stop token."""
    tokens: list[list[int]]
    """The ids of what follows; a stop token that ended it is the last."""
    log_probabilities: list[npt.NDArray[np.float64]]
    """Of each of these tokens under the model as it is, whatever the temperature or a repetition penalty."""
    reasons: list[Reason]
    """Why each ended: "stop" (a stop token), "max_new_tokens", or "max_length" (the model reads no longer text)."""
    n_best: list[list[RankedText]] = field(default_factory=list)
    """With beam search: of each prompt as many texts as were asked for, best first. Without it there are none."""

    def __len__(self) -> int:
        return len(self.texts)

    def __repr__(self) -> str:
        lines = [f"<{len(self)} generated {'text' if len(self) == 1 else 'texts'}>"]
        columns = self.prompts, self.texts, self.log_probabilities, self.reasons
        for row, (prompt, text, log_p, reason) in enumerate(zip(*columns, strict=True)):
            start = prompt if len(prompt) <= _SHOWN else f"…{prompt[-_SHOWN:]}"
            lines.append(f"{start!r} → {_described(text, log_p, reason)}")
            further = self.n_best[row][1:] if self.n_best else []
            for rank, other in enumerate(further, 2):
                lines.append(f"  {rank}. {_described(other.text, other.log_probabilities, other.reason)}")
        return "\n".join(lines)


def _described(text: str, log_p: npt.NDArray[np.float64], reason: Reason) -> str:
    count = f"{len(log_p)} {'token' if len(log_p) == 1 else 'tokens'}"
    return f"{text!r} ({count}, log p {log_p.sum():.2f}, {reason})"


class Prompt(NamedTuple):
    text: str
    ids: list[int]


def language_model_head(transformer: Transformer) -> str | None:
    """Return the head that scores what comes next: that with the usual name, where there are several."""
    named = [name for name, head in transformer.head_shapes.items() if head.kind == "language-model"]
    usual = SLOTS["language-model"]
    return usual if usual in named else next(iter(named), None)


class TextGenerator:
    """A model that continues texts. A model that cannot, and prompts that it cannot read, are refused before the work
    begins."""

    def __init__(self, model: TransformerModel) -> None:
        transformer, head = model.transformer, language_model_head(model.transformer)
        if head is None:
            raise RequestError(
                f"{model.source}: has no language-model head, so it cannot continue a text. Name a model that has one, "
                "such as gpt2 or a directory that GPT2LMHeadModel wrote."
            )
        self.head = head
        self.source, self.transformer = model.source, transformer
        self.tokenizer, self.max_length = model.tokenizer, model.max_length
        self._setting = model.generation_setting

    def encode(self, prompts: Iterable[str], name: Callable[[int], str] | None = None) -> list[Prompt]:
        """`name`: what the prompt with this number is called where it is refused."""
        texts = list_texts(prompts, "generate", "prompts", pairs=False)
        encoded = encode_prompts(self.tokenizer, texts)
        for i, ids in enumerate(encoded):
            called = f"row {i} of the prompts" if name is None else name(i)
            if not ids:
                raise RequestError(
                    f"{called} is empty, and {self.source} has no token that begins a text. Write some words."
                )
            if len(ids) > self.max_length:
                raise RequestError(
                    f"{called} has {len(ids)} tokens, and {self.source} reads at most {self.max_length}; shorten it."
                )
        return [Prompt(text, ids) for text, ids in zip(texts, encoded, strict=True)]

    def limits(self, max_new_tokens: int, min_new_tokens: int = 0, stop: Iterable[str | int] = ()) -> Limits:
        """`stop`: further tokens beside that with which texts end, by id, or as a vocabulary or a text has them."""
        if isinstance(stop, str) or not isinstance(stop, Iterable):
            raise RequestError(f"stop={stop!r} is not a list of tokens. Put the token in a list.")
        ends = (self.tokenizer.eos_id, self.tokenizer.end_id)
        ids = {self._stop_id(token) for token in stop}.union(end for end in ends if end is not None)
        return Limits(max_new_tokens, min_new_tokens, frozenset(ids), self.max_length)

    def repetition(self, penalty: float | None = None, ngram_size: int | None = None) -> Repetition:
        """Return how repetition is discouraged; None: as the model's generation_config.json says."""
        found = Repetition()
        given = {"penalty": ("repetition_penalty", penalty), "ngram_size": ("no_repeat_ngram_size", ngram_size)}
        for name, (key, value) in given.items():
            file, said = self._setting(key)
            wanted: Any = said if value is None else value
            try:
                found = found if wanted is None else replace(found, **{name: wanted})
            except RequestError as error:
                if value is not None:
                    raise
                raise RequestError(f"{Path(self.source) / file}: {error}") from None
        return found

    def _stop_id(self, token: object) -> int:
        if isinstance(token, int) and not isinstance(token, bool):
            last = self.transformer.shape.vocabulary - 1
            if not 0 <= token <= last:
                raise RequestError(f"stop: {self.source} has no token {token}; the ids are 0 to {last}.")
            return token
        if not isinstance(token, str):
            raise RequestError(f"stop: {token!r} is neither a token nor the id of one.")
        found = self.tokenizer.id(token)
        if found is not None:
            return found
        ids = encode_prompts(self.tokenizer, [token])[0] if token else []
        if len(ids) != 1 or ids == [self.tokenizer.unk_id]:
            raise RequestError(f"stop: {token!r} is not one token of {self.source}. Use a single token, or its id.")
        return ids[0]

    def check_adapters(self, adapters: Composition | None) -> None:
        """Refuse adapters through which the head cannot read, before any work begins."""
        self.transformer.through(self.head, adapters)

    def write(
        self,
        prompts: Sequence[Prompt],
        method: Sampling | Beam,
        limits: Limits,
        batch_size: int = 16,
        adapters: Composition | None = None,
        on_text: OnText | None = None,
        first_row: int = 0,
        repetition: Repetition | None = None,
    ) -> Generated:
        """Prompts of about the same length together; how they fall into batches does not change the texts.
        `first_row`: the number of the first prompt, where they are given in several calls. Beam search tells a text
        when it is whole. `repetition`: by default as the model's settings say."""
        repetition = self.repetition() if repetition is None else repetition
        rule = BatchRule(check_batch_size(batch_size), None)
        device = self.transformer.body.embeddings.token.weight.device
        drawn: dict[int, Continuation] = {}
        found: dict[int, list[Hypothesis]] = {}
        with evaluating(self.transformer):
            read = NextToken(self.transformer, self.head, adapters)
            for rows in batches([len(prompt.ids) for prompt in prompts], rule):
                ids, numbers = [prompts[row].ids for row in rows], [first_row + row for row in rows]
                if isinstance(method, Beam):
                    best = beam_search(read, ids, method, limits, None, numbers, device, repetition)
                    found |= zip(rows, best, strict=True)
                    if on_text is not None:
                        self._tell(prompts, found, rows, on_text)
                    continue
                stream = None if on_text is None else _StreamDecoder(self.tokenizer, rows, ids, limits.stop, on_text)
                on_token = None if stream is None else stream.add
                made = generate(read, ids, method, limits, numbers, on_token, device, repetition)
                drawn |= zip(rows, made, strict=True)
                if stream is not None:
                    stream.finish()
        first = [found[row][0] if row in found else drawn[row] for row in range(len(prompts))]
        return Generated(
            [prompt.text for prompt in prompts],
            [self._text(prompt, result) for prompt, result in zip(prompts, first, strict=True)],
            [result.ids for result in first],
            [np.array(result.log_probabilities) for result in first],
            [result.reason for result in first],
            [[self._ranked(prompts[row], one) for one in found[row]] for row in sorted(found)],
        )

    def _tell(
        self, prompts: Sequence[Prompt], found: dict[int, list[Hypothesis]], rows: Sequence[int], on_text: OnText
    ) -> None:
        for row in rows:
            if text := self._text(prompts[row], found[row][0]):
                on_text(row, text)

    def _ranked(self, prompt: Prompt, found: Hypothesis) -> RankedText:
        text, log_p = self._text(prompt, found), np.array(found.log_probabilities)
        return RankedText(text, found.ids, log_p, found.score, found.reason)

    def _text(self, prompt: Prompt, result: Continuation | Hypothesis) -> str:
        return continuation(self.tokenizer, prompt.ids, result.ids[:-1] if result.reason == "stop" else result.ids)


class _StreamDecoder:
    """Tells the text of tokens as they come."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        rows: Sequence[int],
        prompts: Sequence[Sequence[int]],
        stop: frozenset[int],
        on_text: OnText,
    ) -> None:
        self._rows, self._stop, self._on_text = rows, stop, on_text
        self._texts = [ContinuedText(tokenizer, prompt) for prompt in prompts]

    def add(self, place: int, token: int) -> None:
        if token not in self._stop:
            self._tell(place, self._texts[place].add(token))

    def finish(self) -> None:
        for place, text in enumerate(self._texts):
            self._tell(place, text.rest())

    def _tell(self, place: int, piece: str) -> None:
        if piece:
            self._on_text(self._rows[place], piece)
