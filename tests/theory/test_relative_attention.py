"""Negative controls of the chapter on relative attention: a wrong constant is found."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from heedful.theory.demonstration import Check
from heedful.theory.demonstrations import relative_convolution as convolution
from heedful.theory.demonstrations import relative_max_pooling as pooling
from heedful.theory.draws import normal


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(5)


@pytest.mark.parametrize(
    "wrong", [lambda kernel: kernel.log2(), lambda kernel: kernel.flip(-1).log()], ids=["base 2", "the wrong way round"]
)
def test_another_bias_is_not_the_convolution(
    monkeypatch: pytest.MonkeyPatch, generator: torch.Generator, wrong: Callable[[Tensor], Tensor]
) -> None:
    x, kernel = normal(generator, 1000, 9, 2), torch.rand(1000, 3, generator=generator, dtype=torch.float64)

    def broken() -> float:
        made = convolution.one_head(convolution.framed(x, 1), kernel)[:, 1:-1]
        return Check("", (made - convolution.convolved(x, kernel)).abs().flatten(1).amax(dim=1), 1e-3).broken

    assert broken() == 0
    monkeypatch.setattr(convolution, "bias_of", wrong)
    assert broken() > 0.9


def test_too_few_zero_tokens_are_found(generator: torch.Generator) -> None:
    x, kernel = normal(generator, 1000, 9, 2), torch.rand(1000, 7, generator=generator, dtype=torch.float64)
    padded = convolution.one_head(convolution.framed(x, 2), kernel)[:, 2:-2]
    difference = (padded - convolution.convolved(x, kernel)).abs().flatten(1).amax(dim=1)
    assert Check("", difference, 1e-3).broken > 0.9


def test_a_bound_for_both_signs_that_is_too_high_is_found(generator: torch.Generator) -> None:
    """By a hundredth of a per cent, in every draw: one kernel of one sign comes as near as the bound says."""
    kernel = normal(generator, 1000, 7)
    kernel[:, 0], kernel[:, 1] = kernel[:, 0].abs(), -kernel[:, 1].abs()
    bound = torch.minimum(kernel.clamp(min=0).norm(dim=1), kernel.clamp(max=0).norm(dim=1))
    nearest = convolution.nearest(kernel, generator)
    assert Check("", bound - nearest, 1e-12).passed
    assert Check("", 1.0001 * bound - nearest, 1e-12).broken == 1


def test_half_the_needed_sharpness_is_not_enough(monkeypatch: pytest.MonkeyPatch, generator: torch.Generator) -> None:
    full = pooling.sharpness_for
    monkeypatch.setattr(pooling, "sharpness_for", lambda *given: full(*given) / 2)
    failed = [check.statement for check in pooling.show(1000, generator).checks if not check.passed]
    assert len(failed) == 1
    assert "C = ln((m − 1)R/τ)/g" in failed[0]


def test_the_bound_of_max_pooling_is_not_idle(generator: torch.Generator) -> None:
    """A tenth of it is broken: the worst windows come near the bound."""
    x = normal(generator, 1000, 5, 1)
    off = (pooling.windows(x)[..., 0] - pooling.constant_query(x, 1.0)).flatten(1).amax(dim=1)
    assert Check("", off - math.log(5) / 10, 0.0).broken > 0.5


def test_a_negative_constant_is_no_query_for_the_maximum(
    monkeypatch: pytest.MonkeyPatch, generator: torch.Generator
) -> None:
    right = pooling.constant_query
    monkeypatch.setattr(pooling, "constant_query", lambda x, c: right(x, -c))
    assert not pooling.show(1000, generator).checks[0].passed
