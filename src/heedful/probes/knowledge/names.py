"""Of whom a question speaks: the subject's own line of a text, and the names of training questions that are like it."""

import copy
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from heedful.data.corpus.sentences import split_sentences
from heedful.data.records import Questions
from heedful.inference.questions import spelled_text, stands_in
from heedful.text.tokenizer import Tokenizer

Words = tuple[str, ...]
_NAMES = 2
"""Beginnings of a line that may be a name: the first may be an abbreviation in it, as in "J.C. Patterson."."""
_COMMON = 0.5
"""A word that so many of the training questions have is a part of the question, not of a name."""
_AROUND = "\"'“”‘’«»()[]?!.,;:"


class KnownText:
    """Text that was read, a line (or any document) for each of whom it speaks, with the name at its beginning."""

    def __init__(self, name: str, documents: Iterable[str]) -> None:
        self.name = name
        self.documents = list(documents)
        self._lines: dict[str, list[str]] = {}
        for line in self.documents:
            for called in beginnings(line):
                self._lines.setdefault(called, []).append(line)
        self._holding: dict[str, Callable[[str], bool]] = {}

    def holds_in(self, tokenizer: Tokenizer) -> Callable[[str], bool]:
        """Whether the text, as the tokenizer spells it, has some words anywhere; made once for each tokenizer."""
        if tokenizer.fingerprint not in self._holding:
            whole = spelled_text(tokenizer, self.documents)
            self._holding[tokenizer.fingerprint] = cache(lambda answer: stands_in(answer, [whole]))
        return self._holding[tokenizer.fingerprint]

    def lines_of(self, question: str) -> list[str]:
        """Those that begin with the longest name that the question has; most often one, or none."""
        words = [(m.start(), m.end()) for m in re.finditer(r"\S+", question)]
        parts = {_stripped(question[a:b]) for i, (a, _) in enumerate(words) for _, b in words[i:]}
        return self._lines.get(max(parts & self._lines.keys(), key=lambda part: (len(part), part), default=""), [])


def beginnings(line: str) -> list[str]:
    """What may be the name at the beginning of a line: what stands before a full stop that ends a sentence, whatever
    follows it; or all of a line without one."""
    found = []
    for stop in re.finditer(r"\.(?=\s)", line):
        name = line[: stop.start()]
        if split_sentences(f"{name}. X")[-1].strip() == "X":
            found.append(_stripped(name))
        if len(found) == _NAMES:
            break
    found = found or [_stripped(line)]
    return [name for name in found if name and not re.search(r"(?<!\w)\w$", name)]  # "Hyman I" is not the whole name


def _stripped(text: str) -> str:
    return " ".join(text.split()).strip(_AROUND)


class Nearest(NamedTuple):
    """The training question about the name that is most like another."""

    question: str
    answer: str | None
    """None for one that cannot be spelled (`KnownNames.with_answers`)."""
    shared: int
    """Words that the two names share."""
    distance: int
    """Letters to be changed, put in or taken out to make one name of the other."""


class KnownNames:
    """The names that training questions ask about, with their answers.

    The name in a question is what is left without the words that half of the training questions have; where nothing is
    left, all of it. Case and punctuation do not count.
    """

    def __init__(self, train: Questions) -> None:
        self._train = train
        self._answers: Sequence[str | None] = train.answers
        asked = [_words(question) for question in train.questions]
        counts = Counter(word for words in asked for word in set(words))
        self._common = {word for word, count in counts.items() if count >= _COMMON * len(asked)}
        self._names = [self._name(words) for words in asked]
        self._texts = [" ".join(name) for name in self._names]
        self._with: dict[str, list[int]] = {}
        self._same: dict[Words, list[int]] = {}
        for i, name in enumerate(self._names):
            self._same.setdefault(name, []).append(i)
            for word in set(name):
                self._with.setdefault(word, []).append(i)
        self._counts: Counter[str | None] = Counter(train.answers)
        self._found: dict[Words, int | None] = {}

    def with_answers(self, answers: Sequence[str | None]) -> "KnownNames":
        """The same names with their answers in another spelling, None for one that cannot be spelled."""
        other = copy.copy(self)
        other._answers, other._counts = answers, Counter(answers)
        return other

    def _name(self, words: Words) -> Words:
        return tuple(word for word in words if word not in self._common) or words

    def name_of(self, question: str) -> Words:
        return self._name(_words(question))

    def knows(self, question: str) -> bool:
        """Whether a training question asks about the same name."""
        return self.name_of(question) in self._same

    def nearest(self, question: str) -> Nearest | None:
        """Of the other names the one that shares most words with this one; of several, the one with the least edit
        distance, the first of equals. None if there are not two others."""
        name = self.name_of(question)
        i = self._nearest(name)
        if i is None:
            return None
        distance = int(edit_distances(" ".join(name), [self._texts[i]])[0])
        shared = len(set(name) & set(self._names[i]))
        return Nearest(self._train.questions[i], self._answers[i], shared, distance)

    def _nearest(self, name: Words) -> int | None:
        if name not in self._found:
            self._found[name] = self._search(name)
        return self._found[name]

    def _search(self, name: Words) -> int | None:
        own = set(self._same.get(name, ()))
        if len(self._names) - len(own) < 2:
            return None
        shared = Counter(i for word in set(name) for i in self._with.get(word, ()) if i not in own)
        most = max(shared.values(), default=0)
        among = [i for i in range(len(self._names)) if i not in own and shared[i] == most]
        distances = edit_distances(" ".join(name), [self._texts[i] for i in among])
        return among[int(distances.argmin())]

    def chance(self, question: str, said: str) -> float:
        """Of the names other than this one and the nearest, the share whose answer this is: how often a random one
        would have it."""
        name = self.name_of(question)
        own = set(self._same.get(name, ())) | {i for i in [self._nearest(name)] if i is not None}
        same = self._counts[said] - sum(self._answers[i] == said for i in own)
        return same / (len(self._names) - len(own))


def _words(text: str) -> Words:
    return tuple(re.findall(r"\w+", text.casefold()))


def edit_distances(text: str, others: Sequence[str]) -> npt.NDArray[np.int64]:
    """Levenshtein's, from one text to each of several at once: a row of his table for each letter of the text."""
    width = max(map(len, others))
    letters_nw = np.array([[ord(c) for c in other.ljust(width, "\0")] for other in others]).reshape(len(others), width)
    places_w = np.arange(width + 1)
    row_nw = np.tile(places_w, (len(others), 1))
    for letter in text:
        changed_nw = np.empty_like(row_nw)
        changed_nw[:, 0] = row_nw[:, 0] + 1
        changed_nw[:, 1:] = np.minimum(row_nw[:, :-1] + (letters_nw != ord(letter)), row_nw[:, 1:] + 1)
        row_nw = np.minimum.accumulate(changed_nw - places_w, axis=1) + places_w  # letters put in, any number of them
    return np.asarray(row_nw[np.arange(len(others)), [len(other) for other in others]], dtype=np.int64)
