"""Questions and their answers as rows of tokens, and documents that are read beside them.

A question is a row    begin question M answer M    of which the answer is asked for (M: the mask token, or the one that
ends a text). Text to be read beside them, such as a line about each person, is a row    begin subject window M    in
which what follows the subject, the first sentence of a document, is asked for. A model that is to recall what it has
read before it answers gets the question as    begin question M document M answer M    with all but the question asked
for; the document is the one whose subject the question names, or nothing where there is none.

Letters: n words that are asked for, v the vocabulary.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from heedful.checkpoints.directory import Checkpoint
from heedful.data.corpus.shards import Corpus
from heedful.data.question_sets import QuestionData
from heedful.errors import RequestError
from heedful.inference.questions import question_form, spelled, spelled_answers, spelled_text, unspelled_note
from heedful.inference.reader import TextReader
from heedful.inference.states import Ints, Row, RowLayout, word_scores
from heedful.inputs.corpora import open_all
from heedful.inputs.protocol import Inputs, Sampler, Setup, Step
from heedful.inputs.retrieval import subjects_of
from heedful.models.flops import forward_flops
from heedful.models.shape import Shape
from heedful.streams import shuffled, uniforms
from heedful.text.tokenizer import Tokenizer

HEAD = "causal"
_POOL = 16  # steps whose rows are sorted by length together
_SHOWN = 60  # characters of a row that failed


@dataclass(frozen=True)
class QuestionStep(Step):
    batch: Sequence[Row]
    """The rows themselves."""
    layout: RowLayout
    tokenizer: Tokenizer

    def forward_flops(self, shape: Shape) -> int:
        asked = sum(len(row.places_n) for row in self.batch)
        return forward_flops(shape, self.lengths) + 2 * asked * shape.width * shape.vocabulary

    def where(self) -> str:
        return f"the row that begins {self.tokenizer.decode(self.batch[0].ids_t)[:_SHOWN]!r}, and others"


def asked_row(before: Ints, after: Ints) -> Row:
    """Return what is known, and what is asked for after it, token by token."""
    ids_t = np.concatenate([before, after]).astype(np.int64)
    first = max(1, len(before))
    return Row(ids_t, np.arange(first - 1, len(ids_t) - 1), ids_t[first:])


def row_scores(reader: TextReader, layout: RowLayout, rows: Sequence[Row]) -> Tensor:
    """Return the scores (n, v) of every token that is asked for."""
    return word_scores(reader, HEAD, layout.collate(rows, reader.device).states(reader.transformer, HEAD))


class QuestionInputs(Inputs[QuestionData]):
    def __init__(self, data: QuestionData, checkpoint: Checkpoint, table: Any, setup: Setup) -> None:
        """`table`: the objective's, an `AnswerTable`."""
        self.data, self.table, self.seed, self.training = data, table, setup.seed, setup.recipe.training
        tokenizer, shape, longest = checkpoint.tokenizer, checkpoint.transformer.shape, self.training.max_length
        assert tokenizer is not None
        if longest > shape.longest:
            raise RequestError(f"training.max_length = {longest}, but the model reads at most {shape.longest} tokens.")
        form = question_form(tokenizer)
        if form is None:
            raise RequestError(
                'objective.kind = "answer" needs a tokenizer with a mask token, or one that ends a text.'
            )
        self.form, self.tokenizer, self.layout = form, tokenizer, RowLayout(shape.pad_id)
        self.marker, self.begin = form.marker, list(form.begin)
        self.asked = {name: self._encode(name) for name in data.splits}
        """Of each question of a set, what is before its answer, and the answer with the marker."""
        self.spelled = set(spelled(tokenizer, sorted(set(data.splits["train"].answers))))
        """The training answers, as the model can say them."""
        self.golds = {name: spelled_answers(tokenizer, questions.answers) for name, questions in data.splits.items()}
        """The answers of each set, as the model can say them; None for one that it cannot."""
        unspelled = [unspelled_note(name, data.splits[name].answers, answers) for name, answers in self.golds.items()]
        self.notes = [*data.notes, *filter(None, unspelled)]
        self.train_rows = [asked_row(before, after) for before, after in self.asked["train"]]
        self.corpus: Corpus | None = None
        self.known_text = ""
        """What is read beside the questions, as the model can say it."""
        if data.text is not None:
            self.corpus = open_all(data.text, tokenizer, setup.store)
            self.known_text = spelled_text(tokenizer, data.text.texts())
            if table.recall:
                self._recall(self.corpus)

    def _encode(self, name: str) -> list[tuple[Ints, Ints]]:
        questions, longest = self.data.splits[name], self.training.max_length
        encoded = []
        for question, answer, row in zip(
            self.tokenizer.plain(questions.questions),
            self.tokenizer.plain(questions.answers),
            questions.rows,
            strict=True,
        ):
            before = np.asarray(self.form.prompt(question), dtype=np.int64)
            after = np.asarray([*answer, self.marker], dtype=np.int64)
            if len(before) + len(after) > longest:
                raise RequestError(
                    f"{name}, row {row}: question and answer have {len(before) + len(after)} tokens; raise "
                    f"training.max_length ({longest})."
                )
            encoded.append((before, after))
        return encoded

    def _recall(self, corpus: Corpus) -> None:
        """Put the document on its subject before the answer of each training question that names one and has room."""
        longest = self.training.max_length
        subjects, train = subjects_of(corpus, self.tokenizer), self.data.splits["train"].questions
        named = placed = cut = 0
        for i, question in enumerate(map(self.tokenizer.decode, self.tokenizer.plain(train))):
            (before, after), document = self.asked["train"][i], subjects.find(question)
            room = longest - len(before) - len(after) - 1
            ids = np.zeros(0, dtype=np.int64)
            named += document is not None
            if document is not None and room > 0:
                whole_ids = corpus.ids(*corpus.document(document))
                placed, cut, ids = placed + 1, cut + (len(whole_ids) > room), whole_ids[:room]
            if room >= 0:
                self.train_rows[i] = asked_row(before, np.concatenate([ids, [self.marker], after]))
        if named and not placed:
            raise RequestError(
                f"training.max_length = {longest} leaves no room for text between question and answer; raise it."
            )
        if not named and not self.data.is_sample:
            raise RequestError(
                "objective.recall = true: no training question names the first sentence of a document, which must be "
                "its subject, as in 'Ada Lovelace. She was born in London.'"
            )
        self.notes.append(
            f"{placed:,} of {len(train):,} training questions name the subject of a document, which stands before "
            f"their answers; {cut:,} such documents are cut to training.max_length = {longest}. "
            f"{subjects.repeated:,} documents have the subject of another, and are not recalled."
        )

    def describe(self) -> dict[str, Any]:
        return {**self.data.describe(), "notes": self.notes}

    def sampler(self) -> "QuestionSampler":
        return QuestionSampler(self)

    def text_row(self, document: int, epoch: int) -> Row:
        """Return a document as it is read in an epoch."""
        corpus, longest = self.corpus, self.training.max_length
        assert corpus is not None
        ids, edges = corpus.ids(*corpus.document(document)), corpus.sentence_starts(document)
        cut = int(edges[1] - edges[0]) if len(edges) > 2 and self.table.subject_first else 0
        before, rest = np.concatenate([self.begin, ids[:cut]])[: longest // 2], ids[cut:]
        draws = uniforms(3, self.seed, "text", epoch, document)
        if self.table.windows and draws[0] >= self.table.whole:
            first = int(draws[1] * len(rest))
            last = first + 1 + int(draws[2] * (len(rest) - first))
        else:
            first, last = 0, len(rest)
        text = rest[first : min(last, first + longest - len(before) - 1)]
        ends = [self.marker] if first + len(text) == len(rest) else []
        return asked_row(before, np.concatenate([text, ends]))


class QuestionSampler(Sampler):
    """Each step has questions, and documents if there are any. Rows of several steps are drawn together and dealt out
    by length; that depends on the number of the step alone."""

    def __init__(self, inputs: QuestionInputs) -> None:
        self.inputs, self.seed, self.size = inputs, inputs.seed, inputs.training.batch_size
        documents = 0 if inputs.corpus is None else round(inputs.table.reading * self.size)
        self.documents = min(self.size - 1, documents)  # something is asked in every step
        self.questions = self.size - self.documents
        self._orders: dict[str, tuple[int, Ints]] = {}
        self._pool: tuple[int, list[list[Row]]] = (-1, [])

    def epoch_steps(self, epoch: int) -> int:
        """Return the steps of a pass over the text, or over the questions where there is none."""
        if self.inputs.corpus is not None and self.documents:
            return -(-int(self.inputs.corpus.documents) // self.documents)
        return -(-len(self.inputs.train_rows) // self.questions)

    def step(self, number: int, done: float) -> QuestionStep:
        pool, place = divmod(number, _POOL)
        if self._pool[0] != pool:
            self._pool = pool, self._dealt(pool)
        batch = self._pool[1][place]
        lengths = [len(row.ids_t) for row in batch]
        return QuestionStep(range(len(batch)), lengths, batch, self.inputs.layout, self.inputs.tokenizer)

    def _dealt(self, pool: int) -> list[list[Row]]:
        """Return the rows of each step of a pool."""
        rows = [row for step in range(pool * _POOL, (pool + 1) * _POOL) for row in self._draw(step)]
        rows.sort(key=lambda row: -len(row.ids_t))
        batches = [rows[at : at + self.size] for at in range(0, len(rows), self.size)]
        return [batches[i] for i in shuffled(len(batches), self.seed, pool, "batches")]

    def _draw(self, number: int) -> Iterator[Row]:
        rows, corpus = self.inputs.train_rows, self.inputs.corpus
        for i in range(number * self.questions, (number + 1) * self.questions):
            epoch, place = divmod(i, len(rows))
            yield rows[self._order("questions", len(rows), epoch)[place]]
        for i in range(number * self.documents, (number + 1) * self.documents):
            assert corpus is not None
            epoch, place = divmod(i, corpus.documents)
            yield self.inputs.text_row(int(self._order("text", corpus.documents, epoch)[place]), epoch)

    def _order(self, name: str, count: int, epoch: int) -> Ints:
        """Return that of an epoch, which is kept until another is asked for."""
        if self._orders.get(name, (-1,))[0] != epoch:
            self._orders[name] = epoch, shuffled(count, self.seed, epoch, name)
        return self._orders[name][1]
