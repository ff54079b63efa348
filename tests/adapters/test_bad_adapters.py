"""Adapters that do not fit, or are damaged: one sentence each, and the model stays as it was."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import heedful
from heedful.errors import RequestError
from tests.support.adapter_samples import FAMILY_BASES, GOLDENS

BERT = GOLDENS / "bert"


def change_json(path: Path, **keys: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **keys}))


def change_config(folder: Path, **keys: Any) -> None:
    content = json.loads((folder / "adapter_config.json").read_text())
    change_json(folder / "adapter_config.json", config={**content["config"], **keys})


def change_tensors(folder: Path, change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> None:
    (path,) = folder.glob("*.safetensors")
    save_file(change({n: t.clone() for n, t in load_file(path).items()}), path)


def first(tensors: dict[str, torch.Tensor], value: torch.Tensor) -> dict[str, torch.Tensor]:
    return {**tensors, next(iter(tensors)): value}


def put_a_pickle(folder: Path) -> None:
    (folder / "adapter.safetensors").unlink()
    (folder / "pytorch_adapter.bin").write_bytes(b"cos\nsystem\n(S'x'\ntR.")


def deeper(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {**tensors, **{n.replace("layer.0", "layer.9"): x.clone() for n, x in tensors.items()}}


BAD: dict[str, tuple[Callable[[Path], None], str]] = {
    "another width": (
        lambda f: change_json(f / "adapter_config.json", hidden_size=768),
        "was made for a model of width 768, and this one has 16",
    ),
    "another width, unsaid": (
        lambda f: change_tensors(f, lambda t: first(t, torch.zeros(3))),
        "1 of another shape",
    ),
    "another family": (
        lambda f: change_json(f / "adapter_config.json", model_type="roberta"),
        'was made for model_type "roberta", and this model is a bert',
    ),
    "more layers": (
        lambda f: change_tensors(f, deeper),
        "without a home",
    ),
    "fewer layers": (
        lambda f: change_tensors(f, lambda t: {n: x for n, x in t.items() if "layer.1" not in n}),
        " missing: ",
    ),
    "not a number": (
        lambda f: change_tensors(f, lambda t: {n: x * float("nan") for n, x in t.items()}),
        "NaN or infinite values",
    ),
    "no weights": (lambda f: (f / "adapter.safetensors").unlink(), "has no weights; expected adapter.safetensors or"),
    "no config": (lambda f: (f / "adapter_config.json").unlink(), "has no adapter_config.json"),
    "not JSON": (lambda f: (f / "adapter_config.json").write_text("{"), "not valid JSON"),
    "torn weights": (lambda f: (f / "adapter.safetensors").write_bytes(b"\x10" * 30), "not a valid safetensors file"),
    "a pickle": (
        lambda f: put_a_pickle(f),
        "refused by the restricted loader",
    ),
    "a strange activation": (
        lambda f: change_config(f, non_linearity="maxout"),
        'config.non_linearity = "maxout" is not',
    ),
    "a strange key": (lambda f: change_config(f, new_trick=3), "config.new_trick is not known"),
    "no reduction": (lambda f: change_config(f, reduction_factor=0), "config.reduction_factor = 0 is not a number"),
    "no default reduction": (lambda f: change_config(f, reduction_factor={"1": 2}), 'has no "default"'),
    "reduction of no layer": (
        lambda f: change_config(f, reduction_factor={"7": 2, "default": 4}),
        "names layers that are not",
    ),
    "leaves out everything": (
        lambda f: change_config(f, leave_out=[0, 1, 2]),
        "is in none of the model's 3 layers",
    ),
    "leaves out words": (lambda f: change_config(f, leave_out=["x"]), "config.leave_out"),
    "scaled by words": (lambda f: change_config(f, scaling="big"), 'config.scaling = "big"'),
    "a config that is a list": (lambda f: change_json(f / "adapter_config.json", config=[]), "config is neither"),
    "an unknown preset": (
        lambda f: change_json(f / "adapter_config.json", config="best_bn"),
        'config = "best_bn" is not known',
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_refused_in_one_sentence(name: str, tmp_path: Path) -> None:
    damage, says = BAD[name]
    folder = tmp_path / "adapter"
    shutil.copytree(BERT / "pfeiffer", folder)
    damage(folder)
    model = heedful.load(FAMILY_BASES["bert"], body_only=True)
    with pytest.raises(RequestError) as caught:
        model.load_adapter(folder)
    assert says in str(caught.value)
    assert str(folder) in str(caught.value) or "is in none of" in says
    assert model.adapters == ()
    assert not model.transformer.heads
    assert {n.split(".")[0] for n, _ in model.transformer.named_parameters()} == {"body"}


def test_another_body(tmp_path: Path) -> None:
    model = heedful.load(FAMILY_BASES["bert"], body_only=True)
    model.load_adapter(BERT / "pfeiffer")
    model.save_adapter(tmp_path / "mine", "pfeiffer")
    heedful.load(FAMILY_BASES["bert"], body_only=True).load_adapter(tmp_path / "mine")
    other = heedful.load(FAMILY_BASES["bert"], body_only=True)
    with torch.no_grad():
        other.transformer.body.blocks[0].feed_forward.up.weight[0, 0] += 1e-3
    with pytest.raises(RequestError, match="was trained on another model than this one"):
        other.load_adapter(tmp_path / "mine")
    gpt2 = heedful.load(FAMILY_BASES["gpt2"], body_only=True)
    with pytest.raises(RequestError, match=r"another model|model_type"):
        gpt2.load_adapter(tmp_path / "mine")


def test_a_missing_fusion_part(tmp_path: Path) -> None:
    model = heedful.load(FAMILY_BASES["bert"], body_only=True)
    with pytest.raises(RequestError, match="fuses 'a', and the model has no adapters; load that adapter first"):
        model.load_adapter(BERT / "fusion-dynamic")
    for name in ("a", "b", "c"):
        model.load_adapter(BERT / name)
    shutil.copytree(BERT / "fusion-dynamic", tmp_path / "fusion")
    (tmp_path / "fusion/model_adapter_fusion.safetensors").unlink()
    with pytest.raises(RequestError, match="the fusion part is missing"):
        model.load_adapter(tmp_path / "fusion")
    with pytest.raises(RequestError, match="the fusion part is missing"):
        model.activate("fuse(a, b, c)")
    assert model.load_adapter(BERT / "fusion-dynamic") == "fuse(a, b, c)"
    model.activate("fuse(a, b, c)")
    with pytest.raises(RequestError, match="has a fusion of a, b, c already"):
        model.load_adapter(BERT / "fusion-dynamic")


def test_a_name_used_twice() -> None:
    model = heedful.load(FAMILY_BASES["bert"], body_only=True)
    model.load_adapter(BERT / "a")
    with pytest.raises(RequestError, match="already has an adapter 'a'"):
        model.load_adapter(BERT / "a")
    assert model.load_adapter(BERT / "a", name="again") == "again"


def test_a_head_whose_labels_do_not_match(tmp_path: Path) -> None:
    folder = tmp_path / "adapter"
    shutil.copytree(BERT / "with-head", folder)
    content = json.loads((folder / "head_config.json").read_text())
    for labels, count, says in (
        ({"x": 0, "y": 1}, content["config"]["num_labels"], "id2label names classes"),
        ({f"l{i}": i for i in range(9)}, 9, "of another shape"),
    ):
        config = {**content["config"], "label2id": labels, "num_labels": count}
        (folder / "head_config.json").write_text(json.dumps({**content, "config": config}))
        model = heedful.load(FAMILY_BASES["bert"], body_only=True)
        with pytest.raises(RequestError, match=says):
            model.load_adapter(folder)
        assert model.adapters == ()
        assert not model.transformer.heads
        assert model.load_adapter(folder, head=False)


def test_a_model_directory_with_something_else_among_its_adapters(tmp_path: Path) -> None:
    model = heedful.load(FAMILY_BASES["bert"], body_only=True)
    model.load_adapter(BERT / "a")
    model.save(tmp_path / "model")
    heedful.load(tmp_path / "model")
    (tmp_path / "model/adapters/notes").mkdir()
    with pytest.raises(RequestError, match="is not the directory of an adapter"):
        heedful.load(tmp_path / "model")


def test_a_source_that_is_no_adapter(tmp_path: Path) -> None:
    model = heedful.load(FAMILY_BASES["bert"], body_only=True)
    for source, says in (
        (tmp_path / "nowhere", "no such directory"),
        (tmp_path, "has no adapter_config.json"),
        ("not a hub id!", "a hub id looks like"),
    ):
        with pytest.raises(RequestError, match=says):
            model.load_adapter(source)
