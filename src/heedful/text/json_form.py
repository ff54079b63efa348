"""tokenizer.json: the whole pipeline in one file, as the `tokenizers` library writes it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken

from heedful.errors import RequestError
from heedful.text import bytelevel, marian, wordpiece
from heedful.text.disk import read_json
from heedful.text.settings import Settings, add_tokens
from heedful.text.tokenizer import Tokenizer

_DEFAULTS = {
    "bert": wordpiece.SPECIAL,
    "distilbert": wordpiece.SPECIAL,
    "roberta": bytelevel.SPECIAL["roberta"],
    "gpt2": bytelevel.SPECIAL["gpt2"],
    "marian": marian.SPECIAL,
    "heedful": {},  # the directory says what plays which role
}


def read_json_form(path: Path, settings: Settings, family: str) -> Tokenizer:
    content = read_json(path)
    model = content.get("model")
    if not isinstance(model, dict) or not isinstance(model.get("vocab"), dict | list):
        raise RequestError(f"{path} has no model with a vocabulary; fetch the file again.")
    _apply_settings(content, settings)
    content["truncation"] = content["padding"] = None
    core = _build(path, content)
    _check_ids(path, content, core)
    special = dict(settings.special)
    defaults = _DEFAULTS[family] if family != "heedful" or special else _guess_roles(core)
    for role, token in defaults.items():
        if role not in special and core.token_to_id(token) is not None:
            special[role] = AddedToken(token, special=True)
    add_tokens(core, settings, path, special)
    names = {role: token.content for role, token in special.items()}
    return Tokenizer(core, names, family=family, **settings.general)


def _guess_roles(core: tokenizers.Tokenizer) -> dict[str, str]:
    """The special tokens of the first family all of whose tokens the vocabulary has; none where there is no such."""
    for names in _DEFAULTS.values():
        if names and all(core.token_to_id(token) is not None for token in names.values()):
            return names
    return {}


def _build(path: Path, content: dict[str, Any]) -> tokenizers.Tokenizer:
    try:
        return tokenizers.Tokenizer.from_str(json.dumps(content))
    except Exception as error:  # the library raises nothing more particular
        reason = str(error).partition(" at line ")[0] or type(error).__name__
        raise RequestError(f"{path} is not a tokenizer that can be built ({reason}); fetch the file again.") from None


def _apply_settings(content: dict[str, Any], settings: Settings) -> None:
    """Hugging Face's model-specific classes follow tokenizer_config.json rather than the pipeline, and so do we for the
    keys it has. Its general class follows the pipeline."""
    if settings.config.get("tokenizer_class") in ("PreTrainedTokenizerFast", "TokenizersBackend"):
        return
    normalizer = content.get("normalizer")
    if isinstance(normalizer, dict) and normalizer.get("type") == "BertNormalizer":
        names = {"do_lower_case": "lowercase", "tokenize_chinese_chars": "handle_chinese_chars"}
        for name, inner in names.items():
            if settings.config.get(name) is not None:
                normalizer[inner] = settings.flag(name, True)
        if "strip_accents" in settings.config:
            normalizer["strip_accents"] = settings.optional_flag("strip_accents")
    if settings.config.get("add_prefix_space") is not None:
        for part in (content.get("pre_tokenizer"), content.get("post_processor")):
            if isinstance(part, dict) and part.get("type") in ("ByteLevel", "RobertaProcessing"):
                part["add_prefix_space"] = settings.flag("add_prefix_space", False)


def _check_ids(path: Path, content: dict[str, Any], core: tokenizers.Tokenizer) -> None:
    """Errors that the library would report only while encoding, or not at all."""
    model = content["model"]
    if isinstance(model["vocab"], dict):
        token_of: dict[int, str] = {}
        for token, number in model["vocab"].items():
            if number in token_of:
                raise RequestError(
                    f"{path} gives {token_of[number]!r} and {token!r} the same id {number}; each needs its own."
                )
            token_of[number] = token
    if not model["vocab"]:
        raise RequestError(f"{path} has an empty vocabulary; fetch the file again.")
    unknown = model.get("unk_token")
    if unknown is not None and unknown not in model["vocab"]:
        raise RequestError(
            f"{path} lacks its unknown token {unknown!r} in the vocabulary; add it, or fetch the file again."
        )
    if isinstance(model["vocab"], list) and model.get("unk_id") is None:
        raise RequestError(f"{path} has no unknown token (model.unk_id); fetch the file again.")
    for token in content.get("added_tokens") or []:
        if core.token_to_id(token["content"]) != token["id"]:
            raise RequestError(
                f"{path} lists {token['content']!r} under the id {token['id']}, but its id is "
                f"{core.token_to_id(token['content'])}; correct added_tokens."
            )
    for token, number in _template_tokens(path, content.get("post_processor")):
        if core.token_to_id(token) != number:
            raise RequestError(
                f"{path} puts the special token {token!r} around texts as id {number}, but the vocabulary has it as "
                f"{core.token_to_id(token)}; correct post_processor."
            )


def _template_tokens(path: Path, processor: Any) -> Iterator[tuple[str, int]]:
    """The special tokens that a text gets and their ids. The library crashes if a template uses an undefined one."""
    if not isinstance(processor, dict):
        return
    for part in processor.get("processors") or []:
        yield from _template_tokens(path, part)
    if processor.get("type") in ("BertProcessing", "RobertaProcessing"):
        for end in ("sep", "cls"):
            yield processor[end][0], processor[end][1]
    if processor.get("type") != "TemplateProcessing":
        return
    defined = processor["special_tokens"]
    for piece in [*processor["single"], *processor["pair"]]:
        if "SpecialToken" in piece and piece["SpecialToken"]["id"] not in defined:
            raise RequestError(
                f"{path} puts the special token {piece['SpecialToken']['id']!r} around texts without defining it; "
                f"correct post_processor.special_tokens."
            )
    for name, special in defined.items():
        if len(special["tokens"]) != len(special["ids"]):
            raise RequestError(f"{path} gives the special token {name!r} too many or too few ids; correct them.")
        yield from zip(special["tokens"], special["ids"], strict=True)
