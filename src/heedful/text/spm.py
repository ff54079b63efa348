"""SentencePiece's model files (.spm, .model), read without its library: unigram and BPE, on the `tokenizers` library.

A file is a protocol buffer: the pieces with their scores and types, how they were trained, and how text is normalised.
The library counts with ids of its own, since pieces that stand for no text (control symbols, the unknown one) may not
be found in one, and since BPE may need characters that are no pieces; `Pieces` translates.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import tokenizers
from tokenizers import AddedToken, models, pre_tokenizers

from heedful.errors import RequestError
from heedful.text.charsmap import SPACE, CharacterMap, Normaliser
from heedful.text.disk import read_bytes
from heedful.text.protobuf import DamagedError, Value, as_bytes, as_float, as_int, as_text, read_fields

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
UNIGRAM, BPE = 1, 2
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")
_LONGEST = 512
"""Characters of a piece. SentencePiece trains none over 16 unless told to, and BPE tries every cut of every piece."""
_OUTSIDE = " outside"
"""The library's unknown piece: it holds a space, which no text has once it is spelled, so that none contains it."""


@dataclass(frozen=True)
class Piece:
    text: str
    score: float
    type: int


@dataclass
class SpmModel:
    """What a file says."""

    path: Path
    pieces: list[Piece] = field(default_factory=list)
    kind: int = UNIGRAM
    byte_fallback: bool = False
    suffix: bool = False
    unknown_surface: str = " ⁇ "
    character_map: bytes = b""
    dummy_prefix: bool = True
    collapse: bool = True
    escape: bool = True

    def normaliser(self) -> Normaliser:
        symbols = sorted((piece.text for piece in self.pieces if piece.type == USER_DEFINED), key=len, reverse=True)
        rules = CharacterMap.parse(self.character_map)
        return Normaliser(rules, self.dummy_prefix, self.collapse, tuple(symbols), self.suffix)


@dataclass(frozen=True)
class Core:
    tokenizer: tokenizers.Tokenizer
    spelled: list[str]
    """What each of the library's ids stands for; the empty text for the unknown one."""


def read_spm(path: Path) -> SpmModel:
    content = read_bytes(path)
    try:
        model = _parse(path, content)
        CharacterMap.parse(model.character_map)
    except DamagedError as error:
        raise RequestError(f"{path} is no whole SentencePiece model ({error}); fetch it again.") from None
    _refuse(model)
    return model


def _parse(path: Path, content: bytes) -> SpmModel:
    model = SpmModel(path)
    for number, value in read_fields(content):
        if number == 1:
            model.pieces.append(_piece(value))
        elif number == 2:
            for key, inner in read_fields(as_bytes(value)):
                if key == 3:
                    model.kind = as_int(inner)
                elif key == 24:
                    model.suffix = bool(as_int(inner))
                elif key == 35:
                    model.byte_fallback = bool(as_int(inner))
                elif key == 44:
                    model.unknown_surface = as_text(inner)
        elif number == 3:
            for key, inner in read_fields(as_bytes(value)):
                if key == 2:
                    model.character_map = as_bytes(inner)
                elif key == 3:
                    model.dummy_prefix = bool(as_int(inner))
                elif key == 4:
                    model.collapse = bool(as_int(inner))
                elif key == 5:
                    model.escape = bool(as_int(inner))
    return model


def _piece(value: Value) -> Piece:
    text, score, kind = "", 0.0, NORMAL
    for key, inner in read_fields(as_bytes(value)):
        if key == 1:
            text = as_text(inner)
        elif key == 2:
            score = as_float(inner)
        elif key == 3:
            kind = as_int(inner)
    if not text:
        raise DamagedError("a piece in it has no text")
    if not math.isfinite(score):
        raise DamagedError(f"the score of its piece {text!r:.80} is not finite")
    if kind == BYTE and not _BYTE.fullmatch(text):
        raise DamagedError(f"its byte {text!r:.80} is not written as <0x00> to <0xFF> are")
    return Piece(text, score, kind)


def _refuse(model: SpmModel) -> None:
    """What would be read otherwise than SentencePiece does."""
    if not model.pieces:
        raise RequestError(
            f"{model.path} has no pieces; it is no SentencePiece model, or not a whole one: fetch it again."
        )
    if model.kind not in (UNIGRAM, BPE):
        raise RequestError(f"{model.path} is a SentencePiece model of words or characters; use one of unigram or BPE.")
    if not model.escape:
        raise RequestError(
            f"{model.path} does not mark spaces (escape_whitespaces = false); such models are not supported."
        )
    if sum(piece.type == UNKNOWN for piece in model.pieces) != 1:
        raise RequestError(f"{model.path} has not exactly one unknown piece; fetch it again.")
    if model.kind == BPE and any(piece.type == UNUSED for piece in model.pieces):
        raise RequestError(f"{model.path} has pieces that are marked as unused, which is not supported with BPE.")
    seen: set[str] = set()
    for piece in model.pieces:
        if len(piece.text) > _LONGEST:
            raise RequestError(
                f"{model.path} has a piece of {len(piece.text):,} characters ({piece.text[:20]!r} …), and at most "
                f"{_LONGEST} are read; use a model with shorter pieces."
            )
        if piece.text in seen:
            raise RequestError(f"{model.path} has the piece {piece.text!r:.80} twice; fetch it again.")
        seen.add(piece.text)


def build_core(model: SpmModel) -> Core:
    """The library's tokenizer for texts that a `Normaliser` has spelled."""
    plain = [piece for piece in model.pieces if piece.type == NORMAL]
    symbols = [piece for piece in model.pieces if piece.type == USER_DEFINED]
    bytes_ = [piece for piece in model.pieces if piece.type == BYTE]
    core, spelled = (_unigram if model.kind == UNIGRAM else _bpe)(plain, bytes_, model.byte_fallback)
    _split_words(core, plain, model.suffix)
    spelled += [symbol.text for symbol in symbols if core.token_to_id(symbol.text) is None]
    # In one call: each rebuilds the library's index of all of them.
    core.add_tokens([AddedToken(symbol.text, normalized=False, special=False) for symbol in symbols])
    return Core(core, spelled)


def _split_words(core: tokenizers.Tokenizer, plain: Sequence[Piece], suffix: bool) -> None:
    """Words one by one, which the library remembers; where a piece goes over a space, or a space may be unknown, the
    whole text at once, as SentencePiece does."""
    inner = slice(None, -1) if suffix else slice(1, None)
    crossing = any(SPACE in piece.text[inner] and piece.text.strip(SPACE) for piece in plain)
    runs = any(len(piece.text) > 1 and not piece.text.strip(SPACE) for piece in plain)
    if not crossing and not runs and any(piece.text == SPACE for piece in plain):
        behavior = "merged_with_previous" if suffix else "merged_with_next"
        core.pre_tokenizer = pre_tokenizers.Split(SPACE, behavior=behavior)


def _unigram(plain: Sequence[Piece], bytes_: Sequence[Piece], fallback: bool) -> tuple[tokenizers.Tokenizer, list[str]]:
    # The unknown piece and the bytes must not count as the least likely one, from which the library, like
    # SentencePiece, derives the score of what is unknown.
    least = min((piece.score for piece in plain), default=0.0)
    vocabulary = [(_OUTSIDE, least), *((piece.text, piece.score) for piece in plain)]
    vocabulary += [(piece.text, least) for piece in bytes_]
    core = tokenizers.Tokenizer(models.Unigram(vocabulary, 0, fallback and bool(bytes_)))
    return core, ["", *(text for text, _ in vocabulary[1:])]


def _bpe(plain: Sequence[Piece], bytes_: Sequence[Piece], fallback: bool) -> tuple[tokenizers.Tokenizer, list[str]]:
    """Two neighbours are merged if their text is a piece, that of the highest score first. So every way to put a piece
    together is a merge, in the order of the pieces' scores."""
    scores = {piece.text: piece.score for piece in plain}
    alphabet = dict.fromkeys(character for piece in plain for character in piece.text)
    ids = {_OUTSIDE: 0}
    for text in (*scores, *alphabet, *(piece.text for piece in bytes_)):
        ids.setdefault(text, len(ids))
    known = scores.keys() | alphabet.keys()
    merges = []
    for text in sorted(scores, key=lambda text: -scores[text]):
        merges += [(text[:at], text[at:]) for at in range(1, len(text)) if text[:at] in known and text[at:] in known]
    core = tokenizers.Tokenizer(
        models.BPE(ids, merges, unk_token=_OUTSIDE, fuse_unk=True, byte_fallback=fallback and bool(bytes_))
    )
    return core, ["", *list(ids)[1:]]


def joining(model: SpmModel, unknown: str) -> Callable[[Iterable[str]], str]:
    """From pieces to their text; `unknown`: what the vocabulary calls the unknown one."""
    types = {piece.text: piece.type for piece in model.pieces if piece.type != NORMAL}
    return lambda tokens: _joined(tokens, types, model, unknown)


def _joined(tokens: Iterable[str], types: Mapping[str, int], model: SpmModel, unknown: str) -> str:
    """As SentencePiece decodes them: spaces for their signs, bytes put together, none at the start."""
    made, waiting = "", bytearray()
    bare = model.dummy_prefix or model.collapse  # whether a space at the beginning is none of the text's own
    for token in tokens:
        kind = types.get(token, NORMAL)
        if kind == BYTE:
            waiting.append(int(token[3:5], 16))
            continue
        made, waiting = made + _decoded(waiting), bytearray()
        if token == unknown:
            made += model.unknown_surface
        elif kind != CONTROL:
            at_start = bare and not made
            if at_start and token.startswith(SPACE):
                bare = model.collapse
            made += (token.removeprefix(SPACE) if at_start else token).replace(SPACE, " ")
    return made + _decoded(waiting)


def _decoded(content: bytes | bytearray) -> str:
    """Bytes that are no character, one by one, as U+FFFD."""
    made, at = "", 0
    while at < len(content):
        for length in (1, 2, 3, 4):
            try:
                made += content[at : at + length].decode("utf-8")
            except UnicodeDecodeError:
                continue
            at += length
            break
        else:
            made, at = made + "\ufffd", at + 1
    return made


def public_ids(core: Core, ids: Mapping[str, int], unknown: int) -> list[int]:
    """For each of the library's ids the model's; what its vocabulary lacks is unknown to it."""
    return [ids.get(text, unknown) if text else unknown for text in core.spelled]
