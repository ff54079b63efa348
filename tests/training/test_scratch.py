"""The same model from scratch: what its training is worth; and another pretraining for each seed."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from heedful.checkpoints.directory import read_model
from heedful.errors import RequestError
from heedful.recipes.reading import make_recipe
from heedful.storage.shared import SharedStore
from heedful.studies.plan import plan_recipe
from heedful.studies.study import run_study
from heedful.training.assembly import Assembly, assemble, read_source
from heedful.training.run import execute
from tests.support.training_samples import FAMILY_CHANGES, tiny_recipe, write_data, write_tiny


def assembled(folder: Path, seed: int, **model: object) -> Assembly:
    recipe, store = tiny_recipe(folder / "tiny", write_data(folder / "data"), model=model), SharedStore(folder / "s")
    return assemble(read_source(recipe, seed, store), store)


@pytest.mark.parametrize("family", FAMILY_CHANGES)
def test_sizes_and_tokenizer_of_the_model_and_weights_of_the_seed(family: str, tmp_path: Path) -> None:
    stored = read_model(write_tiny(tmp_path, family), body_only=True)
    first, again, other = (assembled(tmp_path, seed, scratch=True).checkpoint for seed in (1, 1, 2))
    assert first.family == family
    assert first.tokenizer_fingerprint == stored.tokenizer_fingerprint
    weights = {name: p.detach() for name, p in first.module.named_parameters() if name.startswith("body.")}
    kept = {name: p.detach() for name, p in stored.transformer.named_parameters()}
    del kept["body.embeddings.token.weight"]  # of which training has the rows that occur
    assert {n: p.shape for n, p in weights.items() if n in kept} == {n: p.shape for n, p in kept.items()}
    matrices = [name for name in kept if kept[name].dim() == 2 and not (kept[name] == 0).all()]
    assert matrices
    for name in matrices:
        assert not torch.equal(weights[name], kept[name])
        assert torch.equal(weights[name], dict(again.module.named_parameters())[name])
        assert not torch.equal(weights[name], dict(other.module.named_parameters())[name])


def test_a_run_says_that_its_weights_were_random(tmp_path: Path) -> None:
    write_tiny(tmp_path)
    recipe = tiny_recipe(tmp_path / "tiny", write_data(tmp_path / "data"), model={"scratch": True})
    execute(recipe, 0, tmp_path / "run", command="x", quiet=True)
    model = json.loads((tmp_path / "run/manifest.json").read_text())["model"]
    assert model["source"] == f"{tmp_path / 'tiny'} from scratch"
    assert not model["fingerprint"]


def test_with_and_without_in_one_study(tmp_path: Path) -> None:
    table = {"study": {"model": {"scratch": [False, True]}}}
    recipe = tiny_recipe(write_tiny(tmp_path), write_data(tmp_path / "data"), "solved", **table)
    plan = plan_recipe(recipe, "x", seeds=range(3))
    assert [s.recipe.model.scratch for s in plan.settings] == [False, True]
    assert [s.random for s in plan.settings] == [False, True]
    assert len({job.directory for job in plan.jobs(tmp_path)}) == 4  # a frozen body has no seed, a random one has


@pytest.mark.parametrize("method", ["adapter", "lora", "bias"])
def test_random_weights_are_not_left_as_they_are(method: str, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r'leaves random .* as they are; use "full"'):
        tiny_recipe(tmp_path, write_data(tmp_path / "data"), method, model={"scratch": True})


def test_a_shape_is_from_scratch_already() -> None:
    content = {"model": {"shape": "bert-tiny", "scratch": True}, "tokenizer": {"kind": "wordpiece"}}
    with pytest.raises(RequestError, match=r"model\.scratch goes with model\.name"):
        make_recipe({**content, "data": {"name": "sst2"}})


def test_a_study_of_both_goes_on_where_it_was(tmp_path: Path) -> None:
    table = {"study": {"model": {"scratch": [False, True]}, "test": "all"}}
    recipe = tiny_recipe(write_tiny(tmp_path), write_data(tmp_path / "data"), "solved", **table)
    plan = plan_recipe(recipe, "x", seeds=range(2))
    for _ in range(2):
        found = run_study(plan, tmp_path / "study", quiet=True)
        assert sorted(run["name"] for run in found["runs"]) == ["x-1-seed0", "x-2-seed0", "x-2-seed1"]
        assert {run["state"] for run in found["runs"]} == {"done"}
    config = tmp_path / "tiny/config.json"
    config.write_text(config.read_text() + " ")
    with pytest.raises(RequestError, match="tiny has changed since"):
        run_study(plan, tmp_path / "study", quiet=True)


def test_each_seed_from_its_own_pretraining(tmp_path: Path) -> None:
    bodies = {}
    for seed in (0, 1):
        place = write_tiny(tmp_path / f"seed{seed}")
        weights = load_file(place / "model.safetensors")
        bodies[seed] = {name: tensor + 0.01 * seed for name, tensor in weights.items()}
        save_file(bodies[seed], place / "model.safetensors", metadata={"format": "pt"})
    recipe = tiny_recipe(tmp_path / "seed{seed}" / "tiny", write_data(tmp_path / "data"), "solved")
    assert plan_recipe(recipe, "x", seeds=range(2)).settings[0].random
    for seed in (0, 1):
        execute(recipe, seed, tmp_path / f"run{seed}", command="x", quiet=True)
        found = load_file(tmp_path / f"run{seed}/model/model.safetensors")
        (name,) = (name for name in found if name.endswith("encoder.layer.0.attention.self.query.weight"))
        assert torch.equal(found[name], bodies[seed][f"bert.{name.removeprefix('bert.')}"])
        model = json.loads((tmp_path / f"run{seed}/manifest.json").read_text())["model"]
        assert model["source"] == str(tmp_path / f"seed{seed}" / "tiny")
