"""Lines of a file or a terminal, window by window: one that cannot be translated does not stop the others."""

from collections.abc import Sequence
from dataclasses import dataclass

from heedful.errors import RequestError
from heedful.inference.translation.engine import Source, Translation, encode_sources, too_long, translate
from heedful.inference.translation.settings import Wanted, decide
from heedful.inference.translation.translator import Translator

LONGEST = 100_000
"""Characters of a line that is looked at."""


@dataclass
class LineTranslator:
    translator: Translator
    wanted: Wanted
    prefix: str | None = None
    batch_size: int = 32
    batch_tokens: int = 4096
    count: int = 0
    """Lines so far."""
    refused: int = 0
    cut: int = 0
    """Translations, the best of each line, that would have gone on."""
    unknown: int = 0
    """Lines with characters for which the source's tokenizer has no token."""

    def __post_init__(self) -> None:
        self._decoding = decide(self.translator.checkpoint, self.wanted)
        self._prefix = self.translator.prefix_ids(self.prefix, 1, self._decoding)

    def translate(self, lines: Sequence[bytes | None]) -> list[list[Translation] | str]:
        """The translations of each line, or in words why there is none. None is a line that was too long to be
        kept."""
        why: dict[int, str] = {}
        texts = [self._text(line, row, why) for row, line in enumerate(lines)]
        sources = self._sources(texts, why)
        for row, source in enumerate(sources):
            if said := too_long(self.translator.checkpoint, source, self._decoding.longest_source):
                why[row] = said
        # What is refused stays as an empty text, so that every line keeps its number, on which draws depend.
        given = [Source("", [], []) if row in why else source for row, source in enumerate(sources)]
        prefixes = None if self._prefix is None else self._prefix * len(given)
        made = translate(
            self.translator.checkpoint, given, self._decoding, prefixes, self.batch_size, self.batch_tokens, self.count
        )
        self.count += len(lines)
        self.refused += len(why)
        self.cut += sum(found[0].reason == "max_length" for found in made)
        unknown = self.translator.tokenizers.source.unk_id
        # In byte-level BPE the end, which is the last of the ids, is called the unknown token, too.
        self.unknown += sum(unknown in source.ids[:-1] for source in given)
        return [why.get(row, found) for row, found in enumerate(made)]

    @property
    def most(self) -> int:
        """Tokens of a translation."""
        return self._decoding.limits.max_new_tokens

    def _text(self, line: bytes | None, row: int, why: dict[int, str]) -> str:
        text = ""
        try:
            text = "" if line is None else line.decode("utf-8").removesuffix("\n").rstrip("\r")
        except UnicodeDecodeError:
            why[row] = "is not UTF-8"
        if line is None or len(text) > LONGEST:
            why[row] = f"has more than {LONGEST:,} characters; split it into sentences"
        elif "\0" in text:
            why[row] = "has a NUL character, so it is not text, or UTF-16 without a byte order mark; save it as UTF-8"
        elif "\r" in text:
            why[row] = "contains a carriage return; end the lines with a newline"
        return "" if row in why else text

    def _sources(self, texts: Sequence[str], why: dict[int, str]) -> list[Source]:
        try:
            return encode_sources(self.translator.checkpoint, texts)
        except RequestError:  # one of them cannot be encoded: which?
            return [self._source(text, row, why) for row, text in enumerate(texts)]

    def _source(self, text: str, row: int, why: dict[int, str]) -> Source:
        try:
            return encode_sources(self.translator.checkpoint, [text])[0]
        except RequestError as error:
            why[row] = str(error).rstrip(".")
            return Source("", [], [])
