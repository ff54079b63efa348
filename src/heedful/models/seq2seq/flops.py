"""Floating-point operations of sequence-to-sequence models, by formula: one forward pass over pairs of these lengths,
counted as in `heedful.models.flops`, the scores of the target's tokens included.

`read`: for how many target tokens of each pair scores are computed; None: all.
"""

from collections.abc import Sequence

from heedful.models.flops import MemorySize, forward_flops
from heedful.models.seq2seq.shape import BertFusedShape, RecurrentShape, Seq2SeqShape
from heedful.models.shape import Shape


def transformer_flops(
    shape: Seq2SeqShape, source: Sequence[int], target: Sequence[int], read: Sequence[int] | None = None
) -> int:
    return _encoder_decoder(shape, source, target, read, [])


def decoder_only_flops(
    shape: Shape, source: Sequence[int], target: Sequence[int], read: Sequence[int] | None = None
) -> int:
    scored = target if read is None else read
    together = [s + t for s, t in zip(source, target, strict=True)]
    return forward_flops(shape, together, scored) + 2 * sum(scored) * shape.width * shape.vocabulary


def bert_fused_flops(
    shape: BertFusedShape,
    source: Sequence[int],
    target: Sequence[int],
    bert: Sequence[int],
    read: Sequence[int] | None = None,
    kept: bool = False,
) -> int:
    """`bert`: the sources' lengths in the tokens of the other body. `kept`: its states are there already."""
    beside = MemorySize(shape.bert.width, bert)
    other = 0 if kept else forward_flops(shape.bert, bert)
    return other + _encoder_decoder(shape.translator, source, target, read, [beside])


def _encoder_decoder(
    shape: Seq2SeqShape,
    source: Sequence[int],
    target: Sequence[int],
    read: Sequence[int] | None,
    beside: list[MemorySize],
) -> int:
    memory = MemorySize(shape.source.width, source)
    scored = sum(target if read is None else read)
    return (
        forward_flops(shape.source, source, memories=beside)
        + forward_flops(shape.target, target, read, [memory, *beside])
        + 2 * scored * shape.target.width * shape.target.vocabulary
    )


def recurrent_flops(
    shape: RecurrentShape, source: Sequence[int], target: Sequence[int], read: Sequence[int] | None = None
) -> int:
    e, d, layers = shape.embedding, shape.width, shape.layers
    gates = {"gru": 3, "lstm": 4}[shape.cell]
    additive = shape.score == "additive"
    each_way = d // 2 if shape.two_ways else d
    into_layers = e + (layers - 1) * d  # the widths of what enters each layer, added up
    encoder_token = gates * d * (into_layers + layers * each_way) + (d * d if additive else 0)
    bridge = layers * d * d * (2 if shape.cell == "lstm" else 1)
    luong = shape.decoder == "luong"
    cells = gates * d * (into_layers + layers * d + (e if luong else d))  # the last: what is fed, or the context
    readout = 2 * d * e if luong else (2 * d + e) * 2 * e
    decoder_token = cells + readout + (d * d if additive else 0)
    scored = target if read is None else read
    return 2 * sum(
        s * encoder_token + bridge + t * (decoder_token + 2 * s * d) + rows * e * shape.target_vocabulary
        for s, t, rows in zip(source, target, scored, strict=True)
    )
