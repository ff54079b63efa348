"""Byte-level BPE as RoBERTa and GPT-2 have it: every text has ids, since every byte is a token."""

from pathlib import Path

import tokenizers
from tokenizers import AddedToken, decoders, models, pre_tokenizers, processors

from heedful.errors import RequestError
from heedful.text.disk import read_json, read_lines
from heedful.text.settings import Settings, add_tokens, missing_token
from heedful.text.tokenizer import Tokenizer

_END = "<|endoftext|>"
SPECIAL = {
    "roberta": {
        "bos": "<s>",
        "eos": "</s>",
        "unk": "<unk>",
        "sep": "</s>",
        "pad": "<pad>",
        "cls": "<s>",
        "mask": "<mask>",
    },
    "gpt2": {"bos": _END, "eos": _END, "unk": _END},
    "heedful": {"bos": _END, "eos": _END, "unk": _END, "pad": "<|pad|>", "mask": "<|mask|>"},
}
_MASKS = frozenset(special["mask"] for special in SPECIAL.values() if "mask" in special)


def byte_bpe(
    vocabulary: dict[str, int],
    merges: list[tuple[str, str]],
    family: str,
    special: dict[str, str],
    *,
    prefix_space: bool = False,
    trim_offsets: bool = True,
) -> tokenizers.Tokenizer:
    core = tokenizers.Tokenizer(models.BPE(vocabulary, merges))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space)
    core.decoder = decoders.ByteLevel()
    if family == "roberta":
        core.post_processor = processors.RobertaProcessing(
            (special["sep"], vocabulary[special["sep"]]),
            (special["cls"], vocabulary[special["cls"]]),
            trim_offsets=trim_offsets,
            add_prefix_space=prefix_space,
        )
    else:
        core.post_processor = processors.TemplateProcessing(single=["$A:0"], pair=["$A:0", "$B:1"], special_tokens=[])
    return core


def special_token(token: str) -> AddedToken:
    # The space before a mask belongs to it, or the model would see a lone space that it never saw in training.
    return AddedToken(token, special=True, lstrip=token in _MASKS)


def read_byte_bpe(vocabulary_path: Path, merges_path: Path, settings: Settings, family: str) -> Tokenizer:
    settings.require_class("RobertaTokenizer", "GPT2Tokenizer")
    settings.refuse("add_bos_token", False)
    settings.refuse("add_eos_token", False)
    vocabulary = read_vocabulary(vocabulary_path)
    merges = _merges(merges_path, vocabulary, vocabulary_path)
    if family == "heedful" and SPECIAL["roberta"]["cls"] in vocabulary:
        family = "roberta"  # whose files they are says what stands around a text
    defaults = {role: special_token(token) for role, token in SPECIAL[family].items()}
    optional = {"mask"} if family == "roberta" else set(defaults)
    listed = {token.content for token in settings.added.values()}
    for role in optional:
        if defaults[role].content not in vocabulary and defaults[role].content not in listed:
            del defaults[role]
    special = defaults | settings.special
    for role in ("cls", "sep") if family == "roberta" else ():
        if special[role].content not in vocabulary:
            raise missing_token(vocabulary_path, role, special[role].content, settings)
    names = {role: token.content for role, token in special.items()}
    core = byte_bpe(
        vocabulary,
        merges,
        family,
        names,
        prefix_space=settings.flag("add_prefix_space", False),
        trim_offsets=settings.flag("trim_offsets", True),
    )
    add_tokens(core, settings, vocabulary_path, special)
    return Tokenizer(core, names, family=family, **settings.general)


def read_vocabulary(path: Path) -> dict[str, int]:
    """vocab.json: tokens and their ids, which run from 0 without a gap."""
    vocabulary = read_json(path)
    owner: dict[int, str] = {}
    for token, number in vocabulary.items():
        if not isinstance(number, int) or isinstance(number, bool) or number < 0:
            raise RequestError(f"{path}: the id of {token!r} is {number!r}; it must be a whole number.")
        if number in owner:
            raise RequestError(
                f"{path} gives {owner[number]!r} and {token!r} the same id {number}; each needs its own."
            )
        owner[number] = token
    if not owner:
        raise RequestError(f"{path} has no tokens; fetch the file again.")
    for number in range(len(owner)):
        if number not in owner:
            raise RequestError(f"{path} has no token with the id {number}; the ids must run from 0 without a gap.")
    return vocabulary


def _merges(path: Path, vocabulary: dict[str, int], vocabulary_path: Path) -> list[tuple[str, str]]:
    merges = []
    for i, line in enumerate(read_lines(path), start=1):
        if line.startswith("#version"):
            continue
        parts = line.split(" ")
        if len(parts) != 2 or "" in parts:
            raise RequestError(f"{path}, line {i}, is {line!r:.80}; a merge is two tokens with a space between them.")
        first, second = parts
        for token in (first, second, first + second):
            if token not in vocabulary:
                raise RequestError(
                    f"{path}, line {i}, needs the token {token!r:.80}, which is not in {vocabulary_path}; "
                    f"take both files from one tokenizer."
                )
        merges.append((first, second))
    return merges
