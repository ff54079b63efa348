"""Where a token stands: sinusoidal, rotary and relative positions (learned ones are a table in `embeddings`).

Letters as in `attention`; p is a position, d an even width.
"""

import torch
from torch import Tensor, nn

from heedful.nn.attention import Attend, DotProduct, Places, fused_dot_product
from heedful.nn.initial import Scale, draw_table


def frequencies(d: int, base: float = 10000.0) -> Tensor:
    """ω_i = base^(−2i/d), i = 0 … d/2 − 1: one frequency for each pair of coordinates."""
    return base ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)


def angles(positions: Tensor, d: int, base: float = 10000.0) -> Tensor:
    """p ω_i, (…, d/2). In double precision on the CPU: not every device has it, and far positions need it."""
    return positions.cpu().double()[..., None] * frequencies(d, base)


def sinusoidal(positions: Tensor, d: int, halves: bool = False) -> Tensor:
    """ "Attention Is All You Need", section 3.5: PE(p, 2i) = sin(p ω_i), PE(p, 2i+1) = cos(p ω_i). (…, d), double.

    `halves`: the same numbers with all sines first, then all cosines, as tensor2tensor and Marian have them.
    """
    angle = angles(positions, d)
    if halves:
        return torch.cat([angle.sin(), angle.cos()], dim=-1)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)


class SinusoidalPositions(nn.Module):
    """In the place of a table of positions: nothing to learn, and no position is too far."""

    def __init__(self, width: int, halves: bool = False) -> None:
        super().__init__()
        self.width, self.halves = width, halves

    def forward(self, positions: Tensor) -> Tensor:
        return sinusoidal(positions, self.width, self.halves).to(positions.device)


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


def bucket_edges(buckets: int, farthest: int) -> tuple[int, ...]:
    """The first distance of each bucket but the first ("Exploring the Limits of Transfer Learning", section 2.1): half
    of the buckets have one distance each, the others grow by a constant factor up to `farthest`, the rest is the last.

    In whole numbers: edge k of the n growing ones is the first distance p with pⁿ ≥ exact^(n−k) farthest^k.
    """
    exact = buckets // 2
    n = buckets - exact
    if not 0 < exact < farthest:
        raise ValueError(f"{buckets} buckets cannot reach to a distance of {farthest}")
    edges, p = list(range(1, exact + 1)), exact
    for k in range(1, n):
        while p**n < exact ** (n - k) * farthest**k:
            p += 1
        edges.append(p)
    return tuple(edges)


class RelativeAttention(nn.Module):
    """softmax(QKᵀ/√d_k + B) V, B a learned bias for each head and each bucket of distances between query and key.

    Not `both_ways`: all buckets are for the past, as in a body in which nothing else is seen. Both ways: one half is
    for the keys up to the query, the other for those after it.
    """

    def __init__(
        self,
        heads: int,
        both_ways: bool,
        buckets: int = 32,
        farthest: int = 128,
        attend: DotProduct = fused_dot_product,
    ) -> None:
        super().__init__()
        self.both_ways, self.attend = both_ways, attend
        self.per_way = buckets // 2 if both_ways else buckets
        self.edges = bucket_edges(self.per_way, farthest)
        self.table = nn.Embedding(buckets, heads)

    def buckets(self, places: Places) -> Tensor:
        """Of each query and key, (t, s) or (b, t, s)."""
        ahead = places[1][..., None, :] - places[0][..., :, None]
        distance = ahead.abs() if self.both_ways else (-ahead).clamp(min=0)
        bucket = torch.bucketize(distance, torch.tensor(self.edges, device=ahead.device), right=True)
        return bucket + self.per_way * (ahead > 0) if self.both_ways else bucket

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
        bias_bhts = self.table(self.buckets(places)).movedim(-1, -3)
        return self.attend(q_bhtk, k_bhsk, v_bhsk, mask, places, dropout, want_weights, bias_bhts)

    def draw(self, generator: torch.Generator, scale: Scale) -> None:
        draw_table(self.table, generator, scale.sigma)
