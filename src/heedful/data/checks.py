"""What may be wrong with data that could be read: plain findings, a sentence each."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from heedful.data.records import Examples


@dataclass(frozen=True)
class Finding:
    check: str
    """One word: empty, duplicates, conflict, leakage, labels, rare, balance."""
    split: str
    count: int
    rows: list[int]
    """Data rows concerned, in the split's file."""
    sentence: str


def check_splits(splits: Mapping[str, Examples]) -> list[Finding]:
    """All checks on the splits that there are."""
    findings: list[Finding] = []
    for name, examples in splits.items():
        findings += _empty(name, examples)
        findings += _duplicates(name, examples)
    findings += _leakage(splits)
    findings += _labels(splits)
    return findings


def word_lengths(examples: Examples) -> dict[str, float]:
    """Words (by white space) of text and pair together: least, quartiles, 95 %, most and mean."""
    if not len(examples):
        return {}
    lengths = [len(text.split()) + len(pair.split()) for text, pair in examples.identities()]
    points = np.percentile(lengths, [0, 25, 50, 75, 95, 100])
    names = ("least", "25%", "median", "75%", "95%", "most")
    found = {name: round(float(point), 1) for name, point in zip(names, points, strict=True)}
    return {**found, "mean": round(float(np.mean(lengths)), 1)}


def label_balance(examples: Examples, labels: Sequence[str]) -> dict[str, int]:
    """Rows of each class, zeros included, in the order given."""
    counts = Counter(examples.labels or [])
    return {label: counts[label] for label in labels}


def score_range(examples: Examples) -> dict[str, float]:
    if not examples.scores:
        return {}
    points = np.percentile(examples.scores, [0, 25, 50, 75, 100])
    found = {n: float(p) for n, p in zip(("least", "25%", "median", "75%", "most"), points, strict=True)}
    return {**found, "mean": float(np.mean(examples.scores)), "deviation": float(np.std(examples.scores))}


def listed(rows: Iterable[int], most: int = 5) -> str:
    """Row numbers for a sentence: the first few, and how many more."""
    every = list(rows)
    shown = ", ".join(map(str, every[:most]))
    return shown + (f" and {len(every) - most:,} more" if len(every) > most else "")


def count_of(count: int, thing: str, things: str | None = None) -> str:
    return f"{count:,} {thing if count == 1 else things or thing + 's'}"


def _empty(name: str, examples: Examples) -> list[Finding]:
    rows = [
        row
        for row, text, pair in zip(examples.rows, examples.texts, examples.pairs or [" x"] * len(examples), strict=True)
        if not text.strip() or not pair.strip()
    ]
    if not rows:
        return []
    sentence = f"{name}: {count_of(len(rows), 'text is', 'texts are')} empty ({_rows(rows)})."
    return [Finding("empty", name, len(rows), rows, sentence)]


def _rows(rows: list[int]) -> str:
    return f"{'row' if len(rows) == 1 else 'rows'} {listed(rows)}"


def _duplicates(name: str, examples: Examples) -> list[Finding]:
    """Later copies of an earlier row, and texts that recur with another answer."""
    answers: Sequence[str | float | None] = examples.labels or examples.scores or [None] * len(examples)
    places: dict[tuple[str, str], list[int]] = defaultdict(list)
    for i, key in enumerate(examples.identities()):
        places[key].append(i)
    again = sorted(i for found in places.values() for i in found[1:])
    differ = [found for found in places.values() if len({answers[i] for i in found}) > 1]
    findings = []
    if again:
        rows = [examples.rows[i] for i in again]
        sentence = f"{name}: {count_of(len(rows), 'row repeats', 'rows repeat')} an earlier text ({_rows(rows)})."
        findings.append(Finding("duplicates", name, len(rows), rows, sentence))
    if differ:
        rows = sorted(examples.rows[i] for found in differ for i in found)
        what = "labels" if examples.labels is not None else "scores"
        sentence = (
            f"{name}: {count_of(len(differ), 'text has', 'texts have')} different {what} in different rows "
            f"({_rows(rows)})."
        )
        findings.append(Finding("conflict", name, len(differ), rows, sentence))
    return findings


def _leakage(splits: Mapping[str, Examples]) -> list[Finding]:
    """Rows of a later split whose text an earlier split has: what is learned there is asked again here."""
    findings = []
    names = list(splits)
    for i, earlier in enumerate(names):
        known = set(splits[earlier].identities())
        for later in names[i + 1 :]:
            examples = splits[later]
            rows = [row for row, key in zip(examples.rows, examples.identities(), strict=True) if key in known]
            if rows:
                sentence = (
                    f"{later}: {count_of(len(rows), 'text')} of {len(examples):,} also "
                    f"{'stands' if len(rows) == 1 else 'stand'} in {earlier} ({_rows(rows)})."
                )
                findings.append(Finding("leakage", later, len(rows), rows, sentence))
    return findings


def _labels(splits: Mapping[str, Examples]) -> list[Finding]:
    counts = {name: Counter(examples.labels) for name, examples in splits.items() if examples.labels is not None}
    findings = []
    every = sorted(set().union(*counts.values())) if counts else []
    if len(counts) > 1:
        for label in every:
            homes = [name for name in counts if counts[name][label]]
            if len(homes) == 1:
                only = homes[0]
                n = counts[only][label]
                sentence = f"The label {label!r} occurs in {only} alone ({count_of(n, 'row')})."
                findings.append(Finding("labels", only, n, [], sentence))
    for name, found in counts.items():
        label, most = found.most_common(1)[0] if found else ("", 0)
        total = sum(found.values())
        if len(found) == 1:
            sentence = f"{name}: every label is {label!r}."
            findings.append(Finding("balance", name, total, [], sentence))
        elif total and most > 0.9 * total:
            sentence = (
                f"{name}: {100 * most / total:.1f} % of the labels are {label!r}; beside that, accuracy says little."
            )
            findings.append(Finding("balance", name, most, [], sentence))
    return findings
