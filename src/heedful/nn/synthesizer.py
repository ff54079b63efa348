"""Synthesizers ("Synthesizer: Rethinking Self-Attention", 2020): attention whose weights do not compare tokens.

Letters as in `attention`; p are the positions that there are scores for. A key is addressed by the position at which it
stands in its text, so that texts that are padded, packed or read step by step have the weights that they have alone.
"""

from typing import Protocol

import torch
from torch import Tensor, nn

from heedful.nn.attention import (
    UNCHANGED,
    Attended,
    AttentionChanges,
    KeysValues,
    Places,
    attend_by_scores,
    join_heads,
    split_heads,
)
from heedful.nn.initial import Scale, draw_linear
from heedful.nn.linear import Linear


class Scores(Protocol):
    """What takes the place of QKᵀ: scores that broadcast to (b, h, t, s), from the states of the queries and places."""

    def __call__(self, x_btd: Tensor, places: Places) -> Tensor: ...

    def draw(self, generator: torch.Generator, scale: Scale) -> None: ...


class DenseScores(nn.Module):
    """relu(x W₁ + b₁) W₂ + b₂ in each head: what a query thinks of each position, from its own state alone."""

    def __init__(self, width: int, heads: int, positions: int) -> None:
        super().__init__()
        self.heads = heads
        self.up = nn.Linear(width, width)  # W₁ and b₁ of all heads side by side
        self.weight = nn.Parameter(torch.empty(heads, width // heads, positions))
        self.bias = nn.Parameter(torch.empty(heads * positions))  # in one row, as biases are

    def forward(self, x_btd: Tensor, places: Places) -> Tensor:
        z_bhtk = split_heads(torch.relu(self.up(x_btd)), self.heads)
        weight_hkp, bias_h1p = self.weight, self.bias.view(self.heads, 1, -1)
        keys = places[1]
        if keys.ndim == 1:
            return z_bhtk @ weight_hkp[..., keys] + bias_h1p[..., keys]
        scores_bhtp = z_bhtk @ weight_hkp + bias_h1p
        return scores_bhtp.gather(-1, keys[:, None, None].expand(*scores_bhtp.shape[:3], -1))

    @torch.no_grad()
    def draw(self, generator: torch.Generator, scale: Scale) -> None:
        draw_linear(self.up, generator, scale.sigma)
        self.weight.normal_(0.0, scale.sigma, generator=generator)
        self.bias.zero_()


class RandomScores(nn.Module):
    """R: a learned score for each head, position of the query and position of the key, the same for all texts."""

    def __init__(self, heads: int, positions: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(heads, positions, positions))

    def forward(self, x_btd: Tensor, places: Places) -> Tensor:
        queries, keys = places
        rows_htp = self.table.index_select(1, queries.flatten())
        if queries.ndim == keys.ndim == 1:
            return rows_htp.index_select(2, keys)[None]
        b, t = x_btd.shape[:2]
        rows_bhtp = rows_htp.view(len(rows_htp), -1, t, rows_htp.shape[-1]).transpose(0, 1).expand(b, -1, -1, -1)
        return rows_bhtp.gather(-1, keys.expand(b, -1)[:, None, None].expand(*rows_bhtp.shape[:3], -1))

    @torch.no_grad()
    def draw(self, generator: torch.Generator, scale: Scale) -> None:
        self.table.normal_(0.0, scale.sigma, generator=generator)


class Synthesizer(nn.Module):
    """Concat(head₁ … head_h) W_O, head_i = softmax(scores_i) x W_V. It is called as `MultiHeadAttention` is.

    It has no keys: of the past, what it keeps in their place is empty.
    """

    def __init__(self, width: int, heads: int, scores: Scores, dropout: float = 0.0) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"a width of {width} cannot be divided among {heads} heads")
        self.heads, self.dropout = heads, dropout
        self.scores = scores
        self.value = Linear(width, width)
        self.output = Linear(width, width)

    def forward(
        self,
        x_btd: Tensor,
        whole_bsd: Tensor | None = None,
        mask: Tensor | None = None,
        places: Places | None = None,
        past: KeysValues | None = None,
        want_weights: bool = False,
        changes: AttentionChanges = UNCHANGED,
    ) -> Attended:
        v_bhsk = split_heads(self.value(x_btd if whole_bsd is None else whole_bsd), self.heads)
        if past is not None:
            v_bhsk = torch.cat([past.v_bhsk, v_bhsk], dim=2)
        if places is None:
            t, s = (torch.arange(n, device=x_btd.device) for n in (x_btd.shape[1], v_bhsk.shape[2]))
            places = t, s
        # Of its own for each text, even where all have the same scores: dropout is.
        scores_bhts = self.scores(x_btd, places).expand(len(x_btd), -1, -1, -1)
        dropout = self.dropout if self.training else 0.0
        y_bhtk, weights = attend_by_scores(scores_bhts, v_bhsk, mask, dropout, want_weights)
        return Attended(self.output(join_heads(y_bhtk), changes.output), weights, KeysValues(v_bhsk[..., :0], v_bhsk))

    def draw(self, generator: torch.Generator, scale: Scale) -> None:
        self.scores.draw(generator, scale)
        draw_linear(self.value, generator, scale.sigma)
        draw_linear(self.output, generator, scale.residual)
