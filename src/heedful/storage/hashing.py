"""SHA-256 of texts, files and directories. Runs on disk are resumed by these values: they may not change."""

import hashlib
import json
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from heedful.errors import RequestError
from heedful.storage.memory import FileMemory

_of_files = FileMemory[str](4096)


def sha256_of(parts: Iterable[str | bytes | memoryview]) -> str:
    """Return the hash of all parts one after another, texts in UTF-8."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode() if isinstance(part, str) else part)
    return digest.hexdigest()


def sha256_of_json(value: Any, *, sort_keys: bool = False) -> str:
    return sha256_of([json.dumps(value, sort_keys=sort_keys)])


def sha256_of_rows(rows: Iterable[Any]) -> str:
    """Return the hash of values, each as a line of JSON. It escapes what is not ASCII, so that lone surrogates do not
    stop it."""
    return sha256_of(json.dumps(row) + "\n" for row in rows)


def sha256_of_file(path: Path) -> str:
    """Return the hash of a file's bytes, which are read once in a process unless they change."""
    try:
        return _of_files.get([path], None, lambda: _read(path))
    except OSError as error:
        raise RequestError(f"{path} cannot be read ({error.strerror}); check the path and its rights.") from None


def _read(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def short_hash(text: str) -> int:
    """Return a whole number below 2⁶⁴."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def lines_of_files(directory: Path, suffixes: Collection[str]) -> Iterable[str]:
    """Yield the name and hash of each file in a directory that ends in one of these, as lines in the order of names."""
    for path in sorted(directory.iterdir()):
        if path.is_file() and path.suffix in suffixes:
            yield f"{path.name} {sha256_of_file(path)}\n"
