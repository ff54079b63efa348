"""What settings are called: each by its own model, whatever a search varies."""

import csv
from pathlib import Path
from typing import Any

from heedful.recipes.reading import make_recipe
from heedful.recipes.schema import Recipe
from heedful.report.glance import closing_lines
from heedful.storage.runs import read_study
from heedful.studies.baselines import data_key
from heedful.studies.plan import plan_comparison, plan_recipe, with_baselines
from heedful.studies.study import run_study
from tests.support.training_samples import write_tiny
from tests.support.translation_samples import translation

MARK = "runs/{name}/runs/{name}-seed{{seed}}/marks/0000000{step}"


def with_study(recipe: Recipe, **study: Any) -> Recipe:
    return make_recipe({**recipe.identity(), "study": study})


def test_each_row_has_its_own_model(tmp_path: Path) -> None:
    tiny = str(write_tiny(tmp_path))
    base = {"model": {"name": "first"}, "data": {"name": "tickets"}}
    rows = [
        {"model": {"name": "second", "pooling": "mean"}},
        {"model": {"name": "second", "pooling": "max"}},
        {"model": {"name": MARK.format(name="a", step=3)}},
        {"model": {"name": "third", "scratch": True}},
    ]
    plan = plan_recipe(make_recipe({**base, "study": {"rows": rows}}), "r", (0,))
    mark = MARK.format(name="a", step=3)
    assert [s.model for s in plan.settings] == ["second", "second", mark, "third from scratch"]
    kinds = [{"model": {"kind": "encoder-decoder"}}, {"model": {"kind": "bert-fused", "bert": tiny}}]
    plan = plan_recipe(with_study(translation("encoder-decoder", tmp_path), rows=kinds), "r", (0,))
    assert [s.model for s in plan.settings] == ["encoder-decoder", f"bert-fused with {tiny}"]
    named = [{"model": {"name": "t"}}, {"model": {"name": "t", "kind": "bert-fused", "bert": tiny}}]
    recipe = translation(
        "encoder-decoder",
        tmp_path,
        model={"kind": None, "layers": None, "width": None, "heads": None, "name": "t"},
        tokenizer=None,
    )
    plan = plan_recipe(with_study(recipe, rows=named), "r", (0,))
    assert [s.model for s in plan.settings] == ["t", f"t with {tiny}"]


def test_a_table_and_the_end_of_a_search_say_what_was_chosen(tmp_path: Path) -> None:
    tiny = str(write_tiny(tmp_path))
    kinds = [{"model": {"kind": "bert-fused", "bert": tiny}}, {"model": {"kind": "encoder-decoder"}}]
    recipe = with_study(translation("encoder-decoder", tmp_path, training={"epochs": 1}), rows=kinds, final_seeds=1)
    run_study(plan_recipe(recipe, "kinds", (0,)), tmp_path / "study", quiet=True)
    with (tmp_path / "study/table.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    models = {"bert-fused": f"bert-fused with {tiny}", "encoder-decoder": "encoder-decoder"}
    assert [row["model"] for row in rows] == [models[row["model.kind"]] for row in rows]
    chosen = rows[-1]
    assert chosen["setting"].endswith("-final")
    said = " ".join(" ".join(closing_lines(read_study(tmp_path / "study"))).split())
    assert f'{chosen["setting"]}: model.kind = "{chosen["model.kind"]}"' in said
    assert f"{chosen['setting']} is not good enough yet (the best on dev" in said  # no better than copying
    assert "the only setting" not in said
    assert "the same score in this run (95 %: −32.441 to +32.441" in said  # eight sentences say little
    assert "same answers" not in said
    assert "0.000 ahead" not in said


def test_what_runs_have_left_is_called_after_them() -> None:
    data = {"name": "tickets"}
    plan = plan_comparison(data, ["runs/a/model", "runs/b/model", "runs/c/best", "some/minilm"], ["full"], [0])
    assert [s.name for s in plan.settings] == ["a-full", "b-full", "c-full", "minilm-full"]
    names = [MARK.format(name=name, step=step) for name in ("words", "spans") for step in (3, 6)]
    data = {"train": "x.csv", "text": "a", "pair": "b", "label": "c"}
    content = {"model": {"name": names[0]}, "data": data, "study": {"model": {"name": names}, "test": "all"}}
    plan = plan_recipe(make_recipe(content), "r", (0,))
    of_pairs = {data_key(s.recipe) for s in plan.settings}
    added = [s for s in with_baselines(plan, of_pairs).settings if s.baseline]
    assert [s.name for s in added] == ["words-3-cosine", "words-6-cosine", "spans-3-cosine", "spans-6-cosine"]
    assert [s.model for s in added] == names
