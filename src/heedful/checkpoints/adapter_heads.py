"""The head that travels with an adapter: in our own words in heedful.json and heads.safetensors and, where AdapterHub
or PEFT can say it, in theirs as well."""

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from heedful.checkpoints import adapterhub, peft
from heedful.checkpoints import heads as heads_of
from heedful.checkpoints.adapters import (
    NOTE,
    Files,
    StoredAdapter,
    adapter_files,
    body_digest,
    load_part,
    plain_copy,
    pooler_digest,
)
from heedful.checkpoints.config import read_json, read_labels, shown
from heedful.checkpoints.dialect import SLOTS, Family
from heedful.checkpoints.families import FAMILIES
from heedful.checkpoints.heads import HEADS_FILE
from heedful.checkpoints.tensors import (
    SAFETENSORS,
    NoInit,
    Stored,
    existing,
    open_either,
    open_file,
    open_tensors,
)
from heedful.errors import RequestError
from heedful.models.adapters import LowRankShape, as_the_body
from heedful.models.composition import Composition, parse_composition
from heedful.models.modules import lay_out
from heedful.models.shape import Head, Shape
from heedful.models.transformer import Transformer, make_head
from heedful.nn.activations import ACTIVATIONS
from heedful.nn.blocks import FUSED
from heedful.nn.heads import Reads
from heedful.storage.hashing import sha256_of

CONFIG, WEIGHTS, OLD_WEIGHTS = "head_config.json", "model_head.safetensors", "pytorch_model_head.bin"
_FLEX_KEYS = {
    "head_type", "num_labels", "layers", "activation_function", "label2id", "use_pooler", "bias", "dropout_prob",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class FoundHead:
    head: Head
    names: Mapping[str, tuple[str, ...]]
    """What each of its parameters is called in its file."""
    tensors: Mapping[str, Stored]
    pooler: str | None = None
    """The digest of the pooler through which it was trained to read, if it is known."""


def find_head(stored: StoredAdapter, family: Family, shape: Shape) -> FoundHead | None:
    """The head beside an adapter, or beside a fusion; None if there is none."""
    if "head" in stored.note:
        head = heads_of.read_note(stored.directory / NOTE, family, "head", stored.note["head"]).head
        tensors = open_file(stored.directory, HEADS_FILE)
        return FoundHead(head, {name: (name,) for name in tensors}, tensors, stored.note.get("pooler"))
    if existing(stored.directory, CONFIG) is not None:
        return _find_adapterhub(stored.directory, family, shape)
    if stored.form == "peft":
        return _find_peft(stored, family, shape)
    return None


def find_head_of_model(model: Path, adapters: Composition, family: Family) -> FoundHead | None:
    """The head of a model directory that reads through these adapters of its; None if there is none."""
    path = existing(model, "config.json")
    notes = None if path is None else heads_of.read_notes(path, read_json(path), family)
    through = {name: stored.head.adapters for name, stored in (notes or {}).items() if stored.head.adapters}
    own = [name for name, written in through.items() if parse_composition(written) == adapters]
    if len(own) > 1:
        raise RequestError(
            f"{model}: several heads read through {adapters} ({', '.join(own)}); load the model, save the adapter "
            "with one of them, and load that."
        )
    if not own or notes is None:
        return None
    prefix = f"heads.{own[0]}."
    tensors = {n: t for n, t in open_file(model, HEADS_FILE).items() if n.startswith(prefix)}
    head = notes[own[0]].head
    pooler = _stored_pooler(model, family) if head.reads == "pooled" else None
    return FoundHead(head, {n.removeprefix(prefix): (n,) for n in tensors}, tensors, pooler)


def _stored_pooler(model: Path, family: Family) -> str:
    """As `pooler_digest` has it, of the file."""
    tensors = {family.plain(name): stored for name, stored in open_tensors(model).items()}
    own = (tensors[f"{family.pooler}.{kind}"].read() for kind in ("weight", "bias"))
    return sha256_of(tensor.float().contiguous().numpy().data for tensor in own)


def put_head(transformer: Transformer, directory: Path, name: str, found: FoundHead, adapters: str) -> dict[str, str]:
    """Onto a model, under this name, reading through these adapters. Returns where its tensors came from."""
    heads_of.check_name(str(directory), name)
    if name in transformer.heads:
        raise RequestError(f"{directory}: the model has a head {name!r} already; load the adapter under another name.")
    if found.head.reads == "pooled" and transformer.body.pooler is None:
        raise RequestError(f"{directory}: its head reads the pooled state, and the model has no pooler.")
    if found.head.reads == "pooled" and found.pooler not in (None, pooler_digest(transformer)):
        raise RequestError(f"{directory}: its head was trained to read through another pooler than the model has.")
    with torch.device("meta"), NoInit():
        module = make_head(transformer.shape, found.head, FUSED)
        lay_out(module)
    others = tuple(found.tensors)
    sources = load_part(directory, module, found.names, found.tensors, others, f"heads.{name}.", transformer)
    transformer.heads[name] = as_the_body(transformer, module)
    transformer.head_shapes[name] = dataclasses.replace(found.head, adapters=adapters)
    return sources


def _find_adapterhub(directory: Path, family: Family, shape: Shape) -> FoundHead:
    path = directory / CONFIG
    content = read_json(path)
    tensors = open_either(directory, WEIGHTS, OLD_WEIGHTS)
    config = content.get("config")
    if config is None:
        return _find_static(path, content, family, shape, tensors)
    unknown = sorted(set(config) - _FLEX_KEYS) if isinstance(config, dict) else ["config"]
    if unknown:
        raise RequestError(f"{path}: {unknown[0]} is not known, and heedful does not guess what it would change.")
    if config.get("head_type") != "classification":
        raise RequestError(
            f'{path}: head_type = {shown(config.get("head_type"))} is not supported; "classification" is.'
        )
    layers, activation = config.get("layers", 2), config.get("activation_function")
    if layers not in (1, 2) or (layers == 2 and (not isinstance(activation, str) or activation not in ACTIVATIONS)):
        raise RequestError(
            f"{path}: layers = {shown(layers)} with activation_function = {shown(activation)} is not supported; one "
            f"layer is, and two with one of {', '.join(ACTIVATIONS)}."
        )
    bias = config.get("bias", True)
    if layers == 2 and bias is not True:
        raise RequestError(f"{path}: bias = {shown(bias)} is not supported for a head of two layers.")
    dropout = config.get("dropout_prob")
    if dropout is not None and (type(dropout) not in (int, float) or not 0 <= dropout <= 1):
        raise RequestError(f"{path}: dropout_prob = {shown(dropout)} is not between 0 and 1.")
    labels = _labels(path, config, config.get("num_labels"))
    reads: Reads = "pooled" if config.get("use_pooler") else "last" if shape.causal else "first"
    head = Head(
        "linear" if layers == 1 else "two-layer", reads, len(labels), activation=activation or "tanh", bias=bool(bias),
        labels=labels, dropout=dropout,
    )  # fmt: skip
    name = content.get("name")
    root = f"heads.{name}." if any(n.startswith(f"heads.{name}.") for n in tensors) else _only_root(path, tensors)
    parts = {"output": "1"} if layers == 1 else {"dense": "1", "output": "4"}
    kinds = ("weight", "bias") if bias else ("weight",)
    names = {f"{ours}.{kind}": (f"{root}{theirs}.{kind}",) for ours, theirs in parts.items() for kind in kinds}
    return FoundHead(head, names, tensors)


def _only_root(path: Path, tensors: Mapping[str, Stored]) -> str:
    roots = {match[0] for name in tensors if (match := re.match(r"heads\.[^.]+\.", name))}
    if len(roots) != 1:
        raise RequestError(f"{path}: the weights of the head that it describes are not stored beside it.")
    return roots.pop()


def _labels(path: Path, content: Mapping[str, Any], count: Any) -> tuple[str, ...]:
    if type(count) is not int or not 1 <= count <= 10**6:
        raise RequestError(f"{path}: num_labels = {shown(count)} is not a number of classes.")
    names = content.get("label2id")
    if not isinstance(names, dict) or not names:
        return tuple(f"LABEL_{i}" for i in range(count))
    return read_labels(path, {"id2label": {str(i): name for name, i in names.items()}}, count)


def _find_static(
    path: Path, content: Mapping[str, Any], family: Family, shape: Shape, tensors: Mapping[str, Stored]
) -> FoundHead:
    """Of one of Hugging Face's own classes."""
    kinds = family.architectures.get(str(content.get("model_class")), ())
    if len(kinds) != 1 or kinds[0] not in ("linear", "two-layer"):
        raise RequestError(
            f"{path}: model_class {shown(content.get('model_class'))} is no classifier of {family.name}."
        )
    labels = _labels(path, content, content.get("num_labels"))
    head = heads_of.as_theirs(family, shape, kinds[0], len(labels))
    names = {entry.ours: entry.theirs for entry in family.heads[kinds[0]].entries}
    return FoundHead(dataclasses.replace(head, labels=labels), names, tensors)


def _find_peft(stored: StoredAdapter, family: Family, shape: Shape) -> FoundHead | None:
    """What was trained beside the low-rank changes."""
    tensors = {name: t for name, t in stored.tensors(family).items() if ".lora_" not in name}
    if not tensors:
        return None
    for kind in ("two-layer", "linear"):
        dialect = family.heads.get(kind)
        if dialect is not None and {t for e in dialect.entries for t in e.theirs} == set(tensors):
            classes = tensors[next(e.theirs[0] for e in dialect.entries if e.ours == "output.weight")].shape[0]
            head = heads_of.as_theirs(family, shape, kind, classes)
            labels = tuple(f"LABEL_{i}" for i in range(classes))
            names = {entry.ours: entry.theirs for entry in dialect.entries}
            return FoundHead(dataclasses.replace(head, labels=labels), names, tensors)
    raise RequestError(
        f"{stored.path}: {next(iter(tensors))!r} is stored beside it, which is no head of a {family.name}."
    )


def files_with_head(transformer: Transformer, family: str, adapter: str, head: str, model_name: str) -> Files:
    """The directory of an adapter and the head that reads through it."""
    files = adapter_files(transformer, family, adapter, model_name, body_digest(transformer))
    dialect, shape = FAMILIES[family], dataclasses.replace(transformer.head_shapes[head], adapters="")
    parameters = {n: p.detach().cpu() for n, p in transformer.heads[head].named_parameters()}
    add_our_head(files, shape, parameters, transformer)
    low_rank = transformer.adapter_shapes[adapter]
    if isinstance(low_rank, LowRankShape):
        if heads_of.home(dialect, transformer.shape, SLOTS[shape.kind], shape) == SAFETENSORS:
            entries = dialect.heads[shape.kind].entries
            theirs = {f"{peft.PREFIX}{e.theirs[0]}": plain_copy(parameters[e.ours]) for e in entries}
            files[peft.WEIGHTS] |= theirs
            modules = tuple(dict.fromkeys(e.theirs[0].split(".")[0] for e in entries))
            body = transformer.shape
            files[peft.CONFIG] = peft.write_config(low_rank, dialect, body, model_name, modules)
        return files
    return files | adapterhub_head(transformer, dialect, adapter, shape, parameters, model_name)


def add_our_head(files: Files, head: Head, parameters: Mapping[str, Tensor], transformer: Transformer) -> None:
    described = {**dataclasses.asdict(head), "labels": list(head.labels), "file": HEADS_FILE}
    files[NOTE] = {**files.get(NOTE, {"format": heads_of.FORMAT}), "head": described}
    if head.reads == "pooled":
        files[NOTE]["pooler"] = pooler_digest(transformer)
    files[HEADS_FILE] = {name: plain_copy(p) for name, p in parameters.items()}


def adapterhub_head(
    transformer: Transformer,
    family: Family,
    name: str,
    head: Head,
    parameters: Mapping[str, Tensor],
    model_name: str,
) -> Files:
    """A flexible head of AdapterHub's; {} if it has none that reads the same."""
    default = "last" if transformer.shape.causal else "first"
    plain = dataclasses.replace(Head(head.kind, head.reads), classes=head.classes, activation=head.activation,
                                bias=head.bias, labels=head.labels, dropout=head.dropout, of_pairs=head.of_pairs,
                                temperature=head.temperature, input_dropout=head.input_dropout)  # fmt: skip
    if head != plain or head.reads not in ("pooled", default) or head.kind not in ("linear", "two-layer"):
        return {}
    layers = 1 if head.kind == "linear" else 2
    config = {
        "head_type": "classification",
        "num_labels": head.classes,
        "layers": layers,
        "activation_function": head.activation if layers == 2 else None,
        "label2id": {label: i for i, label in enumerate(head.labels)},
        "use_pooler": head.reads == "pooled",
        "bias": head.bias,
        "dropout_prob": head.dropout,
    }
    places = {"output": "1"} if layers == 1 else {"dense": "1", "output": "4"}
    tensors = {}
    for ours, p in parameters.items():
        part, _, kind = ours.partition(".")
        tensors[f"heads.{name}.{places[part]}.{kind}"] = plain_copy(p)
    about = adapterhub.about(name, family, transformer.shape, model_name)
    return {CONFIG: {"config": config, **about}, WEIGHTS: tensors}
