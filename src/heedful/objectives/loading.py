"""The data of a recipe: read from their files once, however many runs of a study want them."""

from dataclasses import asdict, replace
from typing import Any

from heedful.data.examples import Dataset, Examples, load_dataset
from heedful.recipes.schema import DataTable, SourceTable
from heedful.storage.shared import SharedStore
from heedful.streams import shuffled


def load_data(table: DataTable, seed: int, store: SharedStore) -> Dataset:
    """`seed`, a run's, matters for rows that are drawn anew for each."""
    whole = whole_data(table, store)
    rows = table.limit or max(1, round((table.fraction or 1) * len(whole.train)))
    if rows >= len(whole.train):
        return whole
    order = shuffled(len(whole.train), table.split_seed, seed if table.redraw else "every seed")
    note = f"trained on {rows} of {len(whole.train)} rows of the training set"
    return replace(whole, train=whole.train.take(sorted(order[:rows].tolist())), notes=[*whole.notes, note])


def whole_data(table: DataTable, store: SharedStore) -> Dataset:
    """With all training rows, as they were when somebody first asked this store for them."""
    unread = {"limit", "fraction", "redraw"}
    keys = table.model_dump(mode="json", include=SourceTable.model_fields.keys() - unread)
    return _unpacked(store.json({"data": keys}, "data", lambda: asdict(load_dataset(**keys))))


def _unpacked(content: dict[str, Any]) -> Dataset:
    splits = {name: None if content[name] is None else Examples(**content[name]) for name in ("train", "dev", "test")}
    tuples = {name: tuple(content[name]) for name in ("labels", "hidden")}
    return Dataset(**{**content, **splits, **tuples})
