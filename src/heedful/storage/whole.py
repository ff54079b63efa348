"""Files that appear whole or not at all: a crash leaves the old one or the new one, never a part."""

import contextlib
import io
import json
import os
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from heedful.errors import WorkError

_LEFTOVER = 3600  # seconds after which an unfinished file is nobody's any more


@contextlib.contextmanager
def open_whole(path: Path) -> Iterator[BinaryIO]:
    """What is written inside takes the place of whatever file was there at the end; the folder must exist."""
    _remove_leftovers(path)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o666 & ~umask())  # mkstemp writes for the owner alone
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_bytes(path: Path, content: bytes) -> None:
    with open_whole(path) as file:
        file.write(content)


@contextlib.contextmanager
def open_output(path: Path) -> Iterator[TextIO]:
    """The same for text that a user asked for; a disk that is full is one sentence."""
    try:
        with open_whole(path) as binary:
            text = io.TextIOWrapper(binary, encoding="utf-8", newline="")
            yield text
            text.flush()
            text.detach()
    except OSError as error:
        raise WorkError(f"{path}: could not be written ({error.strerror}); nothing was left behind.") from None


def write_text(path: Path, content: str) -> None:
    write_bytes(path, content.encode("utf-8"))


def write_json(path: Path, content: Any) -> None:
    """Indented, in UTF-8. NaN and infinity are not JSON: a ValueError, and the old file stays."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def _remove_leftovers(path: Path) -> None:
    """Of writers that were killed; a young one may belong to a writer that is still at work."""
    ours = re.compile(rf"\.{re.escape(path.name)}\.[a-z0-9_]{{8}}\.part")
    for leftover in [p for p in path.parent.iterdir() if ours.fullmatch(p.name)]:
        with contextlib.suppress(OSError):
            if time.time() - leftover.stat().st_mtime > _LEFTOVER:
                leftover.unlink()


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
