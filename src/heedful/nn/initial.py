"""How the parts draw their initial weights: matrices and tables N(0, σ²), biases 0, gains 1.

A part has a method `draw(generator, scale)`; what it is made of is drawn in the order in which it is written down, so
that a seed means the same weights for ever.
"""

from typing import NamedTuple

import torch
from torch import nn


class Scale(NamedTuple):
    """The standard deviations of a model's matrices."""

    sigma: float
    residual: float
    """Of the matrices whose product is added to the residual stream; GPT-2 draws them more narrowly."""


@torch.no_grad()
def draw_linear(linear: nn.Linear, generator: torch.Generator, sigma: float) -> None:
    linear.weight.normal_(0.0, sigma, generator=generator)
    if linear.bias is not None:
        linear.bias.zero_()


@torch.no_grad()
def draw_table(table: nn.Embedding, generator: torch.Generator, sigma: float) -> None:
    """The row of padding is zero."""
    table.weight.normal_(0.0, sigma, generator=generator)
    if table.padding_idx is not None:
        table.weight[table.padding_idx].zero_()
