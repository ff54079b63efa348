"""Where public sets of pairs are: folders of HEEDFUL_DATA."""

from collections.abc import Sequence
from pathlib import Path

from heedful.data.files import Row, read_rows
from heedful.data.named import data_folder
from heedful.errors import RequestError


def public_files(name: str, files: Sequence[str]) -> list[Path]:
    folder = data_folder()
    paths = [] if folder is None else [folder / name / file for file in files]
    missing = next((path for path in paths if not path.is_file()), None)
    if folder is None or missing is not None:
        looked = "HEEDFUL_DATA is not set" if missing is None else f"there is no {missing}"
        wanted = f"{name}/{files[0]}" if len(files) == 1 else f"{name}/ with {', '.join(files)}"
        raise RequestError(f"{name} is not here ({looked}); set HEEDFUL_DATA to a folder that has {wanted}.")
    return paths


def public_rows(name: str, file: str, text: str, pair: str | None = None) -> tuple[Path, list[Row]]:
    (path,) = public_files(name, [file])
    rows = list(read_rows(path, text, pair))
    if not rows:
        raise RequestError(f"{path} has no rows; fetch it again.")
    return path, rows


def cell(path: Path, row: Row, column: str) -> str:
    """What stands in a further column; it may be empty, but it must be there."""
    value = row.raw.get(column)
    if not isinstance(value, str):
        raise RequestError(f"{path}, line {row.line}, has no {column!r}; fetch the file again.")
    return value
