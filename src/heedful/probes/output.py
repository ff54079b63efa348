"""Where the answer to a probe is written: a directory of its own, replaced by the answer to the same request alone."""

import itertools
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from heedful.errors import RequestError
from heedful.storage.directories import refuse_strangers
from heedful.storage.reading import read_object


class Layout(NamedTuple):
    """What a probe leaves."""

    facts: str
    """The file with the request and what was found."""
    files: frozenset[str]
    folders: frozenset[str]
    pictures: str
    """A pattern that the names of the files in report/ match."""


def free_place(probe: str, model: str, layout: Layout, wanted: Mapping[str, Any]) -> Path:
    """runs/PROBE-NAME, or the first of runs/PROBE-NAME-2, … that holds the answer to the same request or is free."""
    first = Path("runs") / f"{probe}-{Path(model).expanduser().absolute().name}"
    for number in itertools.count(1):
        place = first if number == 1 else first.with_name(f"{first.name}-{number}")
        if not place.exists():
            break
        try:
            if read_object(place / layout.facts).get("request") == wanted:
                break
        except RequestError:  # somebody else's
            continue
    return place


def check_place(place: Path, layout: Layout, request: Mapping[str, Any]) -> dict[str, Any]:
    """Refuse a directory unless it contains only the results of the same request. Return the earlier results, or {}."""
    refuse_strangers(place, layout.files, layout.folders)
    if not place.exists() or not any(place.iterdir()):
        return {}
    path = place / layout.facts
    stored = read_object(path, "choose another directory") if path.is_file() else {}
    if stored.get("request") != request:
        raise RequestError(f"{place}: contains the results of a different probe. Choose another directory.")
    refuse_files(p for p in (place / "report").glob("*") if not re.fullmatch(layout.pictures, p.name))
    return stored


def refuse_files(not_ours: Iterable[Path]) -> None:
    first = next(iter(not_ours), None)
    if first is not None:
        raise RequestError(f"{first}: is not heedful's and would be lost. Choose another directory.")
