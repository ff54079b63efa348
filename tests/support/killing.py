"""Runs that are killed, and go on."""

import json
import random
import time
from pathlib import Path

from heedful.recipes.schema import Recipe
from tests.support.training_samples import Child, assert_same_run


def step_on_disk(directory: Path) -> int:
    try:
        return int(json.loads((directory / "checkpoints/state.json").read_text())["step"])
    except OSError:
        return 0


def kill_and_go_on(recipe: Recipe, directory: Path, kills: int, draw: random.Random) -> int:
    """By turns: while a state is written, a random time after a random step, at a random time. Returns the kills."""
    done = 0
    for attempt in range(3 * kills):
        child = Child(recipe, 7, directory)
        start, wait, goal = time.monotonic(), draw.uniform(0, 0.3), step_on_disk(directory) + draw.randint(1, 5)
        while child.process.is_alive() and time.monotonic() - start < 20:
            if attempt % 3 == 0 and step_on_disk(directory) >= goal and any(directory.glob(".checkpoints.*.new")):
                break
            if attempt % 3 == 1 and step_on_disk(directory) >= goal:
                time.sleep(draw.uniform(0, 0.02))
                break
            if attempt % 3 == 2 and time.monotonic() - start > wait:
                break
            time.sleep(0.0002)
        done += child.kill()
        if done == kills or not child.killed:
            break
    Child(recipe, 7, directory).finish()
    return done


def survive(kills: int, recipe: Recipe, folder: Path, expected: Path, draw: random.Random) -> None:
    """Life after life, until this many kills have been survived."""
    done = 0
    for life in range(10 * kills):
        if done >= kills:
            return
        directory = folder / str(life) / "run"
        done += kill_and_go_on(recipe, directory, min(6, kills - done), draw)
        assert_same_run(directory, expected)
    raise AssertionError(f"every run ended before it could be killed, but for {done}")
