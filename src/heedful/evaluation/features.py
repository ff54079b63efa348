"""Texts as sparse counts for the TF-IDF baseline, in any script.

Words are runs of letters, marks and digits; in scripts that write no spaces between words, each character is a word,
so that the 1–2-grams become single characters and neighbours. Symbols, emoticons among them, are words too.
"""

import itertools
import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np

_SPACELESS = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x3040, 0x30FF),  # kana
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),  # Han
)
_EMPTY = "\N{EMPTY SET}"
"""The one word of a text without words: no vocabulary is ever empty."""
LARGEST_VOCABULARY = 100_000


class _Spacing(dict[int, str]):
    """For str.translate: what each character becomes so that splitting at spaces gives the words."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        kind = unicodedata.category(character)
        if kind[0] == "S" or (kind[0] == "L" and any(low <= code <= high for low, high in _SPACELESS)):
            result = f" {character} "
        else:
            result = character if kind[0] in "LMN" else " "
        self[code] = result
        return result


_SPACING = _Spacing()


def words(text: str) -> list[str]:
    return text.lower().translate(_SPACING).split() or [_EMPTY]


class TextFeatures:
    """TF-IDF of word 1–2-grams with sublinear term frequency, fitted on training texts alone.

    With pairs: the features of both texts side by side, their product (the n-grams that they share) and four
    measures of overlap.
    """

    def __init__(self, vocabulary: Sequence[str] | None = None, idf: Any = None) -> None:
        """New, or as they were fitted: the n-grams in the order of their features, and the weight of each."""
        from sklearn.feature_extraction.text import TfidfVectorizer

        self.vectoriser = TfidfVectorizer(
            analyzer=_one_and_two,
            vocabulary=vocabulary,
            sublinear_tf=True,
            max_features=LARGEST_VOCABULARY,
            dtype=np.float64,
        )
        if vocabulary is not None:
            self.vectoriser.idf_ = np.asarray(idf, dtype=np.float64)

    @property
    def vocabulary(self) -> list[str]:
        known: dict[str, int] = self.vectoriser.vocabulary_
        return sorted(known, key=known.__getitem__)

    @property
    def idf(self) -> Any:
        """The weight of each n-gram (float64)."""
        return self.vectoriser.idf_

    @staticmethod
    def width(vocabulary: int, pairs: bool) -> int:
        """Features of an example."""
        return 3 * vocabulary + 4 if pairs else vocabulary

    def fit(self, texts: Sequence[str], pairs: Sequence[str] | None) -> "TextFeatures":
        self.vectoriser.fit([*texts, *(pairs or ())])
        return self

    def transform(self, texts: Sequence[str], pairs: Sequence[str] | None) -> Any:
        """A scipy sparse matrix, one row for each example."""
        first = self.vectoriser.transform(texts)
        if pairs is None:
            return first
        from scipy.sparse import csr_matrix, hstack

        second = self.vectoriser.transform(pairs)
        shared = first.multiply(second).tocsr()
        cosine = np.asarray(shared.sum(axis=1))
        overlap = np.array([_overlap(a, b) for a, b in zip(texts, pairs, strict=True)])
        return hstack([first, second, shared, csr_matrix(np.hstack([cosine, overlap]))], format="csr")


def _one_and_two(text: str) -> list[str]:
    single = words(text)
    return single + [f"{a} {b}" for a, b in itertools.pairwise(single)]


def _overlap(a: str, b: str) -> tuple[float, float, float]:
    """The words of both among the words of either, among the first's, among the second's."""
    first, second = set(words(a)), set(words(b))
    both = len(first & second)
    return both / len(first | second), both / len(first), both / len(second)
