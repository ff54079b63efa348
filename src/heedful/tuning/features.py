"""What a body that does not move gives for every text, computed once, without dropout, and kept in files."""

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from heedful.models.flops import forward_flops
from heedful.models.transformer import Transformer
from heedful.nn.heads import ONE_STATE, Reads
from heedful.objectives.texts import CachedFeatures, Text, TextReader, pack_texts
from heedful.tuning.protocol import Spent, Surroundings

_ROWS = 32  # texts in a batch


@dataclass(frozen=True)
class Computed:
    """The features, and what it took to compute them, whoever did: the runs of a study share the files."""

    cache: CachedFeatures
    spent: Spent


def compute_features(
    transformer: Transformer, sets: Mapping[str, Sequence[Text]], reads: Reads, around: Surroundings
) -> Computed:
    """A file for each set of texts, mapped into memory."""
    reader = TextReader(transformer, around.device)
    seconds, arrays = 0.0, dict[str, np.ndarray]()
    with contextlib.ExitStack() as folders:  # in the order of the sets, so that nobody waits in a circle
        for name, texts in sets.items():
            key = {**around.facts, "features": [reads, name, str(around.device), torch.get_num_threads()]}
            folder = folders.enter_context(around.store.place({**key, "texts": _digest(texts)}))
            if not (folder / "features.npy").exists():
                _compute(reader, texts, reads, folder)
            seconds += json.loads((folder / "seconds.json").read_text(encoding="utf-8"))
            arrays[name] = np.load(folder / "features.npy", mmap_mode="r", allow_pickle=False)
    trained = [texts for name, texts in sets.items() if name.partition("-")[0] == "train"]
    lengths = [len(chunk) for texts in trained for text in texts for chunk in text.chunks]
    flops = forward_flops(transformer.shape, lengths, reads in ONE_STATE)
    return Computed(
        CachedFeatures(arrays, reads, around.device), Spent(flops, sum(lengths), seconds, padding_share=0.0)
    )


def _digest(texts: Sequence[Text]) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(pack_texts(texts).items()):
        digest.update(name.encode() + tensor.numpy().tobytes())
    return digest.hexdigest()


def _compute(reader: TextReader, texts: Sequence[Text], reads: Reads, folder: Path) -> None:
    started = time.monotonic()
    part = folder / ".features.npy"
    shape = (len(texts), reader.transformer.shape.width)
    array = np.lib.format.open_memmap(part, mode="w+", dtype=np.float32, shape=shape)
    _reserve(part)
    order = sorted(range(len(texts)), key=lambda i: -texts[i].tokens)
    with torch.inference_mode():
        for at in range(0, len(order), _ROWS):
            rows = order[at : at + _ROWS]
            array[rows] = reader.features([texts[i] for i in rows], reads).float().cpu().numpy()
    array.flush()
    del array
    (folder / "seconds.json").write_text(json.dumps(round(time.monotonic() - started, 3)), encoding="utf-8")
    part.rename(folder / "features.npy")  # whole or not there, however the run is stopped


def _reserve(path: Path) -> None:
    """Takes the room of a mapped file now: a full disk is an error here, and the end of the process later."""
    if hasattr(os, "posix_fallocate"):
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
