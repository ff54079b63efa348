"""Every awful file loads right or is refused in one sentence that names it; reading writes nothing."""

import os
import re
from pathlib import Path

import pytest

from heedful.data.examples import load_dataset
from heedful.data.files import open_table, read_rows
from heedful.errors import RequestError
from tests.support.awful_files import CASES, GOOD, Case


def test_there_are_enough_and_names_differ() -> None:
    assert len(CASES) >= 60
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_awful_file(case: Case, tmp_path: Path) -> None:
    path = tmp_path / case.file
    path.write_bytes(case.content)
    if case.error:
        with pytest.raises(RequestError) as caught:
            load_dataset(train=path, dev_share=0, test_share=0, **case.ask)
        sentence = str(caught.value)
        assert re.search(case.error, sentence), sentence
        assert "\n" not in sentence
        assert len(sentence) < 400 + len(str(path))
        assert case.file in sentence or "kind" in case.ask
    else:
        dataset = load_dataset(train=path, dev_share=0, test_share=0, **case.ask)
        assert dataset.dev is None
        assert dataset.test is None
        assert dataset.train.labels == case.labels or case.labels is None
        assert dataset.train.scores == case.scores
        assert dataset.kind == ("score" if case.scores else "classes")
        assert dataset.train.texts == case.texts or case.texts is None
        said = [*dataset.notes, *(check["sentence"] for check in dataset.checks if check["state"] == "warn")]
        assert any(re.search(case.note, sentence) for sentence in ["", *said]), said
    assert [found.name for found in tmp_path.iterdir()] == [case.file]
    assert path.read_bytes() == case.content


def test_a_folder_and_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="is a folder; name a data file in it"):
        load_dataset(train=tmp_path, text="text", label="label")
    with pytest.raises(RequestError, match=r"no\.csv does not exist"):
        open_table(tmp_path / "no.csv")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_no_permission(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(GOOD)
    path.chmod(0)
    with pytest.raises(RequestError, match=r"a\.csv cannot be read \(Permission denied\)"):
        open_table(path)


def test_rows_keep_their_numbers_lines_and_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('id,text,label\n7,"a\nb",x\n\n8,c,\n')
    rows = list(read_rows(path, "text", label="label"))
    assert [(r.number, r.line, r.text, r.pair, r.label) for r in rows] == [
        (1, 2, "a\nb", None, "x"),
        (2, 5, "c", None, None),
    ]
    assert rows[1].raw == {"id": "8", "text": "c", "label": ""}
    assert [r.label for r in read_rows(path, "text")] == [None, None]
    assert open_table(path).columns == ("id", "text", "label")


def test_an_unreadable_row_stops_the_stream_unless_it_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a"}\n{"text": null}\n{"text": 3}\n')
    with pytest.raises(RequestError, match="line 2, has no 'text'; correct or remove it"):
        list(read_rows(path, "text"))
    lost: list[int] = []
    rows = list(open_table(path).rows("text", skip=lambda bad: lost.append(bad.number)))
    assert [(r.number, r.text) for r in rows] == [(1, "a"), (3, "3")]
    assert lost == [2]


def test_a_missing_column_is_said_before_the_first_row(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(GOOD)
    with pytest.raises(RequestError, match="no column 'nothing'"):
        read_rows(path, "nothing")  # not yet iterated


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "either a name"),
        ({"name": "sst2", "train": "a.csv"}, "either a name"),
        ({"name": "tickets", "text": "text"}, "remove text"),
        ({"name": "tickets", "split_seed": 3}, "remove split_seed"),
        ({"name": "tickets", "header": False}, "remove header"),
        ({"name": "tickets", "label": "also"}, "without a label 'also'"),
        ({"name": "tickets", "kind": "score"}, "has classes, not kind = 'score'"),
        ({"name": "tickets", "options": {"size": 3}}, "no option size = 3"),
        ({"name": "ticket"}, "did you mean 'tickets'"),
        ({"train": "a.csv", "options": {"size": 3}}, "'size' is for named sets"),
        ({"train": "a.csv", "dev_share": 1.0}, "dev_share = 1.0 must be"),
        ({"train": "a.csv", "dev_share": 0.5, "test_share": 0.5}, "leaves nothing to train on"),
    ],
)
def test_requests_that_make_no_sense(arguments: dict[str, object], said: str) -> None:
    with pytest.raises(RequestError, match=said):
        load_dataset(**arguments)  # type: ignore[arg-type]
