"""Small translators of every kind with tokenizers of their own, and what they say."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from heedful.checkpoints.translators import TranslationModel, TranslatorCheckpoint
from heedful.models.batch import Batch, pad
from heedful.models.seq2seq.bert_fused import BertFusedSeq2Seq, BertFusedSource
from heedful.models.seq2seq.decoder_only import DecoderOnly
from heedful.models.seq2seq.recurrent import RecurrentSeq2Seq
from heedful.models.seq2seq.shape import BertFusedShape, RecurrentShape, Seq2SeqShape, transformer_shape
from heedful.models.seq2seq.transformer import Seq2SeqTransformer
from heedful.models.shape import NAMED_SHAPES, Head, Shape
from heedful.models.transformer import Transformer
from heedful.text.pairs import PairTokenizer, train_pair_tokenizer
from heedful.text.tokenizer import Tokenizer
from heedful.text.training import train_on_texts

SOURCES = ["the cat sat on the mat", "a dog ran", "the dog sat", "a mat"]
TARGETS = ["die Katze saß auf der Matte", "ein Hund lief", "der Hund saß", "eine Matte"]
CPU = torch.device("cpu")
Kind = Mapping[str, Any]

PLAIN: Kind = {"kind": "transformer"}
KINDS: dict[str, Kind] = {
    "post": PLAIN,
    "pre": {**PLAIN, "norm": "pre", "shared": "none", "position_kind": "learned", "embedding_norm": True},
    "one table": {**PLAIN, "shared": "all", "output_bias": True, "position_kind": "sinusoidal-halves"},
    "rotary": {**PLAIN, "attention": "rotary", "position_kind": "none", "tokens": "bpe"},
    "wordpiece": {**PLAIN, "tokens": "wordpiece", "joint": False, "output_bias": True},
    "wider source": {**PLAIN, "joint": False, "source_width": 8},
    "bahdanau gru": {"kind": "recurrent", "joint": False},
    "bahdanau lstm": {"kind": "recurrent", "cell": "lstm", "layers": 2, "two_ways": False, "shared": "none",
                      "output_bias": True},
    "luong gru": {"kind": "recurrent", "decoder": "luong", "score": "scaled-dot", "tokens": "bpe"},
    "luong lstm": {"kind": "recurrent", "decoder": "luong", "cell": "lstm", "score": "dot", "shared": "all"},
    "fused": {"kind": "bert-fused"},
    "fused and tuned": {"kind": "bert-fused", "frozen": False, "drop_net": 0.5, "norm": "pre", "joint": False,
                        "segments": 0, "pooler": False},
    "decoder-only": {"kind": "decoder-only"},
    "decoder-only rotary": {"kind": "decoder-only", "attention": "rotary", "position_kind": "none", "tokens": "bpe"},
}  # fmt: skip


def randomise(model: nn.Module, seed: int = 0, sigma: float = 0.4) -> None:
    """Larger than fresh weights are, so that texts differ; gains around 1."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(sigma * torch.randn(p.shape, generator=generator))
            if name.endswith("norm.weight"):
                p.add_(1.0)


def pair_tokenizer(tokens: str = "characters", joint: bool = True, family: str = "heedful") -> PairTokenizer:
    return train_pair_tokenizer(
        SOURCES * 4, TARGETS * 4, tokens, 120 if tokens == "wordpiece" else 290, family, joint=joint
    )


def make(kind: str, seed: int = 0, **changes: Any) -> TranslatorCheckpoint:
    """`changes`: other options than those of `KINDS[kind]`."""
    options = {**KINDS[kind], **changes}
    tokenizers = pair_tokenizer(options.pop("tokens", "characters"), options.pop("joint", True))
    model, bert_tokenizer = _model(options.pop("kind"), tokenizers, options)
    randomise(model, seed)
    return TranslatorCheckpoint(
        model.eval(), tokenizers, bert_tokenizer, sources={n: "new" for n, _ in model.named_parameters()}
    )


def _model(kind: str, pair: PairTokenizer, options: dict[str, Any]) -> tuple[TranslationModel, Tokenizer | None]:
    if kind == "recurrent":
        return RecurrentSeq2Seq(RecurrentShape(pair.source.size, pair.target.size, 6, 8, **options)), None
    if kind == "decoder-only":
        shape = replace(NAMED_SHAPES["gpt2"], **_SIZES, vocabulary=pair.target.size, positions=80, **options)
        return DecoderOnly(Transformer(shape, {"causal": Head("language-model", "every")}), "causal"), None
    own = {key: options.pop(key) for key in ("frozen", "drop_net") if key in options}
    other = {key: options.pop(key) for key in ("segments", "pooler") if key in options}
    shape = sized(pair, **options)
    if kind == "transformer":
        return Seq2SeqTransformer(shape), None
    tokenizer = train_on_texts(SOURCES * 4, "wordpiece", 60, "bert")
    body = replace(
        NAMED_SHAPES["bert-tiny"],
        vocabulary=tokenizer.size,
        width=10,
        layers=2,
        heads=2,
        inner=14,
        positions=50,
        **other,
    )
    return BertFusedSeq2Seq(BertFusedShape(shape, body, **own), Transformer(body).body), tokenizer


_SIZES = {"layers": 2, "width": 12, "heads": 3, "inner": 20}


def sized(pair: PairTokenizer, **options: Any) -> Seq2SeqShape:
    width = options.pop("source_width", None)
    whole = {key: options.pop(key) for key in ("shared", "output_bias") if key in options}
    pad_id = pair.target.pad_id
    shape = transformer_shape(pair.source.size, pair.target.size, positions=40, pad_id=pad_id, **_SIZES)
    source, target = replace(shape.source, **options), replace(shape.target, **options)
    if width is not None:
        source, target = replace(source, width=width, heads=2), replace(target, memory_width=width)
    return replace(shape, source=source, target=target, **whole)


def batches(checkpoint: TranslatorCheckpoint) -> tuple[Any, Batch]:
    """The samples as a batch of sources and one of targets, which begin with their begin token."""
    encoded = checkpoint.tokenizers.encode(SOURCES, TARGETS)
    source = pad(encoded.sources, None, checkpoint.source_pad_id, CPU)
    target = pad([[checkpoint.begin_id, *row[:-1]] for row in encoded.targets], None, checkpoint.target_pad_id, CPU)
    if checkpoint.bert_tokenizer is None:
        return source, target
    other = pad([t.ids for t in checkpoint.bert_tokenizer.encode(SOURCES)], None, 0, CPU)
    return BertFusedSource(source, other), target


def scores(checkpoint: TranslatorCheckpoint) -> torch.Tensor:
    with torch.no_grad():
        return checkpoint.model.eval()(*batches(checkpoint))  # type: ignore[no-any-return]


def body_of(shape: Seq2SeqShape | BertFusedShape) -> Shape:
    return shape.source if isinstance(shape, Seq2SeqShape) else shape.translator.source
