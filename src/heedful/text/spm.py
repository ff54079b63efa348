"""SentencePiece's model files (.spm, .model), run by its own library, which comes with the `translate` extra."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from heedful.errors import RequestError
from heedful.text.disk import read_bytes
from heedful.text.pieces import Cut

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor

SPACE = "▁"
"""How pieces write a space."""
_SOURCE = re.compile(r"src/\S+ \[.*\]\s*", re.DOTALL)
"""The line of its own source that the library names where a file is no protocol buffer at all."""


@dataclass(frozen=True)
class SpmModel:
    path: Path
    processor: "SentencePieceProcessor"
    pieces: Sequence[str]

    @cached_property
    def unknown(self) -> str:
        """What the file calls the unknown piece."""
        return self.pieces[self.processor.unk_id()]

    @cached_property
    def kind(self) -> str:
        """Which kind of model it is, told from what the library can do with it."""
        try:
            self.processor.nbest_encode("a", nbest_size=1)
            return "SentencePiece (unigram)"
        except RuntimeError:
            pass
        try:
            self.processor.encode("a", enable_sampling=True, alpha=0.1)
            return "SentencePiece (BPE)"
        except RuntimeError:
            return "SentencePiece"

    def ids(self, text: str) -> list[int]:
        ids: list[int] = self.processor.encode(text)
        return ids

    def ids_and_spans(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """The ids, and the characters of the text that each comes from."""
        with _readable(self.path):
            found = self.processor.encode(text, return_type="offset_mapping")
        return found["ids"], found["offsets"]

    def is_control(self, piece: str) -> bool:
        return self.processor.is_control(self.processor.piece_to_id(piece))


def read_spm(path: Path) -> SpmModel:
    try:
        from sentencepiece import SentencePieceProcessor
    except ImportError:
        raise RequestError(
            f"{path} is a SentencePiece model, which needs its library: pip install 'heedful[translate]'."
        ) from None
    content = read_bytes(path)
    processor = SentencePieceProcessor()
    with _readable(path):
        processor.LoadFromSerializedProto(content)
        pieces = processor.id_to_piece(list(range(processor.get_piece_size())))
        processor.decode_pieces(pieces)  # so that every text in the file has been seen to be one
    return SpmModel(path, processor, pieces)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn the library's errors into a sentence that names the file."""
    try:
        yield
    except UnicodeDecodeError:
        reason = "a text in it is not UTF-8"
    except RuntimeError as error:
        reason = _SOURCE.sub("", str(error).removeprefix("INTERNAL: ")).rstrip(". ") or "it is damaged or cut off"
    else:
        return
    raise RequestError(f"{path} is not a complete SentencePiece model ({reason}); fetch it again.") from None


def cut_of(pieces: Sequence[str], spans: Sequence[tuple[int, int]]) -> Cut:
    """Number the words: one begins where a piece begins with a space, or follows one that ends with a space."""
    words: list[int] = []
    for i, piece in enumerate(pieces):
        begins = i > 0 and (piece.startswith(SPACE) or pieces[i - 1][1:].endswith(SPACE))
        words.append((words[-1] if words else 0) + begins)
    return Cut(pieces, spans, words)


def joining(model: SpmModel, unknown: str) -> Callable[[Iterable[str]], str]:
    """From tokens to their text. `unknown`: what the vocabulary calls the unknown one. Tokens that the file lacks, such
    as pieces of the other language, are read as pieces, too."""
    known = frozenset(model.pieces)

    def join(tokens: Iterable[str]) -> str:
        pieces: list[str] = []
        for token in tokens:
            if token == unknown:
                token = model.unknown
            elif token not in known:
                token = (token if pieces else token.removeprefix(SPACE)).replace(SPACE, " ")
            pieces.append(token)
        text: str = model.processor.decode_pieces(pieces)
        return text

    return join
