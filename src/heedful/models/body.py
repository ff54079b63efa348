"""What every body gives back, and the stack of blocks that encoder and decoder share."""

from collections.abc import Iterable
from typing import NamedTuple

from torch import Tensor, nn

from heedful.models.shape import Shape
from heedful.nn.activations import ACTIVATIONS
from heedful.nn.attention import MultiHeadAttention
from heedful.nn.blocks import Block, FeedForward, Kernels
from heedful.nn.norms import LayerNorm, PostNorm, PreNorm


class States(NamedTuple):
    """`last` (b, t, d), or only the positions read; the rest only if everything was asked for."""

    last: Tensor
    layers: tuple[Tensor, ...] | None = None
    """The embeddings, then the states after each block."""
    weights: tuple[Tensor, ...] | None = None
    """The attention weights (b, h, t, s) of each block."""


def make_blocks(shape: Shape, kernels: Kernels, residual: type[PostNorm] | type[PreNorm]) -> nn.ModuleList:
    def around(dropout: float) -> PostNorm | PreNorm:
        return residual(LayerNorm(shape.width, shape.norm_eps, kernels.normalise), dropout)

    return nn.ModuleList(
        Block(
            MultiHeadAttention(shape.width, shape.heads, shape.attention_dropout, kernels.attend),
            FeedForward(shape.width, shape.inner, ACTIVATIONS[shape.activation]),
            around(shape.attention_output_dropout),
            around(shape.dropout),
        )
        for _ in range(shape.layers)
    )


def run_blocks(
    blocks: Iterable[nn.Module], x_btd: Tensor, mask: Tensor | None, read: slice | None, everything: bool
) -> States:
    """`read` narrows the last block to the positions that the caller will look at; `everything` keeps all states."""
    stack = list(blocks)
    layers, weights = [x_btd], []
    for i, block in enumerate(stack):
        narrow = read if i == len(stack) - 1 else None
        x_btd, w = block(x_btd, mask=mask, read=narrow, want_weights=everything)
        if everything:
            layers.append(x_btd)
            weights.append(w)
    return States(x_btd, tuple(layers), tuple(weights)) if everything else States(x_btd)
