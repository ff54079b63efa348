"""Nothing answers otherwise without a word: merging, heads and their adapters, poolers, probes, studies, odd files."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import heedful
from heedful.checkpoints import hub
from heedful.errors import RequestError
from heedful.probes.attention.look import look
from heedful.recipes.reading import make_recipe
from heedful.studies.plan import plan_recipe
from heedful.studies.study import run_study
from heedful.training.run import execute
from tests.support.adapter_samples import FAMILY_BASES, GOLDENS
from tests.support.task_samples import tasks_recipe, write_tasks
from tests.support.training_samples import sentences, tiny_recipe, write_data, write_family

TEXTS = [text for text, _ in sentences(6, seed=3)]
BERT = GOLDENS / "bert"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("world")
    made: dict[str, Any] = {"data": write_data(folder / "data"), "folder": folder}
    made["model"] = write_family(folder / "bert", "bert")
    for name, tuning in {
        "lo": {"method": "lora", "rank": 2},
        "b": {"method": "adapter", "reduction": 4.0},
        "c": {"method": "adapter", "reduction": 4.0},
    }.items():
        recipe = tiny_recipe(made["model"], made["data"], "full", training={"epochs": 1})
        recipe = make_recipe({**recipe.identity(), "tuning": {**tuning, "name": name}})
        execute(recipe, ord(name[0]), folder / name, command="test", quiet=True)
        made[name] = folder / name / "model"
    return made


def model_with(world: dict[str, Any], *names: str) -> heedful.Model:
    model = heedful.load(world["model"], body_only=True)
    assert isinstance(model, heedful.Model)
    for name in names:
        model.load_adapter(world[name])
    return model


def test_merging_does_not_change_what_others_read(world: dict[str, Any]) -> None:
    model = model_with(world, "lo", "b")
    model.activate("lo")
    before = model.predict(TEXTS, head="b").probabilities
    with pytest.raises(RequestError, match="since the head 'b' would then read a different body"):
        model.merge()
    assert np.array_equal(model.predict(TEXTS, head="b").probabilities, before)
    alone = model_with(world, "lo")
    alone.activate("lo")
    said = alone.predict(TEXTS, head="lo").probabilities
    alone.merge()
    with pytest.raises(RequestError, match="merged already"):
        alone.merge()
    alone.transformer.calibrate("lo", 2.0)
    alone.unmerge()
    assert alone.transformer.head_shapes["lo"].temperature == pytest.approx(2.0 * _temperature(world["lo"]))
    assert np.allclose(alone.predict(TEXTS, head="lo", raw=True).probabilities, _raw(world["lo"]), atol=1e-6)
    assert said.shape == (len(TEXTS), 2)
    with pytest.raises(RequestError, match="nothing was merged"):
        alone.unmerge()


def _temperature(folder: Path) -> float:
    return heedful.load(folder).transformer.head_shapes["classify"].temperature  # type: ignore[union-attr]


def _raw(folder: Path) -> np.ndarray:
    return heedful.load(folder).predict(TEXTS, raw=True).probabilities


def test_a_model_that_carries_adapters_is_not_merged_by_training(world: dict[str, Any], tmp_path: Path) -> None:
    recipe = tiny_recipe(world["b"], world["data"], "lora", tuning={"merge": True, "name": "x"})
    with pytest.raises(RequestError, match=r"tuning.merge: the model carries adapters \(b\)"):
        execute(recipe, 1, tmp_path / "run", command="test", quiet=True)


def test_a_head_is_not_read_through_another_pooler(world: dict[str, Any], tmp_path: Path) -> None:
    bare = heedful.load(world["model"], body_only=True)
    pooled = []
    for seed in (1, 2):
        folder = tmp_path / str(seed)
        shutil.copytree(world["model"], folder / "base")
        tensors = load_file(folder / "base/model.safetensors")
        tensors = {n: t + (0.1 * seed if "pooler" in n else 0.0) for n, t in tensors.items()}
        save_file(tensors, folder / "base/model.safetensors", metadata={"format": "pt"})
        tuning = {"name": f"p{seed}"}
        recipe = tiny_recipe(folder / "base", world["data"], "adapter", model={"pooling": "cls"}, tuning=tuning)
        execute(recipe, seed, folder / "run", command="test", quiet=True)
        heedful.load(folder / "run/model").save_adapter(folder / "saved", f"p{seed}")
        pooled.append(folder)
    other = heedful.load(pooled[0] / "run/model")
    for source in (pooled[1] / "run/model", pooled[1] / "saved"):
        with pytest.raises(RequestError, match="another pooler than the model has"):
            other.load_adapter(source)
    assert other.load_adapter(pooled[0] / "saved", name="again") == "again"
    assert bare.transformer.body.pooler is not None


def test_without_a_main_head_no_adapters_are_in_use(world: dict[str, Any], tmp_path: Path) -> None:
    model = model_with(world, "b", "c")
    model.save(tmp_path / "both")
    both = heedful.load(tmp_path / "both")
    assert both.active is None
    assert np.array_equal(both.encode(TEXTS), heedful.load(world["model"], body_only=True).encode(TEXTS))
    for name in ("b", "c"):  # and a probe looks through the adapters of the head that it asks
        seen = look(both, TEXTS[0], head=name)
        assert seen.score is not None
        assert seen.score.value == pytest.approx(_score(world[name], TEXTS[0]), abs=1e-4)
    assert both.active is None


def _score(folder: Path, text: str) -> float:
    model = heedful.load(folder)
    found = look(model, text).score
    assert found is not None
    return float(found.value)


def test_heads_come_from_the_hub_too(world: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model_with(world, "b").save_adapter(tmp_path / "saved", "b")

    def fetch(repo: str, revision: str | None, only: Any = None) -> Path:
        folder = tmp_path / "fetched"
        shutil.copytree(tmp_path / "saved", folder, ignore=lambda _, names: [n for n in names if n not in only])
        return folder

    monkeypatch.setattr(hub, "fetch", fetch)
    model = model_with(world)
    assert model.load_adapter("someone/b") == "b"
    assert np.array_equal(
        model.predict(TEXTS, head="b").probabilities, heedful.load(world["b"]).predict(TEXTS).probabilities
    )


def test_a_fusion_of_a_model_brings_its_head(
    world: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuning = {"method": "fusion", "adapters": [str(world["b"]), str(world["c"])]}
    recipe = make_recipe({**tiny_recipe(world["model"], world["data"], "full").identity(), "tuning": tuning})
    execute(recipe, 1, tmp_path / "run", command="test", quiet=True)
    model = model_with(world)
    for name in ("b", "c"):
        model.load_adapter(tmp_path / f"run/model/adapters/{name}", head=False)
    assert model.load_adapter(tmp_path / "run/model/adapters/b,c") == "fuse(b, c)"
    said = heedful.load(tmp_path / "run/model").predict(TEXTS).probabilities
    assert np.array_equal(model.predict(TEXTS, head="b-c").probabilities, said)
    monkeypatch.chdir(world["b"] / "adapters/b")
    from_inside = model_with(world)
    assert from_inside.load_adapter(".") == "b"
    assert "b" in from_inside.transformer.heads


def test_a_head_is_saved_with_its_own_adapter_alone(world: dict[str, Any], tmp_path: Path) -> None:
    model = model_with(world, "b", "c")
    with pytest.raises(RequestError, match="the head 'c' reads through c, not through b"):
        model.save_adapter(tmp_path / "x", "b", head="c")


def test_a_study_does_not_mix_adapters(world: dict[str, Any], tmp_path: Path) -> None:
    for name in ("b", "c"):
        shutil.copytree(world[name], tmp_path / name)
    tuning = {"method": "fusion", "adapters": [str(tmp_path / "b"), str(tmp_path / "c")]}
    content = {
        **tiny_recipe(world["model"], world["data"], "full", training={"epochs": 1}).identity(),
        "tuning": tuning,
    }
    run_study(plan_recipe(make_recipe(content), "f", [0]), tmp_path / "study", quiet=True)
    path = tmp_path / "b/adapters/b/adapter.safetensors"
    save_file({n: t + 0.01 for n, t in load_file(path).items()}, path)
    with pytest.raises(RequestError, match="has changed since f-seed0 was made"):
        run_study(plan_recipe(make_recipe(content), "f", [0, 1]), tmp_path / "study", quiet=True)


@pytest.mark.parametrize("name", ["train", "training", "keys", "_modules"])
def test_names_that_modules_have_themselves(name: str, world: dict[str, Any], tmp_path: Path) -> None:
    data = {**world["data"], "train": str(shutil.copy(world["data"]["train"], tmp_path / f"{name}.csv"))}
    recipe = tiny_recipe(world["model"], data, "adapter", training={"epochs": 1})
    execute(recipe, 1, tmp_path / "run", command="test", quiet=True)
    assert heedful.load(tmp_path / "run/model").adapters == (
        f"{name.strip('_')}-adapter".replace("modules-adapter", "_modules-adapter"),
    )
    with pytest.raises(RequestError, match="is no name for"):
        heedful.load(world["model"], new_head="linear", labels=["a", "b"], head=name, keep_heads=True)


def test_tasks_that_are_not_trained_have_no_adapter(world: dict[str, Any], tmp_path: Path) -> None:
    tables = write_tasks(tmp_path)
    first = tables[0]["task"]
    recipe = tasks_recipe(world["model"], tables, "full", objective={"train_on": [first]})
    recipe = make_recipe({**recipe.identity(), "tuning": {"method": "adapter", "per_task": True}})
    execute(recipe, 1, tmp_path / "run", command="test", quiet=True)
    assert heedful.load(tmp_path / "run/model").adapters == (first,)


def change(folder: Path, file: str, **keys: Any) -> None:
    content = json.loads((folder / file).read_text())
    (folder / file).write_text(json.dumps({**content, **keys}))


def change_config(folder: Path, **keys: Any) -> None:
    content = json.loads((folder / "adapter_config.json").read_text())
    change(folder, "adapter_config.json", config={**content["config"], **keys})


def test_a_start_of_another_kind(world: dict[str, Any], tmp_path: Path) -> None:
    for method, start in (("adapter", "lo"), ("lora", "b")):
        recipe = tiny_recipe(world["model"], world["data"], method, tuning={"start": str(world[start]), "name": "x"})
        with pytest.raises(RequestError, match="holds another kind of adapter"):
            execute(recipe, 1, tmp_path / method, command="test", quiet=True)


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"r": 4}, "says rank 4"),
        ({"target_modules": ["zz"]}, "target_modules do not name"),
        ({"layers_to_transform": [0]}, "leaves out layer 1"),
        ({"rank_pattern": [1]}, "rank_pattern is not an object"),
    ],
)
def test_a_config_that_contradicts_its_tensors(
    keys: dict[str, Any], says: str, world: dict[str, Any], tmp_path: Path
) -> None:
    shutil.copytree(world["lo"] / "adapters/lo", tmp_path / "lo")
    assert model_with(world).load_adapter(tmp_path / "lo", name="fine") == "fine"
    change(tmp_path / "lo", "adapter_config.json", **keys)
    with pytest.raises(RequestError, match=says):
        model_with(world).load_adapter(tmp_path / "lo")


HOSTILE: dict[str, tuple[str, Callable[[Path], None], str]] = {
    "a giant bottleneck": ("pfeiffer", lambda f: change_config(f, reduction_factor=1e-6), "of another shape"),
    "a giant rank": ("lora", lambda f: change_config(f, r=10**13), "config.r"),
    "a large rank": ("lora", lambda f: change_config(f, r=10**6), "of another shape"),
    "initial weights": ("pfeiffer", lambda f: change_config(f, init_weights=[]), "config.init_weights"),
    "matrices": ("lora", lambda f: change_config(f, attn_matrices=[[]]), "config.attn_matrices"),
    "layers": (
        "pfeiffer",
        lambda f: change_config(f, leave_out=5, reduction_factor={"default": 2}),
        "config.leave_out",
    ),
    "no reductions": (
        "pfeiffer",
        lambda f: change_config(f, leave_out=[0, 1, 2], reduction_factor={}),
        "reduction_factor",
    ),
    "scaling": ("pfeiffer", lambda f: change_config(f, scaling=[]), "config.scaling"),
    "a head's activation": ("with-head", lambda f: head(f, activation_function=[]), "activation_function"),
    "a head's dropout": ("with-head", lambda f: head(f, dropout_prob="x"), "dropout_prob"),
    "a later format": (
        "pfeiffer",
        lambda f: (f / "heedful.json").write_text('{"format": 99}') and None,
        "format is 99",
    ),
}


def head(folder: Path, **keys: Any) -> None:
    config = json.loads((folder / "head_config.json").read_text())["config"]
    change(folder, "head_config.json", config={**config, **keys})


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused_in_words(name: str, tmp_path: Path) -> None:
    source, damage, says = HOSTILE[name]
    shutil.copytree(BERT / source, tmp_path / "adapter")
    damage(tmp_path / "adapter")
    model = heedful.load(FAMILY_BASES["bert"], body_only=True)
    with pytest.raises(RequestError, match=says.replace(".", r"\.")):
        model.load_adapter(tmp_path / "adapter")
    assert model.adapters == ()


def test_links_that_lead_out_are_not_followed(tmp_path: Path) -> None:
    model = heedful.load(FAMILY_BASES["bert"], body_only=True)
    model.load_adapter(BERT / "a")
    model.save(tmp_path / "model")
    (tmp_path / "model/adapters/b").symlink_to(BERT / "b")
    with pytest.raises(RequestError, match="leads out"):
        heedful.load(tmp_path / "model")


def test_endless_nesting_in_a_config(world: dict[str, Any], tmp_path: Path) -> None:
    shutil.copytree(world["b"], tmp_path / "model")
    content = json.loads((tmp_path / "model/config.json").read_text())
    for written in ("stack(" * 3000, "stack(" * 300 + "a", "stack(stack(stack(a, b), c), d)"):
        content["heedful"]["heads"]["classify"]["adapters"] = written
        (tmp_path / "model/config.json").write_text(json.dumps(content))
        with pytest.raises(RequestError, match="adapters"):
            heedful.load(tmp_path / "model")


@pytest.mark.parametrize("call", [
    lambda m: m.activate(5), lambda m: m.activate(["b"]), lambda m: m.predict(TEXTS, head="b", adapters=5),
    lambda m: m.load_adapter(5), lambda m: m.load_adapter(""), lambda m: heedful.Average("a", "b", weights=["x", 1]),
    lambda m: heedful.Average("a", "b", weights=[1e308, 1e308]), lambda m: m.fusion_weights(["a"]),
    lambda m: m.load_adapter(BERT / "a", revision="main"),
])  # fmt: skip
def test_mistakes_in_python(call: Callable[[Any], Any], world: dict[str, Any]) -> None:
    model = model_with(world, "b")
    with pytest.raises(RequestError):
        call(model)
    assert model.predict(TEXTS, head="b").labels


def test_an_adapter_of_a_model_in_double(world: dict[str, Any]) -> None:
    model = heedful.load(world["model"], body_only=True)
    model.transformer.double()
    model.load_adapter(world["b"])
    assert {p.dtype for p in model.transformer.parameters()} == {torch.float64}
    single = model_with(world, "b").predict(TEXTS, head="b").probabilities
    assert np.allclose(model.predict(TEXTS, head="b").probabilities, single, atol=1e-5)
