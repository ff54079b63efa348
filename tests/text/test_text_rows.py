"""What callers pass as texts: columns are read as lists, tables are refused by the names of their columns."""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import heedful
from heedful.errors import RequestError
from heedful.evaluation.metrics import CLASS_METRICS
from heedful.evaluation.tfidf import fit_tfidf
from heedful.inference.model import Model
from heedful.inference.translation.translator import Translator
from heedful.inference.word_model import WordModel
from heedful.text.rows import list_texts
from tests.support.generation_samples import write_language_model
from tests.support.translator_samples import make

COLUMNS = {"id": [1, 2], "text": ["a film", "a dog"], "stars": [3, 4]}


class Frame:
    """As pandas and polars have it: its columns are an attribute of the class, and iterating gives their names."""

    def __init__(self, columns: dict[Any, list[Any]]) -> None:
        self._columns = columns

    @property
    def columns(self) -> list[Any]:
        return list(self._columns)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._columns)


class Series:
    """As pandas has it: any label of its index is an attribute, too."""

    def __init__(self, values: list[Any]) -> None:
        self._values = values
        self.columns = "a label that happens to have this name"

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)


class Indexed(Series):
    """With an index of its own, from which labels are attributes, and positions are not numbers of rows."""

    def __init__(self, values: list[Any], index: list[Any]) -> None:
        self._values, self._index = values, index

    def __getitem__(self, label: Any) -> Any:
        return self._values[self._index.index(label)]

    def __getattr__(self, name: str) -> Any:
        if name in self.__dict__.get("_index", ()):
            return self[name]
        raise AttributeError(name)


class Columned:
    """As some libraries have it: each object has its columns as an attribute of its own."""

    def __init__(self, columns: dict[str, list[Any]]) -> None:
        self.columns = columns

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)


TABLES: dict[str, Any] = {
    "data frame": Frame(COLUMNS),
    "dict": COLUMNS,
    "Arrow table": pa.table(COLUMNS),
    "Arrow batch": pa.RecordBatch.from_pydict(COLUMNS),
    "ordered dict": OrderedDict(COLUMNS),
    "data frame with its own attribute": Columned(COLUMNS),
    "structured array": np.array([(1, "a film", 3.0)], dtype=[("id", "i4"), ("text", "U9"), ("stars", "f4")]),
}
COLUMN: dict[str, Any] = {
    "array": np.array(COLUMNS["text"]),
    "array of objects": np.array(COLUMNS["text"], dtype=object),
    "Arrow array": pa.array(COLUMNS["text"]),
    "Arrow chunks": pa.table(COLUMNS)["text"],
    "series": Series(COLUMNS["text"]),
    "series from row 5": Indexed(COLUMNS["text"], [5, 7]),
    "series with names of attributes": Indexed(COLUMNS["text"], ["columns", "column_names"]),
    "Arrow strings of large offsets": pa.array(COLUMNS["text"], pa.large_string()),
    "Arrow categories": pa.array(COLUMNS["text"]).dictionary_encode(),
    "array of one object each": np.array(COLUMNS["text"], dtype=object)[:, None][:, 0],
    "values of a dict": dict.fromkeys(COLUMNS["text"]).keys(),
    "generator": (text for text in COLUMNS["text"]),
}


def refusal(call: Callable[[], Any]) -> str:
    with pytest.raises(RequestError) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize("kind", TABLES)
def test_a_table_is_refused_with_its_columns_and_the_remedy(kind: str) -> None:
    words = refusal(lambda: list_texts(TABLES[kind], "predict"))
    assert words == (
        'predict was given a table with the columns "id", "text", "stars", not a list of texts. '
        'Pass one column, as in predict(df["text"]).'
    )


def test_a_table_with_many_columns_is_refused_in_a_line() -> None:
    words = refusal(lambda: list_texts(Frame({f"c{i}": [] for i in range(100)}), "encode"))
    assert '"c4" and 95 more' in words
    assert 'encode(df["c0"])' in words
    assert "a table without columns" in refusal(lambda: list_texts({}, "encode"))


@pytest.mark.parametrize("kind", COLUMN)
def test_a_column_is_a_list_of_texts(kind: str) -> None:
    texts = list_texts(COLUMN[kind], "predict")
    assert texts == ["a film", "a dog"]
    assert all(type(text) is str for text in texts)


@pytest.mark.parametrize("missing", [None, float("nan"), np.float64("nan"), type("NAType", (), {})()])
def test_a_missing_value_is_refused_with_its_row(missing: Any) -> None:
    words = refusal(lambda: list_texts(Series(["a film", "a dog", missing, ""]), "predict"))
    assert words == "Row 2 of the texts is missing. Fill it or remove it."
    words = refusal(lambda: list_texts([["a", "b"], ["a", missing]], "predict"))
    assert words == "Row 1 of the texts is missing. Fill it or remove it."


def test_other_rows_are_refused_with_what_they_are() -> None:
    assert "Row 1 of the texts is missing" in refusal(lambda: list_texts(pa.array(["a", None]), "predict"))
    assert "Row 0 of the texts is int" in refusal(lambda: list_texts(np.arange(3), "predict"))
    for shape in ((2, 3), (2, 1), (0, 3)):
        assert refusal(lambda shape=shape: list_texts(np.full(shape, "a"), "predict")) == (  # type: ignore[misc]
            f"predict was given an array of shape {shape}, not a list of texts. Pass one column, as in "
            "predict(array[:, 0])."
        )
    assert "an array of shape (1, 1, 2), not a list of texts." in refusal(
        lambda: list_texts(np.full((1, 1, 2), "a"), "predict")
    )
    for unordered in ({"a", "b"}, frozenset(["a"])):
        assert refusal(lambda unordered=unordered: list_texts(unordered, "encode")) == (  # type: ignore[misc]
            "encode takes a list of texts, and a set has no order; make it a list."
        )
    assert "put the one prompt in a list" in refusal(lambda: list_texts(b"a film", "generate", "prompts"))
    assert "Row 0 of the texts is dict, not text" in refusal(lambda: list_texts([{"text": "a"}], "predict"))
    masked = np.ma.array(["a", "b"], mask=[False, True])
    assert "Row 1 of the texts is missing" in refusal(lambda: list_texts(masked, "predict"))
    assert "put the one text in a list" in refusal(lambda: list_texts(np.array("a film"), "predict"))
    assert list_texts(np.array([["a", "b"], ["c", "d"]]), "predict") == [["a", "b"], ["c", "d"]]


def test_every_verb_refuses_a_table(tmp_path: Path) -> None:
    """Without the check, each of them answers for the names of the columns."""
    words = WordModel(
        fit_tfidf(["good", "bad"] * 9, None, np.array([0, 1] * 9), ("a", "b"), CLASS_METRICS["accuracy"], 0), "words"
    )
    translator = Translator(make("post"), "translator")
    write_language_model(tmp_path / "writer")
    writer: Model = heedful.load(tmp_path / "writer", new_head="linear", labels=("a", "b"), keep_heads=True)
    frame = TABLES["data frame"]
    for verb, call in (
        ("predict", words.predict),
        ("predict", writer.predict),
        ("encode", writer.encode),
        ("generate", writer.generate),
        ("fusion_weights", writer.fusion_weights),
        ("translate", translator.translate),
        ("score", lambda table: translator.score(table, ["a"])),
        ("score", lambda table: translator.score(["a"], table)),
        ("translate", lambda table: translator.translate(["a"], prefix=table)),
    ):
        assert f'{verb} was given a table with the columns "id", "text", "stars"' in refusal(
            lambda call=call: call(frame)  # type: ignore[misc]
        )
    features = writer.encode(["a", "b"])
    for column in (np.array(["a", "b"]), pa.array(["a", "b"])):
        assert (writer.encode(column) == features).all()


def test_frames_of_the_libraries() -> None:
    """Where pandas or polars is installed, their own types."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(COLUMNS)
    assert '"id", "text", "stars"' in refusal(lambda: list_texts(frame, "predict"))
    assert list_texts(frame["text"], "predict") == COLUMNS["text"]
    assert list_texts(frame["text"].astype("category"), "predict") == COLUMNS["text"]
    for kind in (object, "string"):
        assert "Row 1 of the texts is missing" in refusal(
            lambda kind=kind: list_texts(pandas.Series(["a", None], dtype=kind), "predict")  # type: ignore[misc]
        )


def test_frames_of_polars() -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(COLUMNS)
    for table in (frame, frame.lazy()):
        assert '"id", "text", "stars"' in refusal(lambda table=table: list_texts(table, "predict"))  # type: ignore[misc]
    assert list_texts(frame["text"], "predict") == COLUMNS["text"]
    assert "Row 1 of the texts is missing" in refusal(lambda: list_texts(polars.Series(["a", None]), "predict"))
