"""What an objective learns from and is evaluated on: the data of a recipe, read once and never changed."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, Self

from heedful.errors import RequestError
from heedful.recipes.schema import DataTable, Recipe
from heedful.storage.shared import SharedStore


class Data(ABC):
    """The data of a run. A kind of data is a class of its own, which an objective names."""

    Table: ClassVar[type[DataTable]]
    """Its keys in a recipe, [data]: each with a default."""
    COLUMNS: ClassVar[bool] = False
    """Whether they are tables with columns of texts and labels, which may be guessed."""

    @staticmethod
    def instead(key: str) -> str:
        """Return what to do with a key that belongs to another kind of data."""
        return 'use objective.kind = "multi-task"' if key == "tasks" else "leave it out"

    @staticmethod  # noqa: B027 (not every kind has something to refuse)
    def check(recipe: Recipe) -> None:
        """Refuse a recipe whose [data] contradicts itself, before anything is read."""

    @classmethod
    @abstractmethod
    def read(cls, recipe: Recipe, seed: int, store: SharedStore) -> Self:
        """Read the data; `seed` matters where each seed trains on different rows."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return what the manifest says of the data: at least `name`, and `sizes` and `fingerprints` by set."""

    def examples(self, name: str) -> list[dict[str, Any]]:
        """Return what a person sees of each example of a set: `row`, `gold`, `text`, and what else there is."""
        return []

    def texts(self) -> Iterable[str]:
        """Return the training texts, for a tokenizer that is trained on them."""
        raise RequestError("these data have no texts to train a tokenizer on; name one in [tokenizer].")

    def sets(self) -> dict[str, bool]:
        """Return the evaluation sets, and whether their answers are known, so that they can be scored. "dev"
        chooses."""
        return {name: True for name in self.describe()["sizes"] if name != "train"}

    @property
    def has_pairs(self) -> bool:
        """Whether texts come in pairs, of which the cosine is one more baseline."""
        return False

    def sample(self, rows: int) -> Self:
        """Return a small part of the data, of typical length, to time a step with."""
        return self
