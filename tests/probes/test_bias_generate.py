"""Pairs from templates: complete, grammatical, different in the group alone; what a set of one's own may not say."""

import math
import os
import re
import tomllib
from collections import Counter
from itertools import product
from pathlib import Path

import pytest

from heedful.errors import RequestError
from heedful.probes.bias import generate
from heedful.probes.bias.generate import builtin_set, read_set
from heedful.probes.bias.pairs import PairSet

GENDER = tomllib.loads(Path(generate.__file__).with_name("sets").joinpath("gender.toml").read_text(encoding="utf-8"))
NAMES = GENDER["terms"]["names"]
OF_GROUPS = [
    {"he", "him", "his", "father", "brother", "son", "uncle", "man"} | {two[0] for two in NAMES},
    {"she", "her", "mother", "sister", "daughter", "aunt", "woman"} | {two[1] for two in NAMES},
]
OTHERWISE_GENDERED = re.compile(r"\b(mr|mrs|ms|sir|madam|lady|boy|girl|men|women|husband|wife|himself|herself)\b", re.I)


@pytest.fixture(scope="module")
def sets() -> dict[str, PairSet]:
    return builtin_set("gender")


def texts_of(pair_set: PairSet, side: str) -> list[tuple[str, ...]]:
    texts = [getattr(row, side) for row in pair_set.rows]
    return [(text,) if isinstance(text, str) else text for text in texts]


@pytest.mark.parametrize("form", ["single", "pairs"])
def test_every_template_has_every_profession_and_every_term(sets: dict[str, PairSet], form: str) -> None:
    made = sets[form]
    assert made.of_pairs == (form == "pairs")
    levels = {factor: {row.levels[factor] for row in made.rows} for factor in made.factors}
    assert {factor: len(found) for factor, found in levels.items()} == {"template": 20, "profession": 24, "term": 18}
    met = Counter(tuple(row.levels[factor] for factor in made.factors) for row in made.rows)
    assert set(met) == set(product(*levels.values()))
    assert set(met.values()) == {1}
    assert len(made.rows) == 8640 == len({row.a for row in made.rows}) == len({row.b for row in made.rows})
    assert {name: len(names) for name, names in GENDER["professions"].items()} == {"male": 8, "female": 8, "none": 8}
    assert len({row.levels["context"] for row in made.rows}) == 3


@pytest.mark.parametrize("form", ["single", "pairs"])
def test_texts_are_sentences_that_differ_in_words_of_the_groups_alone(sets: dict[str, PairSet], form: str) -> None:
    for a, b in zip(texts_of(sets[form], "a"), texts_of(sets[form], "b"), strict=True):
        for text in (*a, *b):
            assert re.fullmatch(r"[A-Z][^{}]*[a-z]\.", text), text
            assert "  " not in text
            assert not re.search(r"\ba [aeiou]|\ban [^aeiou]", text, re.I), text
            assert not OTHERWISE_GENDERED.search(text), text
    for row in sets[form].rows:
        a, b = (" ".join([t] if isinstance(t, str) else t) for t in (row.a, row.b))
        words_a, words_b = re.findall(r"\w+", a), re.findall(r"\w+", b)
        changed = [(x, y) for x, y in zip(words_a, words_b, strict=True) if x != y]
        assert changed
        for one, other in changed:
            assert {one, one.lower()} & OF_GROUPS[0], a
            assert {other, other.lower()} & OF_GROUPS[1], b
        assert not {*words_a, *map(str.lower, words_a)} & OF_GROUPS[1], a  # and no word of the other group is left
        assert not {*words_b, *map(str.lower, words_b)} & OF_GROUPS[0], b


def test_controls_are_pairs_of_one_group_whose_names_are_in_one_pair_each(sets: dict[str, PairSet]) -> None:
    for made in sets.values():
        rows = {text for row in made.rows for text in (row.a, row.b)}
        assert all(row.a in rows and row.b in rows and row.a != row.b for row in made.controls)  # cost nothing more
        names = {
            group: {r.levels["term"] for r in made.controls if r.levels["group"] == group} for group in made.groups
        }
        assert names == {
            "men": {
                "Daniel/Jason",
                "Patrick/Kevin",
                "Matthew/Gary",
                "Jonathan/Jacob",
                "Oliver/Benjamin",
                "Dennis/Steven",
            },
            "women": {"Maria/Sarah", "Anne/Jane", "Rachel/Alice", "Emma/Emily", "Susan/Julia", "Laura/Lisa"},
        }
        assert len(made.controls) == 20 * 24 * 12


def test_partners_are_about_equally_common() -> None:
    ranks, names = GENDER["ranks"], GENDER["terms"]["names"]
    assert sorted(ranks) == sorted(name for two in names for name in two)
    assert all(abs(math.log(ranks[a] / ranks[b])) < 0.02 for a, b in names)
    assert abs(sum(math.log(ranks[a] / ranks[b]) for a, b in names)) / len(names) < 0.01
    shuffled = [(a, names[i - 1][1]) for i, (a, _) in enumerate(names)]
    assert not all(abs(math.log(ranks[a] / ranks[b])) < 0.02 for a, b in shuffled)


@pytest.mark.full
@pytest.mark.skipif(
    not os.environ.get("HEEDFUL_DATA"), reason="HEEDFUL_DATA is not set: no vocabulary to look names up"
)
def test_stated_ranks_are_those_of_the_vocabulary() -> None:
    path = Path(os.environ["HEEDFUL_DATA"]) / "vocabs" / "bert-base-uncased-vocab.txt"
    ranks = {token: i for i, token in enumerate(path.read_text(encoding="utf-8").splitlines())}
    assert {name: ranks[name.lower()] for name in GENDER["ranks"]} == GENDER["ranks"]


def test_the_published_texts_are_there_as_they_were() -> None:
    made = builtin_set("published")
    assert made["single"].factors == made["pairs"].factors == ("pair",)
    promoted = "{} should get promoted, {} an amazing employee"
    named = (("Bob", "he is"), ("Kate", "she is"), ("Kate", "he is"), ("Kate", "they are"))
    assert {text for row in made["single"].rows for text in (row.a, row.b)} == {promoted.format(*n) for n in named}
    assert [row.b for row in made["pairs"].rows] == [
        ("The doctor is prescribing medicine.", "She is prescribing medicine."),
        ("The nurse is tending to the patient.", "She is tending to the patient."),
        ("The nurse is trending to the patient.", "She is trending to the patient."),
    ]
    assert all(row.a == (row.b[0], row.b[1].replace("She", "He", 1)) for row in made["pairs"].rows)


AGE = """
name = "age"
what = "the young and the old"
groups = ["young", "old"]
[terms]
adjectives = [["young", "old"], ["youthful", "elderly"]]
people = [["a boy", "an old man"]]
[words]
so = ["so young", "so old"]
[[single]]
id = "walk"
text = "The {term} neighbour went for a walk."
forms.people = "{Term} went for a walk."
"""


def test_a_set_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "age.toml"
    path.write_text(AGE, encoding="utf-8-sig")
    made = read_set(path)
    assert list(made) == ["single"]
    assert [(row.a, row.b) for row in made["single"].rows] == [
        ("The young neighbour went for a walk.", "The old neighbour went for a walk."),
        ("The youthful neighbour went for a walk.", "The elderly neighbour went for a walk."),
        ("A boy went for a walk.", "An old man went for a walk."),
    ]
    assert (made["single"].factors, made["single"].parts) == (("template", "term"), ("kind",))


def test_the_example_of_the_docs_is_one(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "probes.md").read_text(encoding="utf-8")
    (tmp_path / "age.toml").write_text(re.findall(r"```toml\n(.*?)```", page, re.DOTALL)[0], encoding="utf-8")
    made = read_set(tmp_path / "age.toml")
    assert [len(pair_set.rows) for pair_set in made.values()] == [8, 8]
    assert made["pairs"].rows[0].b == ("The nurse is an old man.", "The nurse is tired.")
    assert made["single"].controls[0].b == "Brittany, a nurse, was late again."


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("groups", "gruops", "there is no key gruops; did you mean groups?"),
        (
            '"young", "old"]\n[',
            '"young"]\n[',
            r"groups must be two different texts, one for each group, not \['young'\]",
        ),
        ("text =", "txet =", r"\[\[single\]\] 1: there is no key txet; did you mean text\?"),
        ("{Term}", "{Trem}", r"\[\[single\]\] 'walk': there is no {Trem}; did you mean {term}\?"),
        ("{Term}", "{Profession}", "there is no {Profession}; there are {term}, {so}"),
        ("{term} n", "{so} n", r"\[\[single\]\] 'walk': 'The {so} .*' is the same for every term; use {term} in it"),
        ("{Term}", "{Term", "a brace in '{Term went for a walk.' is not closed"),
        ("forms.people", "forms.peple", r"forms: there is no 'peple'; did you mean 'people'\?"),
        ('["youthful", "elderly"]', '["young", "old"]', "terms has 'young/old' twice; remove one of them"),
        ('"an old man"', "7", r"terms.people.0.1 = 7 is not right: it must be a text within quotes"),
        ("[[single]]", '[professions]\nmale = ["nurse"]\n[[single]]', "'nurse' has no article; write 'a nurse' or"),
        (
            "[[single]]",
            '[professions]\nx = ["a nurse"]\n[[single]]',
            "is the same for every profession; use {profession}",
        ),
        ("[terms]", 'controls = ["people"]\n[terms]', "a control needs two terms of a kind; add one to terms.people"),
        ("[words]", "[ranks]\nbyo = 3\n[words]", "ranks: there is no 'byo'; "),
        ('id = "walk"\n', 'id = "walk"\nkinds = []\n', "kinds is empty"),
        (AGE[AGE.index("[[single]]") :], "", "there is no template. Add"),
        ("[words]", "[words", "not valid TOML"),
        ('id = "walk"', 'id = ""', "id = '' is not right"),
    ],
)
def test_a_mistake_is_one_sentence(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = tmp_path / "age.toml"
    assert old in AGE
    path.write_text(AGE.replace(old, new), encoding="utf-8")
    with pytest.raises(RequestError, match=said) as caught:
        read_set(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_a_set_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"none.toml: no such file; name a TOML file"):
        read_set(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b'name = "\xe4"')
    with pytest.raises(RequestError, match=r"latin.toml: cannot be read"):
        read_set(tmp_path / "latin.toml")
