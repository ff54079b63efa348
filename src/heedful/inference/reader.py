"""A model as training and evaluation compute with it: the features of texts, and what its heads say of them.

Letters: b texts, c chunks of them (b of them if no text is chunked), t tokens, d the model's width, f
that of a feature: d, or what a head's recurrent network gives.
"""

import time
from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from heedful.inference.batching import BatchRule, batches, fill, rule_for
from heedful.inference.items import EncodedPair, EncodedText, Item
from heedful.models.adapters import InUse
from heedful.models.batch import Batch, pad
from heedful.models.body import Below
from heedful.models.composition import Composition
from heedful.models.transformer import Transformer
from heedful.nn.heads import Reads, combine


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

    def features(self, texts: Sequence[EncodedText], reads: Reads) -> Tensor:
        if reads != self.reads:
            raise ValueError(f"the state {self.reads!r} of each text was kept, not {reads!r}")
        (name,) = {text.cache_key[0] for text in texts}
        rows = [text.cache_key[1] for text in texts]
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

    def below(self, texts: Sequence[EncodedText], length: int) -> Below:
        """The chunks of these texts as one rectangle of this length, zero where there is padding."""
        lengths = [len(chunk) for text in texts for chunk in text.chunks]
        width = self.arrays[texts[0].cache_key[0]].shape[1]
        x_ctd = np.zeros((len(lengths), length, width), dtype=np.float32)
        chunk = 0
        for text in texts:
            name, number = text.cache_key
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

    def features(self, texts: Sequence[EncodedText], reads: Reads, adapters: InUse | None = None) -> Tensor:
        """Return the state that `reads` names of each text (b, d); the mean over the chunks of a long one."""
        if self.cache is not None:
            return self.cache.features(texts, reads)
        batch, below, owner_c = self._batch(texts)
        return average_chunks(self.transformer.features(reads, batch, below, adapters), owner_c)

    def _batch(self, texts: Sequence[EncodedText]) -> tuple[Batch, Below | None, Tensor | None]:
        """The chunks of all texts, what is there of their states, and which text each belongs to."""
        batch, owner_c = collate(texts, self.transformer.shape.pad_id, self.device)
        return batch, None if self.lower is None else self.lower.below(texts, batch.ids_bt.shape[1]), owner_c

    def _head_features(self, texts: Sequence[EncodedText], head: str, adapters: InUse | None) -> Tensor:
        """Return the same, or what the head's recurrent network makes of the states of each chunk (b, f)."""
        shape = self.transformer.head_shapes[head]
        if shape.recurrent is None or self.cache is not None:
            return self.features(texts, shape.reads, adapters)
        batch, below, owner_c = self._batch(texts)
        return average_chunks(self.transformer.inputs(head, batch, below=below, adapters=adapters), owner_c)

    def inputs(self, items: Sequence[Item], head: str, adapters: Composition | None = None) -> Tensor:
        """Return what the head is given of each text or pair, side by side, through its own adapters or these."""
        shape, through = self.transformer.head_shapes[head], self.transformer.through(head, adapters)
        pairs = [item for item in items if isinstance(item, EncodedPair)]
        if shape.pairs == "joint" and not pairs:
            return self._head_features(cast("Sequence[EncodedText]", items), head, through)
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
        self, items: Sequence[Item], head: str, rule: BatchRule | None = None, adapters: Composition | None = None
    ) -> Tensor:
        """Return the same of many, in their order, as float64 on the CPU, without gradients."""
        out: Tensor | None = None
        rule, lengths = rule or rule_for(self.device), [item.tokens for item in items]
        if self.cache is not None:
            rule, lengths = BatchRule(rule.rows, None), [1] * len(items)
        with torch.inference_mode():
            for rows in batches(lengths, rule):
                scores_bk = self.scores([items[i] for i in rows], head, adapters).cpu().double()
                if out is None:
                    out = scores_bk.new_empty(len(items), scores_bk.shape[1])
                out[rows] = scores_bk
        return torch.empty(0, 1, dtype=torch.float64) if out is None else out

    def all_features(
        self, texts: Sequence[EncodedText], reads: Reads, out: npt.NDArray[np.float32], rule: BatchRule
    ) -> None:
        """Put the state that `reads` names of each text into `out` (n, d), through the active adapters."""
        through = self.transformer.through(None)

        def compute(rows: list[int]) -> npt.NDArray[np.float32]:
            return self.features([texts[i] for i in rows], reads, through).float().cpu().numpy()

        fill(out, [text.tokens for text in texts], rule, compute)

    def seconds(self, texts: Sequence[Item], head: str, size: int = 32, most: float = 1.0) -> float:
        """How long all their scores take, in batches of similar length. What would take longer than `most` seconds is
        concluded from a part of it, by its tokens."""
        order = sorted(texts, key=lambda text: -text.tokens)
        parts = [order[at : at + size] for at in range(0, len(order), size)]
        parts = parts[1::2] + parts[::2]  # neither only the longest nor only the shortest
        self.all_scores(parts[0][:2], head)  # the first call of all is slower than those that follow
        done, started = 0, time.perf_counter()
        for batch in parts:
            self.all_scores(batch, head)
            done += sum(text.tokens for text in batch)
            spent = time.perf_counter() - started
            if spent > most:
                break
        return spent * sum(text.tokens for text in texts) / done


def collate(texts: Sequence[EncodedText], pad_id: int | None, device: torch.device) -> tuple[Batch, Tensor | None]:
    """Return the chunks of all texts, and which text each belongs to (None if every text is one chunk)."""
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
    """Return scores in which a loss can be computed: bfloat16 is too coarse for it."""
    return scores.to(torch.promote_types(scores.dtype, torch.float32))
