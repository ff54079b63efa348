"""Models from random weights whose sizes and kind of attention a recipe gives, with each kind of tokenizer."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

import heedful
from heedful.building.body import SIZES
from heedful.checkpoints.families import family_of
from heedful.checkpoints.fresh import shape_from
from heedful.errors import RequestError
from heedful.models.kinds import ATTENTION_KINDS
from heedful.models.shape import NAMED_SHAPES
from heedful.recipes.reading import explain_key, make_recipe
from heedful.recipes.schema import Attention, Recipe
from heedful.training.run import execute
from tests.support.killing import survive
from tests.support.training_samples import Child, assert_same_run, read_tsv, write_csv, write_data

SIZED = {"layers": 2, "width": 16, "heads": 2, "positions": 40}


def sized_recipe(files: dict[str, str], kind: str, **model: Any) -> Recipe:
    tokenizer = {"kind": kind} if kind == "characters" else {"kind": kind, "size": 300}
    training = {"epochs": 2, "batch_size": 8, "lr": 2e-3, "max_length": 32, "threads": 1, "device": "cpu",
                "checkpoint_seconds": 0}  # fmt: skip
    content = {"model": model, "tokenizer": tokenizer, "data": files, "training": training}
    return make_recipe({**content, "evaluation": {"baselines": False}})


@pytest.mark.parametrize(
    ("shape", "tokenizer", "attention", "family"),
    [
        ("gpt-mini", "characters", None, "gpt2"),
        ("gpt-mini", "characters", "synthesizer-dense", "heedful"),
        ("gpt2", "bpe", "relative", "heedful"),
        ("bert-mini", "wordpiece", "rotary", "roformer"),
        ("bert-mini", "bpe", "rotary", "roformer"),
        ("bert-mini", "wordpiece", "relative", "heedful"),
        ("distilbert-base", "characters", "synthesizer-random", "heedful"),
    ],
)
def test_a_run_of_each(shape: str, tokenizer: str, attention: str | None, family: str, tmp_path: Path) -> None:
    files = write_data(tmp_path / "data")
    recipe = sized_recipe(files, tokenizer, shape=shape, attention=attention, **SIZED)
    for name in ("a", "b"):
        execute(recipe, 7, tmp_path / name / "run", command="x", quiet=True)
    assert_same_run(tmp_path / "a/run", tmp_path / "b/run")
    manifest = json.loads((tmp_path / "a/run/manifest.json").read_text())
    assert manifest["model"]["family"] == family
    model = heedful.load(tmp_path / "a/run/model")
    assert {key: getattr(model.shape, key) for key in SIZED} == SIZED
    assert (model.shape.inner, model.shape.attention) == (64, attention or "dot-product")
    header, rows = read_tsv(tmp_path / "a/run/predictions/test.tsv")
    texts = [line.rpartition(",")[0] for line in Path(files["test"]).read_text().splitlines()[1:]]
    found = model.predict(texts)
    said = np.array([[float(row[header.index(f"p:{name}")]) for name in found.names] for row in rows])
    assert abs(found.probabilities - said).max() <= 1e-5


def test_a_killed_run_of_a_synthesizer_goes_on_to_the_same_end(tmp_path: Path) -> None:
    recipe = sized_recipe(write_data(tmp_path / "data"), "characters", shape="gpt-mini", attention="synthesizer-dense",
                          **SIZED)  # fmt: skip
    Child(recipe, 7, tmp_path / "whole" / "run").finish()
    survive(2, recipe, tmp_path, tmp_path / "whole" / "run", random.Random(0))


def test_characters_are_those_of_the_training_texts(tmp_path: Path) -> None:
    rows = [(f"a\tb  {'xy'[i % 2]}\n{i}", "no" if i % 2 else "yes") for i in range(40)]
    files = {"train": str(write_csv(tmp_path / "train.csv", ("text", "label"), rows)), "text": "text", "label": "label"}
    recipe = sized_recipe(files, "characters", shape="gpt-mini", **SIZED)
    execute(recipe, 7, tmp_path / "run", quiet=True)
    tokenizer = heedful.load(tmp_path / "run/model").tokenizer
    special = ["[PAD]", "[UNK]", "[BOS]", "[EOS]", "[MASK]"]
    assert [tokenizer.token(i) for i in range(tokenizer.size)] == [*special, *sorted("\t\n 0123456789abxy")]
    assert tokenizer.special == {
        "pad": "[PAD]", "unk": "[UNK]", "bos": "[BOS]", "eos": "[EOS]", "mask": "[MASK]"
    }  # fmt: skip


def test_what_is_not_said_is_as_the_shape_has_it() -> None:
    mini = NAMED_SHAPES["gpt-mini"]
    assert shape_from("gpt-mini", {}) == mini
    assert shape_from("gpt-mini", {"width": 64}) == replace(mini, width=64, inner=256)
    assert shape_from("gpt-mini", {"width": 64, "inner": 7}) == replace(mini, width=64, inner=7)
    assert shape_from("gpt-mini", {"layers": 9, "heads": 4}) == replace(mini, layers=9, heads=4)
    for kind in ("rotary", "relative"):
        assert shape_from("gpt-mini", {"attention": kind}) == replace(mini, attention=kind, position_kind="none")
        kept = shape_from("gpt-mini", {"attention": kind, "position_kind": "learned"})
        assert kept == replace(mini, attention=kind)
    for kind in ("synthesizer-dense", "synthesizer-random", "dot-product"):
        assert shape_from("gpt-mini", {"attention": kind}) == replace(mini, attention=kind)
    quiet = {"dropout": 0.3, "embedding_dropout": 0.3, "attention_dropout": 0.3}
    assert shape_from("gpt-mini", {"body_dropout": 0.3}) == replace(mini, **quiet, attention_output_dropout=0.3)
    distil = shape_from("distilbert-base", {"body_dropout": 0.3})
    assert distil == replace(NAMED_SHAPES["distilbert-base"], **quiet)
    assert family_of(distil).name == "distilbert"


@pytest.mark.parametrize("name", NAMED_SHAPES)
def test_sizes_alone_leave_a_shape_in_its_family(name: str) -> None:
    sizes = {"layers": 3, "width": 96, "heads": 6, "positions": 64, "body_dropout": 0.2}
    assert family_of(shape_from(name, sizes)).name == family_of(NAMED_SHAPES[name]).name


@pytest.mark.parametrize(
    ("name", "sizes", "words"),
    [
        ("gpt-mini", {"width": 100}, "model.width = 100 is not divisible by model.heads = 8; change one of them."),
        ("gpt-mini", {"heads": 3}, "model.width = 256 is not divisible by model.heads = 3"),
        (
            "gpt-mini",
            {"width": 24, "attention": "rotary"},
            "model.width = 24 among model.heads = 8 leaves each an odd 3",
        ),
        ("gpt-mini", {"width": 9, "heads": 3, "position_kind": "sinusoidal"}, "needs an even model.width, not 9"),
        ("roberta-base", {"positions": 2}, "model.positions leaves no position after model.pad_id"),
        ("bert-teeny", {"width": 8}, "model.shape = 'bert-teeny' is unknown"),
    ],
)
def test_contradictions_are_one_sentence(name: str, sizes: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError) as caught:
        shape_from(name, sizes)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_recipe_knows_every_kind_and_explains_each_key() -> None:
    assert get_args(Attention) == tuple(ATTENTION_KINDS)
    for key in SIZES:
        assert "Default: " in explain_key(f"model.{key}")


VALUES = {"layers": 2, "width": 64, "heads": 2, "inner": 9, "positions": 50, "attention": "rotary",
          "position_kind": "none", "causal": True, "body_dropout": 0.0}  # fmt: skip


@pytest.mark.parametrize("key", SIZES)
def test_sizes_go_with_a_shape(key: str) -> None:
    data = {"train": "a.csv", "text": "t", "label": "l"}
    with pytest.raises(RequestError, match=rf"model\.{key} goes with model\.shape; minilm has its own sizes\."):
        make_recipe({"model": {"name": "minilm", key: VALUES[key]}, "data": data})
    recipe = make_recipe({"model": {"shape": "gpt-mini", key: VALUES[key]}, "data": data, "tokenizer": {"kind": "bpe"}})
    assert recipe.model.sizes() == {key: VALUES[key]}
    assert recipe.identity()["model"] == {"shape": "gpt-mini", key: VALUES[key]}


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({"model": {"attention": "magic"}}, "model.attention = 'magic' is not right: choose 'dot-product', 'rotary'"),
        ({"model": {"layers": 0}}, "model.layers = 0 is not right: it must be at least 1"),
        ({"model": {"position_kind": "rotary"}}, "model.position_kind = 'rotary' is not right"),
        ({"model": {"body_dropout": 1}}, "model.body_dropout = 1 is not right: it must be below 1"),
        ({"tokenizer": {"kind": "letters"}}, "choose 'wordpiece', 'bpe' or 'characters'"),
        ({"tokenizer": {"kind": "characters", "size": 300}}, 'tokenizer.size goes with tokenizer.kind = "wordpiece"'),
        ({"tokenizer": {"name": "minilm", "size": 300}}, 'tokenizer.size goes with tokenizer.kind = "wordpiece"'),
    ],
)
def test_values_that_a_key_cannot_have(tables: dict[str, Any], words: str) -> None:
    content = {"model": {"shape": "gpt-mini"}, "data": {"train": "a.csv"}, "tokenizer": {"kind": "bpe"}}
    content["model"] |= tables.get("model", {})
    content["tokenizer"] = tables.get("tokenizer", content["tokenizer"])
    with pytest.raises(RequestError) as caught:
        make_recipe(content)
    assert words in str(caught.value)
