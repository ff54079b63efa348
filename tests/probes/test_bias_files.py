"""Pairs of the user's own: from a file of pairs, or made of a file of texts; awful files are refused in a sentence."""

import json
from pathlib import Path

import pytest

from heedful.errors import RequestError
from heedful.probes.bias.files import read_pairs, swap_texts


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_single_texts_with_factors_and_parts(tmp_path: Path) -> None:
    path = write(tmp_path / "own.csv", "template,a,b,kind\nt1,He left.,She left.,x\nt1,He ate.,She ate.,y\n")
    made = read_pairs(path, False, factors=["template"], parts=["kind"], groups=("men", "women"))
    assert [(row.a, row.b, dict(row.levels)) for row in made.rows] == [
        ("He left.", "She left.", {"template": "t1", "kind": "x"}),
        ("He ate.", "She ate.", {"template": "t1", "kind": "y"}),
    ]
    assert (made.factors, made.parts, made.groups, made.of_pairs) == (("template",), ("kind",), ("men", "women"), False)


def test_pairs_of_texts_and_rows_that_recur(tmp_path: Path) -> None:
    row = {"one": "It rains.", "one_b": "He is wet.", "two": "It rains.", "two_b": "She is wet."}
    other = {**row, "one": "It snows.", "two": "It snows."}
    path = write(tmp_path / "own.jsonl", "\n".join(map(json.dumps, (row, other, row))))
    made = read_pairs(path, True, columns=["one", "one_b", "two", "two_b"])
    assert (made.rows[0].a, made.rows[0].b) == (("It rains.", "He is wet."), ("It rains.", "She is wet."))
    assert (made.factors, made.of_pairs) == (("pair",), True)
    assert [row.levels["pair"] for row in made.rows] == ["1", "2", "1"]  # no other pair, and so not independent


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("a,b\nx,y\nx,\n", {}, "own.csv, line 3: 'b' is empty or no text; fill it in or remove the row"),
        ("a,b\nx,y\nsame,same\n", {}, "own.csv, line 3: both texts are the same; correct or remove the row"),
        ("a,b,t\nx,y,1\nx,z,\n", {"factors": ["t"]}, "own.csv, line 3: 't' is empty"),
        ("a,b\nx,y\n", {"factors": ["tmplate"]}, "own.csv has no column 'tmplate'; it has 'a', 'b'"),
        ("a,c\nx,y\n", {}, "own.csv has no column 'b'"),
        ("a,b\n", {}, "own.csv has no rows; add pairs, one to a line"),
        ("a,b\nx,y\n", {"parts": ["a"]}, "the column 'a' is named twice"),
        (
            "a,b\nx,y\n",
            {"of_pairs": True},
            "has no column 'a_pair', and the model reads pairs of texts; give it a, a_pair",
        ),
        ("a,b\nx,y\n", {"columns": ["a", "b", "a"]}, "3 columns of texts are named, and the model reads single texts"),
        ('a,b\n"x,y\n', {}, "own.csv, line 2: a quote opens"),
        ("a,b\nx,y,z\n", {}, "own.csv, line 2, has 3 cells"),
    ],
)
def test_awful_files_of_pairs(tmp_path: Path, text: str, options: dict[str, object], said: str) -> None:
    path = write(tmp_path / "own.csv", text)
    with pytest.raises(RequestError) as caught:
        read_pairs(path, bool(options.pop("of_pairs", False)), **options)  # type: ignore[arg-type]
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_texts_whose_counterfactuals_are_made(tmp_path: Path) -> None:
    texts = ["He is fine.", "Her master left.", "It rains.", "She called him.", "He is fine."]
    path = write(tmp_path / "texts.csv", "text,label\n" + "".join(f"{text},1\n" for text in texts))
    made = swap_texts(path, False)
    assert [(row.a, row.b, row.levels["spoke of"], row.levels["text"]) for row in made.rows] == [
        ("He is fine.", "She is fine.", "men", "1"),
        ("His master left.", "Her master left.", "women", "2"),
        ("He is fine.", "She is fine.", "men", "1"),
    ]
    assert made.groups == ("men", "women")
    assert "1 of 5 texts have no word that the rules swap, and are skipped." in made.notes
    assert "1 of 5 texts are about both men and women, and are skipped." in made.notes
    assert any(note.endswith("were kept: master (1).") for note in made.notes)


def test_pairs_whose_counterfactuals_are_made(tmp_path: Path) -> None:
    rows = (
        "premise\thypothesis",
        "The nurse sleeps.\tShe sleeps.",
        "It rains.\tIt is wet.",
        "The nurse sleeps.\tHe eats.",
    )
    path = write(tmp_path / "pairs.tsv", "\n".join(rows))
    made = swap_texts(path, True)
    assert made.rows[0].a == ("The nurse sleeps.", "He sleeps.")
    assert made.rows[0].b == ("The nurse sleeps.", "She sleeps.")
    assert [row.levels["text"] for row in made.rows] == ["1", "1"]  # of one premise, and so not independent


def test_texts_that_cannot_be_swapped(tmp_path: Path) -> None:
    path = write(tmp_path / "texts.csv", "text\nIt rains.\nIt snows.\n")
    with pytest.raises(
        RequestError, match=r"texts.csv: none of its 2 texts in 'text' has a word that the rules can swap"
    ):
        swap_texts(path, False)
    with pytest.raises(RequestError, match=r"reads pairs of texts, and one column of texts is known, 'text'; name the"):
        swap_texts(path, True)
    with pytest.raises(RequestError, match=r"the model reads single texts, and 'b' is named as the second text"):
        swap_texts(path, False, pair="b")
    with pytest.raises(RequestError, match=r"has no column 'txt'; did you mean 'text'"):
        swap_texts(path, False, text="txt")
