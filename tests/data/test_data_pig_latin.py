"""Pig Latin: the rule word by word, sentences, and sets of which no held-out word is trained on."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from heedful.data.catalog import PAIRS
from heedful.data.pig_latin import generate, translate, translate_word, words
from heedful.data.translations import load_pairs

WORDS = {
    # A vowel first.
    "apple": "appleway", "eat": "eatway", "ice": "iceway", "old": "oldway", "under": "underway", "a": "away",
    # One consonant, several, and all there are.
    "banana": "ananabay", "dog": "ogday", "happy": "appyhay", "green": "eengray", "string": "ingstray",
    "school": "oolschay", "three": "eethray", "while": "ilewhay", "hmm": "hmmay", "nth": "nthay", "x": "xay",
    # qu moves together, alone and after an s; q without u is a consonant like others.
    "queen": "eenquay", "quick": "ickquay", "square": "aresquay", "squid": "idsquay", "qatar": "atarqay",
    # u after another letter than q stays.
    "guard": "uardgay", "suit": "uitsay",
    # y: a vowel inside a word, and at its end; at its beginning it stays, with "ay".
    "my": "ymay", "try": "ytray", "style": "ylestay", "rhythm": "ythmrhay", "yes": "yesay", "yellow": "yelloway",
    "y": "yay",
    # Capitals, apostrophes, accents.
    "Hello": "Ellohay", "Quiet": "Ietquay", "I": "Iway", "Apple": "Appleway", "NASA": "ASANAY", "USA": "USAWAY",
    "don't": "on'tday", "café": "afécay", "Élan": "Élanway", "über": "überway",
    # What is no word.
    "": "", "42": "42", "2nd": "2nd", "a_b": "a_b",
}  # fmt: skip


@pytest.mark.parametrize(("word", "expected"), WORDS.items())
def test_words(word: str, expected: str) -> None:
    assert translate_word(word) == expected


def test_sentences_keep_what_stands_between_words() -> None:
    assert translate("Well-known: 'The QUICK brown fox,' she said — twice!") == (
        "Ellway-ownknay: 'Ethay ICKQUAY ownbray oxfay,' eshay aidsay — icetway!"
    )
    assert translate("bond-street  (3 miles)\n") == "ondbay-eetstray  (3 ilesmay)\n"


@example("qu'H")
@given(st.text(alphabet="abeiquyTHz-' ,.3é\n", max_size=30))
def test_only_words_change(text: str) -> None:
    word = re.compile(r"\w+(?:['’]\w+)*")
    made = translate(text)
    assert word.sub("", made) == word.sub("", text)
    for before, after in zip(word.findall(text), word.findall(made), strict=True):
        letters = sorted(before.lower())
        rest = list(after.lower())
        for letter in letters:
            rest.remove(letter)
        assert "".join(sorted(rest)) in ("", "ay", "awy")


def test_the_words_of_the_package() -> None:
    listed = words()
    assert len(listed) == len(set(listed)) == 8000
    assert all(re.fullmatch("[a-z]+", word) for word in listed)
    assert listed[:5] == ("the", "and", "to", "of", "a")


@pytest.mark.parametrize("name", ["pig-latin-small", "pig-latin-large", "pig-latin-sentences"])
def test_sets_that_are_made(name: str) -> None:
    data = load_pairs(name=name)
    assert {split: len(pairs) for split, pairs in data.splits.items()} == PAIRS[name].sizes
    assert not data.recurring
    assert all(check["state"] == "pass" for check in data.checks)
    assert load_pairs(name=name).fingerprints == data.fingerprints
    for pairs in data.splits.values():
        assert [translate(source) for source in pairs.sources] == pairs.targets


def test_no_held_out_word_is_trained_on_in_any_of_them() -> None:
    seen: dict[str, set[str]] = {"train": set(), "dev": set(), "test": set()}
    for name in ("pig-latin-small", "pig-latin-large", "pig-latin-sentences"):
        for split, pairs in generate(name, {}).items():
            seen[split].update(word for source, _ in pairs for word in re.findall("[a-z]+", source.lower()))
    assert not seen["train"] & seen["dev"]
    assert not seen["train"] & seen["test"]
    assert not seen["dev"] & seen["test"]
    assert set().union(*seen.values()) == set(words())


def test_common_and_rare_words_are_held_out_alike() -> None:
    place = {word: i for i, word in enumerate(words())}
    for split, pairs in generate("pig-latin-large", {}).items():
        mean = sum(place[source] for source, _ in pairs) / len(pairs)
        assert abs(mean - 4000) < 60, split


def test_sentences_by_size_and_seed() -> None:
    small = generate("pig-latin-sentences", {"size": 50, "seed": 3})
    assert {split: len(pairs) for split, pairs in small.items()} == {"train": 40, "dev": 5, "test": 5}
    assert small == generate("pig-latin-sentences", {"size": 50, "seed": 3})
    assert small != generate("pig-latin-sentences", {"size": 50, "seed": 4})
    assert len({source for pairs in small.values() for source, _ in pairs}) == 50


def test_the_other_direction() -> None:
    there, back = (load_pairs(name="pig-latin-small", **keys) for keys in ({}, {"source": "pig-latin"}))
    assert back.languages == ("pig-latin", "english")
    assert back.splits["test"] == there.splits["test"].turned()
