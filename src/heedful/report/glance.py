"""A run or a study at a glance: a verdict and one table, as text for a terminal and as HTML for a notebook."""

from dataclasses import dataclass
from html import escape
from pathlib import Path
from urllib.parse import quote

from rich.cells import cell_len, set_cell_size

from heedful.report.facts.comparison import Comparison, Setting, compare
from heedful.report.facts.run import judged_set, primary_of, scored
from heedful.report.page.pieces import Card, Column, Role, Row, Table
from heedful.report.page.words import (
    count,
    duration,
    figure,
    interval,
    mean_and_deviation,
    several,
    title_of,
    visible,
)
from heedful.report.sections.card import card
from heedful.report.sections.card import verdict as verdict_of_study
from heedful.report.sections.of_run import verdict as verdict_of_run
from heedful.report.sections.of_study import varied
from heedful.storage.run_record import Scores
from heedful.storage.runs import Run, Study

_WIDE = 80  # columns of a terminal
_MOST = 20  # settings that are shown
_LINE = "border: 0; border-bottom: 1px solid rgba(128, 128, 128, 0.35); padding: 0.25em 0.8em; background: none"
# Shades of grey and blue that let the notebook's own colours through, so that they suit a dark theme and a light one.
_ROLES = {"best": "background: rgba(90, 140, 255, 0.18)", "baseline": "font-style: italic; opacity: 0.8"}


@dataclass(frozen=True)
class Glance:
    title: str
    verdict: str
    table: Table
    notes: tuple[str, ...]
    directory: Path
    card: Card | None = None

    def text(self) -> str:
        """Lines of at most 80 columns, but for paths and the command."""
        report = self.directory / "report.html"
        lines = [_cut(_clean(self.title), _WIDE), "", *self.lines(), ""]
        lines.append(f"report: {report}" if report.is_file() else "no report yet")
        return "\n".join(lines)

    def lines(self) -> list[str]:
        """The table, and under it the card."""
        lines = _text_table(self.table)
        roles = {row.role for row in self.table.rows}
        legend = {"best": "* the chosen one", "baseline": "( ) a baseline"}
        if roles & legend.keys():
            lines.append("; ".join(words for role, words in legend.items() if role in roles))
        lines += [line for note in self.notes for line in _wrapped(_clean(note), _WIDE)]
        if self.card is not None:
            lines += ["", *card_lines(self.card)]
        elif self.verdict:
            lines += ["", *_wrapped(_clean(self.verdict), _WIDE)]
        return lines

    def html(self) -> str:
        """For a notebook in any colours: no style sheet, no script, every text of the user's escaped."""
        head = "".join(_cell("th", c.title, c.numeric, "font-weight: 600") for c in self.table.columns)
        numeric = [column.numeric for column in self.table.columns]
        rows = "".join(
            f'<tr style="background: none; {_ROLES.get(row.role, "")}">'
            + "".join(_cell("td", str(c), n) for c, n in zip(row.cells, numeric, strict=True))
            + "</tr>"
            for row in self.table.rows
        )
        remarks = " ".join(self.notes)
        return (
            f'<div style="color: inherit"><p><b>{_escape(self.title)}</b></p>{self._decision()}'
            f'<table style="border-collapse: collapse; color: inherit"><thead><tr style="background: none">{head}</tr>'
            f"</thead><tbody>{rows}</tbody></table>"
            + (f'<p style="opacity: 0.8">{_escape(remarks)}</p>' if remarks else "")
            + f"<p>{_link(self.directory / 'report.html')}</p></div>"
        )

    def _decision(self) -> str:
        if self.card is None:
            return f"<p>{_escape(self.verdict)}</p>"
        lines = [_escape(f"{what} {text}".strip()) for what, text, _ in self.card.lines]
        lines += [f"<code>{_escape(self.card.command)}</code>"] if self.card.command else []
        start = f"<p><b>{_escape(self.card.title)}</b> ({_escape(self.card.note)})</p>"
        return start + "".join(f'<p style="margin: 0.1em 0">{line}</p>' for line in lines)


def closing_lines(study: Study) -> list[str]:
    """How a command ends that has made a study: its table and its card."""
    return glance_at_study(compare(study)).lines()


def card_lines(card: Card) -> list[str]:
    """The card for a terminal: at most 80 columns, but for the command, which has to stay on one line."""
    lines = _wrapped(_clean(f"{card.title} ({card.note})"), _WIDE)
    wide = max((cell_len(what) for what, _, _ in card.lines), default=0) + 2
    for what, text, _ in card.lines:
        rows = _wrapped(_clean(text), _WIDE - wide - 2)
        heads = [_clean(what), *[""] * (len(rows) - 1)]
        lines += [f"  {set_cell_size(head, wide)}{row}" for head, row in zip(heads, rows, strict=True)]
    return [*lines, "", f"  {_clean(card.command)}"] if card.command else lines


def glance_at_study(c: Comparison) -> Glance:
    record, entries = c.study.record, c.study.runs
    done = sum(run is not None and run.done for _, run in entries)
    planned = sum(1 if s.fixed else len(record.seeds) for s in record.settings)
    title = f"{_name(c.study.directory)}: {done} of {several(max(planned, len(entries)), 'run')} done"
    columns = (
        Column("setting"),
        Column(f"{c.split or ''} {c.metric.title}".strip(), numeric=True),
        Column("n", numeric=True),
        Column("95 % interval", numeric=True),
        Column("training", numeric=True),
    )
    rows = []
    for setting in c.settings[:_MOST]:
        s = setting.summary(c.split or "", c.metric.name)
        shown = mean_and_deviation(s, 3) if s["n"] > 1 else figure(s["mean"], 3)
        expected = c.expected(setting.name)
        cells = (title_of(setting.name), shown, str(s["n"]), interval(expected.low, expected.high))
        spent = duration(setting.cost("training_seconds"))
        rows.append(Row((*cells, spent), _role(c, setting)))
    for name, s in c.baselines(c.split, c.metric.name).items() if c.split else ():
        shown = mean_and_deviation(s, 3) if s["n"] > 1 else figure(s["mean"], 3)
        rows.append(Row((title_of(name), shown, "", "", duration(c.baseline_seconds(name))), "baseline"))
    notes = varied(c)[:_MOST]
    if len(c.settings) > _MOST:
        notes.append(f"{len(c.settings) - _MOST} more settings are in .table.")
    if record.final_settings:
        notes.append(f"Settings that were tried: {len(record.settings)}; .table has them all.")
    made = Table("", columns, tuple(rows))
    return Glance(title, verdict_of_study(c), made, tuple(notes), c.study.directory, card(c))


def _role(c: Comparison, setting: Setting) -> Role:
    return "best" if setting.name == c.chosen else "baseline" if setting.baseline else ""


def glance_at_run(run: Run) -> Glance:
    state = "done" if run.done else run.manifest.state if "state" in run.manifest.written else "not done"
    sets, judged = run.metrics.splits, judged_set(run)
    metrics = list(dict.fromkeys([primary_of(run), *(m for s in sets.values() for m in scored(run, s))]))[:4]
    columns = (Column("set"), *(Column(m.title, numeric=True) for m in metrics), Column("n", numeric=True))

    def cells(name: str, scores: Scores) -> tuple[str, ...]:
        return (name, *(figure(scores.number(m.name), 3) for m in metrics), count(scores.n))

    rows = [Row(cells(name, scores)) for name, scores in sets.items()]
    theirs = run.metrics.baselines if judged else {}
    rows += [Row(cells(title_of(name), b.scores(judged)), "baseline") for name, b in theirs.items() if judged in b.sets]
    notes = (f"The baselines are judged on {judged}.",) if theirs else ()
    verdict = "This run has no scores yet." if judged is None else verdict_of_run(run, judged)
    return Glance(f"{_name(run.directory)}: {state}", verdict, Table("", columns, tuple(rows)), notes, run.directory)


def _name(directory: Path) -> str:
    return directory.resolve().name


def _text_table(made: Table) -> list[str]:
    """The first column takes what the others leave of the line."""
    rows = [[_clean(c.title) for c in made.columns]]
    rows += [[_clean(str(cell)) for cell in row.cells] for row in made.rows]
    roles = ["", *(row.role for row in made.rows)]
    widths = [max(cell_len(row[i]) for row in rows) for i in range(len(made.columns))]
    widths[0] = max(10, min(widths[0] + 2, _WIDE - 2 - sum(width + 2 for width in widths[1:])))
    lines = []
    for (first, *others), role in zip(rows, roles, strict=True):
        name = f"({_cut(first, widths[0] - 2)})" if role == "baseline" else _cut(first, widths[0])
        cells = [set_cell_size(name, widths[0])]
        cells += [" " * (w - cell_len(cell)) + cell for cell, w in zip(others, widths[1:], strict=True)]
        lines.append(("  ".join(cells) + (" *" if role == "best" else "")).rstrip())
    return lines


def _cut(text: str, width: int) -> str:
    return text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + "…"


def _wrapped(text: str, width: int) -> list[str]:
    """Lines of at most so many columns, of which a wide character takes two; what is longer than a line is cut up."""
    lines = [""]
    for word in text.split(" "):
        lines = lines if cell_len(f"{lines[-1]} {word}") <= width or not lines[-1] else [*lines, ""]
        line = f"{lines[-1]} {word}".strip(" ")
        while cell_len(line) > width:
            part = set_cell_size(line, width).rstrip()
            lines, line = [*lines[:-1], part, ""], line[len(part) :]
        lines[-1] = line
    return lines


def _clean(text: str) -> str:
    """On one line, without what would move a terminal's cursor or change its colours."""
    return visible(" ".join(text.split()))


def _escape(text: str) -> str:
    return escape(visible(text))


def _cell(tag: str, text: str, numeric: bool, style: str = "") -> str:
    side = "right" if numeric else "left"
    return f'<{tag} style="{_LINE}; text-align: {side}; {style}">{_escape(text)}</{tag}>'


def _link(report: Path) -> str:
    """Relative to where the notebook works, which its server can follow; else to the file."""
    if not report.is_file():
        return "No report yet."
    whole, here = report.absolute(), Path.cwd()
    inside = whole.is_relative_to(here)
    href = "./" + quote(whole.relative_to(here).as_posix()) if inside else whole.as_uri()
    style = "color: inherit; text-decoration: underline"
    return f'<a href="{escape(href)}" target="_blank" style="{style}">{escape(str(report))}</a>'
