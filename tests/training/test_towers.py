"""Pairs in two towers: what the head reads is what the formula says, it is solved to the same optimum as elsewhere, and
a saved model answers as it was judged; a setting without a seed runs once; the cosine stands beside."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression, Ridge

import heedful
from heedful.errors import RequestError
from heedful.inference.items import encode_pairs
from heedful.inference.reader import TextReader
from heedful.nn.heads import combine
from heedful.recipes.schema import Recipe
from heedful.storage.shared import SharedStore
from heedful.studies.baselines import data_key
from heedful.studies.kinds.protocol import SoFar
from heedful.studies.parts import SettingPlan, StudyPlan
from heedful.studies.plan import plan_comparison, plan_recipe, with_baselines
from heedful.training.assembly import assemble, read_source
from heedful.training.run import execute
from heedful.tuning import features
from heedful.tuning.protocol import DevScore
from tests.support.training_samples import (
    assert_same_run,
    read_log,
    read_tsv,
    sentences,
    tiny_recipe,
    write_csv,
    write_tiny,
)

Array = np.ndarray[Any, np.dtype[np.float64]]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], dict[str, Any]]:
    """A model, and pairs with a class and with a score; texts occur in several pairs."""
    folder = tmp_path_factory.mktemp("towers")
    texts = sentences(40, seed=5)
    made = [(texts[i], texts[(3 * i + j) % 40]) for j in range(3) for i in range(40)]
    classes = [(a, b, "same" if x == y else "other") for (a, x), (b, y) in made]
    scores = [(a, b, f"{len(a) / 10 - (x == y):.2f}") for (a, x), (b, y) in made]
    table = {"text": "a", "pair": "b", "label": "label"}
    files = [str(write_csv(folder / f"{n}.csv", ("a", "b", "label"), r)) for n, r in (("c", classes), ("s", scores))]
    kinds = ({"train": files[0], **table}, {"train": files[1], **table, "kind": "score"})
    return write_tiny(folder / "model"), *kinds


def by_formula(u_bd: Array, v_bd: Array) -> Array:
    cosine_b = (u_bd * v_bd).sum(1) / np.sqrt((u_bd**2).sum(1) * (v_bd**2).sum(1))
    return np.concatenate([u_bd, v_bd, np.abs(u_bd - v_bd), u_bd * v_bd, cosine_b[:, None]], axis=1)


def test_the_formula_and_its_gradient() -> None:
    draw = torch.Generator().manual_seed(1)
    u_bd, v_bd = (torch.randn(5, 3, generator=draw, dtype=torch.float64, requires_grad=True) for _ in range(2))
    expected = by_formula(u_bd.detach().numpy(), v_bd.detach().numpy())
    np.testing.assert_allclose(combine(u_bd, v_bd, "towers").detach().numpy(), expected, atol=1e-14)
    np.testing.assert_allclose(combine(u_bd, v_bd, "cosine").detach().numpy(), expected[:, -1:], atol=1e-14)
    assert torch.autograd.gradcheck(lambda u, v: combine(u, v, "towers"), (u_bd, v_bd))


def parts_of(recipe: Recipe, folder: Path) -> Any:
    store = SharedStore(folder)
    return assemble(read_source(recipe, 0, store), store)


def test_what_is_kept_is_what_the_body_gives_each_text_alone(world: Any, tmp_path: Path) -> None:
    parts = parts_of(tiny_recipe(*world[:2], "solved"), tmp_path)
    inputs, transformer = parts.inputs, parts.tuning.transformer
    train = parts.data.dataset.train
    strings = {*train.texts, *train.pairs}
    assert parts.describe()["pairs"] is True
    cached = parts.tuning.reader.cache.arrays["train"]
    assert len(cached) == len(strings) < 2 * len(inputs.items["train"])  # each text once
    transformer.double()
    reader = TextReader(transformer, torch.device("cpu"))
    items = encode_pairs(parts.checkpoint.tokenizer, train.inputs, 32)
    with torch.inference_mode():
        alone = torch.cat([reader.inputs([item], "classify") for item in items])
        together = reader.inputs(items, "classify")
        u_bd, v_bd = (
            torch.cat([reader.features([text], "mean") for text in texts]).numpy()
            for texts in ([i.first for i in items], [i.second for i in items])
        )
    np.testing.assert_allclose(alone, by_formula(u_bd, v_bd), atol=1e-12)
    np.testing.assert_allclose(together, alone, atol=1e-10)
    kept = parts.tuning.reader.inputs(inputs.items["train"], "classify")
    np.testing.assert_allclose(kept, alone, atol=1e-5)


def scaled(x_nf: Array, width: int = 16) -> tuple[Array, Array]:
    """Each block varies by as much: by one for each feature of the body's width."""
    widths = [width] * 4 + [1] if x_nf.shape[1] > 1 else [1]
    variance = np.split(x_nf.var(axis=0), np.cumsum(widths)[:-1])
    return x_nf.mean(axis=0), np.concatenate([np.full(len(v), np.sqrt(width / v.sum())) for v in variance])


@pytest.mark.parametrize("kind", ["classes", "score"])
@pytest.mark.parametrize("how", ["solved", "cosine"])
def test_the_optimum_is_that_of_another_library(how: str, kind: str, world: Any, tmp_path: Path) -> None:
    penalty = 1e-6 if how == "cosine" else 0.03
    tuning = {} if how == "cosine" else {"tuning": {"penalties": [penalty]}}
    parts = parts_of(tiny_recipe(world[0], world[1 if kind == "classes" else 2], how, **tuning), tmp_path)
    parts.tuning.solve(parts.objective, parts.inputs.everything(), lambda facts: DevScore(0.0, 0.0))
    items, gold = parts.inputs.items["train"], parts.inputs.targets["train"].numpy()
    x_nf = parts.tuning.reader.inputs(items, "classify").double().numpy()
    shift, scale = scaled(x_nf)
    x_nf = (x_nf - shift) * scale
    with torch.no_grad():
        found = parts.tuning.reader.scores(items, "classify").double()
    if kind == "score":
        expected = Ridge(alpha=penalty * len(gold) / 2).fit(x_nf, gold).predict(x_nf)
        np.testing.assert_allclose(found[:, 0], expected, atol=1e-4)
    else:
        peer = LogisticRegression(C=2 / (penalty * len(gold)), tol=1e-10, max_iter=20_000).fit(x_nf, gold)
        np.testing.assert_allclose(found.softmax(-1), peer.predict_proba(x_nf), atol=2e-4)
    assert found[:, 0].std() > 0.01


@pytest.mark.parametrize(
    ("how", "more"),
    [
        ("solved", {}),
        ("cosine", {}),
        ("frozen", {"model": {"head": "two-layer"}}),
        ("full", {"model": {"pairs": "towers"}}),
    ],
)
def test_a_saved_model_answers_as_it_was_judged(how: str, more: dict[str, Any], world: Any, tmp_path: Path) -> None:
    execute(tiny_recipe(*world[:2], how, **more), 3, tmp_path / "run", quiet=True)
    _, rows = read_tsv(tmp_path / "run/predictions/test.tsv")
    data = read_source(tiny_recipe(*world[:2], how, **more), 3, SharedStore(tmp_path / "store")).data
    examples = {e["row"]: (e["text"], e["pair"]) for e in data.examples("test")}
    pairs = [examples[int(row[0])] for row in rows]
    note = json.loads((tmp_path / "run/model/config.json").read_text())["heedful"]["heads"]["classify"]
    assert (note["pairs"], note["file"]) == ("cosine" if how == "cosine" else "towers", "heads.safetensors")
    model = heedful.load(tmp_path / "run/model")
    found = model.predict(pairs)
    assert found.labels == [row[1] for row in rows]
    np.testing.assert_allclose(found.probabilities, [[float(p) for p in row[2:]] for row in rows], atol=2e-6)
    model.save(tmp_path / "again")
    again = heedful.load(tmp_path / "again").predict(pairs)
    assert np.array_equal(again.probabilities, found.probabilities)  # to the bit
    np.testing.assert_allclose(model.predict(pairs, batch_size=1).probabilities, found.probabilities, atol=1e-5)
    turned = model.predict([(b, a) for a, b in pairs]).probabilities
    assert np.allclose(turned, found.probabilities, atol=1e-6) == (how == "cosine")  # a cosine has no first and second
    with pytest.raises(RequestError, match="was trained on pairs of texts"):
        model.predict([pairs[0], "alone"])
    for row, reason in ((("a", "b", "c"), "has 3 parts"), (("a", None), "is missing"), (None, "is missing")):
        with pytest.raises(RequestError, match=f"^Row 1 of the texts {reason}"):
            model.predict([pairs[0], row])


def test_jointly_on_request(world: Any, tmp_path: Path) -> None:
    for name, model in (("towers", {}), ("joint", {"pairs": "joint"})):
        execute(tiny_recipe(*world[:2], "solved", model=model), 0, tmp_path / name, quiet=True)
    shapes = [heedful.load(tmp_path / n / "model").transformer.head_shapes["classify"] for n in ("towers", "joint")]
    assert [shape.pairs for shape in shapes] == ["towers", "joint"]
    assert read_log(tmp_path / "towers") != read_log(tmp_path / "joint")


def test_the_runs_of_a_study_share_what_the_towers_give(
    world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed, inner = [], features._compute
    monkeypatch.setattr(features, "_compute", lambda *a: (computed.append(a[-1].name), inner(*a)))
    store = SharedStore(tmp_path / "store")
    for how in ("solved", "cosine", "frozen"):
        execute(tiny_recipe(*world[:2], how), 0, tmp_path / f"shared/{how}", quiet=True, store=store)
    assert len(computed) == 3  # train, dev, test
    execute(tiny_recipe(*world[:2], "cosine"), 0, tmp_path / "alone/cosine", quiet=True)
    assert_same_run(tmp_path / "alone/cosine", tmp_path / "shared/cosine", ("command",))


def test_single_texts_have_no_towers(world: Any, tmp_path: Path) -> None:
    data = {key: value for key, value in world[1].items() if key != "pair"}
    with pytest.raises(RequestError, match=r"model\.pairs says how pairs of texts are read"):
        parts_of(tiny_recipe(world[0], data, "full", model={"pairs": "towers"}), tmp_path)
    with pytest.raises(RequestError, match=r'tuning\.method = "cosine" is for pairs of texts'):
        parts_of(tiny_recipe(world[0], data, "cosine"), tmp_path)
    parts = parts_of(tiny_recipe(world[0], data, "solved"), tmp_path)
    assert parts.tuning.transformer.head_shapes["classify"].pairs == "joint"


# Without a seed


def jobs(plan: StudyPlan) -> list[str]:
    return [job.name for job in plan.jobs(Path("x"))]


def test_what_has_no_seed_runs_once(world: Any, tmp_path: Path) -> None:
    plans = {
        how: SettingPlan(how, "m", how, tiny_recipe(*world[:2], how)) for how in ("solved", "frozen", "full", "cosine")
    }
    part = {**world[1], "limit": 20}
    plans["part"] = SettingPlan("part", "m", "frozen", tiny_recipe(world[0], part, "solved"))
    plans["redrawn"] = SettingPlan("redrawn", "m", "frozen", tiny_recipe(world[0], {**part, "redraw": True}, "solved"))
    assert {name: plan.random for name, plan in plans.items()} == {
        "solved": False, "frozen": True, "full": True, "cosine": False, "part": False, "redrawn": True,
    }  # fmt: skip
    assert jobs(StudyPlan((plans["solved"], plans["full"]), (4, 7))) == ["solved-seed4", "full-seed4", "full-seed7"]
    search = plan_recipe(
        tiny_recipe(*world[:2], "solved", study={"model": {"pooling": ["mean", "max"]}}), "r", (0, 1, 2)
    )
    assert jobs(search) == ["r-1-seed0", "r-2-seed0"]
    rows = [{"setting": "r-1", "metric": "accuracy", "higher_is_better": True, "dev_mean": 0.5}]
    found = search.kind.after(SoFar(tmp_path, dict, [search], rows))
    assert found is not None
    assert jobs(found) == ["r-1-final-seed3"]


def beside(plan: StudyPlan) -> StudyPlan:
    return with_baselines(plan, {data_key(s.recipe) for s in plan.settings})


def test_the_cosine_stands_beside(world: Any) -> None:
    changes = {"training": {"epochs": 2, "max_length": 20}, "evaluation": {"baselines": True}}
    plan = plan_comparison(world[1], [str(world[0])], ["frozen", "full"], (0, 1), changes)
    assert with_baselines(plan, ()) == plan
    *before, added = beside(plan).settings
    assert tuple(before) == plan.settings
    assert (added.name, added.method, added.baseline, added.random) == ("tiny-cosine", "cosine", True, False)
    assert added.recipe.identity()["training"] == {"max_length": 20}
    asked = plan_comparison(world[1], [str(world[0])], ["cosine", "full"], (0,), changes)
    assert beside(asked) == asked
    quiet = plan_comparison(world[1], [str(world[0])], ["full"], (0,), {"evaluation": {"baselines": False}})
    assert beside(quiet) == quiet


def test_a_search_runs_it_with_what_it_has_chosen(world: Any) -> None:
    changes = {"evaluation": {"baselines": True}, "study": {"model": {"pooling": ["mean", "max"]}}}
    search = beside(plan_comparison(world[1], [str(world[0])], ["frozen"], (0, 1), changes))
    assert jobs(search) == ["tiny-frozen-1-seed0", "tiny-frozen-2-seed0"]
    rows = [{"setting": "tiny-frozen-2", "metric": "accuracy", "higher_is_better": True, "dev_mean": 0.5}]
    chosen = search.kind.after(SoFar(Path(), dict, [search], rows))
    assert chosen is not None
    final = beside(chosen)
    assert jobs(final) == ["tiny-frozen-2-final-seed2", "tiny-cosine-max-seed2"]
    assert final.settings[-1].recipe.model.pooling == "max"
    curve = plan_comparison(world[1], [str(world[0])], ["frozen"], (0, 1), {"study": {"curve": [0.5, 1]}})
    assert jobs(curve) == ["tiny-frozen-0.5-seed0", "tiny-frozen-1-seed0", "tiny-frozen-0.5-seed1"]
    assert [s.name for s in beside(curve).settings][2:] == ["tiny-cosine"]


def test_each_pooling_that_is_compared_has_a_cosine(world: Any) -> None:
    """Equal ones are one: "cls" and a recurrent network are read as the mean, which is the default."""

    def cosines(study: dict[str, Any], **changes: Any) -> dict[str, str | None]:
        tables = {"evaluation": {"baselines": True}, **changes}
        if study:
            tables["study"] = {"test": "all", **study}
        plan = beside(plan_comparison(world[1], [str(world[0])], ["full"], (0,), tables))
        return {s.name: s.recipe.model.pooling for s in plan.settings if s.baseline}

    assert cosines({"model": {"pooling": ["mean", "max"]}}) == {"tiny-cosine-mean": "mean", "tiny-cosine-max": "max"}
    assert cosines({"model": {"pooling": ["cls", "lstm", "max"]}}) == {"tiny-cosine": None, "tiny-cosine-max": "max"}
    assert cosines({"training": {"lr": [1e-4, 1e-3]}}) == {"tiny-cosine": None}
    assert cosines({}, model={"pooling": "max"}) == {"tiny-cosine": "max"}
    for_methods = {"full": {"model": {"pooling": "max"}}}
    tables = {"evaluation": {"baselines": True}}
    plan = plan_comparison(world[1], [str(world[0])], ["frozen", "full"], (0,), tables, for_methods)
    assert [s.name for s in beside(plan).settings][2:] == ["tiny-cosine-mean", "tiny-cosine-max"]
    lengths = {"training": {"max_length": [20, 30]}, "test": "all"}
    plan = beside(plan_comparison(world[1], [str(world[0])], ["full"], (0,), {**tables, "study": lengths}))
    assert {s.name: s.recipe.training.max_length for s in plan.settings if s.baseline} == {
        "tiny-cosine-20": 20, "tiny-cosine-30": 30,
    }  # fmt: skip
