"""JSON read back with clear refusals."""

import json
from pathlib import Path
from typing import Any

from heedful.errors import RequestError

REMEDY = "restore it or run again"


def read_object(path: Path, remedy: str = REMEDY) -> dict[str, Any]:
    """A file that holds one JSON object; anything else is refused in a sentence that names it and what to do."""
    content = _parse(_read_text(path, remedy), str(path), remedy)
    if not isinstance(content, dict):
        raise RequestError(f"{path} must hold a JSON object, not {type(content).__name__}; {remedy}.")
    return content


def read_lines(path: Path, remedy: str = REMEDY) -> list[dict[str, Any]]:
    """Every whole line of a .jsonl file; the last may be torn, since a run can be killed while it writes. Empty if
    there is no such file."""
    if not path.exists():
        return []
    objects = []
    lines = _read_text(path, remedy).split("\n")
    for i, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            content = _parse(line, f"{path}, line {i}", remedy)
        except RequestError:
            if i == len(lines):
                break
            raise
        if isinstance(content, dict):
            objects.append(content)
    return objects


def _read_text(path: Path, remedy: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise RequestError(
            f"{path} cannot be read ({error.strerror or error}); check the path and its rights."
        ) from None
    except UnicodeDecodeError:
        raise RequestError(f"{path} is damaged (not UTF-8 text); {remedy}.") from None


def _parse(text: str, place: str, remedy: str) -> Any:
    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    try:
        return json.loads(text, parse_constant=refuse)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise RequestError(f"{place} is damaged ({error.msg}, {where}); {remedy}.") from None
    except (ValueError, RecursionError) as error:
        raise RequestError(f"{place} is damaged ({error}); {remedy}.") from None
