"""Named sets of pairs: from the data folder, the hub, or made by rule."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from heedful.data import pig_latin
from heedful.data.aligned.catalog import NAMED, NamedPairs
from heedful.data.aligned.reading import Part, read_table, read_text_files
from heedful.data.check_results import count_of
from heedful.data.disk import read_lines
from heedful.data.files import open_table
from heedful.data.hub import cached_file, fetch_files
from heedful.data.named import data_folder
from heedful.data.records import Pairs
from heedful.errors import RequestError
from heedful.streams import seed_of

__all__ = ["NAMED", "Found", "NamedPairs", "find_pairs", "read_named", "where_pairs_are"]


@dataclass
class Found:
    parts: dict[str, Part]
    notes: list[str] = field(default_factory=list)


def find_pairs(name: str) -> NamedPairs:
    if name not in NAMED:
        near = difflib.get_close_matches(name, list(NAMED), n=1)
        meant = f"did you mean {near[0]!r}? " if near else ""
        raise RequestError(
            f"data.name = {name!r}: no set of translations has this name; {meant}there is {', '.join(NAMED)}."
        )
    return NAMED[name]


def where_pairs_are(entry: NamedPairs) -> tuple[str, bool]:
    """Where the set would come from now, and whether it is there already (so that nothing would be fetched)."""
    if entry.origin == "generated":
        return "generated", True
    if (folder := _folder_with(entry)) is not None:
        return str((folder / entry.files["train"]).parent), True
    if entry.hub is None:
        return f"{_not_in_folder(entry)}, and it is not on the hub", False
    hub = entry.hub
    present = all(cached_file(hub.repository, file, hub.revision) for file in hub.files.values())
    return f"hub: {hub.repository}", present


def read_named(entry: NamedPairs, options: Mapping[str, Any]) -> Found:
    """In the entry's own direction."""
    if entry.origin == "generated":
        made = pig_latin.generate(entry.name, options)
        return Found({split: Part(_numbered(pairs)) for split, pairs in made.items()})
    if options:
        raise RequestError(f"{entry.name} has no option {next(iter(options))!r}; leave data.options out.")
    folder = _folder_with(entry)
    if folder is None:
        return _from_hub(entry)
    if "{}" not in entry.files["train"]:
        return _compared(entry, Found(_split_words(folder / entry.files["train"])))
    found = Found({})
    for split, pattern in entry.files.items():
        source, target = (folder / pattern.format(language) for language in entry.languages)
        if source.is_file() or target.is_file() or not split.startswith("test-"):  # a copy may lack further sets
            found.parts[split] = read_text_files(source, target)
    return _compared(entry, found)


def _from_hub(entry: NamedPairs) -> Found:
    hub = entry.hub
    if hub is None:
        raise RequestError(
            f"{entry.name} is not here ({_not_in_folder(entry)}) and not on the hub; set HEEDFUL_DATA to a folder that "
            f"has {entry.files['train'].format(entry.languages[0])}."
        )
    paths = fetch_files(hub.repository, list(hub.files.values()), hub.revision, entry.name, _not_in_folder(entry))
    parts = {
        split: read_table(open_table(path, header=True), *entry.languages)
        for split, path in zip(hub.files, paths, strict=True)
    }
    return _compared(entry, Found(parts, [f"{entry.name}: from {hub.repository} on the hub."]))


def _compared(entry: NamedPairs, found: Found) -> Found:
    """With what is published."""
    for split, expected in entry.sizes.items():
        if split not in found.parts:
            found.notes.append(f"{entry.name}: this copy has no {split}.")
        elif (size := len(found.parts[split].pairs)) != expected:
            found.notes.append(f"{split} has {size:,} pairs, where {expected:,} are published.")
    return found


def _folder_with(entry: NamedPairs) -> Path | None:
    folder = data_folder()
    here = folder is not None and (folder / entry.files["train"].format(entry.languages[0])).is_file()
    return folder if here else None


def _not_in_folder(entry: NamedPairs) -> str:
    folder = data_folder()
    file = entry.files["train"].format(entry.languages[0])
    return "HEEDFUL_DATA is not set" if folder is None else f"{folder} has no {file}"


def _split_words(path: Path) -> dict[str, Part]:
    """One pair of words to a line. Which split a word belongs to depends on the word alone, so that no word of dev or
    test is in train."""
    pairs = Pairs([], [], [])
    for number, line in read_lines(path):
        words = line.split()
        if len(words) != 2:
            raise RequestError(
                f"{path}, line {number}, has {count_of(len(words), 'word')}, not a pair; fetch it again."
            )
        pairs.sources.append(words[0])
        pairs.targets.append(words[1])
        pairs.rows.append(number)
    order = sorted(set(pairs.sources), key=lambda word: seed_of("pig-latin", word))
    tenth = round(len(order) / 10)
    test, dev = set(order[:tenth]), set(order[tenth : 2 * tenth])
    splits: dict[str, list[int]] = {"train": [], "dev": [], "test": []}
    for i, word in enumerate(pairs.sources):
        splits["test" if word in test else "dev" if word in dev else "train"].append(i)
    return {split: Part(pairs.take(rows)) for split, rows in splits.items()}


def _numbered(made: list[tuple[str, str]]) -> Pairs:
    return Pairs([s for s, _ in made], [t for _, t in made], list(range(1, len(made) + 1)))
