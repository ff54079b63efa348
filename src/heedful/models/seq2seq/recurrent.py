"""Recurrent encoder and decoder with attention (Bahdanau et al., 2015; Luong et al., 2015).

Letters: b sentences, s source tokens, t target tokens, n of them new, e the width of an embedding, d that of a state, l
layers.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from heedful.models.batch import Batch
from heedful.models.modules import lay_out
from heedful.models.seq2seq.protocol import Step
from heedful.models.seq2seq.shape import RecurrentShape, contradiction
from heedful.models.stack import Draw
from heedful.nn.blocks import Read, narrow
from heedful.nn.dropout import Dropout
from heedful.nn.heads import TargetHead
from heedful.nn.initial import draw_table
from heedful.nn.recurrent import RecurrentEncoder, RecurrentKind, draw_uniform
from heedful.nn.recurrent_attention import BahdanauDecoder, Bridge, Decoded, LuongDecoder, Source, State, make_score

_KINDS: dict[tuple[str, bool], RecurrentKind] = {
    ("gru", False): "gru",
    ("gru", True): "bigru",
    ("lstm", False): "lstm",
    ("lstm", True): "bilstm",
}


@dataclass(frozen=True)
class RecurrentMemory:
    """What is looked at, and where the decoder is; at the beginning, where the encoder left it."""

    source: Source
    state: State

    @property
    def rows(self) -> int:
        return len(self.source.states_bsd)

    def reorder(self, index_b: Tensor) -> "RecurrentMemory":
        """Row i becomes what row index_b[i] was; a row may be taken several times, or not at all."""
        return RecurrentMemory(self.source.reorder(index_b), self.state.reorder(index_b))


class RecurrentSeq2Seq(nn.Module):
    """A `heedful.models.seq2seq.protocol.Seq2Seq`: sources are a `Batch`, a `RecurrentMemory` is encoded and kept.

    Texts are padded on the right; they cannot be packed. Up to the scores it computes in the precision of its weights,
    whatever is cast around it: the errors of a long text add up.
    """

    def __init__(self, shape: RecurrentShape) -> None:
        super().__init__()
        if wrong := contradiction(shape):
            raise ValueError(wrong)
        self.shape = shape
        e, d, layers = shape.embedding, shape.width, shape.layers
        self.source_embedding = nn.Embedding(shape.source_vocabulary, e, shape.source_pad_id)
        self.target_embedding = self.source_embedding
        if shape.shared != "all":
            self.target_embedding = nn.Embedding(shape.target_vocabulary, e, shape.target_pad_id)
        kind, each_way = _KINDS[shape.cell, shape.two_ways], d // 2 if shape.two_ways else d
        self.encoder = RecurrentEncoder(kind, e, each_way, layers, shape.dropout)
        self.bridge = Bridge(shape.cell, d, layers)
        decoder = LuongDecoder if shape.decoder == "luong" else BahdanauDecoder
        self.decoder = decoder(shape.cell, make_score(shape.score, d), e, d, layers, shape.dropout)
        self.output = TargetHead(e, shape.target_vocabulary, tied=shape.shared != "none", bias=shape.output_bias)
        self.dropout = Dropout(shape.dropout)
        lay_out(self)

    def forward(self, source: Batch, target: Batch, read: Read | None = None) -> Tensor:
        return self.decode(self.encode(source), target, read)

    def encode(self, source: Batch) -> RecurrentMemory:
        _refuse_packed(source)
        with torch.autocast(source.ids_bt.device.type, enabled=False):
            x_bse = self.dropout(self.source_embedding(source.ids_bt))
            states_bsd, h_lbd, c_lbd = self.encoder(x_bse, source.real_bt)
            state: State = self.bridge(h_lbd, c_lbd)
            if self.decoder.FED:
                state = state._replace(fed=states_bsd.new_zeros(len(states_bsd), self.shape.embedding))
            hidden_bs = None if source.real_bt is None else ~source.real_bt.bool()
            return RecurrentMemory(Source(states_bsd, self.decoder.score.keys(states_bsd), hidden_bs), state)

    def decode(self, encoded: RecurrentMemory, target: Batch, read: Read | None = None) -> Tensor:
        _refuse_packed(target)
        # Padding comes after a target's end: no token that counts is computed from it.
        readout_bte = self._read_out(encoded, target.ids_bt, None).readout_bte
        return self._scores(readout_bte if read is None else narrow(readout_bte, read))

    def step(
        self,
        encoded: RecurrentMemory,
        ids_bn: Tensor,
        real_bn: Tensor | None,
        kept: RecurrentMemory | None,
        want_weights: bool = False,
    ) -> Step[RecurrentMemory]:
        kept = encoded if kept is None else kept
        decoded = self._read_out(kept, ids_bn, real_bn)
        scores_bv = self._scores(decoded.readout_bte[:, -1])
        return Step(
            scores_bv, RecurrentMemory(kept.source, decoded.state), decoded.weights_bts if want_weights else None
        )

    def _read_out(self, begun: RecurrentMemory, ids_bn: Tensor, real_bn: Tensor | None) -> Decoded:
        with torch.autocast(ids_bn.device.type, enabled=False):
            y_bne = self.dropout(self.target_embedding(ids_bn))
            return self.decoder(y_bne, begun.source, begun.state, real_bn)  # type: ignore[no-any-return]

    def _scores(self, readout: Tensor) -> Tensor:
        return self.output(self.dropout(readout), self.target_embedding.weight)  # type: ignore[no-any-return]

    def initialise(self, generator: torch.Generator, only: tuple[str, ...] = ("",)) -> None:
        """Fresh weights for the parts whose name begins with one of `only`: "source_embedding.", "target_embedding.",
        "encoder.", "bridge.", "decoder.", "output."."""
        for name, draw in self.parts():
            if f"{name}.".startswith(only):
                draw(generator)

    def parts(self) -> Iterator[tuple[str, Draw]]:
        """As `heedful.models.body` says. A table that is shared belongs to the source."""
        sigma, width = self.shape.initializer_range, self.shape.width
        yield "source_embedding", partial(draw_table, self.source_embedding, sigma=sigma)
        if self.shape.shared != "all":
            yield "target_embedding", partial(draw_table, self.target_embedding, sigma=sigma)
        yield "encoder", self.encoder.draw
        yield "bridge", partial(draw_uniform, self.bridge, width=width)
        yield "decoder", partial(draw_uniform, self.decoder, width=width)
        yield "output", partial(self.output.draw, sigma=sigma)


def _refuse_packed(batch: Batch) -> None:
    if batch.blocks_bt is not None:
        raise ValueError("a recurrent network reads a row from one end to the other: its texts cannot be packed")
