"""Muon (Jordan et al., 2024) for the matrices inside the blocks, AdamW for everything else: token and position tables,
heads, norms, biases.

The step of a matrix is its momentum, made orthogonal: all its singular values about 1. PyTorch's own Muon takes
queries, keys and values, thirds of one matrix here, for one map, and computes in bfloat16, for which most CPUs have no
instructions; on plain matrices the two agree.

Letters: k maps on top of each other, m rows and n columns of each.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from heedful.errors import RequestError
from heedful.recipes.schema import TrainingTable
from heedful.training.optimisers.adamw import make_adamw
from heedful.training.optimisers.common import LrScale, groups_of

_MOMENTUM = 0.95
_STEPS = 5
_A, _B, _C = 3.4445, -4.7750, 2.0315  # of a X + b X Xᵀ X + c (X Xᵀ)² X, steep at zero; singular values end in 0.7 … 1.2
_EPSILON = 1e-7


def make(
    parameters: Mapping[str, nn.Parameter], table: TrainingTable, lr_scale: LrScale, maps: Mapping[str, int]
) -> torch.optim.Optimizer:
    inside = {name: p for name, p in parameters.items() if name in maps and _is_inside(name)}
    if not inside:
        raise RequestError(
            'training.optimiser = "muon" is for matrices of the blocks, of which none moves; use "adamw".'
        )
    rest = make_adamw(((name, p) for name, p in parameters.items() if name not in inside), table, lr_scale)
    ratio = table.muon_lr / table.lr  # the schedule's learning rates are those of AdamW
    groups = groups_of(inside.items(), table.weight_decay, lambda name: ratio * lr_scale(name))
    return Muon(groups, {p: maps[name] for name, p in inside.items()}, rest)


def _is_inside(name: str) -> bool:
    """Whether it is a part of a block: of a body, or of the encoder or the decoder of a translator."""
    before, blocks, _ = name.partition(".blocks.")
    return bool(blocks) and before.rpartition(".")[2] in ("body", "encoder", "decoder")


class Muon(torch.optim.Optimizer):
    """Moves its own groups, and has `rest` move the others; they share one state."""

    def __init__(self, groups: list[dict[str, Any]], pieces: Mapping[Tensor, int], rest: torch.optim.AdamW) -> None:
        """`pieces`: of how many maps each matrix is made."""
        super().__init__(groups, {"lr": 0.0})
        self.own, self.pieces, self.rest = list(self.param_groups), pieces, rest
        self.param_groups += rest.param_groups
        rest.state = self.state

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.own:
            for p in group["params"]:
                if p.grad is not None:
                    self._move(p, p.grad, group["lr"], group["weight_decay"])
        self.rest.step()

    def _move(self, p: Tensor, gradient: Tensor, lr: float, weight_decay: float) -> None:
        state = self.state[p]
        if not state:
            state["momentum"] = torch.zeros_like(p)
        momentum = state["momentum"].lerp_(gradient, 1 - _MOMENTUM)
        ahead = gradient.lerp(momentum, _MOMENTUM)  # Nesterov's
        x_kmn = ahead.reshape(self.pieces[p], -1, p.shape[1])
        step_kmn = orthogonalise(x_kmn, torch.bfloat16 if p.is_cuda else p.dtype)
        reach = max(1.0, step_kmn.shape[1] / step_kmn.shape[2]) ** 0.5
        p.mul_(1 - lr * weight_decay)
        p.add_(step_kmn.reshape(p.shape), alpha=-lr * reach)


def orthogonalise(x_kmn: Tensor, precision: torch.dtype) -> Tensor:
    """Each matrix U S Vᵀ becomes about U Vᵀ: five steps of a Newton–Schulz iteration."""
    x = x_kmn.to(precision)
    tall = x.shape[1] > x.shape[2]
    if tall:
        x = x.transpose(1, 2)
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=_EPSILON)
    for _ in range(_STEPS):
        gram = x @ x.transpose(1, 2)
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=_B, alpha=_C), x, beta=_A)
    return x.transpose(1, 2) if tall else x
