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
        load_dataset(**table)

    assert opens(compare, path) == 1
    assert opens(compare, path) == 0


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
    monkeypatch.setattr("heedful.data.disk._SMALL", 100)
    path = _write(tmp_path / "a.csv", ROWS)
    assert opens(lambda: [list(read_lines(path)) for _ in range(2)], path) == 4  # each also looks at the encoding
