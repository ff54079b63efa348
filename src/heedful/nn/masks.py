"""Who may look at whom. Every mask is boolean, True = may look, and broadcasts to (b, h, t, s); combine with `&`."""

import torch
from torch import Tensor


def padding_mask(real_bs: Tensor) -> Tensor:
    """(b, 1, 1, s): every query sees the real keys and no padding."""
    return real_bs.bool()[:, None, None, :]


def causal_mask(queries: int, keys: int, device: torch.device | None = None) -> Tensor:
    """(1, 1, t, s): a query sees the keys up to its own. If keys are more than queries, the queries are the last."""
    t = torch.arange(keys - queries, keys, device=device)
    s = torch.arange(keys, device=device)
    return (s[None, :] <= t[:, None])[None, None]


def block_mask(block_bt: Tensor, block_bs: Tensor | None = None) -> Tensor:
    """(b, 1, t, s): several texts packed into one row; each sees its own block. Blocks count from 1; 0 is padding.

    `block_bs`: the blocks of a memory, where it is not the text itself that is looked at.
    """
    keys = block_bt if block_bs is None else block_bs
    same = block_bt[:, :, None] == keys[:, None, :]
    return (same & (keys > 0)[:, None, :])[:, None]
