"""Low-rank adapters against PEFT, both ways: the same states, scores and gradients from directories that it wrote, and
what we write is the same there; every option that we do not have is refused by name."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import heedful
from heedful.checkpoints.adapters import open_adapter, put_adapter
from heedful.checkpoints.directory import read_model
from heedful.errors import RequestError
from heedful.models.adapters import activate
from heedful.models.merging import merge, unmerge
from tests.support.adapter_samples import CLASSIFIERS, base_with_head, formula, their_inputs

peft = pytest.importorskip("peft")

TARGETS = {
    "bert": (
        ["query", "value"],
        ["query", "key", "value", "attention.output.dense", "intermediate.dense", "output.dense"],
    ),
    "roberta": (["query", "value"], ["query", "key", "value", "intermediate.dense"]),
    "distilbert": (["q_lin", "v_lin"], ["q_lin", "k_lin", "v_lin", "out_lin", "lin1", "lin2"]),
    "gpt2": (["c_attn"], ["c_attn", "c_proj", "c_fc"]),
}
TARGETS["roformer"] = TARGETS["bert"]
OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "everywhere": {"everywhere": True, "r": 3, "lora_alpha": 7},
    "stabilised": {"use_rslora": True, "r": 4, "lora_alpha": 6},
    "layers": {"layers_to_transform": [1]},
    "patterns": {"everywhere": True, "pattern": True},
    "gaussian": {"init_lora_weights": "gaussian", "lora_dropout": 0.3},
}


def their_model(base: Path, family: str, options: dict[str, Any]) -> Any:
    from transformers import AutoModelForSequenceClassification

    options = dict(options)
    model = AutoModelForSequenceClassification.from_pretrained(base)
    targets = TARGETS[family][bool(options.pop("everywhere", False))]
    if options.pop("pattern", False):
        options |= {"rank_pattern": {targets[0]: 2}, "alpha_pattern": {targets[0]: 5, targets[-1]: 3}}
    config = peft.LoraConfig(
        task_type="SEQ_CLS",
        target_modules=targets,
        fan_in_fan_out=family == "gpt2",
        **{"r": 8, "lora_alpha": 8, **options},
    )
    model = peft.get_peft_model(model, config)
    for name, p in model.named_parameters():
        if "lora_" in name or "modules_to_save" in name:
            p.data = formula(name, p.shape)
    return model.eval()


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("family", CLASSIFIERS)
def test_directories_that_it_wrote(family: str, options: dict[str, Any], tmp_path: Path) -> None:
    base = base_with_head(family, tmp_path)
    theirs = their_model(base, family, options)
    theirs.save_pretrained(tmp_path / "lora")
    theirs.double()
    inputs = their_inputs(family)
    logits = theirs(**inputs).logits
    logits.sin().sum().backward()

    model = heedful.load(base, body_only=True)
    model.load_adapter(tmp_path / "lora", name="mine")
    transformer = model.transformer.double()
    model.activate("mine")
    batch = heedful_batch(inputs)
    ours = transformer("mine", batch)
    near = 1e-6 if family == "roformer" else 1e-10  # its angles are a table of single precision there
    assert (ours - logits).abs().max() < near
    ours.sin().sum().backward()
    stored = {n.replace(".default.", "."): p.grad for n, p in theirs.named_parameters() if "lora_" in n}
    compared = 0
    for key, source in model.checkpoint.sources.items():
        if key.startswith("adapters.mine."):
            grad = dict(transformer.named_parameters())[key].grad
            assert torch.allclose(grad, stored[source.split(": ")[1]], atol=near)
            compared += 1
    assert compared == len(stored)


def heedful_batch(inputs: dict[str, torch.Tensor]) -> Any:
    from heedful.models.batch import Batch

    return Batch(inputs["input_ids"], inputs["attention_mask"].bool(), inputs.get("token_type_ids"))


@pytest.mark.parametrize("options", [OPTIONS["default"], OPTIONS["everywhere"], OPTIONS["patterns"], OPTIONS["layers"]])
@pytest.mark.parametrize("family", CLASSIFIERS)
def test_what_we_write_opens_there(family: str, options: dict[str, Any], tmp_path: Path) -> None:
    from transformers import AutoModelForSequenceClassification

    base = base_with_head(family, tmp_path)
    their_model(base, family, options).save_pretrained(tmp_path / "theirs")
    model = heedful.load(base, body_only=True)
    model.load_adapter(tmp_path / "theirs", name="mine")
    model.save_adapter(tmp_path / "ours", "mine")
    again = peft.PeftModel.from_pretrained(AutoModelForSequenceClassification.from_pretrained(base), tmp_path / "ours")
    inputs = their_inputs(family)
    model.activate("mine")
    with torch.no_grad():
        ours = model.transformer("mine", heedful_batch(inputs))
        assert (again.eval()(**inputs).logits - ours).abs().max() < 1e-5
    stored, written = (load_file(tmp_path / f"{name}/adapter_model.safetensors") for name in ("theirs", "ours"))
    assert stored.keys() == written.keys()
    assert all(torch.equal(stored[name], written[name]) for name in stored)


@pytest.mark.parametrize("family", CLASSIFIERS)
def test_merging_is_theirs_and_unmerging_is_exact(family: str, tmp_path: Path) -> None:
    from transformers import AutoModelForSequenceClassification

    base = base_with_head(family, tmp_path)
    theirs = their_model(base, family, OPTIONS["everywhere"])
    theirs.save_pretrained(tmp_path / "lora")
    model = heedful.load(base, body_only=True)
    model.load_adapter(tmp_path / "lora", name="mine", head="classify")
    model.activate("mine")
    before = {n: p.detach().clone() for n, p in model.transformer.body.named_parameters()}
    batch = heedful_batch(their_inputs(family))
    with torch.no_grad():
        unmerged = model.transformer("classify", batch)
        merged = merge(model.transformer)
        assert model.transformer.active is None
        assert (model.transformer("classify", batch) - unmerged).abs().max() < 1e-5
        assert any(not torch.equal(p, before[n]) for n, p in model.transformer.body.named_parameters())
        unmerge(model.transformer, merged)
        assert all(torch.equal(p, before[n]) for n, p in model.transformer.body.named_parameters())
        assert torch.equal(model.transformer("classify", batch), unmerged)
    # Merged, and its head where Hugging Face looks for it, it opens there whole.
    model.merge()
    model.save(tmp_path / "merged")
    opened = AutoModelForSequenceClassification.from_pretrained(tmp_path / "merged").eval()
    with torch.no_grad():
        whole = theirs.merge_and_unload()(**their_inputs(family)).logits
        assert (opened(**their_inputs(family)).logits - whole).abs().max() < 1e-5


@pytest.mark.parametrize(
    ("key", "value"),
    [("use_dora", True), ("bias", "all"), ("bias", "lora_only"), ("init_lora_weights", "pissa"), ("lora_bias", True),
     ("layer_replication", [[0, 1]]), ("peft_type", "IA3"), ("some_new_option", 3)],
)  # fmt: skip
def test_other_options_are_refused_by_name(key: str, value: Any, tmp_path: Path) -> None:
    base = base_with_head("bert", tmp_path)
    their_model(base, "bert", {}).save_pretrained(tmp_path / "lora")
    path = tmp_path / "lora/adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    checkpoint = read_model(base, body_only=True)
    with pytest.raises(RequestError, match=key):
        put_adapter(checkpoint.transformer, "bert", open_adapter(tmp_path / "lora"), "x")
    assert not checkpoint.transformer.adapters


def test_a_change_of_something_else_is_refused_by_name(tmp_path: Path) -> None:
    base = base_with_head("bert", tmp_path)
    their_model(base, "bert", {}).save_pretrained(tmp_path / "lora")
    path = tmp_path / "lora/adapter_model.safetensors"
    for stray, says in {
        "base_model.model.bert.pooler.dense.lora_A.weight": "changes 'pooler.dense', which is no map",
        "base_model.model.bert.encoder.layer.7.attention.self.query.lora_A.weight": "changes 'encoder.layer.7",
    }.items():
        save_file({**load_file(path), stray: torch.zeros(8, 16)}, tmp_path / "lora/changed.safetensors")
        (tmp_path / "lora/changed.safetensors").rename(path)
        checkpoint = read_model(base, body_only=True)
        with pytest.raises(RequestError, match=says):
            put_adapter(checkpoint.transformer, "bert", open_adapter(tmp_path / "lora"), "x")
        tensors = {n: t for n, t in load_file(path).items() if n != stray}
        save_file(tensors, path)


def test_several_at_once_add_up(tmp_path: Path) -> None:
    """A stack of low-rank adapters is the sum of their changes, an average their weighted mean."""
    base = base_with_head("bert", tmp_path)
    their_model(base, "bert", {}).save_pretrained(tmp_path / "one")
    their_model(base, "bert", {"lora_alpha": 3}).save_pretrained(tmp_path / "two")
    model = heedful.load(base, body_only=True)
    model.load_adapter(tmp_path / "one", name="one", head=False)
    model.load_adapter(tmp_path / "two", name="two", head=False)
    model.transformer.double()
    batch = heedful_batch(their_inputs("bert"))

    def states(composition: Any) -> torch.Tensor:
        activate(model.transformer, composition)
        with torch.no_grad():
            return model.transformer.body(batch, adapters=model.transformer.through(None)).last

    from heedful.models.composition import Average, Stack

    weights = {n: p.detach().clone() for n, p in model.transformer.body.named_parameters()}
    for composition, factors in (
        (Stack("one", "two"), (1.0, 1.0)),
        (Average("one", "two", weights=[1, 3]), (0.25, 0.75)),
    ):
        seen = states(composition)
        with torch.no_grad():
            for layer, block in enumerate(model.transformer.body.blocks):
                for name, factor in zip(("one", "two"), factors, strict=True):
                    maps = model.transformer.adapters[name][str(layer)]
                    d = model.shape.width
                    block.attention.qkv.weight[:d] += factor * maps["query"].product()
                    block.attention.qkv.weight[2 * d :] += factor * maps["value"].product()
        assert torch.allclose(states(None), seen, atol=1e-10)
        assert not math.isclose(float((states("one") - seen).abs().max()), 0.0)
        with torch.no_grad():
            for n, p in model.transformer.body.named_parameters():
                p.copy_(weights[n])
