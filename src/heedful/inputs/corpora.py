"""Running text as rows of tokens.

A set ("train", "dev", "test") is a list of spans of a corpus, each within one document. It is cut into rows of a
limited number of tokens, at the ends of sentences where that is possible.
"""

import bisect
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from heedful.data.corpus.shards import Corpus
from heedful.data.corpus.writing import write_corpus
from heedful.data.running_text import RunningText
from heedful.errors import RequestError
from heedful.storage.shared import SharedStore
from heedful.streams import shuffled
from heedful.text.tokenizer import Tokenizer

Ints = npt.NDArray[np.int64]
FEW = 20
"""With fewer documents than these, the end of each is held out, and not some of them."""


@dataclass(frozen=True)
class Spans:
    """Spans of a corpus: for each the document, its first token and the one after its last."""

    corpus: Corpus
    documents_n: Ints
    starts_n: Ints
    ends_n: Ints

    @property
    def tokens(self) -> int:
        return int((self.ends_n - self.starts_n).sum())

    def __len__(self) -> int:
        return len(self.starts_n)


def open_sets(text: RunningText, tokenizer: Tokenizer, store: SharedStore) -> dict[str, Spans]:
    """Return every set as the tokenizer reads it; "dev" is there, even where no file of it is."""
    opened = {name: _corpus(text, name, tokenizer, store) for name in text.prepared}
    sets = {name: whole(corpus) for name, corpus in opened.items()}
    if "dev" not in sets:
        sets["train"], sets["dev"] = hold_out(opened["train"], text.table.dev_share, text.table.split_seed)
    return sets


def open_all(text: RunningText, tokenizer: Tokenizer, store: SharedStore) -> Corpus:
    """Return the training text, with nothing held out."""
    return _corpus(text, "train", tokenizer, store)


def _corpus(text: RunningText, name: str, tokenizer: Tokenizer, store: SharedStore) -> Corpus:
    directory = text.prepared[name]
    if directory is not None:
        corpus = Corpus(directory)
        if corpus.facts.get("tokenizer") != tokenizer.fingerprint:
            raise RequestError(f"{directory}: was made with another tokenizer than the model's; make it again with it.")
        return corpus
    described, deduplicate = text.described[name], text.table.deduplicate
    key = {"corpus": described, "tokenizer": tokenizer.fingerprint, "deduplicate": deduplicate}
    with store.place(key) as folder:
        directory = folder / "corpus"
        directory.mkdir(exist_ok=True)
        write_corpus(
            directory, text.sources[name], described, tokenizer.plain, tokenizer.size, tokenizer.fingerprint,
            deduplicate,
        )  # fmt: skip
        return Corpus(directory)


def whole(corpus: Corpus) -> Spans:
    """Every document."""
    spans_n2 = np.asarray([corpus.document(i) for i in range(corpus.documents)], dtype=np.int64).reshape(-1, 2)
    return Spans(corpus, np.arange(corpus.documents), spans_n2[:, 0], spans_n2[:, 1])


def hold_out(corpus: Corpus, share: float, seed: int) -> tuple[Spans, Spans]:
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
    train = Spans(corpus, every.documents_n, every.starts_n, cuts_n)
    dev = Spans(corpus, every.documents_n, cuts_n, every.ends_n)
    return train, _take(dev, cuts_n < every.ends_n)


def _take(spans: Spans, chosen_n: npt.NDArray[np.bool_]) -> Spans:
    arrays = (spans.documents_n, spans.starts_n, spans.ends_n)
    return Spans(spans.corpus, *(array[chosen_n] for array in arrays))


def cut_rows(spans: Spans, room: int) -> Spans:
    """The same text in rows of at most `room` tokens: as many whole sentences as there is room for, unless that would
    leave more than half of it empty."""
    documents: list[int] = []
    starts: list[int] = []
    ends: list[int] = []
    for document, start, end in zip(
        spans.documents_n.tolist(), spans.starts_n.tolist(), spans.ends_n.tolist(), strict=True
    ):
        if end - start > room:
            edges = spans.corpus.sentence_starts(document).tolist()
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
    return Spans(spans.corpus, *arrays)


def row_bytes(rows: Spans) -> npt.NDArray[np.float64]:
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
