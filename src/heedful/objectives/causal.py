"""The next word, from those before it: how GPT was pretrained."""

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from heedful.checkpoints.heads import NewHead
from heedful.errors import RequestError
from heedful.evaluation.metrics import ratio_of
from heedful.evaluators.words import WordEvaluator
from heedful.inference.questions import first_of
from heedful.inference.states import Row
from heedful.inputs.corpora import Spans, row_bytes
from heedful.inputs.word_rows import Floats, WordInputs
from heedful.models.shape import Shape
from heedful.nn.heads import HeadInput
from heedful.objectives.words import Words, WordsTable
from heedful.text.tokenizer import Tokenizer

HEAD = "causal"
USAGE = 'heedful generate {model} "a beginning"'
LANGUAGE_MODEL = NewHead(
    "language-model", reuse=True, remedy="set model.causal = true for a new model, or choose a GPT"
)


class CausalTable(WordsTable):
    kind: Literal["causal"] = "causal"
    """Predict the next token of running text, everywhere."""


class CausalInputs(WordInputs):
    HEAD = HEAD

    def prepare(self, tokenizer: Tokenizer, shape: Shape) -> int:
        """Prepare for rows that begin with the token that begins a text. One that ends its document ends with the token
        that ends one, and so does every row where the tokenizer puts one after each text itself."""
        require_causal(shape, "causal")
        begin = first_of(tokenizer.cls_id, tokenizer.bos_id, tokenizer.eos_id)
        end = tokenizer.end_id
        if begin is None or end is None:
            raise RequestError('objective.kind = "causal" needs a tokenizer with tokens that begin and end a text.')
        self.begin, self.end, self.always_ends = begin, end, tokenizer.sep_id is not None
        return 2

    def row(self, rows: Spans, name: str, number: int, epoch: int | str) -> Row:
        text = self.text_of(rows, number)
        _, end = rows.corpus.document(int(rows.documents_n[number]))
        ends = self.always_ends or int(rows.ends_n[number]) == end
        ids_t = np.concatenate([[self.begin], text, [self.end] if ends else []]).astype(np.int64)
        return Row(ids_t, np.arange(len(ids_t) - 1), ids_t[1:])


class CausalEvaluator(WordEvaluator):
    METRICS = (
        ratio_of("bits_per_byte", "bits per byte", False, "bits", "bytes"),
        ratio_of("token_loss", "loss for each token", False, "nll", "words"),
        ratio_of("token_accuracy", "accuracy on the next token", True, "right", "words", (0.0, 1.0)),
    )

    def by_row(self, nll_n: Floats, right_n: Floats, rows: Sequence[Row]) -> dict[str, Sequence[float]]:
        columns = super().by_row(nll_n, right_n, rows)
        return {**columns, "bits": [nll / np.log(2) for nll in columns["nll"]]}

    def more_columns(self, inputs: WordInputs, name: str, numbers: Sequence[int]) -> dict[str, Floats]:
        return {"bytes": row_bytes(inputs.rows[name])[list(numbers)]}


class Causal(Words):
    Table = CausalTable
    EVALUATOR = CausalEvaluator
    INPUTS = CausalInputs
    HEAD = HEAD
    USAGE = USAGE

    def heads(self, default: HeadInput) -> Mapping[str, NewHead]:
        return {HEAD: LANGUAGE_MODEL}


def require_causal(shape: Shape, kind: str) -> None:
    if not shape.causal:
        raise RequestError(
            f'objective.kind = "{kind}" needs a model whose tokens see only what came before; {LANGUAGE_MODEL.remedy}.'
        )


OBJECTIVE = Causal
