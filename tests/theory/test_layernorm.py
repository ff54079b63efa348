"""Negative controls of the chapter on LayerNorm: another normalisation, or a wrong bound, is found."""

from types import ModuleType

import pytest
import torch
from torch import Tensor

from heedful.theory.demonstrations import layernorm_gain, layernorm_length, layernorm_mean, layernorm_two
from heedful.theory.directions import basis, curvatures, extremes
from heedful.theory.draws import normal


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(5)


def unbiased(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    return gain * (x - x.mean(dim=-1, keepdim=True)) / (x.var(dim=-1, keepdim=True) + eps).sqrt() + bias


def eps_outside(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    deviation = x.std(dim=-1, correction=0, keepdim=True)
    return gain * (x - x.mean(dim=-1, keepdim=True)) / (deviation + eps) + bias


def bias_first(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    deviation = (x.var(dim=-1, correction=0, keepdim=True) + eps).sqrt()
    return gain * ((x - x.mean(dim=-1, keepdim=True)) / deviation + bias)


def uncentred(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    """RMSNorm: the same length, but another direction."""
    return gain * x / ((x**2).mean(dim=-1, keepdim=True) + eps).sqrt() + bias


@pytest.mark.parametrize(
    ("module", "wrong", "broken"),
    [
        (layernorm_length, unbiased, [0, 1, 2]),
        (layernorm_length, eps_outside, [1, 2]),
        (layernorm_two, unbiased, [0, 1, 2]),
        (layernorm_two, eps_outside, [2]),
        (layernorm_two, bias_first, [1]),
        (layernorm_two, uncentred, [0, 1, 2]),
        (layernorm_gain, bias_first, [0, 5, 6]),
        (layernorm_gain, uncentred, [6]),
        (layernorm_mean, unbiased, [0, 1, 2, 3]),
        (layernorm_mean, bias_first, [3]),
    ],
)
def test_another_normalisation_is_found(
    module: ModuleType, wrong: object, broken: list[int], monkeypatch: pytest.MonkeyPatch, generator: torch.Generator
) -> None:
    monkeypatch.setattr(module, "layer_norm", wrong)
    checks = module.show(1000, generator).checks
    assert [i for i, check in enumerate(checks) if not check.passed] == broken


def test_the_bounds_are_those_of_a_search(generator: torch.Generator) -> None:
    """Steps along the sphere, each of which makes the vector longer or shorter, end where the bounds are."""
    gain, bias = normal(generator, 8, 5), normal(generator, 8, 5)
    n, found = basis(5), extremes(gain, bias)
    for sign, wanted in ((1, found.longest), (-1, found.shortest)):
        z = normal(generator, 8, 16, 4)
        for _ in range(2000):
            x = 5**0.5 * z / z.norm(dim=-1, keepdim=True) @ n.T
            gradient = 2 * (gain[:, None] * (gain[:, None] * x + bias[:, None])) @ n
            z = z / z.norm(dim=-1, keepdim=True) + 0.02 * sign * gradient
        x = 5**0.5 * z / z.norm(dim=-1, keepdim=True) @ n.T
        reached = (gain[:, None] * x + bias[:, None]).norm(dim=-1)
        best = reached.amax(dim=-1) if sign > 0 else reached.amin(dim=-1)
        assert torch.allclose(best, wanted, atol=1e-3)


def test_a_wrong_bound_is_found(monkeypatch: pytest.MonkeyPatch, generator: torch.Generator) -> None:
    """The eigenvalues without the condition Σx̂ = 0 are not the tight ones."""
    monkeypatch.setattr(layernorm_gain, "curvatures", lambda gain: (gain**2).sort(dim=-1).values[:, :-1])
    checks = layernorm_gain.show(1000, generator).checks
    assert not checks[4].passed
    assert torch.allclose(curvatures(torch.ones(1, 4, dtype=torch.float64)), torch.ones(1, 3, dtype=torch.float64))
