"""What may be wrong with data that could be read: plain findings, a sentence each."""

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from heedful.data.records import Examples


@dataclass(frozen=True)
class Finding:
    check: str
    """Its name in `CHECKS`."""
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
    """For "classes" or a "score" alone."""
    several: bool = False
    """Only where there are two sets to compare."""


CHECKS = {
    "reading": Check("The files were read by one rule, and nothing about them had to be assumed."),
    "rows": Check("Every row could be read and has a label."),
    "hidden labels": Check("The labels of every set are known."),
    "empty texts": Check("No text is empty."),
    "duplicates": Check("No text occurs twice in a set."),
    "contradictions": Check("No text occurs with two different labels in a set."),
    "leakage": Check("No text of one set occurs in another.", several=True),
    "label column": Check("The label column looks like one: it holds no identifiers and no free text."),
    "label spelling": Check("No two labels differ by case or Unicode form alone, and none looks missing.", "classes"),
    "labels in one set": Check("No label occurs in one set alone.", "classes", several=True),
    "balance": Check("No label has more than 90 % of a set.", "classes"),
}
"""Every check by its name, in the order in which reports list them."""
_SHOWN_ROWS = 5
_MISSING = ("nan", "none", "null", "n/a", "na", "?")


def check_splits(splits: Mapping[str, Examples]) -> list[Finding]:
    """All checks on the splits that there are."""
    findings: list[Finding] = []
    for name, examples in splits.items():
        findings += _find_empty_texts(name, examples)
        findings += _find_duplicates(name, examples)
    findings += _find_leakage(splits)
    findings += _find_odd_label_column(splits)
    findings += _find_odd_spellings(splits)
    findings += _find_label_problems(splits)
    return findings


def summary(
    findings: Sequence[Finding], kind: str | None, splits: Set[str], checks: Mapping[str, Check] = CHECKS
) -> list[dict[str, Any]]:
    """Each check that applies: what it found, an entry for each finding, or that it passed. As plain data."""
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


def word_lengths(examples: Examples) -> dict[str, float]:
    """Words (by white space) of text and pair together: least, quartiles, 95 %, most and mean."""
    if not len(examples):
        return {}
    lengths = [len(text.split()) + len(pair.split()) for text, pair in examples.identities()]
    points = np.percentile(lengths, [0, 25, 50, 75, 95, 100])
    names = ("least", "25%", "median", "75%", "95%", "most")
    quantiles = {name: round(float(point), 1) for name, point in zip(names, points, strict=True)}
    return {**quantiles, "mean": round(float(np.mean(lengths)), 1)}


def label_balance(examples: Examples, labels: Sequence[str]) -> dict[str, int]:
    """Rows of each class, zeros included, in the order given."""
    counts = Counter(examples.labels or [])
    return {label: counts[label] for label in labels}


def score_range(examples: Examples) -> dict[str, float]:
    if not examples.scores:
        return {}
    points = np.percentile(examples.scores, [0, 25, 50, 75, 100])
    quantiles = {n: float(p) for n, p in zip(("least", "25%", "median", "75%", "most"), points, strict=True)}
    return {**quantiles, "mean": float(np.mean(examples.scores)), "deviation": float(np.std(examples.scores))}


def listed(rows: Iterable[int], most: int = 5) -> str:
    """Row numbers for a sentence: the first few, and how many more."""
    numbers = list(rows)
    shown = ", ".join(map(str, numbers[:most]))
    return shown + (f" and {len(numbers) - most:,} more" if len(numbers) > most else "")


def count_of(count: int, thing: str, things: str | None = None) -> str:
    return f"{count:,} {thing if count == 1 else things or thing + 's'}"


def _find_empty_texts(name: str, examples: Examples) -> list[Finding]:
    rows = [
        row
        for row, text, pair in zip(examples.rows, examples.texts, examples.pairs or [" x"] * len(examples), strict=True)
        if not text.strip() or not pair.strip()
    ]
    if not rows:
        return []
    sentence = f"{name}: {count_of(len(rows), 'text is', 'texts are')} empty ({_row_list(rows)})."
    return [Finding("empty texts", name, len(rows), rows, sentence)]


def _row_list(rows: list[int]) -> str:
    return f"{'row' if len(rows) == 1 else 'rows'} {listed(rows)}"


def _find_duplicates(name: str, examples: Examples) -> list[Finding]:
    """Later copies of an earlier row, and texts that recur with another answer."""
    answers: Sequence[str | float | None] = examples.labels or examples.scores or [None] * len(examples)
    places: dict[tuple[str, str], list[int]] = defaultdict(list)
    for i, key in enumerate(examples.identities()):
        places[key].append(i)
    copies = sorted(i for same_text in places.values() for i in same_text[1:])
    conflicts = [same_text for same_text in places.values() if len({answers[i] for i in same_text}) > 1]
    findings = []
    if copies:
        rows = [examples.rows[i] for i in copies]
        sentence = f"{name}: {count_of(len(rows), 'row repeats', 'rows repeat')} an earlier text ({_row_list(rows)})."
        findings.append(Finding("duplicates", name, len(rows), rows, sentence))
    if conflicts:
        rows = sorted(examples.rows[i] for same_text in conflicts for i in same_text)
        what = "labels" if examples.labels is not None else "scores"
        sentence = (
            f"{name}: {count_of(len(conflicts), 'text has', 'texts have')} different {what} in different rows "
            f"({_row_list(rows)})."
        )
        findings.append(Finding("contradictions", name, len(conflicts), rows, sentence))
    return findings


def _find_leakage(splits: Mapping[str, Examples]) -> list[Finding]:
    """Rows of a later split whose text also occurs in an earlier split, so that it was seen before it is tested."""
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
                    f"{'stands' if len(rows) == 1 else 'stand'} in {earlier} ({_row_list(rows)})."
                )
                findings.append(Finding("leakage", later, len(rows), rows, sentence))
    return findings


def _find_odd_label_column(splits: Mapping[str, Examples]) -> list[Finding]:
    """Labels that hardly recur or are sentences; scores that are row numbers."""
    labels = [label for examples in splits.values() for label in examples.labels or []]
    scores = [score for examples in splits.values() for score in examples.scores or []]
    different = len(set(labels))
    if different > 10 and 5 * different > len(labels):
        sentence = (
            f"{different:,} different labels in {len(labels):,} rows, fewer than 5 rows each: the label column looks "
            "like identifiers or free text; is it the right one?"
        )
        return [Finding("label column", "", different, [], sentence)]
    if different and sum(len(label.split()) for label in set(labels)) / different > 6:
        longest = max(set(labels), key=len)
        sentence = f"The labels are sentences ({_shortened(longest)}): is the label column the right one?"
        return [Finding("label column", "", different, [], sentence)]
    if len(scores) > 20 and len(set(scores)) == len(scores) and all(score.is_integer() for score in scores):
        sentence = (
            f"The {len(scores):,} scores are whole numbers and all different: they look like identifiers; is the label "
            "column the right one?"
        )
        return [Finding("label column", "", len(scores), [], sentence)]
    return []


def _find_odd_spellings(splits: Mapping[str, Examples]) -> list[Finding]:
    """Labels that a reader would take for one, and labels that a program writes where there is none."""
    counts = Counter(label for examples in splits.values() for label in examples.labels or [])
    forms: dict[str, list[str]] = defaultdict(list)
    for label in sorted(counts):
        forms[" ".join(unicodedata.normalize("NFKC", label).casefold().split())].append(label)
    findings = []
    for alike in forms.values():
        if len(alike) > 1:
            cased = len({unicodedata.normalize("NFKC", label) for label in alike}) > 1
            how = "in case" if cased and len({label.casefold() for label in alike}) == 1 else "in case or Unicode form"
            shown = ", ".join(f"{label!a} ({count_of(counts[label], 'row')})" for label in alike)
            sentence = f"Labels that differ only {how} are different classes here: {shown}; write them in one way."
            findings.append(Finding("label spelling", "", sum(counts[label] for label in alike), [], sentence))
    for label in sorted(counts):
        if label.casefold() in _MISSING:
            rows = count_of(counts[label], "row")
            sentence = f"The label {label!r} ({rows}) looks like a missing value, but is a class here."
            findings.append(Finding("label spelling", "", counts[label], [], sentence))
    return findings


def _shortened(value: str) -> str:
    return repr(value if len(value) <= 40 else value[:39] + "…")


def _find_label_problems(splits: Mapping[str, Examples]) -> list[Finding]:
    counts = {name: Counter(examples.labels) for name, examples in splits.items() if examples.labels is not None}
    findings = []
    every_label = sorted(set().union(*counts.values())) if counts else []
    if len(counts) > 1:
        for label in every_label:
            splits_with_it = [name for name in counts if counts[name][label]]
            if len(splits_with_it) == 1:
                split = splits_with_it[0]
                n = counts[split][label]
                sentence = f"The label {label!r} occurs in {split} alone ({count_of(n, 'row')})."
                findings.append(Finding("labels in one set", split, n, [], sentence))
    for name, label_counts in counts.items():
        label, most = label_counts.most_common(1)[0] if label_counts else ("", 0)
        total = sum(label_counts.values())
        if len(label_counts) == 1:
            sentence = f"{name}: every label is {label!r}."
            findings.append(Finding("balance", name, total, [], sentence))
        elif total and most > 0.9 * total:
            sentence = (
                f"{name}: {100 * most / total:.1f} % of the labels are {label!r}; beside that, accuracy says little."
            )
            findings.append(Finding("balance", name, most, [], sentence))
    return findings
