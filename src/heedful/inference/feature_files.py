"""What is computed once for every text and kept in a file: an array that is mapped into memory."""

import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from heedful.inference.batching import BatchRule, batches
from heedful.inference.items import EncodedText


def write_features(
    folder: Path, shape: tuple[int, int], texts: Sequence[EncodedText], put: Callable[[np.ndarray, list[int]], None]
) -> None:
    """Write an array as a file. `put` puts into it what belongs to the texts of these numbers."""
    started = time.monotonic()
    part = folder / ".features.npy"
    array = np.lib.format.open_memmap(part, mode="w+", dtype=np.float32, shape=shape)
    _reserve(part)
    with torch.inference_mode():
        for rows in batches([text.tokens for text in texts], BatchRule()):
            put(array, rows)
    array.flush()
    del array
    (folder / "seconds.json").write_text(json.dumps(round(time.monotonic() - started, 3)), encoding="utf-8")
    part.rename(folder / "features.npy")  # whole or not there, however the run is stopped


def _reserve(path: Path) -> None:
    """Takes the room of a mapped file now: a full disk is an error here, and the end of the process later."""
    if hasattr(os, "posix_fallocate"):
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
