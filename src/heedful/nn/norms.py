"""Layer normalisation ("Layer Normalization", 2016), and how a sublayer joins the residual stream."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from heedful.nn.dropout import Dropout

Normalise = Callable[[Tensor, Tensor, Tensor, float], Tensor]


def layer_norm(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    """The reference: γ (x − μ)/√(σ² + ε) + β, μ and the biased σ² over the last axis."""
    mu = x.mean(dim=-1, keepdim=True)
    variance = ((x - mu) ** 2).mean(dim=-1, keepdim=True)
    return gain * (x - mu) / torch.sqrt(variance + eps) + bias


def fused_layer_norm(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    """The twin of `layer_norm` in one kernel."""
    return F.layer_norm(x, gain.shape, gain, bias, eps)


class LayerNorm(nn.Module):
    def __init__(self, width: int, eps: float, normalise: Normalise = fused_layer_norm) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.eps, self.normalise = eps, normalise

    def forward(self, x: Tensor) -> Tensor:
        return self.normalise(x, self.weight, self.bias, self.eps)

    @torch.no_grad()
    def draw(self, generator: torch.Generator) -> None:
        self.weight.fill_(1.0)
        self.bias.zero_()


Slot = Callable[[Tensor, Tensor, nn.Module | None], Tensor]
"""What joins a sublayer's output y to the stream x: called with y, x and the norm that follows (None if none does), it
returns the stream afterwards."""


def add(y: Tensor, x: Tensor, norm: nn.Module | None) -> Tensor:
    """Join a sublayer to the stream without adapters: the residual connection, then the norm."""
    return x + y if norm is None else norm(x + y)


class _Wiring(nn.Module):
    """The wiring around one sublayer f: `enter` gives what f reads, `leave` what the stream is afterwards.

    `slot` is how f's output joins the stream: `add`, or through the adapters in use. It is an argument of the pass, so
    that several passes with different adapters can share one body.
    """

    def __init__(self, norm: LayerNorm, dropout: float) -> None:
        super().__init__()
        self.norm = norm
        self.dropout = Dropout(dropout)

    def draw(self, generator: torch.Generator) -> None:
        self.norm.draw(generator)


class PostNorm(_Wiring):
    """x ← LayerNorm(x + f(x)): the transformer of the paper, BERT."""

    def enter(self, x: Tensor) -> Tensor:
        return x

    def leave(self, y: Tensor, x: Tensor, slot: Slot = add) -> Tensor:
        return slot(self.dropout(y), x, self.norm)


class PreNorm(_Wiring):
    """x ← x + f(LayerNorm(x)): GPT-2."""

    def enter(self, x: Tensor) -> Tensor:
        return self.norm(x)  # type: ignore[no-any-return]

    def leave(self, y: Tensor, x: Tensor, slot: Slot = add) -> Tensor:
        return slot(self.dropout(y), x, None)


Residual = PostNorm | PreNorm
