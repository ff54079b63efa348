"""The vectors that LayerNorm leaves, Σx̂ = 0 and ‖x̂‖ = √d: a basis, and where γ∘x̂ + β is shortest and longest."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.linalg import vector_norm


def basis(d: int) -> Tensor:
    """(d, d − 1): columns that are orthonormal and orthogonal to 𝟏. Column j has j + 1 equal entries and then their
    counterweight."""
    equal = torch.triu(torch.ones(d, d - 1, dtype=torch.float64))
    counterweight = torch.diag(torch.arange(1, d, dtype=torch.float64), -1)[:, : d - 1]
    columns = equal - counterweight
    return torch.div(columns, vector_norm(columns, dim=0))


def curvatures(gain: Tensor) -> Tensor:
    """(b, d − 1): for each row of γ the eigenvalues of diag(γ²) on the vectors orthogonal to 𝟏, the smallest first."""
    found: Tensor = torch.linalg.eigvalsh(_on_the_plane(gain))
    return found


@dataclass(frozen=True)
class Extremes:
    """The shortest and the longest of γ∘x̂ + β, and the x̂ where they are."""

    shortest: Tensor
    longest: Tensor
    at_shortest: Tensor
    at_longest: Tensor


def extremes(gain: Tensor, bias: Tensor) -> Extremes:
    """For each row of γ and of β, neither of which may be 0."""
    d = gain.shape[-1]
    n = basis(d)
    curvature, axes = torch.linalg.eigh(_on_the_plane(gain))
    pull = (axes.mT @ ((gain * bias) @ n)[:, :, None])[..., 0]
    at = [(axes @ _stationary(curvature, pull, d, side)[:, :, None])[..., 0] @ n.T for side in (-1, 1)]
    lengths = [vector_norm(gain * x + bias, dim=-1) for x in at]
    return Extremes(lengths[0], lengths[1], at[0], at[1])


def _on_the_plane(gain: Tensor) -> Tensor:
    n = basis(gain.shape[-1])
    return n.T @ torch.diag_embed(gain**2) @ n


def _stationary(curvature: Tensor, pull: Tensor, d: int, side: int) -> Tensor:
    """z with ‖z‖² = d and (m − λ) z = pull, where m lies beyond all λ, above or below; found by halving."""
    edge = curvature[:, -1] if side > 0 else curvature[:, 0]
    near, far = torch.zeros_like(edge), vector_norm(pull, dim=-1) / d**0.5  # m − edge; at `far` ‖z‖ is √d at the most

    def z(beyond: Tensor) -> Tensor:
        return pull / ((edge + side * beyond)[:, None] - curvature)

    for _ in range(100):
        middle = (near + far) / 2
        long = vector_norm(z(middle), dim=-1) > d**0.5
        near, far = torch.where(long, middle, near), torch.where(long, far, middle)
    return z(far)
