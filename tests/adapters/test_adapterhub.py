"""Directories that the `adapters` library wrote give the same states, scores and gradients here (make_goldens.py made
them): every option that we read, in double precision; every other is refused by name."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from heedful.checkpoints import adapterhub
from heedful.checkpoints.adapter_heads import find_head, put_head
from heedful.checkpoints.adapters import open_adapter, put_adapter, put_fusion
from heedful.checkpoints.directory import Checkpoint, read_model
from heedful.checkpoints.families import FAMILIES
from heedful.errors import RequestError
from heedful.models.adapters import BottleneckShape, FusionWeights, activate, in_use
from heedful.models.batch import Batch
from heedful.models.composition import Average, Composition, Fuse, Stack
from heedful.models.transformer import Transformer
from heedful.nn.adapters import Fusion
from tests.support.adapter_samples import FAMILY_BASES

GOLDENS = Path(__file__).parent / "goldens"
CASES = json.loads((GOLDENS / "cases.json").read_text())
REFUSED = {
    "gating": "config.use_gating = true is not supported",
    "parallel-gating": "config.use_gating = true is not supported",
    "lora-gating": "config.use_gating = true is not supported",
    "fusion-temperature": "config.temperature = true is not supported",
    "fusion-parallel": "is parallel to its sublayer, where there is nothing to fuse",
    "average-of-stacks": "is made of names of adapters, nothing nested",
    "fusion-of-stacks": "is made of names of adapters, nothing nested",
    "head-no-activation": "layers = 2 with activation_function = null is not supported",
    "head-multilabel": 'head_type = "multilabel_classification" is not supported',
}
"""What makes no sense, what changes with how a model is asked, and what no head of ours is."""


@pytest.fixture(scope="module")
def answers() -> dict[str, dict[str, Tensor]]:
    return {family: load_file(base.with_name("answers.safetensors")) for family, base in FAMILY_BASES.items()}


def composition(written: Any) -> Composition:
    if isinstance(written, str):
        return written
    if "stack" in written:
        return Stack(*map(composition, written["stack"]))  # type: ignore[arg-type]
    if "fuse" in written:
        return Fuse(*map(composition, written["fuse"]))  # type: ignore[arg-type]
    return Average(*map(composition, written["average"]), weights=written.get("weights"))  # type: ignore[arg-type]


def prepare(case: dict[str, Any]) -> Checkpoint:
    checkpoint = read_model(GOLDENS / case["base"], body_only=True)
    transformer, family = checkpoint.transformer, checkpoint.family
    for name, folder in case["adapters"].items():
        put_adapter(transformer, family, open_adapter(GOLDENS / folder), name)
    if case["fusion"]:
        put_fusion(transformer, family, GOLDENS / case["fusion"])
    if case["head"]:
        folder = GOLDENS / case["head"]
        beside = open_adapter(GOLDENS / next(iter(case["adapters"].values())))
        found = find_head(type(beside)(folder, "x", "adapterhub", {}, {}), FAMILIES[family], transformer.shape)
        assert found is not None
        put_head(transformer, folder, "task", found, "")
    activate(transformer, composition(case["composition"]))
    transformer.double().eval()
    return checkpoint


def _task_scores(transformer: Transformer, batch: Batch) -> Tensor:
    return transformer("task", batch, adapters=transformer.active)


def outputs(
    checkpoint: Checkpoint, given: dict[str, Tensor], seen: FusionWeights | None = None
) -> tuple[Tensor, Tensor | None]:
    segments = given.get("token_type_ids")
    batch = Batch(given["input_ids"], given["attention_mask"].bool(), segments)
    through = (
        checkpoint.transformer.through(None)
        if seen is None
        else in_use(checkpoint.transformer, checkpoint.transformer.active, seen)
    )
    states = checkpoint.transformer.body(batch, adapters=through).last
    return states, _task_scores(checkpoint.transformer, batch) if "task" in checkpoint.transformer.heads else None


def their_gradients(checkpoint: Checkpoint, case: dict[str, Any]) -> dict[str, Tensor | None]:
    """The gradients of our parameters under the library's names, without the model's prefix."""
    transformer, family, body = checkpoint.transformer, FAMILIES[checkpoint.family], checkpoint.transformer.shape
    found: dict[str, Tensor | None] = {}
    for name, folder in case["adapters"].items():
        shape, module = transformer.adapter_shapes[name], dict(transformer.adapters[name].named_parameters())
        inside = open_adapter(GOLDENS / folder).content.get("name", name)
        names = adapterhub.adapter_tensors(inside, shape, family, body)
        found |= {theirs: module[ours].grad for ours, all_theirs in names.items() for theirs in all_theirs[:1]}
    for shape in transformer.fusion_shapes.values():
        adapter = transformer.adapter_shapes[shape.names[0]]
        assert isinstance(adapter, BottleneckShape)
        module = dict(transformer.fusions[",".join(shape.names)].named_parameters())
        names_of = adapterhub.fusion_tensors(shape, adapter, family, body)
        found |= {theirs: module[ours].grad for ours, theirs in names_of.items()}
    return found


@pytest.mark.parametrize("case", CASES["cases"], ids=lambda case: f"{case['family']}-{case['name']}")
def test_what_the_library_wrote_answers_alike(case: dict[str, Any], answers: dict[str, dict[str, Tensor]]) -> None:
    given, name, family = answers[case["family"]], case["name"], FAMILIES[case["family"]]
    if name in REFUSED:
        with pytest.raises(RequestError, match=REFUSED[name].replace("(", r"\(")):
            prepare(case)
        return
    checkpoint = prepare(case)
    states, logits = outputs(checkpoint, given)
    real = given["attention_mask"].bool()
    gap = (states - given[f"{name}/states"])[real].abs().max()
    if "average" in str(case["composition"]) and name != "average-as-given":
        assert gap > 1e-3  # the library divides by the number of adapters twice: the next test
        return
    assert gap < 1e-5
    if logits is not None and f"{name}/logits" in given:
        assert (logits - given[f"{name}/logits"]).abs().max() < 1e-5
        loss = (logits * given["weights/logits"][:, : logits.shape[1]]).sum()
    else:
        loss = (states * given["weights/states"]).sum()
    loss.backward()  # type: ignore[no-untyped-call]
    ours = their_gradients(checkpoint, case)
    compared = 0
    for key, theirs in given.items():
        if not key.startswith(f"{name}/grad/"):
            continue
        parameter = family.plain(key.removeprefix(f"{name}/grad/"))
        if parameter.startswith("heads.") or parameter not in ours:
            continue
        grad = ours[parameter]
        if grad is None:
            assert theirs.abs().max() < 1e-5, parameter
            continue
        if grad.shape != theirs.shape:  # queries, keys and values are one map here, and stand in blocks there
            assert ".c_attn." in parameter
            continue
        assert torch.allclose(grad, theirs.double(), rtol=1e-5, atol=2e-5), parameter
        compared += 1
    assert compared or (case["family"], name) == ("gpt2", "lora")


def test_a_mean_is_a_mean(answers: dict[str, dict[str, Tensor]]) -> None:
    """Weights that the library is told not to normalise, 1.5 and 0.5 of two, are the weights ¾ and ¼: it takes their
    mean. Normalised, it divides twice, and the mean of an adapter with itself is not that adapter."""
    case = next(case for case in CASES["cases"] if case["name"] == "average-as-given")
    assert case["composition"] == {"average": ["a", "b"], "weights": [1.5, 0.5], "normalize": False}
    checkpoint = prepare(case)
    assert checkpoint.transformer.active == Average("a", "b", weights=[0.75, 0.25])
    states, _ = outputs(checkpoint, answers["bert"])
    real = answers["bert"]["attention_mask"].bool()
    assert (states - answers["bert"]["average-as-given/states"])[real].abs().max() < 1e-5


@pytest.mark.parametrize(
    "name", ["fusion-dynamic", "fusion-houlsby", "fusion-query-before-ln", "fusion-residual-before"]
)
def test_the_weights_of_a_fusion_and_its_penalty(name: str, answers: dict[str, dict[str, Tensor]]) -> None:
    case, given = next(c for c in CASES["cases"] if c["name"] == name and c["family"] == "bert"), answers["bert"]
    checkpoint = prepare(case)
    seen: FusionWeights = {}
    with torch.no_grad():
        outputs(checkpoint, given, seen)
    real, compared = given["attention_mask"].bool(), 0
    for (place, layer), weights_btn in seen.items():
        theirs = given[f"{name}/attention/{layer}/{'mh_adapter' if place == 'attention' else 'output_adapter'}"]
        assert torch.allclose(weights_btn[real], theirs.double()[real], atol=1e-5)
        compared += 1
    assert compared == (6 if "houlsby" in name else 3)
    modules = checkpoint.transformer.fusions.modules()
    penalty = 0.01 * sum(float(m.penalty().detach()) for m in modules if isinstance(m, Fusion))
    assert penalty == pytest.approx(float(given[f"{name}/regularization"]), rel=1e-5)


@pytest.mark.parametrize(
    ("name", "says"),
    {
        "invertible": 'config.inv_adapter = "nice" is not supported',
        "compacter": "config.phm_layer = true is not supported",
        "prefix-tuning": 'config.architecture = "prefix_tuning" is not supported',
        "prompt-tuning": 'config.architecture = "prompt_tuning" is not supported',
        "ia3": 'config.composition_mode = "scale" is not supported',
        "dora": "config.use_dora = true is not supported",
        "vera": "config.vera_d = .* is not supported",
        "mam": 'config.architecture = "union" is not supported',
    }.items(),
)
def test_other_methods_are_refused_by_name(name: str, says: str) -> None:
    assert name in CASES["refused"]
    checkpoint = read_model(GOLDENS / "bert/base", body_only=True)
    with pytest.raises(RequestError, match=says):
        put_adapter(checkpoint.transformer, "bert", open_adapter(GOLDENS / CASES["refused"][name]), "x")
    assert not checkpoint.transformer.adapters
