"""The words of a demonstration, read from the Markdown file next to its module.

Such a file begins with the title and a few `key: value` lines. Its sections are paragraphs (indented ones are formulas)
or lists of `- key: sentence`; `$name` in a sentence is replaced by a computed figure.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from string import Template
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from heedful.report.page.pieces import Column, Figure, Prose, Row, Table
from heedful.theory.demonstration import Check, Demonstration, Shown

if TYPE_CHECKING:
    from heedful.report.page.charts import Chart

LISTS = ("Checks", "Checks of the limits", "Captions")
"""The sections that are lists of `- key: sentence`."""


@dataclass(frozen=True)
class Page:
    name: str
    title: str
    head: dict[str, str]
    """chapter, order, files and paper."""
    paragraphs: dict[str, tuple[str, ...]]
    """By section: Claim, Why, Limits, In the literature."""
    sentences: dict[str, dict[str, str]]
    """By section, of those that are lists, and key."""

    @staticmethod
    def read(module: str) -> "Page":
        """Read the page of a module: `attention_copy.md` of `attention_copy`."""
        package, _, stem = module.rpartition(".")
        text = (resources.files(package) / f"{stem}.md").read_text(encoding="utf-8")
        top, *sections = re.split(r"^## ", text, flags=re.MULTILINE)
        title, *lines = top.strip().splitlines()
        head = dict(line.split(": ", 1) for line in lines if line)
        paragraphs, sentences = {}, {}
        for section in sections:
            name, _, body = section.partition("\n")
            if name in LISTS:
                items = re.split(r"^- ", body, flags=re.MULTILINE)[1:]
                sentences[name] = dict(_one_line(item).split(": ", 1) for item in items)
            else:
                paragraphs[name] = tuple(_paragraph(part) for part in re.split(r"\n\s*\n", body.strip("\n")))
        return Page(stem.replace("_", "-"), title.removeprefix("# "), head, paragraphs, sentences)

    def demonstration(self, show: Callable[[int, torch.Generator], Shown]) -> Demonstration:
        return Demonstration(
            name=self.name,
            chapter=self.head["chapter"],
            title=self.title,
            claim=" ".join(self.paragraphs["Claim"]),
            reason=self.paragraphs["Why"],
            ends=self.paragraphs["Limits"],
            show=show,
            published=" ".join(self.paragraphs.get("In the literature", ())),
            paper=self.head.get("paper", ""),
            see=tuple(self.head["files"].split(", ")) if "files" in self.head else (),
            order=int(self.head["order"]),
        )

    def holds(self, key: str, deviations: Tensor, tolerance: float, **figures: object) -> Check:
        """Return a check that must hold in every draw, with its statement from the page."""
        return Check(self._statement(key, figures), deviations, tolerance)

    def fails(self, key: str, deviations: Tensor, tolerance: float, **figures: object) -> Check:
        """Return a counterexample: a check that most draws must break."""
        return Check(self._statement(key, figures), deviations, tolerance, "fails")

    def figure(self, key: str, chart: "Chart", **figures: object) -> Figure:
        return Figure(f"{self.name}-{key}", self.caption(key, **figures), chart)

    def prose(self, key: str, **figures: object) -> Prose:
        return Prose(self.caption(key, **figures))

    def table(self, key: str, titles: Sequence[str], rows: Sequence[Sequence[str]], **figures: object) -> Table:
        """Return a table of numbers with its caption from the page."""
        columns = tuple(Column(title, numeric=True) for title in titles)
        return Table(self.caption(key, **figures), columns, tuple(Row(tuple(row)) for row in rows))

    def caption(self, key: str, **figures: object) -> str:
        return Template(self.sentences["Captions"][key]).substitute(figures)

    def _statement(self, key: str, figures: dict[str, object]) -> str:
        section = "Checks" if key in self.sentences["Checks"] else "Checks of the limits"
        return Template(self.sentences[section][key]).substitute(figures)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _paragraph(text: str) -> str:
    return text if text.startswith("    ") else _one_line(text)
