"""Data files are opened once in a process, and read anew when they change."""

import gzip
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from heedful.cli.run import _data_table
from heedful.data.disk import read_lines
from heedful.data.examples import load_dataset
from heedful.data.files import open_table
from heedful.data.labelled import LabelledTable
from heedful.data.loading import load_data
from heedful.storage.shared import SharedStore

ROWS = [(f"the weather is fine on day {i}", "good" if i % 2 else "bad") for i in range(40)]

_opened: list[str] = []
_listening = False


def _listen(event: str, arguments: tuple[Any, ...]) -> None:
    if _listening and event == "open":
        _opened.append(str(arguments[0]))


sys.addaudithook(_listen)


@pytest.fixture
def opens() -> Callable[[Callable[[], Any], Path], int]:
    """How often a call opens a file."""

    def count(call: Callable[[], Any], path: Path) -> int:
        global _listening
        _opened.clear()
        _listening = True
        try:
            call()
        finally:
            _listening = False
        return _opened.count(str(path))

    return count


def _write(path: Path, rows: list[tuple[str, str]]) -> Path:
    content = "text,label\n" + "".join(f'"{text}",{label}\n' for text, label in rows)
    path.write_bytes(gzip.compress(content.encode()) if path.suffix == ".gz" else content.encode())
    return path


@pytest.mark.parametrize("name", ["reviews.csv", "reviews.csv.gz"])
def test_a_comparison_opens_its_file_once(
    tmp_path: Path, opens: Callable[[Callable[[], Any], Path], int], name: str
) -> None:
    path = _write(tmp_path / name, ROWS)

    def compare() -> None:
        table = _data_table(str(path), {}, {})
        dataset = load_dataset(**table)
        assert len(dataset.train) + len(dataset.dev or []) + len(dataset.test or []) == 40
        assert load_dataset(**table) is dataset

    assert opens(compare, path) == 1
    assert opens(compare, path) == 0


def test_the_runs_of_a_process_parse_a_data_set_once(
    tmp_path: Path, opens: Callable[[Callable[[], Any], Path], int]
) -> None:
    table = LabelledTable(train=str(_write(tmp_path / "a.csv", ROWS)), text="text", label="label")
    store = SharedStore(tmp_path / "shared")
    first = load_data(table, 0, store)
    kept = next((tmp_path / "shared").glob("*/data.json"))
    assert opens(lambda: [load_data(table, seed, store) for seed in range(3)], kept) == 0
    assert load_data(table, 1, store).train.texts is first.train.texts
    changed = _write(tmp_path / "a.csv", [*ROWS, ("and one more day", "bad")])
    assert len(load_data(table, 0, store).train) == len(first.train), changed  # as the study has read it
    store.forget("data")
    later = load_data(table, 0, store)
    assert sum(map(len, later.splits().values())) == 41


def test_a_file_that_changes_is_read_anew(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.csv", ROWS)
    for label in ("bad!", "good", "fine"):
        _write(path, [*ROWS[:-1], (ROWS[-1][0], label)])  # at once, and as long as before
        assert [row.label for row in open_table(path).rows("text", label="label")][-1] == label


def test_times_that_are_set_back_do_not_deceive(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.csv", ROWS)
    before = path.stat()
    assert open_table(path).columns == ("text", "label")
    path.write_text(path.read_text().replace("text,label", "line,label"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert open_table(path).columns == ("line", "label")


def test_a_large_file_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opens: Callable[[Callable[[], Any], Path], int]
) -> None:
    monkeypatch.setattr("heedful.storage.lines._SMALL", 100)
    path = _write(tmp_path / "a.csv", ROWS)
    assert opens(lambda: [list(read_lines(path)) for _ in range(2)], path) == 2
