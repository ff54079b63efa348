"""`training.precision`: what is multiplied in bfloat16, and what is not."""

import random
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from heedful.errors import RequestError
from heedful.inference import device
from heedful.nn import attention
from heedful.recipes.schema import Recipe
from heedful.storage.shared import SharedStore
from heedful.training.assembly import assemble, read_source
from heedful.training.run import execute
from tests.support.killing import survive
from tests.support.training_samples import assert_same_run, read_log, tiny_recipe, write_data, write_tiny

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def any_cpu_will_do(monkeypatch):
    """A CPU without the instructions imitates them, slowly and to the same effect."""
    monkeypatch.setattr(device, "multiplies_bfloat16", lambda: True)


def recipe_in(folder: Any, precision: str) -> Recipe:
    training = {"precision": precision, "device": "cpu", "threads": 1, "epochs": 3, "lr": 1e-3}
    return tiny_recipe(write_tiny(folder / "body"), write_data(folder), training=training)


def test_float32_is_what_a_cpu_trains_in(tmp_path):
    for name in ("auto", "float32"):
        execute(recipe_in(tmp_path, name), 0, tmp_path / name, command="test", quiet=True)
    assert_same_run(tmp_path / "auto", tmp_path / "float32", but_for=("recipe",))


def test_only_products_of_training_are_in_bfloat16(tmp_path):
    """The same weights are judged to the same bit; losses are near those in float32, and not the same; what is kept is
    float32."""
    recipes = {name: recipe_in(tmp_path, name) for name in ("float32", "bfloat16")}
    scores, losses = {}, {}
    for name, recipe in recipes.items():
        parts = assemble(read_source(recipe, 0, store := SharedStore(tmp_path / "shared")), store)
        texts = parts.inputs.cached_texts()["dev"]
        scores[name] = parts.tuning.reader.all_scores(texts, "classify")
        with torch.enable_grad():
            trained = parts.tuning.reader.scores(texts, "classify")
        assert trained.dtype == {"float32": torch.float32, "bfloat16": torch.bfloat16}[name]
        execute(recipe, 0, tmp_path / name, command="test", quiet=True)
        losses[name] = [line["loss"] for line in read_log(tmp_path / name) if "loss" in line]
        kept = load_file(tmp_path / name / "model/model.safetensors")
        assert {tensor.dtype for tensor in kept.values()} == {torch.float32}
    assert torch.equal(*scores.values())
    assert losses["float32"] != losses["bfloat16"]
    assert losses["float32"] == pytest.approx(losses["bfloat16"], rel=0.05)


def test_attention_in_bfloat16_is_as_the_reference_for_short_and_long_texts(monkeypatch):
    """The kernel is left for long texts alone, and its answer is the same."""
    g = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 2, 40, 8, generator=g).bfloat16() for _ in range(3))
    places = (torch.arange(40), torch.arange(40))
    mask = torch.ones(40, 40, dtype=torch.bool).tril()[None, None]
    reference = attention.dot_product(q.float(), k.float(), v.float(), mask, places, 0.0, False)[0]
    short = attention.fused_dot_product(q, k, v, mask, places, 0.0, False)[0]
    monkeypatch.setattr(attention, "_MOST_SCORES", 0)
    long = attention.fused_dot_product(q, k, v, mask, places, 0.0, False)[0]
    for answer in (short, long):
        assert (answer.float() - reference).abs().max() < 0.03
    assert not torch.equal(short, long)


@pytest.mark.skipif(not device.multiplies_bfloat16(), reason="this CPU has no instructions for bfloat16")
def test_killed_and_resumed_to_the_bit(tmp_path):
    recipe = recipe_in(tmp_path, "bfloat16")
    execute(recipe, 7, tmp_path / "whole", command="test", quiet=True)
    survive(2, recipe, tmp_path / "killed", tmp_path / "whole", random.Random(1))


def test_a_cpu_without_the_instructions_refuses(monkeypatch):
    monkeypatch.setattr(device, "multiplies_bfloat16", lambda: False)
    with pytest.raises(RequestError, match=r"training.precision.*no instructions for it.*use float32"):
        device.is_mixed("bfloat16", CPU)
    assert not device.is_mixed("auto", CPU)
    assert device.is_mixed("auto", torch.device("cuda"))
    assert not device.is_mixed("float32", torch.device("cuda"))
