"""What the rest of heedful sees of data: examples of one split, and a data set of three."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from heedful.storage.hashing import sha256_of_rows

Kind = Literal["classes", "score"]
SPLITS = ("train", "dev", "test")


@dataclass(frozen=True)
class Examples:
    """One split, as parallel lists."""

    texts: list[str]
    pairs: list[str] | None
    """Second sentences."""
    labels: list[str] | None
    """Names; None if they are hidden or the task is a score."""
    scores: list[float] | None
    rows: list[int]
    """Where each came from: the data row of its file, counted from 1 without the header."""

    def __len__(self) -> int:
        return len(self.texts)

    def take(self, indices: Iterable[int]) -> "Examples":
        chosen = list(indices)
        return Examples(
            [self.texts[i] for i in chosen],
            None if self.pairs is None else [self.pairs[i] for i in chosen],
            None if self.labels is None else [self.labels[i] for i in chosen],
            None if self.scores is None else [self.scores[i] for i in chosen],
            [self.rows[i] for i in chosen],
        )

    @property
    def inputs(self) -> list[str] | list[tuple[str, str]]:
        """The texts, or the pairs of texts."""
        return self.texts if self.pairs is None else list(zip(self.texts, self.pairs, strict=True))

    def identities(self) -> list[tuple[str, str]]:
        """What makes two examples the same: text and pair, whatever their labels."""
        return list(zip(self.texts, self.pairs or [""] * len(self.texts), strict=True))


@dataclass(frozen=True)
class Dataset:
    name: str
    kind: Kind
    labels: tuple[str, ...]
    """Class names in order: numeric if all are whole numbers, else sorted; named sets have theirs. () for a score."""
    train: Examples
    dev: Examples | None
    test: Examples | None
    hidden: tuple[str, ...] = ()
    """Splits whose labels are hidden: predictions can be made, scores must be refused."""
    fingerprints: dict[str, str] = field(default_factory=dict)
    """Split to SHA-256 of its content in order, whatever the file format that it came in."""
    licence: str = ""
    contamination: str = ""
    notes: list[str] = field(default_factory=list)
    """What was done and assumed, a sentence each."""
    checks: list[dict[str, Any]] = field(default_factory=list)
    """What was looked for: `name`, `state` ("pass" or "warn"), `sentence`, `count` and some of the `rows`; see
    `heedful.data.checks`."""

    def splits(self) -> dict[str, Examples]:
        """Those that exist, by name, in the order train, dev, test."""
        splits = {"train": self.train, "dev": self.dev, "test": self.test}
        return {name: examples for name, examples in splits.items() if examples is not None}


def fingerprint(examples: Examples) -> str:
    """SHA-256 of texts, pairs and labels (or scores) in their order; row numbers do not count."""
    pairs: Sequence[str | None] = examples.pairs or [None] * len(examples)
    answers: Sequence[str | float | None] = examples.labels or examples.scores or [None] * len(examples)
    return sha256_of_rows(zip(examples.texts, pairs, answers, strict=True))
