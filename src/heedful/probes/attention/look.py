"""A text through a model, and what every head looked at."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from heedful.errors import RequestError
from heedful.inference.predictor import TransformerModel
from heedful.models.batch import Batch, pad
from heedful.models.body import States
from heedful.models.shape import Head, main_head
from heedful.models.transformer import Transformer
from heedful.nn.heads import LanguageModelHead, MaskedWordHead, combine
from heedful.probes.attention.views import TOGETHER, Attention, Score, Token, View, view_states
from heedful.text.tokenizer import Text, Tokenizer, Tokens, why_no_texts

_WORDS = ("masked-word", "language-model")
"""The kinds of heads that score the vocabulary."""
_LOW = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_BLANKS = {" ": "␣", "\n": "⏎", "\t": "⇥", "Ġ": "␣", "Ċ": "⏎", "ĉ": "⇥"}
"""Blanks as they are, and as vocabularies of bytes spell them."""
_APART = (
    (("first", "The first text looking at itself"), ("first-memory", "The first text looking at the memory")),
    (("second", "The second text looking at itself"), ("second-memory", "The second text looking at the memory")),
)


class _Reading(NamedTuple):
    """One text, or a pair as one, through the body."""

    tokens: Tokens
    rows: list[Token]
    batch: Batch
    states: States


def look(
    model: TransformerModel, text: Text, head: str | None = None, label: str | None = None, position: int | None = None
) -> Attention:
    """The attention of every layer and head while the model reads a text or a pair of texts.

    The gradient is that of one score: of the class `label` (default: the likeliest) by the head `head` (default: the
    classifier, else the head for words). For a head that scores the vocabulary `label` is a token and `position` the
    token at which it is asked (from 0; default: the first masked one, else the last). A pair is read as the head reads
    it: as one text, or each text apart, which gives two views. What is longer than the model reads is cut, and said.
    """
    source = str(getattr(model, "source", "the model"))
    if not hasattr(model, "transformer"):
        raise RequestError(f"{source}: is a TF-IDF model, which has no attention. Name a transformer.")
    transformer, tokenizer = model.transformer, model.tokenizer
    if transformer.shape.memory_width is not None:
        raise RequestError(f"{source}: also reads the states of another text, so it cannot be used with one text.")
    if reason := why_no_texts([text]):
        raise RequestError(reason)
    texts = (text,) if isinstance(text, str) else (text[0], text[1])
    name, notes = _choose_head(transformer.head_shapes, head, label, position, len(texts), source)
    apart = name is not None and transformer.head_shapes[name].pairs != "joint"
    score = found = None
    with _with_gradients(transformer):
        readings = [
            _read(transformer, tokenizer, one, model.max_length, source, name)
            for one in (texts if apart else [texts[0] if len(texts) == 1 else (texts[0], texts[1])])
        ]
        if name is not None:
            score, found = _score(transformer, tokenizer, readings, name, label, position, source)
        views: list[View] = []
        for reading, names in zip(readings, _APART if apart else (TOGETHER,), strict=True):
            made, said = view_states(reading.states, reading.rows, score=score, names=names)
            views += made
            notes += [sentence for sentence in said if sentence not in notes]
    if not views:
        raise RequestError(f"{source}: its kind of attention has no weights to show; name a model that attends.")
    if any(reading.tokens.truncated for reading in readings):
        chunked = name is not None and transformer.head_shapes[name].chunked
        notes.append(
            f"The text was cut to {model.max_length} tokens, which is what the model reads at once"
            + (f"; the head {name!r} reads longer texts in chunks and averages them." if chunked else ".")
        )
    return Attention(source, texts, transformer.shape.causal, tuple(views), found, tuple(notes))


def _choose_head(
    shapes: Mapping[str, Head], head: str | None, label: str | None, position: int | None, texts: int, source: str
) -> tuple[str | None, list[str]]:
    """Return the head for gradient × attention, or None and the reason."""
    left_out = "so gradient × attention is omitted."
    if head is not None and head not in shapes:
        there = f"it has {', '.join(shapes)}" if shapes else "it has none"
        raise RequestError(f"{source}: has no head {head!r}; {there}.")
    name = head or main_head(shapes)
    if name is None:
        name = next((n for kind in (*_WORDS, "next-sentence") for n, s in shapes.items() if s.kind == kind), None)
    if name is None:
        several = f"has several heads ({', '.join(shapes)}); choose one"
        if label is not None or position is not None:
            nothing = "has no head that could score a label. Remove label and position"
            raise RequestError(f"{source}: {several if shapes else nothing}.")
        what = f"{several}," if shapes else "has no task head,"
        return None, [f"The model {what} {left_out}"]
    if shapes[name].pairs != "joint" and texts == 1:
        if head is not None or label is not None:
            raise RequestError(f"{source}: the head {name!r} was trained on pairs of texts. Pass two texts.")
        return None, [f"The head {name!r} needs a pair of texts, {left_out}"]
    if position is not None and shapes[name].kind not in _WORDS:
        raise RequestError(f"{source}: the head {name!r} reads the whole text. Remove the position.")
    return name, []


@contextmanager
def _with_gradients(transformer: Transformer) -> Iterator[None]:
    """Without dropout, and with every attention in the graph, even if no weight of the model is to be trained."""
    table, training = transformer.body.embeddings.token.weight, transformer.training
    trained = table.requires_grad
    transformer.eval()
    try:
        with torch.inference_mode(False), torch.enable_grad():
            table.requires_grad_(True)
            yield
    finally:
        table.requires_grad_(trained)
        transformer.train(training)


def _read(
    transformer: Transformer, tokenizer: Tokenizer, text: Text, limit: int, source: str, head: str | None
) -> _Reading:
    (tokens,) = tokenizer.encode([text], limit, offsets=True)
    if not tokens.ids:
        raise RequestError(f"{source}: the text has no tokens. Pass a text with words.")
    shape = transformer.shape
    segments = [tokens.segments] if shape.segments > 1 else None
    batch = pad([tokens.ids], segments, shape.pad_id, transformer.body.embeddings.token.weight.device)
    states = transformer.body(batch, everything=True, adapters=transformer.through(head))
    return _Reading(tokens, readable(tokens, (text,) if isinstance(text, str) else text, tokenizer), batch, states)


def readable(tokens: Tokens, texts: Sequence[str], tokenizer: Tokenizer) -> list[Token]:
    """Tokens that were encoded with offsets, each as the characters of its text that it stands for. Several tokens of
    the same characters (the bytes of an emoji, say) are numbered: 😀₁, 😀₂."""
    assert tokens.offsets is not None
    assert tokens.parts is not None
    ends = {i for i in (tokenizer.sep_id, tokenizer.eos_id) if i is not None}
    made: list[Token] = []
    for number, (start, end), part in zip(tokens.ids, tokens.offsets, tokens.parts, strict=True):
        piece, separator = tokenizer.token(number), number in ends
        if part is None:
            made.append(Token(piece, piece, separator=separator))
            continue
        before = made[-1] if made and made[-1].part == part else None
        joined = before is not None and before.end >= start and not texts[part][start : start + 1].isspace()
        made.append(Token(_shown(texts[part][start:end], piece), piece, part, start, end, joined, separator))
    spans = [(token.part, token.start, token.end) for token in made]
    again = {span for span, count in Counter(spans).items() if count > 1 and span[0] is not None}
    seen: Counter[tuple[int | None, int, int]] = Counter()
    for i, span in enumerate(spans):
        if span in again:
            seen[span] += 1
            made[i] = replace(made[i], text=made[i].text + str(seen[span]).translate(_LOW))
    return made


def _shown(characters: str, piece: str) -> str:
    """Of a blank alone, whose characters a tokenizer may leave out, a sign for it."""
    blank = characters or (piece if set(piece) <= _BLANKS.keys() else "")
    return characters.strip() or "".join(_BLANKS.get(c, "␣") for c in blank) or piece


def _score(
    transformer: Transformer,
    tokenizer: Tokenizer,
    readings: Sequence[_Reading],
    name: str,
    label: str | None,
    position: int | None,
    source: str,
) -> tuple[Tensor, Score]:
    """The score in the graph, and what it is."""
    module, shape = transformer.heads[name], transformer.head_shapes[name]
    inputs = [transformer.inputs(name, reading.batch, reading.states) for reading in readings]
    x = combine(inputs[0], inputs[1], shape.pairs) if shape.pairs != "joint" else inputs[0]
    if isinstance(module, MaskedWordHead | LanguageModelHead):
        position = _position(readings[0], position, tokenizer, source)
        scores_v = module(x[0, position], transformer.body.embeddings.token.weight)
        chosen = int(scores_v.argmax()) if label is None else _token_id(label, tokenizer, len(scores_v), source)
        called = tokenizer.token(chosen)
    else:
        scores_v = module(x)[0]
        labels = shape.labels or tuple(str(i) for i in range(len(scores_v)))
        if label is not None and label not in labels:
            raise RequestError(f"{source}: the head {name!r} has no label {label!r}; it has {', '.join(labels)}.")
        chosen = int(scores_v.argmax()) if label is None else labels.index(label)
        called = labels[chosen]
    sure = float(torch.softmax(scores_v.detach().double(), dim=-1)[chosen]) if len(scores_v) > 1 else None
    return scores_v[chosen], Score(name, called, float(scores_v[chosen].detach()), sure, position, shape.reads)


def _position(reading: _Reading, asked: int | None, tokenizer: Tokenizer, source: str) -> int:
    ids = reading.tokens.ids
    if asked is not None:
        if not 0 <= asked < len(ids):
            raise RequestError(f"{source}: the text has no token {asked + 1}; it has {len(ids)}.")
        return asked
    if tokenizer.mask_id in ids:
        return ids.index(tokenizer.mask_id)
    return max((i for i, token in enumerate(reading.rows) if token.part is not None), default=len(ids) - 1)


def _token_id(label: str, tokenizer: Tokenizer, known: int, source: str) -> int:
    """A token as the vocabulary spells it, or a word that is one token."""
    found = tokenizer.id(label)
    if found is None:
        (word,) = tokenizer.encode([label], offsets=True)
        inner = [i for i, part in zip(word.ids, word.parts or (), strict=True) if part is not None]
        found = inner[0] if len(inner) == 1 and inner[0] != tokenizer.unk_id else None
    if found is None or found >= known:
        raise RequestError(f"{source}: {label!r} is not one token of its vocabulary; name a token that is.")
    return found
