"""SentencePiece's normalisation: characters replaced by rules of the vocabulary's own, white space made one.

The rules come as a double-array trie of UTF-8 bytes (Aoe, 1989, in the form of Yata's Darts-clone) and a block of
replacements. At every place of a text the longest rule holds. The `tokenizers` library has these rules as
`Precompiled`, but applies them to whole grapheme clusters, which gives other texts where marks are combined; so they
are applied here.
"""

import operator
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import cast

from heedful.text.protobuf import DamagedError

SPACE = "▁"
"""How pieces write a space."""
_MOST_RULES = 32  # that may match at one place; SentencePiece looks at no more
_LONGEST_RULE = 64  # characters; those of Unicode's normal forms have up to 18
_MOST_KNOWN = 100_000


@dataclass(frozen=True)
class CharacterMap:
    units: tuple[int, ...]
    replacements: bytes
    _known: dict[str, str | None] = field(default_factory=dict, compare=False, repr=False)
    """What becomes of a character before another, of the pairs that have come up; None where more of the text
    counts."""

    @staticmethod
    def parse(content: bytes) -> "CharacterMap":
        """From the bytes in a model's file: the size of the trie, the trie, the replacements. None are no rules."""
        if not content:
            return CharacterMap((), b"")
        if len(content) < 8:
            raise DamagedError("its character map is too short")
        (size,) = struct.unpack_from("<I", content)
        if size % 4 or not 4 <= size <= len(content) - 4:
            raise DamagedError("its character map has another size than it says")
        replacements = content[4 + size :]
        if replacements and not replacements.endswith(b"\0"):
            raise DamagedError("its character map is cut off")
        return CharacterMap(struct.unpack_from(f"<{size // 4}I", content, 4), replacements)

    def replace_all(self, text: str) -> str | None:
        """The whole text replaced, if each of its characters can be by the next alone; None if not, and `replace` has
        to be asked place by place. Nearly every text can, and most of the time goes into it."""
        pairs = [*map(operator.add, text, text[1:]), text[-1:]]
        if len(self._known) + len(pairs) > _MOST_KNOWN:
            self._known.clear()
        for pair in set(pairs).difference(self._known):
            self._known[pair] = self._look_up(pair)
        parts = [self._known[pair] for pair in pairs]
        return None if None in parts else "".join(cast("list[str]", parts))

    def replace(self, text: str, at: int) -> tuple[str, int]:
        """What stands for the text from `at` on, and how many characters of it."""
        pair = text[at : at + 2]
        known = self._known[pair] if pair in self._known else self._look_up(pair)
        if known is not None:
            return known, 1
        rest = text[at : at + _LONGEST_RULE].encode()
        found, length, _ = self._longest(rest)
        if found is None:
            return text[at], 1
        try:
            return found, len(rest[:length].decode("utf-8"))
        except UnicodeDecodeError:
            raise DamagedError("a rule of its character map ends inside a character") from None

    def _look_up(self, pair: str) -> str | None:
        if not pair:
            return ""
        found, length, walked = self._longest(pair.encode())
        first = len(pair[0].encode())
        if length > first or (walked == len(pair.encode()) and len(pair) == 2):
            return None
        if found is not None and len(found) > 1 and " " in found:
            return None  # which of its spaces stay depends on what stood before
        return pair[0] if found is None else found

    def _longest(self, text: bytes) -> tuple[str | None, int, int]:
        """The longest rule at the beginning: its replacement and how many bytes it is for; and for how many bytes there
        may be rules that go on."""
        found: int | None = None
        length = matches = at = 0
        node = self._offset(self._unit(0)) if self.units else 0
        while self.units and at < len(text):
            node ^= text[at]
            unit = self._unit(node)
            if unit & 0x800000FF != text[at]:
                break
            at += 1
            node ^= self._offset(unit)
            if unit >> 8 & 1:
                found, length, matches = self._unit(node) & 0x7FFFFFFF, at, matches + 1
                if matches == _MOST_RULES:
                    break
        return None if found is None else self._replacement(found), length, at

    def _unit(self, node: int) -> int:
        if node >= len(self.units):
            raise DamagedError("its character map points outside itself")
        return self.units[node]

    @staticmethod
    def _offset(unit: int) -> int:
        return (unit >> 10) << ((unit & 0x200) >> 6)

    def _replacement(self, start: int) -> str:
        end = self.replacements.find(b"\0", start)
        if start >= len(self.replacements) or end < 0:
            raise DamagedError("its character map points outside itself")
        try:
            return self.replacements[start:end].decode("utf-8")
        except UnicodeDecodeError:
            raise DamagedError("its character map holds what is not UTF-8") from None


@dataclass(frozen=True)
class Prepared:
    """A text as the pieces spell it, and where in the original each of its characters comes from."""

    text: str
    starts: list[int]
    ends: list[int]

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The characters of the original that these of `text` come from."""
        return (self.starts[start], self.ends[end - 1]) if start < end else (0, 0)


@dataclass(frozen=True)
class Normaliser:
    rules: CharacterMap
    dummy_prefix: bool = True
    """Whether a space is put before every text."""
    collapse: bool = True
    """Whether white space at the ends goes, and several spaces become one."""
    kept: tuple[str, ...] = ()
    """Symbols of the user, which no rule changes; the longest first."""
    suffix: bool = False
    """Whether spaces end words, and so the one that is put there stands after the text."""

    def spell(self, text: str) -> str:
        """The text as the pieces spell it."""
        whole = None if self.kept else self.rules.replace_all(text)
        if whole is None:
            return self._finish("".join(part for part, _, _ in self._spelled(text)))
        if self.collapse:
            whole = " ".join(filter(None, whole.split(" ")))
        prefix = SPACE if self.dummy_prefix and not self.suffix and (whole if self.collapse else text) else ""
        return self._finish(prefix + whole.replace(" ", SPACE))

    def prepare(self, text: str) -> Prepared:
        """The same, with its places."""
        made: list[str] = []
        starts: list[int] = []
        ends: list[int] = []
        for part, start, end in self._spelled(text):
            made.append(part)
            starts += [start] * len(part)
            ends += [end] * len(part)
        whole = self._finish("".join(made))
        kept = len(whole) - (1 if whole and self.dummy_prefix and self.suffix else 0)
        after = [len(text)] * (len(whole) - kept)
        return Prepared(whole, starts[:kept] + after, ends[:kept] + after)

    def _spelled(self, text: str) -> Iterator[tuple[str, int, int]]:
        """Part by part, each with where in the text it comes from; spaces at the end are still there."""
        after_space, begun = self.collapse, not self.collapse
        prefix = self.dummy_prefix and not self.suffix
        if begun and text and prefix:
            yield SPACE, 0, 0
        for part, start, end in self._replaced(text):
            kept = part.lstrip(" ") if after_space else part
            if not kept:
                continue
            if not begun:
                begun = True
                if prefix:
                    yield SPACE, start, start
            yield kept.replace(" ", SPACE), start, end
            after_space = self.collapse and kept.endswith(" ")

    def _finish(self, spelled: str) -> str:
        if self.collapse:
            spelled = spelled.rstrip(SPACE)
        return spelled + SPACE if spelled and self.dummy_prefix and self.suffix else spelled

    def _replaced(self, text: str) -> Iterator[tuple[str, int, int]]:
        """What stands for each part of the text, and where in it that part is."""
        at, replace, symbols = 0, self.rules.replace, self._symbols
        symbol = symbols.search(text) if symbols else None
        while at < len(text):
            if symbols and symbol and symbol.start() < at:  # a rule went into it
                symbol = symbols.search(text, at)
            kept = symbol[0] if symbol and symbol.start() == at else ""
            part, length = (kept, len(kept)) if kept else replace(text, at)
            yield part, at, at + length
            at += length

    @cached_property
    def _symbols(self) -> re.Pattern[str] | None:
        return re.compile("|".join(map(re.escape, self.kept))) if self.kept else None
