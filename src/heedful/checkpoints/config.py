"""config.json ↔ `Shape` and labels. A value that we do not support is refused by name, never ignored."""

import json
import re
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from heedful.checkpoints.dialect import REQUIRED, Family, Key
from heedful.checkpoints.families import FAMILIES
from heedful.errors import RequestError
from heedful.models.kinds import ATTENTION_KINDS
from heedful.models.shape import Shape, contradiction
from heedful.nn.activations import ACTIVATIONS

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
    if is_translator(config):
        raise RequestError(
            f"{path}: describes a translator, and another kind of model is wanted here; use it with heedful translate."
        )
    name = config.get("model_type", asked)
    if asked is not None and name != asked:
        raise RequestError(f"{path}: model_type is {shown(name)}, so family={asked!r} cannot be right; leave it out.")
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
        raise RequestError(f"{path}: model_type {shown(name)} is not supported; heedful reads {', '.join(FAMILIES)}.")
    return FAMILIES[name]


def is_translator(config: Mapping[str, Any]) -> bool:
    """Whether it describes a model that goes from a source to a target, in Marian's words or in our own."""
    classes = config.get("architectures")
    return config.get("model_type") == "marian" or (isinstance(classes, list) and "HeedfulTranslator" in classes)


def read_shape(path: Path, config: Mapping[str, Any], family: Family, pooler: bool) -> Shape:
    known = {k.key for k in family.keys} | family.inert | set(family.only) | set(family.same)
    unknown = sorted(set(config) - known)
    if unknown:
        raise RequestError(f"{path}: {not_supported(unknown, family.name)}")
    for name, supported in family.only.items():
        if config.get(name, supported) != supported and not (name == "pruned_heads" and config[name] is None):
            raise RequestError(
                f"{path}: {name} = {shown(config[name])} is not supported; only {json.dumps(supported)} is."
            )
    values: dict[str, Any] = dict(family.fixed)
    for key in family.keys:
        value = config.get(key.key, key.default)
        if value is REQUIRED:
            raise RequestError(f"{path}: {key.key} is missing; restore the file from its source.")
        value = _checked(path, key, value)
        for field in (key.field, *key.also):
            values[field] = value
    for name, other in family.same.items():
        value = config.get(name)
        expected = next(values[key.field] for key in family.keys if key.key == other)
        if value is not None and (type(value) is not int or value != expected):
            raise RequestError(
                f"{path}: {name} = {shown(value)} is not supported; only {expected}, as {other} is, or null."
            )
    if values["inner"] is None:
        values["inner"] = 4 * values["width"]
    shape = Shape(pooler=pooler, **values)
    keys = {key.field: key.key for key in family.keys}
    if wrong := contradiction(shape, lambda field: keys.get(field, field)):
        raise RequestError(f"{path}: {wrong}.")
    return shape


def _checked(path: Path, key: Key, value: Any) -> Any:
    if value is None and key.optional:
        return None
    wanted, place = _FIELD_TYPES[key.field], f"{path}: {key.key} = {shown(value)}"
    choices = _choices(key.field)
    if choices:
        if not isinstance(value, str) or value not in choices:
            raise RequestError(f"{place} is not supported; heedful knows {', '.join(choices)}.")
        return value
    if wanted is bool:
        if not isinstance(value, bool):
            raise RequestError(f"{place} is neither true nor false.")
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise RequestError(f"{place} is not a number.")
    if wanted in (int, int | None):
        high = _LARGEST.get(key.field, 10**8)
        if not isinstance(value, int) or not key.least <= value <= high:
            raise RequestError(f"{place} is not a whole number from {key.least} to {high}.")
        return value
    most = 1.0 if "dropout" in key.field else 10.0
    if not 0.0 <= value <= most:
        raise RequestError(f"{place} is not between 0 and {most:g}.")
    return float(value)


def _choices(field: str) -> tuple[str, ...]:
    """The words that a field of `Shape` may be; none if it is not a word."""
    if field in ("activation", "attention"):
        return tuple(ACTIVATIONS if field == "activation" else ATTENTION_KINDS)
    is_word = typing.get_origin(_FIELD_TYPES[field]) is typing.Literal
    return typing.get_args(_FIELD_TYPES[field]) if is_word else ()


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
            f"{path}: id2label names classes {listed(sorted(by_id), '')} but the classification head has {classes}."
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


def write_config(
    family: Family, shape: Shape, architecture: str, labels: tuple[str, ...], extra: Mapping[str, Any]
) -> dict[str, Any]:
    """`extra` holds the inert keys that came with the checkpoint; labels and class are ours to say."""
    ours = {"architectures", "id2label", "label2id", "num_labels", "_num_labels", "torch_dtype", "dtype", "heedful"}
    config: dict[str, Any] = {
        "model_type": family.name,
        "architectures": [architecture],
        **family.config_defaults,
        **{k: v for k, v in extra.items() if k in family.inert and k not in ours},
    }
    for key in family.keys:
        config[key.key] = getattr(shape, key.field)
    if labels:
        config["id2label"] = {str(i): name for i, name in enumerate(labels)}
        config["label2id"] = {name: i for i, name in enumerate(labels)}
    config["dtype"] = "float32"
    return config


def inert_keys(family: Family, config: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in config.items() if k in family.inert}


def listed(names: list[str], verb: str = " is", most: int = 6) -> str:
    shown = ", ".join(repr(n) for n in names[:most])
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{shown}{rest}{verb}"


def not_supported(names: list[str], family: str) -> str:
    """A refusal of keys that a family of Hugging Face's may have, and that we do not know."""
    if len(names) == 1:
        what, remedy = "what it would change", "remove it if it does not concern the architecture"
    else:
        what, remedy = "what they would change", "remove those that do not concern the architecture"
    are = " is" if len(names) == 1 else " are"
    return f"{listed(names, are)} not supported for {family}, and heedful does not guess {what}; {remedy}."


def unknown_keys(names: list[str], where: str) -> str:
    """The beginning of a refusal: which they are, and to remove them."""
    if len(names) == 1:
        return f"{listed(names)} no key {where}; remove it"
    return f"{listed(names, ' are')} no keys {where}; remove them"


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


def shown(value: Any, most: int = 60) -> str:
    """A value in a message: as JSON, but only the beginning of a long one."""
    if isinstance(value, (dict, list)) and value:
        return "{…}" if isinstance(value, dict) else "[…]"
    text = json.dumps(value)
    return text if len(text) <= most else f"{text[:most]}…"


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
