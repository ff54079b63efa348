"""Our own dialect says every shape: saved and read again it is equal to the bit, and a wrong config.json is refused."""

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

import heedful
from heedful.checkpoints.directory import Checkpoint, read_model, write_model
from heedful.checkpoints.families import FAMILIES, family_of
from heedful.checkpoints.heads import NewHead, make_head
from heedful.errors import RequestError
from heedful.models.adapters import BottleneckShape, LowRankShape, activate, add_adapter
from heedful.models.batch import Batch
from heedful.models.kinds import ATTENTION_KINDS
from heedful.models.shape import NAMED_SHAPES, HeadKind, Shape
from heedful.models.transformer import Transformer
from heedful.nn.activations import ACTIVATIONS
from heedful.text import Tokenizer, character_tokenizer, train_bpe, train_wordpiece
from heedful.text.characters import SPECIAL
from tests.support.checkpoint_samples import (
    CONFIG,
    HEADS_FILE,
    WEIGHTS,
    assert_same,
    edit_config,
    edit_tensors,
    formula,
)

FAMILY = FAMILIES["heedful"]
TEXTS = ["ab cd", "hgfe  dcba", "b"]
NEW: dict[str, NewHead] = {
    "classify": NewHead("linear", ("no", "yes")),
    "topic": NewHead("two-layer", ("a", "b", "c"), reads="mean"),
    "in-order": NewHead("linear", ("a", "b"), recurrent="gru"),
    "mask": NewHead("masked-word"),
    "next-sentence": NewHead("next-sentence"),
    "causal": NewHead("language-model"),
}
SMALL = {"vocabulary": 30, "width": 8, "layers": 2, "heads": 2, "inner": 12, "positions": 16}
ENCODER = replace(NAMED_SHAPES["bert-tiny"], **SMALL)
BODIES = {"encoder": ENCODER, "plain": replace(ENCODER, pooler=False, segments=0, pad_id=None),
          "decoder": replace(NAMED_SHAPES["gpt2"], **SMALL)}  # fmt: skip


def make(shape: Shape, tokenizer: Tokenizer | None = None, new: dict[str, NewHead] = NEW) -> Checkpoint:
    heads = {name: make_head(FAMILY, shape, head) for name, head in new.items()}
    transformer = Transformer(shape, heads)
    with torch.no_grad():
        for name, p in transformer.named_parameters():
            p.copy_(formula(name, tuple(p.shape)))
    return Checkpoint(transformer.eval(), "heedful", tokenizer)


def answers(checkpoint: Checkpoint) -> dict[str, torch.Tensor]:
    batch = Batch(torch.tensor([[7, 3, 9, 20], [5, 6, 2, 2]]), torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]]).bool())
    with torch.no_grad():
        return {head: checkpoint.transformer(head, batch) for head in checkpoint.transformer.heads}


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("attention", ATTENTION_KINDS)
@pytest.mark.parametrize("position_kind", ["learned", "sinusoidal", "sinusoidal-halves", "none"])
def test_round_trip_of_every_kind_and_head(body: str, attention: str, position_kind: Any, tmp_path: Path) -> None:
    first = make(replace(BODIES[body], attention=attention, position_kind=position_kind))
    write_model(tmp_path / "a", first)
    second = read_model(tmp_path / "a")
    assert_same(first, second)
    for head, scores in answers(first).items():
        assert torch.equal(answers(second)[head], scores), head
    write_model(tmp_path / "b", second)
    for file in (CONFIG, WEIGHTS, HEADS_FILE):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes(), file
    assert not any("head" in name for name in load_file(tmp_path / "a" / WEIGHTS))
    edit_tensors(tmp_path / "b", lambda tensors: tensors["blocks.1.attention.output.bias"][:3].add_(1))  # the control
    third = answers(read_model(tmp_path / "b"))
    assert not torch.equal(third["classify"], answers(first)["classify"])


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    heads = draw(st.integers(1, 3))
    shares = st.floats(0, 0.9)
    pad = draw(st.sampled_from([None, 0, 4]))
    return Shape(
        vocabulary=draw(st.integers(5, 20)), width=2 * heads * draw(st.integers(1, 3)), layers=draw(st.integers(1, 3)),
        heads=heads, inner=draw(st.integers(1, 9)), positions=draw(st.integers(6, 12)),
        segments=draw(st.integers(0, 3)), causal=draw(st.booleans()), norm=draw(st.sampled_from(["pre", "post"])),
        embedding_norm=draw(st.booleans()), embedding_scale=draw(st.booleans()),
        position_kind=draw(st.sampled_from(["learned", "sinusoidal", "sinusoidal-halves", "none"])),
        positions_from=draw(st.sampled_from(["zero"] if pad is None else ["zero", "pad"])),
        attention=draw(st.sampled_from(list(ATTENTION_KINDS))), memory_width=draw(st.sampled_from([None, 3])),
        activation=draw(st.sampled_from(list(ACTIVATIONS))), norm_eps=draw(st.sampled_from([1e-12, 1e-5])),
        dropout=draw(shares), embedding_dropout=draw(shares), attention_dropout=draw(shares),
        attention_output_dropout=draw(shares), head_dropout=draw(st.none() | shares),
        initializer_range=draw(st.floats(0.001, 1)), narrow_residuals=draw(st.booleans()), pad_id=pad,
        pooler=draw(st.booleans()),
    )  # fmt: skip


@settings(max_examples=40)
@given(shapes())
def test_every_shape_can_be_said(tmp_path_factory: pytest.TempPathFactory, shape: Shape) -> None:
    assert not FAMILY.cannot_say(shape)
    first = make(shape, new={"classify": NewHead("linear", ("no", "yes"))})
    folder = tmp_path_factory.mktemp("model") / "model"
    write_model(folder, first)
    assert_same(first, read_model(folder))


def test_every_field_of_a_shape_is_a_key() -> None:
    assert {key.field for key in FAMILY.keys} == {f.name for f in fields(Shape)} - {"pooler"}
    assert list(FAMILIES)[-1] == "heedful"
    assert [family.name for family in FAMILIES.values() if family.own] == ["heedful"]


@pytest.mark.parametrize("name", NAMED_SHAPES)
def test_a_family_of_the_peers_is_preferred(name: str) -> None:
    shape = NAMED_SHAPES[name]
    assert family_of(shape).name != "heedful"
    for kind in ATTENTION_KINDS:
        assert (family_of(replace(shape, attention=kind)).name == "heedful") == (kind != "dot-product")
    alone = family_of(replace(shape, attention="rotary", position_kind="none"))  # BERT's become RoFormers
    assert alone.name == ("roformer" if family_of(shape).name == "bert" else "heedful")


def test_the_names_of_tensors_are_a_file_format(tmp_path: Path) -> None:
    """A parameter that is renamed makes directories unreadable that are there."""
    own = {
        "rotary": ["output.bias", "output.weight", "qkv.bias", "qkv.weight"],
        "relative": ["attend.table.weight", "output.bias", "output.weight", "qkv.bias", "qkv.weight"],
        "synthesizer-dense": ["output.bias", "output.weight", "scores.bias", "scores.up.bias", "scores.up.weight",
                              "scores.weight", "value.bias", "value.weight"],
        "synthesizer-random": ["output.bias", "output.weight", "scores.table", "value.bias", "value.weight"],
    }  # fmt: skip
    rest = [
        "around_attention.norm.bias", "around_attention.norm.weight", "around_feed_forward.norm.bias",
        "around_feed_forward.norm.weight", "feed_forward.down.bias", "feed_forward.down.weight",
        "feed_forward.up.bias", "feed_forward.up.weight",
    ]  # fmt: skip
    around = [
        "embeddings.norm.bias", "embeddings.norm.weight", "embeddings.position.weight", "embeddings.segment.weight",
        "embeddings.token.weight", "pooler.dense.bias", "pooler.dense.weight",
    ]  # fmt: skip
    for kind, names in own.items():
        write_model(tmp_path / kind, make(replace(ENCODER, attention=kind, layers=1)))
        block = [f"blocks.0.{name}" for name in (*rest, *(f"attention.{name}" for name in names))]
        assert sorted(load_file(tmp_path / kind / WEIGHTS)) == sorted([*around, *block])


def tokenizers(folder: Path) -> dict[str, Tokenizer]:
    (corpus := folder / "corpus.txt").write_text("ab cd hgfe dcba\n" * 9)
    return {
        "wordpiece": train_wordpiece([corpus], 40, family="heedful"),
        "bpe": train_bpe([corpus], 270, family="heedful"),
        "characters": character_tokenizer(corpus.read_text(), SPECIAL, "heedful"),
    }


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "characters"])
@pytest.mark.parametrize("body", BODIES)
def test_with_each_kind_of_tokenizer(kind: str, body: str, tmp_path: Path) -> None:
    tokenizer = tokenizers(tmp_path)[kind]
    sizes = {"vocabulary": tokenizer.size, "pad_id": tokenizer.pad_id, "attention": "relative"}
    first = make(replace(BODIES[body], **sizes), tokenizer, {"classify": NEW["classify"]})
    write_model(tmp_path / "model", first)
    assert_same(first, read_model(tmp_path / "model"))
    model = heedful.load(tmp_path / "model")
    together = model.predict(TEXTS).probabilities
    alone = [model.predict([text]).probabilities[0] for text in TEXTS]
    assert abs(together - np.stack(alone)).max() <= 1e-5
    model.save(tmp_path / "again")
    again = heedful.load(tmp_path / "again")
    assert (again.predict(TEXTS).probabilities == together).all()
    roles = ("pad", "unk", "mask") if kind == "wordpiece" else ("pad", "unk", "bos", "eos", "mask")
    assert all(getattr(again.tokenizer, f"{role}_id") == getattr(tokenizer, f"{role}_id") for role in roles)
    assert None not in [getattr(again.tokenizer, f"{role}_id") for role in roles]


@pytest.mark.parametrize("attention", ["relative", "synthesizer-dense", "rotary"])
def test_adapters_and_new_heads_go_with_it(attention: str, tmp_path: Path) -> None:
    """With a RoFormer as well, of which AdapterHub knows no more than of ours."""
    shape = replace(ENCODER, attention=attention, position_kind="none" if attention == "rotary" else "learned")
    first = replace(make(shape, new={"classify": NEW["classify"]}), family=family_of(shape).name)
    assert first.family == ("roformer" if attention == "rotary" else "heedful")
    add_adapter(first.transformer, "mood", BottleneckShape(attention=True))
    with torch.no_grad():
        for name, p in first.transformer.adapters.named_parameters():
            p.copy_(formula(name, tuple(p.shape)))
    head = first.transformer.head_shapes["classify"]
    first.transformer.head_shapes["classify"] = replace(head, adapters="mood")
    activate(first.transformer, "mood")
    write_model(tmp_path / "a", first)
    second = read_model(tmp_path / "a")
    assert_same(first, second)
    assert torch.equal(answers(second)["classify"], answers(first)["classify"])
    assert read_model(tmp_path / "a", body_only=True).transformer.head_shapes == {}
    kept = read_model(tmp_path / "a", {"more": NewHead("two-layer", ("x", "y"))}, keep_heads=True)
    assert list(kept.transformer.head_shapes) == ["classify", "more"]
    assert kept.transformer.head_shapes["more"].reads == ("first" if attention == "rotary" else "pooled")


def test_low_rank_changes_of_what_a_synthesizer_has(tmp_path: Path) -> None:
    first = make(replace(ENCODER, attention="synthesizer-random"), new={"classify": NEW["classify"]})
    before = answers(first)["classify"]
    add_adapter(first.transformer, "mood", LowRankShape(("attention-output", "up"), 2, 4.0))
    with torch.no_grad():
        for name, p in first.transformer.adapters.named_parameters():
            p.copy_(formula(name, tuple(p.shape)))
    head = first.transformer.head_shapes["classify"]
    first.transformer.head_shapes["classify"] = replace(head, adapters="mood")
    activate(first.transformer, "mood")
    write_model(tmp_path / "a", first)
    changed = answers(first)["classify"]
    assert (changed - before).abs().max() > 1e-3
    assert torch.equal(answers(read_model(tmp_path / "a"))["classify"], changed)
    add_adapter(first.transformer, "other", LowRankShape(("query",), 2, 4.0))
    with pytest.raises(RequestError, match="need attention that has them"):
        activate(first.transformer, "other")


@pytest.mark.parametrize(("body", "reads"), [("encoder", "pooled"), ("plain", "mean"), ("decoder", "last")])
@pytest.mark.parametrize("kind", ["linear", "two-layer"])
def test_a_head_reads_the_state_that_knows_the_text(body: str, reads: str, kind: HeadKind) -> None:
    assert make_head(FAMILY, BODIES[body], NewHead(kind, ("a", "b"))).reads == reads


BAD_VALUES: list[tuple[dict[str, Any], str]] = [
    ({"attention": "magic"}, r'attention = "magic" is not supported; heedful knows dot-product, rotary, relative'),
    ({"attention": 3}, "attention = 3 is not supported"),
    ({"norm": "both"}, r'norm = "both" is not supported; heedful knows post, pre'),
    ({"position_kind": None}, "position_kind = null is not supported"),
    ({"positions_from": "one"}, "positions_from"),
    ({"activation": "relu6"}, "activation"),
    ({"causal": 1}, "causal = 1 is neither true nor false"),
    ({"narrow_residuals": "no"}, "narrow_residuals"),
    ({"layers": 0}, "layers = 0 is not a whole number from 1 to 1000"),
    ({"layers": 1001}, "layers = 1001"),
    ({"layers": True}, "layers = true is not a number"),
    ({"heads": 3}, "width = 8 is not divisible by heads = 3"),
    ({"heads": 8}, r'attention = "rotary" turns pairs .* leaves each an odd 1\.'),
    ({"width": 9, "heads": 1, "attention": "relative", "position_kind": "sinusoidal"}, "needs an even width, not 9"),
    ({"segments": -1}, "segments = -1 is not a whole number from 0"),
    ({"pad_id": 30}, "pad_id = 30 is outside the vocabulary"),
    ({"pad_id": None, "positions_from": "pad"}, 'positions_from = "pad" needs a pad_id'),
    ({"pad_id": 20, "positions_from": "pad"}, "positions leaves no position after pad_id"),
    ({"attention": "synthesizer-random", "positions": 10**8}, "positions = 100000000 is above 100000"),
    ({"dropout": 1.5}, "dropout = 1.5 is not between 0 and 1"),
    ({"head_dropout": "0"}, "head_dropout"),
    ({"memory_width": 0}, "memory_width = 0 is not a whole number from 1"),
    ({"hidden_size": 8}, "'hidden_size' is not supported for heedful"),
    ({"attention": "synthesizer-dense"}, "the tensors do not fit the heedful"),
    ({"layers": 1}, "the tensors do not fit the heedful"),
    ({"causal": None}, "causal = null is neither true nor false"),
]


@pytest.mark.parametrize(("changes", "words"), BAD_VALUES, ids=lambda v: ",".join(v) if isinstance(v, dict) else "")
def test_what_is_out_of_range_is_refused_in_a_sentence(changes: dict[str, Any], words: str, tmp_path: Path) -> None:
    write_model(tmp_path / "a", make(replace(ENCODER, attention="rotary")))
    edit_config(tmp_path / "a", **changes)
    with pytest.raises(RequestError, match=words) as caught:
        read_model(tmp_path / "a")
    assert "\n" not in str(caught.value)
    assert str(tmp_path / "a") in str(caught.value)


def test_a_size_that_is_missing_is_refused_and_a_head_in_another_file_too(tmp_path: Path) -> None:
    write_model(tmp_path / "a", make(replace(ENCODER, attention="rotary")))
    content = json.loads((tmp_path / "a" / CONFIG).read_text())
    width = content.pop("width")
    (tmp_path / "a" / CONFIG).write_text(json.dumps(content))
    with pytest.raises(RequestError, match="width is missing"):
        read_model(tmp_path / "a")
    content["width"] = width
    content["heedful"]["heads"]["classify"]["file"] = WEIGHTS
    (tmp_path / "a" / CONFIG).write_text(json.dumps(content))
    with pytest.raises(RequestError, match=r"classify\.file .* is not possible on heedful"):
        read_model(tmp_path / "a")


def test_without_heedfuls_notes_the_body_is_read(tmp_path: Path) -> None:
    first = make(replace(ENCODER, attention="rotary"), new={})
    write_model(tmp_path / "a", first)
    content = json.loads((tmp_path / "a" / CONFIG).read_text())
    del content["heedful"], content["model_type"], content["architectures"]
    (tmp_path / "a" / CONFIG).write_text(json.dumps(content))
    assert_same(first, read_model(tmp_path / "a"))
