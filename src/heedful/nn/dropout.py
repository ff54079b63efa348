"""Dropout. PyTorch draws its random numbers one by one on a CPU: up to a sixth of the time of a training step."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

_SMALL = 8192  # elements, below which seeding a generator costs more than it saves
_LANES = 65536


def dropout(x: Tensor, p: float) -> Tensor:
    """x with each element zero with probability p, the others divided by 1 − p. Depends on PyTorch's generator alone.

    On a CPU, large tensors take 16 random bits an element from NumPy's SFC64, seeded by PyTorch's generator; p is
    rounded to the nearest 1/65536, and the scale is that of the rounded p.
    """
    if not p:
        return x
    if x.device.type != "cpu" or x.numel() < _SMALL or p >= 1:
        return F.dropout(x, p)
    dropped = round(p * _LANES)
    seed = int(torch.randint(2**62, ()))
    words = np.random.SFC64(seed).random_raw(-(-x.numel() // 4))
    kept = words.view(np.uint16)[: x.numel()] >= np.uint16(dropped)
    mask = torch.from_numpy(kept.view(np.uint8)).to(x.dtype).mul_(_LANES / (_LANES - dropped))
    return x * mask.view(x.shape)


class Dropout(nn.Module):
    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.p) if self.training and self.p else x
