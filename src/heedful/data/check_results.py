"""What checks of data find, a sentence each, and the words that such sentences are made of."""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

_SHOWN_ROWS = 5


@dataclass(frozen=True)
class Finding:
    check: str
    """Its name in `CHECKS` or `PAIR_CHECKS`."""
    split: str
    count: int
    rows: list[int]
    """Data rows concerned, in the split's file."""
    sentence: str


@dataclass(frozen=True)
class Check:
    passed: str
    """What is said if nothing was found."""
    kind: str = ""
    """Only for "classes", or only for a "score"."""
    several: bool = False
    """Only where there are two sets to compare."""


def summary(
    findings: Sequence[Finding], kind: str | None, splits: Set[str], checks: Mapping[str, Check]
) -> list[dict[str, Any]]:
    """Return each check that applies as plain data: an entry for each finding, or one that says it passed."""
    entries: list[dict[str, Any]] = []
    for name, check in checks.items():
        found = [finding for finding in findings if finding.check == name]
        for finding in found:
            entries.append(
                {
                    "name": name,
                    "state": "warn",
                    "sentence": finding.sentence,
                    "count": finding.count,
                    "rows": finding.rows[:_SHOWN_ROWS],
                }
            )
        if not found and check.kind in ("", kind) and (not check.several or len(splits) > 1):
            entries.append({"name": name, "state": "pass", "sentence": check.passed, "count": 0, "rows": []})
    return entries


def listed(rows: Iterable[int], most: int = 5) -> str:
    """Return row numbers for a sentence: the first few, and how many more there are."""
    numbers = list(rows)
    shown = ", ".join(map(str, numbers[:most]))
    return shown + (f" and {len(numbers) - most:,} more" if len(numbers) > most else "")


def count_of(count: int, thing: str, things: str | None = None) -> str:
    return f"{count:,} {thing if count == 1 else things or thing + 's'}"


def row_list(rows: list[int]) -> str:
    return f"{'row' if len(rows) == 1 else 'rows'} {listed(rows)}"
