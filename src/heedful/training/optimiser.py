"""AdamW in groups: matrices decay, biases and norms do not; lower layers may learn more slowly."""

import math
import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

_MOMENTS = ("exp_avg", "exp_avg_sq")


def make_optimiser(
    parameters: Mapping[str, nn.Parameter], weight_decay: float, layers: int, layer_decay: float
) -> torch.optim.AdamW:
    groups: dict[tuple[bool, float], list[nn.Parameter]] = {}
    for name, p in parameters.items():
        groups.setdefault((p.ndim > 1, scale_of(name, layers, layer_decay)), []).append(p)
    described: list[dict[str, Any]] = [
        {"params": held, "weight_decay": weight_decay if decays else 0.0, "scale": scale}
        for (decays, scale), held in groups.items()
    ]
    return torch.optim.AdamW(described, lr=0.0, betas=(0.9, 0.999), eps=1e-8, fused=True)


def scale_of(name: str, layers: int, layer_decay: float) -> float:
    """1 for the heads and what follows the blocks; below, `layer_decay` to the power of the depth under the top."""
    if match := re.match(r"body\.blocks\.(\d+)\.", name):
        return layer_decay ** (layers - 1 - int(match[1]))
    return layer_decay**layers if name.startswith("body.embeddings.") else 1.0


def lr_factor(step: int, steps: int, warmup: float, schedule: str) -> float:
    """The share of the highest learning rate in step `step` = 0 … steps − 1."""
    rising = int(warmup * steps)
    if step < rising:
        return (step + 1) / (rising + 1)
    if schedule == "constant":
        return 1.0
    through = (step - rising) / max(1, steps - rising)
    return 1 - through if schedule == "linear" else 0.5 * (1 + math.cos(math.pi * through))


def optimiser_tensors(optimiser: torch.optim.AdamW, parameters: Mapping[str, nn.Parameter]) -> dict[str, Tensor]:
    """Its whole state under the parameters' names."""
    found: dict[str, Tensor] = {}
    for name, p in parameters.items():
        state = optimiser.state[p]
        if state:
            found |= {f"{moment}.{name}": state[moment].contiguous() for moment in _MOMENTS}
            found[f"step.{name}"] = torch.as_tensor(state["step"], dtype=torch.float32).reshape(1)
    return found


def restore_optimiser(
    optimiser: torch.optim.AdamW, parameters: Mapping[str, nn.Parameter], tensors: Mapping[str, Tensor]
) -> None:
    for name, p in parameters.items():
        if f"step.{name}" in tensors:
            # A moment must lie in memory as its parameter does, or the fused kernel pairs the wrong numbers.
            moments = {m: torch.empty_like(p).copy_(tensors[f"{m}.{name}"]) for m in _MOMENTS}
            optimiser.state[p] = {**moments, "step": tensors[f"step.{name}"][0].clone().to(p.device)}
