"""Searches that learn: the same settings every time, pruned as Optuna's own pruner would, resumed as they were."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heedful.errors import RequestError
from heedful.recipes.reading import make_recipe, sweep_settings
from heedful.recipes.schema import Range
from heedful.report.study import write_reports
from heedful.studies.executors import in_processes, in_turn
from heedful.studies.parts import choose
from heedful.studies.plan import plan_recipe
from heedful.studies.study import run_study
from heedful.studies.tpe import Trial, propose, thresholds
from tests.support.training_samples import assert_same_run, tiny_recipe, write_data, write_tiny

optuna = pytest.importorskip("optuna", reason="heedful[sweep] is not installed")

LR = Range(low=1e-6, high=1e-1, log=True)


def peak(values: dict[str, Any]) -> float:
    """Best at 1e-3."""
    return -float((np.log10(values["training.lr"]) + 3) ** 2)


def searched(trials: int, seed: int) -> list[Trial]:
    tried: list[Trial] = []
    while len(tried) < trials:
        tried += [Trial(v, peak(v)) for v in propose({"training.lr": LR}, tried, 4, trials, seed)]
    return tried


def test_it_finds_the_peak_sooner_than_chance() -> None:
    """Over ten seeds, the best of 24 trials is nearer to the peak than the best of 24 random draws."""
    found = [max(t.score or 0 for t in searched(24, seed)) for seed in range(10)]
    by_chance = [max(-((np.random.default_rng(s).uniform(-6, -1, 24) + 3) ** 2)) for s in range(1000)]
    assert np.mean(found) > np.mean(by_chance)
    assert np.median(found) > np.median(by_chance)


def test_the_same_is_proposed_each_time() -> None:
    assert searched(12, 3) == searched(12, 3)
    assert searched(12, 3) != searched(12, 4)


def test_nothing_is_tried_twice_and_the_end_is_known() -> None:
    axes: dict[str, Any] = {"training.batch_size": [4, 8, 16, 32], "training.epochs": Range(low=1, high=5)}
    for trials in (9, 20, 30):
        tried: list[Trial] = []
        for _ in range(12):  # with a clear peak, at which TPE would like to stay
            count = min(4, trials - len(tried))
            values = propose(axes, tried, count, trials, 0) if count else []
            tried += [Trial(v, -abs(v["training.batch_size"] - 8) - abs(v["training.epochs"] - 3)) for v in values]
        assert len(tried) == min(trials, 20)
        assert len({json.dumps(t.values) for t in tried}) == len(tried)


def test_ranges_are_kept() -> None:
    axes: dict[str, Any] = {"a.b": Range(low=3, high=5), "a.c": Range(low=0.1, high=0.2)}
    for values in propose(axes, [], 20, 20, 0):
        assert values["a.b"] in (3, 4, 5)
        assert 0.1 <= values["a.c"] <= 0.2


@pytest.mark.parametrize("seed", range(8))
def test_pruning_is_optunas(seed: int) -> None:
    """A run is stopped at the epoch at which Optuna's median pruner stops a trial with the same scores."""
    draw = np.random.default_rng(seed)
    earlier = [dict(enumerate(draw.uniform(size=6).tolist(), start=1)) for _ in range(5)]
    ours = dict(enumerate(draw.uniform(size=6).tolist(), start=1))
    study = optuna.create_study(direction="maximize", pruner=optuna.pruners.MedianPruner(n_startup_trials=3))
    for curve in earlier:
        study.add_trial(optuna.trial.create_trial(value=curve[6], intermediate_values=curve))
    trial, theirs = study.ask(), None
    for epoch, score in ours.items():
        trial.report(score, epoch)
        if trial.should_prune():
            theirs = epoch
            break
    needed = thresholds(earlier)
    stops = [e for e in ours if max(ours[k] for k in ours if k <= e) < needed[e]]
    assert (stops[0] if stops else None) == theirs


def test_few_runs_are_no_bar() -> None:
    assert thresholds([{1: 0.5}, {1: 0.6}]) == {}
    assert thresholds([{1: 0.5}, {1: 0.6}, {1: 0.1, 2: 0.9}]) == {1: 0.5, 2: 0.9}


def test_a_stopped_setting_is_not_chosen() -> None:
    rows = [
        {"setting": "a", "metric": "accuracy", "higher_is_better": True, "dev_mean": 0.9, "pruned": 1},
        {"setting": "b", "metric": "accuracy", "higher_is_better": True, "dev_mean": 0.8},
    ]
    assert choose(rows) is rows[1]
    assert choose(rows[:1]) is rows[0]


def test_ranges_as_typed() -> None:
    assert sweep_settings(["training.lr=1e-5..1e-3", "training.epochs=2..5"]) == [
        "study.training.lr={low = 1e-05, high = 0.001, log = true}",
        "study.training.epochs={low = 2, high = 5, log = false}",
    ]
    assert sweep_settings(["model.name=../a,../b"]) == ['study.model.name=["../a", "../b"]']


@pytest.mark.parametrize(
    ("study", "words"),
    [
        ({"training": {"lr": {"low": 1e-5, "high": 1e-3}}}, "is a range, so settings must be drawn"),
        ({"training": {"lr": {"low": 1e-3, "high": 1e-5}}, "search": "tpe", "trials": 4}, "low must be below high"),
        ({"training": {"lr": {"low": 0, "high": 1, "log": True}}, "search": "tpe", "trials": 4}, "above 0 with log"),
        ({"training": {"lr": [1e-3]}, "search": "tpe"}, r"needs study\.trials"),
        ({"training": {"lr": [1e-3]}, "prune": True}, r"study\.prune means nothing"),
        ({"rows": [{"training": {"lr": 1e-3}}], "search": "tpe", "trials": 2}, "means nothing with rows"),
        (
            {"training": {"lr": {"low": 1e-5, "hihg": 1e-3}}, "search": "tpe", "trials": 2},
            r"did you mean study.training.lr.high",
        ),
        ({"training": {"lr": {"low": 1e-5}}, "search": "tpe", "trials": 2}, r"study\.training\.lr\.high is missing"),
        (
            {"training": {"epochs": [2, 9]}, "search": "tpe", "trials": 2, "prune": True},
            "do not search over training.epochs",
        ),
        ({"data": {"options": [{"size": 3}]}, "search": "tpe", "trials": 2}, "words and numbers alone"),
    ],
)
def test_mistakes(study: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        plan_recipe(make_recipe({"model": {"name": "x"}, "data": {"name": "tickets"}, "study": study}), "r", (0,))


def test_random_draws_from_ranges() -> None:
    study = {"training": {"lr": {"low": 1e-5, "high": 1e-2, "log": True}, "epochs": {"low": 2, "high": 4}}}
    content = {
        "model": {"name": "x"},
        "data": {"name": "tickets"},
        "study": {**study, "search": "random", "trials": 60},
    }
    recipes = [s.recipe.training for s in plan_recipe(make_recipe(content), "r", (0,)).settings]
    assert {r.epochs for r in recipes} == {2, 3, 4}
    assert all(1e-5 <= r.lr <= 1e-2 for r in recipes)
    assert 20 < sum(r.lr < 10**-3.5 for r in recipes) < 40  # half of them below the middle of the logarithms


SEARCH = {
    "training": {"lr": {"low": 1e-5, "high": 2e-2, "log": True}}, "search": "tpe", "trials": 8, "round": 4,
    "final_seeds": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    recipe = tiny_recipe(write_tiny(folder / "model"), write_data(folder / "data", 60, 30), study=SEARCH)
    run_study(plan_recipe(recipe, "r", (0,)), folder / "study", command="x", quiet=True, threads=1)
    return folder / "study"


def plan_again(study: Path, seeds: tuple[int, ...] = (0,), **changes: Any) -> Any:
    folder, search = study.parent, {**SEARCH, **changes}
    if changes.get("test") == "all":
        del search["final_seeds"]
    data = {"train": str(folder / "data/train.csv"), "dev": str(folder / "data/dev.csv")}
    data |= {"test": str(folder / "data/test.csv"), "text": "text", "label": "label"}
    return plan_recipe(tiny_recipe(folder / "model/tiny", data, study=search), "r", seeds)


def test_a_search_in_rounds(study: Path, tmp_path: Path) -> None:
    facts = json.loads((study / "study.json").read_text())
    chosen = facts["runs"][-1]["name"]
    assert [r["name"] for r in facts["runs"]] == [*(f"r-{i}-seed0" for i in range(1, 9)), chosen]
    assert [s["name"] for s in facts["settings"]] == [f"r-{i}" for i in range(1, 9)]
    manifests = {r["name"]: json.loads((study / f"runs/{r['name']}/manifest.json").read_text()) for r in facts["runs"]}
    first, second = ([manifests[f"r-{i}-seed0"] for i in numbers] for numbers in (range(1, 5), range(5, 9)))
    assert not any("thresholds" in m for m in [*first, manifests[chosen]])
    logs = [(study / f"runs/r-{i}-seed0/log.jsonl").read_text().splitlines() for i in range(1, 5)]
    scores = [[x["dev"]["accuracy"] for x in map(json.loads, log) if "dev" in x] for log in logs]
    expected = {str(e + 1): float(np.median([s[e] for s in scores])) for e in range(3)}
    assert all(m["thresholds"] == expected for m in second)
    for i, m in enumerate(second, start=5):
        lines = (study / f"runs/r-{i}-seed0/log.jsonl").read_text().splitlines()
        reached = [x["dev"]["accuracy"] for x in map(json.loads, lines) if "dev" in x]
        behind = [e for e in (1, 2) if max(reached[:e], default=0) < expected[str(e)] and len(reached) >= e]
        assert m.get("pruned") == (behind[0] if behind else None)
        assert len(reached) == (behind[0] if behind else 3)
    assert any("pruned" in m for m in second)
    stopped = next(i for i, m in enumerate(second, start=5) if "pruned" in m)
    shutil.copytree(study, tmp_path / "study")
    study = tmp_path / "study"
    write_reports(study)
    words = f"Stopped after epoch {second[stopped - 5]['pruned']}: behind the median"
    assert words in (study / f"runs/r-{stopped}-seed0/report.md").read_text()
    report = (study / "report.md").read_text()
    assert f"(stopped at mark {second[stopped - 5]['pruned']})" in report
    assert "proposed by TPE, round by round" in report
    rows = {r["setting"]: r for r in facts["table"]}
    whole = [r for n, r in rows.items() if "final" not in n and not r.get("pruned")]
    assert rows[chosen.removesuffix("-seed1")]["training.lr"] == max(whole, key=lambda r: r["dev_mean"])["training.lr"]


def test_the_same_after_a_stop(study: Path, tmp_path: Path) -> None:
    plan = plan_again(study)
    calls = 0

    def stopped(tasks: Any, watch: Any) -> Any:
        nonlocal calls
        for result in in_turn(tasks, watch):
            calls += 1
            yield result
            if calls == 6:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_study(plan, tmp_path / "study", command="x", quiet=True, executor=stopped, threads=1)
    run_study(plan, tmp_path / "study", command="x", quiet=True, threads=1)
    ours, theirs = (json.loads((d / "study.json").read_text()) for d in (tmp_path / "study", study))
    assert ours["settings"] == theirs["settings"]
    assert ours["runs"] == theirs["runs"]
    for run in ours["runs"]:
        assert_same_run(tmp_path / "study/runs" / run["name"], study / "runs" / run["name"])


@pytest.mark.full
def test_the_same_in_processes(study: Path, tmp_path: Path) -> None:
    plan = plan_again(study)
    run_study(plan, tmp_path / "study", command="x", quiet=True, executor=in_processes(2), threads=1)
    for run in json.loads((study / "study.json").read_text())["runs"]:
        assert_same_run(tmp_path / "study/runs" / run["name"], study / "runs" / run["name"])


def test_other_seeds_are_another_search(study: Path) -> None:
    with pytest.raises(RequestError, match="contains a different study"):
        run_study(plan_again(study, (0, 1)), study, command="x", quiet=True, threads=1)


def test_a_round_that_had_begun_stays(study: Path, tmp_path: Path) -> None:
    """The scores of the first round change, as if a failed run had been made since: the second stays as it was, and so
    does what its runs had to reach."""
    copy = tmp_path / "study"
    shutil.copytree(study, copy)
    for i in range(1, 5):
        log = copy / f"runs/r-{i}-seed0/log.jsonl"
        log.write_text(re.sub(r'"accuracy": [\d.]+', f'"accuracy": 0.9{i}', log.read_text()))
        metrics = copy / f"runs/r-{i}-seed0/metrics.json"
        metrics.write_text(re.sub(r'"accuracy": [\d.]+', f'"accuracy": 0.9{i}', metrics.read_text()))
    shutil.rmtree(copy / "runs/r-8-seed0")
    before = json.loads((study / "study.json").read_text())
    facts = run_study(plan_again(study), copy, command="x", quiet=True, threads=1)
    assert facts["settings"] == before["settings"]
    assert facts["thresholds"] == before["thresholds"]
    assert_same_run(copy / "runs/r-8-seed0", study / "runs/r-8-seed0")
    assert facts["final_settings"][0]["name"] == "r-4-final"  # by the new scores


def test_another_search_is_refused(study: Path) -> None:
    for change in ({"trials": 9}, {"prune": False}, {"draw_seed": 1}):
        with pytest.raises(RequestError, match="contains a different study"):
            run_study(plan_again(study, **change), study, command="x", quiet=True, threads=1)


def test_the_best_of_all_rounds_is_kept(study: Path, tmp_path: Path) -> None:
    facts = run_study(plan_again(study, test="all", trials=6), tmp_path / "s", command="x", quiet=True, threads=1)
    assert "final_settings" not in facts
    best = choose(facts["table"])
    assert best is not None
    ours = (tmp_path / f"s/runs/{best['setting']}-seed0/model/model.safetensors").read_bytes()
    assert (tmp_path / "s/best/model.safetensors").read_bytes() == ours
    statistics = json.loads((tmp_path / "s/statistics.json").read_text())
    assert statistics["chosen"] == best["setting"]
    stopped = {r["setting"] for r in facts["table"] if r.get("pruned")}
    assert not stopped & {row["b"] for row in statistics["comparisons"]}
