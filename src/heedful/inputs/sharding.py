"""A corpus directory from files, with the tokenizer that it is read by: what `heedful data shard` makes."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from heedful.checkpoints.families import FAMILIES
from heedful.checkpoints.finding import find
from heedful.data.corpus.documents import all_documents, refuse_no_text
from heedful.data.corpus.finding import find_sources, refuse_unused
from heedful.data.corpus.shards import Corpus
from heedful.data.corpus.writing import Watch, describe_sources, refuse_strangers, write_corpus
from heedful.errors import RequestError, WorkError
from heedful.storage.directories import make_directory
from heedful.storage.locks import alone
from heedful.storage.reading import read_object
from heedful.storage.whole import write_json
from heedful.text.files import read_tokenizer
from heedful.text.tokenizer import Tokenizer
from heedful.text.training import train_on_texts

_KINDS = {"wordpiece": "WordPiece", "bpe": "byte-level BPE"}
VOCABULARY = 8000
"""Entries of a tokenizer that is trained, unless the user says otherwise."""
_REQUEST = "tokenizer_request.json"
"""How many entries were asked for: a text may not give as many."""
_POINTS = {"least": 0, "25%": 25, "median": 50, "75%": 75, "95%": 95, "most": 100}


def shard_corpus(
    files: Sequence[str],
    out: Path,
    tokenizer: str | None,
    kind: str | None,
    vocabulary: int | None,
    separator: str,
    text: str | None,
    deduplicate: bool,
    watch: Watch | None,
) -> dict[str, Any]:
    """Writes the directory, and returns what is to be said of it. One that was begun keeps its tokenizer."""
    for option, value in (("--kind", kind), ("--vocabulary", vocabulary)):
        if tokenizer is not None and value is not None:
            raise RequestError(
                f"{option} {value}: is for a tokenizer that is trained, not for {tokenizer}; leave one out."
            )
    sources = find_sources(files, separator, text)
    for source in sources:
        if source.path.is_dir():
            raise RequestError(f"{source.path} is a folder; name files.")
    refuse_unused(sources, separator, text)
    described = describe_sources(sources)
    make_directory(out)
    refuse_strangers(out)
    there = _tokenizer_in(out)
    chosen = there if tokenizer is None else _tokenizer_in(find(tokenizer))
    if chosen is None and tokenizer is not None:
        raise RequestError(f"--tokenizer {tokenizer}: there is no tokenizer in it.")
    if there is not None and chosen is not None and there.fingerprint != chosen.fingerprint:
        raise RequestError(f"{out}: has another tokenizer than {tokenizer}; choose another directory with --out.")
    if there is not None and kind is not None and _KINDS.get(kind) != there.kind:
        raise RequestError(f"--kind {kind}: {out} was begun with {there.kind}; choose another directory with --out.")
    if there is not None and vocabulary is not None and vocabulary != (begun := _entries_asked(out, there)):
        raise RequestError(
            f"--vocabulary {vocabulary}: {out} was begun with {begun}; choose another directory with --out."
        )
    asked = None
    if chosen is None:
        kind, asked = kind or "wordpiece", vocabulary or VOCABULARY
        if kind not in _KINDS:
            raise RequestError(f"--kind {kind}: choose wordpiece or bpe.")
        family = "bert" if kind == "wordpiece" else "gpt2"
        refuse_no_text(sources)
        chosen = train_on_texts(all_documents(sources), kind, asked, family)
    if there is None:
        with alone(out):
            meanwhile = _tokenizer_in(out)  # training one takes minutes, in which another process may have been here
            if meanwhile is not None and meanwhile.fingerprint != chosen.fingerprint:
                raise RequestError(f"{out}: another process has begun a corpus there; choose another with --out.")
            _save_whole(chosen, out, asked or chosen.size)
    write_corpus(
        out, sources, described, chosen.plain, chosen.size, chosen.fingerprint, deduplicate=deduplicate, watch=watch
    )
    return {**describe_corpus(Corpus(out), chosen), "vocabulary_asked": _entries_asked(out, chosen)}


def _entries_asked(directory: Path, tokenizer: Tokenizer) -> int:
    """For the tokenizer of a directory; as many as it has where nothing is known."""
    path = directory / _REQUEST
    asked = read_object(path).get("vocabulary") if path.exists() else None
    return asked if isinstance(asked, int) else tokenizer.size


def _save_whole(tokenizer: Tokenizer, directory: Path, asked: int) -> None:
    """With the file that says that there is one, `tokenizer.json`, as the last; one that was begun is begun anew."""
    with tempfile.TemporaryDirectory(dir=directory, prefix=".tokenizer-", suffix=".part") as scratch:
        try:
            tokenizer.save(Path(scratch))
            write_json(Path(scratch) / _REQUEST, {"vocabulary": asked})
        except OSError as error:
            raise WorkError(
                f"{directory}: its tokenizer could not be written ({error.strerror}); make room and run again."
            ) from None
        for path in sorted(Path(scratch).iterdir(), key=lambda path: path.name == "tokenizer.json"):
            path.replace(directory / path.name)


def _tokenizer_in(directory: Path) -> Tokenizer | None:
    """That of a model, or of a corpus, which has no config.json to say its family."""
    config = directory / "config.json"
    family = read_object(config).get("model_type") if config.exists() else None
    if family not in FAMILIES:
        tokenizer = read_tokenizer(directory, "bert")
        return tokenizer if tokenizer is None or tokenizer.kind == "WordPiece" else read_tokenizer(directory, "gpt2")
    return read_tokenizer(directory, FAMILIES[family].tokens, family)


def describe_corpus(corpus: Corpus, tokenizer: Tokenizer) -> dict[str, Any]:
    """What is in it, and how well the vocabulary suits it."""
    counts_v = corpus.token_counts(tokenizer.size)
    lengths = np.asarray([end - start for start, end in map(corpus.document, range(corpus.documents))])
    unknown = 0 if tokenizer.unk_id is None else int(counts_v[tokenizer.unk_id])
    return {
        **{key: corpus.facts[key] for key in corpus.facts if key != "shards"},
        "shards": len(corpus.facts["shards"]),
        "lengths": {name: int(np.percentile(lengths, point)) for name, point in _POINTS.items()},
        "unused": int((counts_v == 0).sum()),
        "unknown_share": unknown / corpus.tokens,
    }
