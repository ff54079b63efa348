"""Adapters: bottlenecks between a sublayer and the stream (Houlsby et al., 2019; Pfeiffer et al., 2021), their fusion
by attention (AdapterFusion, 2021), and low-rank changes of linear maps (LoRA, 2021).

A bottleneck changes how a sublayer joins the residual stream (`heedful.nn.norms.Slot`); y is the sublayer's output, x
the stream, norm the layer norm that follows, if one does. A pass is given plain functions of modules that belong to the
model's adapters, so that several passes with different adapters can share a body at the same time.

Letters: b batch, t tokens, d width, n adapters that are fused, r rank.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from heedful.nn.activations import Activation
from heedful.nn.dropout import Dropout
from heedful.nn.norms import LayerNorm, add

AdapterReads = Literal["output", "normed-sum", "stream"]
AdapterResidual = Literal["output", "sum", "input"]
Initial = Literal["zero", "normal", "truncated"]
Scaling = float | Literal["learned", "channel"]
_NORM_EPS = 1e-5
_SIGMA = {"normal": 0.02, "truncated": 0.01}


class Bottleneck(nn.Module):
    """s · (W_up φ(W_down h + b) + c), added to a residual.

    `reads` says what h is: the sublayer's output y (Houlsby), the normalised sum norm(x + y) (Pfeiffer), or the stream
    x (in parallel to the sublayer). `residual` says what it is added to: y, the sum x + y, or h itself. A parallel one
    is added to y.
    """

    def __init__(
        self,
        width: int,
        inner: int,
        activation: Activation,
        reads: AdapterReads = "normed-sum",
        residual: AdapterResidual = "output",
        norm_before: bool = False,
        norm_after: bool = False,
        residual_before_norm: bool = False,
        scaling: Scaling = 1.0,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.reads, self.residual = reads, residual
        self.norm_before = LayerNorm(width, _NORM_EPS) if norm_before else None
        self.down = nn.Linear(width, inner)
        self.activation = activation
        self.up = nn.Linear(inner, width)
        self.norm_after = LayerNorm(width, _NORM_EPS) if norm_after else None
        self.residual_before_norm = residual_before_norm
        self.scaling: float | nn.Parameter = (
            scaling if isinstance(scaling, float) else nn.Parameter(torch.ones(width if scaling == "channel" else 1))
        )
        self.dropout = Dropout(dropout)

    def forward(self, y: Tensor, x: Tensor, norm: nn.Module | None) -> Tensor:
        """What takes the place of y."""
        h, residual = self.enter(y, x, norm)
        return self.leave(self.change(h), residual)

    def enter(self, y: Tensor, x: Tensor, norm: nn.Module | None) -> tuple[Tensor, Tensor]:
        """What the bottleneck reads, and what its output is added to."""
        if self.reads == "stream":
            return x, y
        h = y if self.reads == "output" else add(y, x, norm)
        return h, {"output": lambda: y, "sum": lambda: x + y, "input": lambda: h}[self.residual]()

    def change(self, h: Tensor) -> Tensor:
        """What fusion attends to: the output without dropout and residual."""
        if self.norm_before is not None:
            h = self.norm_before(h)
        up: Tensor = self.up(self.activation(self.down(h)))
        return up if isinstance(self.scaling, float) and self.scaling == 1.0 else up * self.scaling

    def leave(self, change: Tensor, residual: Tensor) -> Tensor:
        change = self.dropout(change)
        if self.norm_after is None:
            return residual + change
        if self.residual_before_norm and self.reads != "stream":
            return self.norm_after(residual + change)  # type: ignore[no-any-return]
        return residual + self.norm_after(change)  # type: ignore[no-any-return]

    @torch.no_grad()
    def draw(self, generator: torch.Generator, initial: Initial) -> None:
        """ "zero": W_up = 0, so that it changes nothing at first; "normal": both N(0, 0.02²); "truncated": both
        N(0, 0.01²) cut off at two deviations."""
        for linear in (self.down, self.up):
            if initial == "truncated":
                sigma = _SIGMA[initial]
                nn.init.trunc_normal_(linear.weight, 0.0, sigma, -2 * sigma, 2 * sigma, generator=generator)
            elif initial == "zero" and linear is self.up:
                linear.weight.zero_()
            elif initial == "zero":
                bound = 1 / math.sqrt(linear.in_features)
                linear.weight.uniform_(-bound, bound, generator=generator)
            else:
                linear.weight.normal_(0.0, _SIGMA["normal"], generator=generator)
            linear.bias.zero_()
        for norm in (self.norm_before, self.norm_after):
            if norm is not None:
                norm.draw(generator)
        if isinstance(self.scaling, nn.Parameter):
            self.scaling.fill_(1.0)


class Fusion(nn.Module):
    """softmax_n(Q h · K u_n) over adapters n, V Σ_n p_n u_n, added to the residual; u_n is what adapter n would add.

    K and V are applied once for each token, not once for each adapter: (Q h) · (K u + k) = (Kᵀ Q h) · u + (Q h) · k.
    """

    def __init__(
        self,
        width: int,
        query: bool = True,
        key: bool = True,
        value: bool = True,
        query_before: bool = False,
        residual_before: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.query = nn.Linear(width, width) if query else None
        self.key = nn.Linear(width, width) if key else None
        self.value = nn.Linear(width, width, bias=False) if value else None
        self.query_before, self.residual_before = query_before, residual_before
        self.dropout = Dropout(dropout)

    def forward(self, query_btd: Tensor, change_btnd: Tensor, residual_btd: Tensor) -> Tensor:
        if self.residual_before:
            change_btnd = change_btnd + residual_btd[:, :, None]
        weights_btn = self.weights(query_btd, change_btnd)
        y_btd = (weights_btn[:, :, None] @ change_btnd)[:, :, 0]
        if self.value is not None:
            y_btd = self.value(y_btd)
        return y_btd if self.residual_before else y_btd + residual_btd

    def weights(self, query_btd: Tensor, change_btnd: Tensor) -> Tensor:
        """(b, t, n): how much each adapter counts at each token."""
        q_btd = query_btd if self.query is None else self.query(query_btd)
        at_bt1: Tensor | float = 0.0
        if self.key is not None:
            at_bt1 = (q_btd @ self.key.bias)[:, :, None]
            q_btd = q_btd @ self.key.weight
        scores_btn = (change_btnd @ q_btd[..., None])[..., 0] + at_bt1
        return torch.softmax(self.dropout(scores_btn), dim=-1)

    def penalty(self) -> Tensor:
        """‖I − V‖², the squared distance of V from where it began."""
        if self.value is None:
            return torch.zeros(())
        v_dd = self.value.weight
        return ((torch.eye(len(v_dd), device=v_dd.device, dtype=v_dd.dtype) - v_dd) ** 2).sum()

    @torch.no_grad()
    def draw(self, generator: torch.Generator, value_is_identity: bool = True) -> None:
        """Q and K N(0, 0.02²); V the identity with 1e-6 beside its diagonal, or drawn likewise."""
        for linear in (self.query, self.key):
            if linear is not None:
                linear.weight.normal_(0.0, _SIGMA["normal"], generator=generator)
                linear.bias.zero_()
        if self.value is not None and value_is_identity:
            self.value.weight.fill_(1e-6).fill_diagonal_(1.0)
        elif self.value is not None:
            self.value.weight.normal_(0.0, _SIGMA["normal"], generator=generator)


class LowRank(nn.Module):
    """s · B A x: a change of rank r of a linear map."""

    def __init__(self, width: int, out: int, rank: int, scaling: float, dropout: float = 0.0) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.empty(rank, width))
        self.b = nn.Parameter(torch.empty(out, rank))
        self.scaling = scaling
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, rows: slice = slice(None)) -> Tensor:
        """`rows`: of the output, those that are wanted."""
        return nn.functional.linear(nn.functional.linear(self.dropout(x), self.a), self.b[rows]) * self.scaling

    def product(self) -> Tensor:
        """What it adds to the matrix, in double precision so that adding it rounds once."""
        return self.scaling * (self.b.double() @ self.a.double())

    @torch.no_grad()
    def draw(self, generator: torch.Generator) -> None:
        """B = 0, so that it changes nothing at first; A uniform within ± 1/√width."""
        bound = 1 / math.sqrt(self.a.shape[1])
        self.a.uniform_(-bound, bound, generator=generator)
        self.b.zero_()


Change = Callable[[Tensor, Tensor, nn.Module | None], Tensor]
"""From y, x and the norm to what takes the place of y."""


@dataclass(frozen=True)
class Adapted:
    """A slot with adapters: changes of y one after another, then the sum with the stream and the norm."""

    changes: tuple[Change, ...]
    joined: bool = True
    """False: the last adapter's output is the stream, with neither sum nor norm."""

    def __call__(self, y: Tensor, x: Tensor, norm: nn.Module | None) -> Tensor:
        for change in self.changes:
            y = change(y, x, norm)
        return add(y, x, norm) if self.joined else y


@dataclass(frozen=True)
class Fused:
    """Several bottlenecks that read the same, and the fusion that weighs them at each token."""

    adapters: Sequence[Bottleneck]
    fusion: Fusion

    def __call__(self, y: Tensor, x: Tensor, norm: nn.Module | None) -> Tensor:
        query_btd, change_btnd, residual_btd = self._inputs(y, x, norm)
        return self.fusion(query_btd, change_btnd, residual_btd)  # type: ignore[no-any-return]

    def weights(self, y: Tensor, x: Tensor, norm: nn.Module | None) -> Tensor:
        query_btd, change_btnd, residual_btd = self._inputs(y, x, norm)
        if self.fusion.residual_before:
            change_btnd = change_btnd + residual_btd[:, :, None]
        return self.fusion.weights(query_btd, change_btnd)

    def _inputs(self, y: Tensor, x: Tensor, norm: nn.Module | None) -> tuple[Tensor, Tensor, Tensor]:
        h, residual = self.adapters[-1].enter(y, x, norm)
        change_btnd = torch.stack([adapter.change(h) for adapter in self.adapters], dim=2)
        return y if self.fusion.query_before else h, change_btnd, residual


@dataclass(frozen=True)
class Averaged:
    """The weighted mean of what several bottlenecks, which read the same, make of y."""

    adapters: Sequence[Bottleneck]
    weights: Sequence[float]

    def __call__(self, y: Tensor, x: Tensor, norm: nn.Module | None) -> Tensor:
        h, residual = self.adapters[0].enter(y, x, norm)
        parts = (w * a.leave(a.change(h), residual) for a, w in zip(self.adapters, self.weights, strict=True))
        return sum(parts, torch.zeros((), dtype=y.dtype, device=y.device))


@dataclass(frozen=True)
class LinearDelta:
    """The low-rank changes of one linear map, added up with their weights."""

    parts: tuple[tuple[LowRank, float], ...]

    def __call__(self, x: Tensor) -> Tensor:
        return _weighted([(part(x), weight) for part, weight in self.parts])


@dataclass(frozen=True)
class QueryKeyValueDelta:
    """The low-rank changes of queries (0), keys (1) and values (2), or of all three at once (None)."""

    parts: Mapping[int | None, tuple[tuple[LowRank, float], ...]]

    def __call__(self, x_btd: Tensor, third: int) -> Tensor | float:
        d = x_btd.shape[-1]
        own = [(part(x_btd), weight) for part, weight in self.parts.get(third, ())]
        of_all = [(part(x_btd, slice(third * d, (third + 1) * d)), weight) for part, weight in self.parts.get(None, ())]
        return _weighted([*own, *of_all]) if own or of_all else 0.0


def _weighted(parts: Sequence[tuple[Tensor, float]]) -> Tensor:
    """Σ w y, where a weight of 1 costs nothing."""
    total: Tensor | None = None
    for y, weight in parts:
        y = y if weight == 1.0 else y * weight
        total = y if total is None else total + y
    assert total is not None
    return total
