"""What a model is made of, in our words: one `Shape` for its body, one `Head` for each head."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:  # listing the shapes must not wait for torch
    from heedful.nn.heads import Reads

HeadKind = Literal["linear", "two-layer", "masked-word", "next-sentence", "language-model"]


@dataclass(frozen=True)
class Shape:
    """The sizes of a body. `family` decides the wiring: "bert", "roberta", "distilbert" or "gpt2"."""

    family: str
    vocabulary: int
    width: int
    layers: int
    heads: int
    inner: int
    positions: int
    segments: int = 0
    activation: str = "gelu"
    norm_eps: float = 1e-12
    dropout: float = 0.1
    embedding_dropout: float = 0.1
    attention_dropout: float = 0.1
    """On the attention weights."""
    attention_output_dropout: float = 0.1
    """On what attention adds to the stream; `dropout` is on what the feed-forward network adds."""
    head_dropout: float | None = None
    """Dropout in the classification head; None: as in the body."""
    initializer_range: float = 0.02
    pad_id: int | None = 0
    pooler: bool = False


@dataclass(frozen=True)
class Head:
    kind: HeadKind
    reads: "Reads"
    classes: int = 0
    """Outputs of a classification head; 0 for the heads that score the vocabulary."""
    activation: str = "tanh"
    bias: bool = True


def _bert(layers: int, width: int, heads: int) -> Shape:
    return Shape(
        family="bert", vocabulary=30522, width=width, layers=layers, heads=heads, inner=4 * width, positions=512,
        segments=2, pooler=True,
    )  # fmt: skip


NAMED_SHAPES: dict[str, Shape] = {
    "bert-tiny": _bert(2, 128, 2),
    "bert-mini": _bert(4, 256, 4),
    "bert-small": _bert(4, 512, 8),
    "bert-medium": _bert(8, 512, 8),
    "bert-base": _bert(12, 768, 12),
    "distilbert-base": Shape(
        family="distilbert", vocabulary=30522, width=768, layers=6, heads=12, inner=3072, positions=512,
        attention_output_dropout=0.0, head_dropout=0.2,
    ),
    "roberta-base": Shape(
        family="roberta", vocabulary=50265, width=768, layers=12, heads=12, inner=3072, positions=514, segments=1,
        norm_eps=1e-5, pad_id=1, pooler=True,
    ),
    "gpt2": Shape(
        family="gpt2", vocabulary=50257, width=768, layers=12, heads=12, inner=3072, positions=1024,
        activation="gelu_new", norm_eps=1e-5, pad_id=None, head_dropout=0.0,
    ),
}  # fmt: skip
