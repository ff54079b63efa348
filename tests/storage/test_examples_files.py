"""Lines for each example come back to the bit, are matched by row, and damage is named."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file

from heedful.errors import RequestError
from heedful.storage.examples import places_of, read_predictions, read_values, write_examples, write_values
from heedful.storage.runs import finished_run

floats = st.floats(allow_nan=False)


@given(st.lists(st.tuples(st.integers(0, 10**9), floats, floats), max_size=20))
def test_values_come_back_to_the_bit(tmp_path_factory: pytest.TempPathFactory, table) -> None:
    path = tmp_path_factory.getbasetemp() / "values.tsv"
    rows = [row for row, _, _ in table]
    columns = {"a": np.array([a for _, a, _ in table]), "b c": np.array([b for _, _, b in table])}
    write_values(path, rows, columns)
    found_rows, found = read_values(path)
    assert found_rows == rows
    assert list(found) == ["a", "b c"]
    for name, column in columns.items():
        assert np.asarray(column, dtype=float).tobytes() == found[name].tobytes()


def test_the_file_is_plain(tmp_path: Path) -> None:
    write_values(tmp_path / "dev.tsv", [3, 1], {"gold": [1.0, 0.0], "log_loss": np.array([0.1, 1 / 3])})
    assert (tmp_path / "dev.tsv").read_text() == ("row\tgold\tlog_loss\n3\t1.0\t0.1\n1\t0.0\t0.3333333333333333\n")
    with pytest.raises(ValueError, match="one number for each of the 2 rows"):
        write_values(tmp_path / "dev.tsv", [3, 1], {"gold": [1.0]})
    with pytest.raises(ValueError, match="none is called row"):
        write_values(tmp_path / "dev.tsv", [3], {"row": [1.0]})


@pytest.mark.parametrize(
    "content", ["", "a\tb\n1\t2\n", "row\ta\n1\n", "row\ta\nx\t1\n", "row\ta\n1\tmany\n", "row\ta\ta\n1\t2\t3\n"]
)
def test_damage_is_named(content: str, tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text(content)
    with pytest.raises(RequestError, match=r"x\.tsv cannot be read \(.*\); remove the directory of this run") as caught:
        read_values(tmp_path / "x.tsv")
    assert "\n" not in str(caught.value)
    with pytest.raises(RequestError, match="No such file"):
        read_values(tmp_path / "y.tsv")


def test_predictions_stay_text(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text('row\tlabel\tp:1\n7\t"a\tb"\t0.50\n')
    assert read_predictions(tmp_path / "x.tsv") == ([7], {"label": ["a\tb"], "p:1": ["0.50"]})


@given(st.lists(st.integers(0, 5), max_size=12), st.randoms())
def test_places_put_rows_in_order(wanted: list[int], random) -> None:
    rows = list(wanted)
    random.shuffle(rows)
    places = places_of(rows, wanted)
    assert places is not None
    assert [rows[i] for i in places] == wanted
    assert sorted(places) == list(range(len(rows)))
    assert places_of([*rows, 9], wanted) is None
    assert places_of(rows, [*wanted, 9]) is None


def test_rows_that_repeat_keep_their_order() -> None:
    assert places_of([1, 2, 1], [1, 1, 2]) == [0, 2, 1]
    assert places_of([1, 2, 2], [1, 1, 2]) is None


def test_examples_know_whose_rows_they_are(tmp_path: Path) -> None:
    write_examples(tmp_path / "e", "dev", [{"row": 1}], "x")
    write_examples(tmp_path / "e", "test-2017", [{"row": 2}], None)
    assert (tmp_path / "e" / "fingerprints.json").read_text() == '{\n  "dev": "x",\n  "test-2017": null\n}\n'


def test_a_run_is_finished_or_none_of_our_business(tmp_path: Path) -> None:
    assert finished_run(tmp_path) is None
    (tmp_path / "manifest.json").write_text('{"state": "done"}')
    assert finished_run(tmp_path) is None
    (tmp_path / "metrics.json").write_text('{"splits": {}}')
    assert finished_run(tmp_path) is None
    (tmp_path / "model").mkdir()
    (tmp_path / "model/config.json").write_text("{}")
    save_file({"a": np.zeros(3)}, tmp_path / "model/model.safetensors")
    assert finished_run(tmp_path) is not None
    (tmp_path / "manifest.json").write_text('{"state": "done", "files": {"values/dev.tsv": 4}}')
    assert finished_run(tmp_path) is None
    (tmp_path / "values").mkdir()
    (tmp_path / "values/dev.tsv").write_text("row\n")
    assert finished_run(tmp_path) is not None
    (tmp_path / "manifest.json").write_text('{"state": "running"}')
    assert finished_run(tmp_path) is None
    (tmp_path / "manifest.json").write_text("{")
    assert finished_run(tmp_path) is None
