"""Real studies by other metrics than accuracy: table, statistics and report agree on values and direction."""

import json
from pathlib import Path

import pytest

import heedful
from heedful.evaluation.metrics import METRICS, pseudo_values
from heedful.report.study import write_study_report
from heedful.storage.examples import read_values
from heedful.studies.parts import choose
from heedful.studies.plan import plan_recipe
from heedful.studies.study import run_study
from tests.support.training_samples import sentences, tiny_recipe, write_csv, write_data, write_tiny


def write_scores(folder: Path) -> dict[str, str]:
    """The same texts with a number to predict: how long they are."""
    every = sentences(64)
    parts = {"train": every[:40], "dev": every[40:52], "test": every[52:]}
    folder.mkdir()
    for split, rows in parts.items():
        write_csv(folder / f"{split}.csv", ("text", "label"), [(text, len(text) / 7 + 0.25) for text, _ in rows])
    return {**{split: str(folder / f"{split}.csv") for split in parts}, "text": "text", "label": "label"}


@pytest.mark.parametrize("name", ["macro_f1", "log_loss", "pearson"])
def test_a_study_by_it(name: str, tmp_path: Path) -> None:
    files = write_scores(tmp_path / "data") if name == "pearson" else write_data(tmp_path / "data")
    study = {"test": "all", "training": {"lr": [1e-6, 3e-3]}}
    changes = {"training": {"epochs": 3}, "evaluation": {"metric": name, "baselines": True}, "study": study}
    recipe = tiny_recipe(write_tiny(tmp_path), files, "full", **changes)
    out = tmp_path / "study"
    run_study(plan_recipe(recipe, "tiny", range(2)), out, quiet=True)
    metric, opened = METRICS[name], heedful.results(out)
    assert isinstance(opened, heedful.Study)
    for run in opened.runs:
        for split in ("dev", "test"):
            _, columns = read_values(run.directory / "values" / f"{split}.tsv")
            assert pseudo_values(metric, columns)[0] == pytest.approx(run.metrics["splits"][split][name], abs=1e-9)
    best = choose(opened.table)
    assert best is not None
    assert all(not metric.better(row["dev_mean"], best["dev_mean"]) for row in opened.table)
    statistics = json.loads((out / "statistics.json").read_text())
    assert (statistics["chosen"], statistics["metric"]) == (best["setting"], name)
    against = {row["b"]: row["difference"] for row in statistics["comparisons"] if row["a"] == best["setting"]}
    means = {row["setting"]: row["test_mean"] for row in opened.table}
    floors = ("majority", "random")
    assert set(means) == {"tiny-1", "tiny-2", "tfidf"} == {best["setting"], *against}.difference(floors)
    means |= {floor: opened.baselines[floor]["test"][name] for floor in floors if floor in against}
    assert means["tfidf"] == opened.baselines["tfidf"]["test"][name]
    for other, difference in against.items():
        assert difference == pytest.approx(best["test_mean"] - means[other], abs=1e-9)
    write_study_report(out)
    assert metric.title in (out / "report.md").read_text(encoding="utf-8")
