"""The heads of a checkpoint: which there are, what config.json notes of each, and in which file its tensors are.

A head that Hugging Face has a place for is stored there, under its names. Every other (another name, another pooling,
chunks, a second classifier) is stored beside it, in a file that Hugging Face does not open: it reports its own head as
missing and never answers otherwise without a word.
"""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from heedful.checkpoints.config import listed, shown
from heedful.checkpoints.dialect import SLOTS, Entry, Family
from heedful.checkpoints.tensors import SAFETENSORS, Stored
from heedful.errors import RequestError
from heedful.models.modules import is_part_name
from heedful.models.shape import Head, HeadKind, Shape
from heedful.nn.activations import ACTIVATIONS
from heedful.nn.heads import Pairs, Reads
from heedful.nn.recurrent import RecurrentKind, default_width

FORMAT = 2
"""Version of what heedful adds to a model directory."""
HEADS_FILE = "heads.safetensors"
_CLASSIFIERS = ("linear", "two-layer")
_MOST_CLASSES = 10**6
_WIDEST = 10**5


@dataclass(frozen=True)
class NewHead:
    """A head to be drawn afresh. What is None is as the family's own heads of this kind have it."""

    kind: HeadKind
    labels: tuple[str, ...] = ()
    """The names of a classifier's classes."""
    reads: Reads | None = None
    dropout: float | None = None
    chunked: bool = False
    pairs: Pairs = "joint"
    recurrent: RecurrentKind | None = None
    """A classifier with a recurrent network reads every state, whatever `reads` says."""
    recurrent_width: int | None = None
    reuse: bool = False
    """Whether one of this name and kind that the checkpoint has is used as it is, and none drawn."""
    remedy: str = ""
    """What to do where a family has no such head."""
    trained: bool = True
    """Whether training moves it; one that is only judged is left as it was drawn."""


@dataclass(frozen=True)
class StoredHead:
    head: Head
    file: str
    """SAFETENSORS, under Hugging Face's names, or HEADS_FILE, under ours."""


def make_head(family: Family, shape: Shape, new: NewHead) -> Head:
    if new.kind not in family.heads:
        remedy = new.remedy or f"choose {', '.join(family.heads)}"
        raise RequestError(f"a {new.kind} head is not possible on {family.name}; {remedy}.")
    labels = tuple(new.labels)
    if new.kind in _CLASSIFIERS and (not labels or len(set(labels)) != len(labels)):
        raise RequestError(f"new_head={new.kind!r} needs labels=[…], the different names of its classes.")
    if new.kind not in _CLASSIFIERS and labels:
        raise RequestError(f"new_head={new.kind!r} has no labels of its own; leave labels out.")
    head = as_theirs(family, shape, new.kind, len(labels))
    head = dataclasses.replace(head, labels=labels, chunked=new.chunked, dropout=new.dropout, pairs=new.pairs)
    if new.recurrent is None:
        return dataclasses.replace(head, reads=new.reads or head.reads)
    if new.kind not in _CLASSIFIERS:
        raise RequestError(f"new_head={new.kind!r} has no recurrent network; choose linear or two-layer.")
    width = new.recurrent_width or default_width(new.recurrent, shape.width)
    return dataclasses.replace(head, reads="every", recurrent=new.recurrent, recurrent_width=width)


def as_theirs(family: Family, shape: Shape, kind: HeadKind, classes: int) -> Head:
    dialect = family.heads[kind]
    outputs = classes if kind in _CLASSIFIERS else 2 if kind == "next-sentence" else 0
    reads = dialect.reads(shape) if callable(dialect.reads) else dialect.reads
    activation, input_dropout = dialect.activation(shape), dialect.input_dropout
    return Head(kind, reads, outputs, activation, dialect.bias, input_dropout=input_dropout)


def check_name(place: str, name: str) -> None:
    """A head's name becomes part of the names of tensors."""
    if not is_part_name(name) or len(name) > 60:
        raise RequestError(f"{place}: {name[:60]!r} is no name for a head; use a short word without dots.")


def with_pooler_for(shape: Shape, family: Family, head: Head) -> Shape:
    """A head that reads the pooled state needs a pooler, even on a body that came without."""
    if head.reads != "pooled":
        return shape
    if not family.pooler:
        raise RequestError(f"{family.name} has no pooler; choose another state for the head to read.")
    return dataclasses.replace(shape, pooler=True)


def home(family: Family, shape: Shape, name: str, head: Head) -> str:
    """The file for a head: Hugging Face's if one of its classes has just this head, else our own."""
    has_class = any(head.kind in kinds for kinds in family.architectures.values())
    if not has_class or name != SLOTS[head.kind] or head.chunked:
        return HEADS_FILE
    theirs = as_theirs(family, shape, head.kind, head.classes)
    ours = dataclasses.replace(head, labels=(), dropout=None, of_pairs=None, temperature=1.0)
    return SAFETENSORS if ours == theirs else HEADS_FILE


def locate(family: Family, shape: Shape, heads: Mapping[str, Head]) -> dict[str, StoredHead]:
    """Where each head of a model belongs."""
    return {name: StoredHead(head, home(family, shape, name, head)) for name, head in heads.items()}


def entries(family: Family, shape: Shape, heads: Mapping[str, StoredHead], ours: list[str]) -> list[Entry]:
    """Every tensor of a model and what it is called where it is stored; `ours` are the names of all its parameters."""
    theirs = {name: stored.head.kind for name, stored in heads.items() if stored.file == SAFETENSORS}
    own = tuple(f"heads.{name}." for name, stored in heads.items() if stored.file == HEADS_FILE)
    return [*family.entries(shape, theirs), *(Entry(name, (name,)) for name in ours if name.startswith(own))]


def architectures(family: Family, heads: Mapping[str, StoredHead]) -> list[str]:
    """Hugging Face's classes with just the heads in its file; where there is none, it opens the body alone."""
    kinds = {stored.head.kind for stored in heads.values() if stored.file == SAFETENSORS}
    return [name for name, needed in family.architectures.items() if set(needed) == kinds]


def foreign_heads(
    path: Any, config: Mapping[str, Any], family: Family, shape: Shape, tensors: Mapping[str, Stored]
) -> dict[str, StoredHead]:
    """The heads of a directory that heedful did not write: those that its class has, and those whose tensors are
    there. Their labels are read later (`heedful.checkpoints.config.read_labels`)."""
    named = config.get("architectures") or []
    if not isinstance(named, list) or not all(isinstance(a, str) for a in named):
        raise RequestError(f"{path}: architectures is not a list of names.")
    kinds: list[HeadKind] = []
    for architecture in named:
        if architecture not in family.architectures:
            raise RequestError(
                f"{path}: the head of {architecture} is not supported; load it with body_only=True, "
                "or with a new_head of your own."
            )
        kinds += family.architectures[architecture]
    # Of the kinds that fill one slot, the one with the most tensors in the file is meant.
    for kind, dialect in sorted(family.heads.items(), key=lambda item: -len(item[1].entries)):
        taken = {SLOTS[k] for k in kinds}
        if SLOTS[kind] not in taken and dialect.entries and all(set(e.theirs) <= set(tensors) for e in dialect.entries):
            kinds.append(kind)
    if "language-model" in family.heads and "lm_head.weight" in tensors and "language-model" not in kinds:
        kinds.append("language-model")
    return {
        SLOTS[kind]: StoredHead(
            as_theirs(family, shape, kind, _classes(family, kind, tensors, shape.width)), SAFETENSORS
        )
        for kind in kinds
    }


def check_problem_type(path: Any, config: Mapping[str, Any], head: Head) -> None:
    """Refuse a classifier whose outputs are not the scores of classes of which one is right, nor one score."""
    kind = config.get("problem_type")
    what = {"multi_label_classification": "several labels", "regression": f"{head.classes} scores"}
    if kind == "multi_label_classification" or (kind == "regression" and head.classes > 1):
        raise RequestError(
            f'{path}: problem_type = "{kind}" means a head that gives a text {what[kind]}, which is not supported; '
            "load it with body_only=True, or with a new_head of your own."
        )


def _classes(family: Family, kind: HeadKind, tensors: Mapping[str, Stored], width: int) -> int:
    """The head's own size, by its bias or its matrix; 1 if neither shows it, as misfits are refused later."""
    stored = {e.ours: tensors.get(e.theirs[0]) for e in family.heads[kind].entries}
    for ours, rest in (("output.bias", ()), ("output.weight", (width,))):
        tensor = stored.get(ours)
        if tensor is not None and tensor.shape[:1] > (0,) and tensor.shape[1:] == rest:
            return tensor.shape[0]
    return 1


def write_notes(heads: Mapping[str, StoredHead]) -> dict[str, Any]:
    """What config.json says of the heads under the key "heedful"."""
    described = {
        name: {**dataclasses.asdict(stored.head), "labels": list(stored.head.labels), "file": stored.file}
        for name, stored in heads.items()
    }
    return {"format": FORMAT, "heads": described}


def read_notes(path: Any, config: Mapping[str, Any], family: Family) -> dict[str, StoredHead] | None:
    """None if heedful did not write the directory."""
    notes = config.get("heedful")
    if notes is None:
        return None
    version = notes.get("format") if isinstance(notes, dict) else notes
    if type(version) is not int or version != FORMAT:
        raise RequestError(
            f"{path}: heedful.format is {shown(version)}, and this version reads {FORMAT}; "
            "use the version of heedful that wrote it, or train the model again."
        )
    heads = notes.get("heads")
    if not isinstance(heads, dict):
        raise RequestError(f"{path}: heedful.heads is not an object of names and descriptions.")
    return {name: read_note(path, family, name, note) for name, note in heads.items()}


def read_note(path: Any, family: Family, name: str, note: Any) -> StoredHead:
    check_name(f"{path}: heedful.heads", name)
    place = f"{path}: heedful.heads.{name}"
    keys = {field.name for field in dataclasses.fields(Head)} | {"file"}
    if not isinstance(note, dict) or not {"kind", "reads", "file"} <= set(note) <= keys:
        raise RequestError(f"{place} is not an object with {listed(sorted(keys), '', most=len(keys))}.")
    note = {**dataclasses.asdict(Head(note["kind"], note["reads"])), "labels": [], **note}  # an older one says less
    allowed: dict[str, list[Any]] = {
        "kind": list(family.heads),
        "reads": list(get_args(Reads)),
        "activation": list(ACTIVATIONS),
        "bias": [True, False],
        "chunked": [True, False],
        "pairs": list(get_args(Pairs)),
        "input_dropout": [True, False],
        "recalls": [True, False],
        "file": [HEADS_FILE] if family.own else [SAFETENSORS, HEADS_FILE],
    }
    for key, values in allowed.items():
        if not isinstance(note[key], (str, bool)) or note[key] not in values:
            shown_values = ", ".join(str(v).lower() if isinstance(v, bool) else v for v in values)
            raise RequestError(
                f"{place}.{key} = {shown(note[key])} is not possible on {family.name}; {shown_values} are."
            )
    labels, classes, dropout, temperature = (note[key] for key in ("labels", "classes", "dropout", "temperature"))
    if not isinstance(labels, list) or not all(isinstance(n, str) for n in labels) or len(set(labels)) != len(labels):
        raise RequestError(f"{place}.labels is not a list of different names.")
    if type(classes) is not int or not 0 <= classes <= _MOST_CLASSES:
        raise RequestError(f"{place}.classes = {shown(classes)} is not a whole number from 0 to {_MOST_CLASSES}.")
    expected = len(labels) or classes if note["kind"] in _CLASSIFIERS else 2 if note["kind"] == "next-sentence" else 0
    if classes != expected or (labels and note["kind"] not in _CLASSIFIERS):
        raise RequestError(f"{place} has {len(labels)} labels for {classes} classes.")
    if dropout is not None and (type(dropout) not in (int, float) or not 0 <= dropout <= 1):
        raise RequestError(f"{place}.dropout = {shown(dropout)} is not between 0 and 1.")
    if type(temperature) not in (int, float) or not 0 < temperature < math.inf:
        raise RequestError(f"{place}.temperature = {shown(temperature)} is not a number above 0.")
    if note["pairs"] != "joint" and (note["kind"] not in _CLASSIFIERS or note["file"] == SAFETENSORS):
        raise RequestError(f"{place}.pairs: only a classifier in {HEADS_FILE} reads pairs in towers.")
    if not isinstance(note["of_pairs"], bool | None):
        raise RequestError(f"{place}.of_pairs = {shown(note['of_pairs'])} is neither true nor false.")
    if not isinstance(note["adapters"], str) or (note["adapters"] and note["file"] == SAFETENSORS):
        raise RequestError(
            f"{place}.adapters = {shown(note['adapters'])} does not say adapters of a head in {HEADS_FILE}."
        )
    if note["file"] == SAFETENSORS and name != SLOTS[note["kind"]]:
        raise RequestError(f"{place}: a head of that name and kind is not in {SAFETENSORS}.")
    _check_recurrent(place, note)
    content = {key: note[key] for key in keys - {"file", "labels"}}
    return StoredHead(Head(**content, labels=tuple(labels)), note["file"])


def _check_recurrent(place: str, note: Mapping[str, Any]) -> None:
    kind, width, kinds = note["recurrent"], note["recurrent_width"], get_args(RecurrentKind)
    if kind is not None and (not isinstance(kind, str) or kind not in kinds):
        raise RequestError(f"{place}.recurrent = {shown(kind)} is not possible; {', '.join(kinds)} are, or null.")
    if width is not None and (kind is None or type(width) is not int or not 1 <= width <= _WIDEST):
        raise RequestError(
            f"{place}.recurrent_width = {shown(width)} is not the width of a recurrent network, "
            f"a whole number from 1 to {_WIDEST}."
        )
    elsewhere = note["kind"] not in _CLASSIFIERS or note["reads"] != "every" or note["file"] == SAFETENSORS
    if kind is not None and elsewhere:
        raise RequestError(
            f"{place}.recurrent: only a classifier in {HEADS_FILE} that reads every state has a recurrent network."
        )
