"""Reading the files of a tokenizer: an error is one sentence that names the file."""

import json
from pathlib import Path
from typing import Any

from heedful.errors import RequestError
from heedful.storage import lines as storage_lines

LARGEST = 256 * 2**20
"""Bytes; the largest vocabularies in use are a tenth of this."""


def read_bytes(path: Path) -> bytes:
    _check_size(path)
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from None


def read_text(path: Path) -> str:
    content = read_bytes(path)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise RequestError(f"{path}, line {line}, is not UTF-8 text; fetch the file again, or re-encode it.") from None
    if not text.strip():
        raise _empty(path)
    return text


def read_lines(path: Path) -> list[str]:
    """The lines without their ends (\\n, \\r\\n or \\r, as Python reads text); U+2028 ends none."""
    _check_size(path)
    text = "".join(line for _, line in storage_lines.read_lines(path))
    if not text.strip():
        raise _empty(path)
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines


def _check_size(path: Path) -> None:
    try:
        size = path.stat().st_size
    except OSError as error:
        raise _unreadable(path, error) from None
    if size > LARGEST:
        raise RequestError(f"{path} has {size:,} bytes, too many for a tokenizer; give a file below {LARGEST:,}.")


def _unreadable(path: Path, error: OSError) -> RequestError:
    return RequestError(f"{path} cannot be read ({error.strerror or error}); check the path and its rights.")


def _empty(path: Path) -> RequestError:
    return RequestError(f"{path} is empty; fetch the file again.")


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object; a key that occurs twice in one object is refused, since either value may be the meant one."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) < len(pairs):
            seen: set[str] = set()
            repeated = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            raise RequestError(f"{path} has the key {repeated!r} twice; remove one of them.")
        return result

    text = read_text(path)
    try:
        content = json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        place = f"{path}, line {error.lineno}, column {error.colno}"
        raise RequestError(f"{place}: this is not JSON ({error.msg}); fetch the file again.") from None
    except RecursionError:
        raise RequestError(f"{path} is nested too deeply for a tokenizer's file; fetch the file again.") from None
    except ValueError as error:  # an integer of more digits than Python reads
        raise RequestError(f"{path} cannot be read as JSON ({error}); fetch the file again.") from None
    if not isinstance(content, dict):
        raise RequestError(f"{path} holds a JSON {type(content).__name__}, not an object; fetch the file again.")
    return content
