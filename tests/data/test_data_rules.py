"""What is read is what was written: quotes, separators and first lines are judged by the whole file, alike for all
files of a data set, and never in silence."""

import csv
import re
from pathlib import Path
from typing import Any

import pytest

from heedful.data.examples import Dataset, load_dataset
from heedful.data.files import open_table, read_rows
from heedful.data.rules import looks_like_names, separator_of
from heedful.errors import RequestError

ROWS = [[f"a film, number {i}, that some people liked", ("bad", "good")[i % 2]] for i in range(30)]


def write(path: Path, rows: list[list[str]], header: list[str] | None = None, **form: Any) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, **form).writerows([*([header] if header else []), *rows])
    return path


def tsv(path: Path, *lines: str) -> Path:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def warnings(dataset: Dataset, name: str) -> list[str]:
    return [check["sentence"] for check in dataset.checks if (check["name"], check["state"]) == (name, "warn")]


def load(**arguments: Any) -> Dataset:
    return load_dataset(**{"text": "text", "label": "label", "dev_share": 0, "test_share": 0, **arguments})


LINES = [f"film {i}\t{('bad', 'good')[i % 2]}" for i in range(12)]


def test_a_stray_pair_of_quotes_swallows_no_rows_of_a_tsv(tmp_path: Path) -> None:
    lines = [*LINES[:3], '"what a film\tgood', "so so\tbad", 'they say "no"\tgood', 'the end"\tbad', *LINES[3:]]
    dataset = load(train=tsv(tmp_path / "a.tsv", "text\tlabel", *lines))
    assert dataset.train.texts == [line.split("\t")[0] for line in lines]


def test_a_stray_quote_in_a_quoted_tsv_is_a_mistake_with_its_line(tmp_path: Path) -> None:
    """It does not turn all the others into letters: labels would be called '"good"'."""
    quoted = ['"' + line.replace("\t", '"\t"') + '"' for line in LINES]
    assert load(train=tsv(tmp_path / "a.tsv", '"text"\t"label"', *quoted)).labels == ("bad", "good")
    path = tsv(tmp_path / "b.tsv", '"text"\t"label"', *quoted, '"a 5" screen"\t"bad"')
    with pytest.raises(RequestError, match=r"b\.tsv, line 14: a quotation mark .*though other cells .*data\.quotes"):
        load(train=path)
    as_letters = load(train=path, text='"text"', label='"label"', quotes=False)
    assert as_letters.labels == ('"bad"', '"good"')


def test_quotes_that_are_letters_are_said_to_be(tmp_path: Path) -> None:
    dataset = load(train=tsv(tmp_path / "a.tsv", "text\tlabel", *LINES, '"Yes."\tbad', 'no "odd\tgood'))
    assert dataset.train.texts[-2:] == ['"Yes."', 'no "odd']
    assert warnings(dataset, "reading") == [
        "a.tsv: quotation marks are read as letters, since line 15 has one where quoting would not put it (quotes = "
        "true in [data] reads them as quoting)."
    ]


def test_rows_swallowed_by_a_quote_in_a_csv_are_refused(tmp_path: Path) -> None:
    lines = [f"film {i},{('bad', 'good')[i % 2]}" for i in range(12)]
    path = tsv(tmp_path / "a.csv", "text,label", *lines, '"oh,good', "well,bad", 'no",good')
    with pytest.raises(RequestError, match=r"line 14: a quote opens here and closes in line 16, and swallows 3 lines"):
        load(train=path)
    assert len(load(train=path, quotes=True).train) == 13
    fair = tsv(tmp_path / "b.csv", "text,label", *lines, '"one, two', 'three",good')  # a cell of two lines
    assert load(train=fair).train.texts[-1] == "one, two\nthree"


def test_train_decides_how_quotes_are_read_in_test(tmp_path: Path) -> None:
    train = tsv(tmp_path / "train.tsv", "text\tlabel", *LINES, 'an "odd\tbad')
    test = tsv(tmp_path / "test.tsv", "text\tlabel", '"Yes."\tgood', '"No."\tbad')
    alone = load(train=test)
    assert alone.train.texts == ["Yes.", "No."]
    dataset = load(train=train, test=test)
    assert dataset.test is not None
    assert dataset.test.texts == ['"Yes."', '"No."']
    (said,) = warnings(dataset, "reading")
    assert said.startswith("test.tsv: quotation marks are read as letters, as in train.tsv, though by itself")


def test_another_separator_is_said(tmp_path: Path) -> None:
    train = write(tmp_path / "train.csv", ROWS, ["text", "label"])
    test = write(tmp_path / "test.csv", ROWS[:5], ["text", "label"], delimiter=";")
    dataset = load(train=train, test=test)
    assert warnings(dataset, "reading") == [
        "test.csv is separated by semicolons and train.csv by commas; each is read so."
    ]
    assert dataset.test is not None
    assert dataset.test.texts == [row[0] for row in ROWS[:5]]


def test_the_separator_is_the_one_that_the_lines_agree_about(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", [["one, two, three and four", "x"], ["five", "y"]], delimiter=";")
    assert separator_of(path) == ";"


@pytest.mark.parametrize(
    ("first", "rows", "names"),
    [
        (["text", "label"], [["a", "0"], ["b", "1"]], True),
        (["what they said", "verdict"], ROWS, None),  # neither speaks against it
        (["kind", "1"], [["a", "0"], ["b", "1"]], False),
        (["a film, number 9, liked", "good"], ROWS, False),
        (["a film that nobody saw at all", "new class"], ROWS, None),
        (
            ["How did you like your stay with us?", "How many stars?"],
            [[r[0], str(i)] for i, r in enumerate(ROWS)],
            True,
        ),
        (["doc_7", "so it goes on and on"], [[f"doc_{i}", r[0]] for i, r in enumerate(ROWS)], False),
        (["It is a sentence like all of them."], [[r[0]] for r in ROWS], False),
        (["comment"], [[r[0]] for r in ROWS], True),
        (["good"], [["good"], ["bad"], ["good"]], False),
        (["text", "label"], [["text", "label"], ["label", "text"], *ROWS], True),
        (["what they said", "verdict"], [*ROWS, ["what they said ", "verdict"]], None),
        (ROWS[0], ROWS, False),  # a row that is there twice
        (["text", "label"], [], True),
        (["good film", "pos"], [["bad film", "neg"]], None),
    ],
)
def test_first_lines(first: list[str], rows: list[list[str]], names: bool | None) -> None:
    assert looks_like_names(first, rows) is names


def test_a_file_without_a_header_loses_no_row(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", ROWS)
    dataset = load(train=path, text=None, label=None)
    assert dataset.train.texts == [row[0] for row in ROWS]
    assert dataset.notes[0] == "a.csv: columns taken by name or content: text 'column 1', label 'column 2'."
    (said,) = warnings(dataset, "reading")
    assert said.startswith(
        "a.csv has no line of column names: its first line looks like the others and counts as a row"
    )
    assert len(load(train=path, text=None, label=None, header=True).train) == 29
    with pytest.raises(
        RequestError, match=r"no column 'text': its first line looks like a row.*'column 1', 'column 2'"
    ):
        load(train=path)
    named = load(train=path, text=ROWS[0][0], label=ROWS[0][1])  # by the names that a row would give it
    assert len(named.train) == 29
    (said,) = warnings(named, "reading")
    assert "looks like the others, but is read as column names, since you named" in said
    assert "(--no-header, or header = false in [data], makes it a row)" in said
    with_header = write(tmp_path / "b.csv", ROWS, ["text", "label"])
    assert len(load(train=with_header, text="column 1", label="column 2", header=False).train) == 31


@pytest.mark.parametrize("names", [["text", "label"], ["what", "verdict"]])
def test_a_header_that_is_repeated_further_down_is_no_row(tmp_path: Path, names: list[str]) -> None:
    path = write(tmp_path / "a.csv", [*ROWS[:10], names, *ROWS[10:], [f" {names[0]}", names[1]]], names)
    dataset = load(train=path, text=None, label=None)
    assert (dataset.train.texts, dataset.labels) == ([row[0] for row in ROWS], ("bad", "good"))
    assert [check["sentence"] for check in dataset.checks if check["state"] == "warn"] == [
        "a.csv: 2 rows cannot be read and are left out (lines 12, 33; the first repeats the column names)."
    ]
    with pytest.raises(RequestError, match=r"a\.csv, line 12, repeats the column names; correct or remove it"):
        list(read_rows(path, names[0]))
    assert len(load(train=path, text="column 1", label="column 2", header=False).train) == 33


def test_one_of_two_files_without_a_header(tmp_path: Path) -> None:
    named, bare = write(tmp_path / "named.csv", ROWS, ["text", "label"]), write(tmp_path / "bare.csv", ROWS[:3])
    dataset = load(train=named, test=bare)
    assert dataset.test is not None
    assert dataset.test.texts == [row[0] for row in ROWS[:3]]
    assert "its columns are taken in the order of named.csv" in warnings(dataset, "reading")[0]
    bare = write(tmp_path / "bare.csv", ROWS)
    dataset = load(train=bare, test=named, text="column 1", label="column 2")
    assert dataset.test is not None
    assert (len(dataset.train), len(dataset.test)) == (30, 30)
    assert any("named.csv has a line of column names and bare.csv has none" in w for w in warnings(dataset, "reading"))


@pytest.mark.parametrize(
    ("header", "columns", "found"),
    [
        (["nr", "what they said", "opinion"], 3, ("what they said", None, "opinion")),
        (["id", "Title 1", "Title 2", "match"], 4, ("Title 1", "Title 2", "match")),
        (["id", "premise", "hypothesis", "gold"], 4, ("premise", "hypothesis", "gold")),
    ],
)
def test_columns_are_guessed_by_what_they_hold(
    tmp_path: Path, header: list[str], columns: int, found: tuple[str, str | None, str]
) -> None:
    rows = [[str(i), row[0], *([row[0][::-1]] if columns == 4 else []), row[1]] for i, row in enumerate(ROWS)]
    dataset = load(train=write(tmp_path / "a.csv", rows, header), text=None, label=None)
    roles = zip(("text", "pair", "label"), found, strict=True)
    said = ", ".join(f"{role} {name!r}" for role, name in roles if name is not None)
    assert dataset.notes[0] == f"a.csv: columns taken by name or content: {said}."


def test_a_doubt_about_columns_is_one_sentence_with_the_candidates(tmp_path: Path) -> None:
    texts = write(tmp_path / "a.csv", [[a, a[::-1], b] for a, b in ROWS], ["summary", "story", "verdict"])
    with pytest.raises(
        RequestError, match=r"which column holds the text\? Name it with --text .*: 'summary', 'story'\."
    ):
        load(train=texts, text=None, label=None)
    labels = write(tmp_path / "b.csv", [[a, b, b[0]] for a, b in ROWS], ["text", "one", "two"])
    with pytest.raises(RequestError, match=r"which column holds the labels\? Name it with --label: 'one', 'two'\."):
        load(train=labels, text=None, label=None)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (["Good", "good", "bad"], r"differ only in case .*: 'Good' \(20 rows\), 'good' \(20 rows\)"),
        (["caf\u00e9", "cafe\u0301", "bad"], r"differ only in case or Unicode form .*'cafe\\u0301' .*'caf\\xe9'"),
        ([str(7 * i) for i in range(60)], "60 scores are whole numbers and all different: they look like identifiers"),
        ([f"k{i % 15}" for i in range(60)], "15 different labels in 60 rows, fewer than 5 rows each"),
        (["it is not what I had hoped for", "all of it was as nice as can be"], "The labels are sentences"),
    ],
)
def test_odd_labels_are_said(tmp_path: Path, labels: list[str], said: str) -> None:
    rows = [[f"text {i}", labels[i % len(labels)]] for i in range(60)]
    dataset = load(train=write(tmp_path / "a.csv", rows, ["text", "label"]))
    found = [check for check in dataset.checks if check["state"] == "warn"]
    assert len(found) == 1
    assert re.search(said, found[0]["sentence"]), found


def test_odd_files_have_a_rule_too(tmp_path: Path) -> None:
    """Byte order marks, UTF-16, carriage returns, one column, one row: the same names and the same note or none."""
    text = "text,label\r\n" + "".join(f"{a.replace(',', '')},{b}\r\n" for a, b in ROWS)
    for i, content in enumerate((text.encode(), text.encode("utf-8-sig"), text.encode("utf-16"), text.encode()[:40])):
        path = tmp_path / f"{i}.csv"
        path.write_bytes(content)
        table = open_table(path)
        assert (table.columns, table.rule.notes) == (("text", "label"), [])
    alone = tsv(tmp_path / "one.csv", "A sentence of one column alone.", "And a second one of some more words.")
    assert open_table(alone).columns == ("column 1",)
