"""config.json ↔ `Shape`, labels and heads. A value that we do not support is refused by name, never ignored."""

import dataclasses
import json
import re
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

from heedful.checkpoints.dialect import SLOTS, Family, Key
from heedful.checkpoints.families import FAMILIES
from heedful.errors import RequestError
from heedful.models.shape import Head, HeadKind, Shape
from heedful.nn.activations import ACTIVATIONS
from heedful.nn.heads import Reads

FORMAT = 1
"""Version of what heedful adds to a model directory."""

_FIELD_TYPES = typing.get_type_hints(Shape)
_LARGEST = {"layers": 1000, "heads": 4096}  # the tables of names are written out before any size is checked
_DEEPEST = 50  # levels of brackets; real files have three


def read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        _refuse_what_cannot_be_written(content)
    except (ValueError, RecursionError) as error:
        raise RequestError(
            f"{path}: not valid JSON ({_first_line(error)}); restore the file from its source."
        ) from None
    except OSError as error:
        raise RequestError(f"{path}: cannot be read ({error.strerror}).") from None
    if not isinstance(content, dict):
        raise RequestError(f"{path}: holds a JSON {type(content).__name__} where an object is expected.")
    return content


def read_family(path: Path, config: Mapping[str, Any], stored_names: list[str], asked: str | None) -> Family:
    """By `model_type`; old files without one are known by their class or by the prefix of their tensors."""
    name = config.get("model_type", asked)
    if asked is not None and name != asked:
        raise RequestError(f"{path}: model_type is {_shown(name)}, so family={asked!r} cannot be right; leave it out.")
    if name is None:
        architectures = config.get("architectures")
        classes = [str(a) for a in architectures] if isinstance(architectures, list) else []
        for family in FAMILIES.values():
            known = any(a in family.architectures for a in classes)
            if known or any(re.match(family.mark, n) for n in stored_names):
                return family
        raise RequestError(
            f"{path}: has no model_type, and nothing else in it tells the family; add one of {', '.join(FAMILIES)}."
        )
    if not isinstance(name, str) or name not in FAMILIES:
        raise RequestError(f"{path}: model_type {_shown(name)} is not supported; heedful reads {', '.join(FAMILIES)}.")
    return FAMILIES[name]


def read_shape(path: Path, config: Mapping[str, Any], family: Family, pooler: bool) -> Shape:
    known = {k.key for k in family.keys} | family.inert | set(family.only)
    unknown = sorted(set(config) - known)
    if unknown:
        raise RequestError(
            f"{path}: {_listed(unknown)} not supported for {family.name}, and heedful does not guess what it would "
            "change; remove it if it does not concern the architecture."
        )
    for name, supported in family.only.items():
        if config.get(name, supported) != supported and not (name == "pruned_heads" and config[name] is None):
            raise RequestError(
                f"{path}: {name} = {_shown(config[name])} is not supported; only {json.dumps(supported)} is."
            )
    values: dict[str, Any] = dict(family.fixed)
    for key in family.keys:
        value = _checked(path, key, config.get(key.key, key.default))
        for field in (key.field, *key.also):
            values[field] = value
    if values["inner"] is None:
        values["inner"] = 4 * values["width"]
    if values["width"] % values["heads"]:
        width, heads = (next(k.key for k in family.keys if k.field == f) for f in ("width", "heads"))
        raise RequestError(f"{path}: {width} = {values['width']} is not divisible by {heads} = {values['heads']}.")
    if values["pad_id"] is not None and not values["pad_id"] < values["vocabulary"]:
        raise RequestError(f"{path}: pad_token_id = {values['pad_id']} is outside the vocabulary.")
    if family.name == "roberta" and values["positions"] <= values["pad_id"] + 1:
        raise RequestError(f"{path}: max_position_embeddings leaves no position after pad_token_id.")
    return Shape(family=family.name, pooler=pooler, **values)


def _checked(path: Path, key: Key, value: Any) -> Any:
    if value is None and key.optional:
        return None
    wanted, place = _FIELD_TYPES[key.field], f"{path}: {key.key} = {_shown(value)}"
    if wanted is str:
        if not isinstance(value, str) or value not in ACTIVATIONS:
            raise RequestError(f"{place} is not supported; heedful knows {', '.join(ACTIVATIONS)}.")
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise RequestError(f"{place} is not a number.")
    if wanted in (int, int | None):
        low = 0 if key.field == "pad_id" else 1
        high = _LARGEST.get(key.field, 10**8)
        if not isinstance(value, int) or not low <= value <= high:
            raise RequestError(f"{place} is not a whole number from {low} to {high}.")
        return value
    most = 1.0 if "dropout" in key.field else 10.0
    if not 0.0 <= value <= most:
        raise RequestError(f"{place} is not between 0 and {most:g}.")
    return float(value)


def read_labels(path: Path, config: Mapping[str, Any], classes: int) -> tuple[str, ...]:
    """The names of the classes in order; where the file names none, LABEL_0, LABEL_1, … as Hugging Face calls them."""
    names = config.get("id2label")
    if names is None:
        return tuple(f"LABEL_{i}" for i in range(classes))
    if not isinstance(names, dict) or not all(isinstance(v, (str, int)) for v in names.values()):
        raise RequestError(f"{path}: id2label is not an object of class numbers and names.")
    by_id = {str(k): str(v) for k, v in names.items()}
    if sorted(by_id) != sorted(str(i) for i in range(classes)):
        raise RequestError(
            f"{path}: id2label names classes {_listed(sorted(by_id), '')} but the classification head has {classes}."
        )
    labels = tuple(by_id[str(i)] for i in range(classes))
    if len(set(labels)) != classes:
        raise RequestError(f"{path}: id2label gives two classes the same name.")
    reverse = config.get("label2id")
    if reverse is not None and (
        not isinstance(reverse, dict)
        or not all(isinstance(v, (str, int)) for v in reverse.values())
        or {str(k): str(v) for k, v in reverse.items()} != {name: str(i) for i, name in enumerate(labels)}
    ):
        raise RequestError(f"{path}: label2id and id2label contradict each other.")
    return labels


def read_heads(path: Path, config: Mapping[str, Any], family: Family, stored: set[str]) -> dict[str, HeadKind]:
    """The heads of the checkpoint: those heedful noted; else those its class has, and those whose tensors are there."""
    own = config.get("heedful")
    if own is not None:
        return _read_own(path, own, family)
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
    for kind, head in sorted(family.heads.items(), key=lambda item: -len(item[1].entries)):
        taken = {SLOTS[k] for k in kinds}
        if SLOTS[kind] not in taken and head.entries and all(set(e.theirs) <= stored for e in head.entries):
            kinds.append(kind)
    if "language-model" in family.heads and "lm_head.weight" in stored and "language-model" not in kinds:
        kinds.append("language-model")
    return {SLOTS[kind]: kind for kind in kinds}


def _read_own(path: Path, own: Any, family: Family) -> dict[str, HeadKind]:
    if not isinstance(own, dict) or type(own.get("format")) is not int or own["format"] != FORMAT:
        found = own.get("format") if isinstance(own, dict) else own
        raise RequestError(
            f"{path}: heedful.format is {_shown(found)}, and this version reads {FORMAT}; "
            "use the version of heedful that wrote it, or a newer one."
        )
    heads = own.get("heads")
    if not isinstance(heads, dict):
        raise RequestError(f"{path}: heedful.heads is not an object of names and kinds.")
    for name, kind in heads.items():
        if kind not in list(family.heads) or SLOTS[kind] != name:  # a list, since not every JSON value has a hash
            raise RequestError(f"{path}: heedful.heads has {name!r}: {_shown(kind)}, which {family.name} cannot have.")
    return heads


def read_reads(path: Path, config: Mapping[str, Any]) -> dict[str, Reads]:
    """Which state each head reads, where heedful noted that it is not the one that the family's own head reads."""
    own = config.get("heedful")
    reads = own.get("reads", {}) if isinstance(own, dict) else {}
    if not isinstance(reads, dict) or not all(r in list(get_args(Reads)) for r in reads.values()):
        raise RequestError(f"{path}: heedful.reads is not an object of heads and what they read.")
    return reads


def read_chunked(path: Path, config: Mapping[str, Any]) -> bool:
    """Whether heedful noted that the classifier reads long texts in chunks."""
    own = config.get("heedful")
    chunked = own.get("chunked", False) if isinstance(own, dict) else False
    if not isinstance(chunked, bool):
        raise RequestError(f"{path}: heedful.chunked = {_shown(chunked)} is neither true nor false.")
    return chunked


def make_head(family: Family, kind: HeadKind, shape: Shape, classes: int, reads: Reads | None = None) -> Head:
    dialect = family.heads[kind]
    outputs = classes if SLOTS[kind] == "classify" else 2 if kind == "next-sentence" else 0
    return Head(kind, reads or dialect.reads, outputs, dialect.activation(shape), dialect.bias)


def write_config(
    family: Family, shape: Shape, heads: Mapping[str, Head], labels: tuple[str, ...], extra: Mapping[str, Any]
) -> dict[str, Any]:
    """`extra` holds the inert keys that came with the checkpoint; labels and class are ours to say."""
    ours = {"architectures", "id2label", "label2id", "num_labels", "_num_labels", "torch_dtype", "dtype", "heedful"}
    whole = architectures(family, heads)
    config: dict[str, Any] = {
        "model_type": family.name,
        "architectures": [whole[0] if whole else next(iter(family.architectures))],
        **family.config_defaults,
        **{k: v for k, v in extra.items() if k in family.inert and k not in ours},
    }
    for key in family.keys:
        config[key.key] = getattr(shape, key.field)
    if labels:
        config["id2label"] = {str(i): name for i, name in enumerate(labels)}
        config["label2id"] = {name: i for i, name in enumerate(labels)}
    config["dtype"] = "float32"
    config["heedful"] = {"format": FORMAT, "heads": {name: head.kind for name, head in heads.items()}}
    reads = {name: head.reads for name, head in heads.items() if head.reads != family.heads[head.kind].reads}
    if reads:
        config["heedful"]["reads"] = reads
    return config


def architectures(family: Family, heads: Mapping[str, Head]) -> list[str]:
    """Hugging Face's classes with just these heads; where there is none, it opens the body alone."""
    if any(head.reads != family.heads[head.kind].reads for head in heads.values()):
        return []
    kinds = {head.kind for head in heads.values()}
    return [name for name, needed in family.architectures.items() if set(needed) == kinds]


def inert_keys(family: Family, config: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in config.items() if k in family.inert}


def with_pooler_for(shape: Shape, family: Family, head: Head) -> Shape:
    """A head that reads the pooled state needs a pooler, even on a body that came without."""
    if head.reads != "pooled":
        return shape
    if not family.pooler:
        raise RequestError(f"{family.name} has no pooler; choose another state for the head to read.")
    return dataclasses.replace(shape, pooler=True)


def _listed(names: list[str], verb: str = " is", most: int = 6) -> str:
    shown = ", ".join(repr(n) for n in names[:most])
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{shown}{rest}{verb}"


def _refuse_what_cannot_be_written(content: Any) -> None:
    """What Python reads as JSON but could not save again: half a surrogate pair, and endless nesting."""
    layer = [content]
    for _ in range(_DEEPEST):
        layer = [v for part in layer if isinstance(part, (dict, list)) for v in _values(part)]
    if layer:
        raise ValueError(f"nested more than {_DEEPEST} deep")
    json.dumps(content, ensure_ascii=False).encode("utf-8")


def _values(part: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return part.values() if isinstance(part, dict) else part


def _shown(value: Any, most: int = 60) -> str:
    """A value in a message: as JSON, but only the beginning of a long one."""
    if isinstance(value, (dict, list)) and value:
        return "{…}" if isinstance(value, dict) else "[…]"
    text = json.dumps(value)
    return text if len(text) <= most else f"{text[:most]}…"


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
