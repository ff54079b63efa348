"""What is probed: models as `heedful.load` returns them, one for each seed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from heedful.inference.loading import Classifier


@dataclass(frozen=True)
class Subject:
    """What is probed: a model, or a setting of a study with a model for each of its seeds."""

    name: str
    runs: tuple[tuple[str, Callable[[], Classifier]], ...]
    """The seed ("" where there is none) and what loads the model: one is in memory at a time."""
    random: bool = False
    """Whether other seeds would have given other models, and one asks about those too."""
    note: str = ""
    """What is missing of it, in a sentence."""
    recipe: Mapping[str, Any] | None = None
    """By which it was trained, as its run has noted it down; None if nobody knows."""
