"""Studies of pairs of texts: the cosine stands beside what is compared, once, and only where texts come in pairs."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from heedful.recipes.reading import make_recipe
from heedful.studies.plan import plan_comparison, plan_recipe
from heedful.studies.study import run_study
from heedful.tuning import features
from tests.support.training_samples import sentences, tiny_recipe, write_csv, write_tiny


@pytest.fixture
def world(tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    texts = sentences(60, seed=5)
    rows = [(a, b, "same" if x == y else "other") for (a, x), (b, y) in itertools.pairwise(texts)]
    path = write_csv(tmp_path / "pairs.csv", ("a", "b", "label"), rows)
    return write_tiny(tmp_path / "model"), {"train": str(path), "text": "a", "label": "label"}


def test_a_comparison_adds_it_once_and_shares_the_features(
    world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed, inner = [], features._compute
    monkeypatch.setattr(features, "_compute", lambda *a: (computed.append(a[-1].name), inner(*a)))
    changes = {"training": {"epochs": 1, "max_length": 20, "device": "cpu", "threads": 1}}
    plan = plan_comparison({**world[1], "pair": "b"}, [str(world[0])], ["frozen", "full"], (0, 1), changes)
    study = run_study(plan, tmp_path / "study", quiet=True)
    assert [s["name"] for s in study["settings"] if s["baseline"]] == ["tiny-cosine"]
    runs = {run["name"]: run["state"] for run in study["runs"]}
    assert sorted(runs) == ["tiny-cosine-seed0", "tiny-frozen-seed0", "tiny-full-seed0", "tiny-full-seed1"]
    assert set(runs.values()) == {"done"}
    assert len(computed) == 3  # train, dev and test, for frozen and cosine together
    statistics = json.loads((tmp_path / "study/statistics.json").read_text())
    assert statistics["settings"]["tiny-cosine"]["baseline"] is True


def test_data_without_pairs_get_none(world: Any, tmp_path: Path) -> None:
    rows = [{"data": {"pair": "b"}}, {"model": {"pooling": "mean"}}]
    base = tiny_recipe(*world, "solved", evaluation={"baselines": True})
    recipe = make_recipe({**base.identity(), "study": {"rows": rows, "test": "all"}})
    study = run_study(plan_recipe(recipe, "r", (0,)), tmp_path / "study", quiet=True)
    (added,) = [s for s in study["settings"] if s["baseline"]]
    assert added["recipe"]["data"]["pair"] == "b"
    assert [run["state"] for run in study["runs"]] == ["done"] * 3
