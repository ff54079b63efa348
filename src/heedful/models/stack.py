"""The body of every transformer here: embeddings, then blocks. What kind of transformer it is, `Shape` says."""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn

from heedful.models.batch import Batch
from heedful.models.body import Below, Cache, Memory, States
from heedful.models.kinds import ATTENTION_KINDS
from heedful.models.shape import Shape
from heedful.nn.activations import ACTIVATIONS
from heedful.nn.attention import MemoryAttention
from heedful.nn.blocks import (
    FUSED,
    Block,
    BlockAdapters,
    FeedForward,
    Kept,
    Kernels,
    MemoryMask,
    MemoryStates,
    Read,
    narrow,
)
from heedful.nn.embeddings import Embeddings
from heedful.nn.heads import Pooler
from heedful.nn.initial import Scale
from heedful.nn.masks import block_mask, causal_mask, padding_mask
from heedful.nn.norms import LayerNorm, PostNorm, PreNorm, Residual
from heedful.nn.positions import SinusoidalPositions

Draw = Callable[[torch.Generator], None]
MakeBlock = Callable[[Shape, int, Kernels], nn.Module]
"""Of a shape, the number of the layer, and which of two equal computations runs: a module that is called, and draws its
weights, as `Block` does."""


class Stack(nn.Module):
    def __init__(self, shape: Shape, kernels: Kernels = FUSED, block: MakeBlock | None = None) -> None:
        """`block`: how a layer is made; None: as `make_block` does."""
        super().__init__()
        self.shape = shape
        self.embeddings = make_embeddings(shape, kernels)
        block = block or make_block
        self.blocks = nn.ModuleList(block(shape, layer, kernels) for layer in range(shape.layers))
        # In post-norm wiring the stream is normalised after every sublayer; in pre-norm wiring it never was.
        self.norm = LayerNorm(shape.width, shape.norm_eps, kernels.normalise) if shape.norm == "pre" else None
        self.pooler = Pooler(shape.width) if shape.pooler else None

    def forward(
        self,
        batch: Batch,
        read: Read | None = None,
        everything: bool = False,
        memory: Memory | None = None,
        cache: Cache | None = None,
        below: Below | None = None,
        adapters: Sequence[BlockAdapters] | None = None,
    ) -> States:
        """`read` narrows the last block, exactly, to the rows that the caller will look at: those of a slice, or one
        or several of each text by index, (b) or (b, r). `everything` keeps states and attention weights of all blocks.

        With a `cache` the batch holds the tokens that follow those in it, and the memory is given with the first of
        them alone. `batch.real_bt` then speaks of the new tokens. `below`: what `lower` gave for this batch.
        `adapters`: those that this pass uses in each block (`models/adapters.py: in_use`).
        """
        self._check(batch, memory, cache)
        positions = self._positions(batch, cache)
        x_btd: Tensor = self._embed(batch, positions) if below is None else below.x_btd
        memory_bsm = None if memory is None else _memory_states(memory)
        memory_mask = _memory_mask(batch, memory) if cache is None or not cache.layers else cache.memory_mask
        past: tuple[Kept, ...] = ()
        places, real_bs = (positions, positions), batch.real_bt
        if cache is not None:
            past, cache = cache.layers, cache.extend(batch, positions, memory_mask)
            places, real_bs = (positions, cache.positions_bs), cache.real_bs  # type: ignore[assignment]
        mask = self._mask(batch, real_bs, places[1].shape[-1])

        layers, weights, memory_weights, kept = [x_btd], [], [], []
        for i, block in enumerate(self.blocks):
            if below is not None and i < below.blocks:
                continue
            out = block(
                x_btd,
                mask,
                places,
                read if i == len(self.blocks) - 1 else None,
                memory_bsm,
                memory_mask,
                past[i] if past else None,
                everything,
                **({} if adapters is None else {"adapters": adapters[i]}),
            )
            x_btd = out.x_btd
            if everything:
                layers.append(x_btd)
                weights.append(out.weights)
                memory_weights.append(out.memory_weights)
            if cache is not None:
                kept.append(out.kept)
        if below is not None and below.blocks == len(self.blocks) and read is not None:
            x_btd = layers[-1] = narrow(x_btd, read)
        if self.norm is not None:
            x_btd = layers[-1] = self.norm(x_btd)
        grown = None if cache is None else Cache(tuple(kept), cache.positions_bs, cache.real_bs, memory_mask)
        if not everything:
            return States(x_btd, cache=grown)
        crossed = None if self.shape.memory_width is None else tuple(memory_weights)
        return States(x_btd, tuple(layers), tuple(weights), crossed, grown)

    def lower(self, batch: Batch, blocks: int) -> Below:
        """The states after the first so many blocks: `forward` can go on from them. For texts alone, without memory."""
        self._check(batch, None, None)
        positions = self._positions(batch, None)
        x_btd, mask = self._embed(batch, positions), self._mask(batch, batch.real_bt, batch.ids_bt.shape[1])
        for block in self.blocks[:blocks]:
            x_btd = block(x_btd, mask, (positions, positions)).x_btd
        return Below(x_btd, blocks)

    def _embed(self, batch: Batch, positions: Tensor) -> Tensor:
        return self.embeddings(batch.ids_bt, positions, batch.segments_bt)  # type: ignore[no-any-return]

    def _check(self, batch: Batch, memory: Memory | None, cache: Cache | None) -> None:
        if batch.segments_bt is not None and self.embeddings.segment is None:
            raise ValueError("this body has no segment table")
        if memory is not None and self.shape.memory_width is None:
            raise ValueError("this body looks at no memory: it has no memory_width")
        going_on = cache is not None and bool(cache.layers)
        if self.shape.memory_width is not None and (memory is None) != going_on:
            raise ValueError("the memory is given with the first tokens, and only with them: a cache keeps it")
        if cache is not None and not self.shape.causal:
            raise ValueError("only a causal body can go on from a cache: in others the past sees what follows")
        if cache is not None and batch.blocks_bt is not None:
            raise ValueError("packed texts cannot go on from a cache")
        if batch.blocks_bt is not None and batch.positions_bt is None:
            raise ValueError("packed texts need their positions: they are not counted along the row")
        while memory is not None:
            if (memory.blocks_bs is None) != (batch.blocks_bt is None):
                raise ValueError("of a packed text and its memory, both need their blocks")
            memory = memory.beside

    def _positions(self, batch: Batch, cache: Cache | None) -> Tensor:
        """(t), or each text's own (b, t)."""
        if batch.positions_bt is not None:
            return batch.positions_bt
        ids_bt, pad = batch.ids_bt, self.shape.pad_id
        if self.shape.positions_from == "zero":
            start = 0 if cache is None else cache.tokens
            return torch.arange(start, start + ids_bt.shape[1], device=ids_bt.device)
        assert pad is not None  # a shape that counts from it has it
        token = (ids_bt != pad).long()
        count = token.cumsum(dim=1)
        if cache is not None and cache.positions_bs is not None:
            count = count + (cache.positions_bs.amax(dim=1, keepdim=True) - pad)
        return count * token + pad

    def _mask(self, batch: Batch, real_bs: Tensor | None, keys: int) -> Tensor | None:
        """Once for all blocks."""
        mask = None
        if self.shape.causal:
            mask = causal_mask(batch.ids_bt.shape[1], keys, batch.ids_bt.device)
        own = None
        if batch.blocks_bt is not None:
            own = block_mask(batch.blocks_bt)
        elif real_bs is not None:
            own = padding_mask(real_bs)
        return mask if own is None else own if mask is None else mask & own

    def parts(self) -> Iterator[tuple[str, Draw]]:
        """See `heedful.models.body`."""
        sigma = self.shape.initializer_range
        # By the number of additions to the stream (GPT-2's paper, section 2.3).
        narrower = math.sqrt(2 * self.shape.layers) if self.shape.narrow_residuals else 1.0
        yield "embeddings", partial(self.embeddings.draw, sigma=sigma)
        for i, block in enumerate(self.blocks):
            yield f"blocks.{i}", partial(cast(Block, block).draw, scale=Scale(sigma, sigma / narrower))
        if self.norm is not None:
            yield "norm", self.norm.draw
        if self.pooler is not None:
            yield "pooler", partial(self.pooler.draw, sigma=sigma)


def make_embeddings(shape: Shape, kernels: Kernels) -> Embeddings:
    position: nn.Module | None = None
    if shape.position_kind == "learned":
        # Where positions are counted from the padding's, it stands at its own; neither row gets a gradient.
        pad_position = shape.pad_id if shape.positions_from == "pad" else None
        position = nn.Embedding(shape.positions, shape.width, padding_idx=pad_position)
    elif shape.position_kind.startswith("sinusoidal"):
        position = SinusoidalPositions(shape.width, shape.position_kind == "sinusoidal-halves")
    return Embeddings(
        nn.Embedding(shape.vocabulary, shape.width, padding_idx=shape.pad_id),
        position,
        nn.Embedding(shape.segments, shape.width) if shape.segments else None,
        LayerNorm(shape.width, shape.norm_eps, kernels.normalise) if shape.embedding_norm else None,
        shape.embedding_dropout,
        math.sqrt(shape.width) if shape.embedding_scale else 1.0,
    )


def make_block(shape: Shape, layer: int, kernels: Kernels) -> Block:
    memory_attention = around_memory = None
    if shape.memory_width is not None:
        memory_attention = make_memory_attention(shape, shape.memory_width, kernels)
        around_memory = make_residual(shape, shape.attention_output_dropout, kernels)
    return Block(
        make_attention(shape, layer, kernels),
        FeedForward(shape.width, shape.inner, ACTIVATIONS[shape.activation]),
        make_residual(shape, shape.attention_output_dropout, kernels),
        make_residual(shape, shape.dropout, kernels),
        memory_attention,
        around_memory,
    )


def make_attention(shape: Shape, layer: int, kernels: Kernels) -> nn.Module:
    if shape.attention not in ATTENTION_KINDS:
        raise ValueError(f"there is no attention {shape.attention!r}; choose {', '.join(ATTENTION_KINDS)}")
    return ATTENTION_KINDS[shape.attention].make(shape, layer, kernels)


def make_memory_attention(shape: Shape, memory_width: int, kernels: Kernels) -> MemoryAttention:
    return MemoryAttention(shape.width, memory_width, shape.heads, shape.attention_dropout, kernels.attend)


def make_residual(shape: Shape, dropout: float, kernels: Kernels) -> Residual:
    norm = LayerNorm(shape.width, shape.norm_eps, kernels.normalise)
    return PreNorm(norm, dropout) if shape.norm == "pre" else PostNorm(norm, dropout)


def _memory_states(memory: Memory) -> MemoryStates:
    return memory.states_bsm if memory.beside is None else (memory.states_bsm, memory.beside.states_bsm)


def _memory_mask(batch: Batch, memory: Memory | None) -> MemoryMask:
    if memory is None:
        return None
    if memory.beside is not None:
        return _one_mask(batch, memory), _one_mask(batch, memory.beside)
    return _one_mask(batch, memory)


def _one_mask(batch: Batch, memory: Memory) -> Tensor | None:
    if memory.blocks_bs is not None and batch.blocks_bt is not None:
        return block_mask(batch.blocks_bt, memory.blocks_bs)
    return None if memory.real_bs is None else padding_mask(memory.real_bs)
