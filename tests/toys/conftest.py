"""An installed package of toys, for commands in processes of their own and for this one."""

import configparser
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from heedful import plugins
from heedful.recipes.reading import recipe_type
from tests.support.toy_world import ENTRY_POINTS, TOYS, install_toys
from tests.support.training_samples import write_tiny


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an installed package of toys, a model, and lines to learn from."""
    folder = tmp_path_factory.mktemp("world")
    install_toys(folder)
    write_tiny(folder / "model")
    (folder / "toy.toml").write_text(
        f"""
[model]
name = "{folder}/model/tiny"
[data]
train = "{folder}/lines.txt"
[objective]
kind = "lines"
warm_weight = 0.25
[tuning]
method = "tethered"
pull = 0.5
[training]
steps = 45
mark_steps = 10
batch_size = 8
accumulate = 2
lr = 3e-3
threads = 1
device = "cpu"
checkpoint_seconds = 0
"""
    )
    return folder


@pytest.fixture
def heedful_command(world: Path) -> Any:
    paths = [str(world / "site"), str(TOYS), os.environ.get("PYTHONPATH", "")]

    def start(*arguments: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "heedful", *arguments], cwd=world, text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in paths if p)},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    return start


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The toys are installed for this process."""
    groups = configparser.ConfigParser()
    groups.read_string(ENTRY_POINTS)
    points = [
        EntryPoint(name, f"tests.toys.{at}", group) for group in groups.sections() for name, at in groups[group].items()
    ]

    def found(group: str, name: str | None = None) -> list[EntryPoint]:
        return [p for p in points if p.group == group and name in (None, p.name)]

    monkeypatch.setattr(plugins, "entry_points", found)
    recipe_type.cache_clear()
    yield
    recipe_type.cache_clear()
