"""A corpus on disk: token ids in shards that are mapped into memory, with the places of sentences and documents.

A corpus directory holds `corpus.json`, what it was made of, how much there is and the digest of each file, and of each
shard four arrays:

    tokens-00000.npy      the ids, sentence after sentence (16 bits each where that is enough)
    sentences-00000.npy   where each sentence begins among the tokens; one more entry: the end
    bytes-00000.npy       how many bytes of text each sentence is
    documents-00000.npy   where each document begins among the sentences; one more entry: the end

No document is in two shards.
"""

import bisect
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from heedful.errors import RequestError
from heedful.storage.hashing import sha256_of, sha256_of_file
from heedful.storage.reading import read_object

FORMAT = 1
DESCRIPTION = "corpus.json"
ARRAYS = ("tokens", "sentences", "bytes", "documents")


@dataclass(frozen=True)
class Shard:
    tokens: npt.NDArray[np.unsignedinteger[Any]]
    sentences: npt.NDArray[np.int64]
    bytes: npt.NDArray[np.int32]
    documents: npt.NDArray[np.int64]


class Corpus:
    """A corpus directory, opened: tokens and documents are counted over all shards. Nothing is loaded but
    what is looked at."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        path = directory / DESCRIPTION
        if not path.exists():
            raise RequestError(
                f"{directory}: has no {DESCRIPTION}, so it is not a corpus; make one: heedful data shard."
            )
        self.facts: Mapping[str, Any] = read_object(path)
        if self.facts.get("format") != FORMAT:
            raise RequestError(f"{path}: was written by another version of heedful; make the corpus again.")
        try:
            counts = [(int(s["tokens"]), int(s["sentences"]), int(s["documents"])) for s in self.facts["shards"]]
            self._shards = [self._open(i, *count) for i, count in enumerate(counts)]
        except (KeyError, TypeError, ValueError, OSError, EOFError) as error:
            raise RequestError(f"{directory}: damaged ({error}); make the corpus again.") from None
        totals = np.cumsum([(0, 0), *((tokens, documents) for tokens, _, documents in counts)], axis=0).tolist()
        self._first_token, self._first_document = (list(t) for t in zip(*totals, strict=True))
        self.tokens, self.documents = totals[-1]

    def _open(self, number: int, tokens: int, sentences: int, documents: int) -> Shard:
        arrays = {}
        lengths = {"tokens": tokens, "sentences": sentences + 1, "bytes": sentences, "documents": documents + 1}
        for name in ARRAYS:
            path = self.directory / f"{name}-{number:05}.npy"
            arrays[name] = np.load(path, mmap_mode="r", allow_pickle=False)
            if arrays[name].shape != (lengths[name],):
                raise ValueError(f"{path.name} has another length than {DESCRIPTION} says")
        return Shard(**arrays)

    def ids(self, start: int, end: int) -> npt.NDArray[np.int64]:
        """Return the tokens from `start` up to `end`, which are in one document."""
        i = bisect.bisect_right(self._first_token, start) - 1
        shard, first = self._shards[i], self._first_token[i]
        return np.asarray(shard.tokens[start - first : end - first], dtype=np.int64)

    def document(self, number: int) -> tuple[int, int]:
        """Return the first token of a document, and the one after its last."""
        shard, first, first_token = self._shard_of_document(number)
        begin, end = shard.documents[number - first], shard.documents[number - first + 1]
        return first_token + int(shard.sentences[begin]), first_token + int(shard.sentences[end])

    def sentence_starts(self, number: int) -> npt.NDArray[np.int64]:
        """Return where each sentence of a document begins, and where the last one ends."""
        shard, first, first_token = self._shard_of_document(number)
        begin, end = int(shard.documents[number - first]), int(shard.documents[number - first + 1])
        return np.asarray(shard.sentences[begin : end + 1], dtype=np.int64) + first_token

    def sentence_bytes(self, number: int) -> npt.NDArray[np.int64]:
        """Return the number of bytes of text of each sentence of a document."""
        shard, first, _ = self._shard_of_document(number)
        begin, end = int(shard.documents[number - first]), int(shard.documents[number - first + 1])
        return np.asarray(shard.bytes[begin:end], dtype=np.int64)

    def token_counts(self, vocabulary: int) -> npt.NDArray[np.int64]:
        """Count how often each id occurs."""
        counts = np.zeros(vocabulary, dtype=np.int64)
        for shard in self._shards:
            counts += np.bincount(np.asarray(shard.tokens), minlength=vocabulary)
        return counts

    def _shard_of_document(self, number: int) -> tuple[Shard, int, int]:
        i = bisect.bisect_right(self._first_document, number) - 1
        return self._shards[i], self._first_document[i], self._first_token[i]


def fingerprint_of(directory: Path) -> str:
    """Return what a prepared corpus was made from and what it became, as its description says."""
    facts = Corpus(directory).facts
    shards = [{key: value for key, value in shard.items() if key != "sha256"} for shard in facts["shards"]]
    digests = [digest for shard in facts["shards"] for digest in _digests(shard).values()]
    became = {"sha256": sha256_of([" ".join(digests)])} if digests else {}
    return json.dumps({**facts, "shards": shards, **became}, sort_keys=True)


def verify(directory: Path) -> None:
    """Refuse a prepared corpus whose arrays are not those of its description. All of them are read. For corpora of
    versions without digests, only the lengths are checked."""
    for number, shard in enumerate(Corpus(directory).facts["shards"]):
        for name, digest in _digests(shard).items():
            path = directory / f"{name}-{number:05}.npy"
            if sha256_of_file(path) != digest:
                raise RequestError(
                    f"{path}: has changed since the corpus was made ({DESCRIPTION} has another SHA-256 of it); restore "
                    "it, or make the corpus again."
                )


def _digests(shard: Mapping[str, Any]) -> dict[str, str]:
    known = shard.get("sha256")
    known = known if isinstance(known, dict) else {}
    return {name: str(known[name]) for name in ARRAYS if name in known}
