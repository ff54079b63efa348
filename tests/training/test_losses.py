"""Loss files: what small recipes of every kind logged and scored before the engine was rebuilt, and still do."""

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from loss_recipes import FOLDER, loss_recipes, measure

NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))
EXACT = bool(os.environ.get("HEEDFUL_EXACT"))
"""To the bit, which one machine can promise itself; else to six digits."""


@pytest.fixture(scope="module")
def recipes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return dict(loss_recipes(tmp_path_factory.mktemp("losses")))


@cache
def kept(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def test_each_recipe_has_a_file(recipes: dict[str, Any]) -> None:
    assert sorted(recipes) == NAMES
    assert len(NAMES) >= 12


@pytest.mark.parametrize("name", NAMES)
def test_nothing_moved(name: str, recipes: dict[str, Any], tmp_path: Path) -> None:
    found, expected = _leaves(measure(recipes[name], tmp_path / "run")), _leaves(kept(name))
    assert [path for path, _ in found] == [path for path, _ in expected]
    for (path, value), (_, number) in zip(found, expected, strict=True):
        assert value == number if EXACT else value == pytest.approx(number, rel=1e-6, abs=1e-6), path


def test_the_files_would_show_another_seed(recipes: dict[str, Any], tmp_path: Path) -> None:
    """The negative control: they are not all the same, and a moved loss is seen."""
    other = recipes["bert-full"].model_copy(
        update={"training": recipes["bert-full"].training.model_copy(update={"lr": 2.001e-3})}
    )
    pairs = zip(_leaves(measure(other, tmp_path / "run")), _leaves(kept("bert-full")), strict=True)
    assert any(value != pytest.approx(number, rel=1e-6, abs=1e-6) for (_, value), (_, number) in pairs)


def _leaves(content: Any, path: str = "") -> list[tuple[str, Any]]:
    if isinstance(content, dict):
        return [leaf for key in sorted(content) for leaf in _leaves(content[key], f"{path}/{key}")]
    if isinstance(content, list):
        return [leaf for i, one in enumerate(content) for leaf in _leaves(one, f"{path}/{i}")]
    return [(path, content)]
