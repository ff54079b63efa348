"""Helpers for printing, shared by the commands."""

import json
import sys
import textwrap
from typing import Annotated, Any

import typer

Header = Annotated[
    bool | None,
    typer.Option("--header/--no-header", help="Treat the first line as column names; default: detect."),
]


def print_json(facts: Any) -> None:
    json.dump(facts, sys.stdout, indent=2, ensure_ascii=False)
    print()


def size(count: float) -> str:
    """Format a number of bytes: 12.3 MB."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.2f} GB"


def field(name: str, text: str) -> str:
    """Format a name and its value on as many lines as needed, without breaking words."""
    start = f"{name:<12}"
    return textwrap.fill(
        text, 80, initial_indent=start, subsequent_indent=" " * 12, break_long_words=False, break_on_hyphens=False
    )


def without_controls(text: str) -> str:
    """Replace control characters, which a terminal would obey, by visible symbols; line ends and tabs stay."""
    return text.translate(_PICTURES)


_PICTURES = {code: 0x2400 + code for code in range(32) if code not in (9, 10)}
_PICTURES |= {127: 0x2421, **dict.fromkeys(range(128, 160), 0xFFFD)}
