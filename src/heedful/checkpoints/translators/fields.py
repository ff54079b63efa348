"""Shapes as JSON and back: every field is a key under its own name, a shape within a shape an object. A value that is
not what a field may be is refused by its key."""

import dataclasses
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from heedful.checkpoints.config import shown, unknown_keys
from heedful.errors import RequestError
from heedful.models.kinds import ATTENTION_KINDS
from heedful.nn.activations import ACTIVATIONS
from heedful.nn.recurrent_attention import CellKind, ScoreKind

T = TypeVar("T")
_LARGEST = {"layers": 1000, "heads": 4096}
_FROM_ZERO = {"segments", "pad_id", "source_pad_id", "target_pad_id"}


def write_fields(shape: Any, left_out: tuple[str, ...] = ()) -> dict[str, Any]:
    """`left_out`: fields that are said elsewhere."""
    content = dataclasses.asdict(shape)
    return {key: value for key, value in content.items() if key not in left_out}


def read_fields(path: Path, content: Any, cls: type[T], where: str, given: Mapping[str, Any] | None = None) -> T:
    """`where`: what the object is called in the file. `given`: fields that are said elsewhere."""
    given = given or {}
    if not isinstance(content, dict):
        raise RequestError(f"{path}: {where} is not an object; restore the file from its source.")
    types = typing.get_type_hints(cls, localns={"CellKind": CellKind, "ScoreKind": ScoreKind})
    fields = {f.name: f for f in dataclasses.fields(cls) if f.name not in given}  # type: ignore[arg-type]
    if unknown := sorted(set(content) - set(fields)):
        raise RequestError(f"{path}: {unknown_keys(unknown, f'of {where}')}, or use a newer heedful.")
    values: dict[str, Any] = dict(given)
    for name, field in fields.items():
        key = f"{where}.{name}"
        if name in content:
            values[name] = read_value(path, content[name], types[name], name, key)
        elif field.default is dataclasses.MISSING:
            raise RequestError(f"{path}: {key} is missing; restore the file from its source.")
    return cls(**values)


def read_value(path: Path, value: Any, wanted: Any, field: str, key: str) -> Any:
    """A field of this name and type, as JSON has it; `key`: what it is called there."""
    if dataclasses.is_dataclass(wanted):
        return read_fields(path, value, wanted, key)  # type: ignore[arg-type]
    place = f"{path}: {key} = {shown(value)}"
    choices = _choices(field, wanted)
    if choices:
        if not isinstance(value, str) or value not in choices:
            raise RequestError(f"{place} is not supported; heedful knows {', '.join(choices)}.")
        return value
    kinds = typing.get_args(wanted) or (wanted,)
    if value is None and type(None) in kinds:
        return None
    if bool in kinds:
        if not isinstance(value, bool):
            raise RequestError(f"{place} is neither true nor false.")
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RequestError(f"{place} is not a number.")
    if int in kinds:
        least, most = 0 if field in _FROM_ZERO else 1, _LARGEST.get(field, 10**8)
        if not isinstance(value, int) or not least <= value <= most:
            raise RequestError(f"{place} is not a whole number from {least} to {most}.")
        return value
    most = 1 if "drop" in field else 10
    if not 0 <= value <= most:
        raise RequestError(f"{place} is not between 0 and {most}.")
    return float(value)


def check_start(path: Path, start: Any, vocabulary: int) -> None:
    """The token that a decoder reads first, in a vocabulary of so many."""
    if not isinstance(start, int) or isinstance(start, bool) or not 0 <= start < vocabulary:
        raise RequestError(
            f"{path}: decoder_start_token_id = {shown(start)} is not the id of a token; the ids are 0 to "
            f"{vocabulary - 1}."
        )


def _choices(field: str, wanted: Any) -> tuple[str, ...]:
    if wanted is str:
        return tuple(ACTIVATIONS if field == "activation" else ATTENTION_KINDS)
    return typing.get_args(wanted) if typing.get_origin(wanted) is typing.Literal else ()
