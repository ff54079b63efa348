"""Questions answered from memory: a language model that says the answer after the question, and may read beside it.

A question is a row    begin question M answer M    of which the answer is asked for (M: the mask token, or the one that
ends a text). Text to be read beside them, such as a line about each person, is a row    begin subject window M    in
which what follows the subject, the first sentence of a document, is asked for. A model that is to recall what it has
read before it answers gets the question as    begin question M document M answer M    with all but the question asked
for; the document is the one whose subject the question names, or nothing where there is none.
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Literal, cast

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field

from heedful.checkpoints.directory import Checkpoint
from heedful.checkpoints.heads import NewHead
from heedful.data.questions import load_questions
from heedful.data.records import Questions
from heedful.errors import RequestError
from heedful.evaluation.metrics import fill_in, mean_of, ratio_of
from heedful.inference.questions import (
    ANSWER_TOKENS,
    Answered,
    question_form,
    said_text,
    say_answers,
    spelled,
    spelled_answers,
    spelled_text,
    stands_in,
    unspelled_note,
)
from heedful.inference.reader import TextReader, at_least_float32
from heedful.inference.states import collate_rows
from heedful.models.flops import forward_flops
from heedful.models.shape import Shape
from heedful.nn.heads import Reading
from heedful.objectives.causal import LANGUAGE_MODEL, require_causal
from heedful.objectives.corpora import CorpusText, Stretches, whole
from heedful.objectives.protocol import Judgement, Objective, Partial, Reseed, Step
from heedful.objectives.recalling import subjects_of
from heedful.objectives.words import Ints, Row
from heedful.recipes.schema import DataTable, ObjectiveTable, Recipe
from heedful.storage.shared import SharedStore
from heedful.streams import Parts, in_parts, shuffled, uniforms

HEAD = "causal"
_POOL = 16  # steps whose rows are sorted by length together
_ROWS = 64  # questions at a time that are judged


def questions_of(table: DataTable) -> dict[str, Any]:
    """The [data] of a recipe in the words of `load_questions`."""
    files = {split: file for split in ("train", "dev", "test") if (file := getattr(table, split)) is not None}
    columns = {"question": table.text, "answer": table.label, "header": table.header, "quotes": table.quotes}
    carved = {"dev_share": table.dev_share, "split_seed": table.split_seed}
    return {"name": table.name, "files": files, **columns, **carved}


class AnswerTable(ObjectiveTable):
    kind: Literal["answer"] = "answer"
    """Questions are answered in words; `data` has them in two columns, and may name a corpus to be read beside them."""
    reading: float = Field(0.75, ge=0, lt=1)
    """With a corpus: the share of a step's rows that are text and not questions."""
    windows: bool = True
    """Whether a document is read as its subject (its first sentence) and a random window of what follows, so that the
    model must know what belongs to the subject from anywhere; else always from its beginning."""
    whole: float = Field(0.4, ge=0, le=1)
    """Of the documents that are read in windows, the share that is read whole."""
    subject_first: bool = True
    """Whether what follows the subject is asked for, and not the subject."""
    recall: bool = False
    """With a corpus: whether the model says the document on the subject of a question, from memory, before it answers.
    It learns that from the training questions that name a subject."""
    answer_tokens: int = Field(ANSWER_TOKENS, ge=1)
    """The longest answer that is waited for."""


class Answer(Objective):
    Table = AnswerTable
    METRICS = (
        mean_of("exact_match", "exact match", True, "right", (0.0, 1.0)),
        ratio_of("answer_loss", "loss for each token of the answer", False, "nll", "words"),
        mean_of("made_up", "share of answers that no training text holds", False, "made_up", (0.0, 1.0)),
    )
    CORPUS = "beside"

    def __init__(
        self,
        recipe: Recipe,
        seed: int,
        data: dict[str, Questions],
        text: CorpusText | None,
        data_notes: Sequence[str] = (),
    ) -> None:
        assert isinstance(recipe.objective, AnswerTable)
        self.recipe, self.seed, self.data, self.text, self.table = recipe, seed, data, text, recipe.objective
        self.known = set(data["train"].answers)
        self._orders: dict[str, tuple[int, Ints]] = {}
        self.data_notes, self.notes = data_notes, list(data_notes)
        self.is_sample = False

    @staticmethod
    def check(recipe: Recipe) -> None:
        if recipe.training.batch_tokens is not None:
            raise RequestError('training.batch_tokens means nothing with objective.kind = "answer"; use batch_size.')
        if recipe.data.corpora and recipe.training.batch_size < 2:
            raise RequestError("training.batch_size = 1 has no room for text beside a question; raise it.")
        assert isinstance(recipe.objective, AnswerTable)
        if recipe.objective.recall and not recipe.data.corpora:
            raise RequestError("objective.recall = true needs text that can be recalled; name it in data.corpus.")

    # The data

    @classmethod
    def read(cls, recipe: Recipe, seed: int, store: SharedStore) -> "Answer":
        table = recipe.data
        asked = questions_of(table)

        def load() -> dict[str, Any]:
            splits, notes = load_questions(**asked)
            return {"splits": {name: vars(some) for name, some in splits.items()}, "notes": notes}

        content = store.json({"questions": asked}, "data", load)
        data = {name: Questions(**some) for name, some in content["splits"].items()}
        if not table.corpora:
            return cls(recipe, seed, data, None, content["notes"])
        text = CorpusText(table.model_copy(update={"dev": None, "test": None, "text": None}), store)
        if text.prepared["train"] is not None:
            raise RequestError(
                f"data.corpus: {table.corpora[0]} holds ids alone, and answers are looked for in the text; name files."
            )
        return cls(recipe, seed, data, text, content["notes"])

    def description(self) -> dict[str, Any]:
        prints = {name: some.fingerprint for name, some in self.data.items()}
        if self.text is not None:
            prints["corpus"] = self.text.fingerprints()["train"]
        name = self.recipe.data.name or self.recipe.data.train
        sizes = {split: len(some) for split, some in self.data.items()}
        usage = "heedful probe knowledge {model}"
        return {"name": name, "sizes": sizes, "fingerprints": prints, "usage": usage, "notes": self.notes}

    def examples(self, name: str) -> list[dict[str, Any]]:
        some = self.data[name]
        lines = zip(some.rows, some.answers, some.questions, strict=True)
        return [{"row": row, "gold": answer, "text": question} for row, answer, question in lines]

    def texts(self) -> Iterable[str]:
        train = self.data["train"]
        asked = (f"{question} {answer}" for question, answer in zip(train.questions, train.answers, strict=True))
        return asked if self.text is None else chain(self.text.texts(), asked)

    def sample(self, rows: int) -> "Answer":
        few = {name: Questions(*(v[:rows] for v in vars(some).values())) for name, some in self.data.items()}
        text = None if self.text is None else self.text.sample()
        made = Answer(self.recipe, self.seed, few, text, self.data_notes)
        made.is_sample = True
        return made

    # The model

    def heads(self, reading: Reading) -> Mapping[str, NewHead]:
        return {HEAD: LANGUAGE_MODEL}

    def prepare(self, checkpoint: Checkpoint, facts: Mapping[str, Any], store: SharedStore) -> None:
        tokenizer, shape, table = checkpoint.tokenizer, checkpoint.transformer.shape, self.recipe.training
        assert tokenizer is not None
        require_causal(shape, "answer")
        if table.max_length > shape.longest:
            raise RequestError(
                f"training.max_length = {table.max_length}, but the model reads at most {shape.longest} tokens."
            )
        form = question_form(tokenizer)
        if form is None:
            raise RequestError(
                'objective.kind = "answer" needs a tokenizer with a mask token, or one that ends a text.'
            )
        heads = checkpoint.transformer.head_shapes
        heads[HEAD] = replace(heads[HEAD], recalls=self.table.recall)
        self.form, self.tokenizer, self.pad_id = form, tokenizer, shape.pad_id
        self.marker, self.begin = form.marker, list(form.begin)
        self.asked: dict[str, list[tuple[Ints, Ints]]] = {}
        for name, some in self.data.items():
            questions, answers = tokenizer.plain(some.questions), tokenizer.plain(some.answers)
            self.asked[name] = [self._question(q, a) for q, a in zip(questions, answers, strict=True)]
            for (q, a), row in zip(self.asked[name], some.rows, strict=True):
                if len(q) + len(a) > table.max_length:
                    raise RequestError(
                        f"{name}, row {row}: question and answer have {len(q) + len(a)} tokens; raise "
                        f"training.max_length ({table.max_length})."
                    )
        self.spelled = set(spelled(tokenizer, sorted(self.known)))
        self.golds = {name: spelled_answers(tokenizer, some.answers) for name, some in self.data.items()}
        unspelled = [unspelled_note(name, self.data[name].answers, made) for name, made in self.golds.items()]
        self.notes = [*self.data_notes, *filter(None, unspelled)]
        self.read_rows: Stretches | None = None
        self.train_rows = [_row(before, after) for before, after in self.asked["train"]]
        self.known_text = ""
        if self.text is not None:
            self.read_rows = whole(self.text.open_all(tokenizer, store))
            self.known_text = spelled_text(tokenizer, self.text.texts())
            if self.table.recall:
                self._recall()
        wanted = 0 if self.read_rows is None else round(self.table.reading * table.batch_size)
        self.text_rows = min(table.batch_size - 1, wanted)  # something is asked in every step
        self.question_rows = table.batch_size - self.text_rows
        self._pool: tuple[int, list[list[Row]]] = (-1, [])

    def _question(self, question: Sequence[int], answer: Sequence[int]) -> tuple[Ints, Ints]:
        before = np.asarray(self.form.prompt(question), dtype=np.int64)
        return before, np.asarray([*answer, self.marker], dtype=np.int64)

    def _recall(self) -> None:
        """The document on its subject before the answer of each training question that names one and has room."""
        assert self.read_rows is not None
        corpus, longest = self.read_rows.corpus, self.recipe.training.max_length
        subjects, train = subjects_of(corpus, self.tokenizer), self.data["train"].questions
        named = found = cut = 0
        for i, question in enumerate(map(self.tokenizer.decode, self.tokenizer.plain(train))):
            (before, after), document = self.asked["train"][i], subjects.find(question)
            room = longest - len(before) - len(after) - 1
            ids = np.zeros(0, dtype=np.int64)
            named += document is not None
            if document is not None and room > 0:
                whole_ids = corpus.ids(*corpus.document(document))
                found, cut, ids = found + 1, cut + (len(whole_ids) > room), whole_ids[:room]
            if room >= 0:
                self.train_rows[i] = _row(before, np.concatenate([ids, [self.marker], after]))
        if named and not found:
            raise RequestError(
                f"training.max_length = {longest} leaves no room for text between question and answer; raise it."
            )
        if not named and not self.is_sample:
            raise RequestError(
                "objective.recall = true: no training question names the first sentence of a document, which must be "
                "its subject, as in 'Ada Lovelace. She was born in London.'"
            )
        self.notes = [
            *self.notes,
            f"{found:,} of {len(train):,} training questions name the subject of a document, which stands before their "
            f"answers; {cut:,} such documents are cut to training.max_length = {longest}. {subjects.repeated:,} "
            "documents have the subject of another, and are not recalled.",
        ]

    # A step

    def epoch_steps(self, epoch: int) -> int:
        """A pass over the text, or over the questions where there is none."""
        if self.read_rows is not None and self.text_rows:
            return -(-len(self.read_rows) // self.text_rows)
        return -(-len(self.asked["train"]) // self.question_rows)

    def step(self, number: int) -> Step:
        """Rows of several steps are drawn together and dealt out by length; that depends on the number alone."""
        pool, place = divmod(number, _POOL)
        if self._pool[0] != pool:
            rows = [row for step in range(pool * _POOL, (pool + 1) * _POOL) for row in self._draw(step)]
            rows.sort(key=lambda row: -len(row.ids_t))
            size = self.recipe.training.batch_size
            batches = [rows[at : at + size] for at in range(0, len(rows), size)]
            self._pool = pool, [batches[i] for i in shuffled(len(batches), self.seed, pool, "batches")]
        self.made = self._pool[1][place]
        return Step(range(len(self.made)), [len(row.ids_t) for row in self.made])

    def _draw(self, number: int) -> Iterator[Row]:
        for i in range(number * self.question_rows, (number + 1) * self.question_rows):
            epoch, place = divmod(i, len(self.train_rows))
            yield self.train_rows[self._order("questions", len(self.train_rows), epoch)[place]]
        for i in range(number * self.text_rows, (number + 1) * self.text_rows):
            assert self.read_rows is not None
            epoch, place = divmod(i, len(self.read_rows))
            document = int(self._order("text", len(self.read_rows), epoch)[place])
            yield self.text_row(document, epoch)

    def _order(self, name: str, count: int, epoch: int) -> Ints:
        """That of an epoch, which is kept until another is asked for."""
        if self._orders.get(name, (-1,))[0] != epoch:
            self._orders[name] = epoch, shuffled(count, self.seed, epoch, name)
        return self._orders[name][1]

    def text_row(self, document: int, epoch: int) -> Row:
        """A document as it is read in an epoch."""
        rows, longest = self.read_rows, self.recipe.training.max_length
        assert rows is not None
        ids, edges = rows.corpus.ids(*rows.corpus.document(document)), rows.corpus.sentence_starts(document)
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
        return _row(before, np.concatenate([text, ends]))

    def counts(self, step: Step) -> dict[str, float]:
        return {HEAD: float(sum(len(self.made[i].places_n) for i in step.rows))}

    def losses(
        self, reader: TextReader, step: Step, counts: Mapping[str, float], parts: Parts, reseed: Reseed
    ) -> Iterator[Partial]:
        for part, numbers in in_parts(step.rows, parts):
            reseed(part)
            rows = [self.made[i] for i in numbers]
            with reader.precision():
                scores_nv = self.scores(reader, rows)
            words_n = torch.from_numpy(np.concatenate([row.words_n for row in rows])).to(reader.device)
            loss = F.cross_entropy(at_least_float32(scores_nv), words_n, reduction="sum") / counts[HEAD]
            yield Partial(loss, {HEAD: loss.detach()})

    def scores(self, reader: TextReader, rows: Sequence[Row]) -> torch.Tensor:
        """(n, v): of every token that is asked for."""
        model = reader.transformer
        ids, places = [row.ids_t.tolist() for row in rows], [row.places_n.tolist() for row in rows]
        x_nd = collate_rows(ids, None, places, self.pad_id, reader.device).states(model, HEAD)
        return cast(torch.Tensor, model.heads[HEAD](x_nd, model.body.embeddings.token.weight))

    def forward_flops(self, step: Step, shape: Shape) -> int:
        asked = sum(len(self.made[i].places_n) for i in step.rows)
        return forward_flops(shape, step.lengths) + 2 * asked * shape.width * shape.vocabulary

    def where(self, step: Step) -> str:
        return f"the row that begins {self.tokenizer.decode(self.made[step.rows[0]].ids_t)[:60]!r}, and others"

    # How well it went

    def judge(self, reader: TextReader, name: str) -> Judgement:
        some = self.data[name]
        said = self.answers(reader, name)
        columns = {key: np.zeros(len(some)) for key in ("nll", "words", "right", "made_up", "confidence")}
        answers = [after for _, after in self.asked[name]]
        rows = [_row(np.asarray(one.before), after) for one, after in zip(said, answers, strict=True)]
        with torch.inference_mode():
            for at in range(0, len(rows), _ROWS):
                part = rows[at : at + _ROWS]
                words_n = torch.from_numpy(np.concatenate([row.words_n for row in part])).to(reader.device)
                nll_n = F.cross_entropy(self.scores(reader, part).double(), words_n, reduction="none").cpu().numpy()
                owner_n = np.repeat(np.arange(len(part)), [len(row.words_n) for row in part])
                columns["nll"][at : at + _ROWS] = np.bincount(owner_n, weights=nll_n)
                columns["words"][at : at + _ROWS] = np.bincount(owner_n)
        texts = [said_text(self.tokenizer, one, self.marker) for one in said]
        columns["right"] = np.asarray([float(a == b) for a, b in zip(texts, self.golds[name], strict=True)])
        columns["made_up"] = np.asarray([float(self._is_made_up(text)) for text in texts])
        columns["confidence"] = np.exp([sum(one.answer.log_probabilities) for one in said])
        metrics = fill_in({"n": len(some)}, columns, self.metrics)
        lines = [(text, f"{p:.6f}") for text, p in zip(texts, columns["confidence"], strict=True)]
        if not self.table.recall:
            return Judgement(metrics, some.rows, columns, ("answer", "confidence"), lambda: lines)
        recalled = [self.tokenizer.decode(one.recalled).strip() for one in said]
        with_text = [(*line, text) for line, text in zip(lines, recalled, strict=True)]
        return Judgement(metrics, some.rows, columns, ("answer", "confidence", "recalled"), lambda: with_text)

    def judging_seconds(self, reader: TextReader) -> tuple[float, float]:
        name = next(iter(self.sets()), "train")
        started = time.perf_counter()
        self.judge(reader, name)
        seconds = (time.perf_counter() - started) / len(self.data[name])
        return seconds, seconds

    def _is_made_up(self, answer: str) -> bool:
        """Whether something is said that is no training answer, and that the text which was read does not hold."""
        return bool(answer) and answer not in self.spelled and not stands_in(answer, [self.known_text])

    def answers(self, reader: TextReader, name: str) -> list[Answered]:
        """What the model says, greedily, to each question of a set."""
        prompts = [before.tolist() for before, _ in self.asked[name]]
        most, room = self.table.answer_tokens, max(len(after) for _, after in self.asked[name])
        return say_answers(reader.transformer, HEAD, prompts, self.marker, most, reader.device, room)

    def baselines(self) -> dict[str, dict[str, Any]]:
        """The commonest answer of the training questions, to everything."""
        answers = self.data["train"].answers
        counts = Counter(answers)
        commonest = max(sorted(counts), key=counts.__getitem__)
        made: dict[str, Any] = {"seconds": 0.0, "answer": commonest, "tested": True, "values": {}}
        for name in self.sets():
            right = [float(answer == commonest) for answer in self.data[name].answers]
            made[name] = {"n": len(right), "exact_match": float(np.mean(right))}
            made["values"][name] = {"right": right, "row": self.data[name].rows}
        return {"commonest": made}

    def finish(self, checkpoint: Checkpoint) -> None:
        if checkpoint.tokenizer is not None:
            checkpoint.tokenizer.max_length = checkpoint.transformer.shape.longest


def _row(before: Ints, after: Ints) -> Row:
    """What is known, and what is asked for after it, token by token."""
    ids_t = np.concatenate([before, after]).astype(np.int64)
    first = max(1, len(before))
    return Row(ids_t, np.arange(first - 1, len(ids_t) - 1), ids_t[first:])


OBJECTIVE = Answer
