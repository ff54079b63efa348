"""The toys as an installed package, and commands that use it."""

import json
import random
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.support.training_samples import sentences

TOYS = Path(__file__).parents[1] / "toys"
ENTRY_POINTS = """
[heedful.objectives]
lines = toy_objective:Lines
topics = toy_topics:Topics
towers = toy_towers:Contrast
[heedful.tunings]
tethered = toy_tuning:Tethered
[heedful.studies]
budgets = toy_study:Budgets
"""


def install_toys(folder: Path) -> None:
    """In folder/site, which must be on the path beside TOYS; and lines.txt to learn from."""
    installed = folder / "site/toys-1.0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: toys\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text(ENTRY_POINTS)
    (folder / "lines.txt").write_text("\n".join(text for text, _ in sentences(90)) + "\n")


def finish(process: "subprocess.Popen[str]", code: int = 0) -> str:
    out, err = process.communicate(timeout=240)
    assert process.returncode == code, err
    return out + err


def kill(kills: int, world: Path, heedful_command: Any, name: str) -> int:
    """Start the run of NAME.toml in the folder killed-NAME so many times, and kill it after a few steps. Return how
    many were killed before they had ended."""
    draw, out = random.Random(4), f"killed-{name}"
    shutil.rmtree(world / out, ignore_errors=True)
    state = world / out / f"runs/{name}-seed0/checkpoints/state.json"
    for done in range(kills):
        process = heedful_command("run", f"{name}.toml", "--out", out, "--workers", "1")
        goal = step_in(state) + draw.randint(1, 10)
        while process.poll() is None and not (state.exists() and step_in(state) >= goal):
            time.sleep(0.001)
        if process.poll() is not None:
            return done
        process.kill()
        process.wait()
    return kills


def step_in(state: Path) -> int:
    try:
        return int(json.loads(state.read_text())["step"])
    except (OSError, ValueError):
        return 0
