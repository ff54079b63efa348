"""A whole model: one body, and any number of heads on it by name."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from heedful.models.body import States
from heedful.models.decoder import Decoder
from heedful.models.encoder import Encoder
from heedful.models.shape import Head, Shape
from heedful.nn.activations import ACTIVATIONS
from heedful.nn.blocks import FUSED, Kernels
from heedful.nn.heads import LanguageModelHead, LinearHead, MaskedWordHead, TwoLayerHead
from heedful.nn.norms import LayerNorm

FIRST = slice(0, 1)


class Transformer(nn.Module):
    def __init__(self, shape: Shape, heads: Mapping[str, Head] | None = None, kernels: Kernels = FUSED) -> None:
        super().__init__()
        self.shape = shape
        self.head_shapes = dict(heads or {})
        self.body: Encoder | Decoder = (Decoder if shape.family == "gpt2" else Encoder)(shape, kernels)
        self.heads = nn.ModuleDict({name: make_head(shape, head, kernels) for name, head in self.head_shapes.items()})

    def forward(
        self,
        head: str,
        ids_bt: Tensor,
        real_bt: Tensor | None = None,
        segments_bt: Tensor | None = None,
        positions_bt: Tensor | None = None,
    ) -> Tensor:
        """The scores of one head: (b, classes), or (b, t, vocabulary) for a head that reads every state.

        The last block is computed only where the head reads.
        """
        reads = self.head_shapes[head].reads
        read = FIRST if reads in ("first", "pooled") else None
        states = self.body(ids_bt, real_bt, segments_bt, positions_bt, read)
        return self.score(head, states, real_bt)

    def score(self, head: str, states: States, real_bt: Tensor | None = None) -> Tensor:
        """The scores of one head from states that are there already."""
        module = self.heads[head]
        if isinstance(module, (MaskedWordHead, LanguageModelHead)):
            return module(states.last, self.body.embeddings.token.weight)  # type: ignore[no-any-return]
        reads = self.head_shapes[head].reads
        return module(self.pick(states, reads, real_bt))  # type: ignore[no-any-return]

    def pick(self, states: States, reads: str, real_bt: Tensor | None = None) -> Tensor:
        """The one state (b, d) of each text that is called "first", "pooled" or "last"."""
        if reads == "last":
            if real_bt is None:
                return states.last[:, -1]
            places = torch.arange(real_bt.shape[1], device=real_bt.device)
            last_b = (real_bt.long() * places).argmax(dim=1)
            return states.last[torch.arange(len(last_b), device=last_b.device), last_b]
        first_bd = states.last[:, 0]
        if reads == "first":
            return first_bd
        if self.body.pooler is None:
            raise ValueError("this model has no pooler")
        return self.body.pooler(first_bd)  # type: ignore[no-any-return]

    def lay_out(self) -> None:
        """Store the matrices of linear maps column by column: no value changes, and a CPU multiplies a short text by
        them up to four times faster."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                module.weight.data = module.weight.data.T.contiguous().T

    def initialise(self, generator: torch.Generator, only: tuple[str, ...] = ("",)) -> None:
        """Fresh weights for the modules whose name begins with one of `only`: matrices N(0, σ²), biases 0, gains 1."""
        sigma = self.shape.initializer_range
        with torch.no_grad():
            for name, module in self.named_modules():
                if not f"{name}.".startswith(only):
                    continue
                for key, p in module.named_parameters(recurse=False):
                    if isinstance(module, LayerNorm):
                        p.fill_(1.0 if key == "weight" else 0.0)
                    elif key == "weight":
                        p.normal_(0.0, sigma, generator=generator)
                    else:
                        p.zero_()
                if isinstance(module, nn.Embedding) and module.padding_idx is not None:
                    module.weight[module.padding_idx].zero_()


def make_head(shape: Shape, head: Head, kernels: Kernels) -> nn.Module:
    dropout = shape.dropout if shape.head_dropout is None else shape.head_dropout
    if head.kind == "linear":
        return LinearHead(shape.width, head.classes, head.reads, dropout, head.bias)
    if head.kind == "two-layer":
        activation = ACTIVATIONS[head.activation]
        # DistilBERT, whose head alone has relu, drops nothing before the first layer.
        return TwoLayerHead(shape.width, head.classes, head.reads, dropout, activation, head.activation != "relu")
    if head.kind == "next-sentence":
        return LinearHead(shape.width, 2, head.reads)
    if head.kind == "masked-word":
        norm = LayerNorm(shape.width, shape.norm_eps, kernels.normalise)
        return MaskedWordHead(shape.width, shape.vocabulary, ACTIVATIONS[head.activation], norm)
    return LanguageModelHead()
