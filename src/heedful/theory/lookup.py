"""Attention without the division by √k, as the demonstrations of copying and averaging write it."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from heedful.nn.attention import dot_product
from heedful.report.page.pieces import Column, Row, Table
from heedful.theory.demonstration import number
from heedful.theory.draws import orthogonal


def attend(q_btk: Tensor, k_bsk: Tensor, v_bsk: Tensor) -> tuple[Tensor, Tensor]:
    """softmax(QKᵀ)V and the weights. Our attention divides by √k, so it is given queries √k times as long."""
    scaled = q_btk * math.sqrt(q_btk.shape[-1])
    places = torch.arange(q_btk.shape[-2]), torch.arange(k_bsk.shape[-2])
    y, weights = dot_product(scaled[:, None], k_bsk[:, None], v_bsk[:, None], None, places, 0.0, True)
    assert weights is not None
    return y[:, 0], weights[:, 0]


def orthonormal(generator: torch.Generator, draws: int, n: int, width: int) -> Tensor:
    """(draws, n, width): n orthogonal vectors of length 1."""
    return orthogonal(generator, draws, width)[:, :n]


def margin(n: int, rest: float | Tensor, wanted: int = 1) -> Tensor:
    """How far `wanted` equal scores must be above n others, equal as well, for these to share `rest` of the weight."""
    share = torch.as_tensor(rest, dtype=torch.float64)
    return torch.log(n * (1 - share) / (wanted * share))


def needed_table(caption: str, sizes: tuple[int, ...], needed: Callable[[int, float], Tensor]) -> Table:
    """The M that is needed, by the number of keys and the tolerance."""
    tolerances = (0.1, 0.01, 0.001, 1e-6)
    return Table(
        caption,
        (Column("n"), *(Column(f"ε = {number(eps)}", numeric=True) for eps in tolerances)),
        tuple(Row((f"{n:,}", *(f"{float(needed(n, eps)):.2f}" for eps in tolerances))) for n in sizes),
    )
