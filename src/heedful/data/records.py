"""What the rest of heedful sees of data: the rows of one split by role, and data sets of several splits."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from typing import Any, Literal, Self

from heedful.storage.hashing import sha256_of_json, sha256_of_rows

Kind = Literal["classes", "score"]
SPLITS = ("train", "dev", "test")


class Rows(ABC):
    """The rows of one split as parallel lists, one for each role that a column can have."""

    rows: list[int]
    """Where each came from, counted from 1: the data row of its table, or the line of its text files."""

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, indices: Iterable[int]) -> Self:
        chosen = list(indices)
        lists = vars(self).items()
        return type(self)(**{role: None if some is None else [some[i] for i in chosen] for role, some in lists})

    @abstractmethod
    def identities(self) -> list[tuple[str, str]]:
        """Return what makes two rows the same whatever their answers, so that one split has both."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """SHA-256 of the content in its order; row numbers do not count."""


@dataclass(frozen=True)
class Examples(Rows):
    """Texts, or pairs of texts, and their labels or scores."""

    texts: list[str]
    pairs: list[str] | None
    """Second sentences."""
    labels: list[str] | None
    """Names; None if they are hidden or the task is a score."""
    scores: list[float] | None
    rows: list[int]

    @property
    def inputs(self) -> list[str] | list[tuple[str, str]]:
        """The texts, or the pairs of texts."""
        return self.texts if self.pairs is None else list(zip(self.texts, self.pairs, strict=True))

    @property
    def answers(self) -> Sequence[str | float | None]:
        """Labels or scores; None for each row where they are hidden."""
        nothing: Sequence[str | float | None] = [None] * len(self)
        return self.labels or self.scores or nothing

    def identities(self) -> list[tuple[str, str]]:
        return list(zip(self.texts, self.pairs or [""] * len(self.texts), strict=True))

    @property
    def fingerprint(self) -> str:
        pairs: Sequence[str | None] = self.pairs or [None] * len(self)
        return sha256_of_rows(zip(self.texts, pairs, self.answers, strict=True))


@dataclass(frozen=True)
class Pairs(Rows):
    """Texts and their translations."""

    sources: list[str]
    targets: list[str]
    rows: list[int]

    @property
    def sides(self) -> tuple[list[str], list[str]]:
        return self.sources, self.targets

    def turned(self) -> "Pairs":
        """Return the pairs in the other direction."""
        return Pairs(self.targets, self.sources, self.rows)

    def identities(self) -> list[tuple[str, str]]:
        return [(source, "") for source in self.sources]

    @property
    def fingerprint(self) -> str:
        return sha256_of_rows(zip(self.sources, self.targets, strict=True))


@dataclass(frozen=True)
class Questions(Rows):
    """Questions and their answers, both free text."""

    questions: list[str] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)

    def identities(self) -> list[tuple[str, str]]:
        return [(question, "") for question in self.questions]

    @property
    def fingerprint(self) -> str:
        return sha256_of_json([self.questions, self.answers])


@dataclass(frozen=True)
class Data:
    """What every data set has in common."""

    name: str
    _: KW_ONLY
    fingerprints: dict[str, str] = field(default_factory=dict)
    """Split to SHA-256 of its content in order, whatever the file format that it came in."""
    licence: str = ""
    contamination: str = ""
    notes: list[str] = field(default_factory=list)
    """What was done and assumed, a sentence each."""
    checks: list[dict[str, Any]] = field(default_factory=list)
    """What was looked for: `name`, `state` ("pass" or "warn"), `sentence`, `count` and some of the `rows`; see
    `heedful.data.checks`."""


@dataclass(frozen=True)
class Dataset(Data):
    """Examples to classify or to score."""

    kind: Kind
    labels: tuple[str, ...]
    """Class names in order: numeric if all are whole numbers, else sorted; named sets have theirs. () for a score."""
    train: Examples
    dev: Examples | None
    test: Examples | None
    hidden: tuple[str, ...] = ()
    """Splits whose labels are hidden: predictions can be made, scores must be refused."""

    def splits(self) -> dict[str, Examples]:
        """Those that exist, by name, in the order train, dev, test."""
        splits = {"train": self.train, "dev": self.dev, "test": self.test}
        return {name: examples for name, examples in splits.items() if examples is not None}


@dataclass(frozen=True)
class Aligned(Data):
    """Texts and their translations."""

    languages: tuple[str, str]
    """What source and target are called: columns, the endings of files, or the languages of a named set."""
    splits: dict[str, Pairs]
    """"train", "dev" and "test"; further test sets are called "test-" and a name. A split may be absent, train
    never."""
    recurring: dict[str, list[int]] = field(default_factory=dict)
    """By evaluation set, the rows whose source also appears in train: what they show of a model is partly memory, so
    results are given with and without them. Sets without such rows are absent."""
    filters: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What was left out of train: by filter its `limit`, and how many pairs were `dropped`, each by the first filter
    that it met."""

    def without_recurring(self, name: str) -> Pairs:
        """Return the pairs of an evaluation set whose source is not in train."""
        pairs, known = self.splits[name], set(self.recurring.get(name, ()))
        return pairs.take(i for i, row in enumerate(pairs.rows) if row not in known)

    def trained_on(self, indices: Iterable[int], note: str) -> "Aligned":
        """Return the set with only these training pairs. `recurring` and `fingerprints` stay those of the whole
        training set, so that runs on more and on fewer pairs are judged on the same rows."""
        splits = {**self.splits, "train": self.splits["train"].take(indices)}
        return replace(self, splits=splits, notes=[*self.notes, note])

    def description(self) -> dict[str, Any]:
        """Return what a manifest says of the data."""
        facts = {
            "name": self.name,
            "languages": list(self.languages),
            "sizes": {name: len(pairs) for name, pairs in self.splits.items()},
            "fingerprints": self.fingerprints,
            "recurring": {name: len(rows) for name, rows in self.recurring.items()},
            "filters": self.filters,
            "licence": self.licence,
            "contamination": self.contamination,
            "notes": self.notes,
            "checks": self.checks,
        }
        return {key: value for key, value in facts.items() if value not in ("", {}, [])}

    def packed(self) -> dict[str, Any]:
        """Return the set as JSON can hold it; `unpacked` is its inverse."""
        return asdict(self)

    @staticmethod
    def unpacked(content: Mapping[str, Any]) -> "Aligned":
        splits = {name: Pairs(**some) for name, some in content["splits"].items()}
        first, second = content["languages"]
        return Aligned(**{**content, "languages": (first, second), "splits": splits})
