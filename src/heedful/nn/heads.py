"""What reads the states: the pooler, and the heads that turn states into scores.

A head's `reads` says which states it is given: "first", "pooled" (the first through the pooler), "last" (of the real
tokens), their "mean" or "max", or "every" one (the heads that score the vocabulary, and those with a recurrent network,
`nn/recurrent.py`). A head of pairs reads them "joint", as one text, or in two "towers": the states u and v of each text
alone, which it is given as `combine` puts them together.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from heedful.nn.activations import Activation
from heedful.nn.dropout import Dropout
from heedful.nn.initial import draw_linear
from heedful.nn.norms import LayerNorm

Reads = Literal["pooled", "first", "last", "mean", "max", "every"]
ONE_STATE: tuple[Reads, ...] = ("pooled", "first", "last")
"""Those for which one token's state of the last block is enough."""
Pairs = Literal["joint", "towers", "cosine"]


@dataclass(frozen=True)
class HeadInput:
    """What a head reads of texts and of pairs; None: as the family's own heads do."""

    reads: Reads | None = None
    pairs: Pairs = "joint"


def blocks_of(width: int, pairs: Pairs) -> tuple[int, ...]:
    """The widths of what a head's input is made of, side by side."""
    return {"joint": (width,), "towers": (width, width, width, width, 1), "cosine": (1,)}[pairs]


def combine(u_bd: Tensor, v_bd: Tensor, pairs: Pairs) -> Tensor:
    """Of two towers: u, v, |u − v|, u ∘ v and their cosine side by side; or the cosine alone."""
    cosine_b1 = nn.functional.cosine_similarity(u_bd, v_bd, dim=1)[:, None]
    if pairs == "cosine":
        return cosine_b1
    return torch.cat([u_bd, v_bd, (u_bd - v_bd).abs(), u_bd * v_bd, cosine_b1], dim=1)


class Pooler(nn.Module):
    """tanh(W x₁ + b), x₁ the state of the first token."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width)

    def forward(self, first_bd: Tensor) -> Tensor:
        return torch.tanh(self.dense(first_bd))

    def draw(self, generator: torch.Generator, sigma: float) -> None:
        draw_linear(self.dense, generator, sigma)


class LinearHead(nn.Module):
    """W x + b. With two outputs and reading the pooled state it is BERT's next-sentence head."""

    def __init__(self, width: int, classes: int, dropout: float = 0.0, bias: bool = True) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(width, classes, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.output(self.dropout(x))  # type: ignore[no-any-return]

    def draw(self, generator: torch.Generator, sigma: float) -> None:
        draw_linear(self.output, generator, sigma)


class TwoLayerHead(nn.Module):
    """W₂ φ(W₁ x + b₁) + b₂; φ is tanh but in DistilBERT, where it is relu, and in RoFormer, where it is the body's."""

    def __init__(
        self,
        width: int,
        inner: int,
        classes: int,
        dropout: float = 0.0,
        activation: Activation = torch.tanh,
        input_dropout: bool = True,
    ) -> None:
        super().__init__()
        self.activation = activation
        self.input_dropout = Dropout(dropout if input_dropout else 0.0)
        self.dense = nn.Linear(width, inner)
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(inner, classes)

    def forward(self, x: Tensor) -> Tensor:
        h = self.activation(self.dense(self.input_dropout(x)))
        return self.output(self.dropout(h))  # type: ignore[no-any-return]

    def draw(self, generator: torch.Generator, sigma: float) -> None:
        draw_linear(self.dense, generator, sigma)
        draw_linear(self.output, generator, sigma)


class MaskedWordHead(nn.Module):
    """E LayerNorm(φ(W x + b)) + c, where E is the token table itself (tied), passed in so that it has one home."""

    def __init__(self, width: int, vocabulary: int, activation: Activation, norm: LayerNorm) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width)
        self.activation = activation
        self.norm = norm
        self.bias = nn.Parameter(torch.zeros(vocabulary))

    def forward(self, x_btd: Tensor, table_vd: Tensor) -> Tensor:
        h = self.norm(self.activation(self.dense(x_btd)))
        return nn.functional.linear(h, table_vd, self.bias)

    def draw(self, generator: torch.Generator, sigma: float) -> None:
        draw_linear(self.dense, generator, sigma)
        self.norm.draw(generator)
        nn.init.zeros_(self.bias)


class LanguageModelHead(nn.Module):
    """E x: the next token's scores from the token table (tied), without parameters of its own."""

    def forward(self, x_btd: Tensor, table_vd: Tensor) -> Tensor:
        return nn.functional.linear(x_btd, table_vd)

    def draw(self, generator: torch.Generator, sigma: float) -> None:
        """The table is the body's to draw."""


class TargetHead(nn.Module):
    """W x + b, the scores of the target's tokens. W is a token table (tied), passed in, or a matrix of its own."""

    def __init__(self, width: int, vocabulary: int, tied: bool = True, bias: bool = False) -> None:
        super().__init__()
        self.weight = None if tied else nn.Parameter(torch.empty(vocabulary, width))
        self.bias = nn.Parameter(torch.zeros(vocabulary)) if bias else None

    def forward(self, x_btd: Tensor, table_vd: Tensor) -> Tensor:
        return nn.functional.linear(x_btd, table_vd if self.weight is None else self.weight, self.bias)

    @torch.no_grad()
    def draw(self, generator: torch.Generator, sigma: float) -> None:
        if self.weight is not None:
            self.weight.normal_(0.0, sigma, generator=generator)
        if self.bias is not None:
            self.bias.zero_()
