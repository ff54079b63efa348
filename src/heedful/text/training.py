"""A vocabulary of one's own, from text files. The same files give the same vocabulary, on every machine."""

import json
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import tokenizers
from tokenizers import AddedToken, models, pre_tokenizers, trainers

from heedful.errors import RequestError, WorkError
from heedful.storage.lines import read_lines
from heedful.text import bytelevel
from heedful.text import wordpiece as pieces
from heedful.text.tokenizer import Tokenizer

_ORDER = {
    "bert": ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    "roberta": ("<s>", "<pad>", "</s>", "<unk>", "<mask>"),
    "gpt2": ("<|endoftext|>",),
    "heedful": ("<|endoftext|>", "<|pad|>", "<|mask|>"),
}
"""The special tokens take the first ids; RoBERTa's model knows that its padding is 1."""


def train_wordpiece(
    files: Sequence[Path],
    size: int,
    lowercase: bool = True,
    *,
    strip_accents: bool | None = None,
    split_chinese: bool = True,
    alphabet: int = 1000,
    min_frequency: int = 2,
    max_length: int | None = None,
    family: str = "bert",
) -> Tokenizer:
    """WordPiece of at most `size` tokens from text files (`.gz` too).

    The `alphabet` most frequent characters become tokens, at the start of a word and inside it; a word with any other
    character is unknown. A piece is made only from a pair of pieces seen `min_frequency` times.
    """
    if family not in ("bert", "distilbert", "heedful"):
        raise RequestError(f"The family {family!r} has no WordPiece; choose bert, distilbert or heedful.")
    _require_text(files)
    special = _ORDER["bert"]
    names = dict(pieces.SPECIAL)
    blank = {token: i for i, token in enumerate(special)}
    build = partial(
        pieces.wordpiece, lowercase=lowercase, strip_accents=strip_accents, split_chinese=split_chinese, special=names
    )
    core = build(blank)
    first = _characters(core, files, alphabet)
    # The trainer numbers the pieces inside words (##a) in the order of a hash table that changes from run to run, and
    # breaks ties by number. Given as special tokens they keep the numbers they are given.
    inside = [f"##{c}" for c in first if _stays_inside(core, c)]
    least = len(special) + len(first) + len(inside)
    if size < least:
        raise RequestError(
            f"A WordPiece vocabulary of {size} tokens is too small: the special tokens and the characters of the files "
            f"are {least}; ask for more entries, or lower alphabet ({alphabet})."
        )
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        min_frequency=min_frequency,
        special_tokens=[*special, *first, *inside],
        initial_alphabet=[],
        limit_alphabet=0,
        show_progress=False,
        continuing_subword_prefix="##",
    )
    core.train_from_iterator(_lines(files), trainer)
    vocabulary = core.get_vocab(with_added_tokens=False)
    core = build(vocabulary)
    core.add_special_tokens([AddedToken(token, special=True) for token in special])
    return Tokenizer(core, names, family=family, max_length=max_length)


def train_bpe(
    files: Sequence[Path],
    size: int,
    *,
    family: str = "roberta",
    prefix_space: bool = False,
    min_frequency: int = 2,
    max_length: int | None = None,
) -> Tokenizer:
    """Byte-level BPE of at most `size` tokens from text files (`.gz` too): special tokens as `family` has them, the 256
    bytes, then the merges. A pair is merged only if it was seen `min_frequency` times."""
    if family not in bytelevel.SPECIAL:
        raise RequestError(f"The family {family!r} has no byte-level BPE; choose {' or '.join(bytelevel.SPECIAL)}.")
    special, names = _ORDER[family], bytelevel.SPECIAL[family]
    least = len(special) + 256
    if size < least:
        raise RequestError(
            f"A byte-level vocabulary of {size} tokens is too small: "
            f"the bytes and special tokens are {least}; ask for more entries."
        )
    _require_text(files)
    core = tokenizers.Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space)
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=min_frequency,
        special_tokens=list(special),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator(_lines(files), trainer)
    model = json.loads(core.to_str())["model"]
    merges = [(first, second) for first, second in model["merges"]]
    core = bytelevel.byte_bpe(model["vocab"], merges, family, names, prefix_space=prefix_space)
    core.add_special_tokens([bytelevel.special_token(token) for token in special])
    return Tokenizer(core, names, family=family, max_length=max_length)


def train_on_texts(texts: Iterable[str], kind: str, size: int, family: str, prefix_space: bool = False) -> Tokenizer:
    """A vocabulary ("wordpiece" or "bpe") from texts that are read once, one after another, and kept for as long as it
    takes in a folder for temporary files."""
    with _scratch() as folder:
        corpus = folder / "texts.txt"
        try:
            with corpus.open("w", encoding="utf-8") as file:
                file.writelines(f"{' '.join(text.split())}\n" for text in texts)
        except OSError as error:
            raise _no_room(folder.parent, error) from None
        if kind == "wordpiece":
            return train_wordpiece([corpus], size, family=family)
        return train_bpe([corpus], size, family=family, prefix_space=prefix_space)


@contextmanager
def _scratch() -> Iterator[Path]:
    try:
        made = tempfile.TemporaryDirectory(prefix="heedful-")
    except OSError as error:
        raise _no_room(tempfile.tempdir, error) from None
    with made as folder:
        yield Path(folder)


def _no_room(folder: object, error: OSError) -> WorkError:
    """`folder`: None where no folder could be found at all, and the error names those that were tried."""
    where = "" if folder is None else f"{folder}: "
    return WorkError(
        f"{where}the text that the vocabulary is made from could not be kept there meanwhile ({error.strerror}); make "
        "room, or name a folder that has some with TMPDIR."
    )


def _stays_inside(core: tokenizers.Tokenizer, character: str) -> bool:
    """Whether a word can go on with this character: punctuation, and Chinese where it is split, stand alone."""
    return len(core.pre_tokenizer.pre_tokenize_str(core.normalizer.normalize_str(f"a{character}a"))) == 1


def _characters(core: tokenizers.Tokenizer, files: Sequence[Path], most: int) -> list[str]:
    """The `most` frequent characters as the normaliser leaves them, sorted; of equally frequent ones the lower."""
    raw: Counter[str] = Counter()
    for line in _lines(files):
        raw.update(line)
    counts: Counter[str] = Counter()
    for character, n in raw.items():
        for kept in core.normalizer.normalize_str(character):
            if not kept.isspace():
                counts[kept] += n
    return sorted(sorted(counts, key=lambda c: (-counts[c], c))[:most])


def _require_text(files: Sequence[Path]) -> None:
    if not any(line.strip() for line in _lines(files)):
        names = ", ".join(str(path) for path in files) or "no file"
        raise RequestError(f"There is no text to train a tokenizer on in {names}; give files with text.")


def _lines(files: Sequence[Path]) -> Iterator[str]:
    """Every line with its end."""
    for path in files:
        for _, line in read_lines(Path(path), nul=True):
            yield line
