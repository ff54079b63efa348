"""BERTweet's form of BPE: fastBPE's codes over characters, a vocabulary in fairseq's order, `@@` where a word goes on.

The library's BPE marks the piece that ends a word (`ing</w>`), the vocabulary the pieces that do not (`th@@`). A piece
that a merge makes on the way to a longer one need not be in the vocabulary, and stands for the unknown token if it is
left over. So the library counts with ids of its own, and `Pieces` translates them.
"""

from collections.abc import Iterable
from pathlib import Path

import tokenizers
from tokenizers import AddedToken, Regex, models, pre_tokenizers, processors

from heedful.errors import RequestError
from heedful.text.disk import read_lines
from heedful.text.pieces import Pieces
from heedful.text.settings import Settings
from heedful.text.tokenizer import Tokenizer

SPECIAL = {
    "bos": "<s>",
    "pad": "<pad>",
    "eos": "</s>",
    "unk": "<unk>",
    "sep": "</s>",
    "cls": "<s>",
    "mask": "<mask>",
}
_END = "</w>"
_SPACE = "".join(chr(i) for i in range(0x3001) if chr(i).isspace())
"""What Python's `\\s` matches; the library's `\\s` differs in the control characters."""


def read_bertweet(codes_path: Path, vocabulary_path: Path, settings: Settings) -> Tokenizer:
    settings.require_class("BertweetTokenizer")
    if settings.flag("normalization", False):
        raise RequestError(
            f"{settings.path}: normalization = true (rewriting of users, links and emoji) is not supported; "
            f"normalise the texts beforehand and set it to false."
        )
    special = {role: AddedToken(token, special=True) for role, token in SPECIAL.items()} | settings.special
    names = {role: token.content for role, token in special.items()}
    tokens = _vocabulary(vocabulary_path, [names[role] for role in ("bos", "pad", "eos", "unk")])
    ids = {token: i for i, token in enumerate(tokens)}
    merges = _merges(codes_path)

    core_ids: dict[str, int] = {token: i for i, token in enumerate(tokens[:4])}
    public = list(range(4))
    spellings = [(token + _END, token) for token in tokens[4:]]
    spellings += [(token.removesuffix("@@"), token) for token in tokens[4:] if len(token) > 2 and token.endswith("@@")]
    for pair in merges:
        spellings += [(piece, _vocabulary_entry(piece)) for piece in (*pair, "".join(pair))]
    for piece, entry in spellings:
        if piece not in core_ids:
            core_ids[piece] = len(core_ids)
            public.append(ids.get(entry, ids[names["unk"]]))

    core = tokenizers.Tokenizer(models.BPE(core_ids, merges, unk_token=names["unk"], end_of_word_suffix=_END))
    word = Regex(f"[^{_SPACE}]+\n?")  # a line's end is part of the word before it, as the model was trained
    core.pre_tokenizer = pre_tokenizers.Split(word, behavior="removed", invert=True)
    for token in _added_tokens(settings, special, tokens, vocabulary_path):
        if token.content in core_ids and core_ids[token.content] > 3:
            raise RequestError(
                f"{settings.path.parent} adds the token {token.content!r}, which is also a piece of words in "
                f"{vocabulary_path.name}; such a token is not supported here: remove it."
            )
        if token.content not in core_ids:
            public.append(tokens.index(token.content))
        core.add_special_tokens([token]) if token.special else core.add_tokens([token])
    added = {token.content: i for i, token in core.get_added_tokens_decoder().items()}
    core.post_processor = processors.RobertaProcessing(
        (names["sep"], added[names["sep"]]),
        (names["cls"], added[names["cls"]]),
        trim_offsets=False,
        add_prefix_space=False,
    )
    files = {path.name: path.read_bytes() for path in (codes_path, vocabulary_path)}
    config = {"tokenizer_class": "BertweetTokenizer", "normalization": False}
    pieces = Pieces(public, tokens, files, "BPE (@@)", _join, config)
    return Tokenizer(core, names, family="roberta", pieces=pieces, **settings.general)


def _join(tokens: Iterable[str]) -> str:
    return " ".join(tokens).replace("@@ ", "").strip()


def _vocabulary_entry(piece: str) -> str:
    return piece.removesuffix(_END) if piece.endswith(_END) else piece + "@@"


def _added_tokens(
    settings: Settings, special: dict[str, AddedToken], tokens: list[str], path: Path
) -> list[AddedToken]:
    """The tokens that are matched whole in a text; those that the vocabulary lacks are appended to `tokens`."""
    added = []
    for number, token in sorted(settings.added.items()):
        if number == len(tokens) and token.content not in tokens:
            tokens.append(token.content)
        if number >= len(tokens) or tokens[number] != token.content:
            raise RequestError(
                f"{settings.path.parent} gives the added token {token.content!r} the id {number}, which does not fit "
                f"the {len(tokens)} ids before it in {path.name}; correct added_tokens.json or tokenizer_config.json."
            )
        added.append(token)
    known = {token.content for token in added}
    for token in [*special.values(), *settings.extra]:
        if token.content not in known:
            known.add(token.content)
            added.append(token)
            if token.content not in tokens:
                tokens.append(token.content)
    return added


def _vocabulary(path: Path, first: list[str]) -> list[str]:
    """`first`, then the first column of the file: a token and its count on every line."""
    tokens = list(first)
    line_of = dict.fromkeys(tokens, 0)
    if len(line_of) < len(tokens):
        raise RequestError(f"The special tokens {', '.join(first)} beside {path} must differ; correct them.")
    for i, line in enumerate(read_lines(path), start=1):
        token, space, _ = line.strip().rpartition(" ")
        if not space:
            raise RequestError(f"{path}, line {i}, is {line!r:.80}; a line is a token, a space and its count.")
        if token in line_of:
            where = f"line {line_of[token]} has" if line_of[token] else "the special tokens have"
            raise RequestError(f"{path}, line {i}, repeats {token!r:.80}, which {where} already; remove one of them.")
        line_of[token] = i
        tokens.append(token)
    return tokens


def _merges(path: Path) -> list[tuple[str, str]]:
    merges: dict[tuple[str, str], int] = {}
    for i, line in enumerate(read_lines(path), start=1):
        parts = line.split()
        if len(parts) != 3:
            raise RequestError(
                f"{path}, line {i}, is {line!r:.80}; a line is two pieces and their count, as in the file that "
                f"came with the pretrained model."
            )
        pair = (parts[0], parts[1])
        if pair in merges:
            raise RequestError(f"{path}, line {i}, repeats the merge of line {merges[pair]}; remove one of them.")
        merges[pair] = i
    return list(merges)
