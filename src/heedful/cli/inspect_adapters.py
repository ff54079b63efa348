"""What `heedful inspect` prints about adapters: those of a model, and stored ones."""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heedful.cli.show import field, print_json, size

if TYPE_CHECKING:
    from heedful.checkpoints.adapter_facts import AdapterFacts
    from heedful.models.adapters import AdapterShape, FusionShape
    from heedful.models.transformer import Transformer

_PLACES = {"attention": "attention", "feed_forward": "the feed-forward network"}
_FORMS = {"adapterhub": "AdapterHub's form", "peft": "PEFT's form"}


def describe_adapters(transformer: "Transformer") -> dict[str, dict[str, Any]]:
    """Describe each adapter of a model by name, as plain data."""
    shapes = transformer.adapter_shapes
    return {name: {**_facts(shapes[name]), **_extent(module)} for name, module in transformer.adapters.items()}


def describe_fusions(transformer: "Transformer") -> dict[str, dict[str, Any]]:
    shapes = transformer.fusion_shapes
    return {name: {**_facts(shapes[name]), **_extent(module)} for name, module in transformer.fusions.items()}


def _extent(module: Any) -> dict[str, Any]:
    numbers = (re.search(r"(?:^|\.)(\d+)\.", name) for name, _ in module.named_parameters())
    layers = sorted({int(found[1]) for found in numbers if found})
    return {"layers": layers, "parameters": sum(p.numel() for p in module.parameters())}


def _facts(shape: "AdapterShape | FusionShape") -> dict[str, Any]:
    from heedful.models.adapters import PLACEMENTS, BottleneckShape, FusionShape

    own = dataclasses.asdict(shape)
    if isinstance(shape, FusionShape):
        return {"adapters": list(own.pop("names")), **own}
    if not isinstance(shape, BottleneckShape):
        return {"kind": "low-rank", **own}
    alike = ("attention", "feed_forward", "reads")
    named = [n for n, known in PLACEMENTS.items() if all(getattr(known, k) == getattr(shape, k) for k in alike)]
    return {"kind": "bottleneck", "placement": named[0] if named else None, **own}


def adapter_lines(facts: Mapping[str, Any], width: int) -> list[str]:
    """Return a line for each adapter and fusion of a model, and the adapters of each head."""
    both = [*facts["adapters"].items(), *facts["fusions"].items()]
    lines = [_line(name, one, width, one["parameters"]) for name, one in both]
    if facts["adapters"]:
        for name, head in facts["heads"].items():
            through = f"through {head['adapters']}" if head["adapters"] else "the body without adapters"
            lines.append(field("head", f"{name} reads {through}"))
    return lines


def _line(name: str, one: Mapping[str, Any], width: int | None, parameters: int) -> str:
    where = f"{_layers(one['layers'])}; {parameters:,} parameters"
    if "adapters" in one:
        matrices = [key for key in ("query", "key", "value") if one[key]]
        return field("fusion", f"fuse({', '.join(one['adapters'])}): {', '.join(matrices) or 'no matrices'}; {where}")
    return field("adapter", f"{name}: {_in_words(one, width)}; {where}")


def _in_words(one: Mapping[str, Any], width: int | None) -> str:
    if one["kind"] == "low-rank":
        scaled = ", rank-stabilised" if one["stabilised"] else ""
        others = " (some differ)" if one["exceptions"] else ""
        return f"low-rank, rank {one['rank']}, alpha {one['alpha']:g}{others}{scaled}, of {', '.join(one['maps'])}"
    places = " and ".join(words for key, words in _PLACES.items() if one[key])
    side = "parallel to" if one["reads"] == "stream" else "after"
    name = f" ({one['placement']})" if one["placement"] else ""
    inner = "" if width is None else f"{max(1, int(width // one['reduction']))} wide, "
    others = " (some differ)" if one["reductions"] else ""
    return f"bottleneck {side} {places}{name}, {inner}reduction {one['reduction']:g}{others}, {one['activation']}"


def _layers(layers: Sequence[int]) -> str:
    return f"layer {layers[0]}" if len(layers) == 1 else f"layers {span(layers)}"


def span(numbers: Sequence[int]) -> str:
    """Format numbers: 0 … 5 if they are consecutive, else each."""
    if len(numbers) > 1 and list(numbers) == list(range(numbers[0], numbers[-1] + 1)):
        return f"{numbers[0]} … {numbers[-1]}"
    return ", ".join(map(str, numbers))


def inspect_adapter(directory: Path, source: str, as_json: bool) -> None:
    """Print a stored adapter or fusion without the model that it was made for."""
    from heedful.checkpoints.adapter_facts import read_facts

    found = read_facts(directory)
    facts = describe_stored(found, source)
    if as_json:
        print_json(facts)
        return
    kind = "a fusion" if found.fusion else "an adapter"
    whose = f"for a {facts['family']}" if facts["family"] else "for a model of an unknown family"
    wide = f" of width {facts['width']}" if facts["width"] else ""
    print(f"{source}: {kind} in {_FORMS[facts['form']]}, {whose}{wide}, without the model")
    if found.shape is None:
        where = f", {_layers(facts['layers'])}" if facts["layers"] else ""
        print(field("adapter", f"{facts['name']}{where}; {facts['parameters']['total']:,} parameters"))
    else:
        print(_line(facts["name"], facts, facts["width"], facts["parameters"]["total"]))
    print(field("made for", facts["model"] or "a model that is not named"))
    head = facts["head"]
    if head is not None or not facts["refused"]:
        print(field("head", "none" if head is None else f"{head['kind']}, reads {head['reads']}"))
    if head is not None and head["labels"]:
        print(field("labels", ", ".join(head["labels"])))
    files = sorted({t["source"].split(": ")[0] for t in facts["tensors"]})
    print(field("tensors", f"{len(facts['tensors'])}, from {', '.join(files)}; {size(facts['bytes'])} on disk"))
    if facts["refused"]:
        print(field("refused", f"heedful cannot load it: {facts['refused']}"))


def describe_stored(found: "AdapterFacts", source: str) -> dict[str, Any]:
    """Return everything that `inspect` knows about a stored adapter, as plain data."""
    head = None if found.head is None else dataclasses.asdict(found.head)
    total = found.parameters
    return {
        "source": source,
        "name": found.name,
        "form": found.form,
        "family": found.family,
        "width": found.width,
        "model": found.model,
        **({} if found.shape is None else _facts(found.shape)),
        "layers": list(found.layers),
        "parameters": {"total": total, "trainable": total},
        "head": head,
        "bytes": found.bytes,
        "tensors": [
            {"name": name, "shape": list(t.shape), "source": f"{t.file}: {t.name}"} for name, t in found.tensors.items()
        ],
        "refused": found.refused or None,
    }
