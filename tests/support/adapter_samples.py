"""Tiny models and inputs for the tests of adapters."""

import json
import zlib
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file

GOLDENS = Path(__file__).parents[1] / "adapters" / "goldens"
FAMILY_BASES = {family: GOLDENS / family / "base" for family in ("bert", "roberta", "distilbert", "gpt2")}
CLASSIFIERS = (*FAMILY_BASES, "roformer")
"""The families of `base_with_head`: of RoFormer, which AdapterHub does not know, there are no goldens."""
_HEADS = {
    "bert": ("BertForSequenceClassification", {"classifier.weight": (3, 16), "classifier.bias": (3,)}),
    "roberta": (
        "RobertaForSequenceClassification",
        {"classifier.dense.weight": (16, 16), "classifier.dense.bias": (16,), "classifier.out_proj.weight": (3, 16),
         "classifier.out_proj.bias": (3,)},
    ),
    "distilbert": (
        "DistilBertForSequenceClassification",
        {"pre_classifier.weight": (16, 16), "pre_classifier.bias": (16,), "classifier.weight": (3, 16),
         "classifier.bias": (3,)},
    ),
    "gpt2": ("GPT2ForSequenceClassification", {"score.weight": (3, 16)}),
}  # fmt: skip
_HEADS["roformer"] = ("RoFormerForSequenceClassification", _HEADS["roberta"][1])
_PREFIX = {"gpt2": "transformer."}


def formula(name: str, shape: "torch.Size | tuple[int, ...]", scale: float = 0.2) -> torch.Tensor:
    """Values from the name and the index alone."""
    count = torch.Size(shape).numel()
    start = zlib.crc32(name.encode()) % 1000
    return (scale * torch.sin(torch.arange(start, start + count) * 0.7)).reshape(shape)


def base_with_head(family: str, tmp_path: Path) -> Path:
    """A golden body as a classifier of three classes, in Hugging Face's layout; RoFormer's is BERT's, but for the
    positions."""
    folder, (architecture, shapes) = tmp_path / f"{family}-base", _HEADS[family]
    folder.mkdir(exist_ok=True)
    golden = FAMILY_BASES.get(family, FAMILY_BASES["bert"])
    config = json.loads((golden / "config.json").read_text()) | {"model_type": family}
    body = load_file(golden / "model.safetensors")
    if family == "roformer":
        config = {key: value for key, value in config.items() if key in transformers.RoFormerConfig().to_dict()}
        body = {n: t for n, t in body.items() if "position" not in n and "pooler" not in n}
    config |= {"architectures": [architecture], "id2label": {str(i): f"class {i}" for i in range(3)}}
    config |= {"label2id": {f"class {i}": i for i in range(3)}}
    (folder / "config.json").write_text(json.dumps(config))
    prefix = _PREFIX.get(family, f"{family}.")
    body = {n.removeprefix(prefix): t for n, t in body.items()}
    tensors = {f"{prefix}{n}": t for n, t in body.items()} | {n: formula(n, s) for n, s in shapes.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def their_inputs(family: str) -> dict[str, torch.Tensor]:
    given = load_file(FAMILY_BASES.get(family, FAMILY_BASES["bert"]).with_name("answers.safetensors"))
    names = ("input_ids", "attention_mask", *(("token_type_ids",) if family in ("bert", "roformer") else ()))
    return {name: given[name] for name in names}
