"""Texts as the body reads them: token ids, chunks of long texts, batches, and what a head reads of them.

Letters: b texts, c chunks of them (b of them if no text is chunked), t tokens, d the model's width, f
that of a feature: d, or what a head's recurrent network gives.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from heedful.errors import RequestError
from heedful.models.adapters import InUse
from heedful.models.batch import Batch, pad
from heedful.models.body import Below
from heedful.models.composition import Composition
from heedful.models.transformer import Transformer
from heedful.nn.heads import Reads, combine
from heedful.text.tokenizer import Tokenizer

_ROWS = 64  # texts at a time that are only read


@dataclass(slots=True)
class Text:
    """One text as token ids: one chunk, or several if it is long and chunks were asked for."""

    chunks: list[list[int]]
    segments: list[int] | None
    truncated: bool
    place: tuple[str, int] = ("", -1)
    """The set that it belongs to and its number there, by which a cache knows it."""

    @property
    def tokens(self) -> int:
        return sum(map(len, self.chunks))


@dataclass(slots=True)
class Pair:
    """Two texts, each read alone."""

    first: Text
    second: Text
    place: tuple[str, int] = ("", -1)
    """The set that it belongs to and its number there."""

    @property
    def chunks(self) -> list[list[int]]:
        return [*self.first.chunks, *self.second.chunks]

    @property
    def tokens(self) -> int:
        return self.first.tokens + self.second.tokens

    @property
    def truncated(self) -> bool:
        return self.first.truncated or self.second.truncated


Item = Text | Pair
"""What a head says something of."""


def texts_of(items: Iterable[Item]) -> list[Text]:
    """What the body reads, each text once, however many pairs it is in."""
    texts = (text for item in items for text in ((item.first, item.second) if isinstance(item, Pair) else (item,)))
    return list({id(text): text for text in texts}.values())


class CachedFeatures:
    """What a body that does not move gives for texts (n, d), computed once, by the set that they belong to."""

    def __init__(
        self,
        arrays: Mapping[str, npt.NDArray[np.floating]],
        reads: Reads,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.arrays, self.reads, self.device, self.dtype = arrays, reads, device, dtype

    def features(self, texts: Sequence[Text], reads: Reads) -> Tensor:
        if reads != self.reads:
            raise ValueError(f"the state {self.reads!r} of each text was kept, not {reads!r}")
        (name,) = {text.place[0] for text in texts}
        rows = [text.place[1] for text in texts]
        return torch.from_numpy(self.arrays[name][rows]).to(self.device, self.dtype)


class LowerStates:
    """What the lower blocks, which do not move, give for every token of the texts, computed once: of each set the
    states of all tokens (n, d) text after text, and where each text begins."""

    def __init__(
        self,
        arrays: Mapping[str, npt.NDArray[np.floating]],
        starts: Mapping[str, npt.NDArray[np.int64]],
        blocks: int,
        device: torch.device,
    ) -> None:
        self.arrays, self.starts, self.blocks, self.device = arrays, starts, blocks, device

    def below(self, texts: Sequence[Text], length: int) -> Below:
        """The chunks of these texts as one rectangle of this length, zero where there is padding."""
        lengths = [len(chunk) for text in texts for chunk in text.chunks]
        width = self.arrays[texts[0].place[0]].shape[1]
        x_ctd = np.zeros((len(lengths), length, width), dtype=np.float32)
        chunk = 0
        for text in texts:
            name, number = text.place
            at = int(self.starts[name][number])
            for ids in text.chunks:
                x_ctd[chunk, : len(ids)] = self.arrays[name][at : at + len(ids)]
                at, chunk = at + len(ids), chunk + 1
        return Below(torch.from_numpy(x_ctd).to(self.device), self.blocks)


class TextReader:
    """What an objective computes with: the model, and what a head reads of texts. A tuning makes it, with a cache if
    the body does not move, or with the states of its lower blocks if those do not."""

    def __init__(
        self,
        module: nn.Module,
        device: torch.device,
        cache: CachedFeatures | None = None,
        lower: LowerStates | None = None,
    ) -> None:
        self.module, self.device, self.cache, self.lower = module, device, cache, lower
        self.mixed = device.type == "cuda"
        """Whether training multiplies in bfloat16."""

    @property
    def transformer(self) -> Transformer:
        """The model, where it is a body with heads."""
        return cast(Transformer, self.module)

    def features(self, texts: Sequence[Text], reads: Reads, adapters: InUse | None = None) -> Tensor:
        """Return the state that `reads` names of each text (b, d); the mean over the chunks of a long one."""
        if self.cache is not None:
            return self.cache.features(texts, reads)
        batch, below, owner_c = self._batch(texts)
        return average_chunks(self.transformer.features(reads, batch, below, adapters), owner_c)

    def _batch(self, texts: Sequence[Text]) -> tuple[Batch, Below | None, Tensor | None]:
        """The chunks of all texts, what is there of their states, and which text each belongs to."""
        batch, owner_c = collate(texts, self.transformer.shape.pad_id, self.device)
        return batch, None if self.lower is None else self.lower.below(texts, batch.ids_bt.shape[1]), owner_c

    def _head_features(self, texts: Sequence[Text], head: str, adapters: InUse | None) -> Tensor:
        """Return the same, or what the head's recurrent network makes of the states of each chunk (b, f)."""
        shape = self.transformer.head_shapes[head]
        if shape.recurrent is None or self.cache is not None:
            return self.features(texts, shape.reads, adapters)
        batch, below, owner_c = self._batch(texts)
        return average_chunks(self.transformer.inputs(head, batch, below=below, adapters=adapters), owner_c)

    def inputs(self, items: Sequence[Item], head: str, adapters: Composition | None = None) -> Tensor:
        """Return what the head is given of each text or pair, side by side, through its own adapters or these."""
        shape, through = self.transformer.head_shapes[head], self.transformer.through(head, adapters)
        pairs = [item for item in items if isinstance(item, Pair)]
        if shape.pairs == "joint" and not pairs:
            return self._head_features(cast("Sequence[Text]", items), head, through)
        if shape.pairs == "joint" or len(pairs) != len(items):
            raise ValueError(f"the head {head!r} reads pairs {shape.pairs}")
        u_bf, v_bf = (
            self._head_features(texts, head, through) for texts in ([p.first for p in pairs], [p.second for p in pairs])
        )
        return combine(u_bf, v_bf, shape.pairs)

    def precision(self) -> torch.autocast:
        """What a model is to be computed in: trained in mixed precision, if so, and judged in full."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.mixed and torch.is_grad_enabled())

    def scores(self, items: Sequence[Item], head: str, adapters: Composition | None = None) -> Tensor:
        """Return what the head says of each (b, classes)."""
        with self.precision():
            return self.transformer.heads[head](self.inputs(items, head, adapters))  # type: ignore[no-any-return]

    def all_scores(
        self, items: Sequence[Item], head: str, size: int = _ROWS, adapters: Composition | None = None
    ) -> Tensor:
        """The same of many, `size` at a time, as float64 on the CPU, without gradients; the longest first."""
        order = list(range(len(items)))
        if self.cache is None:
            order.sort(key=lambda i: -items[i].tokens)
        scores_nk: Tensor | None = None
        with torch.inference_mode():
            for at in range(0, len(order), size):
                rows = order[at : at + size]
                scores_bk = self.scores([items[i] for i in rows], head, adapters).cpu().double()
                if scores_nk is None:
                    scores_nk = scores_bk.new_empty(len(items), scores_bk.shape[1])
                scores_nk[rows] = scores_bk
        return torch.empty(0, 1, dtype=torch.float64) if scores_nk is None else scores_nk

    def seconds(self, texts: Sequence[Item], head: str, size: int = 32, most: float = 1.0) -> float:
        """How long all their scores take, in batches of similar length. What would take longer than `most` seconds is
        concluded from a part of it, by its tokens."""
        order = sorted(texts, key=lambda text: -text.tokens)
        batches = [order[at : at + size] for at in range(0, len(order), size)]
        batches = batches[1::2] + batches[::2]  # neither the longest nor the shortest alone
        self.all_scores(batches[0][:2], head)  # the first call of all is slower than those that follow
        done, started = 0, time.perf_counter()
        for batch in batches:
            self.all_scores(batch, head, size)
            done += sum(text.tokens for text in batch)
            spent = time.perf_counter() - started
            if spent > most:
                break
        return spent * sum(text.tokens for text in texts) / done


def make_texts(
    tokenizer: Tokenizer,
    texts: Sequence[str],
    pairs: Sequence[str] | None,
    max_length: int,
    chunked: bool = False,
    segments: bool = True,
) -> list[Text]:
    rows = list(texts) if pairs is None else list(zip(texts, pairs, strict=True))
    encoded = tokenizer.encode(rows, None if chunked else max_length)
    made = []
    for tokens in encoded:
        if not tokens.ids:
            raise RequestError("a text has no tokens at all, and this tokenizer adds none; leave empty texts out.")
        chunks = [tokens.ids]
        if chunked and len(tokens.ids) > max_length:
            chunks = _chunks(tokens.ids, max_length, tokenizer)
        made.append(Text(chunks, tokens.segments if segments and pairs is not None else None, tokens.truncated))
    return made


def make_pairs(tokenizer: Tokenizer, texts: Sequence[str], pairs: Sequence[str], max_length: int) -> list[Pair]:
    """Each text of a pair alone, up to `max_length` tokens; a text that occurs again is the same one."""
    strings = list(dict.fromkeys([*texts, *pairs]))
    made = dict(zip(strings, make_texts(tokenizer, strings, None, max_length), strict=True))
    return [Pair(made[a], made[b]) for a, b in zip(texts, pairs, strict=True)]


def pack_pairs(pairs: Sequence[Pair]) -> dict[str, Tensor]:
    """As tensors, to be kept in a file."""
    texts = texts_of(pairs)
    number = {id(text): i for i, text in enumerate(texts)}
    columns = {"first": [number[id(p.first)] for p in pairs], "second": [number[id(p.second)] for p in pairs]}
    return {**pack_texts(texts), **{name: torch.tensor(rows, dtype=torch.int32) for name, rows in columns.items()}}


def unpack_pairs(tensors: Mapping[str, Tensor]) -> list[Pair]:
    texts = unpack_texts(tensors)
    return [
        Pair(texts[i], texts[j]) for i, j in zip(tensors["first"].tolist(), tensors["second"].tolist(), strict=True)
    ]


def pack_texts(texts: Sequence[Text]) -> dict[str, Tensor]:
    """As tensors, to be kept in a file."""
    segments = [text.segments or [] for text in texts]
    columns = {
        "ids": [i for text in texts for chunk in text.chunks for i in chunk],
        "lengths": [len(chunk) for text in texts for chunk in text.chunks],
        "chunks": [len(text.chunks) for text in texts],
        "truncated": [int(text.truncated) for text in texts],
        "segments": [i for row in segments for i in row],
    }
    return {name: torch.tensor(values, dtype=torch.int32) for name, values in columns.items()}


def unpack_texts(tensors: Mapping[str, Tensor]) -> list[Text]:
    columns = {name: iter(t.tolist()) for name, t in tensors.items()}
    with_segments = len(tensors["segments"]) > 0
    texts = []
    for count, truncated in zip(columns["chunks"], columns["truncated"], strict=True):
        lengths = list(islice(columns["lengths"], count))
        chunks = [list(islice(columns["ids"], n)) for n in lengths]
        segments = list(islice(columns["segments"], sum(lengths))) if with_segments else None
        texts.append(Text(chunks, segments, bool(truncated)))
    return texts


def _chunks(ids: list[int], max_length: int, tokenizer: Tokenizer) -> list[list[int]]:
    """Pieces of equal length, each between the special tokens that stand around the whole."""
    head = [ids[0]] if ids[0] == tokenizer.cls_id else []
    tail = [ids[-1]] if ids[-1] == tokenizer.sep_id else []
    inner = ids[len(head) : len(ids) - len(tail)]
    room = max_length - len(head) - len(tail)
    count = -(-len(inner) // room)
    size = -(-len(inner) // count)
    return [head + inner[at : at + size] + tail for at in range(0, len(inner), size)]


def collate(texts: Sequence[Text], pad_id: int | None, device: torch.device) -> tuple[Batch, Tensor | None]:
    """The chunks of all texts, and which text each belongs to (None if every text is one chunk)."""
    chunks = [chunk for text in texts for chunk in text.chunks]
    segments = [text.segments for text in texts if text.segments is not None]
    batch = pad(chunks, segments or None, pad_id, device)
    if len(chunks) == len(texts):
        return batch, None
    return batch, torch.tensor([i for i, text in enumerate(texts) for _ in text.chunks], device=device)


def average_chunks(x_cd: Tensor, owner_c: Tensor | None) -> Tensor:
    """The features of each text: the mean over its chunks."""
    if owner_c is None:
        return x_cd
    texts = int(owner_c[-1]) + 1
    total = x_cd.new_zeros(texts, x_cd.shape[1]).index_add(0, owner_c, x_cd)
    count = x_cd.new_zeros(texts).index_add(0, owner_c, x_cd.new_ones(len(x_cd)))
    return total / count[:, None]


def at_least_float32(scores: Tensor) -> Tensor:
    """For a loss: bfloat16 is too coarse there."""
    return scores.to(torch.promote_types(scores.dtype, torch.float32))


@dataclass(frozen=True)
class Parts:
    """Into how many parts the rows of a step are cut, and which of them are computed by this process."""

    count: int
    mine: range | None = None
    """Their numbers; None: all."""


def in_parts(rows: Sequence[int], parts: Parts) -> list[tuple[int, Sequence[int]]]:
    """The rows of a step in at most so many parts of equal size, the last one smaller: of those that are computed here
    the number, by which it is seeded, and the rows. There may be none, where rows are few."""
    size = -(-len(rows) // parts.count)
    every = enumerate(rows[at : at + size] for at in range(0, len(rows), size))
    return [(part, some) for part, some in every if parts.mine is None or part in parts.mine]
