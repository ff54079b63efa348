"""What a sequence-to-sequence model is made of, in our words; what contradicts itself; the paper's wiring by sizes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from heedful.models.shape import Shape
from heedful.models.shape import contradiction as body_contradiction

if TYPE_CHECKING:  # listing the shapes must not wait for torch
    from heedful.nn.recurrent_attention import CellKind, ScoreKind

Shared = Literal["none", "output", "all"]
"""Which token tables are one: none; the target's and the output's; the source's too (a joint vocabulary)."""


@dataclass(frozen=True)
class Seq2SeqShape:
    """A transformer that encodes the source, and another, which looks at it, that decodes the target."""

    source: Shape
    target: Shape
    """Causal, and with a memory as wide as the source."""
    shared: Shared = "output"
    output_bias: bool = False
    """Whether each target token has a bias of its own in the scores (Marian's final_logits_bias)."""
    initial: Literal["glorot", "normal"] = "glorot"
    """How matrices are drawn: uniformly, by their sizes (Glorot), or N(0, initializer_range²), as tables always are."""


@dataclass(frozen=True)
class BertFusedShape:
    """A translator whose every layer looks at the states of another body of the source (Zhu et al., 2020)."""

    translator: Seq2SeqShape
    bert: Shape
    """Of the other body, whose width and vocabulary are its own."""
    drop_net: float = 1.0
    """p: in training, each attention beside the other is left out with probability p/2."""
    frozen: bool = True
    """Whether the other body stays as it is, and runs without dropout."""


@dataclass(frozen=True)
class RecurrentShape:
    """Recurrent networks with attention. The defaults are Bahdanau's paper's, but for its sizes."""

    source_vocabulary: int
    target_vocabulary: int
    embedding: int
    """The width of token embeddings, and of what the scores are made of."""
    width: int
    """Of the states of source and target; each way has half of it where the source is read in two."""
    layers: int = 1
    """Of the encoder, and of the decoder."""
    cell: "CellKind" = "gru"
    two_ways: bool = True
    """Whether the source is read from both ends."""
    decoder: Literal["bahdanau", "luong"] = "bahdanau"
    """Whether it looks at the source before each step, or after it (and is fed with what it read out before)."""
    score: "ScoreKind" = "additive"
    shared: Shared = "output"
    output_bias: bool = False
    dropout: float = 0.1
    """On embeddings, between layers, and on what the scores are made of."""
    initializer_range: float = 0.1
    """Of the tables; the matrices are drawn by their sizes."""
    source_pad_id: int | None = 0
    target_pad_id: int | None = 0


Called = Callable[[str], str]
"""What the reader calls a field: "source.width", …"""


def contradiction(shape: Seq2SeqShape | BertFusedShape | RecurrentShape, called: Called = str) -> str:
    """Which values of a shape cannot be together, in words; "" if all can."""
    if isinstance(shape, RecurrentShape):
        return _recurrent(shape, called)
    if isinstance(shape, BertFusedShape):
        return _bert_fused(shape, called)
    return _transformer(shape, called)


def _transformer(shape: Seq2SeqShape, called: Called) -> str:
    source, target = shape.source, shape.target
    for side, body in (("source", source), ("target", target)):
        if wrong := body_contradiction(body, lambda field, side=side: called(f"{side}.{field}")):  # type: ignore[misc]
            return wrong
        if body.pooler:
            return f"{called(f'{side}.pooler')} = true has no use in a model of sequences"
    if source.causal:
        return f"{called('source.causal')} = true: the source is read as a whole, so it must be false"
    if source.memory_width is not None:
        return f"{called('source.memory_width')} = {source.memory_width}: the source has no memory; remove it"
    if not target.causal:
        return f"{called('target.causal')} = false: the target would see later tokens; set it to true"
    if target.memory_width != source.width:
        return (
            f"{called('target.memory_width')} = {target.memory_width} is not {called('source.width')} = "
            f"{source.width}, which the target attends to"
        )
    if shape.shared == "all":
        for field in ("vocabulary", "width", "pad_id"):
            if getattr(source, field) != getattr(target, field):
                return _unshared(shape.shared, f"source.{field}", f"target.{field}", called)
    return ""


def _bert_fused(shape: BertFusedShape, called: Called) -> str:
    if wrong := _transformer(shape.translator, lambda field: called(f"translator.{field}")):
        return wrong
    if wrong := body_contradiction(shape.bert, lambda field: called(f"bert.{field}")):
        return wrong
    if shape.bert.causal:
        return f"{called('bert.causal')} = true: the states of an encoder are used; choose a body that is not causal"
    if shape.bert.memory_width is not None:
        return f"{called('bert.memory_width')} = {shape.bert.memory_width}: there is no memory to attend to"
    if not 0 <= shape.drop_net <= 1:
        return f"{called('drop_net')} = {shape.drop_net} is not between 0 and 1"
    return ""


def _recurrent(shape: RecurrentShape, called: Called) -> str:
    if shape.two_ways and shape.width % 2:
        return f"{called('two_ways')} = true needs an even {called('width')}, not {shape.width}"
    for side in ("source", "target"):
        pad, vocabulary = getattr(shape, f"{side}_pad_id"), getattr(shape, f"{side}_vocabulary")
        if pad is not None and pad >= vocabulary:
            return f"{called(f'{side}_pad_id')} = {pad} is outside the vocabulary"
    if shape.shared == "all":
        for field in ("vocabulary", "pad_id"):
            if getattr(shape, f"source_{field}") != getattr(shape, f"target_{field}"):
                return _unshared(shape.shared, f"source_{field}", f"target_{field}", called)
    return ""


def _unshared(shared: Shared, source: str, target: str, called: Called) -> str:
    return f'{called("shared")} = "{shared}" makes one table of two, and {called(source)} is not {called(target)}'


def transformer_shape(
    source_vocabulary: int,
    target_vocabulary: int,
    layers: int,
    width: int,
    heads: int,
    inner: int,
    positions: int = 512,
    dropout: float = 0.1,
    shared: Shared = "output",
    norm: Literal["post", "pre"] = "post",
    pad_id: int | None = 0,
) -> Seq2SeqShape:
    """The transformer of "Attention Is All You Need": sinusoidal positions, embeddings times √width, relu. Tables are
    drawn N(0, 1/width), so that what enters the first block is of size 1."""

    def body(vocabulary: int, causal: bool) -> Shape:
        return Shape(
            vocabulary=vocabulary, width=width, layers=layers, heads=heads, inner=inner, positions=positions,
            causal=causal, norm=norm, embedding_norm=False, embedding_scale=True, position_kind="sinusoidal",
            memory_width=width if causal else None, activation="relu", norm_eps=1e-5, dropout=dropout,
            embedding_dropout=dropout, attention_dropout=0.0, attention_output_dropout=dropout,
            initializer_range=width**-0.5, pad_id=pad_id,
        )  # fmt: skip

    return Seq2SeqShape(body(source_vocabulary, False), body(target_vocabulary, True), shared)
