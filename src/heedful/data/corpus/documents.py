"""Files of running text, document after document, in constant memory."""

import itertools
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from heedful.data import disk
from heedful.data.files import missing_column
from heedful.data.jsonl import read_jsonl
from heedful.data.tables import open_parquet
from heedful.errors import RequestError
from heedful.storage import lines as storage_lines

MARKERS = ("<|endofdocument|>", "<|endoftext|>")
"""Lines that are known to separate documents."""
LONGEST = 8 * 2**20
"""Characters in one document; what is longer is cut into several, so that none fills the memory."""
_LOOKED_AT = 4 * 2**20  # characters, to see what separates documents
_Read = TypeVar("_Read")
_TABLES = {".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}


@dataclass(frozen=True)
class Source:
    path: Path
    called: str
    """What the user calls it."""
    separator: str = "auto"
    """What a document is: "line", "blank-line" (lines up to the next empty one), "file", a line between
    two documents, or "auto": as the file looks. A row of JSONL or Parquet is always one."""
    text: str | None = None
    """The key of JSONL, or the column of Parquet, that holds the text."""
    most: int | None = None
    """Number of characters to read, from the beginning."""

    @property
    def table(self) -> str | None:
        """Its format, if its documents are rows of a table."""
        name = self.path.name.lower().removesuffix(".gz")
        return next((kind for ending, kind in _TABLES.items() if name.endswith(ending)), None)


def read_documents(source: Source, empty_rows: bool = False) -> Iterator[str]:
    """Yield the text of each document in the order of the file, without empty ones. With `empty_rows`, an empty row of
    a table is an empty text."""
    left = source.most
    if source.table:
        whole = (text if text.strip() else "" for text in _rows(source))
        parts = itertools.chain.from_iterable(_cut(text) if text or not empty_rows else ("",) for text in whole)
    else:
        parts = itertools.chain.from_iterable(map(_cut, _between(source, find_separator(source))))
    for text in parts:
        yield text[:left]
        if left is not None:
            left -= len(text)
            if left <= 0:
                return


def find_separator(source: Source) -> str:
    """Return what separates the documents of a file of lines."""
    if source.separator != "auto":
        return source.separator
    seen, texts, empty = 0, 0, 0
    for line in _lines(source.path):
        stripped = line.strip()
        if stripped in MARKERS:
            return stripped
        seen, texts, empty = seen + len(line), texts + bool(stripped), empty + (not stripped)
        if seen > _LOOKED_AT:
            break
    return "blank-line" if empty and texts > empty else "line"


def _lines(path: Path) -> Iterator[str]:
    name = shlex.quote(str(path))
    fold = f"zcat {name} | fold -s" if path.suffix == ".gz" else f"fold -s {name}"
    read = _in_words_of_corpora(path, disk.read_lines(path), f"break it, as {fold} does")
    return (line for _, line in read)


def _in_words_of_corpora(path: Path, read: Iterator[_Read], remedy: str) -> Iterator[_Read]:
    """Yield the same lines, but do not call a line that is too long a broken table."""
    try:
        yield from read
    except storage_lines.LongLineError as error:
        raise RequestError(
            f"{path}, line {error.number}, is longer than {storage_lines.LONGEST // 2**20} MB, and a corpus is read "
            f"line by line; {remedy}."
        ) from None


def _between(source: Source, separator: str) -> Iterator[str]:
    """Yield the documents between separators, each as its lines with \\n between them."""
    lines: list[str] = []
    size, seen = 0, separator in ("line", "blank-line", "file")
    for raw in _lines(source.path):
        line = raw.rstrip("\r\n")
        ends = (not line.strip() if separator == "blank-line" else line.strip() == separator) and separator != "file"
        seen |= ends
        if separator == "line":
            yield line
        elif ends or size > LONGEST:
            yield "\n".join(lines)
            lines, size = [], 0
        if not ends and separator != "line":
            lines.append(line)
            size += len(line) + 1
    if not seen:
        raise RequestError(
            f"{source.path}: no line of it is just {separator!r}, which should separate its documents; choose line, "
            "blank-line or file."
        )
    yield "\n".join(lines)


def _rows(source: Source) -> Iterator[str]:
    path, number = source.path, 0
    if source.table == "parquet":
        columns, rows = open_parquet(path)
        column = _column(source, columns)
        yield from (_text(row[column], path, f"row {number}") for number, row in enumerate(rows, 1))
        return
    column = ""
    for number, row in _in_words_of_corpora(path, read_jsonl(path), "divide its text among several"):
        if isinstance(row, str):
            raise RequestError(f"{path}, line {number}, {row}; correct it or take it out.")
        column = column or _column(source, list(row))
        if column not in row:
            raise RequestError(f"{path}, line {number}, has no {column!r}; correct it or take it out.")
        yield _text(row[column], path, f"line {number}")


def _column(source: Source, columns: list[str]) -> str:
    wanted = source.text or "text"
    if wanted not in columns:
        raise missing_column(source.path, wanted, columns)
    return wanted


def _text(value: Any, path: Path, place: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise RequestError(f"{path}, {place}: the text is not a string but {type(value).__name__}; correct it.")
    return value


def _cut(text: str) -> Iterator[str]:
    """Cut a document into parts of at most LONGEST characters, at the end of a line where there is one."""
    while len(text) > LONGEST:
        end = text.rfind("\n", LONGEST // 2, LONGEST) + 1 or LONGEST
        yield text[:end]
        text = text[end:]
    if text.strip():
        yield text


def all_documents(sources: list[Source]) -> Iterator[str]:
    return itertools.chain.from_iterable(read_documents(source) for source in sources)


def refuse_no_text(sources: list[Source]) -> None:
    if next(all_documents(sources), None) is None:
        names = ", ".join(source.called for source in sources)
        raise RequestError(f"{names}: contains no text to train on. Name a file with text.")
