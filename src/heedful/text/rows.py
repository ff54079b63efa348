"""What a caller passes as texts, as a list: columns of any library are read, tables are refused."""

from collections.abc import Iterable, Mapping, MappingView, Set
from typing import Any

import numpy as np

from heedful.errors import RequestError
from heedful.text.tokenizer import why_no_texts

_SHOWN = 5  # columns in a message


def list_texts(given: Any, verb: str, noun: str = "texts", pairs: bool = True) -> list[Any]:
    """Return a list of texts and pairs of texts (only texts without `pairs`), or refuse what is not one.

    A column (pandas, polars, Arrow, NumPy) is a list of texts. A table is not: iterating it gives the names of its
    columns. `verb` is the method that the caller used, `noun` what it calls the texts.
    """
    columns = _columns(given)
    if columns is not None:
        raise RequestError(_why_no_table(columns, verb, noun))
    if isinstance(given, np.ndarray):
        if given.ndim > 2 or (given.ndim == 2 and given.shape[1] != 2):
            one = f" Pass one column, as in {verb}(array[:, 0])." if given.ndim == 2 else ""
            raise RequestError(f"{verb} was given an array of shape {given.shape}, not a list of {noun}.{one}")
        given = given.tolist()  # a string where the array has no dimension
    elif hasattr(type(given), "to_pylist"):  # Arrow's own strings are not str
        given = given.to_pylist()
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise RequestError(f"{verb} takes a list of {noun}; put the one {noun.removesuffix('s')} in a list.")
    if isinstance(given, Set) and not isinstance(given, MappingView):
        raise RequestError(f"{verb} takes a list of {noun}, and a set has no order; make it a list.")
    rows = list(given)
    names = getattr(given, "columns", None)  # of the object itself, and iterating gives their names
    if isinstance(names, Iterable) and not isinstance(names, str) and rows and list(names) == rows:
        raise RequestError(_why_no_table(rows, verb, noun))
    if reason := why_no_texts(rows):
        raise RequestError(reason)
    for i, row in enumerate(rows):
        if not pairs and not isinstance(row, str):
            raise RequestError(f"Row {i} of the {noun} is a pair of texts. Pass one string.")
    return rows


def _columns(given: Any) -> list[Any] | None:
    """The names of a table's columns, or None. Attributes count only on the class: a pandas Series has any label of its
    index as an attribute."""
    if isinstance(given, Mapping):
        return list(given)
    if isinstance(given, np.ndarray):
        return None if given.dtype.names is None else list(given.dtype.names)
    if hasattr(type(given), "collect_schema"):  # polars, without its warning for lazy frames
        return list(given.collect_schema().names())
    for attribute in ("column_names", "columns"):  # Arrow and Datasets; pandas, Spark, DuckDB and others
        if hasattr(type(given), attribute):
            return list(getattr(given, attribute))
    return None


def _why_no_table(columns: list[Any], verb: str, noun: str) -> str:
    names = [f'"{name}"' if isinstance(name, str) else repr(name) for name in columns]
    listed = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
    if not names:
        return f"{verb} was given a table without columns, not a list of {noun}."
    example = '"text"' if "text" in columns else names[0]
    counted = "the column" if len(names) == 1 else "the columns"
    return (
        f"{verb} was given a table with {counted} {listed}, not a list of {noun}. "
        f"Pass one column, as in {verb}(df[{example}])."
    )
