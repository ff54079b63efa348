"""Running text as rows of tokens: what the objectives that learn from a corpus have in common.

A set ("train", "dev", "test") is a list of stretches of a corpus, each within one document. It is cut into rows of at
most so many tokens, at the ends of sentences where that is possible.
"""

import bisect
import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from heedful.data.corpus.documents import Source, all_documents, refuse_no_text
from heedful.data.corpus.finding import find_sources, refuse_unused
from heedful.data.corpus.shards import DESCRIPTION, Corpus, fingerprint_of, verify
from heedful.data.corpus.writing import describe_sources, write_corpus
from heedful.errors import RequestError
from heedful.recipes.schema import DataTable
from heedful.storage.shared import SharedStore
from heedful.streams import shuffled
from heedful.text.tokenizer import Tokenizer

Ints = npt.NDArray[np.int64]
FEW = 20
"""With fewer documents than these, the end of each is held out, and not some of them."""
_SAMPLE = 300_000  # characters of each file, to time a step with
_TOKEN, _GZIPPED = 4.5, 2.6  # bytes of a token, and of a byte of compressed text, as English has them


@dataclass(frozen=True)
class Stretches:
    """Parts of a corpus: of each the document, its first token and the one after its last."""

    corpus: Corpus
    documents_n: Ints
    starts_n: Ints
    ends_n: Ints

    @property
    def tokens(self) -> int:
        return int((self.ends_n - self.starts_n).sum())

    def __len__(self) -> int:
        return len(self.starts_n)


class CorpusText:
    """The text that a recipe names, before and after there is a tokenizer for it."""

    def __init__(self, data: DataTable, store: SharedStore) -> None:
        self.data = data
        named = {"train": data.corpora, **{key: [v] for key in ("dev", "test") if (v := getattr(data, key))}}
        self.prepared = {name: _prepared(names) for name, names in named.items()}
        for key in ("separator", "text", "deduplicate"):
            if self.prepared["train"] is not None and getattr(data, key) != DataTable.model_fields[key].default:
                raise RequestError(
                    f"data.{key}: {data.corpora[0]} is a corpus that is made already; say it to `heedful data shard`."
                )
        self.sources: dict[str, list[Source]] = {
            name: find_sources(names, data.separator, data.text)
            for name, names in named.items()
            if self.prepared[name] is None
        }
        if self.sources:
            refuse_unused([s for some in self.sources.values() for s in some], data.separator, data.text)
        keys = {"corpora": named, "separator": data.separator, "text": data.text}
        self.described: dict[str, list[dict[str, Any]]] = store.json(
            keys, "data", lambda: {name: describe_sources(some) for name, some in self.sources.items()}
        )
        for place in filter(None, self.prepared.values()):
            store.json({"verified": str(place.absolute())}, "data", partial(verify, place))

    @property
    def name(self) -> str:
        return " and ".join(Path(name).name for name in self.data.corpora)

    def fingerprints(self) -> dict[str, str]:
        """By set, what identifies its content."""
        files = {name: " ".join(one["sha256"] for one in some) for name, some in self.described.items()}
        made = {name: fingerprint_of(place) for name, place in self.prepared.items() if place is not None}
        return {**files, **made}

    def rough_rows(self, room: int) -> dict[str, int]:
        """About how many rows of so many tokens each set has, by the sizes of its files alone."""
        rows = {name: Corpus(place).tokens / room for name, place in self.prepared.items() if place is not None}
        for name, some in self.sources.items():
            sizes = [source.path.stat().st_size * (_GZIPPED if source.path.suffix == ".gz" else 1) for source in some]
            rows[name] = sum(sizes) / _TOKEN / room
        if "dev" not in rows:
            rows["dev"] = rows["train"] * self.data.dev_share
        return {name: max(1, round(count)) for name, count in rows.items()}

    def sample(self) -> "CorpusText":
        """The beginning of it."""
        few = copy.copy(self)
        few.sources = {name: [replace(s, most=_SAMPLE) for s in some] for name, some in self.sources.items()}
        return few

    def texts(self) -> Iterator[str]:
        """The documents of the training files."""
        if self.prepared["train"] is not None:
            raise RequestError(
                f"{self.data.corpora[0]}: holds ids, and no text to train a tokenizer on; name the tokenizer that it "
                f'was made with: [tokenizer] name = "{self.data.corpora[0]}".'
            )
        refuse_no_text(self.sources["train"])
        return all_documents(self.sources["train"])

    def open(self, tokenizer: Tokenizer, store: SharedStore) -> dict[str, Stretches]:
        """Every set as the tokenizer reads it; "dev" is there, even where no file of it is."""
        opened = {name: self._corpus(name, tokenizer, store) for name in self.prepared}
        sets = {name: whole(corpus) for name, corpus in opened.items()}
        if "dev" not in sets:
            sets["train"], sets["dev"] = hold_out(opened["train"], self.data.dev_share, self.data.split_seed)
        return sets

    def open_all(self, tokenizer: Tokenizer, store: SharedStore) -> Corpus:
        """The training text, with nothing held out."""
        return self._corpus("train", tokenizer, store)

    def _corpus(self, name: str, tokenizer: Tokenizer, store: SharedStore) -> Corpus:
        place = self.prepared[name]
        if place is not None:
            corpus = Corpus(place)
            if corpus.facts.get("tokenizer") != tokenizer.fingerprint:
                raise RequestError(f"{place}: was made with another tokenizer than the model's; make it again with it.")
            return corpus
        described, deduplicate = self.described[name], self.data.deduplicate
        facts = {"corpus": described, "tokenizer": tokenizer.fingerprint, "deduplicate": deduplicate}
        with store.place(facts) as folder:
            directory = folder / "corpus"
            directory.mkdir(exist_ok=True)
            write_corpus(
                directory, self.sources[name], described, tokenizer.plain, tokenizer.size, tokenizer.fingerprint,
                deduplicate,
            )  # fmt: skip
            return Corpus(directory)


def _prepared(names: Sequence[str]) -> Path | None:
    """The corpus directory that is named, if it is one."""
    folders = [Path(name).expanduser() for name in names if Path(name).expanduser().is_dir()]
    for folder in folders:
        if len(names) > 1 or not (folder / DESCRIPTION).exists():
            raise RequestError(
                f"data.corpus: {folder} is a folder; name files, or one directory that `heedful data shard` wrote."
            )
    return folders[0] if folders else None


def whole(corpus: Corpus) -> Stretches:
    """Every document."""
    spans_n2 = np.asarray([corpus.document(i) for i in range(corpus.documents)], dtype=np.int64).reshape(-1, 2)
    return Stretches(corpus, np.arange(corpus.documents), spans_n2[:, 0], spans_n2[:, 1])


def hold_out(corpus: Corpus, share: float, seed: int) -> tuple[Stretches, Stretches]:
    """The documents without, and with, those that are held out; of few documents, their beginnings and ends."""
    every = whole(corpus)
    if len(every) >= FEW:
        order = shuffled(len(every), seed, "held out")
        held = np.zeros(len(every), dtype=bool)
        held[order[: max(1, round(share * len(every)))]] = True
        return _take(every, ~held), _take(every, held)
    cuts = []
    for document, start, end in zip(every.documents_n, every.starts_n, every.ends_n, strict=True):
        starts = corpus.sentence_starts(int(document))
        inner = starts[(starts > start) & (starts < end)]
        wanted = end - share * (end - start)
        cuts.append(inner[np.abs(inner - wanted).argmin()] if len(inner) else end)
    cuts_n = np.asarray(cuts, dtype=np.int64)
    if (cuts_n == every.ends_n).all():
        raise RequestError("data.corpus: too little text to hold any out; name a file with data.dev.")
    train = Stretches(corpus, every.documents_n, every.starts_n, cuts_n)
    dev = Stretches(corpus, every.documents_n, cuts_n, every.ends_n)
    return train, _take(dev, cuts_n < every.ends_n)


def _take(stretches: Stretches, chosen_n: npt.NDArray[np.bool_]) -> Stretches:
    arrays = (stretches.documents_n, stretches.starts_n, stretches.ends_n)
    return Stretches(stretches.corpus, *(array[chosen_n] for array in arrays))


def cut_rows(stretches: Stretches, room: int) -> Stretches:
    """The same text in rows of at most `room` tokens: as many whole sentences as there is room for, unless that would
    leave more than half of it empty."""
    documents: list[int] = []
    starts: list[int] = []
    ends: list[int] = []
    for document, start, end in zip(
        stretches.documents_n.tolist(), stretches.starts_n.tolist(), stretches.ends_n.tolist(), strict=True
    ):
        if end - start > room:
            edges = stretches.corpus.sentence_starts(document).tolist()
        while end - start > room:
            edge = edges[bisect.bisect_right(edges, start + room) - 1]
            cut = edge if edge - start >= max(1, room // 2) else start + room
            documents.append(document)
            starts.append(start)
            ends.append(cut)
            start = cut
        documents.append(document)
        starts.append(start)
        ends.append(end)
    arrays = (np.asarray(values, dtype=np.int64) for values in (documents, starts, ends))
    return Stretches(stretches.corpus, *arrays)


def row_bytes(rows: Stretches) -> npt.NDArray[np.float64]:
    """How many bytes of text each row is; a sentence that is in several is divided among them by its tokens."""
    sizes = np.zeros(len(rows))
    known: dict[int, tuple[Ints, npt.NDArray[np.float64]]] = {}
    for i, (document, start, end) in enumerate(zip(rows.documents_n, rows.starts_n, rows.ends_n, strict=True)):
        if document not in known:
            edges = rows.corpus.sentence_starts(int(document))
            total = np.concatenate([[0.0], np.cumsum(rows.corpus.sentence_bytes(int(document)))])
            known = {document: (edges, total)}
        edges, total = known[document]
        sizes[i] = np.interp(end, edges, total) - np.interp(start, edges, total)
    return sizes
