"""What a kind of model is: how a recipe asks for it, and how it is made."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from heedful.checkpoints.heads import NewHead
from heedful.checkpoints.protocol import AnyCheckpoint
from heedful.data.protocol import Data
from heedful.nn.heads import HeadInput
from heedful.recipes.schema import ModelTable, Recipe
from heedful.storage.shared import SharedStore


@dataclass(frozen=True)
class Request:
    """What a model is made for."""

    recipe: Recipe
    seed: int
    data: Data
    store: SharedStore
    heads: Callable[[HeadInput], Mapping[str, NewHead]]
    """The heads that the objective needs, given what they read by default."""
    special_tokens: Sequence[str]
    """Tokens that stand for no text, which a tokenizer that is trained must have besides those of its family."""
    head_input: HeadInput
    """What a head reads with this tuning if the recipe does not say."""
    takes_adapters: bool
    """Whether the tuning can begin from a model that carries adapters."""


@dataclass(frozen=True)
class BuiltModel:
    checkpoint: AnyCheckpoint
    title: str
    """What the user calls it."""
    fingerprint: str
    """Of the model directory that it began from; "" if from random weights."""
    cache_key: Mapping[str, Any]
    """Which model and tokenizer it is, for what is kept in the store."""
    made_from: Mapping[str, str] = field(default_factory=dict)
    """The fingerprints of what else went into it, by what the user calls them."""


class ModelKind(ABC):
    Table: ClassVar[type[ModelTable]]
    """Its keys in a recipe, [model]."""
    TUNINGS: ClassVar[tuple[str, ...]] = ()
    """The tunings that can train such a model; none are named: all."""

    @staticmethod  # noqa: B027 (not every kind has something to refuse)
    def check(recipe: Recipe) -> None:
        """Refuse a recipe whose [model] contradicts itself, before anything is read."""

    @staticmethod
    @abstractmethod
    def build(request: Request) -> BuiltModel:
        """Read the model, or make it with random weights."""
