"""Low-rank changes as a part of the weights: `merge` changes the body, and `unmerge` undoes that to the bit."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from heedful.errors import RequestError
from heedful.models.adapters import (
    THIRDS,
    AdapterShape,
    LowRankShape,
    activate,
    device,
    linear_maps,
    low_rank_parts,
    parsed,
    remove_adapter,
)
from heedful.models.composition import Composition, names_of
from heedful.nn.attention import MultiHeadAttention
from heedful.nn.blocks import Block

if TYPE_CHECKING:  # which has adapters
    from heedful.models.transformer import Transformer


@dataclass(frozen=True)
class Merged:
    """What a model was before low-rank changes became a part of its weights."""

    composition: Composition
    weights: tuple[tuple[nn.Linear, Tensor], ...]
    adapters: dict[str, tuple[nn.Module, AdapterShape]]
    heads: tuple[str, ...]
    """Those that read through the composition."""


def merge(transformer: "Transformer") -> Merged:
    """Add the low-rank changes in use to the weights, each of which is rounded once. Those adapters are then no more,
    and the heads that read through them read the body as it is."""
    composition = transformer.active
    if composition is None:
        raise RequestError("no adapter is in use, so there is nothing to merge.")
    for name in names_of(composition):
        if not isinstance(transformer.adapter_shapes[name], LowRankShape):
            raise RequestError(
                f"adapter {name!r} is a bottleneck, which cannot be a part of the weights; only LoRA can."
            )
    others = [name for name, head in transformer.head_shapes.items() if parsed(head.adapters) != composition]
    kept = [name for name in transformer.adapters if name not in names_of(composition)]
    if others or kept:
        what = f"the head {others[0]!r}" if others else f"the adapter {kept[0]!r}"
        raise RequestError(
            f"{composition}: cannot be merged into the weights, since {what} would then read a different body. Load "
            "the model with only this adapter (head=False omits its head), and merge that."
        )
    before: list[tuple[nn.Linear, Tensor]] = []
    for layer, module in enumerate(transformer.body.blocks):
        block = cast(Block, module)
        d = transformer.shape.width
        for name, parts in low_rank_parts(transformer, composition, layer).items():
            third = THIRDS.get(name)
            linear = cast(MultiHeadAttention, block.attention).qkv if name in THIRDS else linear_maps(block)[name]
            rows = slice(None) if third is None else slice(third * d, (third + 1) * d)
            if all(linear is not known for known, _ in before):
                before.append((linear, linear.weight.detach().clone()))
            change = sum((weight * part.product() for part, weight in parts), torch.zeros(()))
            with torch.no_grad():
                linear.weight[rows] = (linear.weight[rows].double() + change).to(linear.weight.dtype)
    activate(transformer, None)
    names = names_of(composition)
    adapters = {name: (transformer.adapters[name], transformer.adapter_shapes[name]) for name in names}
    for name in names:
        remove_adapter(transformer, name)
    heads = tuple(transformer.head_shapes)
    transformer.head_shapes |= {name: replace(head, adapters="") for name, head in transformer.head_shapes.items()}
    return Merged(composition, tuple(before), adapters, heads)


def unmerge(transformer: "Transformer", merged: Merged) -> None:
    """Restore the weights to the bit, and the adapters in use."""
    taken = next((name for name in merged.adapters if name in transformer.adapters), None)
    if taken is not None:
        raise RequestError(f"the model now has a different adapter {taken!r}, so the merge cannot be undone.")
    with torch.no_grad():
        for linear, weight in merged.weights:
            linear.weight.copy_(weight)
    for name, (module, shape) in merged.adapters.items():
        transformer.adapters[name] = module.to(device(transformer))
        transformer.adapter_shapes[name] = shape
    for name in merged.heads:
        if name in transformer.head_shapes:
            transformer.head_shapes[name] = replace(transformer.head_shapes[name], adapters=str(merged.composition))
    activate(transformer, merged.composition)
