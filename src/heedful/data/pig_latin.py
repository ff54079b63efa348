"""Pig Latin by rule: words and sentences translated, and sets made of the most common English words.

The consonants before the first vowel go to the end, and "ay" follows (`green`: `eengray`); a word that begins with a,
e, i, o or u takes "way" (`apple`: `appleway`). `qu` moves together (`quick`: `ickquay`, `square`: `aresquay`). y is a
vowel (`my`: `ymay`), but a word that begins with it takes "ay" (`yes`: `yesay`). The parts of a hyphenated word are
translated one by one.
"""

import random
import re
import unicodedata
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from heedful.errors import RequestError
from heedful.streams import seed_of

_VOWELS = frozenset("aeiou")
_WORD = re.compile(r"\w+(?:['’]\w+)*")
_SIZES = {"pig-latin-small": 2000, "pig-latin-large": 8000}
_SENTENCES = "pig-latin-sentences"
SMALLEST, LARGEST = 20, 100_000
"""Sentences in all."""
_ENDS = (".", ".", ".", ".", "?", "!")


def translate_word(word: str) -> str:
    """Translate one word without a hyphen. What is not made of letters (and apostrophes inside) is unchanged."""
    if not word or not all(character.isalpha() or character in "'’" for character in word):
        return word
    letters = [_base(character) for character in word]
    at = 0
    while at < len(letters) and letters[at] not in _VOWELS and letters[at] != "y":
        at += 1
    if 0 < at < len(letters) and letters[at - 1] == "q" and letters[at] == "u":
        at += 1
        while at < len(word) and word[at] in "'’":  # no word begins with one
            at += 1
    moved, ending = word[:at], "way" if letters[0] in _VOWELS else "ay"
    if len(word) > 1 and word.isupper():
        return word[at:] + moved + ending.upper()
    if not word[0].isupper():
        return word[at:] + moved + ending
    made = word[at:] + moved[:1].lower() + moved[1:] + ending
    return made[0].upper() + made[1:]


def translate(text: str) -> str:
    """Translate every word of a text; everything between the words is unchanged."""
    return _WORD.sub(lambda match: translate_word(match[0]), text)


@cache
def words() -> tuple[str, ...]:
    """Return the most common English words, the most common first; see `words.txt`."""
    return tuple(Path(__file__).with_name("words.txt").read_text(encoding="ascii").split())


def generate(name: str, options: Mapping[str, Any]) -> dict[str, list[tuple[str, str]]]:
    """Generate train, dev and test. Words are assigned to the three (8 : 1 : 1) by a hash of the word only: a word that
    is held out in one set is in no set's train, and sentences of dev and test have only held-out words."""
    if name == _SENTENCES:
        return _sentences(options)
    if options:
        raise RequestError(f"{name} has no option {next(iter(options))!r}; remove data.options.")
    dealt = _dealt(_SIZES[name])
    return {split: [(word, translate_word(word)) for word in some] for split, some in dealt.items()}


def _dealt(count: int) -> dict[str, list[str]]:
    """Return the N most common words by split. Of each hundred words of the list ten go to test and ten to dev, by
    their hashes: common and rare words have their share everywhere, and no word changes its split with a larger N."""
    dealt: dict[str, list[str]] = {"train": [], "dev": [], "test": []}
    for at in range(0, count, 100):
        order = sorted(words()[at : min(at + 100, count)], key=lambda word: seed_of("pig-latin", word))
        dealt["test"] += order[:10]
        dealt["dev"] += order[10:20]
        dealt["train"] += order[20:]
    return {split: sorted(some, key=lambda word: seed_of("order", word)) for split, some in dealt.items()}


def _sentences(options: Mapping[str, Any]) -> dict[str, list[tuple[str, str]]]:
    size, seed = _option(options, "size", 10_000), _option(options, "seed", 0)
    if unknown := sorted(set(options) - {"size", "seed"}):
        raise RequestError(f"{_SENTENCES} has no option {unknown[0]!r}; it has size and seed.")
    if not SMALLEST <= size <= LARGEST:
        raise RequestError(f"{_SENTENCES}: size = {size} must be from {SMALLEST} to {LARGEST}.")
    if seed < 0:  # the generator leaves the sign out
        raise RequestError(f"{_SENTENCES}: seed = {seed} must be at least 0.")
    random_ = random.Random(seed)  # noqa: S311 - a data set, not a secret
    held = round(size / 10)
    seen: set[str] = set()
    made: dict[str, list[tuple[str, str]]] = {}
    for split, some in _dealt(_SIZES["pig-latin-large"]).items():
        made[split] = []
        while len(made[split]) < (size - 2 * held if split == "train" else held):
            sentence = _sentence(random_, some)
            if sentence not in seen:
                seen.add(sentence)
                made[split].append((sentence, translate(sentence)))
    return made


def _sentence(random_: random.Random, some: list[str]) -> str:
    """Sample three to nine words, the first with a capital; sometimes with a comma, a hyphen, a word in capitals."""
    drawn = [random_.choice(some) for _ in range(random_.randint(3, 9))]
    if random_.random() < 0.05:
        drawn[-1] = drawn[-1].upper()
    if random_.random() < 0.1:
        drawn[1:3] = ["-".join(drawn[1:3])]
    if len(drawn) > 4 and random_.random() < 0.3:
        drawn[2] += ","
    drawn[0] = drawn[0].capitalize()
    return " ".join(drawn) + random_.choice(_ENDS)


def _option(options: Mapping[str, Any], name: str, default: int) -> int:
    value = options.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool):
        raise RequestError(f"{_SENTENCES}: {name} = {value!r} must be a whole number.")
    return value


def _base(character: str) -> str:
    """Return the letter without its accent and in lower case."""
    return unicodedata.normalize("NFD", character)[0].lower()
