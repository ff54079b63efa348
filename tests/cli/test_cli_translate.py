"""`heedful translate` as a person uses it: a file, a pipe or a terminal; lines of every kind; refused, interrupted."""

import gzip
import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import heedful
from heedful.checkpoints.translators import write_translator
from heedful.cli import translate as verb
from heedful.cli.main import main
from heedful.storage import lines as storage_lines
from tests.support import translator_samples as samples

Said = pytest.CaptureFixture[str]
LINES = ["the cat sat", "", "a dog ran", "the dog sat on a mat", "a mat"]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("translate") / "tiny"
    write_translator(folder, samples.make("post"))
    return folder


@pytest.fixture
def texts(directory: Path) -> Any:
    model: Any = heedful.load(directory)
    return lambda lines, **options: model.translate(lines, **{"max_length": 9, **options})


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr("sys.argv", ["heedful", "translate", *map(str, arguments)])
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as stop:
        main()
    return int(stop.value.code or 0)


def shown(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return path


def test_a_line_for_each_line(
    directory: Path, texts: Any, file: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    expected = [shown(text) for text in texts(LINES).texts]
    assert expected[1] == ""
    for window in (1024, 2, 1):
        monkeypatch.setattr("heedful.cli.translate._WINDOW", window)  # windows do not change the translations
        assert run(monkeypatch, directory, file, "--max-length", 9) == 0
        said = capsys.readouterr()
        assert said.out.split("\n") == [*expected, ""]
        assert said.err == ""


def test_scores_and_several_of_the_best(
    directory: Path, texts: Any, file: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    assert run(monkeypatch, directory, file, "--max-length", 9, "--beam", 3, "--n-best", 2, "--scores") == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["line", "rank", "score", "log_p", "tokens", "reason", "text"]
    found = texts(LINES, beam=3, n_best=2).n_best
    expected = [(i, rank, one) for i, row in enumerate(found, 1) for rank, one in enumerate(row, 1)]
    assert len(rows) - 1 == len(expected) == 9  # of an empty line there is one
    for (line, rank, one), cells in zip(expected, rows[1:], strict=True):
        assert cells == [
            str(line), str(rank), f"{one.score:.4f}", f"{one.log_probabilities.sum():.4f}", str(len(one.tokens)),
            one.reason, shown(one.text),
        ]  # fmt: skip
    assert run(monkeypatch, directory, file, "--max-length", 9, "--scores") == 0
    assert capsys.readouterr().out.splitlines()[0] == "score\tlog_p\ttokens\treason\ttext"


def test_a_file_appears_whole(
    directory: Path, texts: Any, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    out = tmp_path / "out.txt"
    assert run(monkeypatch, directory, file, "--out", out, "--max-length", 9) == 0
    assert out.read_text(encoding="utf-8").splitlines() == [shown(text) for text in texts(LINES).texts]
    assert capsys.readouterr().err == f"5 lines in {out}\n"

    def broken(*_: object, **__: object) -> Iterator[list[bytes | None]]:
        yield [b"a dog"]
        raise KeyboardInterrupt

    monkeypatch.setattr(verb, "windows_of_file", broken)
    assert run(monkeypatch, directory, file, "--out", tmp_path / "other.txt") == 130
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lines.txt", "out.txt"]


def test_lines_that_cannot_be_translated_say_why(
    directory: Path, texts: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    path = tmp_path / "awful.txt"
    path.write_bytes(
        b"\xef\xbb\xbfa dog\r\n" + b"a" * 60 + b"\n\xff\xfe\n" + b"a " * 50_001 + b"\n" + b"b" * 700_000 + b"\na mat"
    )
    assert run(monkeypatch, directory, path, "--max-length", 9) == 0
    said = capsys.readouterr()
    a, b = (shown(text) for text in texts(["a dog", "a mat"]).texts)
    assert said.out.split("\n") == [
        a,
        "[not translated: has 61 tokens, and the model reads at most 40]",
        "[not translated: is not UTF-8]",
        "[not translated: has more than 100,000 characters; split it into sentences]",
        "[not translated: has more than 100,000 characters; split it into sentences]",
        b,
        "",
    ]
    assert said.err == "4 of 6 lines were not translated; each is replaced by the reason\n"


TEXT = "the cat sat\r\n\na dog ran"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("plain.txt", TEXT.encode()),
        ("marked.txt", TEXT.encode("utf-8-sig")),
        ("two.txt", TEXT.encode("utf-16")),
        ("big.txt", b"\xfe\xff" + TEXT.encode("utf-16-be")),
        ("lines.gz", gzip.compress(TEXT.encode(), mtime=0)),
        ("two.gz", gzip.compress(TEXT.encode("utf-16"), mtime=0)),
        ("zipped-without-saying-so", gzip.compress(TEXT.encode(), mtime=0)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_files_of_every_kind(
    name: str,
    content: bytes,
    directory: Path,
    texts: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Said,
) -> None:
    (tmp_path / name).write_bytes(content)
    expected = [shown(text) for text in texts(["the cat sat", "", "a dog ran"]).texts]
    for chunk in (1 << 16, 3, 1):
        monkeypatch.setattr(storage_lines, "_CHUNK", chunk)
        assert run(monkeypatch, directory, tmp_path / name, "--max-length", 9) == 0
        said = capsys.readouterr()
        assert (said.out.split("\n"), said.err) == ([*expected, ""], "")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.gz", b"no gzip at all", "a.gz is not whole gzip data"),
        ("cut.gz", gzip.compress(bytes(range(256)) * 99, mtime=0)[:-9], "cut.gz is not whole gzip data"),
        ("four.txt", TEXT.encode("utf-32"), "four.txt is UTF-32; save it as UTF-8"),
        ("half.txt", "a dog\na".encode("utf-16")[:-1], "half.txt, after about line 2, is not the UTF-16"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_files_that_cannot_be_read_leave_nothing(
    name: str,
    content: bytes,
    words: str,
    directory: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Said,
) -> None:
    (tmp_path / name).write_bytes(content)
    assert run(monkeypatch, directory, tmp_path / name, "--max-length", 9, "--out", tmp_path / "out.txt") == 2
    assert words in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_characters_that_no_text_has_and_files_without_any(
    directory: Path, texts: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    path, out = tmp_path / "lines.txt", tmp_path / "out.txt"
    path.write_bytes(b"a\0dog\na dog\na dog\ra mat\n")
    assert run(monkeypatch, directory, path, "--max-length", 9) == 0
    said = capsys.readouterr()
    first, second, third, _ = said.out.split("\n")
    assert first.startswith("[not translated: has a NUL character")
    assert second == shown(texts(["a dog"]).texts[0])
    assert third.startswith("[not translated: contains a carriage return")
    assert said.err == "2 of 3 lines were not translated; each is replaced by the reason\n"
    path.write_bytes(b"")
    assert run(monkeypatch, directory, path, "--out", out) == 0
    assert capsys.readouterr().err == f"0 lines in {out}\n{path} is empty: nothing was translated\n"
    assert out.read_bytes() == b""


def test_translations_that_were_cut_and_characters_that_are_unknown_are_counted(
    directory: Path, texts: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    """Unless the user has said where to cut."""
    path, lines = tmp_path / "lines.txt", ["the cat sat", "a dög", "", "a dog ran"]
    path.write_text("\n".join(lines), encoding="utf-8")
    cut = texts(lines, max_length=None).reasons.count("max_length")
    assert cut
    unknown = "1 of 4 lines has characters that the model does not know\n"
    assert run(monkeypatch, directory, path) == 0
    said = f"the translations of {cut} of 4 lines were truncated at 40 tokens; use shorter sentences"
    assert capsys.readouterr().err.startswith(unknown + said)
    assert run(monkeypatch, directory, path, "--max-length", 9) == 0
    assert capsys.readouterr().err == unknown
    path.write_bytes("a dög\n\xff\na döe\n".encode("latin-1").replace(b"\xf6", "ö".encode()))
    assert run(monkeypatch, directory, path, "--max-length", 9) == 0
    assert capsys.readouterr().err == (
        "1 of 3 lines was not translated; it is replaced by the reason\n"
        "2 of 3 lines have characters that the model does not know\n"
    )
    path.write_text("a dög")
    assert run(monkeypatch, directory, path, "--max-length", 9) == 0
    assert capsys.readouterr().err == "1 of 1 line has characters that the model does not know\n"


def test_to_bytes_no_character_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said) -> None:
    """The vocabulary calls its end token the unknown one, too, and it ends every line."""
    made = samples.make("rotary")
    source = made.tokenizers.source
    assert source.unk_id == source.eos_id
    write_translator(tmp_path / "bytes", made)
    (tmp_path / "lines.txt").write_text("a dog\na dög 猫\n<|endoftext|>\n", encoding="utf-8")
    assert run(monkeypatch, tmp_path / "bytes", tmp_path / "lines.txt", "--max-length", 5) == 0
    assert capsys.readouterr().err == ""


def test_the_rule_to_stop(
    directory: Path, texts: Any, file: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    scores = set()
    for rule in ("exact", "early", "heuristic"):
        options = ("--max-length", 30, "--beam", 2, "--length-penalty", 3, "--stopping", rule, "--scores")
        assert run(monkeypatch, directory, file, *options) == 0
        rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()[1:]]
        found = texts(LINES, max_length=30, beam=2, length_penalty=3.0, stopping=rule)
        assert [row[0] for row in rows] == [f"{score:.4f}" for score in found.scores]
        scores.add(tuple(row[0] for row in rows))
    assert len(scores) > 1


def test_what_is_read_is_never_written_over(
    directory: Path, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    before = file.read_bytes()
    (tmp_path / "link.txt").symlink_to(file)
    (tmp_path / "hard.txt").hardlink_to(file)
    (tmp_path / "in").mkdir()
    monkeypatch.chdir(tmp_path / "in")
    names = {path.name for path in tmp_path.iterdir()}
    for out in (file, tmp_path / "link.txt", tmp_path / "hard.txt", "../lines.txt"):
        for given in (file, tmp_path / "link.txt"):
            assert run(monkeypatch, directory, given, "--out", out) == 2
            assert f"--out {out}: is the input file ({given})" in capsys.readouterr().err
    with file.open() as stdin:
        process = subprocess.run(
            command(directory, "-", "--out", str(file)), stdin=stdin, capture_output=True, text=True, check=False
        )
    assert process.returncode == 2
    assert "is the input file (standard input)" in process.stderr
    monkeypatch.setattr("sys.argv", ["heedful", "predict", str(directory), str(file), "--out", str(file) + ".tsv"])
    (tmp_path / "lines.txt.tsv").hardlink_to(file)
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert "is the input file" in capsys.readouterr().err
    assert file.read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {*names, "lines.txt.tsv"}


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_told_to_end_in_the_middle_nothing_is_left(
    number: signal.Signals, code: int, directory: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.txt"
    out.write_text("what was there")
    with subprocess.Popen(
        command(directory, "-", "--out", str(out)), stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        process.stdin.write("a dog\n")
        process.stdin.flush()
        start = time.monotonic()
        while not any(path.name.endswith(".part") and path.stat().st_size for path in tmp_path.iterdir()):
            assert time.monotonic() - start < 120
            time.sleep(0.01)
        process.send_signal(number)
        assert process.wait(timeout=60) == code
        assert process.stderr is not None
        assert "No incomplete file is left" in process.stderr.read()
    assert [path.name for path in tmp_path.iterdir()] == ["out.txt"]
    assert out.read_text() == "what was there"


def test_draws_do_not_hang_on_windows_or_on_lines_that_were_refused(
    directory: Path, texts: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    path = tmp_path / "lines.txt"
    path.write_bytes(b"a dog\n\xff\na mat\nthe cat\n")
    expected = texts(["a dog", "", "a mat", "the cat"], temperature=1.2, seed=5).texts
    for window in (1, 3, 100):
        monkeypatch.setattr("heedful.cli.translate._WINDOW", window)
        assert run(monkeypatch, directory, path, "--max-length", 9, "--temperature", 1.2, "--seed", 5) == 0
        lines = capsys.readouterr().out.split("\n")
        assert [lines[0], lines[2], lines[3]] == [shown(expected[i]) for i in (0, 2, 3)]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.txt"], "nowhere.txt: not a file"),
        (["FILE", "--beam", "0"], "beam=0 is not a whole number"),
        (["FILE", "--beam", "2", "--top-k", "3"], "--beam 2 has no effect with --top-k"),
        (["FILE", "--n-best", "1", "--top-k", "3"], "--n-best 1 has no effect with --top-k"),
        (["FILE", "--coverage", "0", "--top-p", "1"], "--coverage 0.0 has no effect with --top-p"),
        (["FILE", "--stopping", "early", "--top-k", "3"], "--stopping early has no effect with --top-k"),
        (["FILE", "--stopping", "never"], "'never' is not one of 'exact', 'early', 'heuristic'"),
        (["FILE", "--seed", "0"], "--seed 0 has no effect with beam search"),
        (["FILE", "--seed", "4", "--temperature", "0"], "--seed 4 has no effect with --temperature 0"),
        (["nowhere.txt", "--prefix", "a"], "nowhere.txt: not a file"),
        (
            ["FILE", "--prefix", "a" * 9, "--max-length", "8"],
            "the prefix has 9 tokens, and a translation has room for 8; "
            "shorten it (prefix=…, --prefix), or allow longer translations (max_length=…, --max-length)",
        ),
        (["FILE", "--max-length", "50"], "writes at most 40 tokens"),
        (["FILE", "--coverage", "nan"], "coverage=nan is not a number from 0"),
        (["FILE", "--out", "nowhere/out.txt"], "the folder does not exist"),
        (["FILE", "--batch-size", "0"], "--batch-size 0: must be 1 or more"),
    ],
)
def test_refusals(
    arguments: list[str], words: str, directory: Path, file: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    assert run(monkeypatch, directory, *[str(file) if a == "FILE" else a for a in arguments]) == 2
    said = capsys.readouterr()
    assert words in said.err
    assert said.out == ""


def test_other_models_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said, file: Path) -> None:
    from tests.support.generation_samples import write_language_model

    write_language_model(tmp_path / "language")
    assert run(monkeypatch, tmp_path / "language", file) == 2
    assert "is a transformer, which cannot translate. Use it with encode or generate." in capsys.readouterr().err


@pytest.mark.parametrize(("verb", "words"), [("predict", "give texts labels"), ("generate", "continue texts")])
def test_other_verbs_say_what_it_is(
    verb: str, words: str, directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    monkeypatch.setattr("sys.argv", ["heedful", verb, str(directory), "a dog"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert f"is a translation model, which cannot {words}. Use it with translate." in capsys.readouterr().err


def test_memory_does_not_grow_with_the_lines(tmp_path: Path) -> None:
    path = tmp_path / "many.txt"
    path.write_bytes(b"a line of some words\n" * 200_000 + b"x" * 3_000_000)
    tracemalloc.start()
    count = sum(len(window) for window in storage_lines.windows_of_file(path, 1024))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 200_001
    assert most < 10_000_000


def command(directory: Path, *arguments: str) -> list[str]:
    call = "from heedful.cli.main import main; main()"
    return [sys.executable, "-c", call, "translate", str(directory), "--max-length", "9", *arguments]


def test_lines_of_a_pipe_are_answered_as_they_come(directory: Path, texts: Any) -> None:
    with subprocess.Popen(
        command(directory), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for line, text in zip(LINES, texts(LINES).texts, strict=True):
            process.stdin.write(line.encode() + b"\n")
            process.stdin.flush()
            assert process.stdout.readline().decode() == shown(text) + "\n"
        out, err = process.communicate(timeout=60)
        assert (out, err, process.returncode) == (b"", b"", 0)


@pytest.mark.parametrize("end", [b"\x04", b"\x03"])
def test_a_terminal_is_answered_line_by_line_and_ends_quietly(end: bytes, directory: Path, texts: Any) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command(directory), stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, close_fds=True,
        preexec_fn=lambda: __import__("fcntl").ioctl(0, __import__("termios").TIOCSCTTY, 0),
    )  # fmt: skip
    os.close(theirs)
    said = wait_for(ours, b"", b"> ")
    os.write(ours, b"a dog\n")
    said = wait_for(ours, said + b"|", b"> ")
    assert shown(texts(["a dog"]).texts[0]) in said.decode()
    os.write(ours, end)
    try:
        while piece := os.read(ours, 1000):
            said += piece
    except OSError:  # the other side has gone
        pass
    assert process.wait(timeout=30) == 0
    assert b"Traceback" not in said
    assert b"interrupted" not in said
    os.close(ours)


def test_a_terminal_is_told_what_a_file_is(
    directory: Path, texts: Any, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    """The names of the columns, once; unknown characters, and where a translation was cut, unless it was asked for."""

    def typed(*options: object) -> tuple[list[str], str]:
        content = io.BytesIO("a dög\na dog\n".encode())
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=content, isatty=lambda: True))
        assert run(monkeypatch, directory, *options) == 0
        said = capsys.readouterr()
        return said.out.splitlines(), said.err

    unknown = "(the text has characters that the model does not know)\n"
    expected = [shown(text) for text in texts(["a dög", "a dog"]).texts]
    lines, err = typed("--max-length", 9)
    assert (lines, err) == (expected, f"One text per line; Ctrl-D ends.\n> {unknown}> > \n")
    lines, err = typed("--scores", "--beam", 2, "--n-best", 2)
    assert [row.split("\t")[0] for row in lines] == ["line", "1", "1", "2", "2"]
    cut = [one.reason == "max_length" for one, _ in texts(["a dög", "a dog"], max_length=None, beam=2, n_best=2).n_best]
    assert any(cut)
    note = "(truncated at 40 tokens; raise --max-length for more)\n"
    assert err == f"One text per line; Ctrl-D ends.\n> {unknown}{note * cut[0]}> {note * cut[1]}> \n"


def wait_for(handle: int, said: bytes, words: bytes) -> bytes:
    start, seen = time.monotonic(), len(said)
    while words not in said[seen:]:
        assert time.monotonic() - start < 120, said
        said += os.read(handle, 1000)
    return said


def inspected(monkeypatch: pytest.MonkeyPatch, capsys: Said, *arguments: object) -> str:
    monkeypatch.setattr("sys.argv", ["heedful", "inspect", *map(str, arguments)])
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as stop:
        main()
    assert not stop.value.code
    return capsys.readouterr().out


@pytest.mark.parametrize("kind", ["post", "wordpiece", "luong lstm", "fused", "decoder-only"])
def test_inspect_shows_its_parts(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said) -> None:
    made = samples.make(kind)
    write_translator(tmp_path / kind, made)
    out = inspected(monkeypatch, capsys, tmp_path / kind)
    count = sum(p.numel() for p in made.model.parameters())
    assert f"parameters  {count:,} in total" in out
    assert "tokenizers  " in out
    assert all(len(line) <= 80 for line in out.splitlines()[1:]), out
    facts = json.loads(inspected(monkeypatch, capsys, tmp_path / kind, "--json"))
    assert facts["parameters"]["total"] == count
    assert facts["parameters"]["trainable"] == sum(p.numel() for p in made.model.parameters() if p.requires_grad)
    assert sum(facts["parameters"]["parts"].values()) == count
    assert {t["name"] for t in facts["tensors"]} == {name for name, _ in made.model.named_parameters()}
    assert facts["memory"]["weight_bytes"] == 4 * count
    assert facts["kind"] == samples.KINDS[kind]["kind"]
    assert facts["tokenizers"]["target"]["size"] == made.tokenizers.target.size
    assert re.search("Marian's layout", facts["ctranslate2"]["why_not"])
