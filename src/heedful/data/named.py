"""Named sets: found in the data folder, on the hub, in the package, or generated."""

import difflib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from heedful.data import arithmetic
from heedful.data.catalog import NAMED, PAIRS, QUESTIONS, NamedSet
from heedful.data.files import read_rows
from heedful.data.hub import cached_file, fetch_files
from heedful.data.labels import Cell
from heedful.data.layouts import Layout, read_layout
from heedful.data.parts import Part, Plan, assemble
from heedful.data.records import Dataset
from heedful.errors import RequestError

__all__ = ["NAMED", "NamedSet", "data_folder", "find_named", "find_set", "load_named", "locate", "where_from"]

DEV_SHARE, DEV_SEED = 0.1, 0
"""Where the official dev split is scored as test, choices are made on rows carved from train, always the same."""


def find_named(name: str) -> NamedSet:
    if name in PAIRS:
        raise RequestError(f"{name} is a set of translations, without labels; name one of {', '.join(NAMED)}.")
    if name in QUESTIONS:
        raise RequestError(
            f'{name} is a set of questions, for objective.kind = "answer", without labels; name one of '
            f"{', '.join(NAMED)}."
        )
    if name not in NAMED:
        raise RequestError(
            f"{name!r} is not a named set; {_meant(name, NAMED)}`heedful data` lists {', '.join(NAMED)}."
        )
    return NAMED[name]


def find_set(name: str, sets: Mapping[str, NamedSet]) -> NamedSet:
    """Return one of the sets of a kind other than examples."""
    if name not in sets:
        kind = next(iter(sets.values())).kind
        raise RequestError(
            f"data.name = {name!r}: no set of {kind} has this name; {_meant(name, sets)}there is {', '.join(sets)}."
        )
    return sets[name]


def _meant(name: str, sets: Mapping[str, NamedSet]) -> str:
    near = difflib.get_close_matches(name, list(sets), n=1)
    return f"did you mean {near[0]!r}? " if near else ""


def load_named(name: str, options: Mapping[str, Any], label: str | None = None, kind: str = "auto") -> Dataset:
    """Load a named set. `label` may name a second answer that it has (relatedness_score of sick); `kind` may only
    confirm."""
    entry = find_named(name)
    layout = entry.folder or entry.hub
    score = entry.kind == "score"
    if label is not None and layout is not None and label == layout.score:
        score = True
    elif label is not None and (layout is None or label != layout.label):
        known = f"; it has {layout.label} and {layout.score}" if layout is not None and layout.score else ""
        raise RequestError(f"{name} is a named set without a label {label!r}{known}; remove label.")
    if kind not in ("auto", "score" if score else "classes"):
        raise RequestError(f"{name} has {'scores' if score else 'classes'}, not kind = {kind!r}; remove kind.")
    plan = Plan(
        name,
        "score" if score else "classes",
        entry.labels,
        DEV_SEED,
        DEV_SHARE,
        test_share=0,
        licence=entry.licence,
        contamination=entry.contamination,
    )
    if entry.source == "generated":
        return _generated(options, plan)
    official = _wants_official(name, options)
    if entry.source == "package":
        return assemble(_packaged(name), plan)
    splits = ("train", "dev") if entry.hidden_test and not official else ("train", "dev", "test")
    parts = _official_parts(entry, splits, score, plan)
    if official and "test" not in parts:
        raise RequestError(f"this copy of {name} has no test split; remove splits = 'official'.")
    if entry.hidden_test:
        _without_true_test_labels(entry, parts, plan)
    return assemble(parts, plan)


def where_from(entry: NamedSet) -> tuple[str, bool]:
    """Return where the set would come from now, and whether it is available without a download."""
    if entry.source == "generated":
        return "generated", True
    if entry.source == "package":
        return "in the package", True
    if (folder := _folder_of(entry)) is not None:
        return str(folder), True
    if entry.hub is None:
        return f"{_not_in_folder(entry)}, and it is not on the hub", False
    hub = entry.hub
    needed = [file for split, file in hub.files.items() if split != "test" or not entry.hidden_test]
    present = all(cached_file(hub.repository, file, hub.revision) for file in needed)
    return f"hub: {hub.repository}", present


def data_folder() -> Path | None:
    """Return HEEDFUL_DATA, if it is set: `~` is the home, and a relative path begins at the working directory."""
    value = os.environ.get("HEEDFUL_DATA")
    if not value:
        return None
    folder = Path(value).expanduser().absolute()
    if not folder.is_dir():
        where = "" if str(folder) == value else f" (that is {folder})"
        raise RequestError(f"HEEDFUL_DATA={value}{where} is not a folder; correct it or unset it.")
    return folder


def locate(entry: NamedSet, splits: Sequence[str]) -> tuple[Layout, dict[str, Path]]:
    """Return how the files of these splits are laid out, and where they are: in the data folder, else from the hub."""
    folder = _folder_of(entry)
    if folder is not None and entry.folder is not None:
        files = entry.folder.files
        return entry.folder, {split: folder / files[split] for split in splits if split in files}
    layout = entry.hub
    if layout is None:
        raise RequestError(
            f"{entry.name} is not here ({_not_in_folder(entry)}) and not on the hub; set HEEDFUL_DATA to a folder that "
            f"has {first_file(entry)}."
        )
    files = {split: layout.files[split] for split in splits if split in layout.files}
    paths = fetch_files(layout.repository, list(files.values()), layout.revision, entry.name, _not_in_folder(entry))
    return layout, dict(zip(files, paths, strict=True))


def first_file(entry: NamedSet) -> str:
    """Return where in HEEDFUL_DATA the training data would be, or nothing."""
    if entry.folder is None:
        return ""
    return f"{entry.place or entry.name}/{entry.folder.files['train'].replace('{}', entry.languages[0])}"


def _folder_of(entry: NamedSet) -> Path | None:
    folder, file = data_folder(), first_file(entry)
    here = folder is not None and file and (folder / file).is_file()
    return folder / (entry.place or entry.name) if folder is not None and here else None


def _not_in_folder(entry: NamedSet) -> str:
    """Return where a set was looked for, and not found, before the hub."""
    folder, file = data_folder(), first_file(entry)
    if not file:
        return ""
    return "HEEDFUL_DATA is not set" if folder is None else f"{folder} has no {file}"


def _official_parts(entry: NamedSet, splits: tuple[str, ...], score: bool, plan: Plan) -> dict[str, Part]:
    layout, paths = locate(entry, splits)
    if layout is entry.hub:
        plan.notes.append(f"{entry.name}: from {layout.repository} on the hub.")
    elif entry.remark:
        plan.notes.append(f"{entry.name}: {entry.remark}.")
    labels = () if score else entry.labels
    return {split: read_layout(layout, split, path, labels, score) for split, path in paths.items()}


def _without_true_test_labels(entry: NamedSet, parts: dict[str, Part], plan: Plan) -> None:
    """Use official dev as test, unless the official test is there: nothing is chosen on rows that are reported."""
    if "test" in parts:
        parts["test"].cells = [None] * len(parts["test"].cells)
        return
    parts["test"] = parts.pop("dev")
    plan.notes.append(
        f"test: the official dev split, since {entry.name} has no public test labels; dev is carved from train."
    )


def _wants_official(name: str, options: Mapping[str, Any]) -> bool:
    for key, value in options.items():
        if key != "splits" or value != "official":
            raise RequestError(f"{name} has no option {key} = {value!r}; its only option is splits = 'official'.")
    return bool(options)


def _packaged(name: str) -> dict[str, Part]:
    path = Path(__file__).with_name(f"{name}.csv")
    parts = {split: Part(path.name) for split in ("train", "dev", "test")}
    for row in read_rows(path, "text", label="label"):
        part = parts[row.raw["split"]]
        part.texts.append(row.text)
        part.cells.append(None if row.label is None else Cell(row.label, path.name, row.number, row.line))
        part.rows.append(row.number)
    return parts


def _generated(options: Mapping[str, Any], plan: Plan) -> Dataset:
    parts = {}
    for split, examples in arithmetic.generate(options).items():
        cells: list[Cell | None] = [
            Cell(label, plan.name, row) for label, row in zip(examples.labels or [], examples.rows, strict=True)
        ]
        parts[split] = Part(plan.name, examples.texts, None, cells, examples.rows)
    return assemble(parts, plan)
