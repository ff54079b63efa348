"""CSV and TSV: which character separates, whether quotes are quotes, and records with the line where each begins."""

import csv
import re
from collections.abc import Iterator
from pathlib import Path

from heedful.data.disk import LONGEST, read_lines
from heedful.errors import RequestError

Record = tuple[int, list[str]]
"""The line where it begins, and its cells."""

_CELL = re.compile(r'"(?:[^"]|"")*"|[^"\t\r\n]*')
_LONGEST_GUESS = 2**20
"""Characters of one quoted record while it is not yet known that quotes are quotes."""


def read_delimited(path: Path, tabs: bool) -> tuple[list[str], Iterator[Record]]:
    """The column names, and the records under them, streaming; a record of another width stops with its line."""
    separator, quoted = ("\t", quotes_are_real(path)) if tabs else (separator_of(path), True)
    records = _records(path, separator, quoted)
    line, header = next(records, (1, []))
    if not any(name.strip() for name in header):
        raise RequestError(f"{path} has no column names; its first line must name the columns.")
    names = [name.strip() or f"column {i}" for i, name in enumerate(header, 1)]
    for name in names:
        if names.count(name) > 1:
            raise RequestError(f"{path}, line {line}, names two columns {name!r}; rename one of them.")
    return names, _check_cell_counts(path, names, records)


def _check_cell_counts(path: Path, names: list[str], records: Iterator[Record]) -> Iterator[Record]:
    for line, cells in records:
        if len(cells) != len(names):
            hint = "quote cells that hold the separator" if len(cells) > len(names) else "add what is missing"
            raise RequestError(
                f"{path}, line {line}, has {len(cells)} {'cell' if len(cells) == 1 else 'cells'} where the header has "
                f"{len(names)}; {hint}."
            )
        yield line, cells


def _records(path: Path, separator: str, quoted: bool) -> Iterator[Record]:
    """Blank lines are no records."""
    if not quoted:
        for number, line in read_lines(path):
            stripped = line.rstrip("\r\n")
            if stripped:
                yield number, stripped.split(separator)
        return
    if csv.field_size_limit() < LONGEST:
        csv.field_size_limit(LONGEST)
    reader = csv.reader((line for _, line in read_lines(path)), delimiter=separator, strict=True)
    while True:
        start = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise _csv_error(path, start, reader.line_num, str(error)) from None
        if cells:
            yield start, cells


def _csv_error(path: Path, start: int, line: int, reason: str) -> RequestError:
    if "unexpected end" in reason:
        return RequestError(f"{path}, line {start}: a quote opens in this record and is never closed; close it.")
    if "expected after" in reason:
        opened = "" if line == start else f", or close the one that opens in line {start}"
        return RequestError(
            f'{path}, line {line}: text follows a closing quote; write quotes inside a quoted cell twice (""){opened}.'
        )
    if "new-line character" in reason:
        return RequestError(
            f"{path}, line {line}: a carriage return stands in a cell without quotes; quote or remove it."
        )
    if "field limit" in reason:
        return RequestError(
            f"{path}, line {start}: a cell is longer than {LONGEST // 2**20} M characters; is a quote never closed?"
        )
    return RequestError(f"{path}, line {start}, cannot be read as CSV ({reason}); correct it.")


def separator_of(path: Path) -> str:
    """The one of comma, semicolon and tab that gives the header the most columns; a comma if none gives more."""
    for _, line in read_lines(path):
        if line.strip():
            widths = {}
            for separator in ",;\t":
                try:
                    widths[separator] = len(next(csv.reader([line], delimiter=separator)))
                except csv.Error:
                    widths[separator] = 0
            return max(widths, key=lambda separator: widths[separator])
    return ","


def quotes_are_real(path: Path) -> bool:
    """Whether a TSV file was written with quoting, rather than with quotation marks as mere characters (as GLUE's).

    Real quoting is consistent: each quote opens or closes a whole cell or is doubled inside one, and a cell is quoted
    because it must be (it holds a quote, tab or line end) or because its whole column is. One exception in the file,
    and quotation marks are characters.
    """
    width = 0
    seen: set[int] = set()
    bare: set[int] = set()
    idle: set[int] = set()
    pending = ""
    for _, line in read_lines(path):
        if not pending and '"' not in line and width:
            if len(bare) < width:
                bare.update(i for i, cell in enumerate(line.rstrip("\r\n").split("\t")) if cell)
            continue
        pending += line
        if pending.count('"') % 2:
            if len(pending) > _LONGEST_GUESS:
                return False
            continue
        cells = _cells(pending.rstrip("\r\n"))
        pending = ""
        if cells is None or (width and len(cells) != width):
            return False
        if not width:
            width = len(cells)
            continue
        for i, cell in enumerate(cells):
            if cell.startswith('"'):
                seen.add(i)
                if not re.search(r'""|[\t\r\n]', cell[1:-1]):
                    idle.add(i)
            elif cell:
                bare.add(i)
        if idle & bare:
            return False
    return not pending and bool(seen) and not idle & bare


def _cells(record: str) -> list[str] | None:
    """The cells as written, quotes included; None if quotes stand where quoting would not put them."""
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
