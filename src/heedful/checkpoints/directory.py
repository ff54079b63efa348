"""A model directory, whole: read it with every tensor accounted for, write it so that Hugging Face reads it too."""

import json
import math
from collections.abc import Callable, Mapping
from copy import copy as shallow_copy
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from heedful.checkpoints import adapters as adapters_of
from heedful.checkpoints import config as configs
from heedful.checkpoints import heads as heads_of
from heedful.checkpoints.adapter_facts import is_adapter, why_no_model
from heedful.checkpoints.dialect import Family
from heedful.checkpoints.families import FAMILIES
from heedful.checkpoints.heads import HEADS_FILE, NewHead, StoredHead
from heedful.checkpoints.named_tensors import Names, load_named
from heedful.checkpoints.sentences import POOLING_FOLDER, SENTENCE_FILES, sentence_files
from heedful.checkpoints.tensors import SAFETENSORS, NoInit, Stored, existing, open_file, open_tensors
from heedful.errors import RequestError
from heedful.models.adapters import activate, in_use, parsed
from heedful.models.shape import Shape, main_head
from heedful.models.transformer import Transformer
from heedful.nn.blocks import FUSED, Kernels
from heedful.storage.directories import link_or_copy, refuse_strangers, replace_directory
from heedful.storage.hashing import sha256_of
from heedful.storage.shared import SharedStore
from heedful.text.files import read_tokenizer
from heedful.text.tokenizer import Tokenizer

GENERATION_FILE = "generation_config.json"
MODEL_FILES = frozenset(
    [
        "config.json",
        SAFETENSORS,
        HEADS_FILE,
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "vocab.txt",
        "bpe.codes",
        "vocab.json",
        "merges.txt",
        "added_tokens.json",
        "vocabulary.json",
        GENERATION_FILE,
        *SENTENCE_FILES,
    ]
)
"""What a model directory of ours may hold; a directory with anything else is never replaced."""
MODEL_FOLDERS = frozenset([adapters_of.FOLDER, POOLING_FOLDER])
"""The folders that a model directory of ours may hold."""
_NEAR = 1e-5
"""How far a stored table may be from what we compute: other libraries have it in single precision from the start."""
_LARGEST_TABLE = 2**22
"""Numbers of a computed table that is written; a larger one Hugging Face computes itself."""


@dataclass
class Checkpoint:
    transformer: Transformer
    family: str
    """In whose dialect it is written: a name in `FAMILIES`."""
    tokenizer: Tokenizer | None = None
    sources: dict[str, str] = field(default_factory=dict)
    """Where each tensor came from: file and name there, or "new"."""
    unread: tuple[str, ...] = ()
    """Stored tensors that were left alone because the caller asked for another head or none."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Keys of config.json that do not concern the computation, kept for saving."""
    generation: dict[str, Any] = field(default_factory=dict)
    """How a language model is meant to continue texts, as generation_config.json says."""
    source: str = ""
    """What the user called the model; of a directory, its last name."""

    def generation_setting(self, key: str) -> tuple[str, Any]:
        """Return the file that may say a setting of generation, and what it says: config.json where there is no
        generation_config.json, as in `transformers`."""
        return (GENERATION_FILE, self.generation.get(key)) if self.generation else ("config.json", self.extra.get(key))

    @property
    def called(self) -> str:
        """What an adapter notes of the model that it was trained on."""
        return str(self.extra.get("_name_or_path") or self.source)

    @property
    def module(self) -> Transformer:
        return self.transformer

    @property
    def tokenizer_fingerprint(self) -> str | None:
        return None if self.tokenizer is None else self.tokenizer.fingerprint

    def copied(self) -> "Checkpoint":
        """With weights of its own, so that it can be put together and written while training goes on."""
        return replace(self, transformer=deepcopy(self.transformer), tokenizer=shallow_copy(self.tokenizer))

    def write(self, directory: Path, shared: SharedStore | None = None, moved: bool = False) -> None:
        write_model(directory, self, None if moved else shared)


def read_model(
    directory: Path,
    new_heads: Mapping[str, NewHead] = MappingProxyType({}),
    keep_heads: bool = False,
    body_only: bool = False,
    family: str | None = None,
    seed: int = 0,
    kernels: Kernels = FUSED,
) -> Checkpoint:
    """`new_heads`, by name, are drawn from `seed`, but for those that may reuse a stored one, and take the place of all
    that are stored; with `keep_heads` they stand beside them, and take the place only of those with the same name.
    `body_only`: without heads."""
    if new_heads and body_only:
        raise RequestError("new_head and body_only contradict each other; give one of them.")
    path = existing(directory, "config.json")
    if path is None:
        if is_adapter(directory):
            raise RequestError(why_no_model(directory))
        raise RequestError(f"{directory}: has no config.json, so it is not a model directory.")
    config = configs.read_json(path)
    stored = open_tensors(directory)
    dialect = configs.read_family(path, config, list(stored), family)
    tensors = _plain_names(directory, dialect, stored)
    pooled = bool(dialect.pooler) and any(n.startswith(f"{dialect.pooler}.") for n in tensors)
    shape = configs.read_shape(path, config, dialect, pooled)
    notes = heads_of.read_notes(path, config, dialect)
    if notes is not None and existing(directory, HEADS_FILE) is not None:
        tensors = _merge_tensors(directory, tensors, open_file(directory, HEADS_FILE))

    for name in new_heads:
        heads_of.check_name(str(directory), name)
    known: dict[str, StoredHead] = {}
    reusable = {name for name, new in new_heads.items() if new.reuse}
    if not body_only and (keep_heads or not new_heads or reusable):
        known = heads_of.foreign_heads(path, config, dialect, shape, tensors) if notes is None else dict(notes)
    reused = {name for name in reusable & set(known) if known[name].head.kind == new_heads[name].kind}
    if new_heads and not keep_heads:
        known = {name: known[name] for name in known if name in reused}
    fresh = {n: heads_of.make_head(dialect, shape, new) for n, new in new_heads.items() if n not in reused}
    replaced = {name: known.pop(name) for name in fresh if name in known}
    heads = {**{name: stored.head for name, stored in known.items()}, **fresh}
    for head in heads.values():
        shape = heads_of.with_pooler_for(shape, dialect, head)

    with torch.device("meta"), NoInit():
        transformer = Transformer(shape, heads, kernels)
    drawn = tuple(f"heads.{name}." for name in fresh)  # beginnings of the names of what the checkpoint need not have
    if shape.pooler and not pooled and not any(stored.head.reads == "pooled" for stored in known.values()):
        drawn += ("body.pooler.",)
    parameters = [name for name, _ in transformer.named_parameters()]
    left_out = None if body_only or (new_heads and not keep_heads) else _tensors_of(dialect, replaced)
    sources, unread = load_named(
        directory,
        transformer,
        Names(
            [e for e in heads_of.entries(dialect, shape, known, parameters) if not e.ours.startswith(drawn)],
            {} if left_out is None else dialect.copies,
            {table.name: table.size(shape) for table in dialect.tables},
            dialect.derived,
        ),
        tensors,
        f"the {dialect.name} that config.json describes",
        "a head that is not needed can be replaced with new_head or left with body_only",
        may_stay=_may_stay(dialect, shape, left_out),
    )
    for table in dialect.tables:
        if table.name in tensors:
            _check_table(directory, tensors[table.name], table.values(shape))
    if drawn:
        transformer.initialise(torch.Generator().manual_seed(seed), only=drawn)
        sources |= {name: "new" for name in parameters if name.startswith(drawn)}
    assert set(sources) == set(parameters), "a parameter was neither read nor drawn"
    transformer.eval()

    checkpoint = Checkpoint(
        transformer, dialect.name, sources=sources, unread=unread, extra=configs.inert_keys(dialect, config)
    )
    if shape.causal and (settings := existing(directory, GENERATION_FILE)) is not None:
        checkpoint.generation = configs.read_json(settings)
    if "classify" in known:
        heads_of.check_problem_type(path, config, known["classify"].head)
    else:
        checkpoint.extra.pop("problem_type", None)  # it described a head that is not read
    main = main_head({name: stored.head for name, stored in (known | replaced).items()})
    _read_labels(path, config, transformer, known, main, has_notes=notes is not None)
    adapters_of.put_all(transformer, dialect.name, directory, checkpoint.sources.update)
    _use_adapters(path, transformer)
    checkpoint.tokenizer = _tokenizer(directory, dialect, shape)
    return checkpoint


def _use_adapters(path: Path, transformer: Transformer) -> None:
    """Those of the main head, once it is sure that those of every head are there."""
    for name, head in transformer.head_shapes.items():
        try:
            in_use(transformer, parsed(head.adapters))
        except RequestError as error:
            raise RequestError(f"{path}: heedful.heads.{name}.adapters: {error}") from None
    main = main_head(transformer.head_shapes)
    activate(transformer, None)
    if main is not None:
        activate(transformer, parsed(transformer.head_shapes[main].adapters))


def _plain_names(directory: Path, family: Family, stored: Mapping[str, Stored]) -> dict[str, Stored]:
    plain: dict[str, Stored] = {}
    for name, tensor in stored.items():
        if family.plain(name) in plain:
            raise RequestError(f"{directory}: {name!r} is stored twice, with and without prefix or in two spellings.")
        plain[family.plain(name)] = tensor
    return plain


def _merge_tensors(directory: Path, tensors: dict[str, Stored], further: Mapping[str, Stored]) -> dict[str, Stored]:
    both = sorted(set(tensors) & set(further))
    if both:
        raise RequestError(f"{directory}: {both[0]!r} is stored twice, in {SAFETENSORS} and in {HEADS_FILE}.")
    return {**tensors, **further}


def _tensors_of(family: Family, heads: Mapping[str, StoredHead]) -> tuple[str, ...]:
    """What the tensors of these heads are called where they are stored: whole names, or the beginning of ours."""
    names: list[str] = []
    for name, stored in heads.items():
        if stored.file == HEADS_FILE:
            names.append(f"heads.{name}.")
        else:
            names += [theirs for entry in family.heads[stored.head.kind].entries for theirs in entry.theirs]
    return tuple(names)


def _read_labels(
    path: Path,
    config: Mapping[str, Any],
    transformer: Transformer,
    known: Mapping[str, StoredHead],
    main: str | None,
    has_notes: bool,
) -> None:
    """Names for the classes of the stored heads that have none yet. Hugging Face's names are those of the head `main`;
    where config.json names its classes twice, they agree."""
    for name, stored in known.items():
        if stored.head.kind not in ("linear", "two-layer"):
            continue
        labels = stored.head.labels or tuple(f"LABEL_{i}" for i in range(stored.head.classes))
        if name == main and not (has_notes and config.get("id2label") is None):
            file_labels = configs.read_labels(path, config, stored.head.classes)
            if has_notes and stored.head.labels and file_labels != labels:
                raise RequestError(f"{path}: id2label and heedful.heads.{name}.labels contradict each other.")
            labels = file_labels
        transformer.head_shapes[name] = replace(stored.head, labels=labels)


def _may_stay(family: Family, shape: Shape, left_out: tuple[str, ...] | None) -> Callable[[str], bool]:
    """Which stored tensors may stay unread. `left_out`: how their names begin; None: everything outside the body."""
    if left_out is not None:
        return lambda name: name.startswith(left_out)
    roots = {entry.theirs[0].split(".")[0] for entry in family.body(shape)} | {"pooler"}
    return lambda name: name.split(".")[0] not in roots


def _check_table(directory: Path, stored: Stored, values: Tensor) -> None:
    """Hugging Face takes what is stored, so that another table there would be another model. A file of half precision
    may round it."""
    found = stored.read()
    if not (found.double() - values).abs().max() <= max(_NEAR, torch.finfo(found.dtype).eps):
        raise RequestError(
            f"{directory / stored.file}: {stored.name} does not hold the values that follow from config.json, and "
            "others are not supported."
        )


def _tokenizer(directory: Path, family: Family, shape: Shape) -> Tokenizer | None:
    for name in MODEL_FILES:
        existing(directory, name)  # refuses links that lead out before anything is read through them
    tokenizer = read_tokenizer(directory, family.tokens, family.name)
    if tokenizer is not None and tokenizer.size != shape.vocabulary:
        raise RequestError(
            f"{directory}: the tokenizer has {tokenizer.size} entries but the embedding has {shape.vocabulary}; "
            "they do not belong together."
        )
    return tokenizer


def write_model(directory: Path, checkpoint: Checkpoint, shared: SharedStore | None = None) -> None:
    """Into a directory that appears, or takes the place of an older model there, in one step. With a store to share,
    the file of the body is one with that of every other model with the same body that was written with it."""
    transformer, family = checkpoint.transformer, FAMILIES[checkpoint.family]
    wrong = family.cannot_say(transformer.shape)
    if wrong:
        raise RequestError(f"{directory}: a {family.name} cannot be written with its {', '.join(wrong)}.")
    for name, head in transformer.head_shapes.items():
        heads_of.check_name(str(directory), name)
        if head.kind not in family.heads:
            raise RequestError(f"{directory}: a {family.name} cannot be written with a head {head.kind!r}.")
    _refuse_strange_adapters(directory)
    heads = heads_of.locate(family, transformer.shape, transformer.head_shapes)
    whole = heads_of.architectures(family, heads)
    main = main_head(transformer.head_shapes)
    content = configs.write_config(
        family,
        transformer.shape,
        whole[0] if whole else next(iter(family.architectures)),
        () if main is None else transformer.head_shapes[main].labels,
        checkpoint.extra,
    )
    content["heedful"] = heads_of.write_notes(heads)
    own = ("body.", "heads.")
    files = stored_tensors(
        checkpoint, {name: p.detach().cpu() for name, p in transformer.named_parameters() if name.startswith(own)}
    )
    prefix = _body_prefix(family, heads)
    shape, speaks = transformer.shape, any(h.kind == "language-model" for h in transformer.head_shapes.values())
    written = [table for table in family.tables if math.prod(table.size(shape)) <= _LARGEST_TABLE]
    files[SAFETENSORS] |= {f"{prefix}{table.name}": table.values(shape) for table in written}

    def write(into: Path) -> None:
        (into / "config.json").write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        if speaks and checkpoint.generation:
            settings = json.dumps(checkpoint.generation, indent=2, ensure_ascii=False)
            (into / GENERATION_FILE).write_text(settings + "\n", encoding="utf-8")
        for file, tensors in files.items():
            if file == SAFETENSORS and shared is not None:
                link_tensors(tensors, into / file, shared)
            else:
                save_tensors(tensors, into / file)
        if checkpoint.tokenizer is not None:
            checkpoint.tokenizer.save(into)
        for name, facts in ({} if family.own else sentence_files(transformer, checkpoint.tokenizer)).items():
            (into / name).parent.mkdir(exist_ok=True)
            (into / name).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
        for folder, contents in adapter_folders(checkpoint).items():
            (into / adapters_of.FOLDER / folder).mkdir(parents=True)
            write_files(contents, into / adapters_of.FOLDER / folder)

    replace_directory(directory, write, MODEL_FILES, MODEL_FOLDERS)


def _refuse_strange_adapters(directory: Path) -> None:
    """What is in the place of adapters and is none would be lost."""
    root = directory / adapters_of.FOLDER
    for path in sorted(root.iterdir()) if root.is_dir() else ():
        if not path.is_dir():
            raise RequestError(f"{root}: holds {path.name!r}, which is not heedful's and would be lost; move it away.")
        refuse_strangers(path, adapters_of.ADAPTER_FILES, frozenset())


def adapter_folders(checkpoint: Checkpoint) -> dict[str, adapters_of.Files]:
    """The contents of the folder of each adapter and each fusion."""
    transformer, family = checkpoint.transformer, checkpoint.family
    model_name = checkpoint.called
    body = adapters_of.body_digest(transformer) if transformer.adapters else ""
    folders = {
        name: adapters_of.adapter_files(transformer, family, name, model_name, body) for name in transformer.adapters
    }
    fusions = {name: adapters_of.fusion_files(transformer, family, name, model_name) for name in transformer.fusions}
    return {**folders, **fusions}


def write_files(files: adapters_of.Files, into: Path) -> None:
    for name, content in files.items():
        if name.endswith(".safetensors"):
            save_tensors(content, into / name)
        else:
            text = json.dumps(content, indent=2, ensure_ascii=False, sort_keys=True)
            (into / name).write_text(text + "\n", encoding="utf-8")


def save_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    try:
        save_file(dict(tensors), path, metadata={"format": "pt"})
    except SafetensorError as error:  # the library's word for a full disk too
        raise OSError(str(error).removeprefix("Error while serializing: ")) from None


def link_tensors(tensors: Mapping[str, Tensor], path: Path, shared: SharedStore) -> None:
    """Written once for all that have the same tensors, then linked, where the file system can."""
    named = ((f"{name} {tuple(t.shape)} {t.dtype}", t.numpy().data) for name, t in sorted(tensors.items()))
    with shared.place({"tensors": sha256_of(part for parts in named for part in parts)}) as folder:
        whole = folder / "tensors.safetensors"
        if not whole.exists():
            part = folder / ".tensors.part"
            save_tensors(tensors, part)
            part.rename(whole)
        link_or_copy(whole, path)


def stored_tensors(checkpoint: Checkpoint, tensors: Mapping[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    """Tensors under our names (weights, or their gradients) by the files that they belong in and what they are called
    there: Hugging Face's names in its file. A name that belongs nowhere is an error."""
    transformer, family = checkpoint.transformer, FAMILIES[checkpoint.family]
    heads = heads_of.locate(family, transformer.shape, transformer.head_shapes)
    entries = {e.ours: e for e in heads_of.entries(family, transformer.shape, heads, list(tensors))}
    own = tuple(f"heads.{name}." for name, stored in heads.items() if stored.file == HEADS_FILE)
    prefix = _body_prefix(family, heads)
    files: dict[str, dict[str, Tensor]] = {SAFETENSORS: {}}
    for name, tensor in tensors.items():
        file = HEADS_FILE if name.startswith(own) else SAFETENSORS
        for their_name, part in entries[name].views(tensor).items():
            stored_name = (prefix if name.startswith("body.") else "") + their_name
            files.setdefault(file, {})[stored_name] = part.contiguous()
    return files


def _body_prefix(family: Family, heads: Mapping[str, StoredHead]) -> str:
    """What stands before the names of the body's tensors: nothing where Hugging Face opens the body alone."""
    has_theirs = any(stored.file == SAFETENSORS for stored in heads.values())
    return family.prefix if has_theirs and heads_of.architectures(family, heads) else ""
