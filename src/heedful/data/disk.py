"""Bytes of a text file to numbered lines: compression, encoding, and what is wrong said with its line."""

import codecs
import errno
import gzip
import io
import shlex
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, cast

from heedful.errors import RequestError
from heedful.storage.memory import FileMemory

LONGEST = 64 * 2**20
"""Bytes in one line, and characters in one field; more is a sign of a broken file, and would fill the memory."""
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_SMALL = 16 * 2**20
"""Bytes of a file that is read once and remembered; a larger one is read anew each time, in constant memory."""
_contents = FileMemory[bytes | None](4)


class LongLineError(RequestError):
    """In the words of a table; `number` is the line's."""

    def __init__(self, path: Path, number: int) -> None:
        self.number = number
        super().__init__(
            f"{path}, line {number}, is longer than {LONGEST // 2**20} MB; this is not a file of rows, or its line "
            "ends are lost: save it again."
        )


def require_file(path: Path) -> None:
    """Stop at what cannot be a data file, before anything is read."""
    try:
        is_folder, exists = path.is_dir(), path.exists()
        size = path.stat().st_size if exists else 0
    except OSError as error:
        raise _unreadable(path, error) from None
    if is_folder:
        raise RequestError(f"{path} is a folder; name a data file in it.")
    if not exists:
        raise RequestError(f"{path} does not exist; check the path.")
    if path.is_file() and size == 0:
        raise RequestError(f"{path} is empty; it needs rows of data.")


def exists(path: Path) -> bool:
    """As the path's own, but in words where it cannot be told; a name that is too long is nobody's."""
    return _asked(path, Path.exists)


def is_file(path: Path) -> bool:
    """The same."""
    return _asked(path, Path.is_file)


def _asked(path: Path, question: Callable[[Path], bool]) -> bool:
    try:
        return question(path)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return False
        raise _unreadable(path, error) from None


def expanded(name: str, key: str) -> Path:
    """With ~ replaced; `key`: where the user has written it."""
    try:
        return Path(name).expanduser()
    except RuntimeError:
        raise RequestError(f"{key} = {name!r}: there is no home of such a user; write the whole path.") from None


def encoding_of(path: Path) -> str:
    """ "utf-8", "utf-8-sig" (with a byte order mark) or "utf-16", by the first bytes alone."""
    with _open(path) as stream:
        start = _read(path, stream, 4)
    if start.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        raise RequestError(f"{path} is UTF-32; save it as UTF-8.")
    if start.startswith(_UTF16):
        return "utf-16"
    return "utf-8-sig" if start.startswith(codecs.BOM_UTF8) else "utf-8"


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Each line with its number from 1 and its end (\\n, \\r\\n, or \\r if the file has no \\n), in constant memory."""
    require_file(path)
    encoding = encoding_of(path)
    with _open(path) as stream:
        lines = _utf16_lines(path, stream) if encoding == "utf-16" else _utf8_lines(path, stream)
        for number, line in lines:
            if "\0" in line:
                raise RequestError(
                    f"{path}, line {number}, has a NUL byte: it is not a text file, or UTF-16 without its mark; "
                    "save it as UTF-8 text."
                )
            yield number, line


def _utf8_lines(path: Path, stream: IO[bytes]) -> Iterator[tuple[int, str]]:
    number = 0
    while raw := _readline(path, stream, number + 1):
        if number == 0:
            raw = raw.removeprefix(codecs.BOM_UTF8)
        # In a file without \n, lines end in \r alone and come joined; bytes, unlike str, split at no other character.
        parts = raw.splitlines(keepends=True) if number == 0 and not raw.endswith(b"\n") else [raw]
        for part in parts:
            number += 1
            try:
                yield number, part.decode("utf-8")
            except UnicodeDecodeError as error:
                raise _not_utf8(path, number, part, error) from None


def _utf16_lines(path: Path, stream: IO[bytes]) -> Iterator[tuple[int, str]]:
    number = 0
    text = io.TextIOWrapper(stream, encoding="utf-16", newline="\n")
    try:
        while line := text.readline(LONGEST + 1):
            if len(line) > LONGEST:
                raise LongLineError(path, number + 1)
            # As in UTF-8; a StringIO, unlike splitlines, splits at no other character.
            for part in io.StringIO(line, newline="") if number == 0 and not line.endswith("\n") else [line]:
                number += 1
                yield number, part
    except UnicodeError:
        raise RequestError(
            f"{path}, about line {number + 1}, is not the UTF-16 that the file's first bytes promise; save it as UTF-8."
        ) from None
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(path, error) from None


def _readline(path: Path, stream: IO[bytes], number: int) -> bytes:
    try:
        line = stream.readline(LONGEST + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(path, error) from None
    if len(line) > LONGEST:
        raise LongLineError(path, number)
    return line


def _not_utf8(path: Path, number: int, line: bytes, error: UnicodeDecodeError) -> RequestError:
    byte = line[error.start]
    try:
        meant = f", which Windows-1252 reads as {bytes([byte]).decode('cp1252')!r}"
        name, iconv = shlex.quote(str(path)), "iconv -f WINDOWS-1252 -t UTF-8"
        command = f"zcat {name} | {iconv}" if path.suffix.lower() == ".gz" else f"{iconv} {name}"
        remedy = f"if that looks right: {command}"
    except UnicodeDecodeError:
        meant, remedy = "", "save the file as UTF-8"
    return RequestError(f"{path}, line {number}, is not UTF-8 (byte 0x{byte:02X}{meant}); {remedy}.")


def _open(path: Path) -> IO[bytes]:
    try:
        content = _content(path)
        return _open_anew(path) if content is None else io.BytesIO(content)
    except OSError as error:
        raise _unreadable(path, error) from None


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
        content = stream.read(2 * _SMALL + 1)
    return content if len(content) <= 2 * _SMALL else None


def _open_anew(path: Path) -> IO[bytes]:
    if path.suffix.lower() == ".gz":
        return cast("IO[bytes]", gzip.open(path, "rb"))
    return path.open("rb")


def _read(path: Path, stream: IO[bytes], count: int) -> bytes:
    try:
        return stream.read(count)
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> RequestError:
    if isinstance(error, gzip.BadGzipFile | EOFError | zlib.error):
        return RequestError(f"{path} is not whole gzip data ({error}); compress or fetch it again.")
    reason = error.strerror if isinstance(error, OSError) and error.strerror else error
    return RequestError(f"{path} cannot be read ({reason}); check the path and its rights.")
