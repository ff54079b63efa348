"""Marian's form, as translation models on the hub have it: SentencePiece for each side, and ids from a vocabulary of
both.

A text is cut into pieces by source.spm or target.spm; vocab.json says the model's id of each piece (target_vocab.json
for the target, where the two have vocabularies of their own), and what it lacks is unknown. `</s>` ends every text. A
source may begin with the language that is wanted, `>>fra<<`, if the vocabulary has it; on a target that is text.
"""

import contextlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, processors

from heedful.errors import RequestError
from heedful.text.bytelevel import read_vocabulary
from heedful.text.charsmap import SPACE, Prepared
from heedful.text.disk import read_bytes
from heedful.text.pieces import Pieces, Spelling, SpellingError
from heedful.text.protobuf import DamagedError
from heedful.text.settings import Settings, missing_token, read_settings
from heedful.text.spm import CONTROL, UNKNOWN, SpmModel, build_core, joining, public_ids, read_spm
from heedful.text.tokenizer import Tokenizer

SPECIAL = {"eos": "</s>", "unk": "<unk>", "pad": "<pad>"}
_CODE = re.compile(r">>[\w-]+<<")
_KIND = {1: "SentencePiece (unigram)", 2: "SentencePiece (BPE)"}


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
            raise RequestError(f"{directory} has no {name} beside its SentencePiece models; put it there.")
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
    tokens = [piece.text for piece in model.pieces]
    named = {"<s>": "bos", "</s>": "eos", "<pad>": "pad"}
    special = {named[piece.text]: piece.text for piece in model.pieces if piece.type == CONTROL and piece.text in named}
    special["unk"] = next(piece.text for piece in model.pieces if piece.type == UNKNOWN)
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
    core, unknown = build_core(model), special["unk"]
    public = public_ids(core, ids, ids[unknown])
    library = core.tokenizer
    # Special tokens and languages are no text: they are spelled with a space, which no spelled text has.
    codes = [token for token in tokens if _CODE.fullmatch(token)] if side == "source" else []
    around = list(dict.fromkeys(token for role, token in special.items() if role != "unk"))
    library.add_tokens([AddedToken(f" {token}", normalized=False, special=False) for token in codes])
    library.add_special_tokens([AddedToken(f" {token}", normalized=False, special=True) for token in around])
    public += [ids[unknown]] * (library.get_vocab_size() - len(public))
    number_of = library.get_vocab()
    for token in (*codes, *around):
        public[number_of[f" {token}"]] = ids[token]
    if side:
        end = f" {special['eos']}"
        library.post_processor = processors.TemplateProcessing(
            single=["$A:0", f"{end}:0"],
            pair=["$A:0", "$B:0", f"{end}:0"],
            special_tokens=[(end, library.token_to_id(end))],
        )
    spelling = _spelling(model, frozenset(codes))
    pieces = Pieces(public, tokens, files, _KIND[model.kind], joining(model, unknown), config, spelling, side)
    return Tokenizer(
        library, special, family="marian", pieces=pieces, **{**general, "split_special": True, "segmented": False}
    )


def _spelling(model: SpmModel, codes: frozenset[str]) -> Spelling:
    normaliser = model.normaliser()

    def spell(text: str) -> str:
        code = _code(text, codes, model)
        with _whole(model):
            return (f" {code}" if code else "") + normaliser.spell(text[len(code) :])

    def prepare(text: str) -> Prepared:
        code = _code(text, codes, model)
        with _whole(model):
            rest = normaliser.prepare(text[len(code) :])
        if not code:
            return rest
        first, n = len(code) + 1, len(code)
        starts, ends = [0] * first + [n + i for i in rest.starts], [n] * first + [n + i for i in rest.ends]
        return Prepared(f" {code}{rest.text}", starts, ends)

    return Spelling(spell, prepare, folds_case=spell("A").strip(SPACE) == "a")


def _code(text: str, codes: frozenset[str], model: SpmModel) -> str:
    """The language at the beginning of a text, if there is one; only where the vocabulary has any."""
    found = _CODE.match(text) if codes else None
    if found is None:
        return ""
    if found[0] not in codes:
        known = ", ".join(sorted(codes)[:8]) + (" …" if len(codes) > 8 else "")
        raise SpellingError(f"{model.path.parent} has no language {found[0]!r:.40} in its vocabulary; it has {known}.")
    return found[0]


@contextlib.contextmanager
def _whole(model: SpmModel) -> Iterator[None]:
    """Rules are looked at when a text needs them, and so may turn out to be damaged then."""
    try:
        yield
    except DamagedError as error:
        raise RequestError(f"{model.path} is no whole SentencePiece model ({error}); fetch it again.") from None
