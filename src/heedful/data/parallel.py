"""Texts and their translations."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

from heedful.data.loading import load_aligned
from heedful.data.protocol import Data
from heedful.data.records import Aligned, Pairs
from heedful.recipes.schema import Recipe
from heedful.storage.shared import SharedStore


class ParallelData(Data):
    PAIRS = True

    def __init__(self, aligned: Aligned, only: Sequence[int] | None = None) -> None:
        """`only`: the places of the training pairs of a sample, which has no evaluation sets; a tokenizer is trained on
        all pairs all the same."""
        self.aligned, self.only = aligned, only
        self.splits: Mapping[str, Pairs] = aligned.splits
        if only is not None:
            self.splits = {"train": aligned.splits["train"].take(only)}

    @classmethod
    def read(cls, recipe: Recipe, seed: int, store: SharedStore) -> Self:
        return cls(load_aligned(recipe.data, seed, store))

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
