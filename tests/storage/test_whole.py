"""A file is the old one or the new one, whatever happens to its writer."""

import errno
import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from heedful.errors import WorkError
from heedful.storage import whole
from heedful.storage.whole import open_output, umask, write_bytes, write_json, write_text


def test_what_is_written_is_there(tmp_path: Path) -> None:
    write_bytes(tmp_path / "a", b"\x00\xff")
    write_text(tmp_path / "b", "ä\n")
    write_json(tmp_path / "c", {"ä": [1, None]})
    assert (tmp_path / "a").read_bytes() == b"\x00\xff"
    assert (tmp_path / "b").read_bytes() == "ä\n".encode()
    assert json.loads((tmp_path / "c").read_text(encoding="utf-8")) == {"ä": [1, None]}
    assert "ä" in (tmp_path / "c").read_text(encoding="utf-8")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b", "c"]


def test_others_may_read_it_as_they_may_any_file(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    write_text(tmp_path / "ours", "")
    assert stat.S_IMODE((tmp_path / "ours").stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_json_leaves_the_old_file(value: float, tmp_path: Path) -> None:
    write_json(tmp_path / "x", [1])
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(tmp_path / "x", [value])
    assert json.loads((tmp_path / "x").read_text()) == [1]


@pytest.mark.parametrize("name", ["fsync", "replace", "chmod"])
def test_a_failure_leaves_the_old_file_and_no_rest(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_text(tmp_path / "x", "old")

    def fail(*_: object, **__: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os if name != "replace" else Path, name, fail)
    with pytest.raises(OSError, match="disk full"):
        write_text(tmp_path / "x", "new")
    monkeypatch.undo()
    assert (tmp_path / "x").read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


def test_killed_while_it_writes(tmp_path: Path) -> None:
    """One content or the other, each time; rests of the dead are cleared away once they are old."""
    path = tmp_path / "x"
    program = (
        "import sys; from pathlib import Path; from heedful.storage.whole import write_text\n"
        "print(flush=True)\n"
        "while True:\n"
        "    for c in 'ab': write_text(Path(sys.argv[1]), c * 200_000)\n"
    )
    for wait in (0.0, 0.003, 0.01):
        process = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.05 + wait)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        assert path.read_text() in ("a" * 200_000, "b" * 200_000)
    rest = tmp_path / ".x.abcd1234.part"
    rest.write_text("")
    os.utime(rest, (0, 0))
    young = tmp_path / ".x.abcd1235.part"
    young.write_text("")
    stranger = tmp_path / ".xy.abcd1234.part"
    stranger.write_text("")
    os.utime(stranger, (0, 0))
    write_text(path, "c")
    assert not rest.exists()
    assert young.exists()
    assert stranger.exists()
    assert whole._LEFTOVER >= 600


def test_an_output_is_for_others_to_read_and_whole(tmp_path: Path) -> None:
    """Written bit by bit, it appears at the end; what fails on the way leaves the old file and nothing beside it."""
    path = tmp_path / "out.tsv"
    with open_output(path) as file:
        file.write("ä\r\n")
        assert not path.exists()
    assert path.read_bytes() == "ä\r\n".encode()
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask()

    def fail(error: Exception) -> None:
        with open_output(path) as file:
            file.write("half")
            raise error

    with pytest.raises(WorkError, match=r"out\.tsv: could not be written \(No space left on device\)"):
        fail(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    with pytest.raises(KeyError):
        fail(KeyError())
    assert path.read_bytes() == "ä\r\n".encode()
    assert [p.name for p in tmp_path.iterdir()] == ["out.tsv"]
