"""A study to mirror, and its log as the mirrors are to hold it."""

import json
from pathlib import Path
from typing import Any

from tests.support.report_samples import make_study


def write_study(folder: Path) -> Path:
    """Two settings with two seeds each; the last run has failed and left no files."""
    settings = {"minilm · full": (3.0, 61.0), "it's": (1.0, 9.0)}
    return make_study(folder / "reviews", ["no", "yes"], n=30, seeds=(1, 2), settings=settings, failed=1, tested=True)


def lines(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]


def series(run: Path) -> dict[str, list[tuple[int, float]]]:
    """What log.jsonl holds, read without any code of ours."""
    log = lines(run)
    return {
        "train/loss": [(x["step"], x["loss"]) for x in log if "loss" in x],
        "train/lr": [(x["step"], x["lr"]) for x in log if "lr" in x],
        "dev/accuracy": [(x["step"], x["dev"]["accuracy"]) for x in log if "dev" in x],
    }


def go_on(run: Path, step: int) -> None:
    with (run / "log.jsonl").open("a") as file:
        file.write(json.dumps({"step": step, "epoch": 4, "loss": 0.125}) + "\n")
