"""Words that are hidden, and whether one text follows another: how BERT was pretrained.

Letters: b rows, n hidden words, d the model's width, v the vocabulary.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from heedful.checkpoints.directory import Checkpoint
from heedful.checkpoints.heads import NewHead
from heedful.data.running_text import RunningText
from heedful.errors import RequestError
from heedful.evaluation.metrics import Metric, mean_of, ratio_of
from heedful.evaluators.words import WordEvaluator
from heedful.inference.reader import TextReader, at_least_float32
from heedful.inference.states import Row, RowLayout, gold_words, word_scores
from heedful.inputs.corpora import Ints, Spans
from heedful.inputs.masking import Masking
from heedful.inputs.protocol import Setup
from heedful.inputs.word_rows import JUDGED, WordInputs, WordStep
from heedful.models.shape import Shape
from heedful.nn.heads import HeadInput
from heedful.objectives.words import Words, WordsTable
from heedful.recipes.schema import Recipe
from heedful.streams import uniforms
from heedful.text.tokenizer import Tokenizer

HEAD = "mask"
PAIRS = "next-sentence"


class MaskTable(WordsTable):
    kind: Literal["mask"] = "mask"
    """Predict hidden words of running text, as in BERT's pretraining."""
    share: float = Field(0.15, gt=0, lt=1)
    """Share of the tokens of a row to predict: 80% of them become [MASK], 10% a random token, and 10% stay. They
    are sampled again in every epoch."""
    subsample: float | None = Field(None, gt=0, lt=1)
    """In training, select tokens less often if they are more than this share of the corpus, such as 1e-3: by the
    square root of the ratio (word2vec's subsampling). Commas and "the" are predicted less often, words with content
    more often. Evaluation selects all tokens equally. With `whole_words`, a word counts like its first token."""
    whole_words: bool = False
    """Whether to hide all tokens of a word together."""
    next_sentence: bool = True
    """Whether rows are pairs of texts, and the model also predicts whether the second follows the first. In half of
    the pairs it does; in the others it is from a different document. Models without segments, such as RoBERTa, have
    no head for it."""


@dataclass(frozen=True)
class MaskedRow(Row):
    foreign: int = -1
    """0 if the second text follows the first, 1 if it is from another document, -1 if there is none."""


class MaskInputs(WordInputs):
    HEAD = HEAD
    ASKS_MARKERS = False
    MORE_FLOPS = 1

    def __init__(self, data: RunningText, checkpoint: Checkpoint, table: MaskTable, setup: Setup) -> None:
        self.table = table
        super().__init__(data, checkpoint, table, setup)
        weight_v = None
        if table.subsample is not None:
            weight_v = np.exp(np.minimum(0.0, np.log(table.subsample) - self.log_frequency_v) / 2)
        self.training_masking = replace(self.masking, weight_v=weight_v)
        for name, rows in self.rows.items():
            if table.next_sentence and len(np.unique(rows.documents_n)) < 2:
                raise RequestError(
                    f"objective.next_sentence needs two documents, and {name} has one; {self._more_documents(name)}, "
                    "or set it to false."
                )

    def _more_documents(self, name: str) -> str:
        """Return what to do where a set has too few."""
        table = self.data.table
        if name == "dev" and "dev" not in self.data.prepared and len(np.unique(self.rows["train"].documents_n)) > 1:
            return f"raise data.dev_share ({table.dev_share:g}), name a file with data.dev"
        return "say with data.separator what separates them"

    def prepare(self, tokenizer: Tokenizer, shape: Shape) -> int:
        if shape.causal:
            raise RequestError(
                'objective.kind = "mask" needs a model that sees the whole text; use "causal" for others.'
            )
        if tokenizer.mask_id is None or tokenizer.cls_id is None or tokenizer.sep_id is None:
            raise RequestError('objective.kind = "mask" needs a tokenizer with tokens that begin, end and mask a text.')
        begins = tokenizer.begins_word() if self.table.whole_words else None
        if self.table.whole_words and begins is None:
            raise RequestError(
                f"objective.whole_words: {tokenizer.kind} does not show where words begin; leave it out."
            )
        if self.table.next_sentence and (shape.segments < 2 or not shape.pooler):
            raise RequestError(
                "objective.next_sentence needs a model with two segments and a pooler, such as BERT's; set it to false."
            )
        self.cls_id, self.sep_id = tokenizer.cls_id, tokenizer.sep_id
        self.is_special_v = np.isin(np.arange(tokenizer.size), sorted(tokenizer.special_ids))
        self.masking = Masking(
            self.table.share,
            tokenizer.mask_id,
            np.flatnonzero(~self.is_special_v),
            begins_word=None if begins is None else np.asarray(begins),
        )
        return 3 if self.table.next_sentence else 2

    def row(self, rows: Spans, name: str, number: int, epoch: int | str) -> MaskedRow:
        key, text = self.key(name, number, epoch), self.text_of(rows, number)
        segments_t, foreign = None, -1
        if not self.table.next_sentence:
            ids_t = np.concatenate([[self.cls_id], text, [self.sep_id]])
            places = np.arange(1, len(text) + 1)
        else:
            draws = uniforms(4, *key, "pair")
            cut = self._cut(rows, number, draws[0]) if len(text) > 1 else len(text)
            second = text[cut:]
            if len(text) > 1:
                foreign = int(draws[1] < 0.5)
                second = self._foreign(rows, number, len(second), draws[2:]) if foreign else second
            ids_t = np.concatenate([[self.cls_id], text[:cut], [self.sep_id], second, [self.sep_id]])
            segments_t = np.repeat([0, 1], [cut + 2, len(second) + 1])
            places = np.delete(np.arange(1, len(ids_t) - 1), cut)
        places = places[~self.is_special_v[ids_t[places]]]  # an unknown word cannot be asked for
        masking = self.masking if epoch == JUDGED else self.training_masking
        hidden_t, places_n = masking.draw(ids_t, places, *key, "mask")
        return MaskedRow(hidden_t, places_n, ids_t[places_n], segments_t, foreign)

    def _cut(self, rows: Spans, number: int, draw: float) -> int:
        """Return how many tokens of a row are the first text: up to the end of one of its sentences, or anywhere if
        there is but one."""
        start, end = int(rows.starts_n[number]), int(rows.ends_n[number])
        edges = rows.corpus.sentence_starts(int(rows.documents_n[number]))
        inner = edges[np.searchsorted(edges, start, "right") : np.searchsorted(edges, end)]
        return int(inner[int(draw * len(inner))]) - start if len(inner) else 1 + int(draw * (end - start - 1))

    def _foreign(self, rows: Spans, number: int, length: int, draws: npt.NDArray[np.float64]) -> Ints:
        """Return text of another document, drawn by its rows, from the beginning of one of its sentences: as long as
        what it stands for if the document has so much, so that a pair does not show by its length what it is."""
        own, after = np.searchsorted(rows.documents_n, rows.documents_n[number] + np.arange(2))
        other = int(draws[0] * (len(rows) - (after - own)))
        document = rows.documents_n[other if other < own else other + (after - own)]
        first, last = np.searchsorted(rows.documents_n, document + np.arange(2))
        start, end = int(rows.starts_n[first]), int(rows.ends_n[last - 1])
        edges = rows.corpus.sentence_starts(int(document))
        edges = edges[(edges >= start) & (edges <= end - length)]
        start = int(edges[int(draws[1] * len(edges))]) if len(edges) else start
        return rows.corpus.ids(start, min(start + length, end))


class MaskEvaluator(WordEvaluator):
    METRICS = (
        ratio_of("masked_word_loss", "loss for each hidden word", False, "nll", "words"),
        ratio_of("masked_word_accuracy", "accuracy on hidden words", True, "right", "words", (0.0, 1.0)),
        mean_of("next_sentence_accuracy", "next-sentence accuracy", True, "pair_right", (0.0, 1.0)),
    )

    def __init__(self, recipe: Recipe, data: RunningText) -> None:
        super().__init__(recipe, data)
        assert isinstance(recipe.objective, MaskTable)
        self.table = recipe.objective

    @property
    def metrics(self) -> tuple[Metric, ...]:
        return self.METRICS if self.table.next_sentence else self.METRICS[:2]

    def evaluate_rows(self, reader: TextReader, inputs: WordInputs, rows: Sequence[Row]) -> dict[str, Sequence[float]]:
        if not self.table.next_sentence:
            return super().evaluate_rows(reader, inputs, rows)
        words_nv, pairs_b2 = both_scores(reader, inputs.layout, rows)
        answers = pairs_b2.argmax(1).tolist()
        # Where there is no second text, there is no answer: half a point, as for one that was guessed.
        right = [
            float(answer == _masked(row).foreign) if _masked(row).foreign >= 0 else 0.5
            for row, answer in zip(rows, answers, strict=True)
        ]
        return {**self.by_word(words_nv, rows), "pair_right": right}


class Mask(Words):
    Table = MaskTable
    EVALUATOR = MaskEvaluator
    INPUTS = MaskInputs
    HEAD = HEAD
    USAGE = "heedful compare YOUR.csv --models {model}"

    def __init__(self, recipe: Recipe, data: RunningText) -> None:
        super().__init__(recipe, data)
        assert isinstance(recipe.objective, MaskTable)
        self.table = recipe.objective

    def heads(self, default: HeadInput) -> Mapping[str, NewHead]:
        heads = {HEAD: NewHead("masked-word", reuse=True)}
        if not self.table.next_sentence:
            return heads
        return {**heads, PAIRS: NewHead("next-sentence", reuse=True, remedy="set objective.next_sentence = false")}

    def counts(self, step: WordStep) -> dict[str, float]:
        counts = super().counts(step)
        if self.table.next_sentence:
            counts[PAIRS] = float(max(1, sum(_masked(row).foreign >= 0 for row in step.made)))
        return counts

    def terms(
        self, reader: TextReader, layout: RowLayout, rows: Sequence[Row], counts: Mapping[str, float]
    ) -> dict[str, Tensor]:
        if not self.table.next_sentence:
            return super().terms(reader, layout, rows, counts)
        words_n = gold_words(rows, reader.device)
        foreign_b = torch.tensor([_masked(row).foreign for row in rows], device=reader.device)
        with reader.precision():
            words_nv, pairs_b2 = both_scores(reader, layout, rows)
        words = F.cross_entropy(at_least_float32(words_nv), words_n, reduction="sum")
        pairs = F.cross_entropy(at_least_float32(pairs_b2), foreign_b, reduction="sum", ignore_index=-1)
        return {HEAD: words / counts[HEAD], PAIRS: pairs / counts[PAIRS]}


def both_scores(reader: TextReader, layout: RowLayout, rows: Sequence[Row]) -> tuple[Tensor, Tensor]:
    """Return the scores of every hidden word (n, v), and of every pair (b, 2)."""
    x_md = layout.collate(rows, reader.device, first=True).states(reader.transformer, HEAD)
    firsts = np.cumsum([0, *(1 + len(row.places_n) for row in rows[:-1])])
    is_first_m = torch.zeros(len(x_md), dtype=torch.bool, device=reader.device)
    is_first_m[torch.from_numpy(firsts).to(reader.device)] = True
    model = reader.transformer
    assert model.body.pooler is not None  # the head reads the pooled state
    pairs_b2: Tensor = model.heads[PAIRS](model.body.pooler(x_md[is_first_m]))
    return word_scores(reader, HEAD, x_md[~is_first_m]), pairs_b2


def _masked(row: Row) -> MaskedRow:
    assert isinstance(row, MaskedRow)
    return row


OBJECTIVE = Mask
