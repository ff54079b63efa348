"""Texts and their translations."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

from pydantic import Field

from heedful.data.loading import load_aligned
from heedful.data.protocol import Data
from heedful.data.records import Aligned, Pairs
from heedful.errors import RequestError
from heedful.recipes.schema import Recipe, RowsTable
from heedful.storage.shared import SharedStore


class ParallelTable(RowsTable):
    name: str | None = None
    """Named data set from `heedful data`. Use either this or `train`."""
    train: str | None = None
    """Training file: CSV, TSV, JSONL or Parquet; or the common part of the names of two text files, see `source`."""
    dev: str | None = None
    """Validation file for choosing a model. Default: split from `train`, stratified."""
    test: str | None = None
    """Test file for the reported score. Default: split from `train`, stratified."""
    source: str | None = None
    """The source side: a column of the table `train`; or, if `train`, `dev` and `test` are not
    tables, the ending of files with one text per line: train = "data/train", source = "en" and target = "de" are
    data/train.en and data/train.de (or .gz). {} in a name is replaced by the ending: "{}/train.txt". A dot reads
    from an object of JSONL or Parquet: "translation.en". For a named data set: one of its languages."""
    target: str | None = None
    """The target side, as for `source`. For a table with two columns, both may be omitted."""
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
    max_source: int | None = Field(None, ge=1)
    """Skip and count training pairs whose source has more words. Words are separated by white
    space; in scripts without spaces, each character counts. Dev and test are never filtered."""
    max_target: int | None = Field(None, ge=1)
    """The same for the target."""
    max_ratio: float | None = Field(None, ge=1)
    """Skip and count training pairs with one side more than this many times as long as the other,
    in words."""

    deduplicate: bool = False
    """Whether to keep only the first of training pairs that are equal except for case and white
    space."""


class ParallelData(Data):
    Table = ParallelTable

    def __init__(self, aligned: Aligned, only: Sequence[int] | None = None) -> None:
        """`only`: the places of the training pairs of a sample, which has no evaluation sets; a tokenizer is trained on
        all pairs all the same."""
        self.aligned, self.only = aligned, only
        self.splits: Mapping[str, Pairs] = aligned.splits
        if only is not None:
            self.splits = {"train": aligned.splits["train"].take(only)}

    @classmethod
    def read(cls, recipe: Recipe, seed: int, store: SharedStore) -> Self:
        assert isinstance(recipe.data, ParallelTable)
        return cls(load_aligned(recipe.data, seed, store))

    @staticmethod
    def check(recipe: Recipe) -> None:
        assert isinstance(recipe.data, ParallelTable)
        if recipe.data.name is not None and recipe.data.train is not None:
            raise RequestError("[data] needs either name or train, not both.")
        recipe.data.refuse_two_limits()

    @staticmethod
    def instead(key: str) -> str:
        return "name the two sides with data.source and data.target" if key in ("text", "pair") else "leave it out"

    def describe(self) -> dict[str, Any]:
        return {**self.aligned.description(), "sizes": {name: len(pairs) for name, pairs in self.splits.items()}}

    def examples(self, name: str) -> list[dict[str, Any]]:
        pairs = self.splits[name]
        lines = zip(pairs.rows, pairs.targets, pairs.sources, strict=True)
        return [{"row": row, "gold": target, "text": source} for row, target, source in lines]

    def sets(self) -> dict[str, bool]:
        return {name: True for name in self.splits if name != "train"}

    def sample(self, rows: int) -> Self:
        """Return training pairs of about the mean length: batches are made of pairs of similar length."""
        train = self.aligned.splits["train"]
        lengths = [len(s) + len(t) for s, t in zip(train.sources, train.targets, strict=True)]
        mean = sum(lengths) / max(1, len(lengths))
        typical = sorted(range(len(lengths)), key=lambda i: abs(lengths[i] - mean))[:rows]
        return type(self)(self.aligned, sorted(typical))
