"""The adapters of a model: what each consists of, and what a pass is given of those that it uses (`in_use`).

A model owns its adapters and fusions by name (`Transformer.adapters`, `Transformer.fusions`). Using them changes
nothing; only `models/merging.py` changes the body.
"""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, cast

import torch
from torch import Tensor, nn

from heedful.errors import RequestError
from heedful.models.composition import Average, Composition, Fuse, names_of, parse_composition, parts_of
from heedful.models.modules import is_part_name, lay_out
from heedful.models.shape import Shape
from heedful.nn.activations import ACTIVATIONS
from heedful.nn.adapters import (
    Adapted,
    AdapterReads,
    AdapterResidual,
    Averaged,
    Bottleneck,
    Change,
    Fused,
    Fusion,
    Initial,
    LinearDelta,
    LowRank,
    QueryKeyValueDelta,
    Scaling,
)
from heedful.nn.attention import AttentionChanges, MultiHeadAttention
from heedful.nn.blocks import Block, BlockAdapters
from heedful.nn.linear import Linear
from heedful.nn.norms import Slot, add
from heedful.nn.synthesizer import Synthesizer

if TYPE_CHECKING:  # which has them
    from heedful.models.transformer import Transformer

Place = Literal["attention", "feed_forward"]
PLACES: tuple[Place, ...] = ("attention", "feed_forward")
MapName = Literal["query", "key", "value", "qkv", "attention-output", "up", "down"]
FusionWeights = dict[tuple[Place, int], Tensor]
"""The weights (b, t, n) of each fusion in use, by place and layer."""
THIRDS: dict[str, int | None] = {"query": 0, "key": 1, "value": 2, "qkv": None}


@dataclass(frozen=True)
class BottleneckShape:
    """Of a bottleneck adapter. The defaults are Pfeiffer's placement."""

    attention: bool = False
    """Whether one stands after attention,"""
    feed_forward: bool = True
    """and whether one stands after the feed-forward network."""
    reduction: float = 16.0
    """The body's width divided by the bottleneck's."""
    reductions: tuple[tuple[int, float], ...] = ()
    """Layers (from 0) with another reduction."""
    left_out: tuple[int, ...] = ()
    """Layers without adapters."""
    activation: str = "relu"
    reads: AdapterReads = "normed-sum"
    residual: AdapterResidual = "output"
    """See `heedful.nn.adapters.Bottleneck`."""
    norm_before: bool = False
    """Whether it has a norm of its own before the bottleneck,"""
    norm_after: bool = False
    """and after it;"""
    residual_before_norm: bool = False
    """and whether the residual is added before that one."""
    joined: bool = True
    """Whether the stream is added and the layer's norm applied afterwards."""
    scaling: Scaling = 1.0
    dropout: float = 0.0
    initial: Initial = "zero"

    def inner(self, width: int, layer: int) -> int:
        return max(1, int(width // dict(self.reductions).get(layer, self.reduction)))

    def stands_at(self, place: Place, layer: int) -> bool:
        return bool(getattr(self, place)) and layer not in self.left_out

    def must_agree(self) -> "BottleneckShape":
        """What adapters that are fused or averaged have to have in common: where they stand, and what they read."""
        return replace(
            BottleneckShape(), attention=self.attention, feed_forward=self.feed_forward, reads=self.reads,
            left_out=tuple(sorted(self.left_out)), residual=self.residual, joined=self.joined,
        )  # fmt: skip


PLACEMENTS: dict[str, BottleneckShape] = {
    "pfeiffer": BottleneckShape(),
    "houlsby": BottleneckShape(attention=True, reads="output", activation="silu"),
    "parallel": BottleneckShape(reads="stream", reduction=2.0, scaling=4.0),
}
"""As their papers have them: one after the feed-forward network that reads the normalised sum; one after each sublayer
that reads its output; one beside the feed-forward network."""


@dataclass(frozen=True)
class LowRankShape:
    """Of low-rank changes of linear maps (LoRA)."""

    maps: tuple[MapName, ...] = ("query", "value")
    rank: int = 8
    alpha: float = 16.0
    dropout: float = 0.0
    stabilised: bool = False
    """Whether changes are scaled by alpha/√rank instead of alpha/rank (rank-stabilised LoRA)."""
    left_out: tuple[int, ...] = ()
    """Layers without."""
    absent: tuple[tuple[int, MapName], ...] = ()
    """Further (layer, map) without."""
    exceptions: tuple[tuple[int, MapName, int, float], ...] = ()
    """(layer, map, rank, alpha) where they are others."""

    def parts(self, layers: int) -> Iterator[tuple[int, MapName, int, float]]:
        """(layer, map, rank, scaling) of each."""
        others = {(layer, name): (rank, alpha) for layer, name, rank, alpha in self.exceptions}
        for layer in range(layers):
            for name in self.maps:
                if layer not in self.left_out and (layer, name) not in self.absent:
                    rank, alpha = others.get((layer, name), (self.rank, self.alpha))
                    yield layer, name, rank, alpha / (rank**0.5 if self.stabilised else rank)


AdapterShape = BottleneckShape | LowRankShape


@dataclass(frozen=True)
class FusionShape:
    """Of a fusion; the defaults are the paper's, and AdapterHub's."""

    names: tuple[str, ...]
    query: bool = True
    key: bool = True
    value: bool = True
    """Whether each of the three is a matrix, or what it is applied to is taken as it is."""
    query_before: bool = False
    """Whether the query is the sublayer's output, before the sum and the norm that adapters may read."""
    residual_before: bool = False
    """Whether what the adapters add to is added to each before they are weighed, or once afterwards."""
    value_is_identity: bool = True
    """At first."""
    regularised: bool = True
    dropout: float = 0.0
    """On the scores, while it is trained."""


def lowest_layer(shape: AdapterShape, layers: int) -> int:
    """The first layer whose output an adapter changes; `layers` if there is none."""
    if isinstance(shape, LowRankShape):
        return min((layer for layer, *_ in shape.parts(layers)), default=layers)
    standing = (layer for layer in range(layers) if any(shape.stands_at(place, layer) for place in PLACES))
    return min(standing, default=layers)


def add_adapter(transformer: "Transformer", name: str, shape: AdapterShape) -> nn.Module:
    """Makes room for an adapter, whose weights are still to be drawn or read; it is not in use yet."""
    _refuse_taken(transformer, name)
    if lowest_layer(shape, transformer.shape.layers) >= transformer.shape.layers:
        raise RequestError(f"adapter {name!r}: is in none of the model's {transformer.shape.layers} layers.")
    body = transformer.shape
    module = _bottlenecks(body, shape) if isinstance(shape, BottleneckShape) else _low_rank(body, shape)
    transformer.adapters[name] = as_the_body(transformer, module)
    transformer.adapter_shapes[name] = shape
    return module


def _refuse_taken(transformer: "Transformer", name: str) -> None:
    if not is_part_name(name) or len(name) > 100 or any(c in ",()*/\\" or c.isspace() for c in name):
        raise RequestError(
            f"{str(name)[:100]!r} is not a valid name for an adapter. Use a short word without dots, spaces or commas."
        )
    if name in transformer.adapters:
        raise RequestError(f"the model already has an adapter {name!r}. Choose another name.")


def _bottlenecks(body: Shape, shape: BottleneckShape) -> nn.Module:
    """A module for each layer by its number, under the name of the place."""
    if shape.activation not in ACTIVATIONS:
        raise RequestError(f"activation {shape.activation!r} is not supported; choose {', '.join(ACTIVATIONS)}.")
    places = nn.ModuleDict()
    for place in PLACES:
        layers = [layer for layer in range(body.layers) if shape.stands_at(place, layer)]
        places[place] = nn.ModuleDict(
            {
                str(layer): Bottleneck(
                    body.width,
                    shape.inner(body.width, layer),
                    ACTIVATIONS[shape.activation],
                    shape.reads,
                    shape.residual,
                    shape.norm_before,
                    shape.norm_after,
                    shape.residual_before_norm,
                    shape.scaling,
                    shape.dropout,
                )
                for layer in layers
            }
        )
    lay_out(places)
    return places


def _low_rank(body: Shape, shape: LowRankShape) -> nn.Module:
    sizes = {"qkv": (body.width, 3 * body.width), "up": (body.width, body.inner), "down": (body.inner, body.width)}
    layers = nn.ModuleDict()
    for layer, name, rank, scaling in shape.parts(body.layers):
        if str(layer) not in layers:
            layers[str(layer)] = nn.ModuleDict()
        width, out = sizes.get(name, (body.width, body.width))
        cast(nn.ModuleDict, layers[str(layer)])[name] = LowRank(width, out, rank, scaling, shape.dropout)
    return layers


def add_fusion(transformer: "Transformer", shape: FusionShape) -> nn.Module:
    """Makes room for a fusion of adapters that are there, whose weights are still to be drawn or read."""
    fuse = Fuse(*shape.names)
    _check_together(transformer, fuse)
    if fuse.name in transformer.fusions:
        raise RequestError(f"the model has a fusion of {', '.join(shape.names)} already.")
    adapter = transformer.adapter_shapes[shape.names[0]]
    assert isinstance(adapter, BottleneckShape)
    places = nn.ModuleDict()
    for place in PLACES:
        layers = [layer for layer in range(transformer.shape.layers) if adapter.stands_at(place, layer)]
        made = {str(layer): _fusion(transformer.shape.width, shape) for layer in layers}
        places[place] = nn.ModuleDict(made)
    lay_out(places)
    transformer.fusions[fuse.name] = as_the_body(transformer, places)
    transformer.fusion_shapes[fuse.name] = shape
    return places


def _fusion(width: int, s: FusionShape) -> Fusion:
    return Fusion(width, s.query, s.key, s.value, s.query_before, s.residual_before, s.dropout)


def remove_adapter(transformer: "Transformer", name: str) -> None:
    """Of a model in which it is not in use."""
    if transformer.active is not None and name in names_of(transformer.active):
        raise RequestError(f"adapter {name!r} is in use. Activate other adapters, or none, first.")
    del transformer.adapters[name], transformer.adapter_shapes[name]


def draw_adapter(transformer: "Transformer", name: str, generator: torch.Generator) -> None:
    shape = transformer.adapter_shapes[name]
    for module in transformer.adapters[name].modules():
        if isinstance(module, Bottleneck) and isinstance(shape, BottleneckShape):
            module.draw(generator, shape.initial)
        elif isinstance(module, LowRank):
            module.draw(generator)


def draw_fusion(transformer: "Transformer", name: str, generator: torch.Generator) -> None:
    for module in transformer.fusions[name].modules():
        if isinstance(module, Fusion):
            module.draw(generator, transformer.fusion_shapes[name].value_is_identity)


def as_the_body(transformer: "Transformer", module: nn.Module) -> nn.Module:
    """Where and in which precision the body is; what is not in memory yet stays so."""
    table = transformer.body.embeddings.token.weight
    meta = any(p.is_meta for p in module.parameters())
    return module.to(None if meta else table.device, table.dtype).train(transformer.training)


def device(transformer: "Transformer") -> torch.device:
    return transformer.body.embeddings.token.weight.device


# Which are in use


def activate(transformer: "Transformer", composition: Composition | None) -> None:
    """Make these the adapters through which texts are read where no head says which; None: none at all."""
    in_use(transformer, composition)  # what cannot be used is refused
    transformer.active = composition


@functools.cache
def parsed(adapters: str) -> Composition | None:
    """Return a head's adapters, as `Head.adapters` writes them."""
    return parse_composition(adapters) if adapters else None


InUse = tuple[BlockAdapters, ...]
"""The adapters that one pass uses, block by block. It refers to the model's modules and changes nothing of them."""


def in_use(
    transformer: "Transformer", composition: Composition | None, watch: FusionWeights | None = None
) -> InUse | None:
    """Return what a pass needs to read through these adapters. `watch`: where each pass leaves the weights of its
    fusions."""
    if composition is None:
        return None
    check_composition(transformer, composition)
    return tuple(
        _block_adapters(transformer, composition, layer, cast(Block, block), watch)
        for layer, block in enumerate(transformer.body.blocks)
    )


def check_composition(transformer: "Transformer", composition: Composition) -> None:
    """Refuses what the model does not have, and what makes no sense together."""
    for name in names_of(composition):
        if name not in transformer.adapters:
            known = f"it has {', '.join(transformer.adapters)}" if transformer.adapters else "it has none"
            raise RequestError(f"the model has no adapter {name!r}; {known}.")
    bottlenecks = 0
    for part in parts_of(composition):
        shapes = [transformer.adapter_shapes[name] for name in names_of(part)]
        bottlenecks += isinstance(shapes[0], BottleneckShape)
        if not isinstance(part, str):
            _check_together(transformer, part)
        if isinstance(part, Fuse) and part.name not in transformer.fusions:
            known = "; ".join(f"of {name.replace(',', ', ')}" for name in transformer.fusions)
            raise RequestError(
                f"{part}: the fusion part is missing; the model has {f'one {known}' if known else 'none'}. Train "
                'one with tuning.method = "fusion", or load the directory that holds it.'
            )
    shapes = [transformer.adapter_shapes[name] for name in names_of(composition)]
    if bottlenecks > 1 and any(isinstance(s, BottleneckShape) and s.reads == "stream" for s in shapes):
        raise RequestError(f"{composition}: a parallel adapter cannot be stacked with other bottlenecks.")


def _check_together(transformer: "Transformer", part: Fuse | Average) -> None:
    shapes = []
    for name in part.names:
        if name not in transformer.adapters:
            raise RequestError(f"{part}: the model has no adapter {name!r}.")
        shapes.append(transformer.adapter_shapes[name])
    if isinstance(part, Average) and all(isinstance(shape, LowRankShape) for shape in shapes):
        return
    first = shapes[0]
    for name, shape in zip(part.names, shapes, strict=True):
        if not isinstance(shape, BottleneckShape) or not isinstance(first, BottleneckShape):
            low = name if not isinstance(shape, BottleneckShape) else part.names[0]
            raise RequestError(f"{part}: {low!r} is low-rank; bottleneck adapters can be put together so.")
        if isinstance(part, Fuse) and shape.reads == "stream":
            raise RequestError(f"{part}: {name!r} is parallel to its sublayer, where there is nothing to fuse.")
        if shape.must_agree() != first.must_agree():
            raise RequestError(
                f"{part}: {part.names[0]!r} and {name!r} are at different places or read different states. "
                "Train them in the same way."
            )


def _block_adapters(
    transformer: "Transformer", composition: Composition, layer: int, block: Block, watch: FusionWeights | None
) -> BlockAdapters:
    parts = low_rank_parts(transformer, composition, layer)
    thirds = {THIRDS[name]: parts.pop(name) for name in tuple(parts) if name in THIRDS}
    if thirds and not isinstance(block.attention, MultiHeadAttention):
        raise RequestError(
            "low-rank changes of queries, keys and values need attention that has them; remove these maps."
        )
    if "attention-output" in parts and "attention-output" not in linear_maps(block):
        raise RequestError("this kind of attention has no output map that could be changed; remove it from the maps.")
    deltas = {name: LinearDelta(weighted) for name, weighted in parts.items()}
    changes = None
    if thirds or "attention-output" in deltas:
        projections = QueryKeyValueDelta(thirds) if thirds else None
        changes = AttentionChanges(projections, deltas.get("attention-output"))
    return BlockAdapters(
        _slot(transformer, composition, "attention", layer, watch),
        _slot(transformer, composition, "feed_forward", layer, watch),
        changes,
        deltas.get("up"),
        deltas.get("down"),
    )


def _slot(
    transformer: "Transformer", composition: Composition, place: Place, layer: int, watch: FusionWeights | None
) -> Slot:
    changes: list[Change] = []
    joined = True
    for part in parts_of(composition):
        first = transformer.adapter_shapes[names_of(part)[0]]
        if not isinstance(first, BottleneckShape) or not first.stands_at(place, layer):
            continue
        standing = [_at(transformer.adapters[name], place, layer) for name in names_of(part)]
        here = cast("Sequence[Bottleneck]", standing)
        joined = first.joined
        if isinstance(part, Fuse):
            fused = Fused(here, cast(Fusion, _at(transformer.fusions[part.name], place, layer)))
            changes.append(fused if watch is None else _watched(fused, watch, (place, layer)))
        else:
            changes.append(Averaged(here, part.weights) if isinstance(part, Average) else here[0])
    return Adapted(tuple(changes), joined) if changes else add


def _watched(fused: Fused, watch: FusionWeights, key: tuple[Place, int]) -> Change:
    def change(y: Tensor, x: Tensor, norm: nn.Module | None) -> Tensor:
        watch[key] = fused.weights(y, x, norm).detach()
        return fused(y, x, norm)

    return change


def _at(module: nn.Module, place: Place, layer: int) -> nn.Module:
    return cast(nn.ModuleDict, cast(nn.ModuleDict, module)[place])[str(layer)]


Weighted = tuple[LowRank, float]


def low_rank_parts(transformer: "Transformer", composition: Composition, layer: int) -> dict[str, tuple[Weighted, ...]]:
    """Return, by the name of the map, the low-rank changes in use in a layer, each with its weight."""
    parts: dict[str, tuple[Weighted, ...]] = {}
    for part in parts_of(composition):
        weights = part.weights if isinstance(part, Average) else [1.0] * len(names_of(part))
        for name, weight in zip(names_of(part), weights, strict=True):
            if isinstance(transformer.adapter_shapes[name], LowRankShape):
                layers = cast(nn.ModuleDict, transformer.adapters[name])
                maps = cast(nn.ModuleDict, layers[str(layer)]) if str(layer) in layers else nn.ModuleDict()
                for map_name, module in maps.items():
                    parts[map_name] = (*parts.get(map_name, ()), (cast(LowRank, module), weight))
    return parts


def linear_maps(block: Block) -> dict[str, Linear]:
    maps = {"up": block.feed_forward.up, "down": block.feed_forward.down}
    if isinstance(block.attention, MultiHeadAttention | Synthesizer):
        maps["attention-output"] = block.attention.output
    return maps
