"""Pictures of charts in fewer bytes: charts have few colours, and a palette holds them."""

import struct
import zlib
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_GREATEST_PALETTE = 256


def compact(png: bytes) -> bytes:
    """The same picture with a palette. Where it has more colours than a palette, shades that are hardly different
    become the commonest of them. A picture that one can see through, or that is encoded otherwise than our renderer
    encodes, stays as it is."""
    pixels = _pixels(png)
    if pixels is None or not (pixels[..., 3] == 255).all():
        return png
    height, width = pixels.shape[:2]
    coded = np.ascontiguousarray(pixels).view(np.uint32).ravel()
    colours, places, counts = np.unique(coded, return_inverse=True, return_counts=True)
    palette, shades = _palette(colours.view(np.uint8).reshape(-1, 4)[:, :3], counts)
    rows = np.zeros((height, 1 + width), dtype=np.uint8)  # each begins with its filter: none
    rows[:, 1:] = shades[places].reshape(height, width)
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = ((b"IHDR", header), (b"PLTE", palette.tobytes()), (b"IDAT", zlib.compress(rows.tobytes(), 9)))
    return _SIGNATURE + b"".join(
        struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in (*parts, (b"IEND", b""))
    )


def _palette(colours: NDArray[np.uint8], counts: NDArray[np.int64]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The colours of the palette, and for each colour its place there: shades are rounded until they are few enough."""
    for step in (1, 8, 16, 32, 64):
        rounded = np.round(colours / step) @ np.array([1, 1000, 1_000_000])
        found, places = np.unique(rounded, return_inverse=True)
        if len(found) <= _GREATEST_PALETTE:
            break
    commonest = np.zeros(len(found), dtype=np.int64)
    order = np.argsort(counts, kind="stable")
    commonest[places[order]] = order  # the last one written is the commonest
    return colours[commonest], places


def _pixels(png: bytes) -> NDArray[np.uint8] | None:
    """(height, width, 4), of a picture of eight bits with transparency whose rows are plain or differences from the
    pixel on the left; None of any other."""
    chunks = list(_chunks(png))
    width, height, depth, kind, _, _, interlaced = struct.unpack(">IIBBBBB", chunks[0][1])
    if (depth, kind, interlaced) != (8, 6, 0):
        return None
    content = zlib.decompress(b"".join(part for name, part in chunks if name == b"IDAT"))
    rows = np.frombuffer(content, dtype=np.uint8).reshape(height, 1 + 4 * width)
    filters, pixels = rows[:, 0], rows[:, 1:].reshape(height, width, 4)
    if (filters > 1).any():
        return None
    summed = np.cumsum(pixels, axis=1, dtype=np.uint8)
    return np.where(filters[:, None, None] == 1, summed, pixels)


def _chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    place = len(_SIGNATURE)
    while place < len(png):
        length, kind = struct.unpack(">I4s", png[place : place + 8])
        yield kind, png[place + 8 : place + 8 + length]
        place += 12 + length
