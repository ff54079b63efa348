"""Numbers as people read them; the same string wherever a figure appears, in HTML and in Markdown."""

from typing import Any

NOTHING = "–"
"""Stands where there is no number: an en dash, never a zero."""
LEVEL = "95\N{NO-BREAK SPACE}%"
"""Of every interval."""

_BASELINES = {
    "random": "guessing at random",
    "majority": "the commonest class",
    "mean": "the mean of training",
    "tfidf": "TF-IDF and a linear model",
}


def baseline_title(name: str) -> str:
    return _BASELINES.get(name, name)


def capital(text: str) -> str:
    """With a capital at its beginning."""
    return text[:1].upper() + text[1:]


def figure(value: float | None, digits: int = 4) -> str:
    if value is None:
        return NOTHING
    text = f"{value:.{digits}f}"
    return text.replace("-", "−") if float(text) else f"{0:.{digits}f}"


def mean_and_deviation(summary: dict[str, Any], digits: int = 4) -> str:
    """The mean never stands without its deviation; of one seed there is none, and the dash says so."""
    if summary["mean"] is None:
        return NOTHING
    return f"{figure(summary['mean'], digits)} ± {figure(summary['std'], digits)}"


def interval(summary: dict[str, Any], digits: int = 4) -> str:
    if summary["low"] is None:
        return NOTHING
    return f"{figure(summary['low'], digits)} to {figure(summary['high'], digits)}"


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
