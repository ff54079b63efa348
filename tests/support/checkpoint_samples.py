"""Tiny good model directories of every family, made here from formula weights, and tools to break them."""

import hashlib
import json
import os
import stat
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from tokenizers.pre_tokenizers import ByteLevel
from torch import Tensor

from heedful.checkpoints.dialect import SLOTS
from heedful.checkpoints.directory import Checkpoint, write_model
from heedful.checkpoints.families import FAMILIES
from heedful.checkpoints.heads import NewHead, make_head
from heedful.models.shape import HeadKind, Shape
from heedful.models.transformer import Transformer
from heedful.text import read_tokenizer

FAMILY_NAMES = ("bert", "roberta", "distilbert", "gpt2", "roformer")
LABELS = ("no", "yes", "perhaps")
HEADS: dict[str, HeadKind] = {
    "bert": "linear",
    "roberta": "two-layer",
    "distilbert": "masked-word",
    "gpt2": "language-model",
    "roformer": "two-layer",
}
"""The head that the sample of each family has."""
WEIGHTS, CONFIG, INDEX = "model.safetensors", "config.json", "model.safetensors.index.json"
HEADS_FILE = "heads.safetensors"
OUTPUT = {
    "bert": "classifier.weight",
    "roberta": "classifier.out_proj.weight",
    "distilbert": "vocab_transform.weight",
    "gpt2": "transformer.h.1.mlp.c_proj.weight",
    "roformer": "classifier.out_proj.weight",
}
"""A tensor late in each sample (of the head, where the head has one)."""
TABLE = {
    "bert": "bert.embeddings.word_embeddings.weight",
    "roberta": "roberta.embeddings.word_embeddings.weight",
    "distilbert": "distilbert.embeddings.word_embeddings.weight",
    "gpt2": "transformer.wte.weight",
    "roformer": "roformer.embeddings.word_embeddings.weight",
}
BLOCK = {
    "bert": "bert.encoder.layer.1.intermediate.dense.weight",
    "roberta": "roberta.encoder.layer.1.intermediate.dense.weight",
    "distilbert": "distilbert.transformer.layer.1.ffn.lin1.weight",
    "gpt2": "transformer.h.1.mlp.c_fc.weight",
    "roformer": "roformer.encoder.layer.1.intermediate.dense.weight",
}
QUERY = {
    "bert": "bert.encoder.layer.0.attention.self.{}",
    "roberta": "roberta.encoder.layer.0.attention.self.{}",
    "distilbert": "distilbert.transformer.layer.0.attention.{}_lin",
}
WIDTH = {"bert": "hidden_size", "roberta": "hidden_size", "distilbert": "dim", "gpt2": "n_embd"}
LAYERS = {"bert": "num_hidden_layers", "roberta": "num_hidden_layers", "distilbert": "n_layers", "gpt2": "n_layer"}
COUNT = {
    "bert": "num_attention_heads",
    "roberta": "num_attention_heads",
    "distilbert": "n_heads",
    "gpt2": "n_head",
}
for _keys in (WIDTH, LAYERS, COUNT):
    _keys["roformer"] = _keys["bert"]


def vocabulary_files(family: str) -> dict[str, str]:
    if family in ("bert", "distilbert", "roformer"):
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh", *(f"##{c}" for c in "abcdefgh")]
        return {"vocab.txt": "".join(f"{w}\n" for w in words)}
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"] if family == "roberta" else ["<|endoftext|>"]
    tokens = [*special, *sorted(ByteLevel.alphabet()), "ab", "cd"]
    return {
        "vocab.json": json.dumps({t: i for i, t in enumerate(tokens)}, ensure_ascii=False),
        "merges.txt": "#version: 0.2\na b\nc d\n",
    }


def make_shape(family: str, vocabulary: int, pooler: bool | None = None) -> Shape:
    sizes: dict[str, Any] = {
        "inner": 32 if family == "gpt2" else 12,
        "segments": {"bert": 2, "roberta": 1, "roformer": 2}.get(family, 0),
        "activation": "gelu_new" if family == "gpt2" else "gelu",
        "norm_eps": 1e-12 if family in ("bert", "distilbert", "roformer") else 1e-5,
        "head_dropout": {"distilbert": 0.2}.get(family),
        "pad_id": {"roberta": 1, "gpt2": None}.get(family, 0),
        "pooler": family == "bert" if pooler is None else pooler,
        **FAMILIES[family].fixed,
    }
    return Shape(vocabulary=vocabulary, width=8, layers=2, heads=2, positions=16, **sizes)


def formula(name: str, shape: tuple[int, ...], salt: int = 0) -> Tensor:
    """Values from the name and the index alone: different in every place, the same on every machine."""
    start = int.from_bytes(hashlib.sha256(f"{salt} {name}".encode()).digest()[:4], "big") % 1000
    count = torch.Size(shape).numel()
    return torch.sin((torch.arange(count, dtype=torch.float64) * 0.7 + start) * 1.3).mul(0.2).float().reshape(shape)


def make_checkpoint(
    family: str, kinds: tuple[HeadKind, ...], scratch: Path, labels: tuple[str, ...] = LABELS, salt: int = 0
) -> Checkpoint:
    scratch.mkdir(parents=True, exist_ok=True)
    for name, content in vocabulary_files(family).items():
        (scratch / name).write_text(content, encoding="utf-8")
    tokenizer = read_tokenizer(scratch, FAMILIES[family].tokens)
    assert tokenizer is not None
    needs_pooler = any(FAMILIES[family].heads[k].reads == "pooled" for k in kinds)
    shape = make_shape(family, tokenizer.size, pooler=needs_pooler or (family == "bert" and not kinds))
    named = {k: labels if SLOTS[k] == "classify" else () for k in kinds}
    heads = {SLOTS[k]: make_head(FAMILIES[family], shape, NewHead(k, named[k])) for k in kinds}
    transformer = Transformer(shape, heads)
    with torch.no_grad():
        for name, p in transformer.named_parameters():
            p.copy_(formula(name, tuple(p.shape), salt))
    return Checkpoint(transformer.eval(), family, tokenizer)


def make_good(family: str, directory: Path, kinds: tuple[HeadKind, ...] | None = None) -> Path:
    """A directory as the peer would leave it: without heedful's own notes in config.json."""
    checkpoint = make_checkpoint(
        family, (HEADS[family],) if kinds is None else kinds, directory.with_name(f"{directory.name}-v")
    )
    write_model(directory, checkpoint)
    edit_config(directory, heedful=ABSENT)
    return directory


class _Absent:
    pass


ABSENT = _Absent()


def read_config(directory: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((directory / CONFIG).read_text(encoding="utf-8"))
    return content


def edit_config(directory: Path, **changes: Any) -> None:
    content = {k: v for k, v in {**read_config(directory), **changes}.items() if v is not ABSENT}
    (directory / CONFIG).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def edit_tensors(directory: Path, edit: Callable[[dict[str, Tensor]], None]) -> None:
    tensors = load_file(directory / WEIGHTS)
    edit(tensors)
    save_file({k: v.clone(memory_format=torch.contiguous_format) for k, v in tensors.items()}, directory / WEIGHTS)


def split_header(content: bytes) -> tuple[dict[str, Any], bytes]:
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def join_header(header: str | bytes | Mapping[str, Any], data: bytes) -> bytes:
    text = header if isinstance(header, (str, bytes)) else json.dumps(header)
    raw = text.encode("utf-8") if isinstance(text, str) else text
    return struct.pack("<Q", len(raw)) + raw + data


def edit_header(directory: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    header, data = split_header((directory / WEIGHTS).read_bytes())
    edit(header)
    (directory / WEIGHTS).write_bytes(join_header(header, data))


def shard(directory: Path, parts: int = 2) -> dict[str, Any]:
    """Spread model.safetensors over files with an index, as the peer does; returns the index."""
    tensors = load_file(directory / WEIGHTS)
    (directory / WEIGHTS).unlink()
    places: dict[str, str] = {}
    for i in range(parts):
        name = f"model-{i + 1:05d}-of-{parts:05d}.safetensors"
        held = {k: tensors[k] for k in sorted(tensors)[i::parts]}
        save_file(held, directory / name, metadata={"format": "pt"})
        places |= dict.fromkeys(held, name)
    total = sum(t.numel() * t.element_size() for t in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": places}
    (directory / INDEX).write_text(json.dumps(index))
    return index


def names_in(directory: Path) -> list[str]:
    return sorted(p.name for p in directory.iterdir())


def fingerprint(directory: Path) -> dict[str, str]:
    """Everything that is there: kind, mode, content."""
    found = {}
    for root, folders, files in os.walk(directory):
        for name in (*folders, *files):
            path = Path(root, name)
            info = path.lstat()
            what = str(info.st_mode)
            if path.is_symlink():
                what += f" -> {os.readlink(path)}"  # noqa: PTH115 (the text of the link)
            elif stat.S_ISREG(info.st_mode) and os.access(path, os.R_OK):
                what += f" {info.st_size} {hashlib.sha256(path.read_bytes()).hexdigest()}"
            found[str(path.relative_to(directory))] = what
    return found


def states(checkpoint: Checkpoint) -> dict[str, Tensor]:
    return {n: p.detach().clone() for n, p in checkpoint.transformer.named_parameters()}


def assert_same(a: Checkpoint, b: Checkpoint) -> None:
    """Equal to the bit: weights, heads, shape, labels, tokenizer."""
    ours, other = states(a), states(b)
    assert ours.keys() == other.keys()
    for name, value in ours.items():
        assert value.dtype == other[name].dtype == torch.float32, name
        assert torch.equal(value, other[name]), name
    assert a.transformer.shape == b.transformer.shape
    assert a.transformer.head_shapes == b.transformer.head_shapes
    assert a.family == b.family
    assert (a.tokenizer is None) == (b.tokenizer is None)
    if a.tokenizer is not None and b.tokenizer is not None:
        texts = ["ab cd", "hgfe  dcba", "Aé ab", ""]
        assert a.tokenizer.encode(texts) == b.tokenizer.encode(texts)
        assert a.tokenizer.size == b.tokenizer.size
        assert a.tokenizer.special == b.tokenizer.special
