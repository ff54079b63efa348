"""Classify (or score) a text or a pair: what the items are, how they become a batch, and what is lost.

Letters: b texts, c chunks of them (b of them if no text is chunked), t tokens, k classes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.errors import RequestError
from heedful.models.batch import Batch, pad
from heedful.text.tokenizer import Tokenizer


@dataclass(slots=True)
class Item:
    """One text as token ids: one chunk, or several if it is long and chunks were asked for."""

    chunks: list[list[int]]
    segments: list[int] | None
    truncated: bool

    @property
    def tokens(self) -> int:
        return sum(map(len, self.chunks))


def make_items(
    tokenizer: Tokenizer,
    texts: Sequence[str],
    pairs: Sequence[str] | None,
    max_length: int,
    chunked: bool = False,
    segments: bool = True,
) -> list[Item]:
    rows = list(texts) if pairs is None else list(zip(texts, pairs, strict=True))
    encoded = tokenizer.encode(rows, None if chunked else max_length)
    items = []
    for tokens in encoded:
        if not tokens.ids:
            raise RequestError("a text has no tokens at all, and this tokenizer adds none; leave empty texts out.")
        chunks = [tokens.ids]
        if chunked and len(tokens.ids) > max_length:
            chunks = _chunks(tokens.ids, max_length, tokenizer)
        items.append(Item(chunks, tokens.segments if segments and pairs is not None else None, tokens.truncated))
    return items


def pack_items(items: Sequence[Item]) -> dict[str, Tensor]:
    """As tensors, to be kept in a file."""
    segments = [item.segments or [] for item in items]
    columns = {
        "ids": [i for item in items for chunk in item.chunks for i in chunk],
        "lengths": [len(chunk) for item in items for chunk in item.chunks],
        "chunks": [len(item.chunks) for item in items],
        "truncated": [int(item.truncated) for item in items],
        "segments": [i for row in segments for i in row],
    }
    return {name: torch.tensor(values, dtype=torch.int32) for name, values in columns.items()}


def unpack_items(tensors: Mapping[str, Tensor]) -> list[Item]:
    columns = {name: iter(t.tolist()) for name, t in tensors.items()}
    with_segments = len(tensors["segments"]) > 0
    items = []
    for count, truncated in zip(columns["chunks"], columns["truncated"], strict=True):
        lengths = list(islice(columns["lengths"], count))
        chunks = [list(islice(columns["ids"], n)) for n in lengths]
        segments = list(islice(columns["segments"], sum(lengths))) if with_segments else None
        items.append(Item(chunks, segments, bool(truncated)))
    return items


def _chunks(ids: list[int], max_length: int, tokenizer: Tokenizer) -> list[list[int]]:
    """Pieces of equal length, each between the special tokens that stand around the whole."""
    head = [ids[0]] if ids[0] == tokenizer.cls_id else []
    tail = [ids[-1]] if ids[-1] == tokenizer.sep_id else []
    inner = ids[len(head) : len(ids) - len(tail)]
    room = max_length - len(head) - len(tail)
    count = -(-len(inner) // room)
    size = -(-len(inner) // count)
    return [head + inner[at : at + size] + tail for at in range(0, len(inner), size)]


def collate(items: Sequence[Item], pad_id: int | None, device: torch.device) -> tuple[Batch, Tensor | None]:
    """The chunks of all items, and which item each belongs to (None if every item is one chunk)."""
    chunks = [chunk for item in items for chunk in item.chunks]
    segments = [item.segments for item in items if item.segments is not None]
    batch = pad(chunks, segments or None, pad_id, device)
    if len(chunks) == len(items):
        return batch, None
    return batch, torch.tensor([i for i, item in enumerate(items) for _ in item.chunks], device=device)


def average_chunks(x_cd: Tensor, owner_c: Tensor | None) -> Tensor:
    """The features of each text: the mean over its chunks."""
    if owner_c is None:
        return x_cd
    texts = int(owner_c[-1]) + 1
    total = x_cd.new_zeros(texts, x_cd.shape[1]).index_add(0, owner_c, x_cd)
    count = x_cd.new_zeros(texts).index_add(0, owner_c, x_cd.new_ones(len(x_cd)))
    return total / count[:, None]


@dataclass(frozen=True)
class Loss:
    """Cross-entropy over classes, or a score's squared error, as a sum: the step divides by the sum of `weights`."""

    classes: int
    """0: a score."""
    smoothing: float = 0.0
    class_weights: Tensor | None = None

    def weights(self, targets_b: Tensor) -> Tensor:
        if self.class_weights is None:
            return torch.ones(len(targets_b), device=targets_b.device)
        return self.class_weights[targets_b]

    def sum(self, scores_bk: Tensor, targets_b: Tensor) -> Tensor:
        scores_bk = scores_bk.to(torch.promote_types(scores_bk.dtype, torch.float32))  # bfloat16 is too coarse here
        if not self.classes:
            return ((scores_bk[:, 0] - targets_b) ** 2).sum()
        losses_b = F.cross_entropy(scores_bk, targets_b, reduction="none", label_smoothing=self.smoothing)
        return (losses_b * self.weights(targets_b)).sum()


def balanced_weights(targets: Sequence[int], classes: int) -> Tensor:
    """n / (k · n_class): a class's weight is the inverse of its frequency, 1 on average over the rows."""
    counts = torch.bincount(torch.tensor(targets), minlength=classes).clamp(min=1)
    return len(targets) / (classes * counts.float())
