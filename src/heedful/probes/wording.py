"""What the sentences of all probes share."""

from collections.abc import Mapping
from typing import Any

from heedful.report.page.words import NOTHING

ALPHA = 0.05
Facts = Mapping[str, Any]
Line = tuple[str, str]
"""What a sentence is about, in a word or two, and the sentence."""


def models(found: Facts) -> str:
    """Return the number of models: "3 seeds", "one run", or nothing for a single model."""
    if not found["random"]:
        return ""
    return f"{len(found['seeds'])} seeds" if len(found["seeds"]) > 1 else "one run"


def shown(test: Facts) -> bool:
    return test["p_corrected"] is not None and bool(test["p_corrected"] <= ALPHA)


def percent(share: float | None) -> str:
    if share is None:
        return NOTHING
    return f"{100 * share:.1f}%" if share >= 0.001 or share == 0 else f"{100 * share:.2f}%"


def ends_in_percent(row: Facts) -> str:
    """Return the ends of an interval of shares: "1.0% to 3.2%"."""
    return NOTHING if row["low"] is None else f"{percent(row['low'])} to {percent(row['high'])}"


def interval_in_percent(row: Facts) -> str:
    """Return the same for a sentence: "95% CI 1.0% to 3.2%"."""
    return "no interval" if row["low"] is None else f"95% CI {ends_in_percent(row)}"
