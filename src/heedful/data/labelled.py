"""Texts, or pairs of texts, with labels or scores."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

from pydantic import Field

from heedful.data.loading import load_data
from heedful.data.protocol import Data
from heedful.data.records import Dataset, Examples
from heedful.errors import RequestError
from heedful.recipes.schema import DataTable, Recipe, RowsTable
from heedful.storage.shared import SharedStore


class LabelledTable(RowsTable):
    name: str | None = None
    """Named data set from `heedful data`. Use either this or `train`."""
    train: str | None = None
    """Training file: CSV, TSV, JSONL or Parquet."""
    dev: str | None = None
    """Validation file for choosing a model. Default: split from `train`, stratified."""
    test: str | None = None
    """Test file for the reported score. Default: split from `train`, stratified."""
    text: str | None = None
    """Column with the text."""
    pair: str | None = None
    """Column with the second text of a pair."""
    label: str | None = None
    """Column with the label, or with the score of a regression."""
    kind: Literal["auto", "classes", "score"] = "auto"
    """Whether `label` contains classes or a score."""
    header: bool | None = None
    """Whether the first line of a CSV or TSV file contains column names. If not, the columns are called "column 1",
    "column 2" and so on. Default: detect."""
    quotes: bool | None = None
    """Whether quotation marks enclose cells; if not, they are ordinary characters. Default: true for CSV; for TSV
    only if the whole file is quoted."""
    dev_share: float = Field(0.1, gt=0, lt=0.9)
    """Share of the training rows that becomes dev if there is no dev file."""
    test_share: float = Field(0.2, gt=0, lt=0.9)
    """Share of the training rows that becomes test if there is no test file."""
    options: dict[str, int | float | str] = Field({})
    """Options of a generated data set, such as {size = 2000, seed = 0} for arithmetic."""

    def refuse_two_sources(self, place: str = "data") -> None:
        """Refuse keys that both say where the rows come from, or how many are used."""
        if self.name is not None and self.train is not None:
            raise RequestError(f"[{place}] needs either name or train, not both.")
        self.refuse_two_limits(place)


class LabelledData(Data):
    Table: ClassVar[type[DataTable]] = LabelledTable
    COLUMNS = True

    def __init__(self, dataset: Dataset, with_test: bool = True) -> None:
        """`with_test`: whether the test set may be looked at."""
        self.dataset = dataset
        splits = {"train": dataset.train, "dev": dataset.dev, "test": dataset.test if with_test else None}
        self.splits: dict[str, Examples] = {name: e for name, e in splits.items() if e is not None and len(e)}

    @staticmethod
    def check(recipe: Recipe) -> None:
        data = recipe.data
        assert isinstance(data, LabelledTable)
        data.refuse_two_sources()
        if data.name is None and data.train is None:
            raise RequestError("[data] needs either name or train.")
        if data.train is not None and (data.text is None or data.label is None):
            raise RequestError("data.train needs data.text and data.label, the names of its columns.")
        if recipe.training.long_texts == "chunk" and data.pair is not None:
            raise RequestError('training.long_texts = "chunk" is for single texts, not for pairs.')

    @classmethod
    def read(cls, recipe: Recipe, seed: int, store: SharedStore) -> Self:
        assert isinstance(recipe.data, LabelledTable)
        dataset = load_data(recipe.data, seed, store)
        if len(dataset.train) == 0:
            raise RequestError(f"{dataset.name}: there are no rows to train on.")
        if recipe.training.long_texts == "chunk" and dataset.train.pairs is not None:
            raise RequestError('training.long_texts = "chunk" is for single texts, not for pairs.')
        if getattr(recipe.model, "pairs", None) is not None and dataset.train.pairs is None:
            raise RequestError(
                "model.pairs says how pairs of texts are read, and these are single texts; leave it out."
            )
        return cls(dataset, recipe.evaluation.test)

    @property
    def has_pairs(self) -> bool:
        return self.dataset.train.pairs is not None

    def describe(self) -> dict[str, Any]:
        dataset = self.dataset
        return {
            "name": dataset.name,
            "kind": dataset.kind,
            "labels": list(dataset.labels),
            "pairs": self.has_pairs,
            "sizes": {name: len(examples) for name, examples in self.splits.items()},
            "fingerprints": dataset.fingerprints,
            "hidden": list(dataset.hidden),
            "licence": dataset.licence,
            "contamination": dataset.contamination,
            "notes": dataset.notes,
            "checks": dataset.checks,
        }

    def examples(self, name: str) -> list[dict[str, Any]]:
        e = self.splits[name]
        gold: Sequence[Any] = e.labels or e.scores or [None] * len(e)
        pairs: Sequence[Any] = e.pairs or [None] * len(e)
        columns = zip(e.rows, gold, e.texts, pairs, strict=True)
        return [{"row": row, "gold": g, "text": text, "pair": pair} for row, g, text, pair in columns]

    def texts(self) -> Iterable[str]:
        return [*self.dataset.train.texts, *(self.dataset.train.pairs or [])]

    def sets(self) -> dict[str, bool]:
        known = {name: (e.labels if self.dataset.kind == "classes" else e.scores) for name, e in self.splits.items()}
        return {name: answers is not None for name, answers in known.items() if name != "train"}

    def sample(self, rows: int) -> Self:
        """Return some rows of about the mean length: batches are made of rows of similar length."""
        train = self.dataset.train
        lengths = [len(text) + len(pair) for text, pair in train.identities()]
        mean = sum(lengths) / max(1, len(lengths))
        typical = sorted(sorted(range(len(lengths)), key=lambda i: abs(lengths[i] - mean))[:rows])
        return type(self)(replace(self.dataset, train=train.take(typical), dev=None, test=None))
