"""What a body that does not move gives for every text, computed once, without dropout, and kept in files."""

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from heedful.inference.feature_files import write_features
from heedful.inference.items import EncodedText, pack_texts
from heedful.inference.reader import CachedFeatures, LowerStates, TextReader, collate
from heedful.models.flops import forward_flops
from heedful.models.transformer import Transformer
from heedful.nn.heads import ONE_STATE, Reads
from heedful.storage.hashing import sha256_of
from heedful.tuning.protocol import Cost, TuningContext


@dataclass(frozen=True)
class Computed:
    """The features, and what it took to compute them, whoever did: the runs of a study share the files."""

    cache: CachedFeatures
    spent: Cost


def compute_features(
    transformer: Transformer, sets: Mapping[str, Sequence[EncodedText]], reads: Reads, context: TuningContext
) -> Computed:
    """A file for each set of texts, mapped into memory."""
    reader = TextReader(transformer, context.device)
    arrays, seconds = _kept(
        sets, ["features", reads], context, lambda name, folder: _compute(reader, sets[name], reads, folder)
    )
    lengths = _trained_lengths(sets)
    flops = forward_flops(transformer.shape, lengths, [1] * len(lengths) if reads in ONE_STATE else None)
    return Computed(
        CachedFeatures(arrays, reads, context.device), Cost(flops, sum(lengths), seconds, padding_share=0.0)
    )


def compute_lower_states(
    transformer: Transformer, sets: Mapping[str, Sequence[EncodedText]], blocks: int, context: TuningContext
) -> tuple[LowerStates, Cost]:
    """The states after the first so many blocks, which do not move, of every token: a file for each set of texts."""
    starts = {name: np.cumsum([0, *(text.tokens for text in texts)]) for name, texts in sets.items()}

    def make(name: str, folder: Path) -> None:
        _compute_states(transformer, context.device, sets[name], starts[name], blocks, folder)

    arrays, seconds = _kept(sets, ["states", blocks], context, make)
    lengths = _trained_lengths(sets)
    flops = forward_flops(replace(transformer.shape, layers=blocks), lengths)
    return LowerStates(arrays, starts, blocks, context.device), Cost(flops, sum(lengths), seconds)


def _kept(
    sets: Mapping[str, Sequence[EncodedText]],
    what: list[Any],
    context: TuningContext,
    make: Callable[[str, Path], None],
) -> tuple[dict[str, np.ndarray], float]:
    """The array of each set, made by whoever comes first, and how long that took."""
    seconds, arrays = 0.0, dict[str, np.ndarray]()
    with contextlib.ExitStack() as folders:  # in the order of the sets, so that nobody waits in a circle
        for name, texts in sets.items():
            kind, *which = what
            key = {**context.cache_key, kind: [*which, name, str(context.device), torch.get_num_threads()]}
            folder = folders.enter_context(context.store.place({**key, "texts": _digest(texts)}))
            if not (folder / "features.npy").exists():
                make(name, folder)
            seconds += json.loads((folder / "seconds.json").read_text(encoding="utf-8"))
            arrays[name] = np.load(folder / "features.npy", mmap_mode="r", allow_pickle=False)
    return arrays, seconds


def _trained_lengths(sets: Mapping[str, Sequence[EncodedText]]) -> list[int]:
    """Of the chunks of what is trained on: "train", or the "train-…" of each task."""
    trained = [texts for name, texts in sets.items() if name.partition("-")[0] == "train"]
    return [len(chunk) for texts in trained for text in texts for chunk in text.chunks]


def _compute_states(
    transformer: Transformer,
    device: torch.device,
    texts: Sequence[EncodedText],
    starts: np.ndarray,
    blocks: int,
    folder: Path,
) -> None:
    def fill(array: np.ndarray, rows: list[int]) -> None:
        some = [texts[i] for i in rows]
        batch, _ = collate(some, transformer.shape.pad_id, device)
        x_ctd = transformer.body.lower(batch, blocks).x_btd.float().cpu().numpy()
        chunk = 0
        for row, text in zip(rows, some, strict=True):
            at = int(starts[row])
            for ids in text.chunks:
                array[at : at + len(ids)] = x_ctd[chunk, : len(ids)]
                at, chunk = at + len(ids), chunk + 1

    write_features(folder, (int(starts[-1]), transformer.shape.width), texts, fill)


def _digest(texts: Sequence[EncodedText]) -> str:
    return sha256_of(name.encode() + tensor.numpy().tobytes() for name, tensor in sorted(pack_texts(texts).items()))


def _compute(reader: TextReader, texts: Sequence[EncodedText], reads: Reads, folder: Path) -> None:
    def fill(array: np.ndarray, rows: list[int]) -> None:
        array[rows] = reader.features([texts[i] for i in rows], reads).float().cpu().numpy()

    write_features(folder, (len(texts), reader.transformer.shape.width), texts, fill)
