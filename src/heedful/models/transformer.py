"""A whole model: one body, and any number of heads on it by name."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from heedful.models.body import States
from heedful.models.decoder import Decoder
from heedful.models.encoder import Encoder
from heedful.models.shape import Head, Shape
from heedful.nn.activations import ACTIVATIONS
from heedful.nn.blocks import FUSED, Kernels
from heedful.nn.heads import LanguageModelHead, LinearHead, MaskedWordHead, Reads, TwoLayerHead
from heedful.nn.norms import LayerNorm

FIRST = slice(0, 1)
_RESIDUAL = (".attention.output", ".feed_forward.down")


class Transformer(nn.Module):
    def __init__(self, shape: Shape, heads: Mapping[str, Head] | None = None, kernels: Kernels = FUSED) -> None:
        super().__init__()
        self.shape = shape
        self.head_shapes = dict(heads or {})
        self.body: Encoder | Decoder = (Decoder if shape.family == "gpt2" else Encoder)(shape, kernels)
        self.heads = nn.ModuleDict({name: make_head(shape, head, kernels) for name, head in self.head_shapes.items()})
        self._lay_out()

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
        module, reads = self.heads[head], self.head_shapes[head].reads
        x = self.features(reads, ids_bt, real_bt, segments_bt, positions_bt)
        if isinstance(module, (MaskedWordHead, LanguageModelHead)):
            return module(x, self.body.embeddings.token.weight)  # type: ignore[no-any-return]
        return module(x)  # type: ignore[no-any-return]

    def features(
        self,
        reads: Reads,
        ids_bt: Tensor,
        real_bt: Tensor | None = None,
        segments_bt: Tensor | None = None,
        positions_bt: Tensor | None = None,
    ) -> Tensor:
        """What a head with these `reads` is given: one state of each text (b, d), or every one; no more is computed."""
        read = FIRST if reads in ("first", "pooled") else None
        return self.pick(self.body(ids_bt, real_bt, segments_bt, positions_bt, read), reads, real_bt)

    def pick(self, states: States, reads: Reads, real_bt: Tensor | None = None) -> Tensor:
        """The same from states that are there already."""
        x_btd = states.last
        if reads == "every":
            return x_btd
        if reads == "first":
            return x_btd[:, 0]
        if reads == "pooled":
            if self.body.pooler is None:
                raise ValueError("this model has no pooler")
            return self.body.pooler(x_btd[:, 0])  # type: ignore[no-any-return]
        if real_bt is None:
            return {"last": lambda: x_btd[:, -1], "mean": lambda: x_btd.mean(1), "max": lambda: x_btd.amax(1)}[reads]()
        if reads == "last":
            places = torch.arange(real_bt.shape[1], device=real_bt.device)
            last_b = (real_bt.long() * places).argmax(dim=1)
            return x_btd[torch.arange(len(last_b), device=last_b.device), last_b]
        real_bt1 = real_bt[:, :, None]
        if reads == "mean":
            return (x_btd * real_bt1).sum(dim=1) / real_bt1.sum(dim=1)
        return x_btd.masked_fill(~real_bt1, -torch.inf).amax(dim=1)

    def _lay_out(self) -> None:
        """Store the matrices of linear maps column by column: no value changes, and a CPU multiplies short texts faster
        (docs/log.md). Always, as the order of sums and so the last bit depends on it."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                module.weight.data = module.weight.data.T.contiguous().T

    def initialise(self, generator: torch.Generator, only: tuple[str, ...] = ("",)) -> None:
        """Fresh weights for the modules whose name begins with one of `only`: matrices N(0, σ²), biases 0, gains 1."""
        sigma = self.shape.initializer_range
        # GPT-2 draws what is added to the stream more narrowly, by the number of additions (its paper, section 2.3).
        narrow = math.sqrt(2 * self.shape.layers) if self.shape.family == "gpt2" else 1.0
        with torch.no_grad():
            for name, module in self.named_modules():
                if not f"{name}.".startswith(only):
                    continue
                for key, p in module.named_parameters(recurse=False):
                    if isinstance(module, LayerNorm):
                        p.fill_(1.0 if key == "weight" else 0.0)
                    elif key == "weight":
                        p.normal_(0.0, sigma / narrow if name.endswith(_RESIDUAL) else sigma, generator=generator)
                    else:
                        p.zero_()
                if isinstance(module, nn.Embedding) and module.padding_idx is not None:
                    module.weight[module.padding_idx].zero_()


def make_head(shape: Shape, head: Head, kernels: Kernels) -> nn.Module:
    dropout = shape.dropout if shape.head_dropout is None else shape.head_dropout
    if head.kind == "linear":
        return LinearHead(shape.width, head.classes, dropout, head.bias)
    if head.kind == "two-layer":
        activation = ACTIVATIONS[head.activation]
        # DistilBERT, whose head alone has relu, drops nothing before the first layer.
        return TwoLayerHead(shape.width, head.classes, dropout, activation, head.activation != "relu")
    if head.kind == "next-sentence":
        return LinearHead(shape.width, 2)
    if head.kind == "masked-word":
        norm = LayerNorm(shape.width, shape.norm_eps, kernels.normalise)
        return MaskedWordHead(shape.width, shape.vocabulary, ACTIVATIONS[head.activation], norm)
    return LanguageModelHead()
