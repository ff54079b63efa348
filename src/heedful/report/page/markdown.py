"""The pieces of a report as Markdown, every text of the user's escaped."""

import re

from heedful.report.page.pieces import (
    Block,
    Card,
    Cards,
    Cell,
    Choice,
    Code,
    Facts,
    Figure,
    Fold,
    Heading,
    Link,
    Prose,
    Report,
    Table,
)


def render(report: Report, pictures: str | None) -> str:
    """`pictures` is the folder of the PNGs; None if there are none, and the page alone has the charts."""
    lines = [f"# {escape(report.title)}", "", escape(report.subtitle), ""]
    lines += _blocks(report.opening, pictures)
    for section in report.sections:
        lines += [f"## {escape(section.title)}", "", *_blocks(section.blocks, pictures)]
    if report.footer:
        lines += [f"*{escape(report.footer)}*", ""]
    return "\n".join(lines).rstrip() + "\n"


def escape(text: str) -> str:
    """On one line, without meaning to Markdown or HTML."""
    text = " ".join(text.split())
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = re.sub(r"([\\`*_\[\]|~#])", r"\\\1", text)
    text = re.sub(r"^([-+=])", r"\\\1", text)
    return re.sub(r"^(\d+)([.)])(?=\s|$)", r"\1\\\2", text)


def _blocks(blocks: tuple[Block, ...], pictures: str | None) -> list[str]:
    return [line for block in blocks for line in _block(block, pictures)]


def _block(block: Block, pictures: str | None) -> list[str]:
    match block:
        case Prose(text, role):
            mark = {"warning": "**Note.** ", "note": ""}.get(role, "")
            return [mark + escape(text), ""]
        case Heading(_, text, level):
            return [f"{'#' * level} {escape(text)}", ""]
        case Card(title, note, entries, command):
            lines = [f"**{escape(title)}** ({escape(note)})", ""]
            lines += [f"- {escape(what)}{' ' if what else ''}{escape(text)}" for what, text, _ in entries] + [""]
            return [*lines, *(_block(Code(command), pictures) if command else [])]
        case Cards(items):
            return [f"- {escape(what)}: **{escape(value)}**{_remark(note)}" for what, value, note in items] + [""]
        case Table():
            return _table(block)
        case Figure(_, caption) if pictures is None:
            return [f"*In report.html: {escape(caption)}*", ""]
        case Figure(name, caption, chart, stills):
            pairs = [(stem, words) for stem, words, _ in stills or ((name, caption, chart),)]
            return [line for stem, words in pairs for line in (f"![{escape(words)}]({pictures}/{stem}.png)", "")]
        case Choice(_, figures):
            return _blocks(tuple(figure for _, figure in figures), pictures)
        case Facts(pairs):
            return [f"- {escape(name)}: {escape(value)}" for name, value in pairs] + [""]
        case Code(text):
            fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
            return [fence, *text.splitlines(), fence, ""]
        case Fold(summary, inner):
            return [f"**{escape(summary)}**", "", *_blocks(inner, pictures)]


def _remark(note: str) -> str:
    return f" ({escape(note)})" if note else ""


def _table(table: Table) -> list[str]:
    lines = [f"**{escape(table.caption)}**", ""] if table.caption else []
    lines.append("| " + " | ".join(escape(c.title) for c in table.columns) + " |")
    lines.append("|" + "|".join("---:" if c.numeric else "---" for c in table.columns) + "|")
    for row in table.rows:
        cells = [_cell(c) for c in row.cells]
        if row.role == "best":
            cells[0] = f"**{cells[0]}**"
        elif row.role == "baseline":
            cells[0] = f"*{cells[0]}*"
        lines.append("| " + " | ".join(cells) + " |")
    return [*lines, ""]


def _cell(cell: Cell) -> str:
    return f"[{escape(cell.text)}]({cell.href})" if isinstance(cell, Link) else escape(cell)
