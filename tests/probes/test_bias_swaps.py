"""Swapped texts keep their grammar, change in listed words alone, and come back; measured on public pairs."""

import os
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heedful.probes.bias.swap_words import NAMES, OF_MEN, OF_WOMEN
from heedful.probes.bias.swaps import stands_before_noun, swap
from heedful.probes.bias.winograd import winobias_lines, winogender_rows

LISTED = {*OF_MEN, *OF_WOMEN, "his", "her", "miss"}
COUNTERPARTS = {*OF_MEN.values(), *OF_WOMEN.values(), "hers"}


@pytest.mark.parametrize(
    ("text", "swapped"),
    [
        ("He lost his keys.", "She lost her keys."),
        ("I saw her in her office.", "I saw him in his office."),
        ("The idea was his, not hers.", "The idea was hers, not his."),
        ("A friend of his is with him.", "A friend of hers is with her."),
        ("Each does his or her best; ask him or her.", "Each does her or his best; ask her or him."),
        ("They gave her a present and sent her home.", "They gave him a present and sent him home."),
        ("Her on-screen husband is in her home.", "His on-screen wife is in his home."),
        ("We let her go, and she's fine; HE'LL do it HIMSELF.", "We let him go, and he's fine; SHE'LL do it HERSELF."),
        ("Her very own film; I love her very much.", "His very own film; I love him very much."),
        ("my father's sisters and his wives", "my mother's brothers and her husbands"),
        ("Mr. Smith met Ms Jones.", "Ms. Smith met Mr Jones."),
        ("Mrs. Smith and Miss Jones", "Mr. Smith and Mr Jones"),
        ("Yes, Ma’am.", "Yes, Sir."),
        ("THE ACTRESSES AND EMILY", "THE ACTORS AND JACOB"),
        ("I Miss You and love her more than her later films.", "I Miss You and love him more than his later films."),
        ("her 'friend' and her 20s", "his 'friend' and his 20s"),
        ("God bless her, said Larry King.", "God bless him, said Barbara King."),
        ("His man-made lake, the she-wolf and Mary-Kate", "Her man-made lake, the she-wolf and Mary-Kate"),
        ("her ex-husband, my Mother-in-law, all-male", "his ex-wife, my Father-in-law, all-female"),
        (
            "a father-son talk--he left -- with a 20-year-old man",
            "a mother-daughter talk--she left -- with a 20-year-old woman",
        ),
    ],
)
def test_swaps_keep_grammar_and_case(text: str, swapped: str) -> None:
    made = swap(text)
    assert made is not None
    assert made.text == swapped


def test_a_text_without_a_word_to_swap_is_none_and_what_is_left_is_told() -> None:
    for text in ("The nurse is here.", "", "They miss the host.", "Goddess Queen", "a he-man", "S/he and (s)he"):
        assert swap(text) is None
    made = swap("Her master was pregnant.")
    assert made is not None
    assert (made.text, made.left, made.spoke_of) == ("His master was pregnant.", ("master", "pregnant"), "women")
    made = swap("The king and his Man-Made Port‑au‑Prince")
    assert made is not None
    assert (made.left, made.of_men) == (("king", "man-made", "port‑au‑prince"), ("his",))
    both = swap(("He met his mother.", "Nobody came."))
    assert both is not None
    assert both.text == ("She met her father.", "Nobody came.")
    assert (both.spoke_of, both.of_men, both.of_women) == ("both", ("he", "his"), ("mother",))
    assert swap(("Nobody came.", "")) is None


CLEAR = st.sampled_from(
    [
        *("He", "she", "my UNCLE", "Emily", "the man", "himself", "Herself", "girls'", "actors", "Mr. Jones"),
        *("the book was his.", "the book was hers.", "met him yesterday", "met her yesterday", "his old car"),
        *("her old car", "in his house", "with her.", "a tree", "it is said that", "the nurse"),
    ]
)


@settings(max_examples=60)
@given(st.lists(CLEAR, min_size=1, max_size=8).map(" ".join))
def test_swapping_twice_gives_the_original(text: str) -> None:
    made = swap(text)
    if made is None:
        assert not set(re.findall(r"\w+", text.lower())) & LISTED
        return
    assert made.text != text
    back = swap(made.text)
    assert back is not None
    assert back.text == text
    assert (len(back.of_men), len(back.of_women)) == (len(made.of_women), len(made.of_men))


@settings(max_examples=60)
@given(st.lists(st.one_of(st.text(max_size=6), st.sampled_from(sorted(LISTED))), max_size=8).map(" ".join))
def test_nothing_but_listed_words_changes(text: str) -> None:
    made = swap(text)
    if made is None:
        return
    assert isinstance(made.text, str)
    one, other = (re.split(r"([^\W\d_]+)", t.lower().replace("ma'am", "madam")) for t in (text, made.text))
    assert len(one) == len(other)
    for x, y in zip(one, other, strict=True):
        assert x == y or (x in LISTED and y in LISTED | COUNTERPARTS)


def test_counterparts_are_one_to_one_and_keep_the_article() -> None:
    names = {name for two in NAMES for name in two}
    assert all((a[0] in "aeiou") == (b[0] in "aeiou") for a, b in {**OF_MEN, **OF_WOMEN}.items() if a not in names)
    assert not set(OF_MEN) & set(OF_WOMEN)
    assert {word for word, other in OF_MEN.items() if OF_WOMEN.get(other) != word} == {
        "him",
        "bridegroom",
        "bridegrooms",
    }
    one_way = {word for word, other in OF_WOMEN.items() if OF_MEN.get(other) != word}
    assert one_way == {"hers", "mrs", "ma'am", "mum", "mums", "hostess", "hostesses", "countess", "countesses"}


needs_data = pytest.mark.skipif(not os.environ.get("HEEDFUL_DATA"), reason="HEEDFUL_DATA is not set: no public pairs")


@pytest.mark.full
@needs_data
def test_share_of_public_pairs_that_the_rules_reproduce() -> None:
    """The figures of docs/probes.md."""
    exact: dict[str, Counter[str]] = {"winobias": Counter(), "winogender": Counter()}
    total: dict[str, Counter[str]] = {"winobias": Counter(), "winogender": Counter()}
    pairs = [("winobias", line.anti, line.pro, line.pronouns) for line in winobias_lines()]
    pairs += [("winogender", row.male, row.female, row.pronouns) for row in winogender_rows()]
    for name, one, other, pronouns in pairs:
        for text, wanted, pronoun in ((one, other, pronouns[0]), (other, one, pronouns[1])):
            made = swap(text)
            total[name][pronoun] += 1
            exact[name][pronoun] += made is not None and made.text == wanted
    assert total["winobias"].total() == 3168
    assert total["winogender"].total() == 480
    assert exact["winogender"] == total["winogender"]
    assert exact["winobias"].total() == 3091
    assert exact["winobias"]["her"] == 813


@pytest.mark.full
@needs_data
def test_her_is_told_apart_in_texts_that_nobody_wrote_rules_for() -> None:
    """Where a text has him or his, which leave no doubt, her is put in its place: do the rules find out which it was?
    They were written with novels, film reviews and captions at hand, not with these."""
    folder = Path(os.environ["HEEDFUL_DATA"])
    files = [path for name in ("mnli", "qnli") for path in sorted((folder / name).glob("*.tsv"))]
    texts = {text for path in files for text in re.split(r"[\t\n]", path.read_text(encoding="utf-8"))}
    right: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for text in texts:
        for match in re.finditer(r"\b(him|his)\b", text, re.IGNORECASE):
            word, start = match[0].lower(), match.start()
            if word == "his" and not stands_before_noun("his", text, start, match.end()):
                continue  # that would be hers
            guessed = stands_before_noun("her", f"{text[:start]}her{text[match.end() :]}", start, start + 3)
            total[word] += 1
            right[word] += guessed == (word == "his")
    assert total == {"him": 730, "his": 2550}
    assert right == {"him": 667, "his": 2541}


@pytest.mark.full
@needs_data
def test_partners_among_the_names_have_nearby_ranks() -> None:
    path = Path(os.environ["HEEDFUL_DATA"]) / "vocabs" / "bert-base-uncased-vocab.txt"
    ranks = {token: i for i, token in enumerate(path.read_text(encoding="utf-8").splitlines())}
    assert max(max(ranks[a], ranks[b]) / min(ranks[a], ranks[b]) for a, b in NAMES) < 1.06
