"""What a caller gives a model to read, checked."""

from collections.abc import Sequence
from typing import Any

from heedful.errors import RequestError
from heedful.text.rows import list_texts
from heedful.text.tokenizer import Text


def check_texts(given: Any, source: str, pairs: bool | None, verb: str = "predict") -> list[Text]:
    """Return what a method was given, as a list of texts and pairs; all of them pairs, or none, if the model knows
    which (`pairs`)."""
    rows: list[Text] = list_texts(given, verb)
    if pairs is not None and any(isinstance(row, str) == pairs for row in rows):
        one, other = ("pairs of texts", "pairs") if pairs else ("single texts", "no pairs")
        raise RequestError(f"{source}: was trained on {one}; give it {other}.")
    return rows


def check_batch_size(batch_size: Any) -> int:
    if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size < 1:
        raise RequestError(f"batch_size={batch_size!r} is not a whole number from 1.")
    return batch_size


def columns_of(rows: Sequence[Text]) -> tuple[list[str], list[str]]:
    """Return the texts, or the first of each pair; and the second of each pair."""
    first = [row if isinstance(row, str) else row[0] for row in rows]
    return first, [row[1] for row in rows if not isinstance(row, str)]
