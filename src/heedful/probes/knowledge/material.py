"""What models are asked, and what they learned from: as the user names it, or as the recipe of a run does."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from heedful.data.catalog import QUESTIONS
from heedful.data.corpus.documents import all_documents
from heedful.data.corpus.finding import find_sources
from heedful.data.question_sets import QuestionTable, questions_of
from heedful.data.questions import load_questions, read_questions
from heedful.data.records import Questions
from heedful.data.running_text import CorpusTable
from heedful.errors import RequestError
from heedful.inference.questions import ANSWER_TOKENS
from heedful.objectives.answer import AnswerTable
from heedful.probes.knowledge.names import KnownNames, KnownText
from heedful.recipes.reading import draft_recipe
from heedful.storage.runs import judging_order

T = TypeVar("T")
_OTHERS = "name files with --questions, --train and --text"


@dataclass(frozen=True)
class Given:
    """What the user names; the recipes say the rest."""

    questions: str | None = None
    train: str | None = None
    text: tuple[str, ...] = ()


@dataclass(frozen=True)
class Material:
    """Of one subject."""

    name: str
    """What the questions are called."""
    questions: Questions
    train_name: str = ""
    train: Questions | None = None
    """The questions that it was trained on, if that is known."""
    text: KnownText | None = None
    """What it has read, if anything."""
    answer_tokens: int = ANSWER_TOKENS
    names: KnownNames | None = None
    """Those of the training questions."""


@dataclass
class Library:
    """Finds the material of each subject; what several share is read once."""

    given: Given
    _kept: dict[str, Any] = field(default_factory=dict)

    def material(self, subject: str, recipe: Mapping[str, Any] | None) -> Material:
        given, drafted = self.given, None if recipe is None else draft_recipe(recipe, subject)
        answers = drafted.objective if drafted is not None and isinstance(drafted.objective, AnswerTable) else None
        own = drafted.data if drafted is not None and isinstance(drafted.data, QuestionTable) else None
        name, questions = self._questions(subject, own)
        train_name, train = self._train(subject, own)
        table = None if drafted is None else drafted.data
        corpora = table if isinstance(table, CorpusTable) and table.corpora else None
        text = None
        if given.text:
            text = self._given_text()
        elif corpora is not None:
            column = None if answers is not None else corpora.text  # there it is the column of the questions
            text = _of_recipe(subject, lambda: self._text(corpora.corpora, corpora.separator, column))
        names = None if train is None else self._once("names", train.fingerprint, lambda: KnownNames(train))
        most = ANSWER_TOKENS if answers is None else answers.answer_tokens
        return Material(name, questions, train_name, train, text, most, names)

    def _questions(self, subject: str, own: QuestionTable | None) -> tuple[str, Questions]:
        if self.given.questions is not None:
            return self._split(self.given.questions, "dev")
        if own is None:
            raise RequestError(
                f"{subject} does not say which questions it was trained for; name some with --questions "
                f"(a file, or {', '.join(QUESTIONS)})."
            )
        sets = self._sets(subject, own)
        judged = judging_order(name for name in sets if name != "train")
        return _called(own, judged[0]), sets[judged[0]]

    def _train(self, subject: str, own: QuestionTable | None) -> tuple[str, Questions | None]:
        if self.given.train is not None:
            return self._split(self.given.train, "train")
        if own is not None:
            return _called(own, "train"), self._sets(subject, own)["train"]
        named = self.given.questions
        if named in QUESTIONS and not Path(str(named)).exists():
            return self._split(str(named), "train")
        return "", None

    def _split(self, name: str, split: str) -> tuple[str, Questions]:
        """A file, or a split of a named set."""
        path = Path(name).expanduser()
        if name in QUESTIONS and not path.exists():
            return f"{name}, {split}", self._once("named", name, lambda: load_questions(name, {})[0])[split]
        if not path.exists():
            option = "--train" if split == "train" else "--questions"
            raise RequestError(
                f"{option}: {name} does not exist, and no set has this name; there is {', '.join(QUESTIONS)}."
            )
        return path.name, self._once("file", str(path), lambda: read_questions(path, None, None, None, None))

    def _sets(self, subject: str, own: QuestionTable) -> dict[str, Questions]:
        asked = questions_of(own)
        return self._once("sets", json.dumps(asked), lambda: _of_recipe(subject, lambda: load_questions(**asked)[0]))

    def _given_text(self) -> KnownText:
        try:
            return self._text(self.given.text, "auto", None)
        except RequestError as error:
            raise RequestError(str(error).replace("data.corpus:", "--text:")) from None

    def _text(self, names: Sequence[str], separator: str, column: str | None) -> KnownText:
        def read() -> KnownText:
            sources = find_sources([str(Path(name).expanduser()) for name in names], separator, column)
            return KnownText(" and ".join(source.called for source in sources), all_documents(sources))

        return self._once("text", json.dumps([list(names), separator, column]), read)

    def _once(self, kind: str, key: str, make: Callable[[], T]) -> T:
        made: T = self._kept[f"{kind} {key}"] if f"{kind} {key}" in self._kept else make()
        self._kept[f"{kind} {key}"] = made
        return made


def _called(own: QuestionTable, split: str) -> str:
    file = getattr(own, split)
    if own.name or file is None:  # of a named set, or carved from train
        return f"{own.name or Path(str(own.train)).name}, {split}"
    return Path(file).name


def _of_recipe(subject: str, read: Callable[[], T]) -> T:
    """What a recipe names may have gone since."""
    try:
        return read()
    except RequestError as error:
        raise RequestError(
            f"{subject}: what its recipe names cannot be read ({str(error).rstrip('.')}); {_OTHERS}."
        ) from None
