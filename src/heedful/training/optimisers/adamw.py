"""AdamW in groups: matrices decay, biases and norms do not; each parameter has its share of the learning rate."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

_MOMENTS = ("exp_avg", "exp_avg_sq")


def make_optimiser(
    parameters: Mapping[str, nn.Parameter], weight_decay: float, lr_scale: Callable[[str], float]
) -> torch.optim.Optimizer:
    """Its groups say under "scale" which share of the learning rate is theirs."""
    groups: dict[tuple[bool, float], list[nn.Parameter]] = {}
    for name, p in parameters.items():
        groups.setdefault((p.ndim > 1, lr_scale(name)), []).append(p)
    described: list[dict[str, Any]] = [
        {"params": members, "weight_decay": weight_decay if decays else 0.0, "scale": scale}
        for (decays, scale), members in groups.items()
    ]
    return torch.optim.AdamW(described, lr=0.0, betas=(0.9, 0.999), eps=1e-8, fused=True)


def optimiser_tensors(optimiser: torch.optim.Optimizer, parameters: Mapping[str, nn.Parameter]) -> dict[str, Tensor]:
    """Its whole state under the parameters' names."""
    tensors: dict[str, Tensor] = {}
    for name, p in parameters.items():
        state = optimiser.state[p]
        if state:
            tensors |= {f"{moment}.{name}": state[moment].contiguous() for moment in _MOMENTS}
            tensors[f"step.{name}"] = torch.as_tensor(state["step"], dtype=torch.float32).reshape(1)
    return tensors


def restore_optimiser(
    optimiser: torch.optim.Optimizer, parameters: Mapping[str, nn.Parameter], tensors: Mapping[str, Tensor]
) -> None:
    for name, p in parameters.items():
        if f"step.{name}" in tensors:
            # A moment must lie in memory as its parameter does, or the fused kernel pairs the wrong numbers.
            moments = {m: torch.empty_like(p).copy_(tensors[f"{m}.{name}"]) for m in _MOMENTS}
            optimiser.state[p] = {**moments, "step": tensors[f"step.{name}"][0].clone().to(p.device)}
