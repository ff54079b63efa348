"""Negative controls of the chapter on attention: another attention, a wrong constant, a published slip are found."""

import math
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from heedful.nn.attention import dot_product
from heedful.theory import lookup
from heedful.theory.demonstration import Check
from heedful.theory.demonstrations import (
    attention_addition,
    attention_average,
    attention_construction,
    attention_copy,
    attention_heads,
    attention_noise,
)


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(5)


def hotter(q: Tensor, *rest: Any) -> tuple[Tensor, Tensor | None]:
    """Scores that are 1 % too large."""
    return dot_product(1.01 * q, *rest)


def not_itself(q: Tensor, k: Tensor, v: Tensor, mask: None, *rest: Any) -> tuple[Tensor, Tensor | None]:
    """No token may look at itself."""
    other = ~torch.eye(q.shape[-2], k.shape[-2], dtype=torch.bool)
    return dot_product(q, k, v, other, *rest)


@pytest.mark.parametrize(
    ("module", "wrong", "broken"),
    [
        (attention_copy, hotter, [0, 2]),
        (attention_average, hotter, [0, 1, 2]),
        (attention_noise, hotter, [0]),
        (attention_heads, hotter, [0, 1]),
        (attention_construction, hotter, [0, 1, 3]),
        (attention_addition, not_itself, [0, 1, 2]),
    ],
)
def test_another_attention_is_found(
    module: ModuleType, wrong: object, broken: list[int], monkeypatch: pytest.MonkeyPatch, generator: torch.Generator
) -> None:
    monkeypatch.setattr(lookup, "dot_product", wrong)
    failed = [i for i, check in enumerate(module.show(1000, generator).checks) if not check.passed]
    assert set(broken) <= set(failed)


def test_larger_bounds_than_those_of_the_addition_are_found(generator: torch.Generator) -> None:
    for check in attention_addition.show(1000, generator).checks[3:]:
        assert check.passed
        assert not Check("", check.deviations + 0.02, check.tolerance).passed, check.statement


def test_another_variance_of_the_noise_is_found(monkeypatch: pytest.MonkeyPatch, generator: torch.Generator) -> None:
    right = attention_noise.normal
    monkeypatch.setattr(attention_noise, "normal", lambda g, *shape: 1.2 * right(g, *shape))
    assert not attention_noise.show(1000, generator).checks[2].passed


def test_another_variance_of_the_key_is_found(monkeypatch: pytest.MonkeyPatch, generator: torch.Generator) -> None:
    """Φ(−1) would be right for ε ~ N(1, 1)."""
    wrong = 0.5 * math.erfc(1 / math.sqrt(2))
    monkeypatch.setattr(attention_heads, "NEGATIVE", wrong)
    assert not attention_heads.show(1000, generator).checks[3].passed


def test_a_needed_margin_that_is_too_small_is_found(
    monkeypatch: pytest.MonkeyPatch, generator: torch.Generator
) -> None:
    right = lookup.margin
    for module in (attention_copy, attention_average):
        monkeypatch.setattr(module, "margin", lambda n, *rest, **more: right(n - 1, *rest, **more))
        failed = [check.statement for check in module.show(1000, generator).checks if not check.passed]
        assert any("gives the weight" in statement for statement in failed)


def test_the_error_of_the_construction_is_not_smaller(
    monkeypatch: pytest.MonkeyPatch, generator: torch.Generator
) -> None:
    """√2 is that of c₂; c₁ has √5."""
    monkeypatch.setattr(attention_construction.math, "sqrt", lambda x: 2**0.5 if x == 5 else x**0.5)
    failed = [check.statement for check in attention_construction.show(1000, generator).checks if not check.passed]
    assert len(failed) == 2
    assert failed[0].startswith("β = √ln(√5/ε − 2)")
