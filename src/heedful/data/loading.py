"""The data of a recipe: read from their files once, however many runs of a study want them."""

from dataclasses import asdict, replace
from typing import Any

from heedful.data.examples import Dataset, Examples, load_dataset
from heedful.data.records import Aligned
from heedful.data.translations import load_pairs
from heedful.recipes.schema import RowsTable
from heedful.storage.shared import SharedStore
from heedful.streams import shuffled

_OF_TRAINING = {"limit", "fraction", "redraw"}
"""The keys of [data] that say which of the rows are trained on."""


def load_data(table: RowsTable, seed: int, store: SharedStore) -> Dataset:
    """`seed`, a run's, matters for rows that are drawn anew for each."""
    whole = whole_data(table, store)
    rows = table.limit or max(1, round((table.fraction or 1) * len(whole.train)))
    if rows >= len(whole.train):
        return whole
    order = shuffled(len(whole.train), table.split_seed, seed if table.redraw else "every seed")
    note = f"trained on {rows} of {len(whole.train)} rows of the training set"
    return replace(whole, train=whole.train.take(sorted(order[:rows].tolist())), notes=[*whole.notes, note])


def whole_data(table: RowsTable, store: SharedStore) -> Dataset:
    """With all training rows, as they were when somebody first asked this store for them."""
    keys = table.model_dump(mode="json", exclude=_OF_TRAINING)
    return _unpacked(store.json({"data": keys}, "data", lambda: asdict(load_dataset(**keys))))


def load_aligned(table: RowsTable, seed: int, store: SharedStore) -> Aligned:
    """Texts and their translations, as many training pairs as the table says; `seed` as for `load_data`."""
    keys = table.model_dump(mode="json", exclude=_OF_TRAINING)
    whole = Aligned.unpacked(store.json({"pairs": keys}, "data", lambda: load_pairs(**keys).packed()))
    train = whole.splits["train"]
    count = table.limit or max(1, round((table.fraction or 1) * len(train)))
    if count >= len(train):
        return whole
    order = shuffled(len(train), table.split_seed, seed if table.redraw else "every seed")
    note = f"trained on {count} of {len(train)} pairs of the training set"
    return whole.trained_on(sorted(order[:count].tolist()), note)


def _unpacked(content: dict[str, Any]) -> Dataset:
    splits = {name: None if content[name] is None else Examples(**content[name]) for name in ("train", "dev", "test")}
    tuples = {name: tuple(content[name]) for name in ("labels", "hidden")}
    return Dataset(**{**content, **splits, **tuples})
