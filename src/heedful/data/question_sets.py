"""Questions with their answers, and text that may be read beside them."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Self

from heedful.data.protocol import Data
from heedful.data.questions import load_questions
from heedful.data.records import Questions
from heedful.data.running_text import CorpusTable, RunningText
from heedful.errors import RequestError
from heedful.recipes.schema import DataTable, Recipe
from heedful.storage.shared import SharedStore


class QuestionTable(CorpusTable):
    name: str | None = None
    """Named data set from `heedful data`. Use either this or `train`."""
    train: str | None = None
    """Training file of questions and answers: CSV, TSV, JSONL or Parquet."""
    text: str | None = None
    """Column with the question. Default: the first."""
    label: str | None = None
    """Column with the answer. Default: the second."""
    header: bool | None = None
    """Whether the first line of a CSV or TSV file contains column names. If not, the columns are called "column 1",
    "column 2" and so on. Default: detect."""
    quotes: bool | None = None
    """Whether quotation marks enclose cells; if not, they are ordinary characters. Default: true for CSV; for TSV
    only if the whole file is quoted."""

    def files(self, name: str) -> list[str]:
        return self.corpora if name == "corpus" else DataTable.files(self, name)


def questions_of(table: QuestionTable) -> dict[str, Any]:
    """Return the [data] of a recipe in the words of `load_questions`."""
    files = {split: file for split in ("train", "dev", "test") if (file := getattr(table, split)) is not None}
    columns = {"question": table.text, "answer": table.label, "header": table.header, "quotes": table.quotes}
    carved = {"dev_share": table.dev_share, "split_seed": table.split_seed}
    return {"name": table.name, "files": files, **columns, **carved}


class QuestionData(Data):
    Table = QuestionTable

    def __init__(
        self,
        name: str,
        splits: Mapping[str, Questions],
        text: RunningText | None,
        notes: Sequence[str] = (),
        is_sample: bool = False,
    ) -> None:
        """`text`: what is read beside the questions."""
        self.name, self.splits, self.text, self.notes, self.is_sample = name, dict(splits), text, list(notes), is_sample

    @staticmethod
    def check(recipe: Recipe) -> None:
        assert isinstance(recipe.data, QuestionTable)
        if recipe.data.name is not None and recipe.data.train is not None:
            raise RequestError("[data] needs either name or train, not both.")

    @classmethod
    def read(cls, recipe: Recipe, seed: int, store: SharedStore) -> Self:
        table = recipe.data
        assert isinstance(table, QuestionTable)
        asked = questions_of(table)

        def load() -> dict[str, Any]:
            splits, notes = load_questions(**asked)
            return {"splits": {split: vars(questions) for split, questions in splits.items()}, "notes": notes}

        content = store.json({"questions": asked}, "data", load)
        splits = {split: Questions(**columns) for split, columns in content["splits"].items()}
        text = None
        if table.corpora:
            text = RunningText(table.model_copy(update={"dev": None, "test": None, "text": None}), store)
            if text.prepared["train"] is not None:
                raise RequestError(
                    f"data.corpus: {table.corpora[0]} contains only ids, but answers are searched in the text. Name "
                    "text files."
                )
        return cls(str(table.name or table.train), splits, text, content["notes"])

    def describe(self) -> dict[str, Any]:
        fingerprints = {split: questions.fingerprint for split, questions in self.splits.items()}
        if self.text is not None:
            fingerprints["corpus"] = self.text.fingerprints()["train"]
        sizes = {split: len(questions) for split, questions in self.splits.items()}
        return {"name": self.name, "sizes": sizes, "fingerprints": fingerprints, "notes": self.notes}

    def examples(self, name: str) -> list[dict[str, Any]]:
        questions = self.splits[name]
        lines = zip(questions.rows, questions.answers, questions.questions, strict=True)
        return [{"row": row, "gold": answer, "text": question} for row, answer, question in lines]

    def texts(self) -> Iterable[str]:
        train = self.splits["train"]
        asked = (f"{question} {answer}" for question, answer in zip(train.questions, train.answers, strict=True))
        return asked if self.text is None else chain(self.text.texts(), asked)

    def sets(self) -> dict[str, bool]:
        return {name: True for name in self.splits if name != "train"}

    def sample(self, rows: int) -> Self:
        """Return the first questions of each set, and the beginning of the text."""
        few = {name: questions.take(range(min(rows, len(questions)))) for name, questions in self.splits.items()}
        text = None if self.text is None else self.text.sample(rows)
        return type(self)(self.name, few, text, self.notes, is_sample=True)
