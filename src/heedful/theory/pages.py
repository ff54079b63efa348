"""Demonstrations as pages: all on one HTML page, or one Markdown page a chapter with an index."""

import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from heedful.errors import RequestError, WorkError
from heedful.report.page import charts, markdown, write
from heedful.report.page.compact import compact
from heedful.report.page.pieces import (
    Block,
    Code,
    Column,
    Facts,
    Figure,
    Heading,
    Link,
    Prose,
    Report,
    Row,
    Section,
    Table,
)
from heedful.report.page.words import capital, visible
from heedful.storage.whole import write_bytes, write_text
from heedful.theory.catalog import CHAPTERS, Run, chapters
from heedful.theory.demonstration import Check, Demonstration, measured, outcome

PICTURES = "pictures"
INDEX = "README.md"
_MADE = "Made by heedful theory --markdown"
"""How the last line of each Markdown page begins: by it a page of ours is known."""
TITLE = "Theory that runs"
LEAD = (
    "Known results about transformers as programs. Each demonstration states a claim, explains why it is true, "
    "checks it on random draws in double precision, and shows where it stops being true."
)
SYMBOLS = (
    "‖x‖ is the length of a vector, √(Σxᵢ²); x∘y the product entry by entry; xᵀy = Σxᵢyᵢ; 𝟏 the vector of ones; "
    "N(μ, σ²) the normal distribution with its mean and variance, Φ its distribution function; σ(z) = 1/(1 + e^(−z))."
)


def page(shown: Sequence[Run]) -> str:
    """All of these as one HTML page, a section a chapter."""
    runs = {d.name: (d, s) for d, s in shown}
    sections = []
    for chapter, members in chapters([d for d, _ in shown]).items():
        blocks = [b for d in members for b in (Heading(d.name, d.title), *_blocks(runs[d.name], 4))]
        introduction = (Prose(CHAPTERS[chapter], "note"),) if chapter in CHAPTERS else ()
        sections.append(Section(slug(chapter), chapter, (*introduction, *blocks)))
    return write.page(
        Report(
            TITLE,
            _extent(shown),
            (Prose(LEAD, "lead"), _contents(shown, lambda d: f"#{d.name}"), Prose(SYMBOLS, "note")),
            tuple(sections),
            footer="Written by heedful theory --html.",
            without_scripts="The charts need JavaScript.",
        )
    )


def texts(shown: Sequence[Run]) -> dict[str, str]:
    """The Markdown pages by the names of their files: the index and one for each chapter."""
    runs = {d.name: (d, s) for d, s in shown}
    made = f"{_MADE}: text and numbers come from one run."
    found = {}
    for chapter, members in chapters([d for d, _ in shown]).items():
        sections = tuple(Section(d.name, d.title, tuple(_blocks(runs[d.name], 3))) for d in members)
        report = Report(chapter, CHAPTERS.get(chapter, ""), (), sections, footer=made)
        found[f"{slug(chapter)}.md"] = visible(markdown.render(report, PICTURES))
    opening = (Prose(LEAD), Code("heedful theory\nheedful theory NAME\nheedful theory --html theory.html"))
    contents = _contents(shown, lambda d: f"{slug(d.chapter)}.md#{_anchor(d.title)}")
    index = Report(TITLE, _extent(shown), (*opening, contents, Prose(SYMBOLS)), (), footer=made)
    return {INDEX: visible(markdown.render(index, PICTURES)), **found}


def check_places(file: Path | None, folder: Path | None) -> None:
    """Before anything is run: whether there is a place for the page, and for the pages."""
    if file is not None:
        write.check_page_place(file)
    if folder is None or not folder.exists():
        return
    if not folder.is_dir():
        raise RequestError(f"--markdown {folder} is a file: give a folder.")
    try:
        stranger = _stranger(folder)
    except OSError as error:
        raise RequestError(f"--markdown {folder}: cannot be read ({error.strerror}); give another folder.") from None
    if stranger is not None:
        raise RequestError(
            f"--markdown {folder}: {stranger} was not written by this command and could be overwritten. "
            "Give a new or empty folder."
        )


def _stranger(folder: Path) -> Path | None:
    """Return a file in a folder that is neither a page of ours nor a picture in one, nor hidden; None: there is
    none."""
    files = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    pictures: set[str] = set()
    for path in files:
        if path.suffix == ".md" and path.is_file():
            lines = path.read_text(encoding="utf-8", errors="replace").rstrip().splitlines()
            if not lines or not lines[-1].startswith(f"*{_MADE}"):
                return path
            pictures.update(re.findall(rf"\]\({PICTURES}/([^)]+)\)", "\n".join(lines)))
        elif path.name != PICTURES or not path.is_dir():
            return path
    drawn = sorted((folder / PICTURES).iterdir()) if folder / PICTURES in files else []
    return next((path for path in drawn if path.name not in pictures and not path.name.startswith(".")), None)


def write_page(shown: Sequence[Run], file: Path) -> None:
    """One HTML file, whole or not at all."""
    try:
        write_text(file, page(shown))
    except OSError as error:
        raise WorkError(f"{file} cannot be written ({error.strerror or error}).") from None


def write_markdown(shown: Sequence[Run], folder: Path) -> list[Path]:
    """The index, a page for each chapter, and their pictures in the folder pictures/. Returns the pages."""
    pages = texts(shown)
    drawn = {figure.name: compact(charts.png(figure.chart, scale=1.5)) for figure in figures(shown)}
    try:
        (folder / PICTURES).mkdir(parents=True, exist_ok=True)
        for name, text in pages.items():  # first, so that pictures are known as ours though the command be interrupted
            write_text(folder / name, text)
        for stem, content in drawn.items():
            write_bytes(folder / PICTURES / f"{stem}.png", content)
    except OSError as error:
        raise WorkError(f"the pages cannot be written to {folder} ({error.strerror or error}).") from None
    return [folder / name for name in pages]


def figures(shown: Sequence[Run]) -> list[Figure]:
    sections = tuple(Section(d.name, d.title, s.figures) for d, s in shown)
    return Report("", "", (), sections).figures()


def slug(chapter: str) -> str:
    return re.sub(r"\W+", "-", chapter.lower()).strip("-")


def _anchor(title: str) -> str:
    """As the usual viewers of Markdown name a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _contents(shown: Sequence[Run], href: Callable[[Demonstration], str]) -> Table:
    rows = tuple(Row((Link(d.title, href(d)), d.chapter)) for d, _ in shown)
    return Table("", (Column("Demonstration"), Column("Chapter")), rows)


def _extent(shown: Sequence[Run]) -> str:
    checks = [check for _, s in shown for check in (*s.checks, *s.limits)]
    least = min((check.draws for check in checks), default=0)
    wrong = sum(not check.passed for check in checks)
    came = "all passed" if not wrong else f"{wrong} failed"
    return f"{len(shown)} demonstrations, {len(checks)} checks on at least {least:,} random draws each: {came}."


def _blocks(shown: Run, level: Literal[3, 4]) -> Iterator[Block]:
    d, s = shown
    yield Prose(d.claim, "lead")
    yield Heading(f"{d.name}-why", "Why", level)
    yield from _paragraphs(d.reason)
    yield Heading(f"{d.name}-checked", "Checks", level)
    yield Facts(tuple(_line(check) for check in s.checks))
    yield from s.figures
    yield Heading(f"{d.name}-ends", "Limits", level)
    yield from _paragraphs(d.ends)
    if s.limits:
        yield Facts(tuple(_line(check) for check in s.limits))
    if d.published:
        yield Heading(f"{d.name}-published", "In the literature", level)
        yield Prose(d.published)
    files = f"Code: {', '.join(d.see)}. " if d.see else ""
    paper = f"Paper: {d.paper}. " if d.paper else ""
    yield Prose(f"{paper}{files}Run it: heedful theory {d.name}", "note")


def _paragraphs(paragraphs: Sequence[str]) -> Iterator[Block]:
    for text in paragraphs:
        yield Code(textwrap.dedent(text)) if text.startswith("    ") else Prose(text)


def _line(check: Check) -> tuple[str, str]:
    return capital(outcome(check)), f"{check.statement} ({measured(check, exactly=False)})"
