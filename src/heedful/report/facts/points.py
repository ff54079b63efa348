"""The numbers of a run one by one, under the names that curves and mirrors give them."""

from dataclasses import dataclass
from typing import Any

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
        if line.step is None:
            continue
        named: dict[str, float | None] = {"train/loss": line.loss}
        named |= {f"train/loss/{term}": value for term, value in line.terms.items()}
        named["train/lr"] = line.lr
        named |= {f"dev/{key}": value for key, value in line.scores.items()}
        for name, scores in line.others.items():
            named |= {f"{name}/{key}": scores.number(key) for key in scores.extra}
        logged += [Point(name, int(line.step), line.epoch, value) for name, value in named.items() if value is not None]
    return logged


def finals(run: Run) -> dict[str, float]:
    """The scores of the finished run that are one number, final/<set>/<metric>, and what it cost, cost/<what>."""
    cost = run.manifest.cost
    numbers = {f"cost/{key}": cost.number(key) for key in cost.written}
    for split, scores in run.metrics.splits.items():
        numbers |= {f"final/{split}/{key}": scores.number(key) for key in scores.extra if key != "n"}
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
