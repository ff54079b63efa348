"""A model directory, whole: read it with every tensor accounted for, write it so that Hugging Face reads it too."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from heedful.checkpoints import config as configs
from heedful.checkpoints.atomic import replace_directory
from heedful.checkpoints.dialect import SLOTS, Entry, Family
from heedful.checkpoints.families import FAMILIES
from heedful.checkpoints.tensors import Stored, existing, open_tensors
from heedful.errors import RequestError
from heedful.models.shape import Head, HeadKind, Shape
from heedful.models.transformer import Transformer
from heedful.nn.blocks import FUSED, Kernels
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
    extra: dict[str, Any] = field(default_factory=dict)
    """Keys of config.json that do not concern the computation, kept for saving."""


def read_model(
    directory: Path,
    new_head: HeadKind | None = None,
    labels: Sequence[str] = (),
    body_only: bool = False,
    family: str | None = None,
    seed: int = 0,
    kernels: Kernels = FUSED,
) -> Checkpoint:
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
    if new_head is not None:
        heads = {SLOTS[new_head]: _new_head(dialect, new_head, shape, labels)}
        shape = configs.with_new_head(shape, dialect, new_head)
        label_names = tuple(labels)
    elif not body_only:
        kinds = configs.read_heads(path, config, dialect, set(plain))
        classes = _classes(dialect, kinds, plain)
        heads = {name: configs.make_head(dialect, kind, shape, classes) for name, kind in kinds.items()}
        label_names = configs.read_labels(path, config, classes) if "classify" in heads else ()
    else:
        label_names = ()

    with torch.device("meta"):
        transformer = Transformer(shape, heads, kernels)
    fresh = _fresh(dialect, new_head, pooled)
    found = Checkpoint(transformer, None, label_names, extra=configs.inert_keys(dialect, config))
    entries = dialect.entries(shape, {name: head.kind for name, head in heads.items()})
    known = [e for e in entries if not e.ours.startswith(fresh)]
    found.unread = _account(directory, dialect, transformer, known, plain, dropping=bool(new_head) or body_only)
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


def _new_head(family: Family, kind: HeadKind, shape: Shape, labels: Sequence[str]) -> Head:
    if kind not in family.heads:
        raise RequestError(f"new_head={kind!r} is not possible on {family.name}; choose {', '.join(family.heads)}.")
    if SLOTS[kind] == "classify" and (not labels or len(set(labels)) != len(labels)):
        raise RequestError(f"new_head={kind!r} needs labels=[…], the different names of its classes.")
    if SLOTS[kind] != "classify" and labels:
        raise RequestError(f"new_head={kind!r} has no labels of its own; leave labels out.")
    return configs.make_head(family, kind, shape, len(labels))


def _classes(family: Family, kinds: Mapping[str, HeadKind], plain: Mapping[str, Stored]) -> int:
    """The classification head's own size; 0 if its matrix is missing, which is reported with all else that is."""
    if "classify" not in kinds:
        return 0
    output = next(e for e in family.heads[kinds["classify"]].entries if e.ours == "output.weight")
    stored = plain.get(output.theirs[0])
    return stored.shape[0] if stored is not None and stored.shape else 0


def _fresh(family: Family, new_head: HeadKind | None, pooled: bool) -> tuple[str, ...]:
    """Beginnings of the names of what the checkpoint need not have, because the caller asked for it anew."""
    if new_head is None:
        return ()
    wants_pooler = family.heads[new_head].reads == "pooled" and not pooled
    return ("heads.", "body.pooler.") if wants_pooler else ("heads.",)


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
        if name in homes or re.fullmatch(family.derived, name) or (name in family.copies and not dropping):
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
    state: dict[str, Tensor] = {}
    for entry in entries:
        parts = []
        for name in entry.theirs:
            tensor = plain[name].read().float()
            if not torch.isfinite(tensor).all():
                bad = int((~torch.isfinite(tensor)).sum())
                raise RequestError(f"{directory / plain[name].file}: {name} has {bad} NaN or infinite values.")
            parts.append(tensor)
        state[entry.ours] = entry.to_ours(parts)
        found.sources[entry.ours] = f"{plain[entry.theirs[0]].file}: {' + '.join(plain[n].name for n in entry.theirs)}"
    for copy, original in family.copies.items():
        if copy in plain and original in plain and not torch.equal(plain[copy].read(), plain[original].read()):
            raise RequestError(
                f"{directory}: {copy} is not equal to {original}, but config.json ties them; untied is not supported."
            )
    transformer = found.transformer
    if fresh:
        new = [n for n, _ in transformer.named_parameters() if n.startswith(fresh)]
        for name in {n.rsplit(".", 1)[0] for n in new}:
            transformer.get_submodule(name).to_empty(device="cpu")
        transformer.initialise(torch.Generator().manual_seed(seed), only=fresh)
        state |= {n: p.detach() for n, p in transformer.named_parameters() if n in new}
        found.sources |= dict.fromkeys(new, "new")
    transformer.load_state_dict(state, strict=True, assign=True)
    for p in transformer.parameters():
        p.requires_grad_(True)
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
    tensors = theirs(transformer, {name: p.detach().cpu() for name, p in transformer.named_parameters()})

    def write(into: Path) -> None:
        (into / "config.json").write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        save_file(tensors, into / "model.safetensors", metadata={"format": "pt"})
        if checkpoint.tokenizer is not None:
            checkpoint.tokenizer.save(into)

    replace_directory(directory, write, MODEL_FILES)


def theirs(transformer: Transformer, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors under our names (weights, or their gradients) under Hugging Face's. A name without a home is an error."""
    family = FAMILIES[transformer.shape.family]
    heads = transformer.head_shapes
    entries = {e.ours: e for e in family.entries(transformer.shape, {n: h.kind for n, h in heads.items()})}
    prefix = family.prefix if configs.opens_whole(family, heads) and heads else ""
    renamed: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        for theirs_name, part in entries[name].to_theirs(tensor).items():
            renamed[(prefix if name.startswith("body.") else "") + theirs_name] = part
    return renamed


def _some(names: Sequence[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
