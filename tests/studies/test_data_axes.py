"""Studies whose settings differ in their data: each run is judged by its own rows, and shares nothing it should not."""

import json
from pathlib import Path
from typing import Any

import pytest

from heedful.data import loading
from heedful.errors import RequestError
from heedful.recipes.reading import make_recipe
from heedful.report.study import write_reports
from heedful.studies.plan import plan_recipe
from heedful.studies.study import run_study
from heedful.training.run import execute
from tests.support.training_samples import assert_same_run, sentences, tiny_recipe, write_csv, write_tiny


def recipe_with(study: dict[str, Any], data: dict[str, Any], model: Path, **tables: Any) -> Any:
    tables["training"] = {"epochs": 1, **tables.get("training", {})}
    base = tiny_recipe(model, data, evaluation={"baselines": True}, **tables)
    return make_recipe({**base.identity(), "study": study})


def test_each_file_is_read_once_and_others_rows_are_not_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [str(write_csv(tmp_path / f"{n}.csv", ("text", "label"), sentences(70, n))) for n in (1, 2)]
    reads: list[str] = []
    inner = loading.load_dataset
    monkeypatch.setattr(loading, "load_dataset", lambda **keys: reads.append(keys["train"]) or inner(**keys))
    data = {"train": files[0], "text": "text", "label": "label"}
    recipe = recipe_with({"data": {"train": files}, "test": "all"}, data, write_tiny(tmp_path / "model"))
    run_study(plan_recipe(recipe, "r", (0, 1)), tmp_path / "study", quiet=True)
    assert reads == files
    statistics = json.loads((tmp_path / "study/statistics.json").read_text())
    (left_out,) = statistics["not_compared"]
    assert "was tested on other rows" in left_out["reason"]
    row, *floors = statistics["comparisons"]
    assert {row["a"], row["b"]} == {"tfidf", *(s for s in ("r-1", "r-2") if s != left_out["setting"])}
    assert [(floor["a"], floor["b"]) for floor in floors] == [(row["a"], "majority"), (row["a"], "random")]
    write_reports(tmp_path / "study")
    assert left_out["reason"] in (tmp_path / "study/report.md").read_text()


def test_a_baseline_has_the_gold_of_the_chosen_setting(tmp_path: Path) -> None:
    """The same rows with another column of labels: TF-IDF is tested on those of the setting that is best on dev."""
    rows = [(text, label, "odd" if len(text) % 2 else "even") for text, label in sentences(90)]
    path = str(write_csv(tmp_path / "a.csv", ("text", "good", "parity"), rows))
    data = {"train": path, "text": "text", "label": "parity"}
    study = {"data": {"label": ["parity", "good"]}, "test": "all"}
    model = write_tiny(tmp_path / "model")
    recipe = recipe_with(study, data, model, training={"epochs": 6, "lr": 5e-3})
    run_study(plan_recipe(recipe, "r", (0, 1)), tmp_path / "study", quiet=True)
    statistics = json.loads((tmp_path / "study/statistics.json").read_text())
    # the second one's labels can be learned: the first one's gold would be seen
    metrics = [json.loads((tmp_path / f"study/runs/r-2-seed{s}/metrics.json").read_text()) for s in (0, 1)]
    ours = sum(m["splits"]["test"]["accuracy"] for m in metrics) / 2
    theirs = metrics[0]["baselines"]["tfidf"]["test"]["accuracy"]
    (row,) = [row for row in statistics["comparisons"] if {row["a"], row["b"]} == {"r-2", "tfidf"}]
    assert row["difference"] == pytest.approx((ours - theirs) * (1 if row["a"] == "r-2" else -1), abs=1e-9)


def test_settings_that_are_judged_by_different_metrics_are_refused(tmp_path: Path) -> None:
    rows = [(text, label, f"{len(text) / 7:.3f}") for text, label in sentences(60)]
    path = str(write_csv(tmp_path / "a.csv", ("text", "good", "length"), rows))
    data = {"train": path, "text": "text", "label": "good"}
    recipe = recipe_with({"data": {"label": ["good", "length"]}}, data, write_tiny(tmp_path / "model"))
    with pytest.raises(RequestError, match="judged by accuracy and pearson, which cannot be ranked together"):
        run_study(plan_recipe(recipe, "r", (0,)), tmp_path / "study", quiet=True)


def test_a_tokenizer_that_was_trained_on_other_rows_is_not_shared(tmp_path: Path) -> None:
    """In a learning curve each seed draws its own rows, and a tokenizer trained on them is its own as well."""
    path = str(write_csv(tmp_path / "a.csv", ("text", "label"), sentences(120)))
    content = {
        "model": {"shape": "bert-tiny"},
        "tokenizer": {"kind": "wordpiece", "size": 150},
        "data": {"train": path, "text": "text", "label": "label"},
        "training": {"epochs": 1, "max_length": 32, "threads": 1, "device": "cpu"},
        "evaluation": {"baselines": False},
        "study": {"curve": [0.3, 1.0]},
    }
    plan = plan_recipe(make_recipe(content), "r", (0, 1))
    run_study(plan, tmp_path / "study", command="x", quiet=True)
    for seed in (0, 1):
        execute(plan.settings[0].recipe, seed, tmp_path / f"r-0.3-seed{seed}", command="x", quiet=True)
        assert_same_run(tmp_path / f"r-0.3-seed{seed}", tmp_path / f"study/runs/r-0.3-seed{seed}")
