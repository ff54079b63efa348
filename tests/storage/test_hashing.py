"""Hashes that runs on disk are resumed by, and how often a file is read for them."""

import hashlib
import io
from pathlib import Path
from typing import Any

import pytest

from heedful.checkpoints.finding import fingerprint
from heedful.data.records import Examples
from heedful.errors import RequestError
from heedful.storage import hashing
from heedful.storage.hashing import sha256_of, sha256_of_file, sha256_of_json


def test_the_values_of_earlier_versions(tmp_path: Path) -> None:
    """Written down before there was one module for them."""
    examples = Examples(["a", "ü\ud800"], None, ["x", "y"], None, [1, 2])
    assert examples.fingerprint[:16] == "456668f8e2a0b7e4"
    (tmp_path / "adapters" / "one").mkdir(parents=True)
    (tmp_path / "bert").mkdir()
    for name in ("config.json", "adapters/one/adapter.bin", "bert/vocab.txt", "notes.md"):
        (tmp_path / name).write_text(name)
    assert fingerprint(tmp_path)[:16] == "cd50e1ddf30e6db5"
    assert sha256_of(["a", b"b", memoryview(b"c")]) == hashlib.sha256(b"abc").hexdigest()
    assert sha256_of_json({"b": 1, "a": 2}, sort_keys=True) == hashlib.sha256(b'{"a": 2, "b": 1}').hexdigest()


def test_a_file_is_hashed_once_until_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def digest(file: io.BufferedReader, name: str) -> Any:
        read.append(1)
        return plain(file, name)

    plain = hashlib.file_digest
    monkeypatch.setattr(hashing.hashlib, "file_digest", digest)  # type: ignore[attr-defined]
    path = tmp_path / "model.safetensors"
    for content in (b"weights", b"WEIGHTS"):
        path.write_bytes(content)
        assert {sha256_of_file(path) for _ in range(3)} == {hashlib.sha256(content).hexdigest()}
    assert len(read) == 2


def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="no such file cannot be read"):
        sha256_of_file(tmp_path / "no such file")
