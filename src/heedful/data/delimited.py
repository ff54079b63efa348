"""CSV and TSV by a rule: records with the line where each begins."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from heedful.data.disk import read_lines
from heedful.errors import RequestError
from heedful.storage.lines import LONGEST

Record = tuple[int, list[str]]
"""The line where it begins, and its cells."""


@dataclass(frozen=True)
class Rule:
    """How a file of rows is read. Parquet and JSON Lines have no choice."""

    separator: str = ","
    quoted: bool = True
    """Whether a quote at the beginning of a cell encloses it; else quotation marks are letters."""
    header: bool = True
    """Whether the first record names the columns."""
    names: tuple[str, ...] | None = None
    """What the columns are called, where that is not what the first record says."""
    about_separator: str = ""
    about_quotes: str = ""
    about_header: str = ""
    """What had to be judged, a sentence each, or nothing."""

    @property
    def notes(self) -> list[str]:
        return [note for note in (self.about_separator, self.about_quotes, self.about_header) if note]


def read_delimited(path: Path, rule: Rule) -> tuple[list[str], Iterator[tuple[int, list[str] | str]]]:
    """Return the column names, and the records below them, streaming. A record of a different width stops the reading
    and is named by its line. Where the names of the first line recur (files were concatenated), there is a reason
    instead of cells."""
    records = records_of(path, rule)
    if rule.names is not None:
        _, first = next(records, (1, [])) if rule.header else (0, None)
        return list(rule.names), _check_cells(path, rule.names, records, first)
    line, header = next(records, (1, []))
    if not any(name.strip() for name in header):
        raise RequestError(f"{path} has no column names; its first line must name the columns.")
    if header[0].casefold().startswith("sep=") and not any(header[1:]):
        raise RequestError(f"{path}, line {line}, is Excel's {header[0]!r}, no column names; remove the line.")
    names = [name.strip() or f"column {i}" for i, name in enumerate(header, 1)]
    for name in names:
        if names.count(name) > 1:
            raise RequestError(
                f"{path}, line {line}, names two columns {name!r}; rename one (if the line is a row, say "
                "--no-header, or header = false in [data])."
            )
    return names, _check_cells(path, names, records, header)


def _check_cells(
    path: Path, names: Sequence[str], records: Iterator[Record], header: Sequence[str] | None
) -> Iterator[tuple[int, list[str] | str]]:
    stripped = None if header is None else [cell.strip() for cell in header]
    for line, cells in records:
        if len(cells) != len(names):
            hint = "quote cells that hold the separator" if len(cells) > len(names) else "add what is missing"
            raise RequestError(
                f"{path}, line {line}, has {len(cells)} {'cell' if len(cells) == 1 else 'cells'} where the "
                f"{'first line' if header is None else 'header'} has {len(names)}; {hint}."
            )
        yield line, "repeats the column names" if [cell.strip() for cell in cells] == stripped else cells


def records_of(path: Path, rule: Rule, lines: Iterable[tuple[int, str]] | None = None) -> Iterator[Record]:
    """Yield all records, including the first line's; blank lines are skipped. `lines`: the file's lines, if the caller
    counts them too."""
    lines = read_lines(path) if lines is None else lines
    if not rule.quoted:
        for number, line in lines:
            stripped = line.rstrip("\r\n")
            if stripped:
                yield number, stripped.split(rule.separator)
        return
    if csv.field_size_limit() < LONGEST:
        csv.field_size_limit(LONGEST)
    reader = csv.reader((line for _, line in lines), delimiter=rule.separator, strict=True)
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
        return RequestError(f"{path}, line {line}: a carriage return is in a cell without quotes; quote or remove it.")
    if "field limit" in reason:
        return RequestError(
            f"{path}, line {start}: a cell is longer than {LONGEST // 2**20} M characters; is a quote never closed?"
        )
    return RequestError(f"{path}, line {start}, cannot be read as CSV ({reason}); correct it.")
