"""One line for each example: the values that metrics are made of, the predictions of a run, the gold of a study.

Everything has the number of its row, by which files of several runs are matched: never by their order.
"""

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heedful.errors import RequestError
from heedful.storage.reading import read_lines, read_object
from heedful.storage.whole import write_json, write_text

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

_FINGERPRINTS = "fingerprints.json"


def write_values(path: Path, rows: Sequence[int], columns: "Mapping[str, npt.ArrayLike]") -> None:
    """values/<set>.tsv: a header of `row` and the names of the columns, then a line for each example. Floats are
    written so that they come back to the bit."""
    import numpy as np

    arrays = {name: np.asarray(column, dtype=np.float64) for name, column in columns.items()}
    if "row" in arrays or any(array.shape != (len(rows),) for array in arrays.values()):
        raise ValueError(f"each column needs one number for each of the {len(rows)} rows, and none is called row")
    write_lines(path, ["row", *arrays], zip(rows, *(map(repr, a.tolist()) for a in arrays.values()), strict=True))


def read_values(path: Path) -> "tuple[list[int], dict[str, Floats]]":
    """The row numbers, and each column by its name."""
    import numpy as np

    rows, columns = read_predictions(path)
    try:
        return rows, {name: np.array(column, dtype=np.float64) for name, column in columns.items()}
    except ValueError as error:
        raise _damaged(path, error) from None


def read_predictions(path: Path) -> tuple[list[int], dict[str, list[str]]]:
    """The row numbers of predictions/<set>.tsv, and the other columns as the text that they are."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.reader(file, "excel-tab", strict=True)
            header = next(reader, [])
            if not header or header[0] != "row" or len(set(header)) != len(header):
                raise ValueError("its first line must name the columns, row first")
            lines = list(reader)
            if any(len(line) != len(header) for line in lines):
                raise ValueError("a line has more or fewer columns than the first")
        cells = list(zip(*lines, strict=True)) if lines else [()] * len(header)
        return [int(row) for row in cells[0]], {n: list(c) for n, c in zip(header[1:], cells[1:], strict=True)}
    except (OSError, ValueError, csv.Error) as error:
        raise _damaged(path, error) from None


def write_examples(folder: Path, name: str, lines: Iterable[Mapping[str, Any]], fingerprint: str | None) -> None:
    """<set>.jsonl in the folder of a study: row, gold, text and pair of each example, and whose rows these are."""
    folder.mkdir(exist_ok=True)
    write_text(folder / f"{name}.jsonl", "".join(json.dumps(dict(line)) + "\n" for line in lines))
    known = read_object(folder / _FINGERPRINTS) if (folder / _FINGERPRINTS).exists() else {}
    write_json(folder / _FINGERPRINTS, {**known, name: fingerprint})


def read_examples(folder: Path, name: str, fingerprint: str | None) -> list[dict[str, Any]]:
    """What was written there, if it is about the rows with this fingerprint; else nothing, rather than the gold and
    the text of other rows."""
    path = folder / _FINGERPRINTS
    known = read_object(path).get(name) if path.exists() else None
    if known is not None and fingerprint is not None and known != fingerprint:
        return []
    return [line for line in read_lines(folder / f"{name}.jsonl") if "row" in line]


def row_keys(rows: Iterable[int]) -> list[tuple[int, int]]:
    """A key for each example: its row, and how many before it had the same one (a set may come from several files)."""
    seen: dict[int, int] = {}
    keys = []
    for row in rows:
        seen[row] = seen.get(row, -1) + 1
        keys.append((row, seen[row]))
    return keys


def places_of(rows: Sequence[int], wanted: Sequence[int]) -> list[int] | None:
    """Where each of the wanted rows stands among `rows`; None if the two are not the same rows."""
    at = {key: place for place, key in enumerate(row_keys(rows))}
    keys = row_keys(wanted)
    return [at[key] for key in keys] if len(at) == len(keys) and all(key in at for key in keys) else None


def write_lines(path: Path, header: Sequence[str], lines: Iterable[Sequence[Any]]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, "excel-tab", lineterminator="\n")
    writer.writerow(header)
    writer.writerows(lines)
    write_text(path, text.getvalue())


def _damaged(path: Path, error: Exception) -> RequestError:
    reason = getattr(error, "strerror", None) or error
    return RequestError(f"{path} cannot be read ({reason}); remove the directory of this run, and run again.")
