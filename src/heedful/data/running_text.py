"""Running text: the files of a corpus, or one that is encoded already."""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import Field

from heedful.data.corpus.documents import Source, all_documents, refuse_no_text
from heedful.data.corpus.finding import find_sources, refuse_unused
from heedful.data.corpus.shards import DESCRIPTION, Corpus, fingerprint_of, verify
from heedful.data.corpus.writing import describe_sources
from heedful.data.protocol import Data
from heedful.errors import RequestError
from heedful.recipes.schema import DataTable, Recipe
from heedful.storage.shared import SharedStore

_SAMPLE = 300_000  # characters of each file, to time a step with
_TOKEN, _GZIPPED = 4.5, 2.6  # bytes of a token, and of a byte of compressed text, as English has them


class CorpusTable(DataTable):
    corpus: str | list[str] | None = None
    """For objectives that learn from running text: one or several files of text (may be gzipped), JSONL or Parquet;
    a name from `heedful data`; "hub:OWNER/REPOSITORY/FILE"; or a directory written by `heedful data shard`. `dev`
    and `test` may name such files too. Without `dev`, the share `dev_share` of the documents is held out."""
    separator: str = "auto"
    """What a document of a corpus is: a "line"; a block between empty lines ("blank-line"); a whole "file"; or a
    block between lines with exactly this text, such as "<|endoftext|>". Default: detect. A row of JSONL or Parquet
    is always a document."""
    deduplicate: bool = False
    """Whether to keep only the first of documents that are equal except for case and white
    space."""
    dev: str | None = None
    """Held-out file for choosing a model. Default: the share `dev_share` of the documents."""
    test: str | None = None
    """Test file for the reported score."""
    text: str | None = None
    """Column with the text, of JSONL or Parquet."""
    dev_share: float = Field(0.1, gt=0, lt=0.9)
    """Share of the documents that becomes dev if there is no dev file."""
    split_seed: int = 0
    """Random seed of the splits. It is the same for all seeds of a study, so that all runs see the same rows."""

    @property
    def corpora(self) -> list[str]:
        """The names in `corpus`."""
        return [self.corpus] if isinstance(self.corpus, str) else list(self.corpus or [])

    def files(self, name: str) -> list[str]:
        return self.corpora if name == "train" else super().files(name)


class RunningText(Data):
    """The text that a recipe names; `inputs/corpora.py` opens it with a tokenizer."""

    Table: ClassVar[type[DataTable]] = CorpusTable

    def __init__(
        self, table: CorpusTable, store: SharedStore, room: int = 1, most_evaluated: int | None = None
    ) -> None:
        """`room`: how many tokens a row has, about; `most_evaluated`: the most rows of a held-out set that are
        evaluated."""
        self.table, self.room, self.most_evaluated = table, room, most_evaluated
        named = {"train": table.corpora, **{key: [v] for key in ("dev", "test") if (v := getattr(table, key))}}
        self.prepared = {name: _prepared(names) for name, names in named.items()}
        for key in ("separator", "text", "deduplicate"):
            if self.prepared["train"] is not None and getattr(table, key) != CorpusTable.model_fields[key].default:
                raise RequestError(
                    f"data.{key}: {table.corpora[0]} is a corpus that is made already; say it to `heedful data shard`."
                )
        self.sources: dict[str, list[Source]] = {
            name: find_sources(names, table.separator, table.text)
            for name, names in named.items()
            if self.prepared[name] is None
        }
        if self.sources:
            refuse_unused([s for some in self.sources.values() for s in some], table.separator, table.text)
        keys = {"corpora": named, "separator": table.separator, "text": table.text}
        self.described: dict[str, list[dict[str, Any]]] = store.json(
            keys, "data", lambda: {name: describe_sources(some) for name, some in self.sources.items()}
        )
        for place in filter(None, self.prepared.values()):
            store.json({"verified": str(place.absolute())}, "data", partial(verify, place))

    @property
    def name(self) -> str:
        return " and ".join(Path(name).name for name in self.table.corpora)

    @staticmethod
    def check(recipe: Recipe) -> None:
        assert isinstance(recipe.data, CorpusTable)
        if not recipe.data.corpora:
            raise RequestError(
                f'data.corpus is missing: objective.kind = "{recipe.objective.kind}" learns from running text; name '
                "files."
            )

    @classmethod
    def read(cls, recipe: Recipe, seed: int, store: SharedStore) -> Self:
        assert isinstance(recipe.data, CorpusTable)
        most = getattr(recipe.objective, "judged_rows", None)
        return cls(recipe.data, store, recipe.training.max_length, most)

    def describe(self) -> dict[str, Any]:
        """Return the sizes in rows, roughly: `inputs` know them when there is a tokenizer."""
        most, rough = self.most_evaluated, self.rough_rows(self.room)
        sizes = {name: n if name == "train" or most is None else min(n, most) for name, n in rough.items()}
        return {"name": self.name, "sizes": sizes, "fingerprints": self.fingerprints()}

    def sets(self) -> dict[str, bool]:
        return {name: True for name in ("dev", "test") if name in self.prepared or name == "dev"}

    def fingerprints(self) -> dict[str, str]:
        """Return what identifies the content of each set."""
        files = {name: " ".join(one["sha256"] for one in some) for name, some in self.described.items()}
        made = {name: fingerprint_of(place) for name, place in self.prepared.items() if place is not None}
        return {**files, **made}

    def rough_rows(self, room: int) -> dict[str, int]:
        """Return about how many rows of `room` tokens each set has, by the sizes of its files only."""
        rows = {name: Corpus(place).tokens / room for name, place in self.prepared.items() if place is not None}
        for name, some in self.sources.items():
            sizes = [source.path.stat().st_size * (_GZIPPED if source.path.suffix == ".gz" else 1) for source in some]
            rows[name] = sum(sizes) / _TOKEN / room
        if "dev" not in rows:
            rows["dev"] = rows["train"] * self.table.dev_share
        return {name: max(1, round(count)) for name, count in rows.items()}

    def sample(self, rows: int) -> Self:
        """Return the beginning of the text."""
        few = copy.copy(self)
        few.sources = {name: [replace(s, most=_SAMPLE) for s in some] for name, some in self.sources.items()}
        return few

    def texts(self) -> Iterator[str]:
        """Return the documents of the training files."""
        if self.prepared["train"] is not None:
            raise RequestError(
                f"{self.table.corpora[0]}: holds ids, and no text to train a tokenizer on; name the tokenizer that it "
                f'was made with: [tokenizer] name = "{self.table.corpora[0]}".'
            )
        refuse_no_text(self.sources["train"])
        return all_documents(self.sources["train"])


def _prepared(names: Sequence[str]) -> Path | None:
    """Return the corpus directory that is named, if it is one."""
    folders = [Path(name).expanduser() for name in names if Path(name).expanduser().is_dir()]
    for folder in folders:
        if len(names) > 1 or not (folder / DESCRIPTION).exists():
            raise RequestError(
                f"data.corpus: {folder} is a folder; name files, or one directory that `heedful data shard` wrote."
            )
    return folders[0] if folders else None
