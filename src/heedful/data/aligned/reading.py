"""Pairs from files: two texts that are aligned line by line, or a table with a column for each side."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from heedful.data.check_results import Finding, count_of, listed
from heedful.data.disk import is_file, read_lines, require_file
from heedful.data.files import Table, Unreadable, format_of
from heedful.data.records import Pairs
from heedful.data.shifts import find_loss, find_shift
from heedful.errors import RequestError
from heedful.storage.lines import encoding_of

_TOLERATED_SHARE = 0.1
"""Share of pairs that may be unusable before the files count as broken."""
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass
class Part:
    """One split as read."""

    pairs: Pairs
    notes: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


@dataclass(frozen=True)
class _Raw:
    row: int
    line: int | None
    source: str
    target: str


def read_text_files(source: Path, target: Path) -> Part:
    """Two files, plain or gzipped: line n of one is the translation of line n of the other. Lines end in \\n (or
    \\r\\n) and in no other character that Unicode calls a line's end, so that none is lost to either side."""
    sides = [_lines(path) for path in (source, target)]
    if len(sides[0]) != len(sides[1]):
        raise _not_aligned(source, target, *sides)
    while not sides[0][-1] and not sides[1][-1]:  # an empty end of both files is no pair
        for side in sides:
            side.pop()
    raw = (_Raw(i, i, s, t) for i, (s, t) in enumerate(zip(*sides, strict=True), 1))
    part = _usable(raw, f"{source} and {target}", f"{source.name} and {target.name}", [])
    part.findings += _shifted(f"{source.name} and {target.name}", part.pairs)
    for path in (source, target):
        if encoding_of(path) == "utf-16":
            part.notes.append(f"{path.name} is UTF-16, and was read as such.")
    return part


def read_table(table: Table, source: str, target: str) -> Part:
    """A table with a column for each side; rows that cannot be read are left out and named in the findings."""
    path, unreadable = table.path, list[Unreadable]()
    rows = table.rows(source, target, skip=unreadable.append)
    raw = (_Raw(row.number, row.line, row.text.strip(), (row.pair or "").strip()) for row in rows)
    part = _usable(raw, str(path), path.name, unreadable)
    part.findings += [Finding("reading", path.name, 1, [], note) for note in table.rule.notes]
    if format_of(path) != "parquet" and encoding_of(path) == "utf-16":
        part.notes.append(f"{path.name} is UTF-16, and was read as such.")
    return part


def _lines(path: Path) -> list[str]:
    if is_file(path) and path.stat().st_size == 0:
        raise RequestError(f"{path} is empty; it needs a text on each line.")
    require_file(path)
    lines = [line.strip() for _, line in read_lines(path)]
    if not any(lines):
        raise RequestError(f"{path} has no text; it needs one on each line.")
    return lines


def _usable(raw: Iterable[_Raw], called: str, short: str, bad: list[Unreadable]) -> Part:
    """The pairs that are ones; `bad` has those that were not read when `raw` has been gone through."""
    pairs = Pairs([], [], [])
    for one in raw:
        if reason := _why_unusable(one):
            bad.append(Unreadable(one.row, one.line, reason))
            continue
        pairs.sources.append(one.source)
        pairs.targets.append(one.target)
        pairs.rows.append(one.row)
    bad.sort(key=lambda one: one.number)
    total = len(bad) + len(pairs)
    if not total:
        raise RequestError(f"{called}: there are no pairs; give rows with a text for each side.")
    if len(bad) > _TOLERATED_SHARE * total:
        raise RequestError(
            f"{called}: {len(bad):,} of {total:,} pairs cannot be used (the first: {bad[0].place}, {bad[0].reason}); "
            "correct the files."
        )
    return Part(pairs, findings=[_left_out(short, bad)] if bad else [])


def _why_unusable(one: _Raw) -> str:
    for side, text in (("source", one.source), ("target", one.target)):
        if not text:
            return f"has an empty {side}"
        if "\0" in text:  # through an escape of JSON; files of text that hold one were refused
            return f"has a NUL character in its {side}"
        if _SURROGATE.search(text):
            return f"has half a surrogate pair in its {side}"
    return ""


def _left_out(short: str, bad: Sequence[Unreadable]) -> Finding:
    one = len(bad) == 1
    word = ("line" if bad[0].line is not None else "row") + ("" if one else "s")
    places = [some.number if some.line is None else some.line for some in bad]
    sentence = (
        f"{short}: {count_of(len(bad), 'pair')} cannot be used and {'is' if one else 'are'} left out "
        f"({word} {listed(places, 20)}; the first {bad[0].reason})."
    )
    return Finding("rows", short, len(bad), [some.number for some in bad], sentence)


def _shifted(short: str, pairs: Pairs) -> list[Finding]:
    found = find_shift(pairs.sources, pairs.targets)
    if found is None:
        return []
    first, last = pairs.rows[found.first], pairs.rows[found.last]
    apart = "a line" if abs(found.by) == 1 else f"{abs(found.by)} lines"
    sentence = (
        f"{short}: from about line {first:,} to line {last:,} the sides look shifted by {apart}: the lengths of a "
        f"source and of the target {apart} {'below' if found.by > 0 else 'above'} go together there (correlation "
        f"{found.shifted:.2f}), those of a pair do not ({found.own:.2f}), and elsewhere they do "
        f"({found.elsewhere:.2f}); look for a lost line at line {first:,}."
    )
    return [Finding("alignment", short, last - first + 1, [first], sentence)]


def _not_aligned(source: Path, target: Path, sources: list[str], targets: list[str]) -> RequestError:
    longer, shorter = (source, target) if len(sources) > len(targets) else (target, source)
    more, fewer = max(sources, targets, key=len), min(sources, targets, key=len)
    empty = next((i for i, (s, t) in enumerate(zip(sources, targets, strict=False), 1) if bool(s) != bool(t)), None)
    apart = find_loss(more, fewer)
    if empty is not None:
        blank, full = (source, target) if not sources[empty - 1] else (target, source)
        where = f"line {empty:,} of {blank.name} is empty, where {full.name} has text"
    elif apart is not None:
        where = f"by the lengths of their lines they come apart at about line {apart + 1:,}"
    else:
        text = more[len(fewer)]
        shown = repr(text if len(text) <= 40 else text[:39] + "…") if text else "empty"
        where = f"line {len(fewer) + 1:,} of {longer.name} ({shown}) has no counterpart"
    return RequestError(
        f"{longer} has {count_of(len(more), 'line')} and {shorter} {len(fewer):,}, so they are not aligned line by "
        f"line: {where}; correct the files."
    )
