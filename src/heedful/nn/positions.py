"""Where a token stands: sinusoidal and rotary positions (learned ones are a table in `embeddings`).

Letters as in `attention`; p is a position, d an even width.
"""

import torch
from torch import Tensor, nn

from heedful.nn.attention import Attend, Places, fused_dot_product


def frequencies(d: int, base: float = 10000.0) -> Tensor:
    """ω_i = base^(−2i/d), i = 0 … d/2 − 1: one frequency for each pair of coordinates."""
    return base ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)


def angles(positions: Tensor, d: int, base: float = 10000.0) -> Tensor:
    """p ω_i, (…, d/2). In double precision on the CPU: not every device has it, and far positions need it."""
    return positions.cpu().double()[..., None] * frequencies(d, base)


def sinusoidal(positions: Tensor, d: int) -> Tensor:
    """ "Attention Is All You Need", section 3.5: PE(p, 2i) = sin(p ω_i), PE(p, 2i+1) = cos(p ω_i). (…, d), double."""
    angle = angles(positions, d)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)


class SinusoidalPositions(nn.Module):
    """In the place of a table of positions: nothing to learn, and no position is too far."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, positions: Tensor) -> Tensor:
        return sinusoidal(positions, self.width).to(positions.device)


def rotate(x_bhtk: Tensor, positions: Tensor, base: float = 10000.0) -> Tensor:
    """Turn each pair (x_2i, x_2i+1) by the angle p ω_i ("RoFormer", eq. 34): dot products then see p − p′ alone.

    `positions` are the same for all texts (t), or each text's own (b, t).
    """
    angle = angles(positions, x_bhtk.shape[-1], base)
    if positions.ndim == 2:
        angle = angle[:, None]
    cos, sin = angle.cos().to(x_bhtk), angle.sin().to(x_bhtk)
    even, odd = x_bhtk[..., 0::2], x_bhtk[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)


class RotaryAttention(nn.Module):
    """Queries and keys are rotated by their positions, then attend as `attend` does."""

    def __init__(self, base: float = 10000.0, attend: Attend = fused_dot_product) -> None:
        super().__init__()
        self.base, self.attend = base, attend

    def forward(
        self,
        q_bhtk: Tensor,
        k_bhsk: Tensor,
        v_bhsk: Tensor,
        mask: Tensor | None,
        places: Places,
        dropout: float,
        want_weights: bool,
    ) -> tuple[Tensor, Tensor | None]:
        q, k = rotate(q_bhtk, places[0], self.base), rotate(k_bhsk, places[1], self.base)
        return self.attend(q, k, v_bhsk, mask, places, dropout, want_weights)
