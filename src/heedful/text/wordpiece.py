"""BERT's WordPiece, from a vocabulary with one token a line."""

from pathlib import Path

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors

from heedful.errors import RequestError
from heedful.text.disk import read_lines
from heedful.text.settings import Settings, add_tokens, missing_token
from heedful.text.tokenizer import Tokenizer

SPECIAL = {"unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]", "mask": "[MASK]"}


def wordpiece(
    vocabulary: dict[str, int],
    special: dict[str, str],
    *,
    lowercase: bool = True,
    strip_accents: bool | None = None,
    split_chinese: bool = True,
) -> tokenizers.Tokenizer:
    """BERT's pipeline. `strip_accents` None: accents go where capitals go."""
    core = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token=special["unk"]))
    core.normalizer = normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=split_chinese, strip_accents=strip_accents, lowercase=lowercase
    )
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    core.decoder = decoders.WordPiece(prefix="##")
    first, last = special["cls"], special["sep"]
    core.post_processor = processors.TemplateProcessing(
        single=[f"{first}:0", "$A:0", f"{last}:0"],
        pair=[f"{first}:0", "$A:0", f"{last}:0", "$B:1", f"{last}:1"],
        special_tokens=[(first, vocabulary[first]), (last, vocabulary[last])],
    )
    return core


def read_wordpiece(path: Path, settings: Settings, family: str) -> Tokenizer:
    settings.require_class("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer", "MobileBertTokenizer")
    settings.refuse("never_split", [])
    settings.refuse("do_basic_tokenize", True)
    settings.refuse("wordpieces_prefix", "##")
    vocabulary: dict[str, int] = {}
    for i, token in enumerate(read_lines(path)):
        if token in vocabulary:
            what = "is blank" if not token else f"repeats {token!r}"
            raise RequestError(
                f"{path}, line {i + 1}, {what}, as line {vocabulary[token] + 1} does, so that an id is lost; "
                f"make every line a token of its own."
            )
        vocabulary[token] = i
    special = {role: AddedToken(token, special=True) for role, token in SPECIAL.items()} | settings.special
    if "mask" not in settings.special and SPECIAL["mask"] not in vocabulary:
        del special["mask"]  # a vocabulary for classifying alone
    for role in ("unk", "cls", "sep"):
        if special[role].content not in vocabulary:
            raise missing_token(path, role, special[role].content, settings)
    names = {role: token.content for role, token in special.items()}
    core = wordpiece(
        vocabulary,
        names,
        lowercase=settings.flag("do_lower_case", True),
        strip_accents=settings.optional_flag("strip_accents"),
        split_chinese=settings.flag("tokenize_chinese_chars", True),
    )
    add_tokens(core, settings, path, special)
    return Tokenizer(core, names, family=family, **settings.general)
