"""What a model is made of, in our words: one `Shape` for its body, one `Head` for each head."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:  # listing the shapes must not wait for torch
    from heedful.nn.heads import Pairs, Reads
    from heedful.nn.recurrent import RecurrentKind

_MOST_SCORED = 100_000
HeadKind = Literal["linear", "two-layer", "masked-word", "next-sentence", "language-model"]


@dataclass(frozen=True)
class Shape:
    """The sizes of a body, and how it is wired. The defaults are BERT's."""

    vocabulary: int
    width: int
    layers: int
    heads: int
    inner: int
    positions: int
    """Rows of the table of positions; where there is none, the most tokens that a text may have."""
    segments: int = 0
    """Rows of the table of segments; 0: there is none."""
    causal: bool = False
    """Whether a token sees only itself and what came before."""
    norm: Literal["post", "pre"] = "post"
    """Post-norm: each sublayer's sum is normalised. Pre-norm: each sublayer's input is, and the last states are."""
    embedding_norm: bool = True
    """Whether the embeddings are normalised before the first block."""
    embedding_scale: bool = False
    """Whether a token's embedding is multiplied by √width before positions are added ("Attention Is All You Need")."""
    position_kind: Literal["learned", "sinusoidal", "sinusoidal-halves", "none"] = "learned"
    """What is added to the token's embedding ("rotary" is a kind of attention). In halves: all sines, then all cosines
    (Marian), instead of each sine beside its cosine."""
    positions_from: Literal["zero", "pad"] = "zero"
    """Where positions are counted from: 0, or pad_id + 1 over the tokens that are not padding (RoBERTa)."""
    attention: str = "dot-product"
    """The kind of self-attention, a name in `heedful.models.kinds`."""
    memory_width: int | None = None
    """The width of the memory that every block looks at (cross attention); None: there is none."""
    activation: str = "gelu"
    norm_eps: float = 1e-12
    dropout: float = 0.1
    embedding_dropout: float = 0.1
    attention_dropout: float = 0.1
    """On the attention weights."""
    attention_output_dropout: float = 0.1
    """On what attention adds to the stream; `dropout` is on what the feed-forward network adds."""
    head_dropout: float | None = None
    """Dropout in the heads that do not have their own; None: as in the body."""
    initializer_range: float = 0.02
    narrow_residuals: bool = False
    """Whether what is added to the stream is drawn more narrowly, by the number of additions (GPT-2)."""
    pad_id: int | None = 0
    pooler: bool = False

    @property
    def first_position(self) -> int:
        """That of a text's first token."""
        return (self.pad_id or 0) + 1 if self.positions_from == "pad" else 0

    @property
    def longest(self) -> int:
        """The most tokens that a text may have."""
        return self.positions - self.first_position


def contradiction(shape: Shape, called: Callable[[str], str] = str) -> str:
    """Which values of a shape cannot be together, in words; "" if all can. `called`: what the reader calls a field."""
    width, heads, pad = shape.width, shape.heads, shape.pad_id
    if width % heads:
        return f"{called('width')} = {width} is not divisible by {called('heads')} = {heads}"
    if shape.attention == "rotary" and width // heads % 2:
        return (
            f'{called("attention")} = "rotary" turns pairs of numbers, and {called("width")} = {width} among '
            f"{called('heads')} = {heads} leaves each an odd {width // heads}"
        )
    if shape.position_kind.startswith("sinusoidal") and width % 2:
        return f'{called("position_kind")} = "{shape.position_kind}" needs an even {called("width")}, not {width}'
    if shape.attention == "synthesizer-random" and shape.positions > _MOST_SCORED:
        return (
            f'{called("attention")} = "synthesizer-random" has a score for each pair of positions, and '
            f"{called('positions')} = {shape.positions} is above {_MOST_SCORED}"
        )
    if pad is not None and pad >= shape.vocabulary:
        return f"{called('pad_id')} = {pad} is outside the vocabulary"
    if shape.positions_from == "pad" and pad is None:
        return f'{called("positions_from")} = "pad" needs a {called("pad_id")}'
    if shape.positions_from == "pad" and shape.positions <= shape.first_position:
        return f"{called('positions')} leaves no position after {called('pad_id')}"
    return ""


@dataclass(frozen=True)
class Head:
    kind: HeadKind
    reads: "Reads"
    classes: int = 0
    """Outputs of a classification head; 0 for the heads that score the vocabulary."""
    activation: str = "tanh"
    bias: bool = True
    labels: tuple[str, ...] = ()
    """The names of its classes in order; one for a head that gives a score; none for heads without classes to name."""
    chunked: bool = False
    """Whether it reads long texts in chunks whose features are averaged."""
    pairs: "Pairs" = "joint"
    """How it reads a pair: as one text, in two towers, or of those the cosine alone."""
    of_pairs: bool | None = None
    """Whether it was trained on pairs of texts; None: not known."""
    dropout: float | None = None
    """None: as `Shape.head_dropout` says."""
    input_dropout: bool = True
    """Of a two-layer head: whether there is dropout before its first layer too."""
    adapters: str = ""
    """The adapters through which it reads the body, as `heedful.models.composition` writes them; "": none."""
    recurrent: "RecurrentKind | None" = None
    """Of a classifier that reads every state: the network that makes one feature of them."""
    recurrent_width: int | None = None
    """Of its output, each way; None: the body's width, or half of it where there are two ways."""
    recalls: bool = False
    """Of a language model that answers questions: whether it says what it recalls, which may be nothing, and a marker
    before each answer."""
    temperature: float = 1.0
    """What its scores were divided by when it was calibrated: its weights hold that already."""


def main_head(heads: Mapping[str, Head]) -> str | None:
    """The head that is meant where none is named: "classify", or the only one with labels."""
    labelled = [name for name, head in heads.items() if head.labels]
    return "classify" if "classify" in heads else labelled[0] if len(labelled) == 1 else None


def _bert(layers: int, width: int, heads: int) -> Shape:
    return Shape(
        vocabulary=30522, width=width, layers=layers, heads=heads, inner=4 * width, positions=512,
        segments=2, pooler=True,
    )  # fmt: skip


def _gpt(layers: int, width: int, heads: int, positions: int, vocabulary: int) -> Shape:
    return Shape(
        vocabulary=vocabulary, width=width, layers=layers, heads=heads, inner=4 * width, positions=positions,
        causal=True, norm="pre", embedding_norm=False, narrow_residuals=True, activation="gelu_new", norm_eps=1e-5,
        pad_id=None, head_dropout=0.0,
    )  # fmt: skip


NAMED_SHAPES: dict[str, Shape] = {
    "bert-tiny": _bert(2, 128, 2),
    "bert-mini": _bert(4, 256, 4),
    "bert-small": _bert(4, 512, 8),
    "bert-medium": _bert(8, 512, 8),
    "bert-base": _bert(12, 768, 12),
    "distilbert-base": Shape(
        vocabulary=30522, width=768, layers=6, heads=12, inner=3072, positions=512,
        attention_output_dropout=0.0, head_dropout=0.2,
    ),
    "roberta-base": Shape(
        vocabulary=50265, width=768, layers=12, heads=12, inner=3072, positions=514, segments=1,
        positions_from="pad", norm_eps=1e-5, pad_id=1, pooler=True,
    ),
    "gpt2": _gpt(12, 768, 12, 1024, 50257),
    "gpt-mini": _gpt(4, 256, 8, 128, 256),
}  # fmt: skip
