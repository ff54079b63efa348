"""Encoder and decoder as transformers ("Attention Is All You Need"): two bodies, and scores of the target's tokens."""

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor, nn

from heedful.models.batch import Batch
from heedful.models.body import Cache, Memory, States
from heedful.models.modules import lay_out
from heedful.models.next_token import place
from heedful.models.seq2seq.protocol import Step
from heedful.models.seq2seq.shape import Seq2SeqShape, contradiction
from heedful.models.stack import Draw, Stack
from heedful.models.transformer import LAST
from heedful.nn.attention import draw_glorot
from heedful.nn.blocks import FUSED, Kernels, Read
from heedful.nn.heads import TargetHead


class Seq2SeqTransformer(nn.Module):
    """A `heedful.models.seq2seq.protocol.Seq2Seq`: sources are a `Batch`, what is encoded is a `Memory`."""

    def __init__(
        self,
        shape: Seq2SeqShape,
        kernels: Kernels = FUSED,
        encoder: Stack | None = None,
        decoder: Stack | None = None,
    ) -> None:
        """`encoder`, `decoder`: the bodies, where their blocks are made in another way than the shape says."""
        super().__init__()
        if wrong := contradiction(shape):
            raise ValueError(wrong)
        self.shape = shape
        self.encoder = encoder or Stack(shape.source, kernels)
        self.decoder = decoder or Stack(shape.target, kernels)
        if shape.shared == "all":
            self.decoder.embeddings.token = self.encoder.embeddings.token
        self.output = TargetHead(
            shape.target.width, shape.target.vocabulary, tied=shape.shared != "none", bias=shape.output_bias
        )
        lay_out(self)

    def forward(self, source: Batch, target: Batch, read: Read | None = None) -> Tensor:
        return self.decode(self.encode(source), target, read)

    def encode(self, source: Batch, beside: Memory | None = None) -> Memory:
        """Texts may be packed: the target's block of a number looks at the source's. `beside`: a memory that the blocks
        of both sides look at, where they are made to."""
        states: States = self.encoder(source, memory=beside)
        return Memory(states.last, source.real_bt, source.blocks_bt, beside)

    def decode(self, encoded: Memory, target: Batch, read: Read | None = None) -> Tensor:
        states: States = self.decoder(target, read, memory=encoded)
        return self._scores(states.last)

    def step(
        self,
        encoded: Memory,
        ids_bn: Tensor,
        real_bn: Tensor | None,
        kept: Cache | None,
        want_weights: bool = False,
    ) -> Step[Cache]:
        """The weights are the mean over the heads of the last block."""
        cache, memory = (Cache(), encoded) if kept is None else (kept, None)
        batch = place(self.decoder.shape, ids_bn, real_bn, cache)
        states: States = self.decoder(batch, None if want_weights else LAST, want_weights, memory, cache)
        assert states.cache is not None
        weights = None if states.memory_weights is None else states.memory_weights[-1].mean(dim=1)
        return Step(self._scores(states.last[:, -1]), states.cache, weights)

    def _scores(self, x: Tensor) -> Tensor:
        return self.output(x, self.decoder.embeddings.token.weight)  # type: ignore[no-any-return]

    def initialise(self, generator: torch.Generator, only: tuple[str, ...] = ("",)) -> None:
        """Fresh weights for the parts whose name begins with one of `only`: "encoder.embeddings.", "encoder.blocks.0.",
        …, "decoder.norm.", "output."."""
        for name, draw in self.parts():
            if f"{name}.".startswith(only):
                draw(generator)

    def parts(self) -> Iterator[tuple[str, Draw]]:
        """As `heedful.models.body` says. A table that is shared belongs to the encoder's embeddings."""
        for side, body in (("encoder", self.encoder), ("decoder", self.decoder)):
            for name, draw in body.parts():
                if side == "decoder" and name == "embeddings" and self.shape.shared == "all":
                    sigma = self.shape.target.initializer_range
                    draw = partial(body.embeddings.draw, sigma=sigma, with_tokens=False)
                yield f"{side}.{name}", draw
                if name.startswith("blocks.") and self.shape.initial == "glorot":
                    yield f"{side}.{name}", partial(draw_glorot, body.get_submodule(name))
        yield "output", partial(self.output.draw, sigma=self.shape.target.initializer_range)
