"""Numbers as people read them; the same string wherever a figure appears, in HTML and in Markdown."""

import re
import unicodedata
from typing import Any

NOTHING = "–"
"""Stands where there is no number: an en dash, never a zero."""
_BASELINES = {
    "random": "guessing at random",
    "majority": "the commonest class",
    "commonest": "the commonest answer",
    "mean": "the mean of training",
    "tfidf": "TF-IDF",
    "word-frequencies": "guessing by word frequency",
}
_AFTER_THE_NOUN = re.compile(r" (?=(?:for|of|on|over) )")


def title_of(name: str) -> str:
    """A setting or a baseline as a report calls it."""
    return _BASELINES.get(name, name)


def visible(text: str) -> str:
    """With an escape for each character that nobody sees and that a page or a chart may not hold: control characters
    (but for tab and newline), separators of lines and paragraphs, lone surrogates, noncharacters, and those that turn
    the direction of the text."""
    if text.isprintable():
        return text
    return "".join(f"\\u{ord(c):04x}" if _unseen(c) else c for c in text)


def _unseen(c: str) -> bool:
    code, category = ord(c), unicodedata.category(c)
    nowhere = code & 0xFFFE == 0xFFFE or 0xFDD0 <= code <= 0xFDEF
    turns = 0x202A <= code <= 0x202E or 0x2066 <= code <= 0x2069
    return nowhere or turns or category in ("Cs", "Zl", "Zp") or (category == "Cc" and c not in "\t\n")


def capital(text: str) -> str:
    """With a capital at its beginning."""
    return text[:1].upper() + text[1:]


def figure(value: float | None, digits: int = 4) -> str:
    if value is None:
        return NOTHING
    text = f"{value:.{digits}f}"
    return text.replace("-", "−") if float(text) else f"{0:.{digits}f}"


def amount(title: str, value: float | None, digits: int = 3) -> str:
    """A metric and its value as the object of a sentence: an accuracy of 0.912, 2.955 bits per byte, a loss of 4.384
    for each hidden word."""
    if " per " in title:
        return f"{figure(value, digits)} {title}"
    noun, *more = _AFTER_THE_NOUN.split(title, maxsplit=1)
    article = "an" if noun[:1].lower() in "aeiou" or noun.startswith("F1") else "a"
    return " ".join([article, noun, "of", figure(value, digits), *more])


def signed(value: float | None, digits: int = 3) -> str:
    """With its sign, as differences are written."""
    return NOTHING if value is None else f"{value:+.{digits}f}".replace("-", "−")


def probability(value: float | None) -> str:
    """A p value."""
    return NOTHING if value is None else "< 0.001" if value < 0.001 else f"{value:.3f}"


def equals(value: float) -> str:
    """A p value in a sentence."""
    return f"p {probability(value)}" if value < 0.001 else f"p = {probability(value)}"


def percent(level: float) -> str:
    return f"{100 * level:.4g}\N{NO-BREAK SPACE}%"


def mean_and_deviation(summary: dict[str, Any], digits: int = 4) -> str:
    """The mean never stands without its deviation; of one seed there is none, and the dash says so."""
    if summary["mean"] is None:
        return NOTHING
    return f"{figure(summary['mean'], digits)} ± {figure(summary['std'], digits)}"


def interval(low: float | None, high: float | None, digits: int = 3) -> str:
    return NOTHING if low is None or high is None else f"{figure(low, digits)} to {figure(high, digits)}"


def count(value: float | None) -> str:
    return NOTHING if value is None else f"{value:,.0f}"


def share(value: float | None) -> str:
    return NOTHING if value is None else f"{100 * value:.1f}\N{NO-BREAK SPACE}%"


def duration(seconds: float | None) -> str:
    if seconds is None:
        return NOTHING
    if seconds < 0.095:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def size(value: float | None) -> str:
    """Bytes, or operations, with the usual prefix."""
    return NOTHING if value is None else f"{_prefixed(value)}B"


def operations(value: float | None) -> str:
    return NOTHING if value is None else f"{_prefixed(value)}FLOP"


def _prefixed(value: float) -> str:
    for prefix in ("", "k", "M", "G", "T", "P"):
        if value < 999.5:
            return f"{value:.0f} {prefix}" if not prefix else f"{value:.1f} {prefix}"
        value /= 1000
    return f"{value:.1f} E"


def plain(value: Any) -> str:
    """Any JSON value in a line: what a recipe or a data description holds."""
    if value is None or value == "" or value == [] or value == {}:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(plain(v) for v in value)
    if isinstance(value, dict):
        return "; ".join(f"{k}: {plain(v)}" for k, v in value.items())
    return str(value)


def listed(names: list[str]) -> str:
    """a, b and c."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else ""


def several(n: int, one: str, many: str | None = None) -> str:
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def shortened(text: str, limit: int = 280) -> str:
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"
