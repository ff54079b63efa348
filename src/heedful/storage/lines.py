"""Lines of text from files and pipes: plain or gzipped, UTF-8 or UTF-16, each of limited length, in constant memory."""

import codecs
import gzip
import io
import shlex
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO, cast

from heedful.errors import RequestError
from heedful.storage.memory import FileMemory

LONGEST = 64 * 2**20
"""Bytes in one line; more is a sign of a broken file, and would fill the memory."""
STANDARD_INPUT = "standard input"
_CHUNK = 1 << 16
_MOST_AT_ONCE = 4 * 2**20
"""Bytes after which a window of lines is full, so that long lines do not fill the memory together."""
_GZIP = b"\x1f\x8b"
_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_UTF32 = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
_SMALL = 4 * 2**20
"""Bytes of a file that is read once and remembered; a larger one is read anew each time, in constant memory."""
_contents = FileMemory[bytes | None](4)

Lines = list[bytes | None]
"""Lines in UTF-8 with their ends; None for one that is too long to be kept."""


class LongLineError(RequestError):
    """In the words of a table; `number` is the line's."""

    def __init__(self, name: object, number: int) -> None:
        self.number = number
        super().__init__(
            f"{name}, line {number}, is longer than {LONGEST // 2**20} MB; this is not a file of rows, or its line "
            "ends are lost: save it again."
        )


def encoding_of(path: Path) -> str:
    """ "utf-8", "utf-8-sig" (with a byte order mark) or "utf-16", by the first bytes alone."""
    with _readable(path), _open(path) as stream:
        start = stream.read(4)
    if start[:2] in _UTF16 and start not in _UTF32:
        return "utf-16"
    return "utf-8-sig" if start.startswith(codecs.BOM_UTF8) else "utf-8"


def read_lines(path: Path, *, nul: bool = False) -> Iterator[tuple[int, str]]:
    """Each line with its number from 1 and its end (\\n, \\r\\n, or \\r if the file has no \\n). `nul`: NUL characters
    are text like any others."""
    number = 0
    with _readable(path), _open(path) as stream:
        for lines in _batches(lambda: stream.read(_CHUNK), str(path)):
            for line in lines:
                number += 1
                text = decoded(line, path, number)
                if "\0" in text and not nul:
                    raise RequestError(
                        f"{path}, line {number}, has a NUL byte: it is not a text file, or UTF-16 without its mark; "
                        "save it as UTF-8 text."
                    )
                yield number, text


def windows_of_file(path: Path, most: int) -> Iterator[Lines]:
    """Up to `most` lines at a time, as many as there are."""
    window: Lines = []
    size = 0
    with _readable(path), _open_anew(path) as stream:
        for lines in _batches(lambda: stream.read(_CHUNK), str(path)):
            for line in lines:
                window.append(line)
                size += len(line or b"")
                if len(window) == most or size > _MOST_AT_ONCE:
                    yield window
                    window, size = [], 0
    if window:
        yield window


def windows_of_pipe(stream: BinaryIO, most: int, name: str = STANDARD_INPUT) -> Iterator[Lines]:
    """What has come so far, up to `most` lines at a time, so that it can be answered at once."""
    read_some = cast("io.BufferedReader", stream).read1
    for lines in _batches(lambda: read_some(_CHUNK), name, piped=True):
        for start in range(0, len(lines), most):
            yield lines[start : start + most]


def decoded(line: bytes | None, name: Path | str, number: int) -> str:
    """The text of a line; what is wrong with it is said with its number."""
    if line is None:
        raise LongLineError(name, number)
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _not_utf8(name, number, line, error) from None


def _batches(read: Callable[[], bytes], name: str, piped: bool = False) -> Iterator[Lines]:
    """The lines that each chunk completes. One that is too long is None as soon as that is seen."""
    parts: list[bytes] = []
    size, skipping, seen = 0, False, False
    for chunk in _in_utf8(read, name, piped):
        *ended, tail = chunk.split(b"\n")
        lines: Lines = [line + b"\n" for line in ended]
        if lines:
            seen = True
            first = b"".join([*parts, ended[0], b"\n"])
            lines[:1] = [] if skipping else [first if len(first) <= LONGEST else None]
            parts, size, skipping = [], 0, False
        if not skipping:
            parts.append(tail)
            size += len(tail)
            if size > LONGEST:
                lines.append(None)
                parts, skipping = [], True
        if lines:
            yield lines
    rest = b"".join(parts)
    if rest:
        # In a file without \n, lines end in \r alone; bytes, unlike str, split at no other character.
        yield list(rest.splitlines(keepends=True)) if not seen else [rest]


def _in_utf8(read: Callable[[], bytes], name: str, piped: bool) -> Iterable[bytes]:
    """Chunks without a byte order mark; what is UTF-16 by its mark becomes UTF-8."""
    start = read()
    while 0 < len(start) < 4 and start[:1] in (b"\xff", b"\xfe", b"\x00", b"\xef", b"\x1f"):  # part of a mark
        if not (more := read()):
            break
        start += more
    if piped and start.startswith(_GZIP):
        raise RequestError(f"{name} is gzip data; send it through zcat, or name the file.")
    if start.startswith(_UTF32):
        raise RequestError(f"{name} is UTF-32; save it as UTF-8.")
    encoding = _UTF16.get(start[:2])
    if encoding is None:
        yield start.removeprefix(codecs.BOM_UTF8)
        yield from iter(read, b"")
        return
    decoder, number = codecs.getincrementaldecoder(encoding)(), 1
    chunk = start[2:]
    try:
        while chunk:
            text = decoder.decode(chunk)
            number += text.count("\n")
            yield text.encode()
            chunk = read()
        decoder.decode(b"", final=True)
    except UnicodeError:
        raise RequestError(
            f"{name}, after about line {number}, is not the UTF-16 that its first bytes promise; save it as UTF-8."
        ) from None


def _not_utf8(name: Path | str, number: int, line: bytes, error: UnicodeDecodeError) -> RequestError:
    byte = line[error.start]
    remedy = "save the file as UTF-8" if isinstance(name, Path) else "convert it"
    try:
        meant = f", which Windows-1252 reads as {bytes([byte]).decode('cp1252')!r}"
    except UnicodeDecodeError:
        meant = ""
    if meant and isinstance(name, Path):
        quoted, iconv = shlex.quote(str(name)), "iconv -f WINDOWS-1252 -t UTF-8"
        with name.open("rb") as plain:
            command = f"zcat {quoted} | {iconv}" if _is_packed(name, plain) else f"{iconv} {quoted}"
        remedy = f"if that looks right: {command}"
    return RequestError(f"{name}, line {number}, is not UTF-8 (byte 0x{byte:02X}{meant}); {remedy}.")


@contextmanager
def _open(path: Path) -> Iterator[IO[bytes]]:
    content = _content(path)
    if content is None:
        with _open_anew(path) as stream:
            yield stream
    else:
        yield io.BytesIO(content)


def _content(path: Path) -> bytes | None:
    """Return the unpacked bytes of a small file; None if it must be streamed, which also says what is wrong with it."""
    if not path.is_file() or path.stat().st_size > _SMALL:
        return None
    try:
        return _contents.get([path], None, lambda: _read_small(path))
    except (OSError, EOFError, zlib.error):
        return None


def _read_small(path: Path) -> bytes | None:
    with _open_anew(path) as stream:
        content = stream.read(_SMALL + 1)
    return content if len(content) <= _SMALL else None


@contextmanager
def _open_anew(path: Path) -> Iterator[IO[bytes]]:
    with path.open("rb") as plain:
        yield cast("IO[bytes]", gzip.GzipFile(fileobj=plain)) if _is_packed(path, plain) else plain


def _is_packed(path: Path, plain: io.BufferedReader) -> bool:
    """By its name, or by its first bytes."""
    return path.suffix.lower() == ".gz" or plain.peek(2)[:2] == _GZIP


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn what goes wrong in reading into a sentence that names the file."""
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise RequestError(f"{path} is not whole gzip data ({error}); compress or fetch it again.") from None
    except FileNotFoundError:
        raise RequestError(f"{path} does not exist; check the path.") from None
    except IsADirectoryError:
        raise RequestError(f"{path} is a folder; name a file in it.") from None
    except OSError as error:
        reason = error.strerror or error
        raise RequestError(f"{path} cannot be read ({reason}); check the path and its rights.") from None
