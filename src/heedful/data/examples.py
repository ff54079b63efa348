"""The front door: a data set by name or from files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from heedful.data.columns import ask_for_label, guess_columns
from heedful.data.files import open_table
from heedful.data.named import load_named
from heedful.data.parts import Plan, assemble, read_part
from heedful.data.records import Dataset, Examples
from heedful.data.splits import DEV_SHARE, SPLIT_SEED, TEST_SHARE, check_shares, refuse_for_named
from heedful.errors import RequestError

__all__ = ["Dataset", "Examples", "load_dataset"]


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
    """A named set, or a train file with dev and test files; a dev or test that is not given is carved from train.

    With `name`, the splits are the set's own, and columns and shares must be left alone (`label` may name another
    answer that the set has). `options`: size and seed of arithmetic; splits="official" of sets whose test labels are
    hidden. With files, columns that are not named are guessed where only one guess is possible, and the notes say so.
    `header` and `quotes` settle what else is judged by the files: whether their first lines name the columns, and
    whether quotes enclose cells. One rule holds for all files; where it cannot, the checks say so.
    The shares are of the train file; a share of 0 leaves the split out.
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
        raise RequestError(f"the option {next(iter(options))!r} is for named sets; leave it out with files.")
    assert train is not None  # one of the two is given
    files = {"train": Path(train)}
    files |= {split: Path(path) for split, path in (("dev", dev), ("test", test)) if path is not None}
    first = open_table(files["train"], header, quotes, (text, pair, label))
    columns = guess_columns(first, text, pair, label)
    if columns.label is None:
        raise ask_for_label(first, columns)
    parts = {}
    for split, path in files.items():
        needed = (columns.text, columns.pair, columns.label if split != "test" else None)
        table = first if split == "train" else open_table(path, header, quotes, needed, first)
        parts[split] = read_part(table, columns.text, columns.pair, columns.label, split == "test")
    title = files["train"].name.split(".")[0] or files["train"].name
    notes = [columns.note] if columns.note else []
    return assemble(parts, Plan(title, kind, None, split_seed, dev_share, test_share, notes=notes))
