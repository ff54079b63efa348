"""What is computed once for every text and kept in a file: an array that is mapped into memory."""

import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from heedful.objectives.texts import Text

_ROWS = 32  # texts in a batch


def write_features(
    folder: Path, shape: tuple[int, int], texts: Sequence[Text], fill: Callable[[np.ndarray, list[int]], None]
) -> None:
    """`fill` puts into the array what belongs to the texts of these numbers."""
    started = time.monotonic()
    part = folder / ".features.npy"
    array = np.lib.format.open_memmap(part, mode="w+", dtype=np.float32, shape=shape)
    _reserve(part)
    order = sorted(range(len(texts)), key=lambda i: -texts[i].tokens)
    with torch.inference_mode():
        for at in range(0, len(order), _ROWS):
            fill(array, order[at : at + _ROWS])
    array.flush()
    del array
    (folder / "seconds.json").write_text(json.dumps(round(time.monotonic() - started, 3)), encoding="utf-8")
    part.rename(folder / "features.npy")  # whole or not there, however the run is stopped


def _reserve(path: Path) -> None:
    """Takes the room of a mapped file now: a full disk is an error here, and the end of the process later."""
    if hasattr(os, "posix_fallocate"):
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
