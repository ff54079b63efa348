"""What is probed: models as `heedful.load` returns them, one for each seed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from heedful.models.transformer import Transformer
from heedful.text.tokenizer import Text, Tokenizer

Floats = npt.NDArray[np.float64]


class ReadableModel(Protocol):
    """One that is looked into."""

    @property
    def source(self) -> str: ...
    @property
    def transformer(self) -> Transformer: ...
    @property
    def tokenizer(self) -> Tokenizer: ...
    @property
    def max_length(self) -> int: ...


class Answers(Protocol):
    """As `heedful.api.Predictions` has them."""

    names: tuple[str, ...]
    probabilities: Floats
    scores: Floats | None
    truncated: int


class Asked(Protocol):
    """As `heedful.api.Model` and `WordModel` are."""

    @property
    def of_pairs(self) -> bool | None: ...

    def predict(self, texts: Sequence[Text]) -> Answers: ...


@dataclass(frozen=True)
class Subject:
    """What is probed: a model, or a setting of a study with a model for each of its seeds."""

    name: str
    runs: tuple[tuple[str, Callable[[], Asked]], ...]
    """The seed ("" where there is none) and what loads the model: one is in memory at a time."""
    random: bool = False
    """Whether other seeds would have given other models, and one asks about those too."""
    note: str = ""
    """What is missing of it, in a sentence."""
    recipe: Mapping[str, Any] | None = None
    """By which it was trained, as its run has noted it down; None if nobody knows."""
