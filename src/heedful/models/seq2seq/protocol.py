"""What every sequence-to-sequence model is asked and answers, whatever it is made of.

Training asks for the scores of a target that is there (teacher forcing); decoding asks for one token after another,
which `NextTarget` puts as `heedful.decoding` wants it. The target that is given begins with its start token: the scores
of a row are those of the token that follows.

Letters: b sentences, s source tokens, t target tokens, n of them new, v tokens in the target's vocabulary.
"""

from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, Self, TypeVar

import torch
from torch import Tensor

from heedful.models.batch import Batch
from heedful.nn.blocks import Read


class Encoded(Protocol):
    """What is computed once for each source."""

    @property
    def rows(self) -> int: ...

    def reorder(self, index_b: Tensor) -> Self:
        """Row i becomes what row index_b[i] was; a row may be taken several times, or not at all."""
        ...


S = TypeVar("S", contravariant=True)
"""Sources: a `Batch`, but for models that are given more."""
E = TypeVar("E", bound=Encoded)
K = TypeVar("K", bound=Encoded)
"""What is kept of sources and of the target so far."""


class Step(NamedTuple, Generic[K]):
    scores_bv: Tensor
    """Of what follows the last of the new tokens."""
    kept: K
    weights_bns: Tensor | None
    """If they were wanted: how much each new token looks at each source token."""


class Seq2Seq(Protocol[S, E, K]):
    def encode(self, source: S, /) -> E:
        """What is computed once for each source."""
        ...

    def decode(self, encoded: E, target: Batch, read: Read | None = None) -> Tensor:
        """The scores (b, t, v) of the token after each of the target, which is padded on the right; or only those of
        the rows that are read."""
        ...

    def __call__(self, source: S, target: Batch, read: Read | None = None) -> Tensor:
        """`decode` of what `encode` gives."""
        ...

    def step(
        self, encoded: E, ids_bn: Tensor, real_bn: Tensor | None, kept: K | None, want_weights: bool = False
    ) -> Step[K]:
        """New tokens after those before, of which `kept` is kept; None: they are the first, and the sources are read
        from `encoded`. Afterwards they are not: what is kept holds what is needed of them. `real_bn` is False on
        padding, which may stand before the first tokens alone."""
        ...


@dataclass(frozen=True)
class TargetPast(Generic[K]):
    """What `NextTarget` keeps of the target so far; never changed."""

    kept: K
    weights_bts: Tensor | None
    """If they are watched: how much each token so far looked at each source token."""

    def reorder(self, index_b: Tensor) -> "TargetPast[K]":
        """Row i becomes what row index_b[i] was; a row may be taken several times, or not at all."""
        return TargetPast(self.kept.reorder(index_b), None if self.weights_bts is None else self.weights_bts[index_b])


class NextTarget(Generic[E, K]):
    """What follows in the targets of these sources, as a function of new tokens and the past: what `heedful.decoding`
    asks for, for every kind of model.

    The first call has one row for each source. Beams branch off after it, all from the one row of their sentence:
    `past.reorder` with each sentence's row repeated gives sentences × beams rows, without any source read twice. Where
    several rows of a sentence begin differently, `encoded.reorder` repeats the sources before the first call.
    """

    def __init__(self, model: Seq2Seq[S, E, K], encoded: E, watch: bool = False) -> None:
        """`watch`: keep how much each token looks at the source (`TargetPast.weights_bts`)."""
        self.model, self.encoded, self.watch = model, encoded, watch

    def __call__(
        self, ids_bn: Tensor, real_bn: Tensor | None, past: TargetPast[K] | None
    ) -> tuple[Tensor, TargetPast[K]]:
        if past is None and len(ids_bn) != self.encoded.rows:
            raise ValueError(f"{len(ids_bn)} targets begin after {self.encoded.rows} sources: give one row for each")
        kept, before = (None, None) if past is None else (past.kept, past.weights_bts)
        step = self.model.step(self.encoded, ids_bn, real_bn, kept, self.watch)
        weights = step.weights_bns
        if weights is not None and before is not None:
            weights = torch.cat([before, weights], dim=1)
        return step.scores_bv, TargetPast(step.kept, weights)


def alignment(model: Seq2Seq[S, E, K], source: S, target: Batch) -> Tensor:
    """(b, t, s): how much each target token looks at each source token while the one after it is predicted. In a
    transformer: the mean over the heads of its last layer."""
    weights = model.step(model.encode(source), target.ids_bt, target.real_bt, None, want_weights=True).weights_bns
    assert weights is not None
    return weights
