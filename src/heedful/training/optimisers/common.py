"""What all optimisers share: how one is made by its name, groups of parameters, and the state as named tensors."""

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from heedful.recipes.schema import TrainingTable

LrScale = Callable[[str], float]
"""The share of the learning rate that is a parameter's, by its name."""
_MOMENTS = ("exp_avg", "exp_avg_sq", "momentum")


def make_optimiser(
    parameters: Mapping[str, nn.Parameter], table: TrainingTable, lr_scale: LrScale, maps: Mapping[str, int]
) -> torch.optim.Optimizer:
    """The one that the recipe names, from the file of that name in this folder. `maps` are the weights of the model's
    linear maps, with the number of maps that each is made of (`linear_maps`).

    Its groups say under "scale" what the learning rate of the schedule is to be multiplied by for them.
    """
    module = import_module(f"heedful.training.optimisers.{table.optimiser}")
    made: torch.optim.Optimizer = module.make(parameters, table, lr_scale, maps)
    return made


def groups_of(
    parameters: Iterable[tuple[str, nn.Parameter]], weight_decay: float, lr_scale: LrScale
) -> list[dict[str, Any]]:
    """Matrices decay, biases and norms do not; each parameter has its share of the learning rate."""
    groups: dict[tuple[bool, float], list[nn.Parameter]] = {}
    for name, p in parameters:
        groups.setdefault((p.ndim > 1, lr_scale(name)), []).append(p)
    return [
        {"params": members, "weight_decay": weight_decay if decays else 0.0, "scale": scale}
        for (decays, scale), members in groups.items()
    ]


def optimiser_tensors(optimiser: torch.optim.Optimizer, parameters: Mapping[str, nn.Parameter]) -> dict[str, Tensor]:
    """Its whole state under the parameters' names."""
    tensors: dict[str, Tensor] = {}
    for name, p in parameters.items():
        state = optimiser.state[p]
        tensors |= {f"{moment}.{name}": state[moment].contiguous() for moment in _MOMENTS if moment in state}
        if "step" in state:
            tensors[f"step.{name}"] = torch.as_tensor(state["step"], dtype=torch.float32).reshape(1)
    return tensors


def restore_optimiser(
    optimiser: torch.optim.Optimizer, parameters: Mapping[str, nn.Parameter], tensors: Mapping[str, Tensor]
) -> None:
    for name, p in parameters.items():
        kept = {moment: tensors[f"{moment}.{name}"] for moment in _MOMENTS if f"{moment}.{name}" in tensors}
        # A moment must lie in memory as its parameter does, or the fused kernel pairs the wrong numbers.
        state = {moment: torch.empty_like(p).copy_(tensor) for moment, tensor in kept.items()}
        if f"step.{name}" in tensors:
            state["step"] = tensors[f"step.{name}"][0].clone().to(p.device)
        if state:
            optimiser.state[p] = state
