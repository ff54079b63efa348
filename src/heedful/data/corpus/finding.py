"""From what a recipe calls a corpus to files of text: a path, a named corpus, or a file on the hub."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from heedful.data.corpus.documents import MARKERS, Source
from heedful.data.hub import HUB, fetch_by_name
from heedful.data.named import data_folder
from heedful.errors import RequestError


@dataclass(frozen=True)
class NamedCorpus:
    name: str
    what: str
    file: str
    """In the folder HEEDFUL_DATA."""
    separator: str
    licence: str


CORPORA = {
    corpus.name: corpus
    for corpus in (
        NamedCorpus("novels", "100 English novels", "corpora/novels100.txt.gz", MARKERS[0], "out of copyright"),
        NamedCorpus("reviews", "49,944 film reviews without labels", "corpora/imdb_unsup.txt.gz", "line", ""),
        NamedCorpus("birthplaces-text", "a line on each of 2,937 people", "birthplaces/wiki.txt", "line", ""),
        NamedCorpus("shakespeare", "plays, 1.1 MB", "tiny_shakespeare/input.txt", "blank-line", "out of copyright"),
    )
}


def find_sources(names: Sequence[str], separator: str, text: str | None) -> list[Source]:
    """Return each of these as a source that exists."""
    return [_find(name, separator, text) for name in names]


def refuse_unused(sources: Sequence[Source], separator: str, text: str | None) -> None:
    """Refuse settings on how to read files that none of these files uses."""
    called = ", ".join(source.called for source in sources)
    if text is not None and not any(source.table for source in sources):
        raise RequestError(
            f"text = {text!r} is a key of JSONL or a column of Parquet, and there is none in {called}; remove it."
        )
    if separator != "auto" and all(source.table for source in sources):
        raise RequestError(
            f"separator = {separator!r} is for files of lines, and there is none in {called}: each row is a document; "
            "remove it."
        )


def _find(name: str, separator: str, text: str | None) -> Source:
    if name.startswith(HUB):
        return Source(fetch_by_name(name, "data.corpus"), name, separator, text)
    path = Path(name).expanduser()
    if name in CORPORA and not path.exists():
        named, folder = CORPORA[name], data_folder()
        if folder is None or not (folder / named.file).is_file():
            where = "HEEDFUL_DATA is not set" if folder is None else f"{folder} has no {named.file}"
            raise RequestError(f"{name} is not here ({where}); set HEEDFUL_DATA to a folder that has {named.file}.")
        return Source(folder / named.file, name, named.separator if separator == "auto" else separator)
    if not path.exists():
        near = difflib.get_close_matches(name, CORPORA, 1)
        hint = f"did you mean {near[0]}?" if near else f"check the path ({', '.join(CORPORA)} have a name)."
        raise RequestError(f"data.corpus: {name} does not exist; {hint}")
    if path.is_file() and path.stat().st_size == 0:
        raise RequestError(f"{path} is empty; a corpus needs text.")
    return Source(path, path.name, separator, text)
