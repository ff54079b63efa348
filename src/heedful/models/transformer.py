"""A whole model: one body, and any number of heads on it by name."""

import contextlib
import threading
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn

from heedful.models.adapters import AdapterShape, FusionShape, InUse, in_use, parsed
from heedful.models.batch import Batch
from heedful.models.body import Below, States
from heedful.models.composition import Composition
from heedful.models.modules import lay_out
from heedful.models.shape import Head, Shape
from heedful.models.stack import Stack
from heedful.nn.activations import ACTIVATIONS
from heedful.nn.blocks import FUSED, Kernels
from heedful.nn.heads import LanguageModelHead, LinearHead, MaskedWordHead, Reads, TwoLayerHead, blocks_of, combine
from heedful.nn.norms import LayerNorm
from heedful.nn.recurrent import Recurrent, RecurrentHead, default_width

FIRST, LAST = slice(0, 1), slice(-1, None)
HeadModule = LinearHead | TwoLayerHead | RecurrentHead | MaskedWordHead | LanguageModelHead
_PACKED = "one state of each row is not one of each text where texts are packed; split them first"


class Transformer(nn.Module):
    def __init__(self, shape: Shape, heads: Mapping[str, Head] | None = None, kernels: Kernels = FUSED) -> None:
        super().__init__()
        self.shape = shape
        self.head_shapes = dict(heads or {})
        self.body = Stack(shape, kernels)
        self.heads = nn.ModuleDict({name: make_head(shape, head, kernels) for name, head in self.head_shapes.items()})
        self.adapters, self.fusions = nn.ModuleDict(), nn.ModuleDict()  # see heedful.models.adapters
        self.adapter_shapes: dict[str, AdapterShape] = {}
        self.fusion_shapes: dict[str, FusionShape] = {}
        self.active: Composition | None = None
        """The adapters through which texts are read where no head says which."""
        lay_out(self)

    def forward(
        self, head: str, batch: Batch, second: Batch | None = None, adapters: Composition | None = None
    ) -> Tensor:
        """Return the scores of one head: (b, classes), or (b, t, vocabulary) for a head that scores the vocabulary.
        `second`: the other texts of pairs, for a head that reads them in towers. `adapters`: those to read through
        instead of the head's own.

        The last block is computed only where the head reads.
        """
        module, shape = self.heads[head], self.head_shapes[head]
        if (second is None) != (shape.pairs == "joint"):
            raise ValueError(f"the head {head!r} reads pairs {shape.pairs}")
        through = self.through(head, adapters)
        x = self.inputs(head, batch, adapters=through)
        if second is not None:
            x = combine(x, self.inputs(head, second, adapters=through), shape.pairs)
        if isinstance(module, (MaskedWordHead, LanguageModelHead)):
            return module(x, self.body.embeddings.token.weight)  # type: ignore[no-any-return]
        return module(x)  # type: ignore[no-any-return]

    def through(self, head: str | None, adapters: Composition | None = None) -> InUse | None:
        """Return what a pass needs to read through these adapters; by default through those of the head, or without a
        head through the active ones. None: there are none."""
        if adapters is None:
            adapters = self.active if head is None else parsed(self.head_shapes[head].adapters)
        return in_use(self, adapters)

    def inputs(
        self,
        head: str,
        batch: Batch,
        states: States | None = None,
        below: Below | None = None,
        adapters: InUse | None = None,
    ) -> Tensor:
        """Return what a head is given of each text: `features`, or what its recurrent network makes of them (b, f).
        `states`: if they are known already."""
        module, reads = self.heads[head], self.head_shapes[head].reads
        if isinstance(module, RecurrentHead) and batch.blocks_bt is not None:
            raise ValueError(_PACKED)
        x = self.features(reads, batch, below, adapters) if states is None else self.pick(states, reads, batch)
        return module.extractor(x, batch.real_bt) if isinstance(module, RecurrentHead) else x

    def features(self, reads: Reads, batch: Batch, below: Below | None = None, adapters: InUse | None = None) -> Tensor:
        """Return what a head with these `reads` is given: one state of each text (b, d), or every one; no more is
        computed. `below`: states of the lower blocks, if they are known. `adapters`: what `through` gives."""
        if reads == "last" and batch.blocks_bt is None:
            read = LAST if batch.real_bt is None else last_real(batch.real_bt)
            states: States = self.body(batch, read, below=below, adapters=adapters)
            return states.last[:, 0]
        first = FIRST if reads in ("first", "pooled") else None
        return self.pick(self.body(batch, first, below=below, adapters=adapters), reads, batch)

    def pick(self, states: States, reads: Reads, batch: Batch) -> Tensor:
        """The same from states that are there already."""
        x_btd, real_bt = states.last, batch.real_bt
        if reads == "every":
            return x_btd
        if batch.blocks_bt is not None:
            raise ValueError(_PACKED)
        if reads == "first":
            return x_btd[:, 0]
        if reads == "pooled":
            if self.body.pooler is None:
                raise ValueError("this model has no pooler")
            return self.body.pooler(x_btd[:, 0])  # type: ignore[no-any-return]
        if real_bt is None:
            return {"last": lambda: x_btd[:, -1], "mean": lambda: x_btd.mean(1), "max": lambda: x_btd.amax(1)}[reads]()
        if reads == "last":
            last_b = last_real(real_bt)
            return x_btd[torch.arange(len(last_b), device=last_b.device), last_b]
        real_bt1 = real_bt[:, :, None]
        if reads == "mean":
            return (x_btd * real_bt1).sum(dim=1) / real_bt1.sum(dim=1)
        return x_btd.masked_fill(~real_bt1, -torch.inf).amax(dim=1)

    def calibrate(self, head: str, temperature: float) -> None:
        """From now on the scores of a classifier are divided by the temperature: its last layer is."""
        output = cast(LinearHead | TwoLayerHead | RecurrentHead, self.heads[head]).output
        with torch.no_grad():
            for p in output.parameters():
                p.div_(temperature)
        before = self.head_shapes[head]
        self.head_shapes[head] = replace(before, temperature=before.temperature * temperature)

    def initialise(self, generator: torch.Generator, only: tuple[str, ...] = ("",)) -> None:
        """Fresh weights for the parts whose name begins with one of `only`: "body.embeddings.", "body.blocks.0.", …,
        "body.norm.", "body.pooler.", "heads.NAME."."""
        sigma = self.shape.initializer_range
        parts = [(f"body.{name}.", draw) for name, draw in self.body.parts()]
        for name, head in self.heads.items():
            parts.append((f"heads.{name}.", partial(cast(HeadModule, head).draw, sigma=sigma)))
        for name, draw in parts:
            if name.startswith(only):
                draw(generator)


def last_real(real_bt: Tensor) -> Tensor:
    """(b): the index of the last token of each text that is not padding."""
    places = torch.arange(real_bt.shape[1], device=real_bt.device)
    return (real_bt.long() * places).argmax(dim=1)


def make_head(shape: Shape, head: Head, kernels: Kernels) -> nn.Module:
    if head.kind in ("linear", "two-layer"):
        if head.recurrent is None:
            return _make_classifier(shape, head, shape.width)
        if head.reads != "every":
            raise ValueError(f"a recurrent network reads every state, not {head.reads!r}")
        each_way = head.recurrent_width or default_width(head.recurrent, shape.width)
        extractor = Recurrent(head.recurrent, shape.width, each_way)
        return RecurrentHead(extractor, _make_classifier(shape, head, extractor.width))
    if head.kind == "next-sentence":
        return LinearHead(shape.width, 2)
    if head.kind == "masked-word":
        norm = LayerNorm(shape.width, shape.norm_eps, kernels.normalise)
        return MaskedWordHead(shape.width, shape.vocabulary, ACTIVATIONS[head.activation], norm)
    return LanguageModelHead()


def _make_classifier(shape: Shape, head: Head, width: int) -> LinearHead | TwoLayerHead:
    """`width`: of what it is given of each text."""
    dropout = next(p for p in (head.dropout, shape.head_dropout, shape.dropout) if p is not None)
    width = sum(blocks_of(width, head.pairs))
    if head.kind == "linear":
        return LinearHead(width, head.classes, dropout, head.bias)
    activation = ACTIVATIONS[head.activation]
    return TwoLayerHead(width, shape.width, head.classes, dropout, activation, head.input_dropout)


_EVALUATED: weakref.WeakKeyDictionary[nn.Module, int] = weakref.WeakKeyDictionary()
_LOCK = threading.Lock()


@contextlib.contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Turn dropout off inside, for all threads that are inside; the last one that leaves turns it on again."""
    with _LOCK:
        users = _EVALUATED.get(module, 0)
        switched = users > 0 or module.training
        if switched:
            _EVALUATED[module] = users + 1
            module.eval()
    try:
        yield
    finally:
        if switched:
            with _LOCK:
                _EVALUATED[module] -= 1
                if not _EVALUATED[module]:
                    del _EVALUATED[module]
                    module.train()
