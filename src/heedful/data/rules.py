"""By which rule a CSV or TSV file is read: what separates its cells, whether quotes are quotes, whether its first line
names the columns. Decided from the whole file, and said where it was a matter of judgement."""

import csv
import re
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Protocol

from heedful.data.delimited import Rule, records_of
from heedful.data.disk import read_lines
from heedful.data.names import KNOWN_NAMES
from heedful.errors import RequestError
from heedful.storage.memory import FileMemory

_CELL = re.compile(r'"(?:[^"]|"")*"|[^"\t\r\n]*')
_LONGEST_GUESS = 2**20
"""Characters of one quoted record while it is not yet known that quotes are quotes."""
_SAMPLE = 1000
"""Rows that the first line is compared with."""
_MOST_VALUES = 50
"""A column with more different values than this is not one whose values recur."""
_WORDS = {",": "commas", ";": "semicolons", "\t": "tabs"}


@dataclass(frozen=True)
class _Look:
    """What a file shows by itself, whatever its columns are called."""

    separator: str
    quoted: bool
    about_quotes: str
    first: list[str]
    """The cells of its first record."""
    rows: list[list[str]]
    """The records after it that the first is compared with."""


_looks = FileMemory[_Look](8)


def _look_at(path: Path, tabs: bool, quotes: bool | None) -> _Look:
    separator = "\t" if tabs else separator_of(path)
    quoted, note = _quoting(path, separator, tabs, quotes)
    return _Look(separator, quoted, note, *_first_and_rest(path, Rule(separator, quoted)))


def rule_of(
    path: Path, tabs: bool, header: bool | None = None, quotes: bool | None = None, named: Sequence[str] = ()
) -> Rule:
    """Return the rule of one file, judged by itself. What the user says with `header` and `quotes` is not doubted.
    `named`: columns that the user has named."""
    look = _looks.get([path], (tabs, quotes), lambda: _look_at(path, tabs, quotes))
    rule, first, rows = Rule(look.separator, look.quoted, about_quotes=look.about_quotes), look.first, look.rows
    if not any(first) or header is True:
        return rule  # what has no names is refused by whoever reads it
    names = tuple(f"column {i}" for i in range(1, len(first) + 1))
    if header is False:
        return replace(rule, header=False, names=names)
    like_names = looks_like_names(first, rows)
    if named and set(named) <= set(first):
        if like_names is not False:
            return rule
        return replace(rule, about_header=(
            f"{path.name}: its first line looks like the others, but is read as column names, since you named "
            f"{named[0]!r} (--no-header, or header = false in [data], makes it a row)."
        ))  # fmt: skip
    if like_names is False:
        shown = ", ".join(map(repr, names[:3])) + (" …" if len(names) > 3 else "")
        return replace(rule, header=False, names=names, about_header=(
            f"{path.name} has no line of column names: its first line looks like the others and counts as a row; the "
            f"columns are called {shown} (--header, or header = true in [data], reads the first line as names)."
        ))  # fmt: skip
    if like_names is None and _reads_like_text(first, rows):
        return replace(rule, about_header=(
            f"{path.name}: its first line is read as column names, though it could be a row (--no-header, or header "
            "= false in [data], makes it one)."
        ))  # fmt: skip
    return rule


class FirstFile(Protocol):
    """The table that the other files of a data set are read like."""

    @property
    def path(self) -> Path: ...
    @property
    def rule(self) -> Rule: ...
    @property
    def columns(self) -> Sequence[str]: ...


def rule_like(
    first: FirstFile,
    path: Path,
    tabs: bool,
    header: bool | None = None,
    quotes: bool | None = None,
    named: Sequence[str] = (),
) -> Rule:
    """Return the rule of a further file of a data set: that of the first where possible, with a note wherever the file
    by itself would have been read differently."""
    own = rule_of(path, tabs, header, quotes, named)
    if own.separator != first.rule.separator:
        words = _WORDS[own.separator], _WORDS[first.rule.separator]
        note = f"{path.name} is separated by {words[0]} and {first.path.name} by {words[1]}; each is read so."
        own = replace(own, about_separator=note)
    elif own.quoted != first.rule.quoted and _has_quotes(path) and _has_quotes(first.path):
        how, other = ("as quoting", "false") if first.rule.quoted else ("as letters", "true")
        note = (
            f"{path.name}: quotation marks are read {how}, as in {first.path.name}, though by itself the file would be "
            f"read otherwise (quotes = {other} in [data] changes both)."
        )
        own = replace(own, quoted=first.rule.quoted, about_quotes=note)
        if own.quoted:
            _refuse_swallowed(path, own.separator)
    return own if header is not None else _header_like(first, path, own, named)


def _header_like(first: FirstFile, path: Path, own: Rule, named: Sequence[str]) -> Rule:
    """Take the columns of the first file, in its order, where one of the files has no line of names."""
    cells, rows = _first_and_rest(path, own)
    if first.rule.header and set(named) <= set(cells):
        return replace(own, header=True, names=None, about_header="")
    if len(cells) != len(first.columns):
        return own
    has_names = looks_like_names(cells, rows) is True
    if first.rule.header and not has_names:
        note = (
            f"{path.name} has no line of column names: its first line counts as a row, and its columns are taken in "
            f"the order of {first.path.name} (--header, or header = true in [data], reads the first line as names)."
        )
        return replace(own, header=False, names=tuple(first.columns), about_header=note)
    if not first.rule.header:
        note = (
            f"{path.name} has a line of column names and {first.path.name} has none: its columns are taken in the "
            f"order of {first.path.name}."
        )
        return replace(own, header=has_names, names=tuple(first.columns), about_header=note if has_names else "")
    return own


def separator_of(path: Path) -> str:
    """Return the separator (comma, semicolon or tab) that the first lines agree about; else the one that gives the
    first line the most columns; a comma if none gives more."""
    lines = [line for _, line in islice(read_lines(path), 50) if line.strip()]
    scores: dict[str, tuple[float, int]] = {}
    for separator in ",;\t":
        try:
            records = [r for r in csv.reader(lines, delimiter=separator) if r]
        except csv.Error:
            records = []
        width = len(records[0]) if records else 0
        alike = sum(len(r) == width for r in records) / len(records) if width > 1 else 0.0
        scores[separator] = (alike if alike == 1 and len(records) > 1 else 0.0, width)
    return max(scores, key=lambda separator: scores[separator])


# The first line


def _first_and_rest(path: Path, rule: Rule) -> tuple[list[str], list[list[str]]]:
    records = (cells for _, cells in records_of(path, rule))
    return [cell.strip() for cell in next(records, [])], list(islice(records, _SAMPLE))


def looks_like_names(first: Sequence[str], rows: Sequence[Sequence[str]]) -> bool | None:
    """Whether a first line names the columns (True), is a row like the others (False), or cannot be told (None)."""
    rows = [row for row in rows if len(row) == len(first)]
    if len(first) > 1:  # a line of names may recur where files were concatenated
        rows = [row for row in rows if [cell.strip() for cell in row] != list(first)] or rows
    if all(cell.casefold() in KNOWN_NAMES for cell in first):
        return True
    if not rows:
        return True if any(cell.casefold() in KNOWN_NAMES for cell in first) else None
    like_data, like_names = 0, 0
    for i, cell in enumerate(first):
        values = [row[i].strip() for row in rows if row[i].strip()]
        if not cell or not values:
            continue
        numeric = sum(map(_is_number, values)) / len(values)
        if cell in values:
            like_data += 1
        elif numeric == 1:
            like_data, like_names = like_data + _is_number(cell), like_names + (not _is_number(cell))
        elif _shape(cell) and len(values) > 2 and all(_shape(value) == _shape(cell) for value in values):
            like_data += 1
    if like_data and not like_names:
        return False
    if like_names or any(cell.casefold() in KNOWN_NAMES for cell in first):
        return True
    if _reads_like_text(first, rows):
        new = [i for i, cell in enumerate(first) if _recurs([row[i].strip() for row in rows]) and cell]
        return None if new else False
    return None


def _reads_like_text(first: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first line has a sentence where the others have sentences."""
    for i, cell in enumerate(first):
        lengths = [len(row[i].split()) for row in rows if len(row) == len(first)]
        if lengths and statistics.median(lengths) >= 4 and len(cell.split()) >= max(4, min(lengths) / 2):
            return True
    return False


def _is_number(value: str) -> bool:
    return bool(re.fullmatch(r"[+-]?(\d+([.,]\d+)?|[.,]\d+)([eE][+-]?\d+)?\s?%?", value))


def _shape(value: str) -> str:
    """Return the pattern of an identifier or a date, "doc_017" as "a_9"; nothing for text and for what has no digit."""
    if len(value) > 40 or " " in value or not any(c.isdigit() for c in value):
        return ""
    return re.sub(r"[^\W\d_]+", "a", re.sub(r"\d+", "9", value))


def _recurs(values: Sequence[str]) -> bool:
    return 2 * len(set(values)) <= len(values)


# Quotes


@dataclass
class _Seen:
    """What was seen of quotes in a TSV file."""

    whole: int = 0
    """Cells that are quoted as quoting would."""
    needed: int = 0
    """Of these, those with a tab or a line end inside, and the first of them."""
    needed_line: int = 0
    ragged: bool = False
    """Whether lines differ in their number of tabs, so that not each can be a row by itself."""
    stray_line: int = 0
    """The first line with a mark that quoting would not put there."""
    quoted: Counter[int] = field(default_factory=Counter)
    bare: Counter[int] = field(default_factory=Counter)
    idle: set[int] = field(default_factory=set)
    """Columns with quotes around cells that need none."""


def _quoting(path: Path, separator: str, tabs: bool, quotes: bool | None) -> tuple[bool, str]:
    """Whether quotes enclose cells, and a note. In a TSV file they may be mere letters (as in GLUE's): it is decided.

    Real quoting is consistent: each quote opens or closes a whole cell or is doubled inside one, and a cell is quoted
    because it must be (it holds a quote, tab or line end) or because its whole column is. One exception, and quotation
    marks are characters; but in a file that is clearly quoted otherwise, the exception is a mistake to correct.
    """
    if quotes is not None:
        return quotes, ""
    if not tabs:
        _refuse_swallowed(path, separator)
        return True, ""
    seen = _look_at_quotes(path)
    if not seen.whole:
        return False, ""
    if not seen.stray_line:
        real = not seen.idle & set(seen.bare)
        if not real and seen.needed and seen.ragged:
            raise _mixed(path, seen.needed_line, "a quoted cell holds a tab or a line end")
        return real, "" if real else _letters(path, "of some columns only a part of the cells is within them")
    whole_columns = [i for i, n in seen.quoted.items() if n >= 10 and n >= 9 * seen.bare[i]]
    if (seen.needed and seen.ragged) or whole_columns:
        raise _mixed(path, seen.stray_line, "a quotation mark is where quoting would not put one")
    return False, _letters(path, f"line {seen.stray_line} has one where quoting would not put it")


def _letters(path: Path, reason: str) -> str:
    return (
        f"{path.name}: quotation marks are read as letters, since {reason} (quotes = true in [data] reads them as "
        "quoting)."
    )


def _mixed(path: Path, line: int, what: str) -> RequestError:
    return RequestError(
        f"{path}, line {line}: {what}, though other cells of the file are quoted; correct it (inside a quoted cell, "
        'write a quote twice, ""), or say how all quotes are meant: --set data.quotes=true (quoting) or '
        "data.quotes=false (letters)."
    )


def _look_at_quotes(path: Path) -> _Seen:
    seen, width, values = _Seen(), 0, _Values()
    several: list[tuple[int, list[str], list[str]]] = []
    for numbered in _quote_records(path):
        record = "".join(line for _, line in numbered)
        start, cells = numbered[0][0], _cells(record.rstrip("\r\n"))
        tabs = {line.count("\t") for _, line in numbered if line.strip("\r\n")}
        seen.ragged |= bool(width) and tabs != {width - 1} and bool(tabs)
        width = width or len(cells or [])
        if cells is None or len(cells) != width:
            seen.stray_line = seen.stray_line or start
        elif len(numbered) == 1:
            values.add(cells)
            _count(seen, start, cells)
        elif len(several) < _SAMPLE:
            several.append((start, [line for _, line in numbered], cells))
    for start, lines, cells in several:  # which may be rows that were swallowed
        if values.are_rows(lines, "\t", width, otherwise=True):
            seen.stray_line = min(seen.stray_line or start, start)
        else:
            _count(seen, start, cells)
    return seen


def _quote_records(path: Path) -> Iterator[list[tuple[int, str]]]:
    """Yield the lines of each record if quotes enclose cells; where they cannot, each line by itself."""
    lines, waiting, width = read_lines(path), list[tuple[int, str]](), 0
    pending: list[tuple[int, str]] = []
    odd, length = False, 0
    while True:
        numbered = waiting.pop() if waiting else next(lines, None)
        if numbered is None and not pending:
            return
        if numbered is not None:
            pending.append(numbered)
            odd ^= numbered[1].count('"') % 2 == 1
            length += len(numbered[1])
            if odd and length <= _LONGEST_GUESS:
                continue
        cells = None if odd else _cells("".join(line for _, line in pending).rstrip("\r\n"))
        width = width or len(cells or [])
        if len(pending) > 1 and (cells is None or len(cells) != width):
            waiting += reversed(pending[1:])
            pending = pending[:1]
        yield pending
        pending, odd, length = [], False, 0


def _count(seen: _Seen, line: int, cells: Sequence[str]) -> None:
    for i, cell in enumerate(cells):
        if cell.startswith('"'):
            seen.whole += 1
            seen.quoted[i] += 1
            if re.search(r"[\t\r\n]", cell):
                seen.needed += 1
                seen.needed_line = seen.needed_line or line
            elif '""' not in cell[1:-1] and line > 1:
                seen.idle.add(i)
        elif cell and line > 1:
            seen.bare[i] += 1


class _Values:
    """The values of those columns in which they recur, so that a swallowed row is known by its own."""

    def __init__(self) -> None:
        self.counts: dict[int, Counter[str]] = {}
        self.rows = 0

    def add(self, cells: Sequence[str]) -> None:
        self.rows += 1
        for i, cell in enumerate(cells):
            counts = self.counts.setdefault(i, Counter())
            if len(counts) <= _MOST_VALUES and len(cell) <= 100:
                counts[cell.strip('"')] += 1

    def are_rows(self, lines: Sequence[str], separator: str, width: int, otherwise: bool) -> bool:
        """Whether each of the lines is a row of its own. `otherwise`: if no column could tell."""
        split = [[c.strip('"') for c in line.rstrip("\r\n").split(separator)] for line in lines]
        if width < 2 or any(len(cells) != width for cells in split):
            return False
        telling = [
            (i, counts) for i, counts in self.counts.items()
            if len(counts) <= _MOST_VALUES and 2 * len(counts) <= self.rows and sum(counts.values()) == self.rows
        ]  # fmt: skip
        if not telling:
            return otherwise and all(map(all, split)) and sum(line.count('"') for line in lines) == 2
        return any(all(cells[i] and cells[i] in counts for cells in split) for i, counts in telling)


def _refuse_swallowed(path: Path, separator: str) -> None:
    """Refuse a quote that was opened by mistake. Up to the next quote it swallows lines, without an error, that look
    like rows."""
    if not _has_quotes(path):
        return
    several: list[tuple[int, list[str]]] = []
    values, width, taken = _Values(), 0, list[str]()

    def lines() -> Iterator[tuple[int, str]]:
        for number, line in read_lines(path):
            taken.append(line)
            yield number, line

    for start, cells in records_of(path, Rule(separator, quoted=True), lines()):
        while taken and not taken[0].strip():
            del taken[0]
        width = width or len(cells)
        if len(taken) > 1 and any("\n" in cell for cell in cells) and len(several) < _SAMPLE:
            several.append((start, list(taken)))
        elif len(cells) == width:
            values.add(cells)
        taken.clear()
    for start, parts in several:
        if values.are_rows(parts, separator, width, otherwise=False):
            raise RequestError(
                f"{path}, line {start}: a quote opens here and closes in line {start + len(parts) - 1}, and swallows "
                f'{len(parts)} lines that look like rows; remove it or write it twice (""), or say '
                "--set data.quotes=true if they are one cell."
            )


def _has_quotes(path: Path) -> bool:
    return any('"' in line for _, line in read_lines(path))


def _cells(record: str) -> list[str] | None:
    """Return the cells as written, quotes included; None if quotes are where quoting would not put them."""
    cells, at = [], 0
    while True:
        match = _CELL.match(record, at)
        assert match is not None  # the pattern also matches nothing
        cells.append(match.group())
        at = match.end()
        if at == len(record):
            return cells
        if record[at] != "\t":
            return None
        at += 1
