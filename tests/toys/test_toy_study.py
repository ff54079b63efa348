"""A kind of study of another package: its settings follow from budgets and sizes, and it chooses nothing."""

import json
import shutil
import time
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

import heedful
from heedful import plugins
from heedful.cli.run import _until_decided
from heedful.errors import RequestError
from heedful.recipes.reading import all_keys, explain_key, make_recipe, recipe_type
from heedful.report.study import write_reports
from heedful.studies.parts import StudyPlan
from heedful.studies.plan import plan_recipe
from heedful.studies.study import run_study
from tests.support.corpus_samples import corpus_recipe, write_text
from tests.toys.test_toys import finish, heedful_command, world  # noqa: F401 (fixtures)

STUDY: dict[str, Any] = {"kind": "budgets", "sizes": [[1, 8], [1, 16]], "budgets": [8e6, 4e7], "halve": True}
NAMES = ["r-1x8-8e+06", "r-1x8-4e+07", "r-1x16-8e+06", "r-1x16-4e+07", "r-1x8-4e+06", "r-1x16-4e+06"]


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> Any:
    points = [EntryPoint("budgets", "tests.toys.toy_study:Budgets", "heedful.studies")]
    monkeypatch.setattr(
        plugins,
        "entry_points",
        lambda group, name=None: [p for p in points if (p.group, name or p.name) == (group, p.name)],
    )
    recipe_type.cache_clear()
    yield
    recipe_type.cache_clear()


def plan(folder: Path, **study: Any) -> StudyPlan:
    recipe = corpus_recipe(
        write_text(folder / "text.txt"), {"kind": "causal"}, model={"shape": "gpt-mini"}, tokenizer={"kind": "bpe"}
    )
    content = {**recipe.identity(), "study": {**STUDY, **study}}
    return plan_recipe(make_recipe(content), "r", (0,))


def test_steps_and_rates_follow_from_budgets_and_sizes(offered: None, tmp_path: Path) -> None:
    settings = plan(tmp_path).settings
    assert [s.name for s in settings] == NAMES[:4]
    steps = [s.recipe.training.steps for s in settings]
    assert steps == [round(flops / (6 * 12 * width**2 * 6 * 32)) for width in (8, 16) for flops in (8e6, 4e7)]
    assert [s.recipe.training.lr for s in settings] == [0.1 / width for width in (8, 8, 16, 16)]
    assert dict(settings[0].values) == {"model.layers": 1, "model.width": 8, "budget": 8e6}


def test_its_keys_are_explained_and_misspellings_are_noticed(offered: None, tmp_path: Path) -> None:
    assert "study.budgets" in all_keys()
    assert explain_key("study.halve").startswith('study.halve  (of "budgets"; bool; default False)')
    assert '"budgets": Several sizes' in explain_key("study.kind")
    for changes, words in (
        ({"size": []}, r"there is no key study\.size; did you mean study\.sizes\?"),
        ({"kind": "budget"}, "did you mean 'budgets'"),
        ({"kind": "compare"}, r"leave \[study\] out"),
        ({"trials": 3}, r'study\.trials means nothing with study\.kind = "budgets"'),
        ({"sizes": [[1, 8], [1, 7]]}, r"\[study\]: "),
    ):
        with pytest.raises(RequestError, match=words):
            plan(tmp_path, **changes)


def test_from_runs_to_report_without_a_choice(offered: None, tmp_path: Path) -> None:
    out = tmp_path / "study"
    study = run_study(plan(tmp_path), out, command="x", quiet=True, threads=1)
    assert [run["name"] for run in study["runs"]] == [f"{name}-seed0" for name in NAMES]
    assert (study["kind"], "chosen" in study, (out / "best").exists()) == ("budgets", False, False)
    statistics = json.loads((out / "statistics.json").read_text())
    assert statistics["chosen"] is None
    assert statistics["comparisons"] == []
    assert set(statistics["lowest"]) == {"4000000.0", "8000000.0", "40000000.0"}
    write_reports(out)
    report = (out / "report.md").read_text()
    assert "does not choose a setting" in report
    assert "## Budgets" in report
    assert statistics["lowest"]["40000000.0"] in report
    found = heedful.results(out)
    assert {row["setting"] for row in found.table} >= set(NAMES)
    assert found.chosen == {}
    assert "does not choose" in found.verdict
    assert "r-1x16-4e+07" in repr(found)
    with pytest.raises(RequestError, match="does not choose a setting"):
        _ = found.best
    before = (out / "statistics.json").read_bytes()
    assert run_study(plan(tmp_path), out, command="x", quiet=True, threads=1) == study
    assert (out / "statistics.json").read_bytes() == before
    with pytest.raises(RequestError, match="contains a different study"):
        run_study(plan(tmp_path, halve=False), out, quiet=True)


def test_there_is_nothing_to_decide(offered: None, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match='a study of kind "budgets" chooses no setting'):
        _until_decided(plan(tmp_path), True, None, None)


def test_its_report_survives_the_package(offered: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_study(plan(tmp_path, halve=False, budgets=[4e6]), tmp_path / "study", command="x", quiet=True, threads=1)
    monkeypatch.setattr(plugins, "entry_points", lambda **_: [])
    write_reports(tmp_path / "study")
    assert "## Budgets" not in (tmp_path / "study/report.md").read_text()


@pytest.mark.full
def test_killed_and_resumed(world: Path, heedful_command: Any) -> None:  # noqa: F811
    write_text(world / "text.txt")
    (world / "sweep.toml").write_text(
        """
seeds = 1
[model]
shape = "gpt-mini"
[tokenizer]
kind = "bpe"
size = 300
[data]
corpus = "text.txt"
dev_share = 0.2
[objective]
kind = "causal"
[training]
max_length = 32
batch_size = 6
threads = 1
device = "cpu"
checkpoint_seconds = 0
steps = 1
[study]
kind = "budgets"
sizes = [[1, 8], [1, 16]]
budgets = [2e7, 4e7]
halve = true
"""
    )
    finish(heedful_command("run", "sweep.toml", "--out", "whole-sweep", "--workers", "1"))
    shutil.rmtree(world / "killed-sweep", ignore_errors=True)
    for done in (1, 4):
        process = heedful_command("run", "sweep.toml", "--out", "killed-sweep", "--workers", "1")
        while process.poll() is None and len(list(world.glob("killed-sweep/runs/*/metrics.json"))) < done:
            time.sleep(0.001)
        assert process.poll() is None
        process.kill()
        process.wait()
    finish(heedful_command("run", "sweep.toml", "--out", "killed-sweep", "--workers", "1"))
    whole, killed = (heedful.results(world / name) for name in ("whole-sweep", "killed-sweep"))
    assert len(whole.runs) == 6
    for one, other in zip(whole.runs, killed.runs, strict=True):
        weights = [run.directory / "model/model.safetensors" for run in (one, other)]
        assert weights[0].read_bytes() == weights[1].read_bytes()
    assert whole.statistics == killed.statistics
