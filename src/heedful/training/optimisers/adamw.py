"""AdamW (Loshchilov and Hutter, 2019), PyTorch's fused one."""

from collections.abc import Iterable, Mapping

import torch
from torch import nn

from heedful.recipes.schema import TrainingTable
from heedful.training.optimisers.common import LrScale, groups_of


def make(
    parameters: Mapping[str, nn.Parameter], table: TrainingTable, lr_scale: LrScale, maps: Mapping[str, int]
) -> torch.optim.Optimizer:
    return make_adamw(parameters.items(), table, lr_scale)


def make_adamw(
    parameters: Iterable[tuple[str, nn.Parameter]], table: TrainingTable, lr_scale: LrScale
) -> torch.optim.AdamW:
    first, second = table.betas
    groups = groups_of(parameters, table.weight_decay, lr_scale)
    return torch.optim.AdamW(groups, lr=0.0, betas=(first, second), eps=1e-8, fused=True)
