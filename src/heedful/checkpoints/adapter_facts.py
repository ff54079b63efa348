"""What an adapter's directory says of itself, without the model that it was made for."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from heedful.checkpoints import adapterhub, peft
from heedful.checkpoints.adapter_heads import find_head
from heedful.checkpoints.adapters import FOLDER, NOTE, StoredAdapter, open_adapter, stored_name
from heedful.checkpoints.config import read_json
from heedful.checkpoints.dialect import Family
from heedful.checkpoints.families import FAMILIES
from heedful.checkpoints.tensors import Stored, existing, open_either
from heedful.errors import RequestError
from heedful.models.adapters import AdapterShape, FusionShape
from heedful.models.shape import Head, Shape

_LAYER = re.compile(r"\.(\d{1,4})\.")


@dataclass(frozen=True)
class AdapterFacts:
    directory: Path
    name: str
    form: Literal["adapterhub", "peft"]
    family: str | None
    """For which it was made: as it says, or as its tensors are called; None if neither is known here."""
    width: int | None
    model: str
    """The name of the model that it was made for; "" if it does not say."""
    shape: AdapterShape | FusionShape | None
    head: Head | None
    refused: str
    """Why heedful would not load it; "" if there is no reason in the directory itself."""
    tensors: Mapping[str, Stored]
    """Of the adapter alone, without copies."""

    @property
    def fusion(self) -> bool:
        return existing(self.directory, adapterhub.CONFIG) is None

    @property
    def bytes(self) -> int:
        """Of its files, the head's included."""
        return sum(path.stat().st_size for path in self.directory.iterdir() if path.is_file())

    @property
    def parameters(self) -> int:
        return sum(math.prod(t.shape) for t in self.tensors.values())

    @property
    def layers(self) -> tuple[int, ...]:
        """In which it stands: the first number in the names of its tensors."""
        return tuple(sorted({int(match[1]) for name in self.tensors if (match := _LAYER.search(f".{name}"))}))


def is_adapter(directory: Path) -> bool:
    """Whether it is the directory of an adapter or a fusion, and not of a model."""
    if existing(directory, "config.json") is not None:
        return False
    return any(existing(directory, name) is not None for name in (adapterhub.CONFIG, adapterhub.FUSION_CONFIG))


def why_no_model(directory: Path) -> str:
    """In a sentence, with the remedy, of a directory that `is_adapter`."""
    kind = "an adapter" if existing(directory, adapterhub.CONFIG) is not None else "a fusion"
    around = directory.resolve().parent
    if around.name == FOLDER and (around.parent / "config.json").is_file():
        return f"{directory}: is {kind} without its model, which is in {directory.parent.parent}; name that."
    what = "the model that it was made for" if kind == "an adapter" else "a model with the adapters that it fuses"
    return (
        f"{directory}: is {kind} without a model; load {what}, add this with load_adapter({str(directory)!r}), "
        "save it, and name the directory where it is saved."
    )


def read_facts(directory: Path) -> AdapterFacts:
    """Of a directory that `is_adapter`."""
    if existing(directory, adapterhub.CONFIG) is None:
        return _fusion_facts(directory)
    stored = open_adapter(directory)
    family = _family(stored)
    tensors = stored.tensors(FAMILIES["bert"] if family is None else family)
    shape: AdapterShape | None = None
    head, refused = None, ""
    own = {n: t for n, t in tensors.items() if stored.form == "adapterhub" or ".lora_" in n}
    width = _width(stored, own)
    if family is None or width is None:
        says = stored.content.get("model_type")
        if says is not None or stored.form == "peft":
            what = f"a {says}" if says is not None else "none of its families"
            refused = f"it was made for {what}; heedful has {', '.join(FAMILIES)}."
    else:
        body = _body(family, width, own)
        try:
            if stored.form == "peft":
                shape = peft.read_shape(stored.path, stored.content, tensors, family, body)
            else:
                shape = adapterhub.read_shape(stored.path, stored.content, family, body)
                names = adapterhub.adapter_tensors(stored_name(stored, tensors), shape, family, body)
                own = {n: tensors[n] for n, *_ in names.values() if n in tensors}
            found = find_head(stored, family, body)
            head = None if found is None else found.head
        except RequestError as error:
            refused = str(error)
    model = stored.note.get("model") or stored.content.get("model_name") or ""
    model = model or stored.content.get("base_model_name_or_path") or ""
    name = None if family is None else family.name
    return AdapterFacts(directory, stored.name, stored.form, name, width, str(model), shape, head, refused, own)


def _fusion_facts(directory: Path) -> AdapterFacts:
    path = directory / adapterhub.FUSION_CONFIG
    content = read_json(path)
    tensors = open_either(directory, adapterhub.FUSION_WEIGHTS, adapterhub.OLD_FUSION_WEIGHTS)
    said, width = content.get("model_type"), content.get("hidden_size")
    family = FAMILIES.get(said) if isinstance(said, str) else None
    note = existing(directory, NOTE)
    stored = StoredAdapter(directory, "", "adapterhub", {}, {} if note is None else read_json(note))
    shape, head, refused = None, None, ""
    if family is None or type(width) is not int or not tensors:
        refused = f"it was made for a {said}; heedful has {', '.join(FAMILIES)}." if tensors else "it has no weights."
    else:
        body = _body(family, width, tensors)
        try:
            shape = adapterhub.read_fusion(path, content, family, body)
            found = find_head(stored, family, body)
            head = None if found is None else found.head
        except RequestError as error:
            refused = str(error)
    name, width = str(content.get("name") or directory.resolve().name), width if type(width) is int else None
    model = str(content.get("model_name") or "")
    own = None if family is None else family.name
    return AdapterFacts(directory, name, "adapterhub", own, width, model, shape, head, refused, tensors)


def _family(stored: StoredAdapter) -> Family | None:
    """As it says; PEFT does not, but the names of its tensors begin with the model's."""
    said = stored.content.get("model_type")
    if isinstance(said, str):
        return FAMILIES.get(said)
    if stored.form == "adapterhub":
        return None
    names = open_either(stored.directory, peft.WEIGHTS, peft.OLD_WEIGHTS)
    fitting = [f for f in FAMILIES.values() if any(n.startswith(f"{peft.PREFIX}{f.prefix}") for n in names)]
    return fitting[0] if len(fitting) == 1 else None


def _width(stored: StoredAdapter, tensors: Mapping[str, Stored]) -> int | None:
    said = stored.content.get("hidden_size")
    if type(said) is int and said > 0:
        return said
    # A low-rank change leads from the states or to them: the other end of its two matrices is as wide or wider.
    ends = [t.shape[1 if ".lora_A" in n else 0] for n, t in tensors.items() if len(t.shape) == 2]
    return min(ends, default=None)


def _body(family: Family, width: int, tensors: Mapping[str, Stored]) -> Shape:
    """As much of the model's shape as names and sizes of adapters depend on."""
    layers = [int(match[1]) for name in tensors if (match := _LAYER.search(f".{name}"))]
    sizes = {"vocabulary": 1, "width": width, "layers": 1 + max(layers, default=0), "heads": 1, "inner": width}
    return Shape(**{**sizes, "positions": 1, **family.fixed})
