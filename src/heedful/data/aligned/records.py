"""What the rest of heedful sees of translations: the pairs of one split, and a data set of several."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from heedful.storage.hashing import sha256_of_rows


@dataclass(frozen=True)
class Pairs:
    """One split, as parallel lists."""

    sources: list[str]
    targets: list[str]
    rows: list[int]
    """Where each came from: the line of its two files, or the data row of its table, from 1."""

    def __len__(self) -> int:
        return len(self.sources)

    def take(self, indices: Iterable[int]) -> "Pairs":
        chosen = list(indices)
        return Pairs(
            [self.sources[i] for i in chosen], [self.targets[i] for i in chosen], [self.rows[i] for i in chosen]
        )

    @property
    def sides(self) -> tuple[list[str], list[str]]:
        return self.sources, self.targets

    def turned(self) -> "Pairs":
        """The other direction."""
        return Pairs(self.targets, self.sources, self.rows)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the texts in their order; row numbers do not count."""
        return sha256_of_rows(zip(self.sources, self.targets, strict=True))


@dataclass(frozen=True)
class Aligned:
    name: str
    languages: tuple[str, str]
    """What source and target are called: columns, the endings of files, or the languages of a named set."""
    splits: dict[str, Pairs]
    """"train", "dev" and "test"; further test sets are called "test-" and a name. A split may be absent, train
    never."""
    fingerprints: dict[str, str]
    recurring: dict[str, list[int]] = field(default_factory=dict)
    """By evaluation set, the rows whose source also stands in train: what they show of a model is partly memory, so
    results are given with and without them. Sets without such rows are absent."""
    filters: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What was left out of train: by filter its `limit`, and how many pairs were `dropped`, each by the first filter
    that it met."""
    licence: str = ""
    contamination: str = ""
    notes: list[str] = field(default_factory=list)
    """What was done and assumed, a sentence each."""
    checks: list[dict[str, Any]] = field(default_factory=list)
    """As in `Dataset.checks`."""

    def without_recurring(self, name: str) -> Pairs:
        """The pairs of an evaluation set whose source is not in train."""
        pairs, known = self.splits[name], set(self.recurring.get(name, ()))
        return pairs.take(i for i, row in enumerate(pairs.rows) if row not in known)

    def trained_on(self, indices: Iterable[int], note: str) -> "Aligned":
        """With these training pairs alone. `recurring` and `fingerprints` stay those of the whole training set, so that
        runs on more and on fewer pairs are judged on the same rows."""
        splits = {**self.splits, "train": self.splits["train"].take(indices)}
        return replace(self, splits=splits, notes=[*self.notes, note])

    def description(self) -> dict[str, Any]:
        """What a manifest says of the data."""
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
        """As JSON can hold it; `unpacked` is its inverse."""
        return asdict(self)

    @staticmethod
    def unpacked(content: Mapping[str, Any]) -> "Aligned":
        splits = {name: Pairs(**some) for name, some in content["splits"].items()}
        first, second = content["languages"]
        return Aligned(**{**content, "languages": (first, second), "splits": splits})
