"""What training asks of a model that is to be written, whatever it is made of: a body with heads, or a translator."""

from pathlib import Path
from typing import Protocol, Self

from torch import nn

from heedful.storage.shared import SharedStore


class AnyCheckpoint(Protocol):
    family: str
    """In whose dialect it is written."""
    sources: dict[str, str]
    """Where each tensor came from: file and name there, or "new"."""
    source: str
    """What the user called the model; of a directory, its last name."""

    @property
    def module(self) -> nn.Module:
        """The model."""
        ...

    @property
    def tokenizer_fingerprint(self) -> str | None:
        """Of how it reads texts; None where it cannot."""
        ...

    def copied(self) -> Self:
        """With weights of its own, so that it can be put together and written while training goes on."""
        ...

    def write(self, directory: Path, shared: SharedStore | None = None, moved: bool = False) -> None:
        """Write it whole or not at all: at least config.json and model.safetensors, by which a finished run is known.

        `shared`: what training has not moved is one file there with that of every other model that was written with it;
        `moved`: whether it has moved the body.
        """
        ...
