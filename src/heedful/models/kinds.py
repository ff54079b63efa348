"""The kinds of self-attention, by the name that `Shape.attention` gives.

A kind is a function that makes the attention of one layer: a module that is called as `MultiHeadAttention` is, and that
draws its own weights. A further kind is one more entry here.
"""

from collections.abc import Callable

from torch import nn

from heedful.models.shape import Shape
from heedful.nn.attention import MultiHeadAttention
from heedful.nn.blocks import Kernels
from heedful.nn.positions import RotaryAttention

AttentionKind = Callable[[Shape, int, Kernels], nn.Module]


def dot_product(shape: Shape, layer: int, kernels: Kernels) -> nn.Module:
    return MultiHeadAttention(shape.width, shape.heads, shape.attention_dropout, kernels.attend)


def rotary(shape: Shape, layer: int, kernels: Kernels) -> nn.Module:
    attend = RotaryAttention(attend=kernels.attend)
    return MultiHeadAttention(shape.width, shape.heads, shape.attention_dropout, attend)


ATTENTION_KINDS: dict[str, AttentionKind] = {"dot-product": dot_product, "rotary": rotary}
