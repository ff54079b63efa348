"""Negative controls of the chapter on positions: a wrong constant is found."""

import pytest
import torch

from heedful.theory.demonstration import Check
from heedful.theory.demonstrations import positions_permutation as permutation
from heedful.theory.demonstrations import positions_rotary as rotary
from heedful.theory.demonstrations import positions_sinusoidal as sinusoidal
from heedful.theory.draws import normal, permutations


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(5)


def test_another_permutation_of_the_outputs_is_found(generator: torch.Generator) -> None:
    """Equivariance is about one permutation: with another one the outputs differ."""
    blocks = permutation.drawn_blocks(generator, pre=True)
    x = normal(generator, 1000, permutation.LENGTH, permutation.WIDTH)
    order = permutations(generator, 1000, permutation.LENGTH)
    there = permutation.through(blocks, permutation.permuted(x, order))
    back = permutation.permuted(permutation.through(blocks, x), order.roll(1, dims=1))
    assert Check("", (there - back).abs().flatten(1).amax(dim=1), permutation.SEEN).broken == 1


def test_other_frequencies_are_found(monkeypatch: pytest.MonkeyPatch, generator: torch.Generator) -> None:
    p, k = torch.randint(0, 1000, (2, 1000), generator=generator)
    here, there = sinusoidal.sinusoidal(p, 8), sinusoidal.sinusoidal(p + k, 8)

    def off() -> tuple[float, float]:
        moved = (sinusoidal.shift_matrix(k, 8) @ here[..., None])[..., 0]
        product = (here * there).sum(dim=1) - sinusoidal.profile(k, 8)
        return tuple(Check("", x, 1e-9).broken for x in ((moved - there).abs().amax(dim=1), product.abs()))

    assert off() == (0, 0)
    monkeypatch.setattr(sinusoidal, "BASE", 9_999.0)
    assert min(off()) > 0.9


def test_a_rotation_the_wrong_way_round_is_found(monkeypatch: pytest.MonkeyPatch, generator: torch.Generator) -> None:
    right = rotary.turned
    q, k = normal(generator, 1000, rotary.WIDTH), normal(generator, 1000, rotary.WIDTH)
    p, other = torch.randint(1, 50, (2, 1000), generator=generator)
    shift = torch.full_like(p, 7)
    assert Check("", (rotary.scores(q, k, p + shift, other + shift) - rotary.scores(q, k, p, other)).abs(), 1e-9).passed
    monkeypatch.setattr(rotary, "turned", lambda x, at: right(x, -at if x is k else at))
    off = (rotary.scores(q, k, p + shift, other + shift) - rotary.scores(q, k, p, other)).abs()
    assert Check("", off, 1e-3).broken > 0.9
