"""Seeds are added until each comparison with the chosen setting is decided, and nothing is added where that is vain."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from heedful.storage.runs import begun, read_study
from heedful.storage.statistics_record import Statistics
from heedful.studies.kinds.compare import Compare
from heedful.studies.kinds.until_decided import Until, UntilDecided, next_look, why_it_ended
from heedful.studies.parts import SettingPlan, StudyPlan
from heedful.studies.plan import plan_comparison
from heedful.studies.study import run_study
from tests.support.training_samples import tiny_recipe, write_data, write_tiny

FILES = {"train": "t.csv", "text": "text", "label": "label"}


def settings(*names: str) -> tuple[SettingPlan, ...]:
    recipe = tiny_recipe("minilm", FILES, "full")
    return tuple(SettingPlan(name, "m", "full", recipe) for name in names)


def statistics(*decided: tuple[str, str, bool], **more: Any) -> Statistics:
    rows = [{"a": "x", "b": b, "decided": state, "more_seeds_can_decide": can} for b, state, can in decided]
    rows.append({"a": "y", "b": "z", "decided": "open", "more_seeds_can_decide": True})  # not about the chosen one
    return Statistics.model_validate({"chosen": "x", "comparisons": rows, **more})


def test_the_chosen_one_and_those_that_it_is_not_told_apart_from_get_more_seeds() -> None:
    plan = StudyPlan(settings("x", "y", "z"), (0, 1, 2))
    found = next_look(plan, statistics(("y", "open", True), ("z", "different", True)), Until())
    assert found is not None
    assert [len(found.seeds_of(s)) for s in found.settings] == [5, 5, 3]
    again = next_look(found, statistics(("y", "alike", True), ("z", "different", True)), Until())
    assert again is None
    names = [job.name for job in found.jobs(Path("d"))]
    assert len(names) == len(set(names)) == 13
    assert names[:3] == ["x-seed0", "y-seed0", "z-seed0"]


def test_the_most_seeds_are_not_passed() -> None:
    plan: StudyPlan | None = StudyPlan(settings("x", "y"), (0, 1))
    counts = []
    while plan is not None:
        counts.append(len(plan.seeds_of(plan.settings[0])))
        plan = next_look(plan, statistics(("y", "open", True)), Until(most_seeds=10))
    assert counts == [2, 3, 5, 8, 10]


def test_nothing_is_added_where_seeds_cannot_decide() -> None:
    plan = StudyPlan(settings("x", "y"), (0, 1))
    assert next_look(plan, statistics(("y", "open", False)), Until()) is None


def test_why_it_ended() -> None:
    until = Until(most_seeds=4)
    assert "is decided, at look 2" in why_it_ended(statistics(("y", "alike", False), look=2), until)
    for seeds, why in ((3, "more seeds cannot decide it"), (4, "all 4 seeds are used up")):
        found = statistics(("y", "open", False), settings={"x": {"seeds": 1}, "y": {"seeds": seeds}})
        assert f"x against y stays open: {why}" in why_it_ended(found, until)
    assert "nothing to compare" in why_it_ended(Statistics(), until)


def test_a_baseline_gets_no_seeds() -> None:
    plan = StudyPlan(settings("x", "y"), (0, 1))
    found = next_look(plan, statistics(("tfidf", "open", True), ("y", "different", True)), Until())
    assert found is not None
    assert [len(found.seeds_of(s)) for s in found.settings] == [3, 2]


@pytest.fixture
def plan(tmp_path: Path) -> StudyPlan:
    files, model = write_data(tmp_path / "data"), str(write_tiny(tmp_path))
    training = {"epochs": 1, "max_length": 16}
    made = [
        plan_comparison(files, [model], ["full"], (0, 1), {"training": {**training, "lr": lr}}) for lr in (1e-3, 1e-5)
    ]
    settings = (made[0].settings[0], replace(made[1].settings[0], name="other"))
    kind = UntilDecided(made[0].kind, Until(difference=0.001, most_seeds=3))
    return replace(made[0], settings=settings, kind=kind)


def test_a_study_that_is_run_until_it_is_decided(
    plan: StudyPlan, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    """Twelve test rows decide nothing, whatever the seeds: here it is believed that they might."""
    monkeypatch.setattr("heedful.evaluation.statistics.compare.more_seeds_can_decide", lambda *_: True)
    out = tmp_path / "study"
    study = run_study(plan, out, command="until", quiet=True)
    found = json.loads((out / "statistics.json").read_text())
    seeds = {name: facts["seeds"] for name, facts in found["settings"].items()}
    assert found["look"] == 2
    assert found["alpha"] == pytest.approx(0.05 / 6)
    assert max(seeds.values()) == 3
    assert len(study["runs"]) == sum(n for name, n in seeds.items() if not found["settings"][name]["baseline"])
    monkeypatch.setattr("heedful.studies.study._task", None)  # nothing is made again
    before = (out / "statistics.json").read_bytes()
    assert run_study(plan, out, command="until", quiet=True) == study
    assert (out / "statistics.json").read_bytes() == before
    capsys.readouterr()
    fewer = run_study(replace(plan, kind=Compare()), out, command="without")
    left_out = sorted({run["name"] for run in study["runs"]} - {run["name"] for run in fewer["runs"]})
    assert left_out
    assert f"left out: {', '.join(left_out)}" in capsys.readouterr().err
    assert json.loads((out / "study.json").read_text())["command"] == fewer["command"] == "without"
    assert {entry.state for entry, _ in begun(read_study(out))} == {"done"}
