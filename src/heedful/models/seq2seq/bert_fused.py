"""A translator that is given another body's states of the source ("Incorporating BERT into Neural Machine Translation",
Zhu et al., 2020): every layer of encoder and decoder looks at them beside its usual attention (`nn/bert_fused.py`)."""

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor, nn

from heedful.models.batch import Batch
from heedful.models.body import Cache, Memory, States
from heedful.models.seq2seq.protocol import Step
from heedful.models.seq2seq.shape import BertFusedShape, contradiction
from heedful.models.seq2seq.transformer import Seq2SeqTransformer
from heedful.models.shape import Shape
from heedful.models.stack import Stack, make_attention, make_block, make_memory_attention, make_residual
from heedful.nn.activations import ACTIVATIONS
from heedful.nn.attention import MemoryAttention
from heedful.nn.bert_fused import BertFusedEncoderBlock, BertFusedMemoryAttention
from heedful.nn.blocks import FUSED, FeedForward, Kernels, Read


@dataclass(frozen=True)
class BertFusedSource:
    """The same sources twice: in the tokens of the translator, and in those of the other body."""

    batch: Batch
    bert: Batch | Memory
    """Or the other body's states, where they are there already (`BertFusedSeq2Seq.bert_states`)."""


class BertFusedSeq2Seq(nn.Module):
    """A `heedful.models.seq2seq.protocol.Seq2Seq`: sources are a `BertFusedSource`, what is encoded is a `Memory`.

    A body that is frozen has no gradients and runs without dropout, in training too.
    """

    def __init__(self, shape: BertFusedShape, bert: Stack, kernels: Kernels = FUSED) -> None:
        """`bert`: the other body, with its weights."""
        super().__init__()
        if wrong := contradiction(shape):
            raise ValueError(wrong)
        if bert.shape != shape.bert:
            raise ValueError("the body that is given has another shape than `shape.bert` says")
        self.shape, self.bert = shape, bert
        encoder, decoder = make_bodies(shape, kernels)
        self.translator = Seq2SeqTransformer(shape.translator, kernels, encoder, decoder)
        if shape.frozen:
            bert.requires_grad_(False)
        self.train(self.training)

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        if self.shape.frozen:
            self.bert.eval()
        return self

    def forward(self, source: BertFusedSource, target: Batch, read: Read | None = None) -> Tensor:
        return self.decode(self.encode(source), target, read)

    def bert_states(self, batch: Batch) -> Memory:
        """The other body's last states; of a frozen one they are always the same, and can be kept."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.shape.frozen):
            states: States = self.bert(batch)
        return Memory(states.last, batch.real_bt, batch.blocks_bt)

    def encode(self, source: BertFusedSource) -> Memory:
        beside = self.bert_states(source.bert) if isinstance(source.bert, Batch) else source.bert
        if self.training and not self.shape.frozen and not beside.states_bsm.requires_grad:
            raise ValueError("a body that is tuned needs its tokens: no gradient goes through states that were kept")
        return self.translator.encode(source.batch, beside)

    def decode(self, encoded: Memory, target: Batch, read: Read | None = None) -> Tensor:
        return self.translator.decode(encoded, target, read)

    def step(
        self,
        encoded: Memory,
        ids_bn: Tensor,
        real_bn: Tensor | None,
        kept: Cache | None,
        want_weights: bool = False,
    ) -> Step[Cache]:
        """The weights are those of the tokens of the translator, not of the other body."""
        return self.translator.step(encoded, ids_bn, real_bn, kept, want_weights)

    @torch.no_grad()
    def take_over(self, plain: Seq2SeqTransformer) -> None:
        """The weights of a translator that was trained alone, with which the paper begins; what stands beside its
        attentions keeps its own."""
        own, given = self.translator.state_dict(), plain.state_dict()
        given = {n.replace(".memory_attention.", ".memory_attention.usual."): t for n, t in given.items()}
        for name in sorted(given.keys() | {name for name in own if ".beside." not in name}):
            if name not in own or name not in given or own[name].shape != given[name].shape:
                raise ValueError(f"the translator has other sizes than this one: {name} is not the same in both")
        for name, tensor in given.items():
            own[name].copy_(tensor)

    def initialise(self, generator: torch.Generator, only: tuple[str, ...] = ("",)) -> None:
        """As `Seq2SeqTransformer.initialise`, of parts that are called "translator.encoder.blocks.0." and so on; the
        other body keeps its weights."""
        for name, draw in self.translator.parts():
            if f"translator.{name}.".startswith(only):
                draw(generator)


def make_bodies(shape: BertFusedShape, kernels: Kernels) -> tuple[Stack, Stack]:
    """Encoder and decoder with a second attention in each layer."""
    translator, width = shape.translator, shape.bert.width

    def encoder_block(body: Shape, layer: int, kernels: Kernels) -> nn.Module:
        return BertFusedEncoderBlock(
            make_attention(body, layer, kernels),
            make_memory_attention(body, width, kernels),
            shape.drop_net,
            FeedForward(body.width, body.inner, ACTIVATIONS[body.activation]),
            make_residual(body, body.attention_output_dropout, kernels),
            make_residual(body, body.dropout, kernels),
        )

    def decoder_block(body: Shape, layer: int, kernels: Kernels) -> nn.Module:
        block = make_block(body, layer, kernels)
        usual, beside = block.memory_attention, make_memory_attention(body, width, kernels)
        assert isinstance(usual, MemoryAttention)  # a target's shape has a memory
        block.memory_attention = BertFusedMemoryAttention(usual, beside, shape.drop_net)
        return block

    source = replace(translator.source, memory_width=width)
    return Stack(source, kernels, encoder_block), Stack(translator.target, kernels, decoder_block)
