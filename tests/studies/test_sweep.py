"""Searches: which settings are tried, which is chosen on dev, and that test is touched once, with fresh seeds."""

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from heedful.data.loading import load_data
from heedful.errors import RequestError
from heedful.recipes.reading import make_recipe, sweep_settings
from heedful.report.study import write_reports
from heedful.storage.runs import read_study
from heedful.storage.shared import SharedStore
from heedful.studies.curves import largest_sizes
from heedful.studies.executors import Result, in_turn
from heedful.studies.parts import StudyPlan, choose
from heedful.studies.plan import plan_comparison, plan_recipe
from heedful.studies.study import run_study
from heedful.studies.table import latex, markdown
from tests.support.training_samples import tiny_recipe, write_data, write_tiny

SMALL: dict[str, Any] = {"model": {"name": "minilm"}, "data": {"name": "tickets"}}


def plan_with(**study: Any) -> StudyPlan:
    return plan_recipe(make_recipe({**SMALL, "study": study}), "r", (0, 1))


def values_of(plan: StudyPlan) -> list[dict[str, Any]]:
    return [dict(s.values) for s in plan.settings]


def test_a_grid_is_every_combination() -> None:
    plan = plan_with(training={"lr": [1e-4, 1e-3], "epochs": [1, 2]}, model={"dropout": [0.3]})
    expected = [{"model.dropout": 0.3, "training.lr": lr, "training.epochs": e} for lr in (1e-4, 1e-3) for e in (1, 2)]
    assert values_of(plan) == expected
    for setting, values in zip(plan.settings, expected, strict=True):
        assert setting.recipe.training.lr == values["training.lr"]
        assert setting.recipe.training.epochs == values["training.epochs"]
        assert setting.recipe.model.dropout == 0.3
        assert setting.recipe.evaluation.test is False
    assert [s.name for s in plan.settings] == ["r-1", "r-2", "r-3", "r-4"]


def test_random_draws_without_repetition_and_depends_on_its_seed() -> None:
    axes = {"lr": [1e-5, 1e-4, 1e-3], "epochs": [1, 2, 3], "batch_size": [8, 16]}
    plans = [plan_with(training=axes, search="random", trials=7, draw_seed=s) for s in (0, 0, 1)]
    first, again, other = map(values_of, plans)
    assert first == again
    assert first != other
    assert len({json.dumps(v) for v in first}) == 7
    assert len(plan_with(training=axes, search="random", trials=100).settings) == 18


def test_rows_are_taken_as_they_are() -> None:
    rows = [{"training": {"lr": 1e-5, "epochs": 5}, "model": {"dropout": 0.2}}, {"training": {"lr": 1e-3}}]
    plan = plan_with(rows=rows, test="all")
    assert values_of(plan) == [
        {"training.lr": 1e-5, "training.epochs": 5, "model.dropout": 0.2},
        {"training.lr": 1e-3},
    ]
    assert plan.later_seeds == ()
    assert all(s.recipe.evaluation.test for s in plan.settings)


def test_a_key_of_one_method_is_tried_with_that_method() -> None:
    def plan(**axes: list[Any]) -> StudyPlan:
        changes = {"study": {"tuning": axes, "training": {"max_length": [16, 32]}}}
        return plan_comparison(SMALL["data"], ["minilm"], ["frozen", "full"], (0,), changes)

    found = [(s.method, s.values) for s in plan(layer_decay=[0.9, 1.0]).settings]
    lengths = [("training.max_length", length) for length in (16, 32)]
    full = [("full", (("tuning.layer_decay", decay), length)) for decay in (0.9, 1.0) for length in lengths]
    assert found == [("frozen", (length,)) for length in lengths] + full
    with pytest.raises(RequestError, match=r"there is no key tuning\.layer_dekay"):
        plan(layer_dekay=[0.9])


@pytest.mark.parametrize(
    ("study", "words"),
    [
        ({"training": {"lr": []}}, r"study\.training\.lr has no values"),
        ({"training": {"lrr": [1e-3]}}, r"setting 1 of the search: there is no key training\.lrr; did you mean"),
        ({"training": {"lr": ["fast"]}}, r"setting 1 of the search: training\.lr = 'fast' is not right"),
        ({"training": {"lr": [1e-3]}, "rows": [{"training": {"lr": 1e-3}}]}, "needs one of axes, rows and a curve"),
        ({"rows": [{"evaluation": {"test": True}}]}, "evaluation is not a table that can vary"),
        ({"training": {"seed": [[1]]}, "search": "random"}, r"needs study\.trials"),
        ({"training": {"epochs": list(range(1, 2000))}}, "makes 1999 settings"),
    ],
)
def test_mistakes(study: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        plan_with(**study)


def test_sweeps_as_typed() -> None:
    assert sweep_settings(["training.lr=1e-4,3e-4", "model.pooling=mean,max"]) == [
        "study.training.lr=[0.0001, 0.0003]",
        'study.model.pooling=["mean", "max"]',
    ]
    for wrong in ("training.lr", "=1,2", "training.lr="):
        with pytest.raises(RequestError, match="write key=value,value"):
            sweep_settings([wrong])


def test_compare_searches_each_method() -> None:
    """Of each, what it uses: a head that is solved has no learning rate."""
    study = {"training": {"lr": [1e-4, 1e-3]}}
    plan = plan_comparison({"name": "tickets"}, ["minilm"], ["frozen", "full"], (0,), {"study": study})
    assert [s.group for s in plan.settings] == ["minilm-frozen"] + ["minilm-full"] * 2
    assert [dict(s.values) for s in plan.settings] == [{}, {"training.lr": 1e-4}, {"training.lr": 1e-3}]
    both = plan_comparison(
        {"name": "tickets"}, ["minilm"], ["frozen", "full"], (0,), {"study": study, "tuning": {"solve": False}}
    )
    assert [s.group for s in both.settings] == ["minilm-frozen"] * 2 + ["minilm-full"] * 2
    with pytest.raises(RequestError, match=r"study\.training\.lr means nothing with"):
        plan_comparison({"name": "tickets"}, ["minilm"], ["frozen"], (0,), {"study": study})


def test_a_change_goes_to_the_methods_that_use_it() -> None:
    changes = {"training": {"epochs": 2, "max_length": 64}, "tuning": {"layer_decay": 0.9}}
    plan = plan_comparison({"name": "tickets"}, ["minilm"], ["frozen", "full"], (0,), changes)
    frozen, full = (s.recipe.identity() for s in plan.settings)
    assert frozen["training"] == {"max_length": 64}
    assert frozen["tuning"] == {"method": "frozen"}
    assert full["training"] == {"epochs": 2, "lr": 1e-4, "max_length": 64}
    assert full["tuning"]["layer_decay"] == 0.9
    with pytest.raises(RequestError, match=r"--set training\.epochs: means nothing with"):
        plan_comparison({"name": "tickets"}, ["minilm"], ["frozen"], (0,), {"training": {"epochs": 3}})
    with pytest.raises(RequestError, match=r"there is no key tuning\.layer_decay"):
        plan_comparison({"name": "tickets"}, ["minilm"], ["frozen"], (0,), {"tuning": {"layer_decay": 0.9}})


def test_choose_is_by_dev_alone() -> None:
    rows = [
        {"setting": "a", "metric": "accuracy", "higher_is_better": True, "dev_mean": 0.7, "test_mean": 0.9},
        {"setting": "b", "metric": "accuracy", "higher_is_better": True, "dev_mean": 0.8, "test_mean": 0.1},
        {"setting": "c", "n": 0},
    ]
    assert choose(rows) is rows[1]
    lower = {"metric": "log_loss", "higher_is_better": False}
    assert choose([{**r, **lower} for r in rows[:2]]) == {**rows[0], **lower}
    assert choose(rows[2:]) is None


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    search = {"training": {"lr": [1e-6, 5e-3]}, "final_seeds": 2}
    recipe = tiny_recipe(write_tiny(folder / "model"), write_data(folder / "data"), study=search)
    run_study(plan_recipe(recipe, "r", (0, 1)), folder / "study", command="x", quiet=True, threads=1)
    write_reports(folder / "study")
    return folder / "study"


def test_test_is_touched_once_with_fresh_seeds(study: Path) -> None:
    facts = json.loads((study / "study.json").read_text())
    n = facts["final_settings"][0]["name"].split("-")[1]
    assert [r["name"] for r in facts["runs"]] == [
        "r-1-seed0", "r-2-seed0", "r-1-seed1", "r-2-seed1", f"r-{n}-final-seed2", f"r-{n}-final-seed3",
    ]  # fmt: skip
    for run in facts["runs"]:
        splits = json.loads((study / "runs" / run["name"] / "metrics.json").read_text())["splits"]
        predicted = sorted(p.name for p in (study / "runs" / run["name"] / "predictions").iterdir())
        if "final" in run["name"]:
            assert set(splits) == {"dev", "test"}
        else:
            assert (set(splits), predicted) == ({"dev"}, ["dev.tsv"])
    rows = {r["setting"]: r for r in facts["table"]}
    best = max(("r-1", "r-2"), key=lambda name: rows[name]["dev_mean"])
    recipes = {s["name"]: s["recipe"] for s in [*facts["settings"], *facts["final_settings"]]}
    assert recipes[f"{best}-final"]["training"]["lr"] == recipes[best]["training"]["lr"]
    assert rows[f"{best}-final"]["n"] == 2
    model = (study / "best/model.safetensors").read_bytes()
    assert any((study / f"runs/{best}-final-seed{s}/model/model.safetensors").read_bytes() == model for s in (2, 3))


def test_the_tables(study: Path) -> None:
    with (study / "table.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(r["setting"], r["training.lr"], r["n"]) for r in rows] == [
        ("r-1", "1e-06", "2"), ("r-2", "0.005", "2"), (rows[-1]["setting"], rows[-1]["training.lr"], "2"),
    ]  # fmt: skip
    assert rows[0]["test_mean"] == ""
    text = (study / "table.md").read_text()
    assert "| setting | lr | dev accuracy | test accuracy | n |" in text
    assert f"{float(rows[0]['dev_mean']):.3f} ± {float(rows[0]['dev_std']):.3f} | – | 2 |" in text
    assert (study / "table.tex").read_text().count("\\\\") == 4
    facts = json.loads((study / "study.json").read_text())
    chosen = facts["chosen"]["setting"]
    assert [line.split("**")[1] for line in text.splitlines() if "**" in line] == [chosen]
    assert read_study(study).record.tried_and_chosen == {chosen.removesuffix("-final")}
    report = (study / "report.md").read_text()
    assert "## The search" in report
    assert all(value in report for value in ("| 1e-06 |", "| 0.005 |"))


def test_marks_and_escapes() -> None:
    rows = [
        {
            "setting": "a_b&c|d",
            "training.lr": 1e-3,
            "metric": "accuracy",
            "higher_is_better": True,
            "dev_mean": 0.5,
            "dev_std": 0.01,
            "n": 2,
        },
        {
            "setting": "best",
            "training.lr": 0.1,
            "metric": "accuracy",
            "higher_is_better": True,
            "dev_mean": 0.75,
            "n": 1,
        },
    ]
    assert "| **best** | **0.1** | **0.750** | **1** |" in markdown(rows, "best")
    baseline = {**rows[0], "setting": "tfidf", "baseline": True, "dev_mean": 0.7}
    final = [{**row, "setting": f"{row['setting']}-final"} for row in rows]
    for chosen in ("a_b&c|d", "best-final", "tfidf", None):
        bold = ["**" in line for line in markdown([*rows, *final, baseline], chosen).splitlines()[2:]]
        assert bold == [row["setting"] == chosen for row in [*rows, *final, baseline]]
    assert r"a_b&c\|d" in markdown(rows, None)
    made = latex(rows, "best")
    assert r"a\_b\&c|d & 0.001 & 0.500 $\pm$ 0.010 & 2 \\" in made
    assert r"\textbf{best} & \textbf{0.1} & \textbf{0.750} & \textbf{1} \\" in made


def test_a_curve_is_each_setting_on_each_size() -> None:
    plan = plan_with(curve=[0.25, 0.5, 1])
    assert values_of(plan) == [{"data.fraction": size} for size in (0.25, 0.5, 1.0)]
    assert [s.name for s in plan.settings] == ["r-0.25", "r-0.5", "r-1"]
    long = [0.1234561, 0.1234562]
    assert [s.name for s in plan_with(curve=long).settings] == ["r-0.1234561", "r-0.1234562"]
    assert all(s.recipe.evaluation.test for s in plan.settings)
    assert (plan.later_seeds, {s.group for s in plan.settings}) == ((), {"r"})
    assert values_of(plan_with(curve=[100, 200])) == [{"data.limit": 100}, {"data.limit": 200}]
    assert sweep_settings([], "0.25,0.5,1") == ["study.curve=[0.25, 0.5, 1]"]


def test_a_curve_trains_each_size_for_as_many_steps() -> None:
    def lengths(curve: list[float], **training: Any) -> list[tuple[int, int | None, int | None]]:
        content = {**SMALL, "training": training, "study": {"curve": curve}}
        tables = [s.recipe.training for s in plan_recipe(make_recipe(content), "r", (0, 1)).settings]
        return [(t.epochs, t.steps, t.patience) for t in tables]

    assert lengths([0.25, 0.5, 1], epochs=3, patience=2) == [(12, None, 8), (6, None, 4), (3, None, 2)]
    assert lengths([100, 400], epochs=3) == [(12, None, None), (3, None, None)]
    assert lengths([0.25, 0.5], steps=50) == [(3, 50, None)] * 2  # the recipe says how long
    assert lengths([0.5, 1], epochs=2, patience=3, mark_steps=10) == [(4, None, 3), (2, None, 3)]


@pytest.mark.parametrize(
    ("study", "words"),
    [
        ({"curve": [0.5]}, "neither rising shares"),
        ({"curve": [0.5, 0.25]}, "neither rising shares"),
        ({"curve": [0, 0.5]}, "neither rising shares"),
        ({"curve": [1, 10, 100]}, "neither rising shares"),
        ({"curve": [0.5, 1], "test": "all"}, r'study\.test means nothing with study\.kind = "curve"'),
        ({"training": {"lr": [1e-3]}, "trials": 2}, r'study\.trials means nothing with search = "grid"'),
        ({"training": {"lr": [1e-3]}, "round": 2, "search": "random", "trials": 1}, r"study\.round means nothing"),
        ({"rows": [{"training": {"lr": 1e-3}}], "draw_seed": 1}, r"study\.draw_seed means nothing with rows"),
        ({"search": "tpe", "trials": 20}, "it has none"),
        (
            {"training": {"warmup": {"low": 0.1, "high": 1.3}}, "search": "random", "trials": 2},
            r"an end of study\.training\.warmup: training\.warmup = 1\.3 is not right",
        ),
        ({"curve": ["half", 1]}, r"study\.curve"),
        ({"curve": [1.5, 2.5]}, r"data\.limit = 1\.5 is not right"),
        ({"curve": [0.5, 1], "training": {"lr": [1e-3]}}, r'study\.training means nothing with study\.kind = "curve"'),
    ],
)
def test_mistakes_in_a_curve(study: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        plan_with(**study)


def test_limit_and_fraction_exclude_each_other() -> None:
    content = {**SMALL, "data": {"name": "tickets", "limit": 5}, "study": {"curve": [0.5, 1]}}
    with pytest.raises(RequestError, match=r"leave data\.limit and data\.fraction out"):
        plan_recipe(make_recipe(content), "r", (0,))
    with pytest.raises(RequestError, match="keep one of the two"):
        make_recipe({**SMALL, "data": {"name": "tickets", "limit": 5, "fraction": 0.5}})


@pytest.mark.full
def test_a_curve_from_beginning_to_report(tmp_path: Path) -> None:
    recipe = tiny_recipe(
        write_tiny(tmp_path / "model"),
        write_data(tmp_path / "data"),
        evaluation={"baselines": True},
        study={"curve": [0.25, 0.5, 1]},
    )
    run_study(plan_recipe(recipe, "r", (0, 1)), tmp_path / "study", command="x", quiet=True, threads=1)
    (curve,) = json.loads((tmp_path / "study/statistics.json").read_text())["curves"]
    assert [p["rows"] for p in curve["points"]] == [10, 20, 40]
    assert curve["baseline"]["name"] == "tfidf"
    for point, size in zip(curve["points"], ("0.25", "0.5", "1"), strict=True):
        runs = [tmp_path / f"study/runs/r-{size}-seed{seed}/metrics.json" for seed in (0, 1)]
        found = [json.loads(run.read_text()) for run in runs]
        assert point["scores"] == [m["splits"]["test"]["accuracy"] for m in found]
        tfidf = next(t["scores"] for t in curve["baseline"]["points"] if t["rows"] == point["rows"])
        assert tfidf == [m["baselines"]["tfidf"]["test"]["accuracy"] for m in found]
    assert curve["fit"]["rows"] == 40
    facts = json.loads((tmp_path / "study/study.json").read_text())
    assert facts["chosen"]["setting"] in ("r-1", "tfidf")  # and no smaller size, however it does on dev
    assert facts["baselines"]["tfidf"]["test"]["accuracy"] == curve["baseline"]["points"][-1]["scores"][0]
    assert "predicted" not in facts["baselines"]["tfidf"]
    found = json.loads((tmp_path / "study/statistics.json").read_text())["comparisons"]
    against = next(one for one in found if "tfidf" in (one["a"], one["b"]))
    means = {r["setting"]: r["test_mean"] for r in facts["table"]}
    assert means["tfidf"] == curve["baseline"]["points"][-1]["scores"][0]
    assert against["difference"] == pytest.approx(means[against["a"]] - means[against["b"]])
    write_reports(tmp_path / "study")
    report = (tmp_path / "study/report.md").read_text()
    assert "## Would more labels help?" in report
    assert "Dashed is TF-IDF on the same rows" in report
    assert f"r: {curve['fit']['sentence']}" in report.partition("## ")[0]  # the verdict says it too
    assert "Next comes" not in report
    assert curve["fit"]["sentence"] in report
    assert (tmp_path / "study/report/rows.png").stat().st_size > 5000


def test_the_largest_size_of_a_curve_is_what_may_be_chosen() -> None:
    settings = plan_with(curve=[5, 20, 100]).settings
    other = replace(settings[0], name="cosine", values=(), group="")
    assert [s.name for s in largest_sizes([*settings, other])] == [settings[2].name, "cosine"]
    assert [s.name for s in largest_sizes(settings[:2])] == [settings[1].name]  # the largest that has a score


def test_each_seed_of_a_curve_has_rows_of_its_own(tmp_path: Path) -> None:
    recipe = plan_with(curve=[0.25, 0.5]).settings[0].recipe
    store = SharedStore(tmp_path)
    data = [load_data(recipe.data, seed, store) for seed in (0, 1, 0)]
    assert data[0].train.rows == data[2].train.rows != data[1].train.rows
    more = load_data(plan_with(curve=[0.25, 0.5]).settings[1].recipe.data, 0, store)
    assert set(data[0].train.rows) < set(more.train.rows)


def test_sizes_beyond_the_rows_are_refused(tmp_path: Path) -> None:
    recipe = tiny_recipe(write_tiny(tmp_path / "model"), write_data(tmp_path / "data"), study={"curve": [20, 400]})
    with pytest.raises(RequestError, match="400 rows are more than the 40"):
        run_study(plan_recipe(recipe, "r", (0,)), tmp_path / "study", command="x", quiet=True, threads=1)


def test_what_a_failure_hid_is_chosen_when_it_is_made(tmp_path: Path) -> None:
    """The better setting fails at first, so the other is chosen; when it is made, the choice and its runs change."""
    search = {"training": {"lr": [1e-8, 5e-3]}, "final_seeds": 1}
    recipe = tiny_recipe(write_tiny(tmp_path / "model"), write_data(tmp_path / "data", 60, 30), study=search)
    plan = plan_recipe(recipe, "r", (0,))

    def failing(tasks: Any, watch: Any) -> Any:
        for task in tasks:
            if task.name == "r-2-seed0":
                yield Result(task.name, "failed", "a power cut")
            else:
                yield from in_turn([task], watch)

    first = run_study(plan, tmp_path / "study", command="x", quiet=True, executor=failing, threads=1)
    assert [s["name"] for s in first["final_settings"]] == ["r-1-final"]
    second = run_study(plan, tmp_path / "study", command="x", quiet=True, threads=1)
    assert [s["name"] for s in second["final_settings"]] == ["r-2-final"]
    assert [r["name"] for r in second["runs"]] == ["r-1-seed0", "r-2-seed0", "r-2-final-seed1"]
    recipes = {s["name"]: s["recipe"] for s in [*second["settings"], *second["final_settings"]]}
    for run in second["runs"]:
        manifest = json.loads((tmp_path / "study/runs" / run["name"] / "manifest.json").read_text())
        assert manifest["recipe"] == recipes[run["setting"]]
    third = run_study(plan_recipe(recipe, "r", (0, 1)), tmp_path / "study", command="x", quiet=True, threads=1)
    assert third["table"][-1]["n"] == 1
    assert third["runs"][-1]["name"].endswith("-final-seed2")


def test_a_run_of_another_recipe_does_not_count(tmp_path: Path) -> None:
    recipe = tiny_recipe(write_tiny(tmp_path / "model"), write_data(tmp_path / "data"))
    plan = plan_recipe(recipe, "r", (0,))
    run_study(plan, tmp_path / "study", command="x", quiet=True, threads=1)
    path = tmp_path / "study/runs/r-seed0/manifest.json"
    path.write_text(path.read_text().replace('"epochs": 3', '"epochs": 4'))
    with pytest.raises(RequestError, match="a different recipe or seed"):
        run_study(plan, tmp_path / "study", command="x", quiet=True, threads=1)
