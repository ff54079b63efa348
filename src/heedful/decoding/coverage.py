"""How much of a source the texts that grow have looked at. Letters: r rows (texts), n new tokens, s places of the
source."""

from collections.abc import Callable
from typing import NamedTuple, Protocol, cast

import torch
from torch import Tensor

from heedful.decoding.generate import P, Reader
from heedful.errors import RequestError

_LEAST = torch.finfo(torch.float32).tiny
"""Attention to a place counts as at least this, so that one place without any does not make all scores equal, −∞."""


class SourceWeights(NamedTuple):
    """Where in the source a model looked when it scored the next token."""

    weights_rs: Tensor
    """From 0 to 1; each row adds up to 1."""
    real_rs: Tensor | None = None
    """False on padding; None: there is none."""


class AttendingReader(Reader[P], Protocol[P]):
    """A `Reader` of texts with a source, which can say where it looked: what a coverage penalty needs."""

    def attend(self, ids_rn: Tensor, real_rn: Tensor | None, past: P | None, /) -> tuple[Tensor, P, SourceWeights]:
        """What a call returns, and the weights."""
        ...


Step = Callable[[Tensor, Tensor | None, P | None], tuple[Tensor, P, SourceWeights | None]]


def watched(read: Reader[P], penalty: float) -> Step[P]:
    """The reader as a function that returns the weights, too, where there is a penalty for them."""
    if not penalty:
        return lambda ids_rn, real_rn, past: (*read(ids_rn, real_rn, past), None)
    if not hasattr(read, "attend"):
        raise RequestError(f"coverage_penalty={penalty} needs a model that attends to a source. Remove it.")
    return cast(AttendingReader[P], read).attend


class Coverage:
    """Σⱼ aᵢⱼ of each row: what all its tokens together have looked at place i."""

    def __init__(self, penalty: float) -> None:
        self._penalty = penalty
        self._sum_rs: Tensor | None = None
        self._real_rs: Tensor | None = None

    def add(self, looked: SourceWeights | None) -> None:
        if looked is None:
            return
        weights_rs = looked.weights_rs.double()
        self._sum_rs = weights_rs if self._sum_rs is None else self._sum_rs + weights_rs
        self._real_rs = looked.real_rs

    def reorder(self, index_r: Tensor) -> None:
        if self._sum_rs is not None:
            self._sum_rs = self._sum_rs[index_r]

    def term(self, index_f: Tensor) -> Tensor:
        """(f): cp of a text that ends now, for some of the rows."""
        if self._sum_rs is None:
            return torch.zeros(len(index_f), dtype=torch.float64, device=index_f.device)
        log_fs = self._sum_rs[index_f].clamp(_LEAST, 1).log()
        if self._real_rs is not None:
            log_fs = log_fs.masked_fill(~self._real_rs[index_f], 0)
        return self._penalty * log_fs.sum(1)
