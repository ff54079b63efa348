"""PEFT's words for low-rank adapters: adapter_config.json and what the tensors are called. Which maps are changed, and
by which rank, the tensors say; an option that we do not have is refused by name."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from heedful.checkpoints.adapterhub import map_modules
from heedful.checkpoints.config import shown
from heedful.checkpoints.dialect import Family
from heedful.checkpoints.tensors import Stored
from heedful.errors import RequestError
from heedful.models.adapters import LowRankShape, MapName
from heedful.models.shape import Shape

CONFIG, WEIGHTS, OLD_WEIGHTS = "adapter_config.json", "adapter_model.safetensors", "adapter_model.bin"
PREFIX = "base_model.model."
_ONLY: dict[str, tuple[Any, ...]] = {
    "peft_type": ("LORA",), "bias": ("none",), "use_dora": (False,), "lora_bias": (False,),
    "init_lora_weights": (True, False, "gaussian", "orthogonal", "eva"), "layer_replication": (None,),
    "loftq_config": (None, {}), "trainable_token_indices": (None,), "target_parameters": (None, []),
    "use_qalora": (False,), "megatron_config": (None,), "alora_invocation_tokens": (None,), "arrow_config": (None,),
    "corda_config": (None,), "eva_config": (None,), "use_bdlora": (None, False), "lora_ga_config": (None,),
}  # fmt: skip
"""Keys that may change the computation, each with the values that do not, or that are supported."""
_READ = {
    "r", "lora_alpha", "lora_dropout", "use_rslora", "rank_pattern", "alpha_pattern", "target_modules", "task_type",
    "modules_to_save",
}  # fmt: skip
_INERT = {
    "auto_mapping", "base_model_name_or_path", "fan_in_fan_out", "inference_mode", "layers_pattern",
    "layers_to_transform", "exclude_modules", "revision", "peft_version", "megatron_core", "qalora_group_size",
    "runtime_config", "ensure_weight_tying",
}  # fmt: skip
_MOST_RANK = 10**6
_MODULE = re.compile(r"(.+)\.lora_(A|B)\.weight")


def read_shape(
    path: Path, config: Mapping[str, Any], tensors: Mapping[str, Stored], family: Family, body: Shape
) -> LowRankShape:
    """`tensors`: as `plain_names` gives them."""
    for key, supported in _ONLY.items():
        if key in config and config[key] not in supported:
            raise RequestError(
                f"{path}: {key} = {shown(config[key])} is not supported; merge the adapter into its model with PEFT, "
                "and load that."
            )
    unknown = sorted(set(config) - set(_ONLY) - _READ - _INERT)
    harmful = [key for key in unknown if config[key] not in (None, False, {}, [])]
    if harmful:
        raise RequestError(f"{path}: {harmful[0]} is not known, and heedful does not guess what it would change.")
    places = {module: place for place, module in map_modules(family, body).items()}
    found: dict[tuple[int, MapName], int] = {}
    for name, stored in tensors.items():
        match = _MODULE.fullmatch(name)
        if match is None:
            continue
        if match[1] not in places:
            raise RequestError(
                f"{path}: changes {match[1]!r}, which is no map of the layers of this {family.name} with {body.layers} "
                f"layers; {', '.join(sorted({m.rpartition('.')[2] for m in places}))} of each layer are."
            )
        if match[2] == "A":
            if len(stored.shape) != 2 or not 1 <= stored.shape[0] <= _MOST_RANK:
                raise RequestError(
                    f"{path}: {stored.name} is {list(stored.shape)}, which is no change of a rank from 1."
                )
            found[places[match[1]]] = stored.shape[0]
    if not found:
        raise RequestError(f"{path}: no low-rank change of any layer is stored beside it.")
    rank, alpha = _number(path, config, "r", 8), _number(path, config, "lora_alpha", 8)
    modules = map_modules(family, body)
    exceptions = []
    for place, stored_rank in found.items():
        _refuse_contradiction(path, config, place[0], modules[place], stored_rank)
        of_place = _of_module(path, config, "alpha_pattern", modules[place], alpha)
        if (stored_rank, of_place) != (rank, alpha):
            exceptions.append((*place, stored_rank, of_place))
    maps = tuple(dict.fromkeys(name for _, name in sorted(found)))
    layers = {layer for layer, _ in found}
    left_out = tuple(layer for layer in range(body.layers) if layer not in layers)
    absent = tuple((layer, name) for layer in sorted(layers) for name in maps if (layer, name) not in found)
    dropout = _number(path, config, "lora_dropout", 0.0)
    if dropout > 1 or not isinstance(config.get("use_rslora", False), bool):
        wrong = "lora_dropout" if dropout > 1 else "use_rslora"
        raise RequestError(f"{path}: {wrong} = {shown(config[wrong])} is not possible.")
    return LowRankShape(
        maps, int(rank), alpha, dropout, bool(config.get("use_rslora", False)), left_out, absent, tuple(exceptions)
    )


def _number(path: Path, config: Mapping[str, Any], key: str, default: float) -> float:
    value = config.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
        raise RequestError(f"{path}: {key} = {shown(value)} is not a number from 0.")
    return float(value)


def _refuse_contradiction(path: Path, config: Mapping[str, Any], layer: int, module: str, stored_rank: int) -> None:
    """What the file says of a map, and what is stored of it."""
    rank = _of_module(path, config, "rank_pattern", module, _number(path, config, "r", 8))
    if rank != stored_rank:
        raise RequestError(f"{path}: says rank {rank:g} of {module!r}, and the stored tensors have {stored_rank}.")
    targets, layers = config.get("target_modules"), config.get("layers_to_transform")
    ends = [str(t) for t in targets] if isinstance(targets, list) else []
    if ends and not any(f".{PREFIX}{module}".endswith(f".{t}") or t.endswith(module) for t in ends):
        raise RequestError(f"{path}: target_modules do not name {module!r}, of which a change is stored.")
    chosen = [layers] if type(layers) is int else layers
    if isinstance(chosen, list) and chosen and layer not in chosen:
        raise RequestError(f"{path}: layers_to_transform leaves out layer {layer}, of which a change is stored.")


def _of_module(path: Path, config: Mapping[str, Any], key: str, module: str, usual: float) -> float:
    """Of one map: rank_pattern and alpha_pattern name it by the end of its name."""
    patterns = config.get(key) or {}
    if not isinstance(patterns, dict):
        raise RequestError(f"{path}: {key} is not an object of names and numbers.")
    for pattern in patterns:
        if not re.fullmatch(r"\^?[\w.]+", pattern):
            raise RequestError(f"{path}: {key} {shown(pattern)} is not the plain end of a module's name.")
        if f".{PREFIX}{module}".endswith(f".{pattern.lstrip('^')}"):
            return _number(path, patterns, pattern, usual)
    return usual


def plain_names(tensors: Mapping[str, Stored], family: Family) -> dict[str, Stored]:
    """Without PEFT's prefix and the model's."""
    return {family.plain(name.removeprefix(PREFIX)): stored for name, stored in tensors.items()}


def adapter_tensors(shape: LowRankShape, family: Family, body: Shape) -> dict[str, tuple[str, ...]]:
    """What each parameter of an adapter, by its name within it, is called without prefixes."""
    modules = map_modules(family, body)
    names: dict[str, tuple[str, ...]] = {}
    for layer, map_name, _, _ in shape.parts(body.layers):
        for ours, theirs in (("a", "lora_A"), ("b", "lora_B")):
            names[f"{layer}.{map_name}.{ours}"] = (f"{modules[layer, map_name]}.{theirs}.weight",)
    return names


def write_config(
    shape: LowRankShape, family: Family, body: Shape, model_name: str, head_modules: tuple[str, ...]
) -> dict[str, Any]:
    """`head_modules`: what of a head is stored beside it, by the names of its modules."""
    modules = map_modules(family, body)
    whole = {f"{family.prefix}{module}" for module in modules.values()}
    changed = [f"{family.prefix}{modules[layer, name]}" for layer, name, _, _ in shape.parts(body.layers)]
    ends = sorted({module.rpartition(".")[2] for module in changed})
    # The ends of names suffice if they mean these modules and no others; else each is named whole.
    meant = {module for module in whole if module.rpartition(".")[2] in ends}
    others = {"dense", "output"} & set(ends)  # there are further modules of these names, such as the pooler's
    targets = ends if meant == set(changed) and not others else changed
    exceptions = {f"{family.prefix}{modules[layer, name]}": (r, a) for layer, name, r, a in shape.exceptions}
    return {
        "peft_type": "LORA",
        "task_type": "SEQ_CLS" if head_modules else None,
        "base_model_name_or_path": model_name,
        "r": shape.rank,
        "lora_alpha": shape.alpha,
        "lora_dropout": shape.dropout,
        "use_rslora": shape.stabilised,
        "target_modules": targets,
        "rank_pattern": {name: r for name, (r, _) in exceptions.items()},
        "alpha_pattern": {name: a for name, (_, a) in exceptions.items()},
        "modules_to_save": list(head_modules) or None,
        "bias": "none",
        "fan_in_fan_out": any(entry.transposed for entry in family.body(body)),
        "inference_mode": True,
        "init_lora_weights": True,
    }
