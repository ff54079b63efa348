"""SentencePiece models for tests: written field by field, and trained by its own library where that is installed."""

import io
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

WORDS = [
    "the", "cat", "sat", "on", "mat", "a", "dog", "und", "die", "Katze", "saß", "auf", "der", "Matte", "ein", "Hund",
    "läuft", "naïve", "café", "straße", "ﬁne", "running", "runs", "ran",
]  # fmt: skip
ODD = [
    "", " ", "  a  b ", "ﬁne ½ ㎏ ﷺ", "e\u0301\u0302 q\u0301", "각 한국어 ᄒ", "a\u200bb\u00adc", "▁x▁▁y",
    "日本語テスト", "😀👩\u200d👩\u200d👧 ok", "A\tB\nC", "Ω Å Å", "\u0000x", "ＡＢＣ　１２３", "<s> </s> <unk> x",
    "\u1e9b\u0323", "x\u0308\u0323", "\u200d", "ｶﾞ", "\ufeffbom", "a\u0300\u0301\u0327 ü", "cat <sep>dog<sep>",
    "ei ein eine", "ĲǄ",
]  # fmt: skip


def sentences() -> list[str]:
    """Some hundred lines of these words, in an order that is always the same."""
    return [" ".join(WORDS[(i * 7 + j * (1 + i % 5)) % len(WORDS)] for j in range(3 + i % 9)) for i in range(300)]


def trained(kind: str, size: int = 120, **options: Any) -> bytes:
    import sentencepiece

    made = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences()),
        model_writer=made,
        vocab_size=size,
        model_type=kind,
        minloglevel=2,
        hard_vocab_limit=False,
        **options,
    )
    return made.getvalue()


def varint(number: int) -> bytes:
    made = b""
    while number >= 0x80:
        made, number = made + bytes([number & 0x7F | 0x80]), number >> 7
    return made + bytes([number])


def sized(field: int, content: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(content)) + content


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def written(
    pieces: Sequence[tuple[str, float, int]], kind: int = 1, trainer: bytes = b"", normaliser: bytes = b""
) -> bytes:
    """A whole file; a piece is its text, its score and its type."""
    made = b"".join(
        sized(1, sized(1, text.encode()) + b"\x15" + struct.pack("<f", score) + number(3, type_))
        for text, score, type_ in pieces
    )
    return made + sized(2, number(3, kind) + trainer) + sized(3, normaliser)


PIECES = [
    ("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3), ("▁a", -1.0, 1), ("▁", -2.0, 1), ("b", -2.5, 1),
    ("ab", -2.6, 1), ("a", -3.0, 1), ("▁ab", -9.0, 1),
]  # fmt: skip
"""▁ab is less likely than ▁a and b together."""


def marian_directory(directory: Path, source: bytes, target: bytes, vocabulary: dict[str, int], **config: Any) -> Path:
    import json

    directory.mkdir(parents=True, exist_ok=True)
    (directory / "source.spm").write_bytes(source)
    (directory / "target.spm").write_bytes(target)
    (directory / "vocab.json").write_text(json.dumps(vocabulary))
    settings = {"tokenizer_class": "MarianTokenizer", "source_lang": "en", "target_lang": "de", **config}
    (directory / "tokenizer_config.json").write_text(json.dumps(settings))
    return directory
