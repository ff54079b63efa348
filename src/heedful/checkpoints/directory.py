"""A model directory, whole: read it with every tensor accounted for, write it so that Hugging Face reads it too."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor
from torch.overrides import TorchFunctionMode

from heedful.checkpoints import config as configs
from heedful.checkpoints.atomic import replace_directory
from heedful.checkpoints.dialect import SLOTS, Entry, Family
from heedful.checkpoints.families import FAMILIES
from heedful.checkpoints.tensors import Stored, existing, open_tensors
from heedful.errors import RequestError
from heedful.models.shape import Head, HeadKind, Shape
from heedful.models.transformer import Transformer
from heedful.nn.blocks import FUSED, Kernels
from heedful.nn.heads import Reads
from heedful.text.files import read_tokenizer
from heedful.text.tokenizer import Tokenizer

MODEL_FILES = frozenset(
    [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "vocab.txt",
        "bpe.codes",
        "vocab.json",
        "merges.txt",
        "added_tokens.json",
    ]
)
"""What a model directory of ours may hold; a directory with anything else is never replaced."""


class _NoInit(TorchFunctionMode):
    """Modules made inside draw no weights: all are read, and even on the meta device drawing costs time and memory."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__module__", None) == "torch.nn.init":
            return (kwargs or {}).get("tensor", args[0] if args else None)
        return func(*args, **(kwargs or {}))


@dataclass
class Checkpoint:
    transformer: Transformer
    tokenizer: Tokenizer | None = None
    labels: tuple[str, ...] = ()
    """Names of the classes of the classification head, in order."""
    sources: dict[str, str] = field(default_factory=dict)
    """Where each tensor came from: file and name there, or "new"."""
    unread: tuple[str, ...] = ()
    """Stored tensors that were left alone because the caller asked for another head or none."""
    chunked: bool = False
    """Whether the classifier reads long texts in chunks whose features are averaged, as it did in training."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Keys of config.json that do not concern the computation, kept for saving."""


def read_model(
    directory: Path,
    new_head: HeadKind | None = None,
    labels: Sequence[str] = (),
    body_only: bool = False,
    family: str | None = None,
    seed: int = 0,
    reads: Reads | None = None,
    head_dropout: float | None = None,
    kernels: Kernels = FUSED,
) -> Checkpoint:
    """`reads` and `head_dropout` are a new head's; None: as the family's own heads have them."""
    path = existing(directory, "config.json")
    if path is None:
        raise RequestError(f"{directory}: has no config.json, so it is not a model directory.")
    config = configs.read_json(path)
    stored = open_tensors(directory)
    dialect = configs.read_family(path, config, list(stored), family)
    plain = _plain_names(directory, dialect, stored)

    pooled = bool(dialect.pooler) and any(n.startswith(f"{dialect.pooler}.") for n in plain)
    shape = configs.read_shape(path, config, dialect, pooled)
    heads: dict[str, Head] = {}
    if labels and new_head is None:
        raise RequestError("labels name the classes of a new_head; leave them out, or say which head it is.")
    if new_head is not None and body_only:
        raise RequestError("new_head and body_only contradict each other; give one of them.")
    if new_head is not None:
        if head_dropout is not None:
            shape = replace(shape, head_dropout=head_dropout)
        head = _new_head(dialect, new_head, shape, labels, reads)
        heads = {SLOTS[new_head]: head}
        shape = configs.with_pooler_for(shape, dialect, head)
    elif not body_only:
        kinds = configs.read_heads(path, config, dialect, set(plain))
        classes = _classes(dialect, kinds, plain, shape.width)
        noted = configs.read_reads(path, config)
        for name, kind in kinds.items():
            heads[name] = configs.make_head(dialect, kind, shape, classes, noted.get(name))
            shape = configs.with_pooler_for(shape, dialect, heads[name])

    with torch.device("meta"), _NoInit():
        transformer = Transformer(shape, heads, kernels)
    fresh: tuple[str, ...] = ()  # beginnings of the names of what the checkpoint need not have
    if new_head is not None:
        fresh = ("heads.", "body.pooler.") if shape.pooler and not pooled else ("heads.",)
    found = Checkpoint(transformer, labels=tuple(labels), extra=configs.inert_keys(dialect, config))
    entries = dialect.entries(shape, {name: head.kind for name, head in heads.items()})
    known = [e for e in entries if not e.ours.startswith(fresh)]
    found.unread = _account(directory, dialect, transformer, known, plain, dropping=bool(new_head) or body_only)
    if new_head is not None:
        found.extra.pop("problem_type", None)  # it spoke of the head that was replaced
    if "classify" in heads and new_head is None:
        found.labels = configs.read_labels(path, config, heads["classify"].classes)
        found.chunked = configs.read_chunked(path, config)
    _fill(directory, dialect, found, known, plain, fresh, seed)
    found.tokenizer = _tokenizer(directory, dialect, shape)
    return found


def _plain_names(directory: Path, family: Family, stored: Mapping[str, Stored]) -> dict[str, Stored]:
    plain: dict[str, Stored] = {}
    for name, tensor in stored.items():
        if family.plain(name) in plain:
            raise RequestError(f"{directory}: {name!r} is stored twice, with and without prefix or in two spellings.")
        plain[family.plain(name)] = tensor
    return plain


def _new_head(family: Family, kind: HeadKind, shape: Shape, labels: Sequence[str], reads: Reads | None) -> Head:
    if kind not in family.heads:
        raise RequestError(f"new_head={kind!r} is not possible on {family.name}; choose {', '.join(family.heads)}.")
    if SLOTS[kind] == "classify" and (not labels or len(set(labels)) != len(labels)):
        raise RequestError(f"new_head={kind!r} needs labels=[…], the different names of its classes.")
    if SLOTS[kind] != "classify" and labels:
        raise RequestError(f"new_head={kind!r} has no labels of its own; leave labels out.")
    return configs.make_head(family, kind, shape, len(labels), reads)


def _classes(family: Family, kinds: Mapping[str, HeadKind], plain: Mapping[str, Stored], width: int) -> int:
    """The classification head's own size, by its bias or its matrix; 1 if neither tells: `_account` reports it then."""
    if "classify" not in kinds:
        return 0
    stored = {e.ours: plain.get(e.theirs[0]) for e in family.heads[kinds["classify"]].entries}
    for ours, rest in (("output.bias", ()), ("output.weight", (width,))):
        tensor = stored.get(ours)
        if tensor is not None and tensor.shape[:1] > (0,) and tensor.shape[1:] == rest:
            return tensor.shape[0]
    return 1


def _account(
    directory: Path,
    family: Family,
    transformer: Transformer,
    entries: list[Entry],
    plain: Mapping[str, Stored],
    dropping: bool,
) -> tuple[str, ...]:
    """Every tensor must have a home and every home a tensor of its shape; returns the names rightly left unread."""
    sizes = {name: p.shape for name, p in transformer.named_parameters()}
    homes = {theirs: e.their_shape(sizes[e.ours]) for e in entries for theirs in e.theirs}
    missing = [n for n in homes if n not in plain]
    misshapen = [
        f"{n} is {list(plain[n].shape)}, not {list(size)}"
        for n, size in homes.items()
        if n in plain and plain[n].shape != size
    ]
    not_numbers = [n for n in homes if n in plain and not plain[n].is_float]
    strange: list[str] = []
    unread: list[str] = []
    body_roots = {e.theirs[0].split(".")[0] for e in family.body(transformer.shape)} | {"pooler"}
    for name in plain:
        if name in homes or re.fullmatch(family.derived, name) or (family.copies.get(name) in homes and not dropping):
            continue
        is_head = name.split(".")[0] not in body_roots
        (unread if dropping and is_head else strange).append(name)
    problems = [
        f"{len(names)} {what}: {_some(names)}"
        for what, names in (
            ("missing", missing),
            ("of another shape", misshapen),
            ("not floating-point", not_numbers),
            ("without a home", strange),
        )
        if names
    ]
    if problems:
        raise RequestError(
            f"{directory}: the tensors do not fit the {family.name} that config.json describes "
            f"({'; '.join(problems)}); a head that is not needed can be replaced with new_head or left with body_only."
        )
    return tuple(unread)


def _fill(
    directory: Path,
    family: Family,
    found: Checkpoint,
    entries: list[Entry],
    plain: Mapping[str, Stored],
    fresh: tuple[str, ...],
    seed: int,
) -> None:
    transformer = found.transformer
    transformer.to_empty(device="cpu")
    parameters = dict(transformer.named_parameters())
    for entry in entries:
        for name, view in entry.views(parameters[entry.ours].detach()).items():
            view.copy_(plain[name].read())
            # A sum costs no memory; only where it is not finite are the values looked at one by one. As they are here:
            # a double can be too large for us.
            if not view.sum().isfinite() and (bad := int((~view.isfinite()).sum())):
                raise RequestError(f"{directory / plain[name].file}: {name} has {bad} NaN or infinite values.")
        found.sources[entry.ours] = f"{plain[entry.theirs[0]].file}: {' + '.join(plain[n].name for n in entry.theirs)}"
    for copy, original in family.copies.items():
        if copy not in plain or original not in plain or copy in found.unread:
            continue
        if not torch.equal(plain[copy].read().float(), plain[original].read().float()):
            raise RequestError(
                f"{directory}: {copy} is not equal to {original}, but config.json ties them; untied is not supported."
            )
    if fresh:
        transformer.initialise(torch.Generator().manual_seed(seed), only=fresh)
        found.sources |= {name: "new" for name in parameters if name.startswith(fresh)}
    assert set(found.sources) == set(parameters), "a parameter was neither read nor drawn"
    transformer.eval()


def _tokenizer(directory: Path, family: Family, shape: Shape) -> Tokenizer | None:
    for name in MODEL_FILES:
        existing(directory, name)  # refuses links that lead out before anything is read through them
    tokenizer = read_tokenizer(directory, family.name)
    if tokenizer is not None and tokenizer.size != shape.vocabulary:
        raise RequestError(
            f"{directory}: the tokenizer has {tokenizer.size} entries but the embedding has {shape.vocabulary}; "
            "they do not belong together."
        )
    return tokenizer


def write_model(directory: Path, checkpoint: Checkpoint) -> None:
    """Into a directory that appears, or takes the place of an older model there, in one step."""
    transformer = checkpoint.transformer
    family = FAMILIES[transformer.shape.family]
    heads = transformer.head_shapes
    content = configs.write_config(family, transformer.shape, heads, checkpoint.labels, checkpoint.extra)
    if checkpoint.chunked:
        content["heedful"]["chunked"] = True
    tensors = theirs(transformer, {name: p.detach().cpu() for name, p in transformer.named_parameters()})

    def write(into: Path) -> None:
        (into / "config.json").write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        try:
            save_file(tensors, into / "model.safetensors", metadata={"format": "pt"})
        except SafetensorError as error:  # the library's word for a full disk too
            raise OSError(str(error).removeprefix("Error while serializing: ")) from None
        if checkpoint.tokenizer is not None:
            checkpoint.tokenizer.save(into)

    replace_directory(directory, write, MODEL_FILES)


def theirs(transformer: Transformer, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors under our names (weights, or their gradients) under Hugging Face's. A name without a home is an error."""
    family = FAMILIES[transformer.shape.family]
    heads = transformer.head_shapes
    entries = {e.ours: e for e in family.entries(transformer.shape, {n: h.kind for n, h in heads.items()})}
    prefix = family.prefix if heads and configs.architectures(family, heads) else ""
    renamed: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        for theirs_name, part in entries[name].views(tensor).items():
            renamed[(prefix if name.startswith("body.") else "") + theirs_name] = part.contiguous()
    return renamed


def _some(names: Sequence[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
