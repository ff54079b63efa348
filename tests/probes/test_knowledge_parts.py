"""The parts of a knowledge probe: names in questions and lines, distances, thresholds, and what a recipe names."""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heedful.data.records import Questions
from heedful.errors import RequestError
from heedful.inference.questions import stands_in
from heedful.probes.knowledge.material import Given, Library
from heedful.probes.knowledge.names import KnownNames, KnownText, beginnings, edit_distances
from heedful.probes.knowledge.refusing import choose_threshold, curve, floored, rules
from tests.support.question_samples import NAMES, TRAIN, answer_recipe, born, byte_tokenizer, questions, write_people

short_text = st.text("abc é", max_size=7)
answers = st.lists(st.tuples(st.booleans(), st.floats(0, 1)), min_size=2, max_size=24)


def levenshtein(a: str, b: str) -> int:
    if not a or not b:
        return len(a) + len(b)
    return min(
        levenshtein(a[1:], b) + 1, levenshtein(a, b[1:]) + 1, levenshtein(a[1:], b[1:]) + (a[0] != b[0])
    )  # by its definition


@given(st.text("ab ", max_size=4), st.lists(st.text("ab ", max_size=4), min_size=1, max_size=4))
def test_edit_distances_are_those_of_the_definition(text: str, others: list[str]) -> None:
    assert edit_distances(text, others).tolist() == [levenshtein(text, other) for other in others]


@given(short_text, short_text, short_text)
def test_edit_distance_is_a_distance(a: str, b: str, c: str) -> None:
    ab, ac = edit_distances(a, [b, c]).tolist()
    assert (ab == 0) == (a == b)
    assert edit_distances(b, [a])[0] == ab
    assert ac <= ab + edit_distances(b, [c])[0]


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("Eve Ray. Eve Ray was born in Oslo.", ["Eve Ray"]),
        ("J. R. Moss. J. R. Moss was born.", ["J. R. Moss"]),
        ("J.C. Lund. He was born.", ["J.C. Lund"]),
        ("Dr. Uma Fox. She lives.", ["Dr. Uma Fox"]),
        ("Kim Fox. he paints", ["Kim Fox"]),
        ("Lee Lund, Jr.. Lee Lund, Jr. was born.", ["Lee Lund, Jr"]),
        ("Madonna", ["Madonna"]),
        ("Hyman I. He was born.", []),
    ],
)
def test_the_name_at_the_beginning_of_a_line(line: str, names: list[str]) -> None:
    assert beginnings(line)[: len(names) or 1] == names


def test_the_longest_name_wins_and_a_part_of_a_word_is_none() -> None:
    lines = ("Ann. A line.", "Ann Lee. Another.", "Ann Lee. A second one.", "Lee. A fourth.")
    text = KnownText("lines", lines)
    assert text.lines_of("Where was Ann Lee born?") == [lines[1], lines[2]]
    assert text.lines_of("Where was Anna born?") == []
    assert text.lines_of("Was it “Ann”?") == [lines[0]]
    holds = text.holds_in(byte_tokenizer())
    assert [holds(one) for one in ("fourth", "four", "fifth", "")] == [True, False, False, False]
    assert [stands_in(one, lines) for one in ("fourth", "four", "A line")] == [True, False, True]


def test_the_nearest_name_shares_words_first_and_letters_then() -> None:
    known = KnownNames(questions(TRAIN))
    assert known.name_of(born("Ada Moss")) == ("ada", "moss")
    near = known.nearest(born("Ada Moss"))
    assert near == (born("Di Moss"), "Rome", 1, 2)
    assert known.nearest(born("Ade Rat")).question == born("Ada Ray")  # no word is shared
    assert known.nearest(born("Ada Ray")).question == born("Ada Fox")  # never itself
    assert (known.knows(born("ADA RAY")), known.knows(born("Ada"))) == (True, False)
    assert known.chance(born("Ada Moss"), "Rome") == 2 / 4
    assert known.chance(born("Ada Ray"), "Rome") == 2 / 3
    assert KnownNames(Questions(["Who?"], ["I"], [1])).nearest("Who?") is None


@given(answers, st.floats(0.01, 1))
def test_the_threshold_is_the_lowest_that_has_the_wanted_accuracy(
    some: list[tuple[bool, float]], wanted: float
) -> None:
    right_n, confidence_n = np.array([r for r, _ in some]), np.array([c for _, c in some])
    chosen, best = choose_threshold(right_n, confidence_n, wanted)
    kept = {t: right_n[confidence_n >= t].mean() for t in {0.0, *map(floored, confidence_n)}}
    good = [t for t, share in kept.items() if share >= wanted - 1e-12]
    assert chosen == min(good, default=None)
    assert chosen is not None or best == max(kept.values()) < wanted


@given(answers, st.data())
def test_what_judges_a_threshold_has_no_part_in_choosing_it(
    some: list[tuple[bool, float]], data: st.DataObject
) -> None:
    right_se, confidence_se = np.array([[r for r, _ in some]]), np.array([[c for _, c in some]])
    other_se = right_se.copy()
    other_se[:, 1::2] = data.draw(st.lists(st.booleans(), min_size=len(some) // 2, max_size=len(some) // 2))
    assert (
        rules(right_se, confidence_se, False, 0.8)[0]["threshold"]
        == rules(other_se, confidence_se, False, 0.8)[0]["threshold"]
    )


@given(st.floats(0, 1))
def test_a_threshold_is_rounded_down_to_what_is_printed(confidence: float) -> None:
    assert confidence * 0.999 <= floored(confidence) <= confidence
    assert floored(confidence) == float(f"{floored(confidence):.4g}")


@given(answers)
def test_a_curve_begins_with_every_answer_and_answers_ever_fewer(some: list[tuple[bool, float]]) -> None:
    right_se, confidence_se = np.array([[r for r, _ in some]]), np.array([[c for _, c in some]])
    points = curve(right_se, confidence_se, False)
    assert (points[0]["coverage"], points[0]["accuracy"]) == (1.0, right_se.mean())
    shares = [point["coverage"] for point in points]
    assert shares == sorted(shares, reverse=True)
    assert all(point["low"] is None or point["low"] <= point["accuracy"] <= point["high"] for point in points)


def test_what_is_not_named_is_what_the_recipe_names(tmp_path: Path) -> None:
    table = write_people(tmp_path)
    recipe = answer_recipe(table).model_dump(mode="json")
    own = Library(Given()).material("run", recipe)
    assert (own.name, len(own.questions), own.train_name, own.answer_tokens) == ("dev.tsv", 10, "train.tsv", 8)
    assert own.text is not None
    assert (own.text.name, len(own.text.documents)) == ("text.txt", len(NAMES))
    other = Library(Given(questions=table["train"], text=(table["dev"],))).material("run", recipe)
    assert (other.name, other.text and other.text.name, other.train_name) == ("train.tsv", "dev.tsv", "train.tsv")
    without = Library(Given(questions=table["dev"])).material("a model", None)
    assert (without.train, without.text, without.names) == (None, None, None)


def test_a_named_set_brings_its_training_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = write_people(tmp_path)
    folder = tmp_path / "birthplaces"
    folder.mkdir()
    for split, name in (("train", "birth_places_train.tsv"), ("dev", "birth_dev.tsv")):
        Path(table[split]).rename(folder / name)
    monkeypatch.setenv("HEEDFUL_DATA", str(tmp_path))
    found = Library(Given("birthplaces")).material("a model", None)
    assert (found.name, len(found.questions)) == ("birthplaces, dev", 10)
    assert found.train is not None
    assert len(found.train) == 14


@pytest.mark.parametrize(
    ("lost", "words"),
    [("dev", r"dev\.tsv does not exist.*--questions"), ("corpus", r"text\.txt does not exist.*--text")],
)
def test_what_a_recipe_named_and_is_gone(tmp_path: Path, lost: str, words: str) -> None:
    table = write_people(tmp_path)
    recipe = answer_recipe(table).model_dump(mode="json")
    Path(table[lost]).unlink()
    with pytest.raises(RequestError, match=f"run: what its recipe names cannot be read.*{words}"):
        Library(Given()).material("run", recipe)


def test_questions_must_come_from_somewhere(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"does not say which questions.*--questions"):
        Library(Given()).material("gpt2", None)


@pytest.mark.full
def test_real_questions_find_their_lines() -> None:
    """Every name of the set has a line; of 2,500 all but a few are found, and no line of another."""
    if not os.environ.get("HEEDFUL_DATA"):
        pytest.skip("HEEDFUL_DATA is not set")
    material = Library(Given("birthplaces", text=("birthplaces-text",))).material("a model", None)
    assert material.text is not None
    assert material.train is not None
    asked = [*material.questions.questions, *material.train.questions]
    found = [material.text.lines_of(question) for question in asked]
    own = [bool(lines) and question.split()[2] in lines[0] for question, lines in zip(asked, found, strict=True)]
    assert sum(own) >= len(asked) - 3
    assert sum(bool(lines) for lines in found) - sum(own) <= 1
