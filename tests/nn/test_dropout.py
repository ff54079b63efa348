"""Dropout: the share it drops, its scale, its gradient, and what it depends on."""

import numpy as np
import pytest
import torch
from scipy import stats

from heedful.nn.dropout import Dropout, dropout

SHAPES = [(7, 11), (130, 129), (3, 100, 257)]  # the first below the size from which the fast way is taken


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_an_element_is_dropped_or_scaled_and_so_is_its_gradient(shape: tuple[int, ...], p: float) -> None:
    torch.manual_seed(0)
    x = (torch.rand(shape, dtype=torch.float64) + 1).requires_grad_()
    y = dropout(x, p)
    y.backward(torch.full_like(y, 3.0))
    kept = y != 0
    scale = 1 / (1 - p)
    assert torch.allclose(y[kept], x[kept] * scale, rtol=1e-4)
    assert x.grad is not None
    assert torch.allclose(x.grad, kept.double() * (3 * scale), rtol=1e-4)
    assert stats.binomtest(int((~kept).sum()), kept.numel(), p).pvalue > 1e-4
    if x.numel() >= 8192:  # the mean over many draws is x: the scale is that of the share really dropped
        mean = torch.stack([dropout(x.detach(), p) for _ in range(400)]).mean()
        error = float(x.detach().square().mean() * p / (1 - p) / (400 * x.numel())) ** 0.5
        assert abs(float(mean - x.detach().mean())) < 5 * error


def test_elements_are_dropped_independently() -> None:
    torch.manual_seed(1)
    masks = torch.stack([dropout(torch.ones(128, 128), 0.5).flatten() > 0 for _ in range(200)]).double().numpy()
    neighbours = [np.corrcoef(masks[:, :-gap].ravel(), masks[:, gap:].ravel())[0, 1] for gap in (1, 2, 4, 128)]
    draws = np.corrcoef(masks[:-1].ravel(), masks[1:].ravel())[0, 1]
    assert max(map(abs, [*neighbours, draws])) < 5 / masks.size**0.5


def test_it_depends_on_the_generator_of_pytorch_alone() -> None:
    x = torch.ones(100, 100)
    torch.manual_seed(5)
    first, second = dropout(x, 0.3), dropout(x, 0.3)
    np.random.seed(0)
    torch.manual_seed(5)
    assert torch.equal(dropout(x, 0.3), first)
    assert torch.equal(dropout(x, 0.3), second)
    assert not torch.equal(first, second)


def test_nothing_is_dropped_when_not_training_or_with_p_zero() -> None:
    x = torch.ones(100, 100)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0).train()(x) is x
    assert float(Dropout(1.0).train()(x).sum()) == 0


def test_without_dropout_nothing_is_drawn() -> None:
    """A text is read without touching the generator that others draw from."""
    x = torch.ones(300, 300)
    before = torch.get_rng_state()
    assert dropout(x, 0.0) is x
    assert torch.equal(torch.get_rng_state(), before)
