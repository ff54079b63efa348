"""Lines of files and pipes: the same in every encoding, packed or not, however they arrive."""

import gzip
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heedful.errors import RequestError
from heedful.storage import lines
from heedful.storage.lines import STANDARD_INPUT, decoded, encoding_of, read_lines, windows_of_file, windows_of_pipe

TEXT = "one\r\n\nnaïve\u2028two\x85\rthree\nlast"
WANTED = ["one\r\n", "\n", "naïve\u2028two\x85\rthree\n", "last"]
FORMS = {
    "utf-8": TEXT.encode(),
    "utf-8-sig": TEXT.encode("utf-8-sig"),
    "utf-16": TEXT.encode("utf-16"),
    "utf-16-be": b"\xfe\xff" + TEXT.encode("utf-16-be"),
}


class Trickle(io.BytesIO):
    """Gives a byte at a time, as a slow pipe may."""

    def read1(self, size: int | None = -1) -> bytes:
        return super().read1(1)


def texts(windows: list[lines.Lines]) -> list[str]:
    every = [line for window in windows for line in window]
    return [decoded(line, STANDARD_INPUT, number) for number, line in enumerate(every, 1)]


@pytest.mark.parametrize("packed", ["", ".gz", "unnamed"])
@pytest.mark.parametrize("form", FORMS)
def test_files_in_every_form(form: str, packed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / f"lines.txt{'.gz' if packed == '.gz' else ''}"
    path.write_bytes(gzip.compress(FORMS[form]) if packed else FORMS[form])
    assert encoding_of(path) == form.removesuffix("-be")
    for chunk in (1 << 16, 3, 1):
        monkeypatch.setattr(lines, "_CHUNK", chunk)
        assert list(read_lines(path)) == list(enumerate(WANTED, 1))
        assert texts(list(windows_of_file(path, 3))) == WANTED
        assert [len(window) for window in windows_of_file(path, 3)] == [3, 1]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("stream", [io.BytesIO, Trickle])
def test_pipes_in_every_form(form: str, stream: type[io.BytesIO]) -> None:
    assert texts(list(windows_of_pipe(stream(FORMS[form]), 3))) == WANTED
    assert max(len(window) for window in windows_of_pipe(stream(FORMS[form]), 2)) <= 2


def test_a_pipe_is_answered_at_once() -> None:
    stream = Trickle(b"a\nb\n")
    windows = windows_of_pipe(stream, 10)
    assert next(windows) == [b"a\n"]
    assert stream.tell() == 2


def test_carriage_returns_alone_end_lines(tmp_path: Path) -> None:
    path = tmp_path / "old.txt"
    for encoding in ("utf-8", "utf-16"):
        path.write_bytes("a\rb\u2028c\r\rd".encode(encoding))
        assert [line for _, line in read_lines(path)] == ["a\r", "b\u2028c\r", "\r", "d"]


@given(st.text(alphabet="aé\r\n\u2028", max_size=20), st.integers(1, 7))
def test_nothing_is_lost(text: str, chunk: int) -> None:
    stream = io.BytesIO(text.encode())
    found = [line for batch in lines._batches(lambda: stream.read(chunk), "it") for line in batch]
    assert b"".join(line or b"" for line in found) == text.encode()
    if "\n" in text:
        assert len(found) == text.count("\n") + (not text.endswith("\n"))


def test_lines_that_are_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LONGEST", 10)
    path = tmp_path / "lines.txt"
    content = b"fine\n" + b"x" * 11 + b"\n" + b"y" * 9 + b"\nshort\n" + b"z" * 99
    path.write_bytes(content)
    for chunk in (4, 1):
        monkeypatch.setattr(lines, "_CHUNK", chunk)
        (found,) = windows_of_file(path, 99)
        assert found == [b"fine\n", None, b"y" * 9 + b"\n", b"short\n", None]
        assert [line for window in windows_of_pipe(Trickle(content), 9) for line in window] == found
        read = read_lines(path)
        assert next(read) == (1, "fine\n")
        with pytest.raises(lines.LongLineError, match=r"lines\.txt, line 2, is longer than"):
            next(read)


def test_long_lines_make_small_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "_MOST_AT_ONCE", 25)
    (tmp_path / "lines.txt").write_bytes((b"x" * 9 + b"\n") * 7)
    assert [len(window) for window in windows_of_file(tmp_path / "lines.txt", 99)] == [3, 3, 1]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.gz", b"plain", r"a\.gz is not whole gzip data"),
        ("cut", gzip.compress(bytes(range(256)) * 99)[:-9], "cut is not whole gzip data"),
        ("four", "a".encode("utf-32"), "four is UTF-32; save it as UTF-8"),
        ("half", "a\nb".encode("utf-16")[:-1], "half, after about line 2, is not the UTF-16"),
        (
            "latin",
            b"fine\ncaf\xe9\n",
            r"latin, line 2, is not UTF-8 \(byte 0xE9, which Windows-1252 reads as 'é'\);.*iconv",
        ),
        ("latin.gz", gzip.compress(b"caf\xe9\n"), r"line 1, is not UTF-8 .*zcat .*latin\.gz \| iconv"),
        ("odd", b"a\x81\n", r"line 1, is not UTF-8 \(byte 0x81\); save the file as UTF-8\."),
        ("nul", b"a\0b\n", "nul, line 1, has a NUL byte"),
    ],
    ids=["plain.gz", "cut.gz", "utf-32", "half-utf-16", "latin", "latin.gz", "odd", "nul"],  # gzip writes the time
)
def test_files_that_cannot_be_read(name: str, content: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(RequestError, match=words):
        list(read_lines(tmp_path / name))


def test_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"none\.txt does not exist; check the path\.$"):
        list(read_lines(tmp_path / "none.txt"))
    with pytest.raises(RequestError, match="is a folder; name a file in it"):
        list(windows_of_file(tmp_path, 9))


def test_nul_where_it_is_text(tmp_path: Path) -> None:
    (tmp_path / "nul").write_bytes(b"a\0b\n")
    assert list(read_lines(tmp_path / "nul", nul=True)) == [(1, "a\0b\n")]


def test_pipes_that_cannot_be_read() -> None:
    with pytest.raises(RequestError, match="standard input is gzip data; send it through zcat"):
        list(windows_of_pipe(io.BytesIO(gzip.compress(b"a")), 9))
    with pytest.raises(RequestError, match=r"standard input, line 2, is not UTF-8 \(byte 0xE9, .*; convert it\.$"):
        texts(list(windows_of_pipe(io.BytesIO(b"a\ncaf\xe9\n"), 9)))
