"""Options that the user has given, whatever their value, and those that were left out, which are None."""

from collections.abc import Mapping
from typing import Any

from heedful.errors import RequestError


def only_given(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def refuse_idle(options: Mapping[str, Any], why: str) -> None:
    """`options`: by their names in Python. `why`: beside what they have no effect, and the remedy."""
    for name, value in only_given(options).items():
        raise RequestError(f"--{name.replace('_', '-')} {value} has no effect {why}.")
