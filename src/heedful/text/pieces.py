"""Vocabularies whose ids are not the ids that the `tokenizers` library counts with."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from heedful.text.charsmap import Prepared


class SpellingError(ValueError):
    """What of one text cannot be spelled, in words; who knows its row says that too."""


@dataclass(frozen=True)
class Spelling:
    """How a text is written before the library sees it, where no normaliser of its own does that."""

    spell: Callable[[str], str]
    """May raise `SpellingError`."""
    prepare: Callable[[str], Prepared]
    """The same, with the places that the characters come from."""
    folds_case: bool = False


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
    spelling: Spelling | None = None
    side: str = ""
    """ "source" or "target", where the files hold a vocabulary for each."""

    @cached_property
    def ids(self) -> dict[str, int]:
        return {token: i for i, token in enumerate(self.tokens)}
