"""The methods: what computes the scores of rows, and which parameters move."""

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from heedful.models.transformer import Transformer
from heedful.objectives.classify import Item, average_chunks, collate
from heedful.tuning.vocabulary import CompactTable

HEAD = "classify"


class Method(Protocol):
    transformer: Transformer

    def scores(self, split: str, rows: Sequence[int]) -> Tensor:
        """(b, k), in the order of `rows`."""

    def lengths(self, split: str) -> list[int]:
        """What each row costs, for putting rows of similar cost together."""

    def trainable(self) -> dict[str, nn.Parameter]: ...

    def train(self, on: bool) -> None:
        """Dropout on or off, where this method has any."""

    def finish(self, decay: float) -> None:
        """Put the model together as it will be saved. `decay`: see `CompactTable.expand`."""


def features_of(transformer: Transformer, items: Sequence[Item], device: torch.device) -> Tensor:
    """What the classifier reads of these items (b, d)."""
    batch, owner_c = collate(items, transformer.shape.pad_id, device)
    return average_chunks(transformer.features(transformer.head_shapes[HEAD].reads, *batch), owner_c)


class Full:
    """Every weight moves."""

    def __init__(self, transformer: Transformer, items: Mapping[str, list[Item]], device: torch.device) -> None:
        self.transformer, self.items, self.device = transformer.to(device), items, device
        every = [item for split in items.values() for item in split]
        self.table = CompactTable(transformer, every)
        self.table.renumber(every)

    def scores(self, split: str, rows: Sequence[int]) -> Tensor:
        x_bd = features_of(self.transformer, [self.items[split][r] for r in rows], self.device)
        return self.transformer.heads[HEAD](x_bd)  # type: ignore[no-any-return]

    def lengths(self, split: str) -> list[int]:
        return [item.tokens for item in self.items[split]]

    def trainable(self) -> dict[str, nn.Parameter]:
        unused = ("body.pooler.",) if self.transformer.head_shapes[HEAD].reads != "pooled" else ()
        named = dict(self.transformer.named_parameters())
        return {n: p for n, p in named.items() if not n.startswith(unused)} if unused else named

    def train(self, on: bool) -> None:
        self.transformer.train(on)

    def finish(self, decay: float) -> None:
        self.table.expand(decay)


def _reserve(path: Path) -> None:
    """Takes the room of a mapped file now: a full disk is an error here, and the end of the process later."""
    if hasattr(os, "posix_fallocate"):
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)


class Frozen:
    """The head alone moves; what it reads is computed once for every row, without dropout, and kept in a file.

    `seconds` is what that took, whoever did it: the runs of a study share the files.
    """

    def __init__(
        self,
        transformer: Transformer,
        items: Mapping[str, list[Item]],
        device: torch.device,
        folders: Mapping[str, Path],
    ) -> None:
        self.transformer, self.device = transformer.to(device), device
        self.transformer.body.requires_grad_(False)
        self.transformer.body.eval()
        self.seconds = 0.0
        self.features = {split: self._features(split, held, folders[split]) for split, held in items.items()}

    def _features(self, split: str, items: list[Item], folder: Path) -> np.ndarray:
        path, cost = folder / f"{split}.npy", folder / f"{split}.seconds"
        if not path.exists():
            started = time.monotonic()
            folder.mkdir(parents=True, exist_ok=True)
            part = folder / f".{split}.npy"
            shape = (len(items), self.transformer.shape.width)
            made = np.lib.format.open_memmap(part, mode="w+", dtype=np.float32, shape=shape)
            _reserve(part)
            order = sorted(range(len(items)), key=lambda r: -items[r].tokens)
            with torch.inference_mode():
                for at in range(0, len(order), 32):
                    rows = order[at : at + 32]
                    x_bd = features_of(self.transformer, [items[r] for r in rows], self.device)
                    made[rows] = x_bd.float().cpu().numpy()
            made.flush()
            del made
            cost.write_text(f"{time.monotonic() - started:.3f}", encoding="utf-8")
            part.rename(path)  # whole or not there, however the run is stopped
        self.seconds += float(cost.read_text(encoding="utf-8"))
        return np.load(path, mmap_mode="r", allow_pickle=False)  # type: ignore[no-any-return]

    def scores(self, split: str, rows: Sequence[int]) -> Tensor:
        x_bd = torch.from_numpy(self.features[split][list(rows)]).to(self.device)
        return self.transformer.heads[HEAD](x_bd)  # type: ignore[no-any-return]

    def lengths(self, split: str) -> list[int]:
        return [1] * len(self.features[split])

    def trainable(self) -> dict[str, nn.Parameter]:
        return {f"heads.{HEAD}.{n}": p for n, p in self.transformer.heads[HEAD].named_parameters()}

    def train(self, on: bool) -> None:
        self.transformer.heads.train(on)

    def finish(self, decay: float) -> None:
        """The body never moved."""
