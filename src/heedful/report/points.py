"""The numbers of a run one by one, under the names that curves and mirrors give them."""

from dataclasses import dataclass
from typing import Any

from heedful.report.files import Run, number, table


@dataclass(frozen=True)
class Point:
    name: str
    """train/loss, train/lr, or dev/ and a metric."""
    step: int
    epoch: float | None
    value: float


def points(run: Run) -> list[Point]:
    """What log.jsonl holds, in its order. Numbers that are not defined are left away."""
    found = []
    for line in run.log:
        step = number(line, "step")
        if step is None:
            continue
        named = {"train/loss": number(line, "loss"), "train/lr": number(line, "lr")}
        named |= {f"dev/{key}": number(table(line, "dev"), key) for key in table(line, "dev")}
        epoch = number(line, "epoch")
        found += [Point(name, int(step), epoch, value) for name, value in named.items() if value is not None]
    return found


def finals(run: Run) -> dict[str, float]:
    """The scores of the finished run that are one number, final/<split>/<metric>, and what it cost, cost/<what>."""
    found = {f"cost/{key}": number(table(run.manifest, "cost"), key) for key in table(run.manifest, "cost")}
    for split, scores in run.scores().items():
        found |= {f"final/{split}/{key}": number(scores, key) for key in scores if key != "n"}
    return {name: value for name, value in found.items() if value is not None}


def dotted(nested: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested tables as dotted keys, the spelling of `--set`; what is not set is left away."""
    found: dict[str, Any] = {}
    for key, value in nested.items():
        if isinstance(value, dict):
            found |= dotted(value, f"{prefix}{key}.")
        elif value is not None:
            found[f"{prefix}{key}"] = value
    return found
