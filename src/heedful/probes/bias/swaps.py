"""The counterfactual of any English text: every word that speaks of men or of women becomes its counterpart.

English has one word `her` for `him` and `his`, and two, `her` and `hers`, for `his`: what follows decides.
"""

import re
from dataclasses import dataclass

from heedful.probes.bias.swap_words import (
    AMBIGUOUS,
    BUT_NOT_BEFORE,
    CLOSED,
    COMPARED,
    DEEDS,
    GIVING,
    IN_COMPOUNDS,
    OBJECT_BEFORE,
    OF_MEN,
    OF_WOMEN,
    PERCEIVED,
    THINGS,
)
from heedful.text.tokenizer import Text

_WORD = re.compile(r"ma['’]am|[^\W\d_]+", re.IGNORECASE)
_COMPOUND = re.compile(r"[^\W_]+(?:[-‐‑][^\W_]+)+")
_NEXT = re.compile(r"\s+(?P<word>[^\W\d_]+)(?P<joined>[-'’](?=[^\W\d_]))?")
_EITHER = re.compile(r"(?:\s+(?:or|(?P<both>and))\s+|\s*/\s*)(?P<word>his|hers|her|him)\b", re.IGNORECASE)
_TITLE = re.compile(r"\.?\s+(?P<name>[A-Z]\w*)")
_NEITHER = re.compile(r"(?:\bs/|\(s\))$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Swap:
    text: Text
    of_men: tuple[str, ...]
    """The words swapped that spoke of men, in small letters."""
    of_women: tuple[str, ...]
    left: tuple[str, ...]
    """Gendered words without a counterpart that always fits, and compounds with one ("man-made"), left as they are."""

    @property
    def spoke_of(self) -> str:
        if self.of_men and self.of_women:
            return "both"
        return "men" if self.of_men else "women"


def swap(text: Text) -> Swap | None:
    """None if there is no word to swap."""
    if not isinstance(text, str):
        return _swap_both(text)
    of_men: list[str] = []
    of_women: list[str] = []
    left: list[str] = []
    fixed = _fixed_compounds(text)

    def counterpart(match: re.Match[str]) -> str:
        word, start, end = match[0].lower().replace("’", "'"), match.start(), match.end()
        if word == "miss":
            title = _TITLE.match(text, end) if match[0] != "miss" else None
            other = "mr" if title is not None and title["name"].lower() not in CLOSED else ""
        elif word == "his":
            other = "her" if stands_before_noun("his", text, start, end) else "hers"
        elif word == "her":
            other = "his" if stands_before_noun("her", text, start, end) else "him"
        else:
            other = OF_MEN.get(word) or OF_WOMEN.get(word) or ""
        if word in ("he", "she") and _NEITHER.search(text[:start]):
            other = ""
        if not other or start in fixed:
            if other or word in AMBIGUOUS:
                left.append(fixed.get(start, word))
            return match[0]
        (of_men if word in OF_MEN or word == "his" else of_women).append(word)
        return _in_case_of(match[0], other)

    swapped = _WORD.sub(counterpart, text)
    return Swap(swapped, tuple(of_men), tuple(of_women), tuple(left)) if of_men or of_women else None


def _fixed_compounds(text: str) -> dict[int, str]:
    """Where a word begins that belongs to a compound which must not be taken apart ("man-made"): the compound."""
    fixed: dict[int, str] = {}
    for compound in _COMPOUND.finditer(text):
        whole = compound[0].lower()
        if not IN_COMPOUNDS.issuperset(re.split("[-‐‑]", whole)):
            fixed |= {part.start(): whole for part in _WORD.finditer(text, compound.start(), compound.end())}
    return fixed


def _swap_both(pair: tuple[str, str]) -> Swap | None:
    swaps = [swap(text) for text in pair]
    found = [made for made in swaps if made is not None]
    if not found:
        return None
    first, second = (text if made is None else str(made.text) for made, text in zip(swaps, pair, strict=True))
    of_men, of_women, left = (
        tuple(word for made in found for word in getattr(made, words)) for words in ("of_men", "of_women", "left")
    )
    return Swap((first, second), of_men, of_women, left)


def stands_before_noun(pronoun: str, text: str, start: int, end: int) -> bool:
    """Whether the `his` or `her` at text[start:end] is like `my` ("her car"); if not, like `me` or `mine`."""
    either = _EITHER.match(text, end)
    if either is not None and not (either["both"] and pronoun == "her"):  # "his or her car": as the second of the two
        second = either["word"].lower()
        return second in ("his", "her") and stands_before_noun(second, text, either.start("word"), either.end())
    following = _NEXT.match(text, end)
    if following is None:
        return _before_no_word(pronoun, text, start, end)
    word = following["word"].lower()
    if following["joined"] == "-":  # "her on-screen husband"
        return True
    if word in CLOSED:
        return False
    if pronoun == "his":
        return True
    before = _word_before(text, start)
    after = _NEXT.match(text, following.end())
    next_but_one = after["word"].lower() if after is not None else ""
    if before in GIVING and word in THINGS:
        return False
    if word == "very":  # "her very own", "loved her very much"
        return next_but_one not in ("much", "well", "badly")
    of_a_noun = bool(next_but_one) and next_but_one not in CLOSED and next_but_one not in OBJECT_BEFORE
    if word in COMPARED:
        return of_a_noun
    if word in OBJECT_BEFORE:
        return next_but_one in BUT_NOT_BEFORE
    if word.endswith("ly") and word not in ("family", "only", "lovely", "early", "elderly", "daily", "ugly", "belly"):
        return of_a_noun
    if word in ("home", "back"):  # "in her home", "on her back", "took her back"
        return not before or before in CLOSED or before in ("left", "turn", "turned", "turning", "hurt", "broke")
    return not (before in PERCEIVED and word in DEEDS)


def _before_no_word(pronoun: str, text: str, start: int, end: int) -> bool:
    """A number, an opening quote or a hyphen belong to a noun that follows; other signs, and the end, do not."""
    rest = text[end:]
    stripped = rest.lstrip()
    if not stripped:
        return False
    if rest != stripped and (stripped[0].isdigit() or stripped[0] in "$£€"):
        return pronoun == "his" or _word_before(text, start) not in GIVING
    return rest != stripped and stripped[0] in "\"'“‘*_#[<" and len(stripped) > 1 and stripped[1].isalnum()


def _word_before(text: str, start: int) -> str:
    before = re.search(r"([^\W\d_]+)\s+$", text[max(0, start - 40) : start])
    return before[1].lower() if before else ""


def _in_case_of(model: str, word: str) -> str:
    if model.isupper() and len(model) > 1:
        return word.upper()
    return word[0].upper() + word[1:] if model[0].isupper() else word
