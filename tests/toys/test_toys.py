"""The seams hold: an objective and a tuning of another package go through everything that ours do."""

import json
from pathlib import Path
from typing import Any

import pytest

import heedful
from tests.support.toy_world import finish, kill
from tests.support.training_samples import assert_same_run, read_log


@pytest.mark.full  # each line starts a process; tests/recipes/test_plugins.py asks the same of functions
def test_their_keys_are_explained_and_misspellings_are_noticed(world: Path, heedful_command: Any) -> None:
    assert "Weight of the second loss." in finish(heedful_command("recipes", "--explain", "objective.warm_weight"))
    assert "How strongly" in finish(heedful_command("recipes", "--explain", "tuning.pull"))
    assert "did you mean objective.warm_weight?" in finish(
        heedful_command("run", "toy.toml", "--set", "objective.warm_wait=1"), 2
    )
    assert "did you mean 'lines'?" in finish(heedful_command("run", "toy.toml", "--set", "objective.kind=line"), 2)
    assert "choose from gap, felt" in finish(heedful_command("run", "toy.toml", "--set", "evaluation.metric=bleu"), 2)
    endless = (world / "toy.toml").read_text().replace("steps = 45\n", "").replace("mark_steps = 10\n", "")
    (world / "endless.toml").write_text(endless)
    assert "training.steps is missing" in finish(heedful_command("run", "endless.toml"), 2)


@pytest.mark.full
@pytest.mark.parametrize("kills", [1, 3])
def test_run_kill_and_resume(kills: int, world: Path, heedful_command: Any) -> None:
    finish(heedful_command("run", "toy.toml", "--out", "whole", "--workers", "1"))
    assert kill(kills, world, heedful_command, "toy") == kills
    finish(heedful_command("run", "toy.toml", "--out", "killed-toy", "--workers", "1"))
    assert_same_run(world / "whole/runs/toy-seed0", world / "killed-toy/runs/toy-seed0", but_for=("command",))
    log = read_log(world / "whole/runs/toy-seed0")
    assert [line["step"] for line in log if "dev" in line] == [10, 20, 30, 40, 45]
    assert [line["mark"] for line in log if "dev" in line] == [1, 2, 3, 4, 5]
    assert set(log[0]["terms"]) == {"long", "warm", "penalty"}
    assert sum(log[0]["terms"].values()) == pytest.approx(log[0]["loss"])


@pytest.mark.full
def test_compare_statistics_report_results(world: Path, heedful_command: Any) -> None:
    settings = ["objective.kind=lines", "training.steps=40", "training.batch_size=8", "training.threads=1"]
    said = finish(
        heedful_command(
            "compare", "lines.txt", "--models", "model/tiny", "--methods", "tethered,full", "--seeds", "2", "--workers",
            "2", "--out", "study", *(part for s in settings for part in ("--set", s)),
        )
    )  # fmt: skip
    assert "gap" in said
    study = heedful.results(world / "study")
    rows = {row["setting"]: row for row in study.table}
    assert set(rows) == {"tiny-tethered", "tiny-full"}
    assert all(row["metric"] == "gap" and row["n"] == 2 for row in rows.values())
    statistics = json.loads((world / "study/statistics.json").read_text())
    (comparison,) = statistics["comparisons"]
    best = min(rows, key=lambda name: rows[name]["dev_mean"])  # the smaller gap is the better one
    assert comparison["a"] == best
    other = next(name for name in rows if name != best)
    difference = rows[best]["test_mean"] - rows[other]["test_mean"]
    assert comparison["difference"] == pytest.approx(difference, abs=1e-9)
    assert best in study.verdict
    assert "gap in length" in (world / "study/report.md").read_text()
    assert (world / "study/best/model.safetensors").exists()
    runs = [world / f"study/runs/{best}-seed{seed}" for seed in (0, 1)]
    gaps = [json.loads((run / "metrics.json").read_text())["splits"]["dev"]["gap"] for run in runs]
    kept = (world / "study/best/model.safetensors").read_bytes()
    assert kept == (runs[gaps.index(min(gaps))] / "model/model.safetensors").read_bytes()
    run = study.runs[0]
    assert [point["step"] for point in run.curve("dev/gap")] == [40]
    assert len(run.predictions("test")) == 15


@pytest.mark.full
def test_a_search_leaves_the_test_set_alone_until_it_has_chosen(world: Path, heedful_command: Any) -> None:
    arguments = ["run", "toy.toml", "--out", "search", "--sweep", "training.lr=1e-3,3e-3", "--workers", "1"]
    finish(heedful_command(*arguments, "--set", "training.steps=10", "--set", "study.final_seeds=1"))
    runs = {path.parent.name: json.loads(path.read_text()) for path in (world / "search/runs").glob("*/metrics.json")}
    assert len(runs) == 3
    for name, metrics in runs.items():
        assert ("test" in metrics["splits"]) == ("final" in name), name
        assert (world / f"search/runs/{name}/predictions/test.tsv").exists() == ("final" in name)
