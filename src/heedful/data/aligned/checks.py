"""What may be wrong with pairs that could be read: findings in a sentence each, as for other data."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from heedful.data.aligned.filters import LONGEST, ratio_of_words
from heedful.data.aligned.records import Pairs
from heedful.data.checks import Check, Finding, count_of, listed

CHECKS = {
    "reading": Check("The files were read by one rule, and nothing about them had to be assumed."),
    "rows": Check("Every pair could be read and has a text on both sides."),
    "duplicates": Check("No pair occurs twice in a set."),
    "leakage": Check("No source of one set occurs in another.", several=True),
    "copies": Check("Hardly any target just repeats its source."),
    "lengths": Check("No side is nine times as long as the other, and none is beyond a paragraph."),
    "alignment": Check("The lengths of the two sides go together as they stand, and not a line apart."),
}
_COPIES = 0.01
_RATIO = 9
_ENOUGH = 50
"""Pairs from which on lengths tell whether the sides are shifted."""


def check_pairs(splits: Mapping[str, Pairs]) -> list[Finding]:
    findings: list[Finding] = []
    for name, pairs in splits.items():
        findings += _find_duplicates(name, pairs)
    findings += _find_leakage(splits)
    for name, pairs in splits.items():
        findings += [*_find_copies(name, pairs), *_find_odd_lengths(name, pairs), *_find_shift(name, pairs)]
    return findings


def recurring(splits: Mapping[str, Pairs]) -> dict[str, list[int]]:
    """By evaluation set, the rows whose source also stands in train."""
    known = set(splits["train"].sources)
    rows = {
        name: [row for row, source in zip(pairs.rows, pairs.sources, strict=True) if source in known]
        for name, pairs in splits.items()
        if name != "train"
    }
    return {name: some for name, some in rows.items() if some}


def _rows(rows: list[int]) -> str:
    return f"{'row' if len(rows) == 1 else 'rows'} {listed(rows)}"


def _find_duplicates(name: str, pairs: Pairs) -> list[Finding]:
    seen: set[tuple[str, str]] = set()
    rows = []
    for row, key in zip(pairs.rows, zip(pairs.sources, pairs.targets, strict=True), strict=True):
        if key in seen:
            rows.append(row)
        seen.add(key)
    if not rows:
        return []
    sentence = f"{name}: {count_of(len(rows), 'row repeats', 'rows repeat')} an earlier pair ({_rows(rows)})."
    return [Finding("duplicates", name, len(rows), rows, sentence)]


def _find_leakage(splits: Mapping[str, Pairs]) -> list[Finding]:
    """Of train in the others, and of dev in the test sets; several test sets may share what they like."""
    findings = []
    for earlier in ("train", "dev"):
        if earlier not in splits:
            continue
        known = set(splits[earlier].sources)
        for later, pairs in splits.items():
            if later in ("train", earlier):
                continue
            rows = [row for row, source in zip(pairs.rows, pairs.sources, strict=True) if source in known]
            if rows:
                sentence = (
                    f"{later}: {count_of(len(rows), 'source')} of {len(pairs):,} also "
                    f"{'stands' if len(rows) == 1 else 'stand'} in {earlier} ({_rows(rows)})."
                )
                findings.append(Finding("leakage", later, len(rows), rows, sentence))
    return findings


def _find_copies(name: str, pairs: Pairs) -> list[Finding]:
    triples = zip(pairs.rows, pairs.sources, pairs.targets, strict=True)
    rows = [row for row, source, target in triples if source.casefold() == target.casefold()]
    if len(rows) <= _COPIES * len(pairs):
        return []
    sentence = (
        f"{name}: {count_of(len(rows), 'target')} of {len(pairs):,} "
        f"{'repeats' if len(rows) == 1 else 'repeat'} the source untranslated ({_rows(rows)})."
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
            f"({_rows(odd)}): are they translations?"
        )
        findings.append(Finding("lengths", name, len(odd), odd, sentence))
    if long:
        sentence = f"{name}: {count_of(len(long), 'pair has', 'pairs have')} more than {LONGEST:,} characters on a side"
        findings.append(Finding("lengths", name, len(long), long, f"{sentence} ({_rows(long)})."))
    return findings


def _find_shift(name: str, pairs: Pairs) -> list[Finding]:
    """Long sentences have long translations; where that is so for a neighbour and not for the pair, a line is lost."""
    if len(pairs) < _ENOUGH:
        return []
    source_n = np.log1p([len(text) for text in pairs.sources])
    target_n = np.log1p([len(text) for text in pairs.targets])
    straight = _correlation(source_n, target_n)
    previous = _correlation(source_n[1:], target_n[:-1])
    following = _correlation(source_n[:-1], target_n[1:])
    best = max(previous, following)
    if best < 0.4 or best < 2 * straight:
        return []
    sentence = (
        f"{name}: the sides look shifted by a line: lengths of a source and of the "
        f"{'next' if following > previous else 'previous'} target go together (correlation {best:.2f}), "
        f"those of a pair do not ({straight:.2f})."
    )
    return [Finding("alignment", name, len(pairs), [], sentence)]


def _correlation(a_n: npt.NDArray[np.float64], b_n: npt.NDArray[np.float64]) -> float:
    return float(np.corrcoef(a_n, b_n)[0, 1]) if a_n.std() > 0 and b_n.std() > 0 else 0.0
