"""Adapters on disk: a small directory each, as AdapterHub or PEFT writes it, so that those libraries read ours and we
theirs. Bottleneck adapters and fusions have AdapterHub's form, low-rank ones PEFT's.

What those cannot say (through which pooling a head reads, how its classes are calibrated, on which body an adapter was
trained) is in a further file, heedful.json.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from heedful.checkpoints import adapterhub, hub, peft
from heedful.checkpoints.config import read_json, shown
from heedful.checkpoints.dialect import Entry, Family
from heedful.checkpoints.families import FAMILIES
from heedful.checkpoints.named_tensors import Names, load_named
from heedful.checkpoints.tensors import NoInit, Stored, existing, inside, open_either
from heedful.errors import RequestError
from heedful.models.adapters import (
    AdapterShape,
    BottleneckShape,
    LowRankShape,
    add_adapter,
    add_fusion,
    remove_adapter,
)
from heedful.models.composition import Fuse
from heedful.models.transformer import Transformer
from heedful.storage.hashing import lines_of_files, sha256_of

FOLDER = "adapters"
"""Of a model directory: a folder for each adapter and each fusion, by its name."""
NOTE = "heedful.json"
_FORMAT = 2
_LEGACY = (
    "attention_text_task_adapters", "attention_text_lang_adapters", "layer_text_task_adapters",
    "layer_text_lang_adapters",
)  # fmt: skip
_FILES = (
    adapterhub.CONFIG, adapterhub.WEIGHTS, adapterhub.OLD_WEIGHTS, peft.WEIGHTS, peft.OLD_WEIGHTS,
    adapterhub.FUSION_CONFIG, adapterhub.FUSION_WEIGHTS, adapterhub.OLD_FUSION_WEIGHTS, NOTE, "heads.safetensors",
    "head_config.json", "model_head.safetensors", "pytorch_model_head.bin",
)  # fmt: skip

ADAPTER_FILES = frozenset(_FILES)
"""What the directory of an adapter may hold; one with anything else is never replaced."""


@dataclass(frozen=True)
class StoredAdapter:
    """An adapter's directory, not read yet."""

    directory: Path
    name: str
    form: Literal["adapterhub", "peft"]
    content: Mapping[str, Any]
    """Of adapter_config.json."""
    note: Mapping[str, Any]
    """Of heedful.json; {} if heedful did not write it."""

    @property
    def path(self) -> Path:
        return self.directory / adapterhub.CONFIG

    @property
    def fingerprint(self) -> str:
        """The sha256 of everything in it that is read."""
        return files_fingerprint(self.directory)

    def tensors(self, family: Family) -> dict[str, Stored]:
        """By their names without prefixes, as they are called today."""
        if self.form == "peft":
            stored = open_either(self.directory, peft.WEIGHTS, peft.OLD_WEIGHTS)
            plain = peft.plain_names(stored, family)
        else:
            stored = open_either(self.directory, adapterhub.WEIGHTS, adapterhub.OLD_WEIGHTS)
            plain = {family.plain(_modern(name)): tensor for name, tensor in stored.items()}
        if not stored:
            files = (
                (peft.WEIGHTS, peft.OLD_WEIGHTS)
                if self.form == "peft"
                else (adapterhub.WEIGHTS, adapterhub.OLD_WEIGHTS)
            )
            raise RequestError(f"{self.directory}: has no weights; expected {' or '.join(files)}.")
        return plain


def files_fingerprint(directory: Path) -> str:
    return sha256_of(lines_of_files(directory, {".json", ".safetensors", ".bin"}))


def _modern(name: str) -> str:
    for old in _LEGACY:
        name = name.replace(f".{old}.", ".adapters.")
    return name


def find_adapter(source: str | Path, revision: str | None = None) -> StoredAdapter:
    """From what the user calls an adapter: its directory, that of a model with one adapter, or a hub id."""
    if not isinstance(source, str | Path) or not str(source):
        raise RequestError(f"{source!r} is no name for an adapter; give its directory or a hub id.")
    path = Path(source).expanduser()
    if path.is_dir():
        if revision is not None:
            raise RequestError(f"{path}: a directory has no revisions; leave revision out.")
        folders = adapter_folders(path)
        if existing(path, adapterhub.CONFIG) is None and len(folders) == 1:
            path = folders[0]
        elif existing(path, adapterhub.CONFIG) is None and folders:
            names = ", ".join(folder.name for folder in folders)
            raise RequestError(f"{path}: has several adapters ({names}); name the folder of one, {folders[0]}.")
        return open_adapter(path)
    beside = len(path.parts) > 1 and path.parent.is_dir()  # runs/nothing, where there is a folder runs
    if path.exists() or isinstance(source, Path) or beside or not hub.is_hub_id(str(source)):
        raise RequestError(f"{source}: there is no such directory of an adapter, and a hub id looks like owner/name.")
    return open_adapter(hub.fetch(str(source), revision, only=_FILES))


def open_adapter(directory: Path) -> StoredAdapter:
    path = existing(directory, adapterhub.CONFIG)
    if path is None:
        if existing(directory, adapterhub.FUSION_CONFIG) is not None:
            raise RequestError(
                f"{directory}: holds a fusion, not an adapter; load it after the adapters that it fuses."
            )
        for kind, file, folder in (("study", "study.json", "best"), ("run", "manifest.json", "model")):
            if (directory / file).is_file():
                raise RequestError(f"{directory}: is a {kind}; its adapter is in {directory / folder / FOLDER}.")
        raise RequestError(f"{directory}: has no {adapterhub.CONFIG}, so it is no adapter, nor a model with one.")
    content = read_json(path)
    note = read_note(directory)
    form: Literal["adapterhub", "peft"] = "peft" if "peft_type" in content else "adapterhub"
    name = note.get("name", content.get("name"))
    if name is not None and not isinstance(name, str):
        raise RequestError(f"{directory}: name = {shown(name)} is no name for an adapter.")
    return StoredAdapter(directory, str(name) if name else directory.resolve().name, form, content, note)


def read_note(directory: Path) -> dict[str, Any]:
    """Of heedful.json; {} if heedful did not write the directory."""
    path = existing(directory, NOTE)
    if path is None:
        return {}
    note = read_json(path)
    if note.get("format") != _FORMAT:
        raise RequestError(
            f"{path}: format is {shown(note.get('format'))}, and this version reads {_FORMAT}; use the version of "
            "heedful that wrote it."
        )
    return note


def adapter_folders(directory: Path) -> list[Path]:
    """Of the adapters of a model directory."""
    return [path for path in _folders(directory) if path.is_dir() and (path / adapterhub.CONFIG).is_file()]


def _folders(directory: Path) -> list[Path]:
    """Whatever is in the place of adapters; refuses what leads out of the model directory."""
    root = directory / FOLDER
    if not root.is_dir():
        return []
    return sorted(inside(inside(directory, FOLDER), p.name) for p in root.iterdir() if not p.name.startswith("."))


def put_adapter(
    transformer: Transformer,
    family: str,
    stored: StoredAdapter,
    name: str,
    digest: Callable[[Transformer], str] | None = None,
) -> dict[str, str]:
    """Reads an adapter into a model, under this name; every tensor must have a home. Returns where each came from.

    `digest`: `body_digest`, which whoever reads several adapters into a model remembers."""
    dialect, body = FAMILIES[family], transformer.shape
    tensors = stored.tensors(dialect)
    shape: AdapterShape
    if stored.form == "peft":
        shape = peft.read_shape(stored.path, stored.content, tensors, dialect, body)
        names = peft.adapter_tensors(shape, dialect, body)
        heads = tuple(n for n in tensors if ".lora_" not in n)
    else:
        shape = adapterhub.read_shape(stored.path, stored.content, dialect, body)
        names = adapterhub.adapter_tensors(stored_name(stored, tensors), shape, dialect, body)
        heads = ()
        if isinstance(shape, LowRankShape):
            tensors = adapterhub.side_by_side(tensors, stored.content.get("config"), body.width)
    _refuse_another_body(stored, transformer, digest or body_digest)
    with torch.device("meta"), NoInit():  # whatever sizes it claims, nothing is allocated before they are compared
        module = add_adapter(transformer, name, shape)
    try:
        return load_part(stored.directory, module, names, tensors, heads, f"adapters.{name}.", transformer)
    except BaseException:
        remove_adapter(transformer, name)
        raise


def stored_name(stored: StoredAdapter, tensors: Mapping[str, Stored]) -> str:
    """What it is called within the names of its tensors."""
    name = stored.content.get("name")
    inside = {
        part
        for n in tensors
        for mark in (".adapters.", ".loras.")
        if mark in n
        for part in [n.split(mark)[1].split(".")[0]]
    }
    if isinstance(name, str) and (name in inside or not inside):
        return name
    if len(inside) == 1:
        return inside.pop()
    raise RequestError(f"{stored.path}: name = {shown(name)} is not that of the adapter that is stored beside it.")


def _refuse_another_body(stored: StoredAdapter, transformer: Transformer, digest: Callable[[Transformer], str]) -> None:
    body = stored.note.get("body")
    if body is not None and body != digest(transformer):
        name = stored.note.get("model")
        raise RequestError(
            f"{stored.directory}: was trained on another model than this one{f', {shown(name)}' if name else ''}, "
            "whose weights are others; load it onto that."
        )


def pooler_digest(transformer: Transformer) -> str | None:
    """The sha256 of the pooler's weights, through which a head may read; None without one."""
    if transformer.body.pooler is None:
        return None
    return sha256_of(map(_bytes, transformer.body.pooler.parameters()))


def body_digest(transformer: Transformer) -> str:
    """The sha256 of the body's weights, without the pooler, which may be drawn for a head."""
    own = ((name, p) for name, p in transformer.body.named_parameters() if not name.startswith("pooler."))
    return sha256_of(part for name, p in own for part in (name, _bytes(p)))


def _bytes(tensor: Tensor) -> memoryview:
    return tensor.detach().cpu().float().contiguous().numpy().data


def load_part(
    directory: Path,
    module: nn.Module,
    names: Mapping[str, tuple[str, ...]],
    tensors: Mapping[str, Stored],
    others: tuple[str, ...],
    prefix: str,
    transformer: Transformer,
) -> dict[str, str]:
    """Read what is added to a model. `names`: what each parameter is called, and its copies; `others`: what may stay
    unread. Return where each parameter came from, its own name after `prefix`."""
    sources, _ = load_named(
        directory,
        module,
        Names(
            [Entry(ours, theirs[:1]) for ours, theirs in names.items()],
            {copy: original for original, *copies in names.values() for copy in copies},
        ),
        tensors,
        "this model",
        "it belongs to a model of another width, depth or family, or is incomplete",
        may_stay=lambda name: name in others,
        device=transformer.body.embeddings.token.weight.device,
    )
    assert set(names) == {name for name, _ in module.named_parameters()}, "a parameter of an adapter has no name"
    return {f"{prefix}{ours}": source for ours, source in sources.items()}


def put_fusion(transformer: Transformer, family: str, directory: Path) -> tuple[Fuse, dict[str, str]]:
    """Reads the fusion of adapters that the model has, under the names that it gives them."""
    dialect, body = FAMILIES[family], transformer.shape
    path = existing(directory, adapterhub.FUSION_CONFIG)
    if path is None:
        raise RequestError(f"{directory}: has no {adapterhub.FUSION_CONFIG}; the fusion part is missing.")
    shape = adapterhub.read_fusion(path, read_json(path), dialect, body)
    for name in shape.names:
        if name not in transformer.adapters:
            known = f"has {', '.join(transformer.adapters)}" if transformer.adapters else "has no adapters"
            raise RequestError(f"{directory}: fuses {name!r}, and the model {known}; load that adapter first.")
    fuse = Fuse(*shape.names)
    stored = open_either(directory, adapterhub.FUSION_WEIGHTS, adapterhub.OLD_FUSION_WEIGHTS)
    if not stored:
        raise RequestError(f"{directory}: has no {adapterhub.FUSION_WEIGHTS}; the fusion part is missing.")
    tensors = {dialect.plain(name): tensor for name, tensor in stored.items()}
    mark = f".adapter_fusion_layer.{fuse.name}."
    others = tuple(name for name in tensors if mark not in name and ".adapter_fusion_layer." in name)  # of longer names
    adapter = transformer.adapter_shapes[shape.names[0]]
    with torch.device("meta"), NoInit():
        module = add_fusion(transformer, shape)
    assert isinstance(adapter, BottleneckShape)
    names = {ours: (t,) for ours, t in adapterhub.fusion_tensors(shape, adapter, dialect, body).items()}
    if not (shape.query or shape.key or shape.value):
        others += tuple(name for name in tensors if ".dense." in name)  # stored, and never used
    try:
        return fuse, load_part(directory, module, names, tensors, others, f"fusions.{fuse.name}.", transformer)
    except BaseException:
        del transformer.fusions[fuse.name], transformer.fusion_shapes[fuse.name]
        raise


# Written


Files = dict[str, Any]
"""By name: tensors (a dictionary of them), or what becomes JSON."""


def adapter_files(transformer: Transformer, family: str, name: str, model_name: str, body_hash: str) -> Files:
    """The directory of an adapter without head. `body_hash`: `body_digest` of the model."""
    dialect, body, shape = FAMILIES[family], transformer.shape, transformer.adapter_shapes[name]
    parameters = {n: p.detach().cpu() for n, p in transformer.adapters[name].named_parameters()}
    note = {"format": _FORMAT, "name": name, "model": model_name, "body": body_hash}
    if isinstance(shape, LowRankShape):
        names, prefix = peft.adapter_tensors(shape, dialect, body), peft.PREFIX + dialect.prefix
        config, weights = peft.write_config(shape, dialect, body, model_name, ()), peft.WEIGHTS
    else:
        names, prefix = adapterhub.adapter_tensors(name, shape, dialect, body), dialect.prefix
        config, weights = adapterhub.write_config(name, shape, dialect, body, model_name), adapterhub.WEIGHTS
    tensors = {f"{prefix}{theirs}": plain_copy(parameters[ours]) for ours, every in names.items() for theirs in every}
    return {adapterhub.CONFIG: config, weights: tensors, NOTE: note}


def fusion_files(transformer: Transformer, family: str, name: str, model_name: str) -> Files:
    dialect, body, shape = FAMILIES[family], transformer.shape, transformer.fusion_shapes[name]
    adapter = transformer.adapter_shapes[shape.names[0]]
    assert isinstance(adapter, BottleneckShape)
    parameters = {n: p.detach().cpu() for n, p in transformer.fusions[name].named_parameters()}
    names = adapterhub.fusion_tensors(shape, adapter, dialect, body)
    return {
        adapterhub.FUSION_CONFIG: adapterhub.write_fusion(shape, dialect, body, model_name),
        adapterhub.FUSION_WEIGHTS: {f"{dialect.prefix}{t}": plain_copy(parameters[ours]) for ours, t in names.items()},
    }


def plain_copy(tensor: Tensor) -> Tensor:
    """Row by row in memory of its own, as files want it."""
    return tensor.clone(memory_format=torch.contiguous_format)


def put_all(transformer: Transformer, family: str, directory: Path, put: Callable[[dict[str, str]], None]) -> None:
    """Every adapter and fusion of a model directory into the model; `put` is told where their tensors came from."""
    root, folders, digest = directory / FOLDER, _folders(directory), cache(body_digest)
    fusions = [f for f in folders if f.is_dir() and (f / adapterhub.FUSION_CONFIG).is_file()]
    for folder in folders:
        if folder in fusions:
            continue
        if not folder.is_dir() or not (folder / adapterhub.CONFIG).is_file():
            raise RequestError(f"{folder}: is not the directory of an adapter; take it out of {root}.")
        place = f"{FOLDER}/{folder.name}/"
        read = put_adapter(transformer, family, open_adapter(folder), folder.name, digest)
        put({name: place + source for name, source in read.items()})
    for folder in fusions:
        place = f"{FOLDER}/{folder.name}/"
        put({k: place + v for k, v in put_fusion(transformer, family, folder)[1].items()})
