"""Words that are hidden, and whether one text follows another: how BERT was pretrained.

Letters: b rows, t tokens, r of them read, n hidden words, d the model's width, v the vocabulary.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from heedful.checkpoints.directory import Checkpoint
from heedful.checkpoints.heads import NewHead
from heedful.errors import RequestError
from heedful.evaluation.metrics import fill_in, mean_of, ratio_of
from heedful.models.batch import Batch, pack, pad
from heedful.models.flops import forward_flops
from heedful.models.shape import Shape
from heedful.nn.heads import Reading
from heedful.objectives.corpora import CorpusText, Stretches, cut_rows
from heedful.objectives.masking import Masking
from heedful.objectives.protocol import Judgement, Objective, Partial, Reseed, Step
from heedful.objectives.rows import EpochRows, padding_share
from heedful.objectives.texts import TextReader, at_least_float32, in_parts
from heedful.recipes.schema import ObjectiveTable, Recipe
from heedful.storage.shared import SharedStore
from heedful.streams import shuffled, uniforms

WORDS, PAIRS = "mask", "next-sentence"
"""The heads, and the loss terms."""
_EPOCH = "dev"  # in the place of an epoch's number: what is judged is hidden in the same way every time
_ROWS = 64  # at a time that are only judged

Ints = npt.NDArray[np.int64]


class MaskTable(ObjectiveTable):
    kind: Literal["mask"] = "mask"
    """Words of running text are hidden and asked for, as in BERT's pretraining."""
    share: float = Field(0.15, gt=0, lt=1)
    """Of the tokens of a row, the share that is asked for: 80 % of them become [MASK], 10 % a random token, and 10 %
    stay. Which, is drawn anew in every epoch."""
    whole_words: bool = False
    """Whether all pieces of a word are hidden together."""
    next_sentence: bool = True
    """Whether rows are pairs of texts, half of which follow each other, while of the others the second is from another
    document, and the model is asked which. Where the model has no segments, leave it out."""
    pack: bool = False
    """Whether several short rows share one row of the batch, each of which sees itself alone. It saves padding where
    documents are short; the result is the same."""
    judged_rows: int = Field(1024, ge=1)
    """Rows of each held-out set, drawn once for all runs, that are judged."""


@dataclass(frozen=True)
class MaskedRow:
    ids_t: Ints
    """With the special tokens, and the words hidden."""
    segments_t: Ints
    places_n: Ints
    """Of the hidden words."""
    words_n: Ints
    """What they were."""
    follows: int
    """0 if the second text follows the first (as in BERT), 1 if not, -1 if there is no second text."""


class Mask(Objective):
    Table = MaskTable
    METRICS = (
        ratio_of("masked_word_loss", "loss for each hidden word", False, "nll", "words"),
        ratio_of("masked_word_accuracy", "accuracy on hidden words", True, "right", "words", (0.0, 1.0)),
        mean_of("next_sentence_accuracy", "next-sentence accuracy", True, "pair_right", (0.0, 1.0)),
    )
    CORPUS = True

    def __init__(self, recipe: Recipe, seed: int, text: CorpusText) -> None:
        assert isinstance(recipe.objective, MaskTable)
        self.recipe, self.seed, self.text, self.table = recipe, seed, text, recipe.objective
        self.rows: dict[str, Stretches] = {}

    # The data

    @classmethod
    def read(cls, recipe: Recipe, seed: int, store: SharedStore) -> "Mask":
        return cls(recipe, seed, CorpusText(recipe.data, store))

    @property
    def metrics(self) -> tuple[Any, ...]:
        return self.METRICS if self.table.next_sentence else self.METRICS[:2]

    def description(self) -> dict[str, Any]:
        if self.rows:
            sizes = {name: len(self.order(name)) if name != "train" else len(rows) for name, rows in self.rows.items()}
        else:
            sizes = self.text.rough_rows(self.recipe.training.max_length)
        facts: dict[str, Any] = {"name": self.text.name, "sizes": sizes, "fingerprints": self.text.fingerprints()}
        if self.rows:
            facts["tokens"] = {name: rows.tokens for name, rows in self.rows.items()}
        return facts

    def texts(self) -> Iterable[str]:
        return self.text.texts()

    def sample(self, rows: int) -> "Mask":
        return Mask(self.recipe, self.seed, self.text.sample(max(50, rows)))

    # The model

    def heads(self, reading: Reading) -> Mapping[str, NewHead]:
        words = {WORDS: NewHead("masked-word", reuse=True)}
        return {**words, PAIRS: NewHead("next-sentence", reuse=True)} if self.table.next_sentence else words

    def prepare(self, checkpoint: Checkpoint, facts: Mapping[str, Any], store: SharedStore) -> None:
        tokenizer, shape = checkpoint.tokenizer, checkpoint.transformer.shape
        assert tokenizer is not None
        room = self.recipe.training.max_length - (3 if self.table.next_sentence else 2)
        if self.recipe.training.max_length > shape.longest:
            raise RequestError(
                f"training.max_length = {self.recipe.training.max_length}, but the model reads at most "
                f"{shape.longest} tokens."
            )
        if tokenizer.mask_id is None or tokenizer.cls_id is None or tokenizer.sep_id is None:
            raise RequestError('objective.kind = "mask" needs a tokenizer with tokens that begin, end and mask a text.')
        self.cls_id, self.sep_id, self.pad_id = tokenizer.cls_id, tokenizer.sep_id, shape.pad_id
        self.first_position = shape.first_position
        begins = tokenizer.begins_word() if self.table.whole_words else None
        if self.table.whole_words and begins is None:
            raise RequestError(
                f"objective.whole_words: {tokenizer.kind} does not show where words begin; leave it out."
            )
        ordinary = [i for i in range(tokenizer.size) if i not in tokenizer.special_ids]
        self.masking = Masking(
            self.table.share,
            tokenizer.mask_id,
            np.asarray(ordinary, dtype=np.int64),
            begins_word=None if begins is None else np.asarray(begins),
        )
        sets = self.text.open(tokenizer, store)
        self.rows = {name: cut_rows(stretches, room) for name, stretches in sets.items()}
        if self.table.next_sentence:
            for name, rows in self.rows.items():
                if len(np.unique(rows.documents_n)) < 2:
                    raise RequestError(
                        f"objective.next_sentence needs two documents, and {name} has one; set it to false, or say "
                        "with data.separator what separates them."
                    )
        counts_v = sets["train"].corpus.token_counts(tokenizer.size) + 1
        self.log_frequency_v = np.log(counts_v / counts_v.sum())
        table = self.recipe.training
        lengths = (self.rows["train"].ends_n - self.rows["train"].starts_n + (table.max_length - room)).tolist()
        # What is packed needs no rows of similar length, whose order would be less random.
        as_one = self.table.pack and table.batch_tokens is None
        self.batches = EpochRows(
            [1] * len(lengths) if as_one else lengths, self.seed, table.batch_size, table.batch_tokens
        )

    # A step

    def epoch_steps(self, epoch: int) -> int:
        return self.batches.steps(epoch)

    def step(self, number: int) -> Step:
        numbers = self.batches.of_step(number)
        epoch = self.batches.epoch
        self._made = {n: self.row("train", n, epoch) for n in numbers}
        return Step(numbers, [len(self._made[n].ids_t) for n in numbers])

    def row(self, name: str, number: int, epoch: int | str) -> MaskedRow:
        """What a row of a set is in an epoch: a function of (seed, epoch, number) alone."""
        rows, key = self.rows[name], (self.seed if name == "train" else 0, name, epoch, number)
        text = rows.corpus.ids(int(rows.starts_n[number]), int(rows.ends_n[number]))
        if not self.table.next_sentence or len(text) < 2:
            ids_t = np.concatenate([[self.cls_id], text, [self.sep_id]])
            places, segments_t, follows = np.arange(1, len(text) + 1), np.zeros(len(ids_t), dtype=np.int64), -1
        else:
            draws = uniforms(4, *key, "pair")
            cut = self._cut(rows, number, draws[0])
            second, follows = text[cut:], 0
            if draws[1] < 0.5:
                second, follows = self._foreign(rows, number, len(second), draws[2:]), 1
            ids_t = np.concatenate([[self.cls_id], text[:cut], [self.sep_id], second, [self.sep_id]])
            segments_t = np.repeat([0, 1], [cut + 2, len(second) + 1])
            places = np.delete(np.arange(1, len(ids_t) - 1), cut)
        hidden_t, places_n = self.masking.draw(ids_t, places, *key, "mask")
        return MaskedRow(hidden_t, segments_t, places_n, ids_t[places_n], follows)

    def _cut(self, rows: Stretches, number: int, draw: float) -> int:
        """How many tokens of a row are the first text: up to the end of one of its sentences, or anywhere if there is
        but one."""
        start, end = int(rows.starts_n[number]), int(rows.ends_n[number])
        edges = rows.corpus.sentence_starts(int(rows.documents_n[number]))
        inner = edges[np.searchsorted(edges, start, "right") : np.searchsorted(edges, end)]
        return int(inner[int(draw * len(inner))]) - start if len(inner) else 1 + int(draw * (end - start - 1))

    def _foreign(self, rows: Stretches, number: int, length: int, draws: npt.NDArray[np.float64]) -> Ints:
        """The beginning of a row of another document, at most as long as what it stands for: a pair does not show by
        its length what it is."""
        other = int(draws[0] * len(rows))
        while rows.documents_n[other] == rows.documents_n[number]:
            other = (other + 1 + int(draws[1] * (len(rows) - 1))) % len(rows)
            draws = uniforms(2, other, number, "again")
        start = int(rows.starts_n[other])
        return rows.corpus.ids(start, min(start + length, int(rows.ends_n[other])))

    def counts(self, step: Step) -> dict[str, float]:
        made = [self._made[n] for n in step.rows]
        counts = {WORDS: float(sum(len(row.places_n) for row in made))}
        if self.table.next_sentence:
            counts[PAIRS] = float(max(1, sum(row.follows >= 0 for row in made)))
        return counts

    def losses(
        self, reader: TextReader, step: Step, counts: Mapping[str, float], parts: int, reseed: Reseed
    ) -> Iterator[Partial]:
        for part, numbers in enumerate(in_parts(step.rows, parts)):
            reseed(part)
            rows = [self._made[n] for n in numbers]
            words_nv, pairs_b2 = self.scores(reader, rows)
            words_n = torch.from_numpy(np.concatenate([row.words_n for row in rows])).to(reader.device)
            terms = {WORDS: F.cross_entropy(at_least_float32(words_nv), words_n, reduction="sum") / counts[WORDS]}
            if pairs_b2 is not None:
                follows_b = torch.tensor([row.follows for row in rows], device=reader.device)
                loss = F.cross_entropy(at_least_float32(pairs_b2), follows_b, reduction="sum", ignore_index=-1)
                terms[PAIRS] = loss / counts[PAIRS]
            yield Partial(sum(terms.values(), start=torch.zeros(())), {k: v.detach() for k, v in terms.items()})

    def scores(self, reader: TextReader, rows: Sequence[MaskedRow]) -> tuple[Tensor, Tensor | None]:
        """Of every hidden word, row after row, the scores of the vocabulary (n, v); and of every row those of the pair.
        Of the last block, only what is read is computed."""
        model, device = reader.transformer, reader.device
        batch, spans = self._collate(rows, device)
        first = int(self.table.next_sentence)  # the first token is read too
        wanted: list[list[int]] = [[] for _ in range(len(batch.ids_bt))]
        at: list[tuple[int, int]] = []  # of each row of ours: the row of the batch, and its place among what is read
        for row, (b, offset) in zip(rows, spans, strict=True):
            at.append((b, len(wanted[b])))
            wanted[b] += [offset] * first + (row.places_n + offset).tolist()
        r = max(map(len, wanted))
        read_br = torch.tensor([w + [0] * (r - len(w)) for w in wanted], device=device)
        with reader.precision():
            x_brd = model.body(batch, read_br).last
            flat = [
                b * r + p + first + i for (b, p), row in zip(at, rows, strict=True) for i in range(len(row.places_n))
            ]
            x_nd = x_brd.flatten(0, 1)[torch.tensor(flat, device=device)]
            words_nv = model.heads[WORDS](x_nd, model.body.embeddings.token.weight)
            if not self.table.next_sentence:
                return words_nv, None
            b_b, p_b = torch.tensor(at, device=device).T
            assert model.body.pooler is not None  # the head reads the pooled state
            return words_nv, model.heads[PAIRS](model.body.pooler(x_brd[b_b, p_b]))

    def _collate(self, rows: Sequence[MaskedRow], device: torch.device) -> tuple[Batch, list[tuple[int, int]]]:
        """The batch, and of each row where it begins there: the row of the batch, and the place in it."""
        ids = [row.ids_t.tolist() for row in rows]
        segments = [row.segments_t.tolist() for row in rows] if self.table.next_sentence else None
        if not self.table.pack:
            return pad(ids, segments, self.pad_id, device), [(b, 0) for b in range(len(rows))]
        packed = pack(ids, segments, self.pad_id, device, self.recipe.training.max_length, self.first_position)
        return packed.batch, [(b, span.start) for b, span in packed.spans]

    def forward_flops(self, step: Step, shape: Shape) -> int:
        made = [self._made[n] for n in step.rows]
        read = [len(row.places_n) + self.table.next_sentence for row in made]
        words = sum(len(row.places_n) for row in made)
        return forward_flops(shape, step.lengths, read) + 2 * words * shape.width * (shape.width + shape.vocabulary)

    def where(self, step: Step) -> str:
        return f"documents {', '.join(str(self.rows['train'].documents_n[n] + 1) for n in step.rows[:8])} of the corpus"

    # How well it went

    def sets(self) -> dict[str, bool]:
        return {name: True for name in ("dev", "test") if name in self.rows or name != "test"}

    def order(self, name: str) -> Ints:
        """The numbers of the rows of a set that are judged."""
        return np.sort(shuffled(len(self.rows[name]), "judged")[: self.table.judged_rows])

    def judge(self, reader: TextReader, name: str) -> Judgement:
        numbers = self.order(name).tolist()
        rows = [self.row(name, n, _EPOCH) for n in numbers]
        columns = {key: np.zeros(len(rows)) for key in ("nll", "words", "right", "unigram_nll", "pair_right")}
        by_length = sorted(range(len(rows)), key=lambda i: -len(rows[i].ids_t))
        with torch.inference_mode():
            for at in range(0, len(rows), _ROWS):
                self._judge_some(reader, rows, by_length[at : at + _ROWS], columns)
        if not self.table.next_sentence:
            del columns["pair_right"]
        unigram = columns.pop("unigram_nll").sum() / columns["words"].sum()
        metrics = fill_in({"n": len(rows)}, columns, self.metrics)
        return Judgement({**metrics, "unigram_loss": float(unigram)}, [n + 1 for n in numbers], columns)

    def _judge_some(
        self, reader: TextReader, rows: Sequence[MaskedRow], some: Sequence[int], columns: Mapping[str, Any]
    ) -> None:
        words_nv, pairs_b2 = self.scores(reader, [rows[i] for i in some])
        words_n = torch.from_numpy(np.concatenate([rows[i].words_n for i in some])).to(reader.device)
        nll_n = F.cross_entropy(words_nv.double(), words_n, reduction="none").cpu().numpy()
        right_n = (words_nv.argmax(1) == words_n).cpu().numpy()
        ends = np.cumsum([len(rows[i].words_n) for i in some])
        for i, end in zip(some, ends, strict=True):
            mine = slice(end - len(rows[i].words_n), end)
            columns["nll"][i], columns["right"][i], columns["words"][i] = (
                nll_n[mine].sum(),
                right_n[mine].sum(),
                end - mine.start,
            )
            columns["unigram_nll"][i] = -self.log_frequency_v[rows[i].words_n].sum()
        if pairs_b2 is not None:
            said = pairs_b2.argmax(1).tolist()
            for i, answer in zip(some, said, strict=True):
                columns["pair_right"][i] = float(answer == rows[i].follows) if rows[i].follows >= 0 else 0.5

    def finish(self, checkpoint: Checkpoint) -> None:
        if checkpoint.tokenizer is not None:
            checkpoint.tokenizer.max_length = checkpoint.transformer.shape.longest

    def reading(self) -> dict[str, float]:
        if self.table.pack:
            return {}
        lengths = [[length] for length in self.batches.lengths]
        return {"padding_share": padding_share(self.batches.batches(0), lengths)}


OBJECTIVE = Mask
