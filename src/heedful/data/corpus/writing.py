"""Text to shards: streaming, in constant memory, and if it is stopped it goes on where it was."""

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from heedful.data.corpus.documents import Source, find_separator, read_documents
from heedful.data.corpus.sentences import split_sentences
from heedful.data.corpus.shards import ARRAYS, DESCRIPTION, FORMAT
from heedful.errors import RequestError, WorkError
from heedful.storage.hashing import sha256_of_file, short_hash
from heedful.storage.locks import alone
from heedful.storage.reading import read_object
from heedful.storage.whole import write_json

Encode = Callable[[list[str]], Sequence[Sequence[int]]]
"""The ids of each text, without special tokens around them. Called in a thread beside the one that reads."""
Watch = Callable[[Mapping[str, int]], None]
"""Told after each shard: the counts so far."""

SHARD_TOKENS = 8 * 2**20
_BATCH = 2**20  # characters that are encoded together
_PROGRESS = "progress.json"
_CALLED = {
    "sources": "choice of files or documents",
    "vocabulary": "tokenizer",
    "tokenizer": "tokenizer",
    "deduplicated": "rule for duplicates",
}
"""What a user calls that of which a corpus is made."""
_COUNTS = ("documents", "sentences", "tokens", "bytes", "duplicates", "without_tokens", "without_text")


@dataclass
class _Encoded:
    """One document."""

    sentences: list[Sequence[int]]
    sizes: list[int]
    digest: int
    """Of its text, case and white space aside."""


@dataclass
class _State:
    """What progress.json holds: everything up to the last shard."""

    facts: dict[str, Any]
    source: int = 0
    """Which source is read."""
    read: int = 0
    """How many of its documents are in the shards, or were left out."""
    shards: list[dict[str, Any]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_COUNTS, 0))


def describe_sources(sources: Sequence[Source]) -> list[dict[str, Any]]:
    """Return what a corpus is made from: the files, by their content, and what separates their documents."""
    return [
        {
            "name": source.called,
            "sha256": sha256_of_file(source.path),
            "separator": "row" if source.table else find_separator(source),
            **({"text": source.text} if source.text else {}),
        }
        for source in sources
    ]


def write_corpus(
    directory: Path,
    sources: Sequence[Source],
    described: Sequence[Mapping[str, Any]],
    encode: Encode,
    vocabulary: int,
    tokenizer: str,
    deduplicate: bool = False,
    shard_tokens: int = SHARD_TOKENS,
    watch: Watch | None = None,
) -> None:
    """Write a corpus into an existing directory. `described`: the result of `describe_sources`; `tokenizer`: its
    fingerprint. An unfinished corpus is resumed; a finished one is not touched."""
    facts = {"sources": list(described), "vocabulary": vocabulary, "tokenizer": tokenizer, "deduplicated": deduplicate}
    with alone(directory):
        if (directory / DESCRIPTION).exists():
            there = _facts_of(read_object(directory / DESCRIPTION), facts)
            if there != facts:
                other = " and a different ".join(
                    dict.fromkeys(_CALLED[key] for key in facts if there[key] != facts[key])
                )
                raise RequestError(
                    f"{directory}: contains a different corpus, made with a different {other}. "
                    "Choose another directory."
                )
            _tidy(directory)
            return
        state = _begin(directory, facts)
        try:
            _Writer(directory, state, vocabulary, shard_tokens, watch).write(sources, encode, deduplicate)
        except OSError as error:
            raise WorkError(
                f"{directory}: could not be written ({error.strerror or error}); free some disk "
                f"space and run again: it resumes after the {len(state.shards)} shards that are whole."
            ) from None


def _facts_of(content: Mapping[str, Any], like: Mapping[str, Any]) -> dict[str, Any]:
    return {key: content.get(key) for key in like}


def _begin(directory: Path, facts: dict[str, Any]) -> _State:
    path = directory / _PROGRESS
    if path.exists():
        try:
            state = _State(**read_object(path))
        except TypeError:
            raise RequestError(f"{path}: was written by another version of heedful; remove {directory}.") from None
        if state.facts != facts:
            raise RequestError(
                f"{directory}: holds the beginning of another corpus, or its files or tokenizer have changed since; "
                "choose another directory, or remove this one."
            )
        return state
    refuse_strangers(directory)
    return _State(facts)


def refuse_strangers(directory: Path) -> None:
    """Refuse a directory that contains anything but a corpus, an unfinished corpus, or a tokenizer."""
    ours = (DESCRIPTION, _PROGRESS, "tokenizer", "special_tokens", "vocab", "merges", "bpe.codes", "added_tokens")
    names = sorted(p.name for p in directory.iterdir() if not p.name.startswith(".") and p.suffix != ".npy")
    unknown = [name for name in names if not name.startswith(ours)]
    if unknown:
        raise RequestError(f"{directory}: holds {unknown[0]!r}, which is not part of a corpus; choose another.")


class _Writer:
    def __init__(self, directory: Path, state: _State, vocabulary: int, shard_tokens: int, watch: Watch | None) -> None:
        self.directory, self.state, self.shard_tokens, self.watch = directory, state, shard_tokens, watch
        self.dtype = np.uint16 if vocabulary <= 2**16 else np.uint32
        self.seen: set[int] = set()
        self._empty()

    def _empty(self) -> None:
        self.tokens: list[npt.NDArray[Any]] = []
        self.lengths: list[int] = []
        self.sizes: list[int] = []
        self.documents: list[int] = [0]
        self.digests: list[int] = []
        self.held = 0
        self.counts = dict.fromkeys(_COUNTS, 0) | self.state.counts

    def write(self, sources: Sequence[Source], encode: Encode, deduplicate: bool) -> None:
        if deduplicate:
            for i in range(len(self.state.shards)):
                self.seen.update(np.load(self.directory / f"digests-{i:05}.npy", allow_pickle=False).tolist())
        for number in range(self.state.source, len(sources)):
            read = self.state.read if number == self.state.source else 0
            documents = islice(read_documents(sources[number], empty_rows=True), read, None)
            for document in _encoded(documents, encode):
                read += 1
                self._add(document, deduplicate)
                if self.held >= self.shard_tokens:
                    self._flush(number, read)
        if self.held:
            self._flush(len(sources), 0)
        if not self.state.shards:
            names = ", ".join(source.called for source in sources)
            raise RequestError(f"{names}: contains no text to train on. Name a file with text.")
        self.state.counts = self.counts  # documents that were left out after the last shard are in it too
        description = {"format": FORMAT, **self.state.facts, **self.state.counts, "shards": self.state.shards}
        write_json(self.directory / DESCRIPTION, description)
        _tidy(self.directory)

    def _add(self, document: _Encoded, deduplicate: bool) -> None:
        kept = [(ids, size) for ids, size in zip(document.sentences, document.sizes, strict=True) if len(ids)]
        if not kept:
            self.counts["without_tokens" if document.sentences else "without_text"] += 1
            return
        if deduplicate:
            if document.digest in self.seen:
                self.counts["duplicates"] += 1
                return
            self.seen.add(document.digest)
            self.digests.append(document.digest)
        for ids, size in kept:
            self.tokens.append(np.asarray(ids, dtype=self.dtype))
            self.lengths.append(len(ids))
            self.sizes.append(size)
        self.documents.append(len(self.lengths))
        added = sum(len(ids) for ids, _ in kept)
        self.held += added
        for key, more in zip(_COUNTS, (1, len(kept), added, sum(size for _, size in kept)), strict=False):
            self.counts[key] += more

    def _flush(self, source: int, read: int) -> None:
        """Write one more complete shard, then the state that counts it."""
        number = len(self.state.shards)
        arrays = {
            "tokens": np.concatenate(self.tokens),
            "sentences": np.concatenate([[0], np.cumsum(self.lengths)]).astype(np.int64),
            "bytes": np.asarray(self.sizes, dtype=np.int32),
            "documents": np.asarray(self.documents, dtype=np.int64),
        }
        if self.digests:
            arrays["digests"] = np.asarray(self.digests, dtype=np.uint64)
        for name, array in arrays.items():
            _save(self.directory / f"{name}-{number:05}.npy", array)
        size = {"documents": len(self.documents) - 1, "sentences": len(self.lengths), "tokens": self.held}
        digests = {name: sha256_of_file(self.directory / f"{name}-{number:05}.npy") for name in ARRAYS}
        self.state.shards.append({**size, "sha256": digests})
        self.state.source, self.state.read, self.state.counts = source, read, self.counts
        write_json(self.directory / _PROGRESS, vars(self.state))
        if self.watch is not None:
            self.watch(self.counts)
        self._empty()


def _tidy(directory: Path) -> None:
    """Remove what a complete corpus does not need, and unfinished files of processes that were killed."""
    for path in [directory / _PROGRESS, *directory.glob("digests-*.npy"), *directory.glob(".*.part")]:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _save(path: Path, array: npt.NDArray[Any]) -> None:
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
            file.write(np.ascontiguousarray(array).data)  # not by NumPy, whose error does not say that the disk is full
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _encoded(documents: Iterable[str], encode: Encode) -> Iterator[_Encoded]:
    """Encode one batch while the next is read."""

    def work(batch: list[str]) -> list[_Encoded]:
        pieces = [split_sentences(text) for text in batch]
        ids = iter(encode([piece for sentences in pieces for piece in sentences]))
        return [
            _Encoded([next(ids) for _ in p], [len(s.encode("utf-8", "replace")) for s in p], _digest(text))
            for p, text in zip(pieces, batch, strict=True)
        ]

    with ThreadPoolExecutor(1) as pool:
        waiting = None
        for batch in _batches(documents):
            following = pool.submit(work, batch)
            if waiting is not None:
                yield from waiting.result()
            waiting = following
        if waiting is not None:
            yield from waiting.result()


def _batches(documents: Iterable[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for text in documents:
        batch.append(text)
        size += len(text)
        if size >= _BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _digest(text: str) -> int:
    return short_hash(json.dumps(" ".join(text.casefold().split())))
