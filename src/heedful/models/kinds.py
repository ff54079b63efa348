"""The kinds of self-attention, by the name that `Shape.attention` gives.

A kind makes the attention of one layer: a module that is called as `MultiHeadAttention` is, and that draws its own
weights. A further kind is one more entry here, and its name in `Attention` (`recipes/schema.py`), which a test
compares with this.
"""

from collections.abc import Callable
from typing import NamedTuple

from torch import nn

from heedful.models.shape import Shape
from heedful.nn.attention import MultiHeadAttention
from heedful.nn.blocks import Kernels
from heedful.nn.positions import RelativeAttention, RotaryAttention
from heedful.nn.synthesizer import DenseScores, RandomScores, Scores, Synthesizer


class AttentionKind(NamedTuple):
    """How a layer's attention is made, and what it computes: numbers of matrix products, by which its operations are
    counted. The defaults are those of queries, keys and values."""

    make: Callable[[Shape, int, Kernels], nn.Module]
    """Of a shape, the number of the layer, and which of two equal computations runs."""
    row_maps: int = 2
    """Maps from d to d of each row that is computed, such as its query and its output."""
    text_maps: int = 2
    """Maps from d to d of each token that is looked at, such as its key and its value."""
    pair_products: int = 2
    """Multiplications with d numbers of each token that is looked at, for each row: q k and the weight with v."""
    replaces_positions: bool = False
    """Whether it is meant to stand in the place of positions that are added to the embeddings."""


def _dot_product(shape: Shape, layer: int, kernels: Kernels) -> nn.Module:
    return MultiHeadAttention(shape.width, shape.heads, shape.attention_dropout, kernels.attend)


def _rotary(shape: Shape, layer: int, kernels: Kernels) -> nn.Module:
    attend = RotaryAttention(attend=kernels.attend)
    return MultiHeadAttention(shape.width, shape.heads, shape.attention_dropout, attend)


def _relative(shape: Shape, layer: int, kernels: Kernels) -> nn.Module:
    attend = RelativeAttention(shape.heads, both_ways=not shape.causal, attend=kernels.attend)
    return MultiHeadAttention(shape.width, shape.heads, shape.attention_dropout, attend)


def _dense(shape: Shape, layer: int, kernels: Kernels) -> nn.Module:
    return _synthesizer(shape, DenseScores(shape.width, shape.heads, shape.positions))


def _random(shape: Shape, layer: int, kernels: Kernels) -> nn.Module:
    return _synthesizer(shape, RandomScores(shape.heads, shape.positions))


def _synthesizer(shape: Shape, scores: Scores) -> nn.Module:
    return Synthesizer(shape.width, shape.heads, scores, shape.attention_dropout)


ATTENTION_KINDS: dict[str, AttentionKind] = {
    "dot-product": AttentionKind(_dot_product),
    "rotary": AttentionKind(_rotary, replaces_positions=True),
    "relative": AttentionKind(_relative, replaces_positions=True),
    "synthesizer-dense": AttentionKind(_dense, text_maps=1),
    "synthesizer-random": AttentionKind(_random, row_maps=1, text_maps=1, pair_products=1),
}
