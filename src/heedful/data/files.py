"""One front door to files of rows: CSV, TSV, JSON Lines and Parquet, the text ones also gzipped."""

import difflib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any

from heedful.data.delimited import Rule, read_delimited
from heedful.data.disk import require_file
from heedful.data.jsonl import read_jsonl
from heedful.data.rules import rule_like, rule_of
from heedful.data.tables import open_parquet
from heedful.errors import RequestError
from heedful.storage.memory import FileMemory

FORMATS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".txt": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
}
_SAMPLE = 1000
"""Rows of a JSON Lines file whose keys count as its columns."""


@dataclass(frozen=True)
class Row:
    number: int
    """From 1, the header not counted; rows that cannot be read count."""
    text: str
    pair: str | None
    label: str | None
    """As the file has it, blanks around it removed; numbers as text, 1.0 as "1.0"; None if the cell is empty."""
    raw: dict[str, Any]
    """Every column, by name."""
    line: int | None = None
    """Where it begins in the file; None for Parquet, which has no lines."""


@dataclass(frozen=True)
class Unreadable:
    number: int
    line: int | None
    reason: str

    @property
    def place(self) -> str:
        return f"line {self.line}" if self.line is not None else f"row {self.number}"


class _SeveralError(Exception):
    """A row holds more than one label."""


def format_of(path: Path) -> str:
    """Return the format by the file's name: "csv", "tsv", "jsonl" or "parquet"."""
    suffixes = [s.lower() for s in path.suffixes]
    zipped = bool(suffixes) and suffixes[-1] == ".gz"
    if zipped:
        suffixes.pop()
    suffix = suffixes[-1] if suffixes else ""
    known = "CSV, TSV, JSON Lines or Parquet (.csv, .tsv, .jsonl, .parquet; the text ones also with .gz)"
    if suffix in (".xlsx", ".xls", ".ods"):
        raise RequestError(f"{path} is a spreadsheet; save it as CSV (UTF-8).")
    if suffix not in FORMATS:
        raise RequestError(f"{path}: its name does not say its format; data files are {known}.")
    if zipped and FORMATS[suffix] == "parquet":
        raise RequestError(f"{path}: Parquet compresses itself; unpack it with gunzip.")
    return FORMATS[suffix]


@dataclass(frozen=True)
class Table:
    """An open data file: how it is read, its columns, and its rows, which are streamed."""

    path: Path
    rule: Rule
    columns: tuple[str, ...]
    """Their names; of JSON Lines, the keys of its first thousand rows."""

    @cached_property
    def sample(self) -> list[dict[str, Any]]:
        """The cells of the first readable rows, by column."""
        return [raw for _, raw in islice(_open(self.path, self.rule)[1], _SAMPLE) if isinstance(raw, dict)]

    def rows(
        self,
        text: str,
        pair: str | None = None,
        label: str | None = None,
        skip: Callable[[Unreadable], None] | None = None,
    ) -> Iterator[Row]:
        """Yield the rows in order; memory does not grow with the file.

        A row that cannot be read (broken JSON, a missing key, a value that is no text) goes to `skip` and is left out;
        without `skip` it stops the reading. A file that is broken as a whole (encoding, quotes, ragged rows) always
        stops. An empty text is a row like any other; an empty label is None. A dot in the name of a text that is
        no column looks into an object: "translation.en".
        """
        for name, may_be_inside in ((text, True), (pair, True), (label, False)):
            if name is not None and not self._has(name, may_be_inside):
                raise self.missing_column(name)
        return _rows(self.path, _open(self.path, self.rule)[1], text, pair, label, skip)

    def _has(self, name: str, may_be_inside: bool) -> bool:
        """Whether it names a column, or what an object in a column holds; cells of CSV and TSV are no objects."""
        if name in self.columns:
            return True
        inside = format_of(self.path) in ("jsonl", "parquet") and "." in name
        return may_be_inside and inside and name.partition(".")[0] in self.columns

    def missing_column(self, name: str) -> RequestError:
        """Return the error that lists the columns, the most likely first."""
        return missing_column(self.path, name, self.columns, self.rule)


_tables = FileMemory[Table](16)


def open_table(
    path: str | Path,
    header: bool | None = None,
    quotes: bool | None = None,
    named: Sequence[str | None] = (),
    first: Table | None = None,
) -> Table:
    """Return the table of a file, the same one until the file changes. It is read like the `first` of its data set, if
    there is one. `header` and `quotes` are what the user says of the file, `named` the columns that the user has
    named."""
    path = Path(path)
    require_file(path)
    form = format_of(path)
    columns = tuple(name for name in named if name is not None)

    def make() -> Table:
        if form not in ("csv", "tsv"):
            rule = Rule()
        elif first is None or format_of(first.path) not in ("csv", "tsv"):
            rule = rule_of(path, form == "tsv", header, quotes, columns)
        else:
            rule = rule_like(first, path, form == "tsv", header, quotes, columns)
        return Table(path, rule, tuple(_open(path, rule)[0]))

    files = [path] if first is None else [path, first.path]
    like = None if first is None else (first.rule, first.columns)
    return _tables.get(files, (path, header, quotes, columns, like), make)


def read_rows(path: str | Path, text: str, pair: str | None = None, label: str | None = None) -> Iterator[Row]:
    """Yield the rows of a file by its own rule, as `Table.rows` does; a row that cannot be read stops it."""
    return open_table(path, named=(text, pair, label)).rows(text, pair, label)


def _rows(
    path: Path,
    rows: Iterator[tuple[int | None, dict[str, Any] | str]],
    text: str,
    pair: str | None,
    label: str | None,
    skip: Callable[[Unreadable], None] | None,
) -> Iterator[Row]:
    for number, (line, raw) in enumerate(rows, 1):
        try:
            if isinstance(raw, str):
                raise ValueError(raw)
            first = _text(raw, text)
            second = None if pair is None else _text(raw, pair)
            answer = None if label is None else _label(raw.get(label), label)
        except _SeveralError as error:
            where = f"line {line}" if line is not None else f"row {number}"
            raise RequestError(f"{path}, {where}: {error}") from None
        except ValueError as error:
            bad = Unreadable(number, line, str(error))
            if skip is None:
                raise RequestError(f"{path}, {bad.place}, {bad.reason}; correct or remove it.") from None
            skip(bad)
            continue
        yield Row(number, first, second, answer, raw, line)


def _open(path: Path, rule: Rule) -> tuple[list[str], Iterator[tuple[int | None, dict[str, Any] | str]]]:
    """Return the column names, and for each row its line and its cells by name, or why it cannot be read."""
    form = format_of(path)
    if form == "parquet":
        names, tables = open_parquet(path)
        return names, ((None, row) for row in tables)
    if form == "jsonl":
        stream = read_jsonl(path)
        head = list(islice(stream, _SAMPLE))
        keys = list(dict.fromkeys(key for _, row in head if isinstance(row, dict) for key in row))
        if not keys:
            line, row = head[0] if head else (1, "holds no object")
            reason = row if isinstance(row, str) else "holds an object without keys"
            raise RequestError(f"{path}, line {line}, {reason}; JSON Lines has one object to a line.")
        return keys, chain(head, stream)
    names, records = read_delimited(path, rule)
    if len(names) == 1 and ".txt" in path.suffixes:
        raise RequestError(
            f"{path} is plain text (no tab in its first line); give it a line of column names and call it .csv or .tsv."
        )
    return names, ((line, c if isinstance(c, str) else dict(zip(names, c, strict=True))) for line, c in records)


def missing_column(path: Path, name: str, columns: Sequence[str], rule: Rule | None = None) -> RequestError:
    """Says which columns there are, the likeliest first."""
    if rule is not None and not rule.header:
        return RequestError(
            f"{path} has no column {name!r}: its first line looks like a row, not like column names, and so the "
            f"columns are called {_listed(columns)} (--header, or header = true in [data], takes the first line for "
            "names)."
        )
    folded = {column.casefold(): column for column in columns}
    near = [folded[n] for n in difflib.get_close_matches(name.casefold(), list(folded), n=2, cutoff=0.6)]
    if near:
        meant = f"did you mean {' or '.join(map(repr, near))}?"
        return RequestError(f"{path} has no column {name!r}; {meant} (it has {_listed(columns)})")
    return RequestError(
        f"{path} has no column {name!r}; it has {_listed(columns)} (the first line must name the columns; if it is a "
        "row, say --no-header, or header = false in [data])."
        if format_of(path) in ("csv", "tsv")
        else f"{path} has no column {name!r}; it has {_listed(columns)}."
    )


def _listed(columns: Sequence[str], most: int = 8) -> str:
    shown = ", ".join(repr(c if len(c) <= 40 else c[:39] + "…") for c in columns[:most])
    return shown + (f" and {len(columns) - most} more" if len(columns) > most else "")


def _text(raw: dict[str, Any], column: str) -> str:
    outer, _, inner = column.partition(".")
    value = raw.get(column)
    if column not in raw and isinstance(raw.get(outer), dict):
        value = raw[outer].get(inner)
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if value is None:
        raise ValueError(f"has no {column!r}")
    raise ValueError(f"has a {type(value).__name__} as {column!r}, not text")


def _label(value: Any, column: str) -> str | None:
    if value is None or isinstance(value, str):
        return (value.strip() or None) if value else None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, list | tuple):
        raise _SeveralError(f"{column!r} is a list; several labels to a row are not supported, give each row one.")
    if hasattr(value, "as_tuple"):  # a decimal from Parquet
        return str(value)
    raise ValueError(f"has a {type(value).__name__} as {column!r}, not a label")
