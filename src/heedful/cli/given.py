"""Options that the user left out are None."""

from collections.abc import Mapping
from typing import Any

from heedful.errors import RequestError


def only_given(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def refuse_idle(options: Mapping[str, Any], why: str) -> None:
    """Refuse options that have no effect. `why` says with which other option, and the remedy."""
    for name, value in only_given(options).items():
        raise RequestError(f"--{name.replace('_', '-')} {value} has no effect {why}.")
