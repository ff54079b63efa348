"""Small models of every kind that goes from sources to targets, and pairs of texts for them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from heedful.models.batch import Batch, pad
from heedful.models.seq2seq.bert_fused import BertFusedSeq2Seq, BertFusedSource
from heedful.models.seq2seq.decoder_only import DecoderOnly
from heedful.models.seq2seq.recurrent import RecurrentSeq2Seq
from heedful.models.seq2seq.shape import BertFusedShape, RecurrentShape, Seq2SeqShape, transformer_shape
from heedful.models.seq2seq.transformer import Seq2SeqTransformer
from heedful.models.shape import NAMED_SHAPES, Head, Shape
from heedful.models.stack import Stack
from heedful.models.transformer import Transformer
from heedful.nn.blocks import FUSED, Kernels

CPU = torch.device("cpu")
Rows = Sequence[list[int]]
SOURCES: Rows = [[7, 3, 9, 2], [5, 6, 7, 8, 9, 10, 2], [4, 2], [12, 13, 2]]
TARGETS: Rows = [[1, 5, 8], [1, 9], [1, 20, 21, 22, 23, 11], [1, 4, 6, 11]]

POST = transformer_shape(40, 30, layers=2, width=12, heads=3, inner=20, positions=32)


def change(shape: Seq2SeqShape, **both: Any) -> Seq2SeqShape:
    return replace(shape, source=replace(shape.source, **both), target=replace(shape.target, **both))


PRE = change(replace(POST, shared="none"), norm="pre", position_kind="learned", embedding_norm=True)
MARIAN = replace(
    change(POST, position_kind="sinusoidal-halves", activation="swish", vocabulary=40), shared="all", output_bias=True
)
WIDER_SOURCE = replace(
    POST, source=replace(POST.source, width=8, heads=2, layers=3), target=replace(POST.target, memory_width=8)
)
ROTARY = replace(
    POST,
    source=replace(POST.source, attention="rotary", position_kind="none"),
    target=replace(POST.target, attention="relative", position_kind="none"),
)
SHAPES: dict[str, Seq2SeqShape] = {
    "post": POST, "pre": PRE, "marian": MARIAN, "wider source": WIDER_SOURCE, "rotary": ROTARY,
}  # fmt: skip

GRU = RecurrentShape(40, 30, embedding=6, width=8, dropout=0.0)
RECURRENT: dict[str, RecurrentShape] = {
    "bahdanau": GRU,
    "bahdanau lstm": replace(GRU, cell="lstm", layers=2, two_ways=False, shared="none", output_bias=True),
    "bahdanau dot": replace(GRU, score="dot", layers=2),
    "luong": replace(GRU, decoder="luong", cell="lstm", score="dot", target_vocabulary=40, shared="all"),
    "luong gru": replace(GRU, decoder="luong", score="scaled-dot", layers=2, two_ways=False),
    "luong additive": replace(GRU, decoder="luong", output_bias=True),
}
OTHER = replace(NAMED_SHAPES["bert-tiny"], vocabulary=50, width=10, layers=2, heads=2, inner=14, positions=40)
BERT_FUSED: dict[str, BertFusedShape] = {
    "fused": BertFusedShape(POST, OTHER),
    "fused pre": BertFusedShape(PRE, replace(OTHER, segments=0, pooler=False), frozen=False),
}
GPT = replace(NAMED_SHAPES["gpt2"], vocabulary=40, width=12, layers=2, heads=3, inner=20, positions=40)
COUNTING = replace(
    NAMED_SHAPES["roberta-base"], vocabulary=40, width=12, layers=2, heads=3, inner=20, positions=48, segments=0,
    pooler=False, causal=True, pad_id=0,
)  # fmt: skip
DECODERS: dict[str, Shape] = {"decoder-only": GPT, "decoder-only counting": COUNTING}
KINDS = [*SHAPES, *RECURRENT, *BERT_FUSED, *DECODERS]
TRANSFORMERS = [*SHAPES, *BERT_FUSED]


def randomise(model: nn.Module, seed: int = 0, sigma: float = 0.4) -> None:
    """Larger than fresh weights are, so that nothing is all but lost; gains around 1."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(sigma * torch.randn(p.shape, generator=generator, dtype=torch.float64))
            if name.endswith("norm.weight"):
                p.add_(1.0)


def make(kind: str, kernels: Kernels = FUSED, dtype: torch.dtype = torch.float64) -> Any:
    model: nn.Module
    if kind in SHAPES:
        model = Seq2SeqTransformer(SHAPES[kind], kernels)
    elif kind in RECURRENT:
        model = RecurrentSeq2Seq(RECURRENT[kind])
    elif kind in BERT_FUSED:
        model = BertFusedSeq2Seq(BERT_FUSED[kind], Stack(BERT_FUSED[kind].bert, kernels), kernels)
    else:
        model = DecoderOnly(Transformer(DECODERS[kind], {"next": Head("language-model", "every")}, kernels), "next")
    model = model.to(dtype)
    randomise(model)
    return model.eval()


def other_tokens(rows: Rows) -> Rows:
    """The same texts as the other body has them: other tokens, and more of them."""
    return [[3, *[(7 * i + 5) % 47 + 1 for i in row for _ in range(1 + i % 2)]] for row in rows]


def batch_of(rows: Rows, extra: int = 0, junk: int = 0) -> Batch:
    """With so much more padding than needed, on which this token stands."""
    batch = pad(rows, None, junk, CPU)
    if not extra:
        return batch
    b, t = batch.ids_bt.shape
    ids_bt = torch.cat([batch.ids_bt, torch.full((b, extra), junk)], dim=1)
    real_bt = torch.arange(t + extra) < torch.tensor([len(row) for row in rows])[:, None]
    return Batch(ids_bt, real_bt)


def source_of(kind: str, rows: Rows, extra: int = 0, junk: int = 0) -> Any:
    batch = batch_of(rows, extra, junk)
    if kind in BERT_FUSED:
        return BertFusedSource(batch, batch_of(other_tokens(rows), extra and extra + 1, junk))
    return batch


@dataclass
class Found:
    scores: list[Tensor]
    """(t, v) of each target."""
    gradients: dict[str, Tensor]


def run(model: nn.Module, scores: Callable[[], list[Tensor]]) -> Found:
    """Scores, and the gradients of a loss that every one of them enters."""
    model.zero_grad()
    found = scores()
    torch.stack([(x**3).sum() for x in found]).sum().backward()
    gradients = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    return Found([x.detach() for x in found], gradients)


def cut(scores_btv: Tensor, targets: Rows = TARGETS) -> list[Tensor]:
    return [x[: len(row)] for x, row in zip(scores_btv, targets, strict=True)]


def assert_same(a: Found, b: Found, tolerance: float = 1e-10) -> None:
    for x, y in zip(a.scores, b.scores, strict=True):
        assert x.shape == y.shape
        assert (x - y).abs().max() <= tolerance
    assert a.gradients.keys() == b.gradients.keys()
    for name, gradient in a.gradients.items():
        scale = max(1.0, float(gradient.abs().max()))
        assert (gradient - b.gradients[name]).abs().max() <= tolerance * scale, name
