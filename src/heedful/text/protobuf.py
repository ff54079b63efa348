"""Protocol buffers' wire format, as far as a file needs it whose fields are known: numbers, and bytes with a length.

A message is a row of fields, each a key (its number and what kind of value follows) and a value. Nothing is built from
what a file claims: every length is held against the bytes that are there.
"""

import struct
from collections.abc import Iterator

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
Value = int | bytes


class DamagedError(ValueError):
    """What is wrong with the bytes, in words."""


def read_fields(content: bytes) -> Iterator[tuple[int, Value]]:
    """Each field's number and value, in the order of the file: whole numbers of varints, else the bytes as they are
    (four or eight for those of fixed width)."""
    at = 0
    while at < len(content):
        key, at = _varint(content, at)
        number, kind = key >> 3, key & 7
        if number == 0:
            raise DamagedError(f"a field at byte {at} has no number")
        if kind == _VARINT:
            value, at = _varint(content, at)
            yield number, value
            continue
        if kind == _BYTES:
            length, at = _varint(content, at)
        elif kind in (_FIXED32, _FIXED64):
            length = 4 if kind == _FIXED32 else 8
        else:
            raise DamagedError(f"a field at byte {at} is of a kind that does not exist")
        if length > len(content) - at:
            raise DamagedError(f"a field at byte {at} should have {length:,} bytes, and {len(content) - at:,} are left")
        yield number, content[at : at + length]
        at += length


def as_bytes(value: Value) -> bytes:
    if not isinstance(value, bytes):
        raise DamagedError("a number stands where bytes should")
    return value


def as_text(value: Value) -> str:
    try:
        return as_bytes(value).decode("utf-8")
    except UnicodeDecodeError:
        raise DamagedError("a text in it is not UTF-8") from None


def as_float(value: Value) -> float:
    content = as_bytes(value)
    if len(content) != 4:
        raise DamagedError("a number in it has not the width that it should have")
    (number,) = struct.unpack("<f", content)
    return float(number)


def as_int(value: Value) -> int:
    """Signed, as int32 is written."""
    if isinstance(value, bytes):
        raise DamagedError("bytes stand where a number should")
    return value - 2**64 if value >= 2**63 else value


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """Seven bits a byte, the lowest first; the highest bit says that more follow. At most 64 bits in all."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(content):
            raise DamagedError("it ends in the middle of a number")
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (2**64 - 1), at
    raise DamagedError(f"a number before byte {at} does not end")
