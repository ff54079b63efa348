"""What was seen: the weights of every head with the tokens at both sides, and what was computed from them.

Letters as in `measures`. Layers, heads and tokens are counted from 0 in arrays, from 1 wherever people read them.
"""

import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from heedful.errors import RequestError
from heedful.models.body import States
from heedful.probes.attention import measures

Floats = npt.NDArray[np.float32]
Kind = Literal["self", "memory"]
Names = tuple[tuple[str, str], tuple[str, str]]
"""Name and title of the view of a text's attention to itself, and of that to a memory."""
TOGETHER: Names = ("self", "The text looking at itself"), ("memory", "The text looking at the memory")
_SUM = 1e-3
"""By how much the weights of a row may miss 1: what half precision leaves."""


@dataclass(frozen=True, slots=True)
class Token:
    text: str
    """As people read it: the characters of the text, or the name of a special token."""
    piece: str
    """As the vocabulary spells it (##ing, Ġthe, [UNK])."""
    part: int | None = None
    """Which text of a pair it comes from; None: none, it is a special token around them."""
    start: int = 0
    end: int = 0
    """Which characters of its text it is."""
    joined: bool = False
    """Whether it follows the token before it without a space."""
    separator: bool = False


@dataclass(frozen=True)
class View:
    """One kind of attention while one text was read."""

    name: str
    """In the names of arrays: "self", "memory"; of two texts that are read apart "first" and "second"."""
    title: str
    kind: Kind
    rows: tuple[Token, ...]
    """Who looks."""
    columns: tuple[Token, ...]
    """Who is looked at."""
    layers: tuple[int, ...]
    """Those that have weights."""
    weights: Floats
    """(l, h, t, s)."""
    summary: dict[str, Floats]
    """(l, h) for each of `measures.MEASURES`; NaN where a measure means nothing."""
    rollout: Floats | None
    """(l, t, s): see `measures.rollout`; None where a layer has no weights, or rows that do not sum to 1."""
    gradient: Floats | None
    """(l, h, t, s): ∇A ∘ A, signs included."""
    relevance: Floats | None
    """(t, s): see `measures.relevance`."""

    @property
    def by_layer(self) -> Floats | None:
        """(l, t, s): gradient × attention of each layer."""
        return None if self.gradient is None else measures.gradient_by_layer(self.gradient).astype(np.float32)


@dataclass(frozen=True)
class Score:
    """Of what the gradient was taken: the score of a class, before the softmax, or of a token of the vocabulary."""

    head: str
    label: str
    value: float
    probability: float | None
    """None for a head that gives a score itself."""
    position: int | None
    """For a head that scores the vocabulary: at which token; None for the others."""
    reads: str
    """Which states the head reads, see `heedful.nn.heads`."""

    @property
    def words(self) -> str:
        of = f"the score of {self.label!r}" if self.probability is not None else "the score"
        at = "" if self.position is None else f" at token {self.position + 1}"
        sure = "" if self.probability is None else f", probability {self.probability:.3f}"
        return f"{of}{at} by the head {self.head!r} ({self.value:z.3f}{sure})"  # z: no −0.000


@dataclass(frozen=True)
class Attention:
    source: str
    """The model, as it was named."""
    texts: tuple[str, ...]
    causal: bool
    views: tuple[View, ...]
    score: Score | None
    notes: tuple[str, ...]
    """What was left out or cut, a sentence each."""

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """All of it under plain names, "self.weights" for example; "about" is JSON. None of it needs pickle."""
        score = None
        if self.score is not None:
            names = ("head", "label", "value", "probability", "position", "reads")
            score = {name: getattr(self.score, name) for name in names}
        about = {"model": self.source, "texts": self.texts, "causal": self.causal, "score": score, "notes": self.notes}
        made: dict[str, npt.NDArray[np.generic]] = {"about": np.array(json.dumps(about))}
        for view in self.views:
            made |= {f"{view.name}.{name}": array for name, array in _arrays_of(view)}
        return made

    def packed(self) -> bytes:
        """The same as the content of an .npz file."""
        file = io.BytesIO()
        np.savez_compressed(file, **self.arrays())  # type: ignore[arg-type]
        return file.getvalue()


def _arrays_of(view: View) -> Iterator[tuple[str, npt.NDArray[np.generic]]]:
    yield "kind", np.array(view.kind)
    for side, tokens in (("rows", view.rows), ("columns", view.columns)):
        yield f"{side}.tokens", np.array([token.text for token in tokens])
        yield f"{side}.pieces", np.array([token.piece for token in tokens])
        # Of a special token there are no characters: −1.
        yield f"{side}.parts", np.array([-1 if token.part is None else token.part for token in tokens])
        spans = [(-1, -1) if token.part is None else (token.start, token.end) for token in tokens]
        yield f"{side}.offsets", np.array(spans)
    yield "layers", np.array(view.layers)
    for name in ("weights", "rollout", "gradient", "by_layer", "relevance"):
        array = getattr(view, name)
        if array is not None:
            yield ("gradient_by_layer" if name == "by_layer" else name), array
    for name, values in view.summary.items():
        yield f"summary.{name}", values


def view_states(
    states: States,
    rows: Sequence[Token],
    columns: Sequence[Token] | None = None,
    score: Tensor | None = None,
    names: Names = TOGETHER,
) -> tuple[list[View], list[str]]:
    """Views of a body's states, computed with `everything` for one text: of its attention to itself and, if there is
    any, to a memory with the tokens `columns`; and what could not be shown, in sentences. With a `score`, a number that
    was computed from these states, the gradients too."""
    own, crossed = _stacked(states.weights), _stacked(states.memory_weights)
    if own is None and crossed is None:
        return [], ["This model's kind of attention has no weights: there is nothing to show."]
    notes, made = [], []
    alone = states.memory_weights is None
    rolled: tuple[Floats | None, Floats | None] = (None, None)
    if own is not None and own.complete and (alone or _whole(crossed, own)):
        r, m = measures.rollout(own.weights, None if crossed is None else crossed.weights)
        rolled = r.astype(np.float32), None if m is None else m.astype(np.float32)
    else:
        notes.append("Rollout needs weights of every layer that sum to 1, so it is omitted.")
    sides = ((own, None, rolled[0], names[0]), (crossed, columns or (), rolled[1], names[1]))
    for stack, tokens, rollout, name in sides:
        if stack is not None:
            made.append(_view(stack, rows, tokens, name, score, alone, rollout))
            notes += stack.notes
    return made, notes


def view_weights(
    weights: Sequence[Tensor | None],
    rows: Sequence[Token],
    columns: Sequence[Token],
    name: tuple[str, str],
    score: Tensor | None = None,
) -> tuple[list[View], list[str]]:
    """The same of any weights (1, h, t, s) by which tokens look at something else, layer by layer: at adapters, say,
    each of which is then a `Token` of `columns`. `name`: the view's name and its title."""
    stack = _stacked(weights)
    return ([], []) if stack is None else ([_view(stack, rows, columns, name, score)], stack.notes)


def _view(
    stack: "_Stack",
    rows: Sequence[Token],
    columns: Sequence[Token] | None,
    name: tuple[str, str],
    score: Tensor | None,
    alone: bool = False,
    rollout: Floats | None = None,
) -> View:
    """`columns`: None if they are the rows. `alone`: nothing else is attended to, so that relevance can be multiplied
    up from layer to layer."""
    keys = rows if columns is None else columns
    if (len(rows), len(keys)) != stack.weights.shape[2:]:
        raise ValueError(f"weights of shape {stack.weights.shape}, but {len(rows)} tokens that look at {len(keys)}")
    gradient = None if score is None else stack.gradient(score)
    separators = [i for i, token in enumerate(keys) if token.separator]
    summary = measures.summarise(stack.weights, separators, own=columns is None)
    summary["gradient"] = np.full(stack.weights.shape[:2], np.nan)
    relevance = None
    if gradient is not None:
        summary["gradient"] = measures.shares(gradient)
        if alone and stack.complete:
            relevance = measures.relevance(gradient).astype(np.float32)
    small = {what: values.astype(np.float32) for what, values in summary.items()}
    kind: Kind = "self" if columns is None else "memory"
    return View(*name, kind, tuple(rows), tuple(keys), stack.layers, stack.weights, small, rollout, gradient, relevance)


@dataclass(frozen=True)
class _Stack:
    """The weights of the layers that have any."""

    tensors: list[Tensor]
    layers: tuple[int, ...]
    weights: Floats
    complete: bool
    """Whether every layer has weights, of which every row sums to 1."""
    notes: list[str]

    def gradient(self, score: Tensor) -> Floats | None:
        """∇A ∘ A, with zeros where the score does not depend on A."""
        if not any(tensor.requires_grad for tensor in self.tensors):
            return None
        found = torch.autograd.grad(
            score, [t for t in self.tensors if t.requires_grad], retain_graph=True, allow_unused=True
        )
        left = iter(found)
        slopes = [next(left) if t.requires_grad else None for t in self.tensors]
        products = [torch.zeros_like(t) if g is None else g * t for g, t in zip(slopes, self.tensors, strict=True)]
        return _numbers(products)


def _stacked(weights: Sequence[Tensor | None] | None) -> _Stack | None:
    """None if there are no weights at all."""
    there = [(i, w) for i, w in enumerate(weights or ()) if w is not None]
    if not there:
        return None
    shape = there[0][1].shape
    kept = [(i, w) for i, w in there if w.shape == shape]
    layers, tensors = tuple(i for i, _ in kept), [w for _, w in kept]
    numbers = _numbers(tensors)
    if not np.isfinite(numbers).all():
        layer = next(i for i, w in zip(layers, numbers, strict=True) if not np.isfinite(w).all())
        raise RequestError(f"the attention of layer {layer + 1} is not finite; the weights of the model are damaged.")
    notes = []
    missing = [str(i + 1) for i in range(len(weights or ())) if i not in layers]
    if missing:
        notes.append(f"Layer {', '.join(missing)} is not shown: its kind of attention has no weights.")
    sums = numbers.sum(axis=-1, dtype=np.float64)
    honest = bool(np.abs(sums - 1).max() <= _SUM)
    if not honest:
        notes.append(f"The weights of a token sum to between {sums.min():.3g} and {sums.max():.3g} here, not to 1.")
    return _Stack(tensors, layers, numbers, honest and not missing, notes)


def _whole(crossed: _Stack | None, own: _Stack) -> bool:
    return crossed is not None and crossed.complete and crossed.layers == own.layers


def _numbers(tensors: Sequence[Tensor]) -> Floats:
    """(l, h, t, s) of the one text."""
    return torch.stack([tensor.detach()[0].float().cpu() for tensor in tensors]).numpy()
