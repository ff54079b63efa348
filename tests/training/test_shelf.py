"""What the runs of a study share is made once, and makes no difference; nobody else works in a run's directory."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from heedful.errors import RequestError
from heedful.objectives.classify import Item, make_items, pack_items, unpack_items
from heedful.studies.plan import plan_recipe
from heedful.studies.study import run_study
from heedful.training import setting as settings
from heedful.training.run import execute
from heedful.training.shelf import Shelf, alone
from heedful.tuning import methods
from training_samples import (
    assert_same_run,
    tiny_model,
    tiny_recipe,
    write_data,
    write_tiny,
)


def test_items_come_back_from_tensors(tmp_path: Path) -> None:
    _, tokenizer = tiny_model(tmp_path)
    long = "a lovely film with a long plot " * 6
    for texts, pairs, chunked in [(["a film", long], None, True), (["a film", long], ["the plot", ""], False)]:
        items = make_items(tokenizer, texts, pairs, 12, chunked)
        assert unpack_items(pack_items(items)) == items
        assert any(len(i.chunks) > 1 or i.truncated for i in items)
    assert unpack_items(pack_items([])) == []
    assert unpack_items(pack_items([Item([[1, 2]], None, False)])) == [Item([[1, 2]], None, False)]


@pytest.mark.parametrize("method", ["frozen", "full"])
def test_a_study_tokenises_and_runs_a_frozen_body_once(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = tiny_recipe(write_tiny(tmp_path / "model"), write_data(tmp_path / "data"), method)
    for seed in (0, 1, 2):
        execute(recipe, seed, tmp_path / f"alone/r-seed{seed}", quiet=True)
    counts = {"tokens": 0, "features": 0}
    make, features = settings.make_items, methods.features_of

    def counted_items(*arguments: Any) -> Any:
        counts["tokens"] += len(arguments[1])
        return make(*arguments)

    def counted_features(transformer: Any, items: Any, device: Any) -> Any:
        counts["features"] += len(items)
        return features(transformer, items, device)

    monkeypatch.setattr(settings, "make_items", counted_items)
    monkeypatch.setattr(methods, "features_of", counted_features)
    study = run_study(plan_recipe(recipe, "r", (0, 1, 2)), tmp_path / "study", quiet=True)
    rows = sum(json.loads((tmp_path / "study/runs/r-seed0/manifest.json").read_text())["data"]["sizes"].values())
    assert counts["tokens"] == rows
    if method == "frozen":
        assert counts["features"] == rows
        costs = [json.loads((tmp_path / f"study/runs/r-seed{s}/manifest.json").read_text())["cost"] for s in (0, 1, 2)]
        assert all(cost["training_seconds"] > 0 for cost in costs)
    assert [run["state"] for run in study["runs"]] == ["done"] * 3
    for seed in (0, 1, 2):
        assert_same_run(tmp_path / f"alone/r-seed{seed}", tmp_path / f"study/runs/r-seed{seed}")
    assert not (tmp_path / "study/.shared").exists()


def test_what_differs_is_not_shared(tmp_path: Path) -> None:
    """Other seeds of fresh layers, other pooling, other lengths: each has a place of its own."""
    model, data = write_tiny(tmp_path / "model"), write_data(tmp_path / "data")
    recipes: list[dict[str, Any]] = [
        {},
        {"model": {"pooling": "max"}},
        {"training": {"max_length": 8}},
        {"tuning": {"reinit_layers": 1}},
    ]
    shelf = Shelf(tmp_path / "shelf")
    for i, tables in enumerate(recipes):
        recipe = tiny_recipe(model, data, "frozen", **tables)
        for seed in (0, 1):
            execute(recipe, seed, tmp_path / f"shared/{i}-{seed}", quiet=True, shelf=shelf)
            execute(recipe, seed, tmp_path / f"alone/{i}-{seed}", quiet=True)
            assert_same_run(tmp_path / f"shared/{i}-{seed}", tmp_path / f"alone/{i}-{seed}")


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    recipe = tiny_recipe(write_tiny(tmp_path / "model"), write_data(tmp_path / "data"))
    (tmp_path / "run").mkdir()
    waits = (
        "import sys, pathlib; from heedful.training.shelf import alone\n"
        "with alone(pathlib.Path(sys.argv[1])):\n    print('in', flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", waits, str(tmp_path / "run")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    assert other.stdout.readline() == "in\n"
    with pytest.raises(RequestError, match="another process is at work there"):
        execute(recipe, 7, tmp_path / "run", quiet=True)
    other.kill()
    other.wait()
    assert execute(recipe, 7, tmp_path / "run", quiet=True)["state"] == "done"


def test_the_lock_is_free_again(tmp_path: Path) -> None:
    for _ in range(2):
        with alone(tmp_path), pytest.raises(RequestError, match="another process"), alone(tmp_path):
            pass


def test_frozen_bodies_and_token_budgets_do_not_go_together(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"training\.batch_tokens mean nothing for a frozen body"):
        tiny_recipe(tmp_path, {"name": "tickets"}, "frozen", training={"batch_tokens": 64})
