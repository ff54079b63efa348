"""Spans of a text that are moved to its end, where they are asked for: corruption in one causal sequence.

With one span (M: the mask token):      beginning M rest M span M
With sentinels (S0, S1, …), as in T5:   text S0 text S1 text M S0 span S1 span M
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from heedful.checkpoints.directory import Checkpoint
from heedful.checkpoints.heads import NewHead
from heedful.data.running_text import RunningText
from heedful.errors import RequestError
from heedful.evaluation.metrics import ratio_of
from heedful.evaluators.words import WordEvaluator
from heedful.inference.questions import first_of
from heedful.inference.states import Ints, Row
from heedful.inputs.corpora import Spans
from heedful.inputs.protocol import Setup
from heedful.inputs.word_rows import WordInputs
from heedful.models.shape import Shape
from heedful.nn.heads import HeadInput
from heedful.objectives.causal import HEAD, LANGUAGE_MODEL, USAGE, require_causal
from heedful.objectives.words import Words, WordsTable
from heedful.streams import shuffled, uniforms
from heedful.text.tokenizer import Tokenizer

SENTINELS = tuple(f"[SPAN{i}]" for i in range(32))
_LEAST = 4  # tokens that a cut document keeps


class SpanTable(WordsTable):
    kind: Literal["span"] = "span"
    """Remove spans of running text, and predict them at its end."""
    style: Literal["one", "sentinels"] = "one"
    """One span behind mask tokens; or several ("sentinels"), each replaced by its own token, as in T5."""
    share: float | None = Field(None, gt=0, lt=1)
    """Share of the tokens to remove, on average. Default: 0.25 for one span, 0.15 with sentinels."""
    span_length: float = Field(3.0, ge=1)
    """With sentinels: mean length of a span, in tokens. There are 32 sentinels. In texts that would need more (640
    tokens or more by default), spans are longer, so that the share is kept."""
    cut: bool = True
    """Whether to truncate a document at a random length each time, so that the model sees all lengths."""
    asked: Literal["span", "everything"] = "span"
    """What to predict: only the removed spans, or also the text before them, token by token."""

    def special_tokens(self) -> Sequence[str]:
        return SENTINELS if self.style == "sentinels" else ()


class SpanInputs(WordInputs):
    HEAD = HEAD

    def __init__(self, data: RunningText, checkpoint: Checkpoint, table: SpanTable, setup: Setup) -> None:
        self.table = table
        self.share = table.share or (0.25 if table.style == "one" else 0.15)
        super().__init__(data, checkpoint, table, setup)

    def prepare(self, tokenizer: Tokenizer, shape: Shape) -> int:
        require_causal(shape, "span")
        if tokenizer.mask_id is None:
            raise RequestError(
                'objective.kind = "span" needs a tokenizer with a mask token: characters have one, and so has one that '
                'is trained for a model with model.attention = "rotary".'
            )
        self.mask_id, self.begin = tokenizer.mask_id, first_of(tokenizer.bos_id, tokenizer.cls_id)
        self.sentinels = [i for token in SENTINELS if (i := tokenizer.id(token)) is not None]
        if self.table.style == "sentinels" and len(self.sentinels) < len(SENTINELS):
            raise RequestError(
                f'objective.style = "sentinels": the tokenizer lacks {SENTINELS[-1]}; train one with [tokenizer] kind.'
            )
        markers = 3 if self.table.style == "one" else 2 + 2 * self._most_spans(self.training.max_length)
        return markers + (self.begin is not None)

    def _most_spans(self, tokens: int) -> int:
        return min(len(SENTINELS), max(1, round(self.share * tokens / self.table.span_length)))

    def row(self, rows: Spans, name: str, number: int, epoch: int | str) -> Row:
        key, text = self.key(name, number, epoch), self.text_of(rows, number)
        draws = uniforms(3, *key, "span")
        if self.table.cut and len(text) > _LEAST:
            text = text[: _LEAST + int(draws[0] * (len(text) - _LEAST + 1))]
        begin = [] if self.begin is None else [self.begin]
        if self.table.style == "one":
            before, after = self._one(text, draws[1], draws[2])
        else:
            before, after = self._several(text, *key)
        ids_t = np.concatenate([begin, before, after]).astype(np.int64)
        first = len(begin) + len(before) if self.table.asked == "span" else 1
        return Row(ids_t, np.arange(first - 1, len(ids_t) - 1), ids_t[first:])

    def _one(self, text: Ints, length: float, place: float) -> tuple[Ints, Ints]:
        """What stands before what is asked for, and that; the drawn numbers say how long the span is, and where."""
        twice = round(2 * self.share * len(text))  # as far below the mean as above it
        shortest, longest = max(1, twice - len(text)), min(len(text), max(1, twice - 1))
        taken = shortest + int(length * (longest - shortest + 1))
        start = int(place * (len(text) - taken + 1))
        marker = [self.mask_id]
        before = np.concatenate([text[:start], marker, text[start + taken :], marker])
        return before.astype(np.int64), np.concatenate([text[start : start + taken], marker]).astype(np.int64)

    def _several(self, text: Ints, *key: int | str) -> tuple[Ints, Ints]:
        """Spans and what is between them, each of random length with the given sum (T5's paper, section 3.1.4)."""
        taken = min(len(text) - 1, max(1, round(self.share * len(text)))) if len(text) > 1 else len(text)
        spans = max(1, min(self._most_spans(len(text)), taken, len(text) - taken))
        lengths = _parts(taken, spans, *key, "taken")
        between = _parts(len(text) - taken, spans, *key, "between")
        before: list[int] = []
        after: list[int] = []
        at = 0
        for i, (kept, gone) in enumerate(zip(between, lengths, strict=True)):
            before += [*text[at : at + kept].tolist(), self.sentinels[i]]
            after += [self.sentinels[i], *text[at + kept : at + kept + gone].tolist()]
            at += kept + gone
        before += [*text[at:].tolist(), self.mask_id]
        return np.asarray(before, dtype=np.int64), np.asarray([*after, self.mask_id], dtype=np.int64)


class SpanEvaluator(WordEvaluator):
    METRICS = (
        ratio_of("span_loss", "loss for each token", False, "nll", "words"),
        ratio_of("span_accuracy", "accuracy on the tokens asked for", True, "right", "words", (0.0, 1.0)),
    )


class Span(Words):
    Table = SpanTable
    EVALUATOR = SpanEvaluator
    INPUTS = SpanInputs
    HEAD = HEAD
    USAGE = USAGE

    def heads(self, default: HeadInput) -> Mapping[str, NewHead]:
        return {HEAD: LANGUAGE_MODEL}


def _parts(total: int, count: int, *key: int | str) -> npt.NDArray[np.int64]:
    """A number as a sum of so many, each at least 1 if that is possible, all such sums equally likely."""
    if total < count:
        return np.asarray([1] * total + [0] * (count - total), dtype=np.int64)
    cuts = np.sort(shuffled(total - 1, *key)[: count - 1]) + 1
    return np.diff(np.concatenate([[0], cuts, [total]]))


OBJECTIVE = Span
