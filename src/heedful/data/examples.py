"""The front door: a data set by name or from files."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from heedful.data.columns import ask_for_label, guess_columns
from heedful.data.disk import require_file
from heedful.data.files import open_table
from heedful.data.named import load_named
from heedful.data.parts import Plan, assemble, read_part
from heedful.data.records import Dataset, Examples
from heedful.data.splits import DEV_SHARE, SPLIT_SEED, TEST_SHARE, check_shares, refuse_for_named
from heedful.errors import RequestError
from heedful.storage.memory import FileMemory

__all__ = ["Dataset", "Examples", "load_dataset"]

Named = tuple[str | None, str | None, str | None]
"""The columns of text, pair and label that the user has named."""
_datasets = FileMemory[Dataset](2)


def load_dataset(
    *,
    name: str | None = None,
    train: str | Path | None = None,
    dev: str | Path | None = None,
    test: str | Path | None = None,
    text: str | None = None,
    pair: str | None = None,
    label: str | None = None,
    kind: str = "auto",
    header: bool | None = None,
    quotes: bool | None = None,
    split_seed: int = SPLIT_SEED,
    dev_share: float = DEV_SHARE,
    test_share: float = TEST_SHARE,
    options: Mapping[str, Any] | None = None,
) -> Dataset:
    """Load a named set, or a train file with dev and test files. A dev or test that is not given is carved from train.

    With `name`, the splits are the set's own, and columns and shares must not be given (`label` may name another answer
    that the set has). `options`: size and seed of arithmetic; splits="official" of sets whose test labels are hidden.
    With files, columns that are not named are guessed where only one guess is possible, and the notes say so. `header`
    and `quotes` say whether first lines name the columns and whether quotes enclose cells; by default the files are
    judged. One rule holds for all files; where it cannot, the checks say so. The shares are of the train file; a share
    of 0 omits the split.

    Files that have not changed are parsed once in a process: the data set is shared, and nobody may change it.
    """
    check_shares(dev_share, test_share)
    if (name is None) == (train is None):
        raise RequestError("data needs either a name (`heedful data` lists them) or a train file.")
    if name is not None:
        own: dict[str, Any] = {"dev": dev, "test": test, "text": text, "pair": pair, "header": header, "quotes": quotes}
        own |= {"split_seed": split_seed, "dev_share": dev_share, "test_share": test_share}
        refuse_for_named(name, own)
        return load_named(name, options or {}, label, kind)
    if options:
        raise RequestError(
            f"the option {next(iter(options))!r} is for named sets; remove it, or name a set instead of files."
        )
    assert train is not None  # one of the two is given
    files = {"train": Path(train)}
    files |= {split: Path(path) for split, path in (("dev", dev), ("test", test)) if path is not None}
    for path in files.values():
        require_file(path)
    named = (text, pair, label)
    settings = (*files.items(), named, kind, header, quotes, split_seed, dev_share, test_share)

    def read() -> Dataset:
        return _read_files(files, named, header, quotes, Plan("", kind, None, split_seed, dev_share, test_share))

    return _datasets.get(list(files.values()), settings, read)


def _read_files(
    files: Mapping[str, Path], named: Named, header: bool | None, quotes: bool | None, plan: Plan
) -> Dataset:
    first = open_table(files["train"], header, quotes, named)
    columns = guess_columns(first, *named)
    if columns.label is None:
        raise ask_for_label(first, columns)
    parts = {}
    for split, path in files.items():
        needed = (columns.text, columns.pair, columns.label if split != "test" else None)
        table = first if split == "train" else open_table(path, header, quotes, needed, first)
        parts[split] = read_part(table, columns.text, columns.pair, columns.label, split == "test")
    title = files["train"].name.split(".")[0] or files["train"].name
    return assemble(parts, replace(plan, name=title, notes=[columns.note] if columns.note else []))
