"""A report written: one HTML file and one Markdown file, with its pictures in the folder report/."""

import base64
import functools
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heedful.errors import RequestError, WorkError
from heedful.report.page import markdown
from heedful.report.page.glossary import WORDS, anchor, word_of
from heedful.report.page.pieces import Report
from heedful.report.page.words import visible
from heedful.storage.whole import write_bytes, write_text

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup

HERE = Path(__file__).parent
PICTURES = "report"
_GENERATOR = b'<meta name="generator" content="heedful">'


def write(report: Report, directory: Path, pictures: bool = True) -> None:
    """Writes report.html and report.md, and replaces the pictures of an earlier report; without pictures, which take
    nearly all of the time, the charts are on the page alone."""
    from heedful.report.page import charts

    folder = directory / PICTURES
    drawn = {
        stem: charts.png(chart)
        for figure in (report.figures() if pictures else ())
        for stem, _, chart in figure.stills or ((figure.name, figure.caption, figure.chart),)
    }
    try:
        if drawn:
            folder.mkdir(exist_ok=True)
        for old in folder.glob("*.png"):
            if old.stem not in drawn:
                old.unlink()
        for stem, content in drawn.items():
            write_bytes(folder / f"{stem}.png", content)
        write_text(directory / "report.md", visible(markdown.render(report, PICTURES if pictures else None)))
        write_text(directory / "report.html", page(report))
    except OSError as error:
        raise WorkError(f"the report cannot be written to {directory} ({error.strerror or error}).") from None


def check_page_place(path: Path) -> None:
    """Before anything is computed: an .html file in a folder that exists, which is new or a page of ours."""
    if path.suffix.lower() != ".html":
        raise RequestError(f"{path}: the ending must be .html.")
    if path.is_dir() or not path.parent.is_dir():
        raise RequestError(f"{path}: name a file in a folder that exists.")
    if path.exists():
        with path.open("rb") as file:
            if _GENERATOR not in file.read(2000):
                raise RequestError(f"{path}: is there already, and is no page of heedful; name another file.")


def page(report: Report) -> str:
    """The whole page. Its policy lets it ask the network for nothing and run these two scripts alone."""
    from markupsafe import Markup

    from heedful.report.page import charts

    specs = {figure.name: charts.for_page(figure.chart, figure.caption) for figure in report.figures()}
    scripts = [charts.bundle(), (HERE / "page.js").read_text(encoding="utf-8")] if specs else []
    sealed, digests = seal(scripts)
    return template(HERE, "page.html.j2").render(
        report=report,
        word_of=word_of if any(section.name == "words" for section in report.sections) else lambda _: None,
        anchor=anchor,
        meanings=WORDS,
        style=Markup((HERE / "page.css").read_text(encoding="utf-8")),  # noqa: S704 (our own file)
        scripts=sealed,
        digests=digests,
        specs=Markup(json_in_html(specs)),  # noqa: S704 (escaped for a script element)
    )


def seal(scripts: Sequence[str]) -> tuple[list["Markup"], list[str]]:
    """Scripts of libraries and our own as they stand in a page, and the digests by which its policy knows them."""
    from markupsafe import Markup

    whole = [script.replace("</script", r"<\/script").replace("<!--", r"<\!--") for script in scripts]
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in whole]
    return [Markup(script) for script in whole], digests  # noqa: S704 (no text of a user is in them)


@functools.cache
def template(folder: Path, name: str) -> "Template":
    """Everything that it is given is escaped, but for what is marked as safe."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(folder), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, finalize=_finalize,
    )  # fmt: skip
    return environment.get_template(name)


def _finalize(content: Any) -> Any:
    """What goes into the page, without characters that a page may not hold; what is ours stays as it is."""
    return content if hasattr(content, "__html__") or not isinstance(content, str) else visible(content)


def json_in_html(content: Any) -> str:
    """JSON that no HTML parser can leave early: every < > & is written as its escape, which JSON reads back."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
