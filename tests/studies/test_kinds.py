"""Kinds of studies by their names, and studies of earlier versions, which did not record theirs."""

import json
from pathlib import Path
from typing import Any

import pytest

from heedful import plugins
from heedful.errors import RequestError
from heedful.recipes.reading import explain_key, make_recipe
from heedful.report.study import write_reports
from heedful.storage.runs import read_study
from heedful.studies.kinds.protocol import StudyKind, kind_of_study
from heedful.studies.plan import plan_recipe
from heedful.studies.study import run_study
from tests.support.training_samples import tiny_recipe, write_data, write_tiny

SMALL: dict[str, Any] = {"model": {"name": "minilm"}, "data": {"name": "tickets"}}


def test_the_built_in_kinds() -> None:
    assert plugins.names("study") == ["compare", "curve", "search"]
    for name in plugins.names("study"):
        kind = plugins.find("study", name)
        assert issubclass(kind, StudyKind)
        assert (kind.name, kind.chooses) == (name, True)
    members = [member for member in vars(StudyKind) if not member.startswith("_")]
    assert len({*members, *StudyKind.__annotations__}) <= 10


def test_the_kind_follows_from_the_keys() -> None:
    for study, kind in (({"curve": [0.5, 1]}, "curve"), ({"training": {"lr": [1e-3]}}, "search")):
        implied, named = (make_recipe({**SMALL, "study": {**study, **more}}) for more in ({}, {"kind": kind}))
        assert implied == named
        plans = [plan_recipe(recipe, "r", (0,)) for recipe in (implied, named)]
        assert [(plan.kind.name, plan.search) for plan in plans] == [(kind, study)] * 2
    assert plan_recipe(make_recipe(SMALL), "r").kind.name == "compare"


@pytest.mark.parametrize(
    ("study", "words"),
    [
        ({"kind": "compare"}, r'study\.kind = "compare" is what a study without \[study\] is'),
        ({"kind": "serach"}, r"there is no kind of study of this name; did you mean 'search'\?"),
        ({"kind": 3}, r"study\.kind = 3 is not right"),
        ({"kind": "curve"}, r"the key study\.curve is missing"),
        ({"kind": "search", "curve": [0.5, 1]}, r'study\.curve means nothing with study\.kind = "search"'),
    ],
)
def test_kinds_that_are_refused(study: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        make_recipe({**SMALL, "study": study})


def test_a_key_is_explained_with_its_kind() -> None:
    assert explain_key("study.curve").startswith('study.curve  (of "curve"; ')
    assert '"search": The best of several settings' in explain_key("study.kind")


def test_a_study_that_does_not_say_its_kind(tmp_path: Path) -> None:
    recipe = tiny_recipe(
        write_tiny(tmp_path / "model"),
        write_data(tmp_path / "data"),
        "solved",
        study={"model": {"pooling": ["mean", "max"]}},
    )
    plan, out = plan_recipe(recipe, "r", (0,)), tmp_path / "study"
    study = run_study(plan, out, command="x", quiet=True, threads=1)
    assert study["kind"] == "search"
    old = {key: value for key, value in study.items() if key != "kind"}
    (out / "study.json").write_text(json.dumps(old))
    kind = kind_of_study(read_study(out))
    assert kind is not None
    assert kind.name == "search"
    write_reports(out)
    assert "## The search" in (out / "report.md").read_text()
    assert run_study(plan, out, command="x", quiet=True, threads=1) == study
    (out / "study.json").write_text(json.dumps({**old, "kind": "curve"}))
    with pytest.raises(RequestError, match="contains a different study"):
        run_study(plan, out, quiet=True)
