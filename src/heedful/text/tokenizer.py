"""Text to ids and back: one class over the `tokenizers` library, the same for every kind of vocabulary."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, models

from heedful.errors import RequestError
from heedful.storage.hashing import sha256_of_json
from heedful.text.pieces import Cutter, Pieces, UncuttableError

Text = str | tuple[str, str]

ROLES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
"""The parts that a special token can play; Hugging Face's files call them `bos_token`, `eos_token`, …"""

_SEGMENTED = {"bert", "heedful"}
"""The families whose models may read segments; to the others Hugging Face passes ids and mask alone."""


@dataclass(slots=True)
class Tokens:
    """One text or pair, encoded: `offsets` are (start, end) characters of the text that a token comes from, in a pair
    of its own text; (0, 0) for the special tokens around them, and None unless asked for. With them come `words`, which
    word of its text a token belongs to, and `parts`, which text of a pair it comes from (0 or 1); None for the special
    tokens around them."""

    ids: list[int]
    segments: list[int]
    offsets: list[tuple[int, int]] | None
    truncated: bool
    words: list[int | None] | None = None
    parts: list[int | None] | None = None

    def __len__(self) -> int:
        return len(self.ids)


class Tokenizer:
    """Takes `core` over: its truncation and padding are switched off for good.

    `special` names the token that plays each role (see ROLES); a role without a token has the id None. `family` matters
    to `save` alone. `pieces` translates between the ids of `core` and those of the model, where these differ.
    """

    def __init__(
        self,
        core: tokenizers.Tokenizer,
        special: Mapping[str, str],
        *,
        family: str | None = None,
        max_length: int | None = None,
        truncate_left: bool = False,
        split_special: bool = False,
        segmented: bool | None = None,
        pieces: Pieces | None = None,
    ) -> None:
        core.no_truncation()
        core.no_padding()
        core.encode_special_tokens = split_special
        self._core = core
        self._pieces = pieces
        self._truncate_left = truncate_left
        self._split_special = split_special
        self._segmented = family in _SEGMENTED if segmented is None else segmented
        self.family = family
        self.max_length = max_length
        self.special = {role: special[role] for role in ROLES if role in special}
        for role, token in self.special.items():
            if self.id(token) is None:
                raise RequestError(f"The {role} token {token!r} is not in the vocabulary; add it, or name another.")
        self.pad_id = self._role("pad")
        self.mask_id = self._role("mask")
        self.unk_id = self._role("unk")
        self.cls_id = self._role("cls")
        self.sep_id = self._role("sep")
        self.bos_id = self._role("bos")
        self.eos_id = self._role("eos")
        # Reading the segments of every row costs as much as its ids, and for single texts they are nearly always zeros.
        self._plain_segments = not any(core.encode("a").type_ids)

    def add_special(self, tokens: Sequence[str]) -> None:
        """Tokens that stand for no text, after those that there are; for a vocabulary that no model has read yet."""
        if tokens:
            self._core.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in tokens])
            for name in ("size", "_special_ids", "fingerprint"):
                self.__dict__.pop(name, None)

    def _role(self, role: str) -> int | None:
        return self.id(self.special[role]) if role in self.special else None

    def encode(self, texts: Sequence[Text], max_length: int | None = None, offsets: bool = False) -> list[Tokens]:
        """Encode texts and pairs (they may be mixed), special tokens around them.

        What is longer than `max_length` is cut: in a pair the longer text first, then both in turn. Nothing is padded.
        """
        if isinstance(texts, str):
            raise RequestError("The texts to encode are one string; put it in a list.")
        if max_length is not None and max_length < 1:
            raise RequestError(f"max_length is {max_length}; give at least 1.")
        rows = list(texts)
        try:
            encodings = self._encode_with_library(rows, offsets=offsets)
        except (TypeError, UnicodeError):
            raise RequestError(_why_not_encoded(rows)) from None
        public = self._pieces.public if self._pieces else None
        result = []
        for row, encoding in zip(rows, encodings, strict=True):
            ids = encoding.ids
            if public is not None:
                ids = [public[i] for i in ids]
            plain = not self._segmented or (self._plain_segments and isinstance(row, str))
            segments = [0] * len(ids) if plain else encoding.type_ids
            spans, words, parts = None, None, None
            if offsets:
                spans, words = self._places(row, encoding)
                parts = encoding.sequence_ids
            truncated = max_length is not None and len(ids) > max_length
            if max_length is not None and truncated:
                kept = self._kept_positions(encoding.sequence_ids, max_length)
                ids = [ids[i] for i in kept]
                segments = [segments[i] for i in kept]
                spans = [spans[i] for i in kept] if spans is not None else None
                words = [words[i] for i in kept] if words is not None else None
                parts = [parts[i] for i in kept] if parts is not None else None
            result.append(Tokens(ids, segments, spans, truncated, words, parts))
        return result

    def plain(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text alone, without special tokens around it; one that it spells out is its letters."""
        self._core.encode_special_tokens = True
        try:
            encodings = self._encode_with_library(list(texts), special=False)
        except (TypeError, UnicodeError):
            raise RequestError(_why_not_encoded(list(texts))) from None
        finally:
            self._core.encode_special_tokens = self._split_special
        public = self._pieces.public if self._pieces else None
        return [e.ids if public is None else [public[i] for i in e.ids] for e in encodings]

    @property
    def _cutter(self) -> Cutter | None:
        return self._pieces.cutter if self._pieces else None

    def _encode_with_library(
        self, rows: list[Any], *, offsets: bool = False, special: bool = True
    ) -> list[tokenizers.Encoding]:
        """`special`: put special tokens around the texts."""
        encode = self._core.encode_batch if offsets else self._core.encode_batch_fast
        if self._cutter is None:
            return encode(rows, add_special_tokens=special)
        return encode(self._cut(rows, self._cutter), is_pretokenized=True, add_special_tokens=special)

    def _cut(self, rows: list[Any], cutter: Cutter) -> list[Any]:
        if why_no_texts(rows):
            raise TypeError
        result: list[Any] = []
        for i, row in enumerate(rows):
            try:
                result.append(cutter.pieces(row) if isinstance(row, str) else tuple(map(cutter.pieces, row)))
            except UncuttableError as error:
                raise RequestError(f"Row {i} of the texts: {error}") from None
        return result

    def _places(self, row: Text, encoding: tokenizers.Encoding) -> tuple[list[tuple[int, int]], list[int | None]]:
        """For each token the characters and the word of its text that it belongs to."""
        if self._cutter is None:
            return encoding.offsets, encoding.word_ids
        cuts = [self._cutter.cut(text) for text in ((row,) if isinstance(row, str) else row)]
        spans: list[tuple[int, int]] = []
        words: list[int | None] = []
        # The library was given pieces, and so calls a piece a word.
        for piece, part in zip(encoding.word_ids, encoding.sequence_ids, strict=True):
            if piece is None or part is None:
                spans.append((0, 0))
                words.append(None)
            else:
                spans.append(cuts[part].spans[piece])
                words.append(cuts[part].words[piece])
        return spans, words

    # The library could truncate by itself, but only through a setting of the whole tokenizer, and for a pair of long
    # texts it builds every combination of the parts cut off (ten seconds for two texts of 3000 words).
    def _kept_positions(self, sequences: Sequence[int | None], max_length: int) -> list[int]:
        """The positions that stay, given which text (0, 1, None for special tokens) each position comes from."""
        n = (sequences.count(0), sequences.count(1))
        room = max_length - (len(sequences) - sum(n))
        if room < 0:
            raise RequestError(
                f"max_length {max_length} is less than the {max_length - room} special tokens of a text; raise it."
            )
        dropped: set[int] = set()
        for sequence, (have, keep) in enumerate(zip(n, longest_first(*n, room), strict=True)):
            if keep < have:
                start = sequences.index(sequence)
                first = start if self._truncate_left else start + keep
                dropped.update(range(first, first + have - keep))
        return [i for i in range(len(sequences)) if i not in dropped]

    def decode(self, ids: Iterable[int], skip_special: bool = True) -> str:
        """Inverse of `encode` as far as the vocabulary's normalisation allows: exact for bytes and characters."""
        numbers = [int(i) for i in ids]
        for i in numbers:
            if not 0 <= i < self.size:
                raise RequestError(f"Cannot decode the id {i}: the vocabulary has the ids 0 to {self.size - 1}.")
        if self._pieces:
            special = self._special_ids if skip_special else frozenset()
            return self._pieces.join(self._pieces.tokens[i] for i in numbers if i not in special)
        return self._core.decode(numbers, skip_special_tokens=skip_special)

    @cached_property
    def _special_ids(self) -> frozenset[int]:
        added = self._core.get_added_tokens_decoder()
        special = {i for i, token in added.items() if token.special}
        return frozenset(self._pieces.public[i] for i in special) if self._pieces else frozenset(special)

    @property
    def special_ids(self) -> frozenset[int]:
        """Of the tokens that stand for no text."""
        return self._special_ids

    @property
    def end_id(self) -> int | None:
        """The token that ends a text: what a language model learns to say there, and where it stops."""
        return self.eos_id if self.sep_id is None else self.sep_id

    @property
    def side(self) -> str:
        """ "source" or "target", where its files hold a vocabulary for each; else empty."""
        return self._pieces.side if self._pieces else ""

    def begins_word(self) -> list[bool] | None:
        """Of each id, whether a word begins with it; None where the vocabulary does not show it."""
        tokens = [self._core.id_to_token(i) or "" for i in range(self.size)] if not self._pieces else []
        if self.kind == "WordPiece":
            return [not token.startswith("##") for token in tokens]
        if self.kind == "byte-level BPE":  # Ġ and Ċ are how it spells a space and a line's end
            return [token[:1] in ("Ġ", "Ċ") for token in tokens]
        return None

    @property
    def own_files(self) -> Mapping[str, bytes]:
        """The files of a vocabulary that is saved as it was read, and not as tokenizer.json; name to content."""
        return self._pieces.files if self._pieces else {}

    @cached_property
    def fingerprint(self) -> str:
        """Equal where every text has the same ids; what stands around texts is left out."""
        if self._pieces:
            content: Any = repr(sorted(self._pieces.files.items()))
            if self._pieces.side:  # the same files give each side ids of its own
                content = [content, self._pieces.side, self.unk_id]
        else:
            whole = json.loads(self._core.to_str())
            content = [whole[key] for key in ("added_tokens", "normalizer", "pre_tokenizer", "model")]
        return sha256_of_json(content, sort_keys=True)

    @property
    def vocabulary_hash(self) -> str:
        """Equal where every id is the same token. Other than the fingerprint it is no matter of how a release of
        `tokenizers` writes a vocabulary, so that it can be stored."""
        tokens = self._pieces.tokens if self._pieces else [self._core.id_to_token(i) for i in range(self.size)]
        return sha256_of_json(list(tokens))

    @cached_property
    def size(self) -> int:
        """How many rows an embedding needs: the highest id, added tokens included, and one."""
        if self._pieces:
            return len(self._pieces.tokens)
        return max(self._core.get_vocab(with_added_tokens=True).values(), default=-1) + 1

    def token(self, id: int) -> str:
        """The token as the vocabulary spells it (`##ing`, `Ġthe`, `th@@`)."""
        token: str | None = None
        if 0 <= id < self.size:
            token = self._pieces.tokens[id] if self._pieces else self._core.id_to_token(id)
        if token is None:
            raise RequestError(f"The vocabulary has no id {id}; it has {self.size}.")
        return token

    def id(self, token: str) -> int | None:
        """None if the vocabulary does not have the token."""
        return self._pieces.ids.get(token) if self._pieces else self._core.token_to_id(token)

    @cached_property
    def kind(self) -> str:
        """What a reader of a report would call it."""
        model = self._core.model
        if self._pieces:
            return self._pieces.kind
        if isinstance(model, models.BPE):
            splitter = _state(self._core.pre_tokenizer)
            if "ByteLevel" in json.dumps(splitter):
                return "byte-level BPE"
            return (
                "characters" if splitter is None and not json.loads(self._core.to_str())["model"]["merges"] else "BPE"
            )
        return {models.WordLevel: "words"}.get(type(model), type(model).__name__)

    @cached_property
    def lowercase(self) -> bool | None:
        """Whether capitals are folded before the vocabulary sees them; None if the normaliser does not say."""
        if self._cutter is not None:
            return self._cutter.folds_case
        return _folds_case(_state(self._core.normalizer))

    @property
    def exact(self) -> bool:
        """Whether decoding gives back the very text, but for characters that the vocabulary lacks."""
        return self.kind in ("byte-level BPE", "characters") and self._core.normalizer is None

    def save(self, directory: Path) -> None:
        """Write the files that `read_tokenizer` and Hugging Face's AutoTokenizer read back to the same ids. A lone
        SentencePiece model, which may stand for any of its classes, AutoTokenizer does not read."""
        if self._pieces:
            for name, content in self._pieces.files.items():
                (directory / name).write_bytes(content)
        else:
            (directory / "tokenizer.json").write_text(self._core.to_str(pretty=True), encoding="utf-8")
        names = {f"{role}_token": token for role, token in self.special.items()}
        _write_json(directory / "special_tokens_map.json", names)
        _write_json(directory / "tokenizer_config.json", {**self._settings(), **names})

    def _settings(self) -> dict[str, Any]:
        # Hugging Face's own classes rebuild the pipeline from settings; the general class takes tokenizer.json as it
        # is, and has had this name in every release (release 5 keeps it as an alias).
        settings: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
        if self._pieces:
            settings |= self._pieces.settings
            flags = ("lstrip", "normalized", "rstrip", "single_word", "special")
            settings["added_tokens_decoder"] = {
                str(self._pieces.public[i]): {
                    "content": self._pieces.tokens[self._pieces.public[i]],
                    **{flag: getattr(token, flag) for flag in flags},
                }
                for i, token in self._core.get_added_tokens_decoder().items()
                if token.special or self._cutter is None
            }
        inputs = ["input_ids", "token_type_ids", "attention_mask"]
        settings["model_input_names"] = inputs if self._segmented else [inputs[0], inputs[2]]
        if self.max_length is not None:
            settings["model_max_length"] = self.max_length
        if self._truncate_left:
            settings["truncation_side"] = "left"
        if self._split_special:
            settings["split_special_tokens"] = True
        return settings


def longest_first(n_a: int, n_b: int, room: int) -> tuple[int, int]:
    """How many tokens of each text stay: as if tokens were taken off the longer one, again and again, until both fit.

    The odd token goes to the longer text (to the second if they are equal), as in the `tokenizers` library.
    """
    if n_a + n_b <= room:
        return n_a, n_b
    short, long = min(n_a, n_b), max(n_a, n_b)
    if short * 2 <= room:
        long = room - short
    else:
        short, long = room // 2, room - room // 2
    return (long, short) if n_a > n_b else (short, long)


def why_no_texts(rows: Sequence[object]) -> str:
    """Which row is neither a text nor a pair of texts, in a sentence; nothing if all are."""
    for i, row in enumerate(rows):
        if isinstance(row, tuple | list) and len(row) != 2:
            return f"Row {i} of the texts has {len(row)} parts; give a string, or a pair of strings."
        for part in row if isinstance(row, tuple | list) else (row,):
            if _is_missing(part):
                return f"Row {i} of the texts is missing. Fill it or remove it."
            if not isinstance(part, str):
                return f"Row {i} of the texts is {type(part).__name__}, not text; give a string, or a pair of strings."
    return ""


def _is_missing(value: object) -> bool:
    """None, NaN, or what pandas has for them (whose comparisons are missing, too)."""
    if isinstance(value, float):
        return value != value
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def _why_not_encoded(rows: Sequence[Text]) -> str:
    if reason := why_no_texts(rows):
        return reason
    for i, row in enumerate(rows):
        for part in (row,) if isinstance(row, str) else row:
            for at, character in enumerate(part):
                if "\ud800" <= character <= "\udfff":
                    return (
                        f"Row {i} of the texts has half a surrogate pair at character {at}, which is not text; "
                        f"read the source with the right encoding."
                    )
    return "The texts cannot be encoded; give strings, or pairs of strings."


def _state(part: Any) -> Any:
    """A normaliser's or pre-tokeniser's settings: the library shows them only as the JSON of its state."""
    return None if part is None else json.loads(part.__getstate__())


def _folds_case(state: Any) -> bool | None:
    if state is None:
        return False
    if state["type"] == "Sequence":
        answers = [_folds_case(part) for part in state["normalizers"]]
        return True if True in answers else None if None in answers else False
    if state["type"] in ("NFC", "NFD", "NFKC", "NFKD", "StripAccents", "Strip"):
        return False
    return {"BertNormalizer": state.get("lowercase"), "Lowercase": True}.get(state["type"])


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=2, sort_keys=True) + "\n", encoding="utf-8")
