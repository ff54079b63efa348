"""Where a token stands: sinusoidal and rotary positions (learned ones are a table in `embeddings`).

Letters as in `attention`; p is a position, d an even width.
"""

import torch
from torch import Tensor, nn

from heedful.nn.attention import Attend, Places, fused_dot_product


def frequencies(d: int, base: float = 10000.0) -> Tensor:
    """ω_i = base^(−2i/d), i = 0 … d/2 − 1: one frequency for each pair of coordinates."""
    return base ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)


def sinusoidal(positions: int, d: int) -> Tensor:
    """The table of "Attention Is All You Need", section 3.5: PE(p, 2i) = sin(p ω_i), PE(p, 2i+1) = cos(p ω_i)."""
    angle_pi = torch.arange(positions, dtype=torch.float64)[:, None] * frequencies(d)
    return torch.stack([angle_pi.sin(), angle_pi.cos()], dim=-1).flatten(1).float()


def rotate(x_bhtk: Tensor, positions_t: Tensor, base: float = 10000.0) -> Tensor:
    """Turn each pair (x_2i, x_2i+1) by the angle p ω_i ("RoFormer", eq. 34): dot products then see p − p′ alone."""
    # In double precision on the CPU: not every device has it, and far positions need it.
    angle_ti = positions_t.cpu().double()[..., None] * frequencies(x_bhtk.shape[-1], base)
    cos, sin = angle_ti.cos().to(x_bhtk), angle_ti.sin().to(x_bhtk)
    even, odd = x_bhtk[..., 0::2], x_bhtk[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)


class RotaryAttention(nn.Module):
    """A kind of attention: queries and keys are rotated by their positions, then attend as `attend` does."""

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
