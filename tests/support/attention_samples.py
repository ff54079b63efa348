"""Small models that attend, with a tokenizer of their own; nothing is read from disk but a corpus made here."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from heedful.models.shape import Head, Shape
from heedful.models.transformer import Transformer
from heedful.nn.blocks import FUSED, Kernels
from heedful.probes.attention.views import Attention, Token, View, view_states
from heedful.text.tokenizer import Tokenizer
from heedful.text.training import train_wordpiece

TEXTS = ["a gem of a film", "the plot is thin but the actors save it", "I would not see it again."]
HEADS = {
    "classify": Head("linear", "pooled", 3, labels=("bad", "fair", "good")),
    "apart": Head("linear", "mean", 2, labels=("other", "same"), pairs="towers", of_pairs=True),
    "mask": Head("masked-word", "every", activation="gelu"),
}


@dataclass
class Small:
    """What `look` asks of a model."""

    transformer: Transformer
    tokenizer: Tokenizer
    max_length: int = 24
    source: str = "small"
    of_pairs: bool | None = None


def make_tokenizer(folder: Path) -> Tokenizer:
    corpus = folder / "corpus.txt"
    corpus.write_text("\n".join(TEXTS * 3) + "\n")
    return train_wordpiece([corpus], 120)


def make_small(
    folder: Path, on_top: tuple[str, ...] = ("classify",), kernels: Kernels = FUSED, **changes: object
) -> Small:
    """In float64, drawn wide enough that attention is far from uniform."""
    tokenizer = make_tokenizer(folder)
    shape = Shape(
        vocabulary=tokenizer.size, width=24, layers=3, heads=3, inner=40, positions=32, segments=2, pooler=True,
        initializer_range=0.3,
    )  # fmt: skip
    transformer = Transformer(replace(shape, **changes), {name: HEADS[name] for name in on_top}, kernels).double()
    transformer.initialise(torch.Generator().manual_seed(0))
    return Small(transformer.eval(), tokenizer)


def make_view(
    weights: np.ndarray, rows: list[str], columns: list[str] | None = None, kind: str = "self", gradient: bool = False
) -> View:
    """A view of weights that were not computed by any model: what raises the score is all in the first row."""
    tensors = [torch.tensor(layer[None], requires_grad=gradient) for layer in weights]
    score = sum((t[:, :, 0] ** 2).sum() for t in tensors) if gradient else None
    tokens = [Token(text, text, 0, separator=text == "[SEP]") for text in rows]
    others = [Token(text, text, 0, separator=text == "[SEP]") for text in columns or rows]
    states = _States(weights=tensors) if kind == "self" else _States(memory_weights=tensors)
    (view,), _ = view_states(states, tokens, others, score)
    return view


@dataclass
class _States:
    weights: list[torch.Tensor] | None = None
    memory_weights: list[torch.Tensor] | None = None


def draw_weights(*shape: int, sharp: float = 2.0, seed: int = 0) -> np.ndarray:
    """Rows that sum to 1."""
    scores = np.random.default_rng(seed).normal(size=shape) * sharp
    made = np.exp(scores - scores.max(-1, keepdims=True))
    return (made / made.sum(-1, keepdims=True)).astype(np.float32)


def make_attention(*views: View, notes: tuple[str, ...] = (), text: str = "a text") -> Attention:
    return Attention("some/model", (text,), False, views, None, notes)
