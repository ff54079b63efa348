"""Text on its way to shards: every character counted, every stop survived, every mistake said."""

import errno
import gzip
import itertools
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heedful.data.corpus import documents as reading
from heedful.data.corpus import writing
from heedful.data.corpus.documents import Source, find_separator, read_documents
from heedful.data.corpus.finding import find_sources, refuse_unused
from heedful.data.corpus.sentences import split_sentences
from heedful.data.corpus.shards import ARRAYS, Corpus, fingerprint_of, verify
from heedful.data.corpus.writing import describe_sources, write_corpus
from heedful.data.running_text import RunningText
from heedful.errors import RequestError, WorkError
from heedful.inputs.sharding import shard_corpus
from heedful.storage import lines as storage_lines
from heedful.storage.shared import SharedStore
from heedful.text.tokenizer import Tokenizer
from heedful.text.training import train_bpe
from heedful.training.run import execute
from tests.support.corpus_samples import corpus_recipe, documents, write_text
from tests.support.killing import step_on_disk
from tests.support.training_samples import Child


def texts_of(path: Path, **options: Any) -> list[str]:
    return list(read_documents(Source(path, path.name, **options)))


@given(st.text(alphabet=st.sampled_from('Ab. !?"\n)”Mr9。 '), max_size=60))
def test_sentences_are_the_text(text):
    pieces = split_sentences(text)
    assert "".join(pieces) == text
    assert all(piece.strip() for piece in pieces) or len(pieces) <= 1


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("He met Mr. Darcy. They talked.", 2),
        ("J. R. Smith left. Then I. Then she.", 3),
        ('"Really?" she said. "Yes!" He left.', 3),
        ("It cost 3.50 pounds. Cheap", 2),
        ("one line\nanother line", 2),
        ("你好。再见！", 2),
        ("Wait... what", 1),
    ],
)
def test_where_sentences_end(text, count):
    assert len(split_sentences(text)) == count


def test_what_separates_documents(tmp_path):
    made = documents(5)
    plain = [" ".join(sentences) for sentences in made]
    blank = write_text(tmp_path / "blank.txt", made, within="\n")
    marked = write_text(tmp_path / "marked.txt", made, between="\n<|endofdocument|>\n", within="\n\n")
    lines = write_text(tmp_path / "lines.txt", made, between="\n")
    assert [find_separator(Source(p, "")) for p in (blank, marked, lines)] == [
        "blank-line",
        "<|endofdocument|>",
        "line",
    ]
    assert [text.replace("\n", " ") for text in texts_of(blank)] == plain
    assert [text.replace("\n\n", " ") for text in texts_of(marked)] == plain
    assert texts_of(lines) == plain
    assert texts_of(lines, separator="file") == ["\n".join(plain)]
    assert texts_of(write_text(tmp_path / "own.txt", made, between="\n***\n"), separator="***") == plain


def test_other_formats_say_the_same(tmp_path):
    made = [" ".join(sentences) for sentences in documents(5)]
    packed, rows = tmp_path / "a.txt.gz", tmp_path / "a.jsonl"
    packed.write_bytes(gzip.compress("\n".join(made).encode()))
    rows.write_text("".join(json.dumps({"story": text, "n": 1}) + "\n" for text in made))
    assert texts_of(packed) == texts_of(rows, text="story") == made
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow as pa

    parquet.write_table(pa.table({"text": made}), tmp_path / "a.parquet")
    assert texts_of(tmp_path / "a.parquet") == made


def test_a_document_without_end_is_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "LONGEST", 50)
    lines = [f"line number {i}" for i in range(30)]
    path = tmp_path / "long.txt"
    path.write_text("\n".join(lines))
    parts = texts_of(path, separator="file")
    assert max(map(len, parts)) <= 50 + len(lines[-1]) + 1
    assert [line for part in parts for line in part.splitlines()] == lines


def test_mistakes_are_one_sentence(tmp_path, monkeypatch):
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "latin.txt").write_bytes(b"fine\ncaf\xe9\n")
    (tmp_path / "rows.jsonl").write_text('{"text": "a"}\n{"txt": "b"}\n')
    (tmp_path / "number.jsonl").write_text('{"text": 3}\n')
    for name, words in (
        ("empty.txt", "is empty"),
        ("no.txt", "does not exist"),
        ("hub:owner/set", "write hub:OWNER/REPOSITORY/FILE"),
    ):
        with pytest.raises(RequestError, match=words):
            find_sources([name if ":" in name else str(tmp_path / name)], "auto", None)
    for name, words in (
        ("latin.txt", "line 2, is not UTF-8"),
        ("rows.jsonl", "line 2, has no 'text'"),
        ("number.jsonl", "line 1: the text is not a string but int"),
    ):
        with pytest.raises(RequestError, match=words):
            texts_of(tmp_path / name)
    with pytest.raises(RequestError, match=r"separator = 'line' is for files of lines, and there is none in rows"):
        refuse_unused(find_sources([str(tmp_path / "rows.jsonl")], "line", None), "line", None)
    monkeypatch.setattr(storage_lines, "LONGEST", 1000)
    (tmp_path / "line.txt").write_text("x" * 5000)
    with pytest.raises(RequestError, match="line 1, is longer than"):
        texts_of(tmp_path / "line.txt")


@pytest.fixture
def bpe(tmp_path):
    return train_bpe([write_text(tmp_path / "for-bpe.txt")], 300, family="gpt2")


def shard(directory: Path, sources: list[Source], bpe, **options: Any) -> Corpus:
    directory.mkdir(exist_ok=True)
    described = describe_sources(sources)
    write_corpus(directory, sources, described, bpe.plain, bpe.size, bpe.fingerprint, **options)
    return Corpus(directory)


def test_shards_hold_the_text(tmp_path, bpe):
    """Bytes come back exactly, document by document and sentence by sentence, whatever the size of a shard."""
    made = documents(30)
    plain = [" ".join(sentences) for sentences in made]
    sources = [Source(write_text(tmp_path / "a.txt", made), "a.txt")]
    for size in (1, 200, 10**6):
        corpus = shard(tmp_path / str(size), sources, bpe, shard_tokens=size)
        assert (len(corpus.facts["shards"]) > 1) == (size < 10**6)
        assert [bpe.decode(corpus.ids(*corpus.document(i))) for i in range(corpus.documents)] == plain
        assert [len(corpus.sentence_starts(i)) - 1 for i in range(30)] == [len(sentences) for sentences in made]
        assert [corpus.sentence_bytes(i).sum() for i in range(30)] == [len(text.encode()) for text in plain]
        starts = itertools.chain.from_iterable(itertools.pairwise(corpus.sentence_starts(7)))
        a, b, *_ = starts
        assert bpe.decode(corpus.ids(a, b)) == made[7][0]
        counts = corpus.token_counts(bpe.size)
        assert counts.sum() == corpus.tokens == corpus.facts["tokens"]
        assert corpus.facts["bytes"] == sum(len(text.encode()) for text in plain)


def files_in(directory: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in directory.iterdir() if not p.name.startswith(".")}


@pytest.mark.parametrize("deduplicate", [False, True])
def test_stopped_anywhere_it_goes_on_to_the_same_files(tmp_path, bpe, monkeypatch, deduplicate):
    made = documents(40)
    sources = [
        Source(write_text(tmp_path / "a.txt", made[:25] + made[:5]), "a.txt"),
        Source(write_text(tmp_path / "b.txt", made[20:]), "b.txt"),
    ]
    options = {"shard_tokens": 150, "deduplicate": deduplicate}
    whole = shard(tmp_path / "whole", sources, bpe, **options)
    assert whole.documents == (40 if deduplicate else 50)
    assert whole.facts["duplicates"] == (10 if deduplicate else 0)
    last = shard(tmp_path / "last", [*sources, sources[0]], bpe, **options)  # nothing new after the last shard
    assert last.facts["duplicates"] == (40 if deduplicate else 0)
    save, saved = writing._save, 0

    def failing(path: Path, array: Any) -> None:
        nonlocal saved
        saved += 1
        if saved % 7 == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        save(path, array)

    monkeypatch.setattr(writing, "_save", failing)
    monkeypatch.setattr(writing, "_BATCH", 300)
    stops = 0
    while not (tmp_path / "stopped/corpus.json").exists():
        try:
            shard(tmp_path / "stopped", sources, bpe, **options)
        except WorkError as error:
            assert "No space left on device" in str(error)  # noqa: PT017
            stops += 1
    assert stops > 3
    assert files_in(tmp_path / "stopped") == files_in(tmp_path / "whole")


def test_what_changed_meanwhile_is_refused(tmp_path, bpe, monkeypatch):
    path = write_text(tmp_path / "a.txt")
    sources = [Source(path, "a.txt")]

    save = writing._save

    def full_at_the_third(place: Path, array: Any) -> None:
        if place.name.endswith("00002.npy"):
            raise OSError(errno.ENOSPC, "No space left on device")
        save(place, array)

    with monkeypatch.context() as patch:
        patch.setattr(writing, "_save", full_at_the_third)
        with pytest.raises(WorkError):
            shard(tmp_path / "out", sources, bpe, shard_tokens=100)
    path.write_text("another text.\n" * 50)
    with pytest.raises(RequestError, match="beginning of another corpus"):
        shard(tmp_path / "out", sources, bpe, shard_tokens=100)
    corpus = shard(tmp_path / "whole", sources, bpe)
    path.write_text("a third text.\n" * 50)
    with pytest.raises(
        RequestError, match="contains a different corpus, made with a different choice of files or documents"
    ):
        shard(tmp_path / "whole", sources, bpe)
    np.save(tmp_path / "whole/tokens-00000.npy", np.zeros(3, dtype=np.uint16))
    with pytest.raises(RequestError, match="damaged"):
        Corpus(corpus.directory)
    (tmp_path / "whole/tokens-00000.npy").write_bytes(b"")
    with pytest.raises(RequestError, match="damaged"):
        Corpus(corpus.directory)


def test_no_text_at_all(tmp_path, bpe):
    (tmp_path / "blank.txt").write_text("\n \n\n")
    with pytest.raises(RequestError, match="contains no text to train on"):
        shard(tmp_path / "out", [Source(tmp_path / "blank.txt", "blank.txt")], bpe)


def test_no_text_to_train_a_tokenizer_on_names_the_file(tmp_path):
    for name in ("blank.txt", "blank.jsonl"):
        (tmp_path / name).write_text('{"text": " "}\n{"text": null}\n' if name.endswith("l") else "\n \n")
        with pytest.raises(RequestError, match=rf"{name}: contains no text to train on"):
            shard_corpus([str(tmp_path / name)], tmp_path / "out", None, None, 300, "auto", None, False, None)


def test_rows_without_text_are_counted(tmp_path, bpe):
    texts = ["A text.", "", "Another one.", " \n", None, "The last."]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    corpus = shard(tmp_path / "out", [Source(tmp_path / "a.jsonl", "a.jsonl")], bpe)
    assert (corpus.documents, corpus.facts["without_text"], corpus.facts["without_tokens"]) == (3, 3, 0)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no disk that is always full")
def test_a_full_disk_is_called_so(tmp_path, bpe, monkeypatch):
    (tmp_path / "a.txt").write_text("Some text.\n" * 50)
    opened = Path.open

    def full(path, *options, **more):
        return opened(Path("/dev/full") if path.name.endswith(".npy.part") else path, *options, **more)

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(WorkError, match=r"\(No space left on device\); free some disk space and run again"):
        shard(tmp_path / "out", [Source(tmp_path / "a.txt", "a.txt")], bpe)
    monkeypatch.undo()
    assert shard(tmp_path / "out", [Source(tmp_path / "a.txt", "a.txt")], bpe).documents == 50


def test_a_tokenizer_that_could_not_be_written_leaves_nothing_in_the_way(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("Some text to be read.\n" * 50)
    asked = ([str(tmp_path / "a.txt")], tmp_path / "out", None, None, 60, "auto", None, False, None)

    def full(self, directory):
        (directory / "tokenizer.json").write_text("")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(Tokenizer, "save", full)
        with pytest.raises(WorkError, match=r"its tokenizer could not be written \(No space left on device\)"):
            shard_corpus(*asked)
    assert [p.name for p in (tmp_path / "out").iterdir()] == [".lock"]
    assert shard_corpus(*asked)["documents"] == 50


@settings(max_examples=25)
@given(text=st.text(max_size=300))
def test_any_text_comes_back(text, tmp_path_factory):
    folder = tmp_path_factory.mktemp("any")
    bpe = train_bpe([write_text(folder / "for-bpe.txt", documents(4))], 270, family="gpt2")
    path = folder / "any.txt"
    clean = "".join(c for c in text if c not in "\r\0" and not "\ud800" <= c <= "\udfff")
    path.write_text(clean, encoding="utf-8", newline="")
    if clean.strip() and path.stat().st_size:
        corpus = shard(folder / "out", [Source(path, "any.txt", "file")], bpe)
        assert bpe.decode(corpus.ids(*corpus.document(0)), skip_special=False) == clean.removesuffix("\n")


def test_a_line_that_is_too_long_is_said_in_words_of_corpora(tmp_path, monkeypatch):
    monkeypatch.setattr(storage_lines, "LONGEST", 2**20)
    long = "word " * 2**18
    (tmp_path / "a.txt").write_text(f"First.\n{long}\n")
    (tmp_path / "utf16.txt").write_text(f"First.\n{long}\n", encoding="utf-16")
    (tmp_path / "a.jsonl").write_text('{"text": "First."}\n' + json.dumps({"text": long}) + "\n")
    (tmp_path / "my file.txt").write_text(f"First.\n{long}\n")
    remedies = {name: f"fold -s {tmp_path / name} does" for name in ("a.txt", "utf16.txt")}
    remedies |= {"a.jsonl": "among several", "my file.txt": f"fold -s '{tmp_path / 'my file.txt'}' does"}
    for name, remedy in remedies.items():
        with pytest.raises(RequestError) as refused:
            texts_of(tmp_path / name)
        said = str(refused.value)
        assert said.startswith(f"{tmp_path / name}, line 2, is longer than 1 MB, and a corpus is read line by line; ")
        assert remedy in said
        assert "rows" not in said


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no disk that is always full")
def test_no_room_for_the_text_of_a_vocabulary_names_the_folder(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("Some text to be read.\n" * 50)
    (tmp_path / "small").mkdir()
    asked = ([str(tmp_path / "a.txt")], tmp_path / "out", None, None, 60, "auto", None, False, None)
    opened = Path.open

    def full(path, *options, **more):
        return opened(Path("/dev/full") if path.name == "texts.txt" else path, *options, **more)

    for folder, reason in (("small", "No space left on device"), ("gone", "No such file or directory")):
        with monkeypatch.context() as patch:
            patch.setattr(tempfile, "tempdir", str(tmp_path / folder))
            patch.setattr(Path, "open", full)
            with pytest.raises(WorkError) as failed:
                shard_corpus(*asked)
        assert str(failed.value) == (
            f"{tmp_path / folder}: the text that the vocabulary is made from could not be kept there meanwhile "
            f"({reason}); make room, or name a folder that has some with TMPDIR."
        )
        assert list(tmp_path.glob("small/*")) == []
    assert shard_corpus(*asked)["documents"] == 50


def test_nowhere_to_put_the_text_of_a_vocabulary_names_the_folders(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("Some text to be read.\n" * 50)
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [str(tmp_path / "gone")])
    with pytest.raises(
        WorkError, match=rf"the text that the vocabulary .* found in \['{tmp_path}/gone'\]\); make room"
    ):
        shard_corpus([str(tmp_path / "a.txt")], tmp_path / "out", None, None, 60, "auto", None, False, None)


def test_every_change_of_a_shard_is_noticed(tmp_path, bpe):
    sources = [Source(write_text(tmp_path / "a.txt"), "a.txt")]
    directory = shard(tmp_path / "out", sources, bpe, shard_tokens=200).directory
    verify(directory)
    for name in ARRAYS:
        path = directory / f"{name}-00001.npy"
        content = path.read_bytes()
        for place in (20, len(content) - 1):  # in the header, and in the data
            path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
            with pytest.raises(RequestError, match=rf"{path.name}: has changed since|damaged"):
                verify(directory)
        path.write_bytes(content)
    verify(directory)


def test_a_corpus_that_was_made_before_there_were_digests_is_read_as_before(tmp_path, bpe):
    sources = [Source(write_text(tmp_path / "a.txt"), "a.txt")]
    directory = shard(tmp_path / "out", sources, bpe, shard_tokens=200).directory
    now = fingerprint_of(directory)
    facts = json.loads((directory / "corpus.json").read_text())
    for one in facts["shards"]:
        del one["sha256"]
    (directory / "corpus.json").write_text(json.dumps(facts))
    verify(directory)
    assert fingerprint_of(directory) == json.dumps(facts, sort_keys=True) != now


def test_a_run_does_not_go_on_with_another_byte_in_a_shard(tmp_path):
    out = tmp_path / "corpus"
    shard_corpus([str(write_text(tmp_path / "a.txt"))], out, None, None, 300, "auto", None, False, None)
    tokenizer = {"name": str(out), "kind": None, "size": None}
    recipe = corpus_recipe(out, {"kind": "mask"}, tokenizer=tokenizer, steps=400, mark_steps=400)
    child = Child(recipe, 7, tmp_path / "run")
    while child.process.is_alive() and step_on_disk(tmp_path / "run") < 2:
        time.sleep(0.005)
    assert child.kill()
    content = (out / "tokens-00000.npy").read_bytes()
    (out / "tokens-00000.npy").write_bytes(content[:-3] + bytes([content[-3] ^ 1]) + content[-2:])
    with pytest.raises(RequestError, match=r"tokens-00000\.npy: has changed since the corpus was made"):
        execute(recipe, 7, tmp_path / "run", quiet=True)
    (out / "tokens-00000.npy").write_bytes(content)
    short = corpus_recipe(out, {"kind": "mask"}, tokenizer=tokenizer, steps=2)
    assert execute(short, 7, tmp_path / "short", quiet=True)["state"] == "done"


def test_how_files_are_read_may_concern_some_of_the_sets_alone(tmp_path):
    (tmp_path / "rows.jsonl").write_text("".join(f'{{"body": "one {i}."}}\n' for i in range(30)))
    (tmp_path / "dev.txt").write_text("two.\n\nthree.\n")
    recipe = corpus_recipe(tmp_path / "rows.jsonl", {"kind": "causal"})
    data = recipe.data.model_copy(update={"text": "body", "separator": "line", "dev": str(tmp_path / "dev.txt")})
    text = RunningText(data, SharedStore(tmp_path / "shared"))
    assert [source.path.name for some in text.sources.values() for source in some] == ["rows.jsonl", "dev.txt"]
    with pytest.raises(RequestError, match=r"text = 'body' is a key of JSONL"):
        RunningText(data.model_copy(update={"corpus": str(tmp_path / "dev.txt")}), SharedStore(tmp_path / "other"))
