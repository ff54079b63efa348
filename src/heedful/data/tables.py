"""Parquet, through pyarrow, in batches."""

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from heedful.data.disk import require_file
from heedful.errors import RequestError


def open_parquet(path: Path) -> tuple[list[str], Iterator[dict[str, Any]]]:
    """Return the column names, and the rows as dictionaries. Memory holds one batch."""
    require_file(path)
    try:
        pyarrow: Any = importlib.import_module("pyarrow")
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise RequestError(f"{path}: Parquet needs pyarrow; install it: pip install 'heedful[hub]'") from None
    try:
        parquet_file: Any = parquet.ParquetFile(path, memory_map=False)
    except (pyarrow.ArrowException, OSError) as error:
        raise _parquet_error(path, error) from None
    names = list(parquet_file.schema_arrow.names)
    for name in names:
        if names.count(name) > 1:
            raise RequestError(f"{path} has two columns {name!r}; rename one of them.")
    return names, _rows(path, parquet_file, pyarrow.ArrowException)


def _rows(path: Path, parquet_file: Any, failure: type[Exception]) -> Iterator[dict[str, Any]]:
    try:
        for batch in parquet_file.iter_batches(batch_size=1024):
            yield from batch.to_pylist()
    except (failure, OSError, UnicodeDecodeError) as error:
        raise _parquet_error(path, error) from None


def _parquet_error(path: Path, error: Exception) -> RequestError:
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    return RequestError(f"{path} cannot be read as Parquet ({reason.rstrip('.')}); write or fetch it again.")
