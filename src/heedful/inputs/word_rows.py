"""Rows of tokens of running text, at some of which a word is asked for: a hidden one, or the next.

Letters: n words that are asked for, v the vocabulary, d the model's width, t tokens of a row.
"""

import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from heedful.checkpoints.directory import Checkpoint
from heedful.data.running_text import RunningText
from heedful.errors import RequestError
from heedful.inference.states import Ints, Row, RowLayout, words_of
from heedful.inputs.cooccurrence import neighbour_table
from heedful.inputs.corpora import Spans, cut_rows, open_sets
from heedful.inputs.protocol import Inputs, Sampler, Setup, Step
from heedful.inputs.step_rows import EpochRows, padding_share
from heedful.inputs.warmup import length_at, rows_at
from heedful.models.flops import forward_flops
from heedful.models.shape import Shape
from heedful.streams import seed_of, shuffled
from heedful.text.tokenizer import Tokenizer

Floats = npt.NDArray[np.float64]
JUDGED = "judged"
"""In the place of an epoch's number: what is evaluated is drawn in the same way every time."""


@dataclass(frozen=True)
class WordStep(Step):
    made: Sequence[Row]
    """The rows themselves."""
    layout: RowLayout
    place: str = ""
    """What the rows are, for the message of a step that failed."""
    more_flops: int = 0
    """For each word that is asked for, in multiples of the width squared: what a head computes besides the scores."""

    def forward_flops(self, shape: Shape) -> int:
        read = [len(row.places_n) for row in self.made]
        own = 2 * sum(read) * shape.width * (shape.vocabulary + self.more_flops * shape.width)
        return forward_flops(shape, self.lengths, read) + own

    def where(self) -> str:
        return self.place


class WordInputs(Inputs[RunningText]):
    """Rows of running text. A subclass says what a row is: its tokens, at which of them a word is asked for, and
    which."""

    HEAD: ClassVar[str]
    """The head that says the words."""
    ASKS_MARKERS: ClassVar[bool] = True
    """Whether tokens that stand for no text, such as the one that ends a row, are asked for, too."""
    MORE_FLOPS: ClassVar[int] = 0
    """See `WordStep.more_flops`."""

    def __init__(self, data: RunningText, checkpoint: Checkpoint, table: Any, setup: Setup) -> None:
        """`table`: the objective's, a `WordsTable`."""
        self.data, self.seed, self.training, self.words_table = data, setup.seed, setup.recipe.training, table
        tokenizer, shape = checkpoint.tokenizer, checkpoint.transformer.shape
        assert tokenizer is not None
        longest = self.training.max_length
        if longest > shape.longest:
            raise RequestError(f"training.max_length = {longest}, but the model reads at most {shape.longest} tokens.")
        self.special = self.prepare(tokenizer, shape)
        """How many tokens of a row are not of the text."""
        self.layout = RowLayout(shape.pad_id, shape.first_position, longest if table.pack else None)
        sets = open_sets(data, tokenizer, setup.store)
        counts_v = sets["train"].corpus.token_counts(tokenizer.size)
        if longest < self.special + 2:
            raise RequestError(
                f"training.max_length = {longest} leaves no room for text beside {self.special} tokens that "
                "stand around it; raise it."
            )
        self.spans = sets["train"]
        self.rows = {name: cut_rows(spans, longest - self.special) for name, spans in sets.items()}
        asked_v = 1 + counts_v + (self._markers(counts_v, tokenizer) if self.ASKS_MARKERS else 0)
        self.log_frequency_v = np.log(asked_v / asked_v.sum())
        self.counting_seconds = 0.0
        self.grows = bool(self.training.batch_warmup or self.training.length_warmup)
        if table.neighbours:
            self._fill_table(checkpoint, tokenizer, setup)

    @abstractmethod
    def prepare(self, tokenizer: Tokenizer, shape: Shape) -> int:
        """Prepare for a model, or refuse it; return how many tokens of a row are not of the text."""

    @abstractmethod
    def row(self, rows: Spans, name: str, number: int, epoch: int | str) -> Row:
        """Return what a row of a set is in an epoch: a function of (seed, epoch, number) only."""

    def key(self, name: str, number: int, epoch: int | str) -> tuple[int | str, ...]:
        """Return what the draws of a row depend on; those of rows that are evaluated are the same for all seeds."""
        return (self.seed if name == "train" and epoch != JUDGED else 0, name, epoch, number)

    def text_of(self, rows: Spans, number: int) -> Ints:
        """Return the tokens of the text of a row."""
        return rows.corpus.ids(int(rows.starts_n[number]), int(rows.ends_n[number]))

    def judged(self, name: str) -> Ints:
        """Return the numbers of the rows of a set that are evaluated."""
        return np.sort(shuffled(len(self.rows[name]), JUDGED)[: self.words_table.judged_rows])

    def judged_row(self, name: str, number: int) -> Row:
        return self.row(self.rows[name], name, number, JUDGED)

    def describe(self) -> dict[str, Any]:
        sizes = {name: len(rows) if name == "train" else len(self.judged(name)) for name, rows in self.rows.items()}
        tokens = {name: rows.tokens for name, rows in self.rows.items()}
        return {**self.data.describe(), "sizes": sizes, "tokens": tokens}

    def sampler(self) -> "WordSampler":
        return WordSampler(self)

    def row_batches(self, spans: Spans, size: int, length: int) -> EpochRows:
        """Return batches of so many rows of at most so many tokens; where these grow, each size has an order of its
        own."""
        seed = seed_of(self.seed, size, length) if self.grows else self.seed
        lengths = (spans.ends_n - spans.starts_n + self.special).tolist()
        # What is packed needs no rows of similar length, whose order would be less random.
        as_one = self.words_table.pack and self.training.batch_tokens is None
        return EpochRows([1] * len(lengths) if as_one else lengths, seed, size, self.training.batch_tokens)

    def step_of(self, spans: Spans, numbers: Sequence[int], epoch: int | str) -> WordStep:
        made = [self.row(spans, "train", n, epoch) for n in numbers]
        first = ", ".join(str(spans.documents_n[n] + 1) for n in numbers[:8])
        where = f"documents {first} of the corpus{' and others' if len(numbers) > 8 else ''}"
        return WordStep(numbers, [len(row.ids_t) for row in made], made, self.layout, where, self.MORE_FLOPS)

    def spent_once(self) -> tuple[int, float]:
        return 0, self.counting_seconds

    def statistics(self) -> dict[str, float]:
        if self.words_table.pack:
            return {}
        batches = self.row_batches(self.rows["train"], self.training.batch_size, self.training.max_length)
        return {"padding_share": padding_share(batches.batches(0), [[n] for n in batches.lengths])}

    def _markers(self, counts_v: Ints, tokenizer: Tokenizer) -> Ints:
        """Return how often each token that stands for no text would be asked for with all of the text, by some training
        rows."""
        rows = [self.judged_row("train", n) for n in self.judged("train").tolist()]
        asked_v = np.bincount(words_of(rows), minlength=len(counts_v))
        special_v = np.isin(np.arange(len(counts_v)), sorted(tokenizer.special_ids)) & (counts_v == 0)
        of_text = max(1, int(asked_v[~special_v].sum()))
        return np.where(special_v, asked_v * int(counts_v.sum()) // of_text, 0)

    def _fill_table(self, checkpoint: Checkpoint, tokenizer: Tokenizer, setup: Setup) -> None:
        """Begin with what stands near what in the training text."""
        data, reach, shape = self.data.table, self.words_table.neighbours, checkpoint.transformer.shape
        if shape.vocabulary <= shape.width:
            raise RequestError(
                f"objective.neighbours needs more tokens than the model's width of {shape.width}, and the tokenizer "
                f"has {shape.vocabulary}; leave it out."
            )
        key = {
            "neighbours": [reach, shape.width, tokenizer.fingerprint, self.data.fingerprints()],
            "documents": [data.separator, data.text, data.deduplicate],
            "held out": [data.dev, data.dev_share, data.split_seed],
        }

        def make() -> dict[str, Tensor]:
            began = time.monotonic()
            table_vd = neighbour_table(self.spans, shape.vocabulary, reach, shape.width)
            seconds = torch.tensor([time.monotonic() - began], dtype=torch.float64)
            return {"table": torch.from_numpy(table_vd), "seconds": seconds}

        stored = setup.store.tensors(key, "neighbours", make)
        table_vd, self.counting_seconds = stored["table"], float(stored["seconds"])
        known_v = table_vd.any(1)
        if not known_v.any():
            raise RequestError(
                "objective.neighbours: no two tokens of a document are near each other oftener than by chance; leave "
                "it out."
            )
        with torch.no_grad():
            weight_vd = checkpoint.transformer.body.embeddings.token.weight
            weight_vd[known_v] = (shape.initializer_range * table_vd[known_v]).to(weight_vd)


class WordSampler(Sampler):
    """Epochs of rows; or, where steps or rows are small at first, a stream, in which each size has an order of its
    own."""

    def __init__(self, inputs: WordInputs) -> None:
        self.inputs, table = inputs, inputs.training
        self.grows = inputs.grows
        self.position = 0
        self._resize(table.batch_size, table.max_length)

    def _resize(self, size: int, length: int) -> None:
        """From now on a step has so many rows, of at most so many tokens."""
        inputs = self.inputs
        self.spans = inputs.rows["train"]
        if self.grows:
            self.spans = cut_rows(inputs.spans, max(2, length - inputs.special))
        self.batches = inputs.row_batches(self.spans, size, length)
        self.sizes = [size, length]

    def step(self, number: int, done: float) -> WordStep:
        if not self.grows:
            numbers = self.batches.of_step(number)
            return self.inputs.step_of(self.spans, numbers, self.batches.epoch)
        table = self.inputs.training
        wanted = [rows_at(table, done), length_at(table, done)]
        if wanted != self.sizes:
            self._resize(*wanted)
            self.position = 0
        numbers = self.batches.of_step(self.position)
        self.position += 1
        return self.inputs.step_of(self.spans, numbers, f"{self.sizes} {self.batches.epoch}")

    def epoch_steps(self, epoch: int) -> int | None:
        return None if self.grows else self.batches.steps(epoch)

    def step_rows(self) -> float | None:
        return self.batches.mean_rows

    def state(self) -> dict[str, Any]:
        return {"sizes": self.sizes, "position": self.position} if self.grows else {}

    def restore(self, state: Mapping[str, Any]) -> None:
        if state:
            self._resize(*state["sizes"])
            self.position = state["position"]
