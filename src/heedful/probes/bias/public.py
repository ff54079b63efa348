"""EEC and CrowS-Pairs as pairs for classifiers, and the table of all sets that have a name."""

import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from heedful.errors import RequestError
from heedful.probes.bias.crows_pairs import read_crows_pairs
from heedful.probes.bias.generate import builtin_set, read_set
from heedful.probes.bias.pairs import Counterfactual, PairSet
from heedful.probes.bias.places import cell, public_files, public_rows
from heedful.probes.bias.winograd import winobias, winogender, winogender_neutral

_NOUN_PHRASES = {
    "he": "she",
    "him": "her",
    "this man": "this woman",
    "this boy": "this girl",
    "my brother": "my sister",
    "my son": "my daughter",
    "my husband": "my wife",
    "my boyfriend": "my girlfriend",
    "my father": "my mother",
    "my uncle": "my aunt",
    "my dad": "my mom",
}
_PRONOUNS = ("he", "him")
_EEC = "Equity-Evaluation-Corpus.csv"
_COLUMNS = ("Template", "Person", "Gender", "Race", "Emotion", "Emotion word")
_MEN, _WOMEN, _AFRICAN, _EUROPEAN = "male", "female", "African-American", "European"


@dataclass(frozen=True)
class _Sentence:
    text: str
    template: str
    person: str
    gender: str
    race: str
    emotion: str
    word: str


def eec_gender(of_pairs: bool) -> PairSet:
    """a = men, b = women; the i-th names of either inside a race, noun phrases by their meaning."""
    _refuse_pairs("eec-gender", of_pairs)
    sentences = _eec()
    partners = dict(_NOUN_PHRASES)
    for race in (_AFRICAN, _EUROPEAN):
        partners |= _in_order(sentences, (_MEN, race), (_WOMEN, race))
    rows = tuple(
        Counterfactual(one.text, other.text, levels | {"kind": _kind_of(one)})
        for one, other, levels in _matched(sentences, partners)
    )
    return PairSet(
        "eec-gender",
        "people in emotional situations (Equity Evaluation Corpus)",
        ("men", "women"),
        rows,
        ("template", "emotion word", "person"),
        ("kind", "emotion"),
        "GPL-3",
    )


def eec_race(of_pairs: bool) -> PairSet:
    """a = European, b = African-American names; the i-th of either inside a gender."""
    _refuse_pairs("eec-race", of_pairs)
    sentences = _eec()
    partners: dict[str, str] = {}
    for gender in (_MEN, _WOMEN):
        partners |= _in_order(sentences, (gender, _EUROPEAN), (gender, _AFRICAN))
    rows = tuple(
        Counterfactual(one.text, other.text, levels | {"gender": one.gender})
        for one, other, levels in _matched(sentences, partners)
    )
    return PairSet(
        "eec-race",
        "names in emotional situations (Equity Evaluation Corpus)",
        ("European names", "African-American names"),
        rows,
        ("template", "emotion word", "person"),
        ("gender", "emotion"),
        "GPL-3",
    )


def _eec() -> list[_Sentence]:
    path, rows = public_rows("eec", _EEC, "Sentence")
    return [_Sentence(row.text, *(cell(path, row, column) for column in _COLUMNS)) for row in rows]


def _in_order(sentences: list[_Sentence], one: tuple[str, str], other: tuple[str, str]) -> dict[str, str]:
    """The i-th name of one kind with the i-th of the other."""
    named = [dict.fromkeys(s.person for s in sentences if (s.gender, s.race) == kind) for kind in (one, other)]
    if len(named[0]) != len(named[1]):
        raise RequestError(
            f"eec/{_EEC} has {len(named[0])} names that are {' '.join(one)} and {len(named[1])} that are "
            f"{' '.join(other)}, and cannot be paired; fetch the file again."
        )
    return dict(zip(*named, strict=True))


def _matched(
    sentences: list[_Sentence], partners: dict[str, str]
) -> Iterator[tuple[_Sentence, _Sentence, dict[str, str]]]:
    places = {(s.template, s.word, s.person): s for s in sentences}
    for sentence in sentences:
        partner = partners.get(sentence.person)
        if partner is None:
            continue
        other = places.get((sentence.template, sentence.word, partner))
        if other is None:
            raise RequestError(
                f"eec/{_EEC} has {sentence.text!r} and not the same of {partner!r}; fetch the file again."
            )
        subject = "he/she" if sentence.person in _PRONOUNS else f"{sentence.person}/{partner}"
        yield (
            sentence,
            other,
            {
                "template": sentence.template,
                "emotion word": sentence.word or "none",
                "emotion": sentence.emotion or "none",
                "person": subject,
            },
        )


def _kind_of(sentence: _Sentence) -> str:
    if sentence.race:
        return f"{sentence.race} names"
    return "pronouns" if sentence.person in _PRONOUNS else "kinship"


def crows_pairs(of_pairs: bool) -> PairSet:
    """a = the less stereotypical sentence, b = the more stereotypical one."""
    _refuse_pairs("crows-pairs", of_pairs)
    (path,) = public_files("crows_pairs", ["crows_pairs_anonymized.csv"])
    return read_crows_pairs(path)


def _refuse_pairs(name: str, of_pairs: bool) -> None:
    if of_pairs:
        raise RequestError(
            f"{name} has only single texts, and the model reads pairs of texts; "
            "choose generated, published, winobias or winogender."
        )


def _of_package(name: str) -> Callable[[bool], PairSet]:
    return lambda of_pairs: builtin_set(name)["pairs" if of_pairs else "single"]


@dataclass(frozen=True)
class NamedSet:
    what: str
    make: Callable[[bool], PairSet]
    """Of single texts, or of pairs of texts if that is what the model reads."""


SETS = {
    "generated": NamedSet("men and women: 20 templates × 24 professions × 18 terms", _of_package("gender")),
    "published": NamedSet("the few sentences of one published report", _of_package("published")),
    "winobias": NamedSet("anti- and pro-stereotyped sentences about two occupations", winobias),
    "winogender": NamedSet("he and she in sentences about an occupation", winogender),
    "winogender-neutral": NamedSet("he or she, and they, in the same sentences", winogender_neutral),
    "eec-gender": NamedSet("men and women in emotional situations; only single texts", eec_gender),
    "eec-race": NamedSet("European and African-American names there; only single texts", eec_race),
    "crows-pairs": NamedSet("sentences with less and more of a stereotype, nine kinds of bias", crows_pairs),
}
"""Sets by name."""


def find_set(name: str, of_pairs: bool) -> PairSet:
    """A set that has a name, or a TOML file in the form of the package's."""
    if name in SETS:
        return SETS[name].make(of_pairs)
    if not name.lower().endswith(".toml"):
        near = difflib.get_close_matches(name, list(SETS), 1)
        meant = f"did you mean {near[0]!r}? " if near else ""
        raise RequestError(
            f"{name!r} is not a set of pairs; {meant}there are {', '.join(SETS)}, and files (docs/probes.md)."
        )
    made = read_set(name)
    wanted, table = ("pairs", "[[pairs]]") if of_pairs else ("single", "[[single]]")
    if wanted not in made:
        reads = "pairs of texts" if of_pairs else "single texts"
        raise RequestError(f"{name} has no {table}, and the model reads {reads}; add templates of that form.")
    return made[wanted]
