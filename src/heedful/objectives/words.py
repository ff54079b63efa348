"""What the objectives have in common that ask for words of rows of tokens: hidden ones, or the next.

An objective says what a row is: its tokens, at which of them a word is asked for, and which. The loss is a sum over the
words that are asked for, divided by their number.

Letters: n words that are asked for, v the vocabulary, d the model's width.
"""

import time
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from heedful.checkpoints.directory import Checkpoint
from heedful.errors import RequestError
from heedful.evaluation.metrics import fill_in, scored
from heedful.inference.batching import BatchRule, batches, rule_for
from heedful.inference.reader import TextReader, at_least_float32
from heedful.inference.states import Wanted, collate_rows
from heedful.models.flops import forward_flops
from heedful.models.shape import Shape
from heedful.objectives.corpora import CorpusText, Stretches, cut_rows
from heedful.objectives.neighbours import neighbour_table
from heedful.objectives.protocol import Judgement, Objective, Partial, Reseed, Step
from heedful.objectives.rows import EpochRows, padding_share
from heedful.objectives.warmup import length_at, rows_at
from heedful.recipes.schema import ObjectiveTable, Recipe
from heedful.storage.shared import SharedStore
from heedful.streams import Parts, in_parts, seed_of, shuffled
from heedful.text.tokenizer import Tokenizer

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
JUDGED = "judged"
"""In the place of an epoch's number: what is judged is drawn in the same way every time."""
FREQUENCIES = "word-frequencies"
"""The baseline that gives each token the probability that it has in the training text, whatever stands around it."""
_SCORES = 2**25  # at a time, where rows are only judged


class WordsTable(ObjectiveTable):
    pack: bool = False
    """Whether several short rows share one row of the batch, each of which sees itself alone. It saves padding where
    documents are short; the result is the same."""
    judged_rows: int = Field(1024, ge=1)
    """Rows of each held-out set, drawn once for all runs, that are judged."""
    neighbours: int = Field(0, ge=0, le=50)
    """Of a new model: in place of random numbers its table of tokens begins with what stands near what in the training
    text, where tokens up to so many places apart, such as 8, are near each other; 0: random numbers. It is counted once
    for all runs of a study. To keep what it knows, let the table move more slowly than the rest: tuning.layer_decay."""


@dataclass(frozen=True)
class Row:
    ids_t: Ints
    places_n: Ints
    """At which tokens a word is asked for."""
    words_n: Ints
    """Which it is."""
    segments_t: Ints | None = None


class Words(Objective):
    HEAD: ClassVar[str]
    """The head that says the words, and the term of the loss."""
    USAGE: ClassVar[str]
    """A command that uses what was trained, with {model} in the place of its directory."""
    ASKS_MARKERS: ClassVar[bool] = True
    """Whether tokens that stand for no text, such as the one that ends a row, are asked for, too."""
    CORPUS = "all"
    GROWS = True

    def __init__(self, recipe: Recipe, seed: int, text: CorpusText) -> None:
        assert isinstance(recipe.objective, WordsTable)
        self.recipe, self.seed, self.text, self.words_table = recipe, seed, text, recipe.objective
        self.rows: dict[str, Stretches] = {}
        self.made: dict[int, Row] = {}
        """The rows of the step that was asked for last."""
        table = recipe.training
        self.grows = bool(table.batch_warmup or table.length_warmup)
        """Whether steps or rows are small at first: then each of their sizes has an order of its own."""
        self.done, self.place = 0.0, 0
        self.counting_seconds = 0.0
        """What the first table of tokens took, whichever run made it."""

    @staticmethod
    def check(recipe: Recipe) -> None:
        if recipe.training.batch_warmup and recipe.training.batch_tokens is not None:
            raise RequestError("training.batch_warmup goes with training.batch_size, not with training.batch_tokens.")
        assert isinstance(recipe.objective, WordsTable)
        if recipe.objective.neighbours and not recipe.model.drawn:
            raise RequestError(
                f"objective.neighbours is for the table of a new model, and {recipe.model.title} brings its own; leave "
                "it out."
            )

    # What one objective says

    @abstractmethod
    def around(self, tokenizer: Tokenizer, shape: Shape) -> int:
        """Makes ready for a model, or refuses it; how many tokens of a row are not of the text."""

    @abstractmethod
    def row(self, name: str, number: int, epoch: int | str) -> Row:
        """What a row of a set is in an epoch: a function of (seed, epoch, number) alone."""

    def key(self, name: str, number: int, epoch: int | str) -> tuple[int | str, ...]:
        """What the draws of a row depend on; those of rows that are judged are the same for all seeds."""
        return (self.seed if name == "train" and epoch != JUDGED else 0, name, epoch, number)

    def text_of(self, name: str, number: int) -> Ints:
        """The tokens of the text of a row."""
        rows = self.rows[name]
        return rows.corpus.ids(int(rows.starts_n[number]), int(rows.ends_n[number]))

    # The data

    @classmethod
    def read(cls, recipe: Recipe, seed: int, store: SharedStore) -> Self:
        return cls(recipe, seed, CorpusText(recipe.data, store))

    def description(self) -> dict[str, Any]:
        if self.rows:
            sizes = {name: len(rows) if name == "train" else len(self.judged(name)) for name, rows in self.rows.items()}
            tokens = {name: rows.tokens for name, rows in self.rows.items()}
        else:
            rough = self.text.rough_rows(self.recipe.training.max_length)
            most = self.words_table.judged_rows
            sizes, tokens = {name: n if name == "train" else min(n, most) for name, n in rough.items()}, {}
        facts = {"name": self.text.name, "sizes": sizes, "fingerprints": self.text.fingerprints(), "usage": self.USAGE}
        return {**facts, "tokens": tokens} if tokens else facts

    def texts(self) -> Iterable[str]:
        return self.text.texts()

    def sample(self, rows: int) -> Self:
        table = self.words_table.model_copy(update={"neighbours": 0})
        return type(self)(self.recipe.model_copy(update={"objective": table}), self.seed, self.text.sample())

    # The model

    def prepare(self, checkpoint: Checkpoint, facts: Mapping[str, Any], store: SharedStore) -> None:
        tokenizer, shape, table = checkpoint.tokenizer, checkpoint.transformer.shape, self.recipe.training
        assert tokenizer is not None
        if table.max_length > shape.longest:
            raise RequestError(
                f"training.max_length = {table.max_length}, but the model reads at most {shape.longest} tokens."
            )
        self.beside = self.around(tokenizer, shape)
        self.pad_id, self.first_position = shape.pad_id, shape.first_position
        sets = self.text.open(tokenizer, store)
        counts_v = sets["train"].corpus.token_counts(tokenizer.size)
        if table.max_length < self.beside + 2:
            raise RequestError(
                f"training.max_length = {table.max_length} leaves no room for text beside {self.beside} tokens that "
                "stand around it; raise it."
            )
        self.stretches = sets["train"]
        self.rows = {name: cut_rows(some, table.max_length - self.beside) for name, some in sets.items()}
        self._deal(table.batch_size, table.max_length)
        asked_v = 1 + counts_v + (self._markers(counts_v, tokenizer) if self.ASKS_MARKERS else 0)
        self.log_frequency_v = np.log(asked_v / asked_v.sum())
        if self.words_table.neighbours:
            self._fill_table(checkpoint, tokenizer, store)

    def _markers(self, counts_v: Ints, tokenizer: Tokenizer) -> Ints:
        """How often each token that stands for no text would be asked for with all of the text, by some training
        rows."""
        rows = [self.row("train", n, JUDGED) for n in self.judged("train").tolist()]
        asked_v = np.bincount(_words(rows), minlength=len(counts_v))
        special_v = np.isin(np.arange(len(counts_v)), sorted(tokenizer.special_ids)) & (counts_v == 0)
        of_text = max(1, int(asked_v[~special_v].sum()))
        return np.where(special_v, asked_v * int(counts_v.sum()) // of_text, 0)

    def _fill_table(self, checkpoint: Checkpoint, tokenizer: Tokenizer, store: SharedStore) -> None:
        """With what stands near what in the training text."""
        data, reach, shape = self.recipe.data, self.words_table.neighbours, checkpoint.transformer.shape
        if shape.vocabulary <= shape.width:
            raise RequestError(
                f"objective.neighbours needs more tokens than the model's width of {shape.width}, and the tokenizer "
                f"has {shape.vocabulary}; leave it out."
            )
        facts = {
            "neighbours": [reach, shape.width, tokenizer.fingerprint, self.text.fingerprints()],
            "documents": [data.separator, data.text, data.deduplicate],
            "held out": [data.dev, data.dev_share, data.split_seed],
        }

        def make() -> dict[str, Tensor]:
            began = time.monotonic()
            table_vd = neighbour_table(self.stretches, shape.vocabulary, reach, shape.width)
            seconds = torch.tensor([time.monotonic() - began], dtype=torch.float64)
            return {"table": torch.from_numpy(table_vd), "seconds": seconds}

        made = store.tensors(facts, "neighbours", make)
        table_vd, self.counting_seconds = made["table"], float(made["seconds"])
        known_v = table_vd.any(1)
        if not known_v.any():
            raise RequestError(
                "objective.neighbours: no two tokens of a document are near each other oftener than by chance; leave "
                "it out."
            )
        with torch.no_grad():
            weight_vd = checkpoint.transformer.body.embeddings.token.weight
            weight_vd[known_v] = (shape.initializer_range * table_vd[known_v]).to(weight_vd)

    def _deal(self, size: int, length: int) -> None:
        """From now on a step has so many rows, of at most so many tokens."""
        table = self.recipe.training
        if self.grows:
            self.rows["train"] = cut_rows(self.stretches, max(2, length - self.beside))
        lengths = (self.rows["train"].ends_n - self.rows["train"].starts_n + self.beside).tolist()
        # What is packed needs no rows of similar length, whose order would be less random.
        as_one = self.words_table.pack and table.batch_tokens is None
        seed = seed_of(self.seed, size, length) if self.grows else self.seed
        self.batches = EpochRows([1] * len(lengths) if as_one else lengths, seed, size, table.batch_tokens)
        self.dealt = [size, length]

    # A step

    def epoch_steps(self, epoch: int) -> int | None:
        return None if self.grows else self.batches.steps(epoch)

    def step_rows(self) -> float | None:
        return self.batches.mean_rows

    def progressed(self, share: float) -> None:
        self.done = share

    def state(self) -> dict[str, Any]:
        return {"dealt": self.dealt, "place": self.place} if self.grows else {}

    def restore(self, state: Mapping[str, Any]) -> None:
        if state:
            self._deal(*state["dealt"])
            self.place = state["place"]

    def step(self, number: int) -> Step:
        epoch: int | str
        if self.grows:
            table = self.recipe.training
            wanted = [rows_at(table, self.done), length_at(table, self.done)]
            if wanted != self.dealt:
                self._deal(*wanted)
                self.place = 0
            numbers = self.batches.of_step(self.place)
            self.place, epoch = self.place + 1, f"{self.dealt} {self.batches.epoch}"
        else:
            numbers = self.batches.of_step(number)
            epoch = self.batches.epoch
        self.made = {n: self.row("train", n, epoch) for n in numbers}
        return Step(numbers, [len(self.made[n].ids_t) for n in numbers])

    def counts(self, step: Step) -> dict[str, float]:
        return {self.HEAD: float(max(1, sum(len(self.made[n].places_n) for n in step.rows)))}

    def losses(
        self, reader: TextReader, step: Step, counts: Mapping[str, float], parts: Parts, reseed: Reseed
    ) -> Iterator[Partial]:
        for part, numbers in in_parts(step.rows, parts):
            reseed(part)
            terms = self.terms(reader, [self.made[n] for n in numbers], counts)
            yield Partial(torch.stack(list(terms.values())).sum(), {k: v.detach() for k, v in terms.items()})

    def terms(self, reader: TextReader, rows: Sequence[Row], counts: Mapping[str, float]) -> dict[str, Tensor]:
        """The loss terms of some rows of a step."""
        with reader.precision():
            scores_nv = self.scores(reader, self.collated(rows, reader).states(reader.transformer, self.HEAD))
        words_n = torch.from_numpy(np.concatenate([row.words_n for row in rows])).to(reader.device)
        return {self.HEAD: F.cross_entropy(at_least_float32(scores_nv), words_n, reduction="sum") / counts[self.HEAD]}

    def collated(self, rows: Sequence[Row], reader: TextReader, first: bool = False) -> Wanted:
        """`first`: of each row the state of its first token is wanted too, before those of its words."""
        segments = [row.segments_t.tolist() for row in rows if row.segments_t is not None]
        return collate_rows(
            [row.ids_t.tolist() for row in rows],
            segments or None,
            [[*([0] if first else []), *row.places_n.tolist()] for row in rows],
            self.pad_id,
            reader.device,
            self.recipe.training.max_length if self.words_table.pack else None,
            self.first_position,
        )

    def scores(self, reader: TextReader, x_nd: Tensor) -> Tensor:
        """(n, v)."""
        model = reader.transformer
        return model.heads[self.HEAD](x_nd, model.body.embeddings.token.weight)  # type: ignore[no-any-return]

    def forward_flops(self, step: Step, shape: Shape) -> int:
        read = [len(self.made[n].places_n) for n in step.rows]
        return forward_flops(shape, step.lengths, read) + 2 * sum(read) * shape.width * shape.vocabulary

    def spent_once(self) -> tuple[int, float]:
        return 0, self.counting_seconds

    def where(self, step: Step) -> str:
        numbers = [str(self.rows["train"].documents_n[n] + 1) for n in step.rows[:8]]
        return f"documents {', '.join(numbers)} of the corpus{' and others' if len(step.rows) > 8 else ''}"

    # How well it went

    def sets(self) -> dict[str, bool]:
        return {name: True for name in ("dev", "test") if name in (self.rows or self.text.prepared) or name == "dev"}

    def judged(self, name: str) -> Ints:
        """The numbers of the rows of a set that are judged."""
        return np.sort(shuffled(len(self.rows[name]), JUDGED)[: self.words_table.judged_rows])

    def judge(self, reader: TextReader, name: str) -> Judgement:
        numbers = self.judged(name).tolist()
        rows = [self.row(name, n, JUDGED) for n in numbers]
        columns = {key: np.zeros(len(rows)) for key in ("nll", "words", "right")}
        rule = rule_for(reader.device)
        most = max(1, min(rule.tokens or _SCORES, _SCORES // len(self.log_frequency_v)))
        with torch.inference_mode():
            for some in batches([len(row.ids_t) for row in rows], BatchRule(rule.rows, most)):
                for key, values in self.judge_some(reader, [rows[i] for i in some]).items():
                    columns.setdefault(key, np.zeros(len(rows)))[some] = values
        more, words_n = self.more_columns(name, numbers), _words(rows)
        columns |= more
        metrics = fill_in({"n": len(rows)}, columns, self.metrics)
        right_n = (words_n == self.log_frequency_v.argmax()).astype(np.float64)
        theirs = self.by_row(-self.log_frequency_v[words_n], right_n, rows)
        metrics["unigram_loss"] = sum(theirs["nll"]) / max(1.0, sum(theirs["words"]))
        columns |= {f"{FREQUENCIES}/{key}": np.asarray(column) for key, column in {**theirs, **more}.items()}
        return Judgement(metrics, [n + 1 for n in numbers], columns)

    def judge_some(self, reader: TextReader, rows: Sequence[Row]) -> dict[str, Sequence[float]]:
        """By column, a number for each row."""
        return self.judge_words(
            self.scores(reader, self.collated(rows, reader).states(reader.transformer, self.HEAD)), rows
        )

    def judge_words(self, scores_nv: Tensor, rows: Sequence[Row]) -> dict[str, Sequence[float]]:
        words_n = torch.from_numpy(np.concatenate([row.words_n for row in rows])).to(scores_nv.device)
        losses_n = F.cross_entropy(at_least_float32(scores_nv), words_n, reduction="none")
        nll_n = losses_n.double().cpu().numpy()
        right_n = (scores_nv.argmax(1) == words_n).cpu().numpy().astype(np.float64)
        return self.by_row(nll_n, right_n, rows)

    def by_row(self, nll_n: Floats, right_n: Floats, rows: Sequence[Row]) -> dict[str, Sequence[float]]:
        """By column, a number for each row, from what is known of each word."""
        counts = [len(row.words_n) for row in rows]
        owner_n = np.repeat(np.arange(len(rows)), counts)
        nll, right = (np.bincount(owner_n, weights=x_n, minlength=len(rows)) for x_n in (nll_n, right_n))
        return {"nll": nll.tolist(), "right": right.tolist(), "words": [float(count) for count in counts]}

    def more_columns(self, name: str, numbers: Sequence[int]) -> dict[str, npt.NDArray[np.float64]]:
        """What is known of the rows without the model."""
        return {}

    def conclude(self, judgements: Mapping[str, Judgement]) -> dict[str, Any]:
        """The baseline, which only a run can judge: it needs a tokenizer. Its columns stand beside the model's, their
        names after its own and a slash, so that a study can test the two on the same rows."""
        if not self.recipe.evaluation.baselines:
            return {}
        made: dict[str, Any] = {"seconds": 0.0, "tested": True}
        for name, judgement in judgements.items():
            start = f"{FREQUENCIES}/"
            own = {k.removeprefix(start): column for k, column in judgement.columns.items() if k.startswith(start)}
            made[name] = {"n": len(judgement.rows)}
            for metric in self.metrics:
                with suppress(KeyError):  # it says nothing of what it has no column of
                    made[name][metric.name] = scored(metric, own)
        return {"baselines": {FREQUENCIES: made}}

    def finish(self, checkpoint: Checkpoint) -> None:
        if checkpoint.tokenizer is not None:
            checkpoint.tokenizer.max_length = checkpoint.transformer.shape.longest

    def reading(self) -> dict[str, float]:
        if self.words_table.pack:
            return {}
        return {"padding_share": padding_share(self.batches.batches(0), [[n] for n in self.batches.lengths])}


def _words(rows: Sequence[Row]) -> Ints:
    """The words that are asked for in some rows."""
    return np.concatenate([np.zeros(0, np.int64), *(row.words_n for row in rows)]).astype(np.int64)
