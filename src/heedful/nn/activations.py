"""The activations that real checkpoints use, by the names that they use for them."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

Activation = Callable[[Tensor], Tensor]


def gelu_new(x: Tensor) -> Tensor:
    """GELU by the tanh approximation that GPT-2 was trained with."""
    return F.gelu(x, approximate="tanh")


ACTIVATIONS: dict[str, Activation] = {
    "gelu": F.gelu,
    "gelu_new": gelu_new,
    "leaky_relu": F.leaky_relu,
    "relu": F.relu,
    "silu": F.silu,
    "swish": F.silu,  # as Marian calls it
    "tanh": torch.tanh,
}
