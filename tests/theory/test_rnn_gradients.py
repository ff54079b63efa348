"""Negative controls of the chapter on gradients through time: a wrong constant is found."""

from typing import Any

import pytest
import torch
from torch import nn

from heedful.theory.demonstration import Check
from heedful.theory.demonstrations import rnn_gates as gates
from heedful.theory.demonstrations import rnn_relu_chain as chain
from heedful.theory.demonstrations import rnn_residual_paths as residual
from heedful.theory.demonstrations import rnn_sigmoid as sigmoid
from heedful.theory.draws import normal, uniform


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(5)


def test_a_product_that_lacks_a_weight_is_found(monkeypatch: pytest.MonkeyPatch, generator: torch.Generator) -> None:
    monkeypatch.setattr(chain, "product", lambda weights: weights[:, 1:].abs().prod(dim=1))
    passed = [check.passed for check in chain.show(1000, generator).checks]
    assert passed == [False, True, False, False]  # that it is exactly 0 does not ask for the product


def test_every_unit_of_the_chain_is_closed_in_some_draw(
    monkeypatch: pytest.MonkeyPatch, generator: torch.Generator
) -> None:
    made: list[chain.Chain] = []

    class Noted(chain.Chain):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            made.append(self)

    monkeypatch.setattr(chain, "Chain", Noted)
    chain.show(1000, generator)
    shut = made[1].positive_bn
    first_closed = shut.double().argmin(dim=1)
    assert set(first_closed.tolist()) == set(range(chain.LENGTH))
    assert not made[1].alive.any()


def test_a_smaller_slope_of_the_sigmoid_is_found(monkeypatch: pytest.MonkeyPatch, generator: torch.Generator) -> None:
    w = sigmoid.balanced_matrices(1000, generator, 0.25)
    last = sigmoid.Recurrence(w, torch.ones(1000, sigmoid.WIDTH, dtype=torch.float64)).last_size()
    assert Check("", last / sigmoid.bound(0.25)[-1] - 1, 1e-9).passed
    monkeypatch.setattr(sigmoid, "SLOPE", 0.2499)
    assert Check("", last / sigmoid.bound(0.25)[-1] - 1, 1e-9).broken == 1


@pytest.mark.parametrize("kind", [gates.LSTM, gates.GRU])
@pytest.mark.parametrize("direct", [True, False])
def test_the_reset_or_input_gate_is_not_the_one_that_keeps(
    monkeypatch: pytest.MonkeyPatch, generator: torch.Generator, kind: type[gates.Cells], direct: bool
) -> None:
    """With recurrent weights along the direct path, without them by every way."""

    def broken() -> float:
        path = gates.Path(kind(1000, generator, float(direct)), normal(generator, 5, 1000, gates.WIDTH), direct)
        return Check("", path.from_product() if direct else path.from_diagonal(), 1e-3).broken

    assert broken() == 0
    monkeypatch.setattr(gates, "kept", lambda cells, u, h: (cells.from_input(u) + cells.from_state(h))[:, 0].sigmoid())
    assert broken() == 1


@pytest.mark.parametrize(("kind", "theirs"), [(gates.LSTM, nn.LSTMCell), (gates.GRU, nn.GRUCell)])
def test_each_draw_has_a_cell_of_its_own_as_pytorch_has_it(
    generator: torch.Generator, kind: type[gates.Cells], theirs: type[nn.LSTMCell] | type[nn.GRUCell]
) -> None:
    cells, draws = kind(3, generator), 3
    cells.bias += normal(generator, *cells.bias.shape)
    u, h, c = normal(generator, 3, draws, gates.WIDTH)
    made = cells.step(u, h, c if cells.apart else h)
    for i in range(draws):
        cell = theirs(gates.WIDTH, gates.WIDTH).double()
        with torch.no_grad():
            cell.weight_ih.copy_(cells.of_input[i])
            cell.weight_hh.copy_(cells.of_state[i])
            cell.bias_ih.copy_(cells.bias[i].flatten())
            cell.bias_hh.zero_()
        wanted = cell(u[i], (h[i], c[i])) if cells.apart else cell(u[i], h[i])
        torch.testing.assert_close((made[0][i], made[1][i]), wanted if cells.apart else (wanted, wanted))


def test_a_lipschitz_constant_that_is_too_small_is_found(generator: torch.Generator) -> None:
    """Layers of twice the constant leave the bounds, on one side or the other."""
    constant = uniform(generator, 0.4, 0.45, 1000)
    layers = residual.Layers(1000, generator, 2 * constant)
    values = torch.linalg.svdvals(residual.stacked(layers, normal(generator, 1000, residual.WIDTH), residual=True))
    lowest, highest = residual.bounds(constant / 8)
    assert Check("", torch.maximum(lowest / values[:, -1], values[:, 0] / highest) - 1, 1e-9).broken > 0.9


def test_a_branch_that_undoes_too_little_leaves_pre_norm_whole(generator: torch.Generator) -> None:
    """The counterexample hangs on its factor: half of it takes no direction away."""
    x = normal(generator, 1000, residual.WIDTH)
    assert Check("", 0.4 - residual.undone(x, 0.5)[:, -1], 0.0).passed
    assert Check("", residual.undone(x, 1.0)[:, 2], 1e-9).passed
    assert Check("", 0.9 - residual.undone(x, 1.0)[:, 1], 0.0).passed
