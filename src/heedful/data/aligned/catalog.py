"""The named sets of pairs, an entry each. Licences are as the source states them; contamination is what `minilm` has
seen."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class HubPairs:
    """Tables on the hub with a column for each language, which is called as the language is."""

    repository: str
    files: Mapping[str, str]
    """Split to file."""
    revision: str = "main"


@dataclass(frozen=True)
class NamedPairs:
    name: str
    what: str
    languages: tuple[str, str]
    """Source and target, unless a recipe turns them round."""
    licence: str
    contamination: str
    sizes: Mapping[str, int]
    """Pairs by split, as published or as they are made."""
    origin: Literal["files", "generated"] = "files"
    files: Mapping[str, str] = field(default_factory=dict)
    """In the folder HEEDFUL_DATA, by split: two files whose names differ in the language, {}; or, without {}, one file
    with a pair of words to a line, which we split."""
    hub: HubPairs | None = None


_MULTI30K = {
    "train": "train",
    "dev": "val",
    "test": "test_2016_flickr",
    "test-2017": "test_2017_flickr",
    "test-2018": "test_2018_flickr",
    "test-coco": "test_2017_mscoco",
}
_ENGLISH = ("english", "pig-latin")
_MADE = "none: made by rule from a list of words"

_SETS = (
    NamedPairs(
        name="multi30k-en-de",
        what="captions of photographs in English and German; test sets 2016, 2017, 2018 and of COCO",
        languages=("en", "de"),
        licence="",
        contamination="minilm was tuned on Flickr30k captions, which the English side is made of",
        sizes={"train": 29_000, "dev": 1014, "test": 1000, "test-2017": 1000, "test-2018": 1071, "test-coco": 461},
        files={split: f"multi30k_en_de/{stem}.{{}}" for split, stem in _MULTI30K.items()},
        hub=HubPairs(
            "bentrevett/multi30k",
            {split: f"{_MULTI30K[split]}.jsonl" for split in ("train", "dev")} | {"test": "test.jsonl"},
        ),
    ),
    NamedPairs(
        name="en-my",
        what="English and Burmese (spaced by syllable), reports and laws",
        languages=("en", "my"),
        licence="GPL-3, non-commercial",
        contamination="none known for minilm",
        sizes={"train": 7343, "dev": 918, "test": 918},
        files={split: f"en_my/{split}.{{}}" for split in ("train", "dev", "test")},
    ),
    NamedPairs(
        name="pig-latin",
        what="6,387 English words in Pig Latin, as published",
        languages=_ENGLISH,
        licence="",
        contamination="none known for minilm",
        sizes={"train": 5109, "dev": 639, "test": 639},
        files={"train": "pig_latin/pig_latin_data.txt"},
    ),
    NamedPairs(
        name="pig-latin-small",
        what="the commonest 2,000 English words in Pig Latin, made by rule",
        languages=_ENGLISH,
        licence="Apache-2.0",
        contamination=_MADE,
        sizes={"train": 1600, "dev": 200, "test": 200},
        origin="generated",
    ),
    NamedPairs(
        name="pig-latin-large",
        what="the commonest 8,000 English words in Pig Latin, made by rule",
        languages=_ENGLISH,
        licence="Apache-2.0",
        contamination=_MADE,
        sizes={"train": 6400, "dev": 800, "test": 800},
        origin="generated",
    ),
    NamedPairs(
        name="pig-latin-sentences",
        what="sentences of random English words in Pig Latin, made by rule; options size, seed",
        languages=_ENGLISH,
        licence="Apache-2.0",
        contamination=_MADE,
        sizes={"train": 8000, "dev": 1000, "test": 1000},
        origin="generated",
    ),
)

NAMED: dict[str, NamedPairs] = {entry.name: entry for entry in _SETS}
