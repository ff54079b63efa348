"""`heedful data shard` as a person uses it: made, gone on with, used in a recipe, refused."""

import json
from pathlib import Path
from typing import Any

import pytest

import heedful
from heedful.cli.main import main
from heedful.data.corpus.shards import Corpus
from heedful.errors import RequestError
from heedful.inputs import sharding
from heedful.storage.shared import SharedStore
from heedful.training.assembly import assemble, read_source
from heedful.training.run import execute
from tests.support.corpus_samples import corpus_recipe, documents, write_text
from tests.support.training_samples import write_tiny

Said = pytest.CaptureFixture[str]


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr("sys.argv", ["heedful", "data", "shard", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        main()
    return int(stop.value.code or 0)


def test_a_corpus_is_made_and_trained_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said) -> None:
    text, out = write_text(tmp_path / "a.txt", documents(30)), tmp_path / "corpus"
    assert run(monkeypatch, text, "--out", out, "--vocabulary", 300) == 0
    said = capsys.readouterr()
    assert "documents   30" in said.out
    assert "each document is a blank-line" in said.out
    assert run(monkeypatch, text, "--out", out, "--vocabulary", 300, "--json") == 0  # it is there: nothing changes
    facts = json.loads(capsys.readouterr().out)
    assert facts["documents"] == 30
    assert facts["tokens"] == Corpus(out).tokens
    assert facts["unknown_share"] == 0
    assert facts["lengths"]["least"] <= facts["lengths"]["median"] <= facts["lengths"]["most"]
    prepared = corpus_recipe(out, {"kind": "mask"}, tokenizer={"name": str(out), "kind": None, "size": None}, steps=2)
    execute(prepared, 0, tmp_path / "run", command="test", quiet=True)
    untrainable = corpus_recipe(out, {"kind": "mask"}, steps=2)
    store = SharedStore(tmp_path / "shared")
    with pytest.raises(RequestError, match="no text to train a tokenizer on"):
        assemble(read_source(untrainable, 0, store), store)
    before = (out / "tokenizer.json").read_bytes()
    other = tmp_path / "other"
    assert run(monkeypatch, text, "--out", other, "--vocabulary", 120) == 0
    assert run(monkeypatch, text, "--out", out, "--tokenizer", other) == 2
    assert "has another tokenizer" in capsys.readouterr().err
    assert run(monkeypatch, text, "--out", out, "--kind", "bpe") == 2
    assert "was begun with WordPiece" in capsys.readouterr().err
    assert (out / "tokenizer.json").read_bytes() == before
    again = tmp_path / "again"  # the run's own vocabulary is the corpus's
    assert run(monkeypatch, text, "--out", again, "--tokenizer", tmp_path / "run/model") == 0
    assert Corpus(again).facts["tokenizer"] == Corpus(out).facts["tokenizer"]


def test_the_size_of_a_vocabulary_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said) -> None:
    """Of a corpus that is gone on with, another size is refused; a text that is too small for a size says so."""
    text, small, large = write_text(tmp_path / "a.txt", documents(30)), tmp_path / "small", tmp_path / "large"
    assert run(monkeypatch, text, "--out", small, "--vocabulary", 120) == 0
    assert "requested" not in capsys.readouterr().out
    for size in (110, 400):
        assert run(monkeypatch, text, "--out", small, "--vocabulary", size) == 2
        said = capsys.readouterr().err
        assert f"--vocabulary {size}: {small} was begun with 120; choose another directory with --out." in said
    assert run(monkeypatch, text, "--out", small) == 0  # the one that is there is meant
    assert "vocabulary  120, " in capsys.readouterr().out
    for _ in range(2):  # made, and gone on with
        assert run(monkeypatch, text, "--out", large, "--vocabulary", 4000) == 0
        made = sharding._tokenizer_in(large).size
        assert made < 4000
        (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("vocabulary"))
        assert line.startswith(f"vocabulary  {made}, ")
        assert line.endswith("(4,000 requested; the text has no more)")
    taken = tmp_path / "taken"
    assert run(monkeypatch, text, "--out", taken, "--tokenizer", small) == 0
    assert run(monkeypatch, text, "--out", taken, "--vocabulary", 4000) == 2
    assert "was begun with 120" in capsys.readouterr().err


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "roformer", "gpt2"])
def test_the_tokenizer_of_any_family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str) -> None:
    text, model = write_text(tmp_path / "a.txt"), write_tiny(tmp_path / "model", family)
    assert run(monkeypatch, text, "--out", tmp_path / "corpus", "--tokenizer", model) == 0
    tokenizer = heedful.load(model).checkpoint.tokenizer
    assert tokenizer is not None
    assert Corpus(tmp_path / "corpus").facts["tokenizer"] == tokenizer.fingerprint


def test_a_tokenizer_that_came_meanwhile_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said) -> None:
    """Another process makes the corpus while this one trains its vocabulary."""
    text, out = write_text(tmp_path / "a.txt", documents(30)), tmp_path / "corpus"
    train = sharding.train_on_texts

    def slow(*arguments: Any) -> Any:
        monkeypatch.setattr(sharding, "train_on_texts", train)
        assert run(monkeypatch, text, "--out", out, "--vocabulary", 120) == 0
        return train(*arguments)

    monkeypatch.setattr(sharding, "train_on_texts", slow)
    assert run(monkeypatch, text, "--out", out, "--vocabulary", 300) == 2
    assert "another process has begun a corpus there" in capsys.readouterr().err
    assert Corpus(out).facts["tokenizer"] == sharding._tokenizer_in(out).fingerprint


def test_what_cannot_be_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said) -> None:
    text = write_text(tmp_path / "a.txt")
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9\n" * 50)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken/diary.md").write_text("mine")
    for arguments, words in (
        ((tmp_path / "none.txt",), "does not exist"),
        ((tmp_path / "empty.txt",), "is empty"),
        ((tmp_path,), "is a folder"),
        ((tmp_path / "latin.txt",), "line 1, is not UTF-8"),
        ((text, "--kind", "letters"), "choose wordpiece or bpe"),
        ((text, "--out", tmp_path / "taken", "--vocabulary", 300), "'diary.md', which is not part of a corpus"),
    ):
        given = arguments if "--out" in arguments else (*arguments, "--out", tmp_path / "out")
        assert run(monkeypatch, *given) == 2, words
        said = capsys.readouterr().err
        assert words in said
        assert "Traceback" not in said
    assert (tmp_path / "taken/diary.md").read_text() == "mine"
    assert [p.name for p in (tmp_path / "taken").iterdir() if not p.name.startswith(".")] == ["diary.md"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ("a.txt", "--tokenizer", "heedful-tiny-en", "--kind", "bpe"),
            "--kind bpe: is for a tokenizer that is trained",
        ),
        (("a.txt", "--tokenizer", "heedful-tiny-en", "--vocabulary", 300), "--vocabulary 300: is for a tokenizer"),
        (("a.txt", "--text", "body"), "text = 'body' is a key of JSONL or a column of Parquet, and there is none in"),
        (("a.jsonl", "--separator", "file"), "separator = 'file' is for files of lines, and there is none in a.jsonl"),
        (("a.txt", "--tokenizer", "heedful-tiny"), "Did you mean heedful-tiny-en?"),
        (("a.txt", "--kind", "bpe", "--vocabulary", 200), "ask for more entries"),
    ],
)
def test_options_without_effect_are_refused(
    options: tuple[object, ...], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    monkeypatch.chdir(tmp_path)
    write_text(tmp_path / "a.txt", documents(5))
    (tmp_path / "a.jsonl").write_text('{"text": "one", "body": "two"}\n')
    assert run(monkeypatch, *options, "--out", "corpus") == 2
    assert words in capsys.readouterr().err
    assert not list((tmp_path / "corpus").glob("*.npy"))


def test_options_that_one_of_several_files_uses_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_text(tmp_path / "a.txt", documents(5))
    (tmp_path / "a.jsonl").write_text('{"body": "two"}\n')
    both = ("a.txt", "a.jsonl", "--text", "body", "--separator", "line", "--tokenizer", "heedful-tiny-en")
    assert run(monkeypatch, *both, "--out", "corpus") == 0
    lines = sum(bool(line.strip()) for line in (tmp_path / "a.txt").read_text().splitlines())
    assert Corpus(tmp_path / "corpus").documents == lines + 1
