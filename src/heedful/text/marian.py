"""Marian's form, as translation models on the hub have it: SentencePiece for each side, and ids from a vocabulary of
both.

A text is cut into pieces by source.spm or target.spm; vocab.json says the model's id of each piece (target_vocab.json
for the target, where the two have vocabularies of their own), and what it lacks is unknown. `</s>` ends every text. A
source may begin with the language that is wanted, `>>fra<<`, if the vocabulary has it; on a target that is text.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import models, processors

from heedful.errors import RequestError
from heedful.text.bytelevel import read_vocabulary
from heedful.text.disk import read_bytes
from heedful.text.pieces import Cut, Pieces, UncuttableError
from heedful.text.settings import Settings, missing_token, read_settings
from heedful.text.spm import SPACE, SpmModel, cut_of, joining, read_spm
from heedful.text.tokenizer import Tokenizer

SPECIAL = {"eos": "</s>", "unk": "<unk>", "pad": "<pad>"}
_CODE = re.compile(r">>[\w-]+<<")


def is_marian(directory: Path) -> bool:
    return (directory / "source.spm").exists() or (directory / "target.spm").exists()


def read_marian(directory: Path) -> tuple[Tokenizer, Tokenizer]:
    """Of source and target."""
    settings = read_settings(directory)
    settings.require_class("MarianTokenizer")
    settings.refuse("sp_model_kwargs", {})
    separate = settings.flag("separate_vocabs", False)
    needed = ["source.spm", "target.spm", "vocab.json", *(["target_vocab.json"] if separate else [])]
    for name in needed:
        if not (directory / name).exists():
            raise RequestError(f"{directory} has SentencePiece models but no {name}. Add it.")
    files = {name: read_bytes(directory / name) for name in needed}
    sides = []
    for side in ("source", "target"):
        path = directory / ("target_vocab.json" if separate and side == "target" else "vocab.json")
        sides.append(_side(side, read_spm(directory / f"{side}.spm"), path, files, settings))
    return sides[0], sides[1]


def read_spm_tokenizer(path: Path) -> Tokenizer:
    """A SentencePiece model by itself, with its own ids; nothing is put around a text. Classes of Hugging Face's that
    give the same file other ids (and most do) are refused."""
    settings = read_settings(path.parent)
    settings.require_class()
    model = read_spm(path)
    tokens = list(model.pieces)
    named = {"<s>": "bos", "</s>": "eos", "<pad>": "pad"}
    special = {named[piece]: piece for piece in tokens if piece in named and model.is_control(piece)}
    special["unk"] = model.unknown
    special |= {role: token.content for role, token in settings.special.items()}
    for role, token in special.items():
        if token not in tokens:
            raise missing_token(path, role, token, settings)
    return _tokenizer("", model, tokens, special, {path.name: read_bytes(path)}, {}, settings.general)


def _side(side: str, model: SpmModel, path: Path, files: Mapping[str, bytes], settings: Settings) -> Tokenizer:
    vocabulary = read_vocabulary(path)
    special = SPECIAL | {role: token.content for role, token in settings.special.items()}
    for role, token in special.items():
        if token not in vocabulary:
            raise missing_token(path, role, token, settings)
    config = {"tokenizer_class": "MarianTokenizer"}
    kept = ("source_lang", "target_lang", "separate_vocabs")
    config |= {key: settings.config[key] for key in kept if key in settings.config}
    tokens = sorted(vocabulary, key=lambda token: vocabulary[token])
    return _tokenizer(side, model, tokens, special, files, config, settings.general)


def _tokenizer(
    side: str,
    model: SpmModel,
    tokens: list[str],
    special: Mapping[str, str],
    files: Mapping[str, bytes],
    config: Mapping[str, Any],
    general: Mapping[str, Any],
) -> Tokenizer:
    """`side`: "source" or "target" of Marian's; empty for a model by itself, which has no languages and no end."""
    ids = {token: i for i, token in enumerate(tokens)}
    unknown = special["unk"]
    library = tokenizers.Tokenizer(models.WordLevel(ids, unk_token=unknown))
    library.add_special_tokens(list(dict.fromkeys(token for role, token in special.items() if role != "unk")))
    if side:
        end = special["eos"]
        library.post_processor = processors.TemplateProcessing(
            single=["$A:0", f"{end}:0"],
            pair=["$A:0", "$B:0", f"{end}:0"],
            special_tokens=[(end, ids[end])],
        )
    codes = frozenset(filter(_CODE.fullmatch, tokens)) if side == "source" else frozenset()
    cutter = _SpmCutter(model, [piece if piece in ids else unknown for piece in model.pieces], unknown, codes)
    pieces = Pieces(list(range(len(tokens))), tokens, files, model.kind, joining(model, unknown), config, cutter, side)
    return Tokenizer(
        library, special, family="marian", pieces=pieces, **{**general, "split_special": True, "segmented": False}
    )


class _SpmCutter:
    """Cuts a text with SentencePiece, but for the language at its beginning."""

    def __init__(self, model: SpmModel, tokens: list[str], unknown: str, codes: frozenset[str]) -> None:
        """`tokens`: what the vocabulary calls each of the model's pieces."""
        self._model = model
        self._tokens = tokens
        self._tokens[model.processor.unk_id()] = unknown
        self._codes = codes
        self.folds_case = "".join(model.processor.encode("A", return_type=str)).strip(SPACE) == "a"

    def pieces(self, text: str) -> list[str]:
        code = self._code(text)
        pieces = [self._tokens[i] for i in self._model.ids(text[len(code) :])]
        return [code, *pieces] if code else pieces

    def cut(self, text: str) -> Cut:
        code = self._code(text)
        n = len(code)
        ids, spans = self._model.ids_and_spans(text[n:])
        cut = cut_of([self._model.pieces[i] for i in ids], [(start + n, end + n) for start, end in spans])
        if not code:
            return cut
        return Cut([code, *cut.pieces], [(0, n), *cut.spans], [0, *(word + 1 for word in cut.words)])

    def _code(self, text: str) -> str:
        """The language at the beginning of a text, if there is one; only where the vocabulary has any."""
        found = _CODE.match(text) if self._codes else None
        if found is None:
            return ""
        if found[0] not in self._codes:
            known = ", ".join(sorted(self._codes)[:8]) + (" …" if len(self._codes) > 8 else "")
            raise UncuttableError(
                f"{self._model.path.parent} has no language {found[0]!r:.40} in its vocabulary; it has {known}."
            )
        return found[0]
