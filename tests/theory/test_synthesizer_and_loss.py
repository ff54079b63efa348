"""Negative controls of the chapters on the Synthesizer and on the masked-word loss: a wrong constant is found."""

import pytest
import torch
import torch.nn.functional as F

from heedful.theory.demonstration import Check
from heedful.theory.demonstrations import masked_word_loss as loss
from heedful.theory.demonstrations import synthesizer_lookup as synthesizer


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(5)


def test_a_synthesizer_that_sees_its_neighbour_is_found(
    monkeypatch: pytest.MonkeyPatch, generator: torch.Generator
) -> None:
    right = synthesizer.DenseSynthesizer.__call__
    monkeypatch.setattr(
        synthesizer.DenseSynthesizer, "__call__", lambda self, x: right(self, x + 0.1 * x.roll(1, dims=1))
    )
    passed = [check.passed for check in synthesizer.show(1000, generator).checks]
    assert passed[:2] == [False, False]


def test_a_smaller_share_than_one_in_n_is_broken(monkeypatch: pytest.MonkeyPatch, generator: torch.Generator) -> None:
    """The bound is reached: one text of N is right in most draws, so that a smaller one does not hold."""
    monkeypatch.setattr(synthesizer, "BEST", 1 / 7)
    checks = synthesizer.show(1000, generator).checks
    assert not any(check.passed for check in checks[2:5])


def test_attention_with_a_smaller_factor_is_not_near_enough(
    monkeypatch: pytest.MonkeyPatch, generator: torch.Generator
) -> None:
    monkeypatch.setattr(synthesizer.math, "log", lambda x: 10.0)
    checks = synthesizer._attention(*synthesizer.texts(1000, generator)[::2], 1000, generator)
    assert [check.passed for check in checks] == [False, False]


def test_the_mean_is_not_the_sum(monkeypatch: pytest.MonkeyPatch, generator: torch.Generator) -> None:
    right = F.cross_entropy
    monkeypatch.setattr(loss.F, "cross_entropy", lambda *given, reduction: right(*given, reduction=reduction) / 2)
    passed = [check.passed for check in loss.show(1000, generator).checks]
    assert passed == [False, True, True, True, True]


def test_a_head_that_mixes_rows_is_found(monkeypatch: pytest.MonkeyPatch, generator: torch.Generator) -> None:
    right = loss.MaskedWordHead.forward
    monkeypatch.setattr(
        loss.MaskedWordHead,
        "forward",
        lambda self, x, table: right(self, x + 0.1 * x.mean(dim=-2, keepdim=True), table),
    )
    assert not any(check.passed for check in loss.show(1000, generator).checks[1:])


def test_the_sum_of_products_is_not_chi_squared_alone(
    monkeypatch: pytest.MonkeyPatch, generator: torch.Generator
) -> None:
    right = loss.chi_squared
    monkeypatch.setattr(loss, "chi_squared", lambda joint: 0.9 * right(joint))
    failed = [check.statement for check in loss.show(1000, generator).limits if not check.passed]
    assert len(failed) == 1
    assert "1 + χ²" in failed[0]
    joint = torch.full((1, 3, 3), 1 / 9, dtype=torch.float64)
    assert Check("", (loss.products(joint).sum(dim=(1, 2)) - 1).abs(), 1e-12).passed  # independent words
