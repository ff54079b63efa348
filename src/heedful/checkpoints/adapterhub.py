"""AdapterHub's words for adapters and fusions: adapter_config.json and adapter_fusion_config.json, and what their
tensors are called. One table for both directions; an option that we do not have is refused by name."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from heedful.checkpoints.config import shown
from heedful.checkpoints.dialect import Family
from heedful.checkpoints.tensors import Stored
from heedful.errors import RequestError
from heedful.models.adapters import PLACES, AdapterShape, BottleneckShape, FusionShape, LowRankShape, MapName
from heedful.models.shape import Shape
from heedful.nn.activations import ACTIVATIONS

CONFIG, WEIGHTS, OLD_WEIGHTS = "adapter_config.json", "adapter.safetensors", "pytorch_adapter.bin"
FUSION_CONFIG = "adapter_fusion_config.json"
FUSION_WEIGHTS, OLD_FUSION_WEIGHTS = "model_adapter_fusion.safetensors", "pytorch_model_adapter_fusion.bin"
VERSION = "adapters.1.3.0"
"""Of the format that is written."""

_PRESETS: dict[str, dict[str, Any]] = {
    "pfeiffer": {"mh_adapter": False, "original_ln_before": True, "non_linearity": "relu", "reduction_factor": 16},
    "houlsby": {"mh_adapter": True, "non_linearity": "swish", "reduction_factor": 16},
    "parallel": {
        "mh_adapter": False, "non_linearity": "relu", "reduction_factor": 2, "is_parallel": True, "scaling": 4.0,
        "init_weights": "mam_adapter",
    },
}  # fmt: skip
_PRESETS |= {
    "seq_bn": _PRESETS["pfeiffer"],
    "double_seq_bn": _PRESETS["houlsby"],
    "par_bn": _PRESETS["parallel"],
    "scaled_parallel": {**_PRESETS["parallel"], "scaling": "learned"},
    "scaled_par_bn": {**_PRESETS["parallel"], "scaling": "learned"},
}
_DEFAULTS: dict[str, Any] = {
    "original_ln_before": False, "original_ln_after": True, "ln_before": False, "ln_after": False,
    "init_weights": "bert", "is_parallel": False, "scaling": 1.0, "residual_before_ln": True,
    "adapter_residual_before_ln": False, "leave_out": [], "dropout": 0.0,
}  # fmt: skip
_ONLY: dict[str, Any] = {
    "use_gating": False, "inv_adapter": None, "cross_adapter": False, "phm_layer": False, "stochastic_depth": 0.0,
    "invertible_adapter": None,
}  # fmt: skip
"""Options that would change the computation, each with the one value that is supported."""
_WHY = {"use_gating": ": its gate is a mean over padding, so that answers would depend on the batch"}
_INERT = {
    "init_weights_seed", "inv_adapter_reduction_factor", "phm_dim", "factorized_phm_W", "shared_W_phm",
    "shared_phm_rule", "factorized_phm_rule", "phm_c_init", "phm_init_range", "learn_phm", "hypercomplex_nonlinearity",
    "phm_rank", "phm_bias", "architecture",
}  # fmt: skip
_REQUIRED = ("mh_adapter", "output_adapter", "reduction_factor", "non_linearity")
_ACTIVATIONS = {"swish": "silu", "leakyrelu": "leaky_relu"}
_INITIAL = {"mam_adapter": "zero", "bert": "normal", "houlsby": "truncated"}
_RESIDUAL: list[tuple[Any, str]] = [(True, "output"), ("post_add", "sum"), (False, "input")]
_LORA_DEFAULTS: dict[str, Any] = {
    "selfattn_lora": True, "intermediate_lora": False, "output_lora": False, "leave_out": [], "r": 8, "alpha": 8,
    "dropout": 0.0, "attn_matrices": ["q", "v"],
}  # fmt: skip
_LORA_ONLY: dict[str, Any] = {
    "composition_mode": "add", "use_gating": False, "use_dora": False, "vera_d": None, "vera_b": None,
}  # fmt: skip
_LORA_INERT = {"architecture", "init_weights", "init_weights_seed", "dtype"}
_MATRICES: dict[str, MapName] = {"q": "query", "k": "key", "v": "value"}


@dataclass(frozen=True)
class Reading:
    """Where a config stands, for messages."""

    path: Path
    config: Mapping[str, Any]

    def refuse(self, key: str, why: str) -> RequestError:
        return RequestError(f"{self.path}: config.{key} = {shown(self.config.get(key))} {why}.")

    def checked(self, defaults: Mapping[str, Any], only: Mapping[str, Any], inert: Iterable[str]) -> dict[str, Any]:
        unknown = sorted(set(self.config) - set(defaults) - set(only) - set(inert) - set(_REQUIRED))
        if unknown:
            raise RequestError(
                f"{self.path}: config.{unknown[0]} is not known, and heedful does not guess what it would change; "
                "remove it if it changes nothing."
            )
        for key, value in only.items():
            if self.config.get(key, value) != value:
                raise self.refuse(key, f"is not supported{_WHY.get(key, '')}; only {shown(value)} is")
        return {**defaults, **{k: v for k, v in self.config.items() if k in defaults or k in _REQUIRED}}

    def number(self, key: str, value: Any, least: float = 0.0, most: float = float("inf")) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise self.refuse(
                key, f"is not a number from {least:g}" + ("" if most == float("inf") else f" to {most:g}")
            )
        return float(value)


def read_shape(path: Path, content: Mapping[str, Any], family: Family, body: Shape) -> AdapterShape:
    """`content` is the whole file."""
    _refuse_another_model(path, content, family, body)
    if "config" not in content:
        raise RequestError(f"{path}: has no config, so it does not say what adapter it is.")
    config = content["config"] if content["config"] is not None else "pfeiffer"
    if isinstance(config, str):
        if config not in _PRESETS:
            raise RequestError(f"{path}: config = {shown(config)} is not known; {', '.join(_PRESETS)} are.")
        config = {"output_adapter": True, **_PRESETS[config]}
    if not isinstance(config, dict):
        raise RequestError(f"{path}: config is neither an object nor the name of one.")
    kind = config.get("architecture")
    at = Reading(path, config)
    if kind == "lora":
        return _read_lora(at, str(content.get("version", "")), family, body)
    if kind is not None:
        raise at.refuse("architecture", "is not supported; bottleneck adapters and lora are")
    return _read_bottleneck(at, "version" in content, body)


def _refuse_another_model(path: Path, content: Mapping[str, Any], family: Family, body: Shape) -> None:
    theirs, width = content.get("model_type"), content.get("hidden_size")
    if theirs is not None and theirs != family.name:
        raise RequestError(f"{path}: was made for model_type {shown(theirs)}, and this model is a {family.name}.")
    if width is not None and width != body.width:
        raise RequestError(f"{path}: was made for a model of width {shown(width)}, and this one has {body.width}.")


def _read_bottleneck(at: Reading, dated: bool, body: Shape) -> BottleneckShape:
    missing = next((key for key in _REQUIRED if key not in at.config), None)
    if missing is not None:
        raise RequestError(f"{at.path}: config.{missing} is missing.")
    c = at.checked(_DEFAULTS, _ONLY, _INERT)
    for key in ("mh_adapter", "output_adapter", "original_ln_before", "original_ln_after", "ln_before", "ln_after"):
        if not isinstance(c[key], bool):
            raise at.refuse(key, "is neither true nor false")
    activation = str(c["non_linearity"]).lower()
    if not dated:  # before there were versions, "gelu" was the approximation
        activation = {"gelu": "gelu_new", "gelu_orig": "gelu"}.get(activation, activation)
    activation = _ACTIVATIONS.get(activation, activation)
    if activation not in ACTIVATIONS:
        raise at.refuse("non_linearity", f"is not supported; {', '.join(ACTIVATIONS)} are")
    residual = next((ours for theirs, ours in _RESIDUAL if theirs == c["residual_before_ln"]), None)
    if residual is None or (residual == "sum" and not (c["original_ln_before"] and body.norm == "post")):
        raise at.refuse("residual_before_ln", "does not go with this placement and model")
    if not isinstance(c["init_weights"], str) or c["init_weights"] not in _INITIAL:
        raise at.refuse("init_weights", f"is not known; {', '.join(_INITIAL)} are")
    scaling = c["scaling"]
    if not isinstance(scaling, str) or scaling not in ("learned", "channel"):
        scaling = at.number("scaling", scaling, float("-inf"))
    left_out = _layers(at, c["leave_out"], body)
    reduction, reductions = _read_reduction(at, body, left_out)
    parallel = bool(c["is_parallel"])
    return BottleneckShape(
        attention=c["mh_adapter"],
        feed_forward=c["output_adapter"],
        reduction=reduction,
        reductions=reductions,
        left_out=left_out,
        activation=activation,
        reads="stream" if parallel else "normed-sum" if c["original_ln_before"] else "output",
        residual="output" if parallel else residual,  # type: ignore[arg-type]
        norm_before=c["ln_before"],
        norm_after=c["ln_after"],
        residual_before_norm=bool(c["adapter_residual_before_ln"]) and not parallel,
        joined=c["original_ln_after"],
        scaling=scaling,
        dropout=at.number("dropout", c["dropout"], 0, 1),
        initial=_INITIAL[c["init_weights"]],  # type: ignore[arg-type]
    )


def _read_reduction(at: Reading, body: Shape, left_out: tuple[int, ...]) -> tuple[float, tuple[tuple[int, float], ...]]:
    factor = at.config["reduction_factor"]
    if not isinstance(factor, dict):
        return at.number("reduction_factor", factor, 1e-6), ()
    by_layer = {key: at.number("reduction_factor", value, 1e-6) for key, value in factor.items()}
    default = by_layer.pop("default", None)
    if not all(re.fullmatch(r"\d{1,4}", key) and int(key) < body.layers for key in by_layer):
        raise at.refuse("reduction_factor", f"names layers that are not 0 … {body.layers - 1}")
    if default is None and ({int(key) for key in by_layer} | {*left_out} < set(range(body.layers)) or not by_layer):
        raise at.refuse("reduction_factor", 'has no "default" for the layers that it does not name')
    pairs = tuple(sorted((int(key), value) for key, value in by_layer.items()))
    return default or pairs[0][1], pairs


def _layers(at: Reading, given: Any, body: Shape) -> tuple[int, ...]:
    if not isinstance(given, list) or not all(type(n) is int and n >= 0 for n in given):
        raise at.refuse("leave_out", "is not a list of layers")
    return tuple(sorted(n for n in given if n < body.layers))


def _read_lora(at: Reading, version: str, family: Family, body: Shape) -> LowRankShape:
    c = at.checked(_LORA_DEFAULTS, _LORA_ONLY, _LORA_INERT)
    if type(c["r"]) is not int or not 1 <= c["r"] <= 10**6:
        raise at.refuse("r", "is not a rank from 1")
    matrices = c["attn_matrices"] if c["selfattn_lora"] else []
    if not isinstance(matrices, list) or not all(isinstance(m, str) and m in _MATRICES for m in matrices):
        raise at.refuse("attn_matrices", "is not a list of q, k and v")
    maps: list[MapName] = [_MATRICES[letter] for letter in "qkv" if letter in matrices]
    rank, blocks = c["r"], 1
    if maps and (0, "qkv") in map_modules(
        family, body
    ):  # one map for all three: their low-rank parts stand side by side
        maps, blocks = ["qkv"], len(maps)
    maps += ["up"] if c["intermediate_lora"] else []
    maps += ["down"] if c["output_lora"] else []
    alpha = at.number("alpha", c["alpha"])
    old = re.match(r"adapters\.(\d+)\.(\d+)", version)
    if old is not None and (int(old[1]), int(old[2])) < (1, 1):
        alpha = float(c["r"])  # versions before 1.1 trained with this scaling, whatever they noted
    of_blocks: tuple[tuple[int, MapName, int, float], ...] = ()
    if blocks > 1:
        of_blocks = tuple((layer, "qkv", rank * blocks, alpha * blocks) for layer in range(body.layers))
    dropout, left_out = at.number("dropout", c["dropout"], 0, 1), _layers(at, c["leave_out"], body)
    return LowRankShape(tuple(maps), rank, alpha, dropout, left_out=left_out, exceptions=of_blocks)


def side_by_side(tensors: Mapping[str, Stored], config: Any, width: int) -> dict[str, Stored]:
    """Where queries, keys and values are one map, AdapterHub keeps the rows of B for those that are changed one under
    another, each for its own rows of A. Here B has all its rows, and zeros where they do not meet."""
    matrices = config.get("attn_matrices", _LORA_DEFAULTS["attn_matrices"]) if isinstance(config, Mapping) else []
    thirds = ["qkv".index(letter) for letter in "qkv" if letter in matrices]

    def spread(stored: Stored) -> Stored:
        rank = stored.shape[1] if len(stored.shape) == 2 else 0
        if stored.shape != (len(thirds) * width, rank):
            return stored  # a misfit, refused later

        def read() -> Tensor:
            b, whole = stored.read(), torch.zeros(3 * width, rank * len(thirds))
            for block, third in enumerate(thirds):
                rows, columns = slice(third * width, (third + 1) * width), slice(block * rank, (block + 1) * rank)
                whole[rows, columns] = b[block * width : (block + 1) * width]
            return whole

        return Stored(stored.file, stored.name, (3 * width, rank * len(thirds)), stored.is_float, read)

    return {name: spread(t) if name.endswith(".lora_B") and ".c_attn." in name else t for name, t in tensors.items()}


def write_config(name: str, shape: AdapterShape, family: Family, body: Shape, model_name: str) -> dict[str, Any]:
    """Of a bottleneck adapter; low-rank ones are written as PEFT writes them."""
    assert isinstance(shape, BottleneckShape)
    factor: Any = shape.reduction
    if shape.reductions:
        factor = {**{str(layer): value for layer, value in shape.reductions}, "default": shape.reduction}
    theirs = {ours: theirs for theirs, ours in _ACTIVATIONS.items()}
    config = {
        **_DEFAULTS, **_ONLY,
        "mh_adapter": shape.attention,
        "output_adapter": shape.feed_forward,
        "reduction_factor": factor,
        "non_linearity": theirs.get(shape.activation, shape.activation),
        "original_ln_before": shape.reads == "normed-sum",
        "original_ln_after": shape.joined,
        "ln_before": shape.norm_before,
        "ln_after": shape.norm_after,
        "init_weights": next(t for t, ours in _INITIAL.items() if ours == shape.initial),
        "is_parallel": shape.reads == "stream",
        "scaling": shape.scaling,
        "residual_before_ln": next(t for t, ours in _RESIDUAL if ours == shape.residual),
        "adapter_residual_before_ln": shape.residual_before_norm,
        "leave_out": list(shape.left_out),
        "dropout": shape.dropout,
    }  # fmt: skip
    del config["invertible_adapter"]  # an older word for another key
    return {"config": config, **about(name, family, body, model_name)}


def about(name: str, family: Family, body: Shape, model_name: str) -> dict[str, Any]:
    stem = next(iter(family.architectures)).removesuffix("Model")
    return {
        "hidden_size": body.width, "model_class": f"{stem}AdapterModel", "model_name": model_name,
        "model_type": family.name, "name": name, "version": VERSION,
    }  # fmt: skip


# What the tensors are called


def adapter_tensors(name: str, shape: AdapterShape, family: Family, body: Shape) -> dict[str, tuple[str, ...]]:
    """What each parameter of an adapter, by its name within it, is called in the file, without the model's prefix.
    Where there are several names, the file holds copies."""
    if isinstance(shape, LowRankShape):
        return _lora_tensors(name, shape, family, body)
    names: dict[str, tuple[str, ...]] = {}
    down = "adapter_down.1" if shape.norm_before else "adapter_down.0"
    parts: dict[str, tuple[str, ...]] = {"down": (down,), "up": ("adapter_up",)}
    if shape.norm_before:
        parts["norm_before"] = ("adapter_norm_before", "adapter_down.0")
    if shape.norm_after:
        parts["norm_after"] = ("adapter_norm_after",)
    for place, template in zip(PLACES, family.adapter_places, strict=True):
        for layer in range(body.layers):
            if shape.stands_at(place, layer):
                root, ours = f"{template.format(i=layer)}.adapters.{name}", f"{place}.{layer}"
                for part, theirs in parts.items():
                    for kind in ("weight", "bias"):
                        names[f"{ours}.{part}.{kind}"] = tuple(f"{root}.{t}.{kind}" for t in theirs)
                if isinstance(shape.scaling, str):
                    names[f"{ours}.scaling"] = (f"{root}.scaling",)
    return names


def _lora_tensors(name: str, shape: LowRankShape, family: Family, body: Shape) -> dict[str, tuple[str, ...]]:
    modules = map_modules(family, body)
    names: dict[str, tuple[str, ...]] = {}
    for layer, map_name, _, _ in shape.parts(body.layers):
        for ours, theirs in (("a", "lora_A"), ("b", "lora_B")):
            names[f"{layer}.{map_name}.{ours}"] = (f"{modules[layer, map_name]}.loras.{name}.{theirs}",)
    return names


def map_modules(family: Family, body: Shape) -> dict[tuple[int, MapName], str]:
    """What the linear maps of each layer are called in Hugging Face's files."""
    ours: dict[str, tuple[MapName, ...]] = {
        "attention.qkv": ("query", "key", "value"), "attention.output": ("attention-output",),
        "feed_forward.up": ("up",), "feed_forward.down": ("down",),
    }  # fmt: skip
    modules: dict[tuple[int, MapName], str] = {}
    for entry in family.body(body):
        match = re.fullmatch(r"blocks\.(\d+)\.(.+)\.weight", entry.ours)
        if match is None or match[2] not in ours:
            continue
        whole = match[2] == "attention.qkv" and len(entry.theirs) == 1
        names: tuple[MapName, ...] = ("qkv",) if whole else ours[match[2]]
        for map_name, theirs in zip(names, entry.theirs, strict=True):
            modules[int(match[1]), map_name] = theirs.removesuffix(".weight")
    return modules


# Fusions


_FUSION_DEFAULTS: dict[str, Any] = {
    "key": True, "query": True, "value": True, "query_before_ln": False, "regularization": True,
    "residual_before": False, "value_before_softmax": True, "value_initialized": True, "dropout_prob": None,
}  # fmt: skip
_FUSION_PRESETS: dict[str, dict[str, Any]] = {
    "dynamic": {},
    "static": {"value": False, "regularization": False, "value_initialized": False},
}


def read_fusion(path: Path, content: Mapping[str, Any], family: Family, body: Shape) -> FusionShape:
    _refuse_another_model(path, content, family, body)
    config = content.get("config")
    if isinstance(config, str) and config in _FUSION_PRESETS:
        config = _FUSION_PRESETS[config]
    if not isinstance(config, dict):
        raise RequestError(f"{path}: config is neither an object nor dynamic or static.")
    at = Reading(path, config)
    if config.get("temperature", False):
        raise at.refuse("temperature", "is not supported: the answers would depend on how often the model was asked")
    c = at.checked(_FUSION_DEFAULTS, {"temperature": False}, ())
    names = content.get("adapter_names") or str(content.get("name", "")).split(",")
    if not isinstance(names, list) or len(names) < 2 or not all(isinstance(n, str) and n for n in names):
        raise RequestError(f"{path}: adapter_names is not a list of at least two adapters.")
    dropout = 0.0 if c["dropout_prob"] is None else at.number("dropout_prob", c["dropout_prob"], 0, 1)
    flags = {key: bool(c[key]) for key in ("query", "key", "value", "residual_before")}
    return FusionShape(
        tuple(names), **flags, query_before=bool(c["query_before_ln"]), value_is_identity=bool(c["value_initialized"]),
        regularised=bool(c["regularization"]), dropout=dropout,
    )  # fmt: skip


def write_fusion(shape: FusionShape, family: Family, body: Shape, model_name: str) -> dict[str, Any]:
    config = {
        **_FUSION_DEFAULTS, "query": shape.query, "key": shape.key, "value": shape.value, "temperature": False,
        "query_before_ln": shape.query_before, "residual_before": shape.residual_before,
        "value_initialized": shape.value_is_identity, "regularization": shape.regularised, "dropout_prob":
        shape.dropout,
    }  # fmt: skip
    name = ",".join(shape.names)
    return {"adapter_names": list(shape.names), "config": config, **about(name, family, body, model_name)}


def fusion_tensors(shape: FusionShape, adapter: BottleneckShape, family: Family, body: Shape) -> dict[str, str]:
    """What each parameter of a fusion is called in the file, without the model's prefix."""
    parts = {"query.weight": shape.query, "query.bias": shape.query, "key.weight": shape.key, "key.bias": shape.key}
    parts["value.weight"] = shape.value
    return {
        f"{place}.{layer}.{part}": f"{template.format(i=layer)}.adapter_fusion_layer.{','.join(shape.names)}.{part}"
        for place, template in zip(PLACES, family.adapter_places, strict=True)
        for layer in range(body.layers)
        if adapter.stands_at(place, layer)
        for part, there in parts.items()
        if there
    }
