"""Texts and pairs as token ids: what a body reads, in one chunk or several."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor

from heedful.errors import RequestError
from heedful.text.tokenizer import Text, Tokenizer


@dataclass(slots=True)
class EncodedText:
    """One text: one chunk, or several if it is long and chunks were asked for. Two texts as one have segments."""

    chunks: list[list[int]]
    segments: list[int] | None
    truncated: bool
    cache_key: tuple[str, int] = ("", -1)
    """The set that it belongs to and its number there."""

    @property
    def tokens(self) -> int:
        return sum(map(len, self.chunks))


@dataclass(slots=True)
class EncodedPair:
    """Two texts, each read by itself."""

    first: EncodedText
    second: EncodedText
    cache_key: tuple[str, int] = ("", -1)
    """The set that it belongs to and its number there."""

    @property
    def chunks(self) -> list[list[int]]:
        return [*self.first.chunks, *self.second.chunks]

    @property
    def tokens(self) -> int:
        return self.first.tokens + self.second.tokens

    @property
    def truncated(self) -> bool:
        return self.first.truncated or self.second.truncated


Item = EncodedText | EncodedPair
"""What a head says something of."""


def texts_of(items: Iterable[Item]) -> list[EncodedText]:
    """Return what the body reads, each text once, however many pairs it is in."""
    texts = (
        text for item in items for text in ((item.first, item.second) if isinstance(item, EncodedPair) else (item,))
    )
    return list({id(text): text for text in texts}.values())


def _row_number(row: int) -> str:
    return f"row {row} of the texts"


def encode_texts(
    tokenizer: Tokenizer,
    texts: Sequence[Text],
    max_length: int | None,
    chunked: bool = False,
    segments: bool = True,
    name: Callable[[int], str] = _row_number,
) -> list[EncodedText]:
    """Encode texts, and pairs of texts as one text each. `chunked`: longer ones become several chunks; else they are
    cut. `segments`: whether the body tells the two texts of a pair apart. `name`: what a refusal calls a row."""
    encoded = tokenizer.encode(texts, None if chunked else max_length)
    wanted = segments and any(not isinstance(text, str) for text in texts)
    made = []
    for row, tokens in enumerate(encoded):
        if not tokens.ids:
            raise RequestError(f"{name(row)} has no tokens, and this tokenizer adds none. Remove it.")
        chunks = [tokens.ids]
        if chunked and max_length is not None and len(tokens.ids) > max_length:
            chunks = _chunks(tokens.ids, max_length, tokenizer)
        made.append(EncodedText(chunks, tokens.segments if wanted else None, tokens.truncated))
    return made


def encode_pairs(
    tokenizer: Tokenizer,
    pairs: Sequence[tuple[str, str]],
    max_length: int,
    name: Callable[[int], str] = _row_number,
) -> list[EncodedPair]:
    """Encode each text of a pair by itself, up to `max_length` tokens; a text that recurs is encoded once."""
    first_row: dict[str, int] = {}
    for row, pair in enumerate(pairs):
        for text in pair:
            first_row.setdefault(text, row)
    strings, rows = list(first_row), list(first_row.values())
    texts = encode_texts(tokenizer, strings, max_length, name=lambda number: name(rows[number]))
    encoded = dict(zip(strings, texts, strict=True))
    return [EncodedPair(encoded[a], encoded[b]) for a, b in pairs]


def _chunks(ids: list[int], max_length: int, tokenizer: Tokenizer) -> list[list[int]]:
    """Return pieces of equal length, each between the special tokens that enclose the whole."""
    head = [ids[0]] if ids[0] == tokenizer.cls_id else []
    tail = [ids[-1]] if ids[-1] == tokenizer.sep_id else []
    inner = ids[len(head) : len(ids) - len(tail)]
    room = max_length - len(head) - len(tail)
    count = -(-len(inner) // room)
    size = -(-len(inner) // count)
    return [head + inner[at : at + size] + tail for at in range(0, len(inner), size)]


# As tensors, to be stored in a file


def pack_pairs(pairs: Sequence[EncodedPair]) -> dict[str, Tensor]:
    texts = texts_of(pairs)
    number = {id(text): i for i, text in enumerate(texts)}
    columns = {"first": [number[id(p.first)] for p in pairs], "second": [number[id(p.second)] for p in pairs]}
    return {**pack_texts(texts), **{name: torch.tensor(rows, dtype=torch.int32) for name, rows in columns.items()}}


def unpack_pairs(tensors: Mapping[str, Tensor]) -> list[EncodedPair]:
    texts = unpack_texts(tensors)
    numbers = zip(tensors["first"].tolist(), tensors["second"].tolist(), strict=True)
    return [EncodedPair(texts[i], texts[j]) for i, j in numbers]


def pack_texts(texts: Sequence[EncodedText]) -> dict[str, Tensor]:
    segments = [text.segments or [] for text in texts]
    columns = {
        "ids": [i for text in texts for chunk in text.chunks for i in chunk],
        "lengths": [len(chunk) for text in texts for chunk in text.chunks],
        "chunks": [len(text.chunks) for text in texts],
        "truncated": [int(text.truncated) for text in texts],
        "segments": [i for row in segments for i in row],
    }
    return {name: torch.tensor(values, dtype=torch.int32) for name, values in columns.items()}


def unpack_texts(tensors: Mapping[str, Tensor]) -> list[EncodedText]:
    columns = {name: iter(t.tolist()) for name, t in tensors.items()}
    with_segments = len(tensors["segments"]) > 0
    texts = []
    for count, truncated in zip(columns["chunks"], columns["truncated"], strict=True):
        lengths = list(islice(columns["lengths"], count))
        chunks = [list(islice(columns["ids"], n)) for n in lengths]
        segments = list(islice(columns["segments"], sum(lengths))) if with_segments else None
        texts.append(EncodedText(chunks, segments, bool(truncated)))
    return texts
