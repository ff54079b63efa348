"""The numbers of a run one by one, under the names that curves and mirrors give them."""

from dataclasses import dataclass
from typing import Any

from heedful.storage.reading import mapping, number
from heedful.storage.runs import Run


@dataclass(frozen=True)
class Point:
    name: str
    """train/loss, train/loss/ and a term of it, train/lr, or an evaluation set and a metric (dev/accuracy)."""
    step: int
    epoch: float | None
    value: float


def points(run: Run) -> list[Point]:
    """What log.jsonl holds, in its order. Numbers that are not defined are left away."""
    logged = []
    for line in run.log:
        step = number(line, "step")
        if step is None:
            continue
        named = {"train/loss": number(line, "loss")}
        named |= {f"train/loss/{term}": number(mapping(line, "terms"), term) for term in mapping(line, "terms")}
        named["train/lr"] = number(line, "lr")
        for name in line:
            if name != "terms":
                named |= {f"{name}/{key}": number(mapping(line, name), key) for key in mapping(line, name)}
        epoch = number(line, "epoch")
        logged += [Point(name, int(step), epoch, value) for name, value in named.items() if value is not None]
    return logged


def finals(run: Run) -> dict[str, float]:
    """The scores of the finished run that are one number, final/<set>/<metric>, and what it cost, cost/<what>."""
    numbers = {f"cost/{key}": number(mapping(run.manifest, "cost"), key) for key in mapping(run.manifest, "cost")}
    for split, scores in run.scores().items():
        numbers |= {f"final/{split}/{key}": number(scores, key) for key in scores if key != "n"}
    return {name: value for name, value in numbers.items() if value is not None}


def dotted(nested: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested tables as dotted keys, the spelling of `--set`; what is not set is left away."""
    flat: dict[str, Any] = {}
    for key, value in nested.items():
        if isinstance(value, dict):
            flat |= dotted(value, f"{prefix}{key}.")
        elif value is not None:
            flat[f"{prefix}{key}"] = value
    return flat
