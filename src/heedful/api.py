"""The public contract in Python: `heedful.load` and what it returns."""

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from heedful.checkpoints import catalog, hub
from heedful.checkpoints.directory import Checkpoint, read_model, write_model
from heedful.errors import RequestError
from heedful.models.shape import HeadKind, Shape
from heedful.models.transformer import FIRST, Transformer
from heedful.text.tokenizer import Text, Tokenizer, Tokens

Pooling = Literal["cls", "first", "mean", "max", "last"]
_WINDOW = 8192  # texts tokenised and sorted at a time, so that memory does not grow with the input


def load(
    source: str | Path,
    *,
    revision: str | None = None,
    new_head: HeadKind | None = None,
    labels: Sequence[str] = (),
    body_only: bool = False,
    family: str | None = None,
    seed: int = 0,
    device: str | torch.device = "cpu",
) -> "Model":
    """A model from a directory, a name that `heedful models` lists, or a hub id (looked for in this order).

    Every stored tensor must have a home in the model and every part of the model a tensor. Two exceptions can be asked
    for: `new_head` (with `labels` for a classifier) puts a fresh head, drawn from `seed`, in the place of those stored;
    `body_only` leaves heads away. `family` helps an old directory whose config.json does not name its model_type.
    """
    try:
        place = torch.device(device)
    except RuntimeError:
        raise RequestError(f"device={device!r} is unknown; choose cpu, cuda or mps.") from None
    directory = find(source, revision)
    checkpoint = read_model(directory, new_head, labels, body_only, family, seed)
    checkpoint.transformer.to(place)
    return Model(checkpoint, str(source))


def find(source: str | Path, revision: str | None = None) -> Path:
    """The directory that `source` means, fetched if it has to be."""
    path, name = Path(source), str(source)
    if path.is_dir():
        if revision is not None:
            raise RequestError(f"{path}: a directory has no revisions; leave revision out.")
        return path
    if path.exists():
        raise RequestError(f"{path}: is a file; name the directory that holds config.json and the weights.")
    if name in catalog.CATALOG:
        return catalog.get(name)
    if isinstance(source, Path) or not hub.is_hub_id(name):
        raise RequestError(f"{source}: there is no such directory, and a hub id looks like owner/name.")
    return hub.fetch(name, revision)


class Model:
    """A transformer with its tokenizer and the names of its labels."""

    def __init__(self, checkpoint: Checkpoint, source: str) -> None:
        self.checkpoint = checkpoint
        self.source = source

    @property
    def transformer(self) -> Transformer:
        return self.checkpoint.transformer

    @property
    def shape(self) -> Shape:
        return self.checkpoint.transformer.shape

    @property
    def labels(self) -> tuple[str, ...]:
        return self.checkpoint.labels

    @property
    def tokenizer(self) -> Tokenizer:
        if self.checkpoint.tokenizer is None:
            raise RequestError(f"{self.source}: has no tokenizer; put tokenizer.json or vocab.txt beside its weights.")
        return self.checkpoint.tokenizer

    @property
    def max_length(self) -> int:
        """The most tokens that one text may have, special tokens included."""
        shape = self.shape
        positions = shape.positions - (
            shape.pad_id + 1 if shape.family == "roberta" and shape.pad_id is not None else 0
        )
        stated = self.checkpoint.tokenizer.max_length if self.checkpoint.tokenizer else None
        return min(positions, stated or positions)

    def save(self, directory: str | Path) -> None:
        """Write a model directory in one step: a crash leaves what was there before, or the whole new directory."""
        write_model(Path(directory), self.checkpoint)

    def encode(
        self,
        texts: Sequence[Text],
        pooling: Pooling = "mean",
        max_length: int | None = None,
        batch_size: int = 32,
    ) -> npt.NDArray[np.float32]:
        """Features (n, width), one row for each text or pair of texts, in their order.

        `pooling`: "cls" (the first state through the checkpoint's pooler, as Hugging Face does), "first", "mean", "max"
        or "last" state. How the texts are put in batches does not change the answer.
        """
        if isinstance(texts, str):
            raise RequestError("encode takes a list of texts; put the one text in a list.")
        self._check_pooling(pooling)
        limit = self.max_length if max_length is None else max_length
        if not 1 <= limit <= self.max_length:
            raise RequestError(
                f"max_length={max_length} is not between 1 and the {self.max_length} that the model can read."
            )
        if batch_size < 1:
            raise RequestError(f"batch_size={batch_size} is not a whole number from 1.")
        features = np.empty((len(texts), self.shape.width), dtype=np.float32)
        cut = 0
        with torch.inference_mode(), _evaluating(self.transformer):
            for start in range(0, len(texts), _WINDOW):
                window = self.tokenizer.encode(texts[start : start + _WINDOW], limit)
                cut += sum(tokens.truncated for tokens in window)
                for rows, batch in self._batches(window, batch_size):
                    features[[start + r for r in rows]] = self._pooled(batch, pooling).float().cpu().numpy()
        if cut and max_length is None:
            warnings.warn(
                f"{cut} of {len(texts)} texts are longer than the {limit} tokens that the model can read and were cut; "
                "give max_length to say that this is meant.",
                stacklevel=2,
            )
        return features

    def _check_pooling(self, pooling: str) -> None:
        if pooling not in get_args(Pooling):
            raise RequestError(f"pooling={pooling!r} is unknown; choose {', '.join(get_args(Pooling))}.")
        if pooling == "cls" and self.transformer.body.pooler is None:
            raise RequestError(
                f"{self.source}: has no pooler, so pooling='cls' is not possible; choose 'first' or 'mean'."
            )

    def _batches(self, window: list[Tokens], size: int) -> Iterator[tuple[list[int], "_Batch"]]:
        """Batches of similar length, padded on the right; the longest first, so that their memory is reused."""
        order = sorted(range(len(window)), key=lambda r: -len(window[r].ids))
        for at in range(0, len(order), size):
            rows = order[at : at + size]
            yield rows, self._collate([window[r] for r in rows])

    def _collate(self, tokens: list[Tokens]) -> "_Batch":
        device = self.transformer.body.embeddings.token.weight.device
        longest, pad = max(len(t.ids) for t in tokens), self.shape.pad_id or 0
        if longest == 0:
            raise RequestError("a text of no tokens has no features; leave empty texts out.")
        ids = torch.tensor([t.ids + [pad] * (longest - len(t.ids)) for t in tokens], device=device)
        segments = None
        if self.shape.segments > 1 and any(1 in t.segments for t in tokens):
            segments = torch.tensor([t.segments + [0] * (longest - len(t.ids)) for t in tokens], device=device)
        lengths = [len(t.ids) for t in tokens]
        real = None
        if min(lengths) < longest:
            real = torch.arange(longest, device=device) < torch.tensor(lengths, device=device)[:, None]
        return _Batch(ids, real, segments)

    def _pooled(self, batch: "_Batch", pooling: Pooling) -> Tensor:
        transformer = self.transformer
        read = FIRST if pooling in ("cls", "first") else None
        states = transformer.body(batch.ids, batch.real, batch.segments, read=read)
        if pooling in ("mean", "max"):
            x_btd: Tensor = states.last
            if batch.real is None:
                return x_btd.mean(dim=1) if pooling == "mean" else x_btd.amax(dim=1)
            real_bt1 = batch.real[:, :, None]
            if pooling == "mean":
                return (x_btd * real_bt1).sum(dim=1) / real_bt1.sum(dim=1)
            return x_btd.masked_fill(~real_bt1, -torch.inf).amax(dim=1)
        return transformer.pick(states, "pooled" if pooling == "cls" else pooling, batch.real)


@contextlib.contextmanager
def _evaluating(module: torch.nn.Module) -> Iterator[None]:
    """Without dropout inside, as it was outside."""
    was_training = module.training
    if was_training:
        module.eval()
    try:
        yield
    finally:
        if was_training:
            module.train()


class _Batch:
    __slots__ = ("ids", "real", "segments")

    def __init__(self, ids: Tensor, real: Tensor | None, segments: Tensor | None) -> None:
        self.ids, self.real, self.segments = ids, real, segments
