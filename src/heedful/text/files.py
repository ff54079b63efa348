"""The tokenizer in a model directory, whichever of the six forms it has there."""

import json
from pathlib import Path
from typing import Any

from heedful.errors import RequestError
from heedful.text.bertweet import read_bertweet
from heedful.text.bytelevel import read_byte_bpe
from heedful.text.json_form import read_json_form
from heedful.text.marian import is_marian, read_marian, read_spm_tokenizer
from heedful.text.settings import Settings, read_settings
from heedful.text.tokenizer import Tokenizer
from heedful.text.wordpiece import read_wordpiece

FAMILIES = ("bert", "roberta", "distilbert", "gpt2", "marian", "heedful")


def read_tokenizer(directory: Path, family: str, model_type: str | None = None) -> Tokenizer | None:
    """None if the directory holds no vocabulary. `family` settles what the files leave open: which special tokens stand
    around a text, and what they are called. To "heedful" any of the families' tokens will do. Where source and target
    have one each, that of the source; `read_pair_tokenizer` reads both. `model_type`: of the model in the directory, if
    it is known; else as its config.json says."""
    if family not in FAMILIES:
        raise RequestError(f"There is no tokenizer for the family {family!r}; choose one of {', '.join(FAMILIES)}.")
    directory = Path(directory)
    if not directory.is_dir():
        raise RequestError(f"{directory} is not a directory; give the directory that holds the tokenizer's files.")
    whole = directory / "tokenizer.json"
    codes, lines = directory / "bpe.codes", directory / "vocab.txt"
    vocabulary, merges = directory / "vocab.json", directory / "merges.txt"
    if whole.exists() or lines.exists():
        _refuse_segmenting(directory, read_settings(directory), model_type)
    if whole.exists():
        return read_json_form(whole, read_settings(directory), family)
    if is_marian(directory):
        return read_marian(directory)[0]
    if codes.exists() and lines.exists():
        return read_bertweet(codes, lines, read_settings(directory))
    if lines.exists():
        return read_wordpiece(lines, read_settings(directory), family)
    if vocabulary.exists() and merges.exists():
        return read_byte_bpe(vocabulary, merges, read_settings(directory), family)
    for present, absent in ((codes, lines), (vocabulary, merges), (merges, vocabulary)):
        if present.exists():
            raise RequestError(f"{directory} has {present.name} but no {absent.name}. Add it to the directory.")
    alone = sorted(path for path in directory.iterdir() if path.suffix in (".spm", ".model") and path.is_file())
    if len(alone) > 1:
        names = ", ".join(path.name for path in alone[:4])
        raise RequestError(f"{directory} has {len(alone)} SentencePiece models ({names}); leave one of them there.")
    return read_spm_tokenizer(alone[0]) if alone else None


def _refuse_segmenting(directory: Path, settings: Settings, model_type: str | None) -> None:
    """RoFormer's own tokenizer finds Chinese words with jieba before it looks into the vocabulary, and its
    tokenizer.json does not say so. Hugging Face takes it for every RoFormer that names no other class."""
    named = settings.config.get("tokenizer_class")
    if named is None:
        config = _model_config(directory)
        is_roformer = (model_type or config.get("model_type")) == "roformer"
        named = config.get("tokenizer_class") or ("RoFormerTokenizer" if is_roformer else None)
    if isinstance(named, str) and named.removesuffix("Fast") == "RoFormerTokenizer":
        raise RequestError(
            f"{directory} has the tokenizer of RoFormer's own class, which segments texts with jieba, and heedful does "
            f"not; if it is a plain WordPiece, name its class in {settings.path.name} (tokenizer_class: BertTokenizer)."
        )


def _model_config(directory: Path) -> dict[str, Any]:
    """What is wrong with config.json is for those to say who read the model."""
    path = directory / "config.json"
    try:
        content = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
