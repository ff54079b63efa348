"""How the files of a named set are laid out, in a data folder or on the hub, and how each is read."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from heedful.data.disk import read_lines
from heedful.data.files import open_table
from heedful.data.labels import Cell
from heedful.data.parts import Part, read_part
from heedful.errors import RequestError


@dataclass(frozen=True)
class Layout:
    files: Mapping[str, str]
    """Official split (train, dev, test) to file, from the set's folder or repository."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Rows of each, as published."""
    form: str = "rows"
    """"rows" (a format that `read_rows` knows), "character" (one character, a space, the text) or "bars"
    (the label, three bars between spaces, the text); of translations, "sides" (two aligned files whose names differ in
    the language, {}) or "words" (one file with a pair of words to a line, which we split)."""
    text: str = "text"
    pair: str | None = None
    label: str = "label"
    score: str | None = None
    """A second column that holds a score."""
    codes: Mapping[str, str] = field(default_factory=dict)
    """What the files write for each label name, where that is not the name."""
    repository: str = ""
    """On the hub; a layout without one is a data folder's."""
    revision: str = "main"


def read_layout(layout: Layout, split: str, path: Path, labels: tuple[str, ...], score: bool) -> Part:
    """Read one official split, with its labels by name; -1 and empty labels count as missing."""
    if layout.form == "rows":
        label = layout.score if score and layout.score else layout.label
        table = open_table(path, header=True)
        table = replace(table, rule=replace(table.rule, about_quotes=""))  # a known file needs no judgement
        part = read_part(table, layout.text, layout.pair, label, split == "test")
    else:
        part = _read_lines(path, layout.form)
    if not score:
        part.cells = [_named(cell, layout.codes, labels) for cell in part.cells]
    expected = layout.sizes.get(split)
    if expected is not None and len(part.rows) != expected:
        part.notes.append(f"{path.name} has {len(part.rows):,} rows, where {expected:,} are published.")
    return part


def _named(cell: Cell | None, codes: Mapping[str, str], labels: tuple[str, ...]) -> Cell | None:
    if cell is None or cell.value == "-1":
        return None
    name = codes.get(cell.value, cell.value)
    if labels and name not in labels:
        raise RequestError(
            f"{cell.place}: the label {cell.value!r} is none of {', '.join(codes or labels)}; fetch the file again."
        )
    return Cell(name, cell.source, cell.number, cell.line)


def _read_lines(path: Path, form: str) -> Part:
    part = Part(str(path))
    mark = " ||| " if form == "bars" else " "
    for number, line in read_lines(path):
        label, separator, text = line.rstrip("\r\n").partition(mark)
        if not separator or not label or " " in label:
            raise RequestError(f"{path}, line {number}: not of the form 'label{mark}text'; fetch the file again.")
        part.texts.append(text)
        part.cells.append(Cell(label, str(path), number, number))
        part.rows.append(number)
    return part
