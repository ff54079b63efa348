"""Vocabularies whose ids are not the ids that the `tokenizers` library counts with."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Pieces:
    """The public side of a `@@` vocabulary: `public[i]` is the model's id for the library's id i."""

    public: list[int]
    tokens: list[str]
    files: Mapping[str, bytes]
    """The files that it was read from, name to content: what `save` writes back."""

    @cached_property
    def ids(self) -> dict[str, int]:
        return {token: i for i, token in enumerate(self.tokens)}

    def join(self, ids: Iterable[int]) -> str:
        return " ".join(self.tokens[i] for i in ids).replace("@@ ", "").strip()
