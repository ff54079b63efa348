"""What a report is made of, before it is HTML or Markdown: sections of prose, tables, figures and facts.

A section is a small function that reads a run or a study and returns a `Section`, or None when it has nothing to say.
Both forms of a report are drawn from the same pieces, so that no figure can differ between them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Literal

if TYPE_CHECKING:
    from heedful.report.page.charts import Chart

MOST_ROWS = 12
"""Rows of a table that stand open; more are folded away."""


@dataclass(frozen=True)
class Link:
    text: str
    href: str
    """Relative to the report, already quoted."""


Cell = str | Link


@dataclass(frozen=True)
class Prose:
    kind: ClassVar[str] = "prose"
    text: str
    role: Literal["", "lead", "note", "warning"] = ""


@dataclass(frozen=True)
class Heading:
    """Of a part of a section."""

    kind: ClassVar[str] = "heading"
    name: str
    """Its anchor on the page."""
    text: str
    level: Literal[3, 4] = 3
    """Below the heading of the section, which is of level 2."""


@dataclass(frozen=True)
class Card:
    """The decision that a reader came for, on the first screen and at the end of a command."""

    kind: ClassVar[str] = "card"
    title: str
    note: str
    """Why this one."""
    lines: tuple[tuple[str, str, Literal["", "warning"]], ...]
    """What a line is about, in a word or two; the sentence; whether it warns."""
    command: str
    """That uses the model; empty if there is none."""


@dataclass(frozen=True)
class Cards:
    """The few figures that a reader came for: what, how much, and a remark."""

    kind: ClassVar[str] = "cards"
    items: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class Column:
    title: str
    numeric: bool = False
    long: bool = False
    """Holds running text, which may break anywhere."""


Role = Literal["", "baseline", "best", "failed", "warning"]


@dataclass(frozen=True)
class Row:
    cells: tuple[Cell, ...]
    role: Role = ""


@dataclass(frozen=True)
class Table:
    """The first cell of each row is its heading."""

    kind: ClassVar[str] = "table"
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Figure:
    kind: ClassVar[str] = "figure"
    name: str
    """The stem of its PNG and its id on the page: ours, never the user's text."""
    caption: str
    chart: "Chart"
    stills: tuple[tuple[str, str, "Chart"], ...] = ()
    """Stem, caption and chart of each picture for paper, where the page has one chart with a choice in it."""


@dataclass(frozen=True)
class Choice:
    """Figures of which the page shows one at a time, and Markdown all."""

    kind: ClassVar[str] = "choice"
    label: str
    figures: tuple[tuple[str, Figure], ...]
    """Each with the words by which it is picked; the first is shown at first."""


@dataclass(frozen=True)
class Facts:
    kind: ClassVar[str] = "facts"
    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Code:
    kind: ClassVar[str] = "code"
    text: str


@dataclass(frozen=True)
class Fold:
    """Closed at first, and printed if it is open."""

    kind: ClassVar[str] = "fold"
    summary: str
    blocks: tuple["Block", ...]


Block = Prose | Heading | Card | Cards | Table | Figure | Choice | Facts | Code | Fold


@dataclass(frozen=True)
class Section:
    name: str
    """Its anchor on the page."""
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Report:
    title: str
    subtitle: str
    opening: tuple[Block, ...]
    sections: tuple[Section, ...]
    footer: str = field(default="")
    without_scripts: str = "The charts need JavaScript; the same pictures are in the folder report/ beside report.md."
    """Said where the page cannot draw."""

    def figures(self) -> list[Figure]:
        every = [*self.opening, *(block for section in self.sections for block in section.blocks)]
        return [b for b in _unfolded(every) if isinstance(b, Figure)]


def section(name: str, title: str, blocks: Iterable[Block | None]) -> Section | None:
    """A section of the blocks that are there; None if there are none."""
    kept = tuple(b for b in blocks if b is not None)
    return Section(name, title, kept) if kept else None


def in_short(whole: Table, what: str) -> list[Block]:
    """A table whose rows after the first `MOST_ROWS` are folded away; baselines stay in sight."""
    plain = [row for row in whole.rows if row.role != "baseline"]
    if len(plain) <= MOST_ROWS + 3:  # a fold for a row or two would hide more than it saves
        return [whole]
    hidden = plain[MOST_ROWS:]
    first = replace(whole, rows=(*plain[:MOST_ROWS], *(row for row in whole.rows if row.role == "baseline")))
    rest = replace(whole, caption=f"{whole.caption}, continued", rows=tuple(hidden))
    return [first, Fold(f"The other {len(hidden)} {what}", (rest,))]


def facts(pairs: Iterable[tuple[str, str]]) -> Facts | None:
    """The facts that are known: a dash is left out."""
    kept = tuple((name, value) for name, value in pairs if value not in ("", "–"))
    return Facts(kept) if kept else None


def _unfolded(blocks: Iterable[Block]) -> Iterable[Block]:
    for block in blocks:
        if isinstance(block, Fold):
            yield from _unfolded(block.blocks)
        elif isinstance(block, Choice):
            yield from (figure for _, figure in block.figures)
        else:
            yield block
