"""The tokenizers of a translation: of the source and of the target, with one vocabulary or two."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path

from heedful.errors import RequestError
from heedful.text.characters import SPECIAL, character_tokenizer
from heedful.text.files import read_tokenizer
from heedful.text.marian import is_marian, read_marian
from heedful.text.tokenizer import Tokenizer
from heedful.text.training import train_on_texts

_TARGET = "target"
"""The folder of the target's tokenizer, in the directory that holds the source's."""


@dataclass(frozen=True)
class EncodedPairs:
    """Ids of both sides, each ended by its end token."""

    sources: list[list[int]]
    targets: list[list[int]]
    cut_sources: list[int] = field(default_factory=list)
    cut_targets: list[int] = field(default_factory=list)
    """Which of them were too long and are cut, by their place; the end token stays."""

    def said(self, name: str, rows: Sequence[int], longest: int) -> list[str]:
        """A sentence on each side of a set of which something was cut."""
        sides = (("source", self.cut_sources), ("target", self.cut_targets))
        return [_said(name, side, [rows[i] for i in cut], longest) for side, cut in sides if cut]


@dataclass(frozen=True)
class PairTokenizer:
    source: Tokenizer
    target: Tokenizer

    @staticmethod
    def of_one(tokenizer: Tokenizer) -> "PairTokenizer":
        return PairTokenizer(tokenizer, tokenizer)

    @cached_property
    def shared(self) -> bool:
        """Whether an id is the same token on both sides, so that they can share a table of embeddings."""
        a, b = self.source, self.target
        return a is b or (a.size == b.size and all(a.token(i) == b.token(i) for i in range(a.size)))

    @property
    def begin_id(self) -> int:
        """What a decoder reads before the first token of a target; padding where nothing else can stand for it."""
        return _first("begins", self.target, ("bos", "cls", "pad"))

    @property
    def end_id(self) -> int:
        """What follows the last token of a target."""
        return _first("ends", self.target, ("eos", "sep"))

    @property
    def source_end_id(self) -> int:
        return _first("ends", self.source, ("eos", "sep"))

    def encode(self, sources: Sequence[str], targets: Sequence[str], max_length: int | None = None) -> EncodedPairs:
        """`max_length`: the most tokens on a side, the end token included. A special token that a text spells out is
        its letters."""
        encoded = EncodedPairs([], [])
        for tokenizer, texts, end, ids, cut in (
            (self.source, sources, self.source_end_id, encoded.sources, encoded.cut_sources),
            (self.target, targets, self.end_id, encoded.targets, encoded.cut_targets),
        ):
            for i, row in enumerate(tokenizer.plain(texts)):
                if max_length is not None and len(row) >= max_length:
                    cut.append(i)
                    row = row[: max_length - 1]
                ids.append([*row, end])
        return encoded

    def decode(self, ids: Iterable[int]) -> str:
        """A target's text; special tokens are left out."""
        return self.target.decode(ids)

    def save(self, directory: Path) -> None:
        """What `read_pair_tokenizer` reads back; by itself the directory's tokenizer is the source's."""
        for side, tokenizer in (("source", self.source), ("target", self.target)):
            if tokenizer.side not in (side, ""):
                raise RequestError(
                    f"the tokenizer of the {side} is that of a Marian directory's {tokenizer.side}, which cannot be "
                    f"saved as such; take the {side}'s, or another tokenizer."
                )
        self.source.save(directory)
        if self.source.side:
            together = self.source.own_files == self.target.own_files and self.source.special == self.target.special
        else:
            together = self.target is self.source
        if not together:
            (directory / _TARGET).mkdir(exist_ok=True)
            self.target.save(directory / _TARGET)


def read_pair_tokenizer(directory: Path, family: str) -> PairTokenizer | None:
    """None if the directory holds no vocabulary. One that holds a single tokenizer has it for both sides."""
    directory = Path(directory)
    own = directory / _TARGET
    if is_marian(directory) and not own.is_dir():
        return PairTokenizer(*read_marian(directory))
    source = read_tokenizer(directory, family)
    if source is None:
        return None
    if not own.is_dir():
        return PairTokenizer.of_one(source)
    target = read_marian(own)[1] if is_marian(own) else read_tokenizer(own, family)
    if target is None:
        raise RequestError(f"{own} holds no tokenizer for the target; put it there, or remove the folder.")
    return PairTokenizer(source, target)


def train_pair_tokenizer(
    sources: Iterable[str],
    targets: Iterable[str],
    kind: str,
    size: int,
    family: str,
    *,
    joint: bool = True,
    prefix_space: bool = False,
    special: Sequence[str] = (),
) -> PairTokenizer:
    """A vocabulary ("wordpiece", "bpe" or "characters") of both sides, or one for each, of `size` entries each."""

    def train(texts: Iterable[str]) -> Tokenizer:
        if kind == "characters":
            return character_tokenizer(texts, [*SPECIAL, *special], family)
        made = train_on_texts(texts, kind, size, family, prefix_space)
        made.add_special(special)
        return made

    if joint:
        return PairTokenizer.of_one(train(chain(sources, targets)))
    return PairTokenizer(train(sources), train(targets))


def _first(what: str, tokenizer: Tokenizer, roles: Sequence[str]) -> int:
    for role in roles:
        if role in tokenizer.special and (number := tokenizer.id(tokenizer.special[role])) is not None:
            return number
    raise RequestError(f"a translation needs a tokenizer with a token that {what} a text; use another [tokenizer].")


def _said(name: str, side: str, rows: Sequence[int], longest: int) -> str:
    many, word = f"{len(rows):,} {side}{'' if len(rows) == 1 else 's'}", "row" if len(rows) == 1 else "rows"
    shown = ", ".join(map(str, rows[:5])) + (f" and {len(rows) - 5:,} more" if len(rows) > 5 else "")
    has, is_ = ("has", "is") if len(rows) == 1 else ("have", "are")
    return f"{name}: {many} {has} more than {longest:,} tokens and {is_} cut ({word} {shown})."
