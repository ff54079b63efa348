"""JSON Lines: one object to a line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from heedful.data.disk import read_lines
from heedful.errors import RequestError


def read_jsonl(path: Path) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """Yield each line's number and object, or instead of the object why the line cannot be read."""
    for number, line in read_lines(path):
        stripped = line.strip()
        if not stripped:
            continue
        if number == 1 and stripped.startswith("["):
            raise RequestError(
                f"{path} is one JSON list, not an object to a line; convert it: jq -c '.[]' {path.name} > rows.jsonl"
            )
        yield number, _object(stripped)


def _object(line: str) -> dict[str, Any] | str:
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        return f"is not JSON ({error.msg}, column {error.colno})"
    except (RecursionError, ValueError):  # nested too deeply; an integer of more digits than Python reads
        return "is JSON that is nested too deeply or has a number that is too long"
    if not isinstance(value, dict):
        return f"holds a JSON {type(value).__name__}, not an object"
    return value
