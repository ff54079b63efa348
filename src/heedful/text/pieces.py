"""Vocabularies that the `tokenizers` library has not got as they are: ids that are not its own, texts that another
library cuts."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol


class UncuttableError(ValueError):
    """What is wrong with one text, in words; who knows its row says that too."""


@dataclass(frozen=True)
class Cut:
    """A text in pieces."""

    pieces: Sequence[str]
    spans: Sequence[tuple[int, int]]
    """For each piece the characters of the text that it comes from."""
    words: Sequence[int]
    """For each piece which word of the text it belongs to."""


class Cutter(Protocol):
    """Cuts texts into pieces that are tokens of the vocabulary; both methods may raise `UncuttableError`."""

    folds_case: bool

    def pieces(self, text: str) -> list[str]: ...

    def cut(self, text: str) -> Cut:
        """The same pieces, with their places."""
        ...


@dataclass(frozen=True)
class Pieces:
    """The public side of a vocabulary: `public[i]` is the model's id for the library's id i."""

    public: list[int]
    tokens: list[str]
    files: Mapping[str, bytes]
    """The files that it was read from, name to content: what `save` writes back."""
    kind: str
    """What a reader of a report would call it."""
    join: Callable[[Iterable[str]], str]
    """From tokens to the text that they spell."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What tokenizer_config.json must say, so that Hugging Face reads the files as we do."""
    cutter: Cutter | None = None
    """What cuts texts where the library does not; it then only puts special tokens around the pieces."""
    side: str = ""
    """ "source" or "target", where the files hold a vocabulary for each."""

    @cached_property
    def ids(self) -> dict[str, int]:
        return {token: i for i, token in enumerate(self.tokens)}
