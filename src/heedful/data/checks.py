"""What may be wrong with data that could be read: plain findings, a sentence each."""

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from heedful.data.check_results import Check, Finding, count_of, row_list
from heedful.data.filters import LONGEST, ratio_of_words
from heedful.data.records import Examples, Pairs, Rows
from heedful.data.shifts import correlation

CHECKS = {
    "reading": Check("The files were read by one rule, and nothing about them had to be assumed."),
    "rows": Check("Every row could be read and has a label."),
    "hidden labels": Check("The labels of every set are known."),
    "empty texts": Check("No text is empty."),
    "duplicates": Check("No text occurs twice in a set."),
    "contradictions": Check("No text occurs with two different labels in a set."),
    "leakage": Check("No text of one set occurs in another.", several=True),
    "label column": Check("The label column looks like one: it holds no identifiers and no free text."),
    "label spelling": Check("No two labels differ only by case or Unicode form, and none looks missing.", "classes"),
    "labels in one set": Check("No label occurs in only one set.", "classes", several=True),
    "balance": Check("No label has more than 90% of a set.", "classes"),
}
"""Every check by its name, in the order in which reports list them."""
PAIR_CHECKS = {
    "reading": Check("The files were read by one rule, and nothing about them had to be assumed."),
    "rows": Check("Every pair could be read and has a text on both sides."),
    "duplicates": Check("No pair occurs twice in a set."),
    "leakage": Check("No source of one set occurs in another.", several=True),
    "copies": Check("Hardly any target just repeats its source."),
    "lengths": Check("No side is nine times as long as the other, and none is beyond a paragraph."),
    "alignment": Check("The lengths of the two sides go together pair by pair, and not a line apart."),
}
"""The same for translations."""
_COPIES = 0.01
_RATIO = 9
_ENOUGH = 50
"""Pairs from which on lengths tell whether the sides are shifted."""
_MISSING = ("nan", "none", "null", "n/a", "na", "?")


def check_splits(splits: Mapping[str, Examples]) -> list[Finding]:
    """Run all checks of examples."""
    findings: list[Finding] = []
    for name, examples in splits.items():
        findings += _find_empty_texts(name, examples)
        findings += _find_duplicates(name, examples.rows, examples.identities(), "text")
        findings += _find_contradictions(name, examples)
    findings += _find_leakage(splits, "text")
    findings += _find_odd_label_column(splits)
    findings += _find_odd_spellings(splits)
    findings += _find_label_problems(splits)
    return findings


def check_pairs(splits: Mapping[str, Pairs]) -> list[Finding]:
    """Run all checks of translations."""
    findings: list[Finding] = []
    for name, pairs in splits.items():
        findings += _find_duplicates(name, pairs.rows, list(zip(*pairs.sides, strict=True)), "pair")
    findings += _find_leakage(splits, "source")
    for name, pairs in splits.items():
        findings += [*_find_copies(name, pairs), *_find_odd_lengths(name, pairs), *_find_shift(name, pairs)]
    return findings


def recurring(splits: Mapping[str, Rows]) -> dict[str, list[int]]:
    """Return, by evaluation set, the rows whose text (or source) is also in train."""
    rows = {name: _rows_in(splits["train"], later) for name, later in splits.items() if name != "train"}
    return {name: some for name, some in rows.items() if some}


def word_lengths(examples: Examples) -> dict[str, float]:
    """Return the number of words (by white space) of text and pair together: minimum, quartiles, 95%, maximum, mean."""
    if not len(examples):
        return {}
    lengths = [len(text.split()) + len(pair.split()) for text, pair in examples.identities()]
    points = np.percentile(lengths, [0, 25, 50, 75, 95, 100])
    names = ("least", "25%", "median", "75%", "95%", "most")
    quantiles = {name: round(float(point), 1) for name, point in zip(names, points, strict=True)}
    return {**quantiles, "mean": round(float(np.mean(lengths)), 1)}


def label_balance(examples: Examples, labels: Sequence[str]) -> dict[str, int]:
    """Count the rows of each class, including classes without rows, in the order given."""
    counts = Counter(examples.labels or [])
    return {label: counts[label] for label in labels}


def score_range(examples: Examples) -> dict[str, float]:
    if not examples.scores:
        return {}
    points = np.percentile(examples.scores, [0, 25, 50, 75, 100])
    quantiles = {n: float(p) for n, p in zip(("least", "25%", "median", "75%", "most"), points, strict=True)}
    return {**quantiles, "mean": float(np.mean(examples.scores)), "deviation": float(np.std(examples.scores))}


def _find_empty_texts(name: str, examples: Examples) -> list[Finding]:
    rows = [
        row
        for row, text, pair in zip(examples.rows, examples.texts, examples.pairs or [" x"] * len(examples), strict=True)
        if not text.strip() or not pair.strip()
    ]
    if not rows:
        return []
    sentence = f"{name}: {count_of(len(rows), 'text is', 'texts are')} empty ({row_list(rows)})."
    return [Finding("empty texts", name, len(rows), rows, sentence)]


def _find_duplicates(name: str, rows: Sequence[int], keys: Sequence[Hashable], thing: str) -> list[Finding]:
    """Find later copies of an earlier row."""
    seen: set[Hashable] = set()
    copies = []
    for row, key in zip(rows, keys, strict=True):
        if key in seen:
            copies.append(row)
        seen.add(key)
    if not copies:
        return []
    many = count_of(len(copies), "row repeats", "rows repeat")
    sentence = f"{name}: {many} an earlier {thing} ({row_list(copies)})."
    return [Finding("duplicates", name, len(copies), copies, sentence)]


def _find_contradictions(name: str, examples: Examples) -> list[Finding]:
    """Find texts that recur with a different answer."""
    places: dict[tuple[str, str], list[int]] = defaultdict(list)
    for i, key in enumerate(examples.identities()):
        places[key].append(i)
    answers = examples.answers
    conflicts = [same_text for same_text in places.values() if len({answers[i] for i in same_text}) > 1]
    if not conflicts:
        return []
    rows = sorted(examples.rows[i] for same_text in conflicts for i in same_text)
    what = "labels" if examples.labels is not None else "scores"
    many = count_of(len(conflicts), "text has", "texts have")
    sentence = f"{name}: {many} different {what} in different rows ({row_list(rows)})."
    return [Finding("contradictions", name, len(conflicts), rows, sentence)]


def _rows_in(earlier: Rows, later: Rows) -> list[int]:
    known = set(earlier.identities())
    return [row for row, key in zip(later.rows, later.identities(), strict=True) if key in known]


def _find_leakage(splits: Mapping[str, Rows], thing: str) -> list[Finding]:
    """Find rows of train in the other splits, and of dev in the test sets. Test sets may share rows."""
    findings = []
    for earlier in ("train", "dev"):
        for later in splits:
            if earlier not in splits or later in ("train", earlier):
                continue
            if rows := _rows_in(splits[earlier], splits[later]):
                sentence = (
                    f"{later}: {count_of(len(rows), thing)} of {len(splits[later]):,} also "
                    f"{'appears' if len(rows) == 1 else 'appear'} in {earlier} ({row_list(rows)})."
                )
                findings.append(Finding("leakage", later, len(rows), rows, sentence))
    return findings


def _find_odd_label_column(splits: Mapping[str, Examples]) -> list[Finding]:
    """Find labels that hardly recur or are sentences, and scores that are row numbers."""
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
    """Find labels that a reader would take for the same one, and labels that programs write for a missing value."""
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
                sentence = f"The label {label!r} occurs only in {split} ({count_of(n, 'row')})."
                findings.append(Finding("labels in one set", split, n, [], sentence))
    for name, label_counts in counts.items():
        label, most = label_counts.most_common(1)[0] if label_counts else ("", 0)
        total = sum(label_counts.values())
        if len(label_counts) == 1:
            sentence = f"{name}: every label is {label!r}."
            findings.append(Finding("balance", name, total, [], sentence))
        elif total and most > 0.9 * total:
            sentence = f"{name}: {100 * most / total:.1f}% of the labels are {label!r}, so accuracy says little."
            findings.append(Finding("balance", name, most, [], sentence))
    return findings


def _find_copies(name: str, pairs: Pairs) -> list[Finding]:
    triples = zip(pairs.rows, pairs.sources, pairs.targets, strict=True)
    rows = [row for row, source, target in triples if source.casefold() == target.casefold()]
    if len(rows) <= _COPIES * len(pairs):
        return []
    sentence = (
        f"{name}: {count_of(len(rows), 'target')} of {len(pairs):,} "
        f"{'repeats' if len(rows) == 1 else 'repeat'} the source untranslated ({row_list(rows)})."
    )
    return [Finding("copies", name, len(rows), rows, sentence)]


def _find_odd_lengths(name: str, pairs: Pairs) -> list[Finding]:
    odd, long = [], []
    for row, source, target in zip(pairs.rows, pairs.sources, pairs.targets, strict=True):
        if ratio_of_words(source, target) > _RATIO:
            odd.append(row)
        if max(len(source), len(target)) > LONGEST:
            long.append(row)
    findings = []
    if odd:
        sentence = (
            f"{name}: in {count_of(len(odd), 'pair')} one side has more than {_RATIO} times as many words as the other "
            f"({row_list(odd)}): are they translations?"
        )
        findings.append(Finding("lengths", name, len(odd), odd, sentence))
    if long:
        sentence = f"{name}: {count_of(len(long), 'pair has', 'pairs have')} more than {LONGEST:,} characters on a side"
        findings.append(Finding("lengths", name, len(long), long, f"{sentence} ({row_list(long)})."))
    return findings


def _find_shift(name: str, pairs: Pairs) -> list[Finding]:
    """Find lost lines: the lengths of sources go with those of neighbouring targets, and not with their own."""
    if len(pairs) < _ENOUGH:
        return []
    source_n = np.log1p([len(text) for text in pairs.sources])
    target_n = np.log1p([len(text) for text in pairs.targets])
    straight = correlation(source_n, target_n)
    previous = correlation(source_n[1:], target_n[:-1])
    following = correlation(source_n[:-1], target_n[1:])
    best = max(previous, following)
    if best < 0.4 or best < 2 * straight:
        return []
    sentence = (
        f"{name}: the sides look shifted by a line: lengths of a source and of the "
        f"{'next' if following > previous else 'previous'} target go together (correlation {best:.2f}), "
        f"those of a pair do not ({straight:.2f})."
    )
    return [Finding("alignment", name, len(pairs), [], sentence)]
