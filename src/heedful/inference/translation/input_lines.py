"""Lines as they arrive from a file or a pipe, plain or gzipped, in UTF-8 or UTF-16; window by window, in constant
memory. Does not wait for torch."""

import codecs
import gzip
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from heedful.errors import RequestError

WINDOW = 1024
"""Lines that are translated together, so that memory does not grow with the file."""
_LONGEST = 1 << 19  # bytes of a line; no sentence has so many
_CHUNK = 1 << 16
_GZIP = b"\x1f\x8b"
_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_UTF32 = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)

Windows = Iterator[list[bytes | None]]
"""Lines in UTF-8 without their ends; None for one that is too long to be kept."""


def lines_of_file(path: Path) -> Windows:
    """As many together as a window holds."""
    try:
        with path.open("rb") as plain:
            zipped = plain.read(2) == _GZIP or path.suffix.lower() == ".gz"
            plain.seek(0)
            if not zipped:
                yield from _windows(_in_utf8(lambda: plain.read(_CHUNK), str(path)), gather=True)
                return
            with gzip.open(plain) as stream:
                yield from _windows(_in_utf8(lambda: stream.read(_CHUNK), str(path)), gather=True)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise RequestError(f"{path} is not whole gzip data ({error}); compress or fetch it again.") from None
    except OSError as error:
        raise RequestError(f"{path}: cannot be read ({error.strerror}); check the disk, or copy it anew.") from None


def lines_of_pipe(handle: int, name: str = "the standard input") -> Windows:
    """What has come so far together: it is answered at once."""
    yield from _windows(_in_utf8(lambda: os.read(handle, _CHUNK), name, piped=True), gather=False)


def _in_utf8(read: Callable[[], bytes], name: str, piped: bool = False) -> Iterator[bytes]:
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
    decoder, lines = codecs.getincrementaldecoder(encoding)(), 1
    chunk = start[2:]
    try:
        while chunk:
            text = decoder.decode(chunk)
            lines += text.count("\n")
            yield text.encode()
            chunk = read()
        decoder.decode(b"", final=True)
    except UnicodeError:
        raise RequestError(
            f"{name}, after about line {lines}, is not the UTF-16 that its first bytes promise; save it as UTF-8."
        ) from None


def _windows(chunks: Iterator[bytes], gather: bool) -> Windows:
    window: list[bytes | None] = []
    rest, dropped = b"", False
    for chunk in chunks:
        *pieces, tail = chunk.split(b"\n")
        for piece in pieces:
            whole = not dropped and len(rest) + len(piece) <= _LONGEST
            window.append(rest + piece if whole else None)
            rest, dropped = b"", False
            if len(window) == WINDOW:
                yield window
                window = []
        if not dropped:
            rest += tail
            if len(rest) > _LONGEST:
                rest, dropped = b"", True
        if window and not gather:
            yield window
            window = []
    if rest or dropped:
        window.append(None if dropped else rest)
    if window:
        yield window
