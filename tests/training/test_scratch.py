"""The same model from scratch: what its training is worth."""

import json
from pathlib import Path

import pytest
import torch

from heedful.checkpoints.directory import read_model
from heedful.errors import RequestError
from heedful.recipes.reading import make_recipe
from heedful.storage.shared import SharedStore
from heedful.studies.plan import plan_recipe
from heedful.training.assembly import Assembly, assemble, read_objective
from heedful.training.run import execute
from training_samples import FAMILY_CHANGES, tiny_recipe, write_data, write_tiny


def assembled(folder: Path, seed: int, **model: object) -> Assembly:
    recipe, store = tiny_recipe(folder / "tiny", write_data(folder / "data"), model=model), SharedStore(folder / "s")
    return assemble(recipe, seed, read_objective(recipe, seed, store), store)


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
