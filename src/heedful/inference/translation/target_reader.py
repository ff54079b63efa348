"""What decoding asks a translator: the scores of what follows in the targets of a batch of sources.

Letters: r rows (targets that grow), n new tokens, s source tokens, v tokens in the target's vocabulary.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from heedful.decoding.coverage import SourceWeights
from heedful.models.seq2seq.protocol import NextTarget, TargetPast


@dataclass(frozen=True)
class Rules:
    """What is changed of the model's scores before a token is chosen."""

    banned: frozenset[int] = frozenset()
    """Tokens without any probability: the others share it."""
    end_id: int = 0
    end_after: int = 0
    """Before so many tokens the end has no probability, either."""
    forced_after: int | None = None
    """After so many tokens the end is certain; None: never."""


@dataclass(frozen=True)
class ReaderPast:
    target: TargetPast[Any]
    real_rs: Tensor | None
    """Of the sources, False on padding."""
    chosen: int
    """Tokens so far."""

    def reorder(self, index_b: Tensor) -> "ReaderPast":
        real_rs = None if self.real_rs is None else self.real_rs[index_b]
        return replace(self, target=self.target.reorder(index_b), real_rs=real_rs)


class TargetReader:
    """A `heedful.decoding.coverage.AttendingReader` of a batch of sources."""

    def __init__(self, model: Any, encoded: Any, real_rs: Tensor | None, rules: Rules) -> None:
        """`model`: a `Seq2Seq`; `encoded`: what it made of the sources; `real_rs`: where these have no padding."""
        self._plain, self._watching = NextTarget(model, encoded), NextTarget(model, encoded, watch=True)
        self._real_rs, self._rules = real_rs, rules

    def __call__(self, ids_rn: Tensor, real_rn: Tensor | None, past: ReaderPast | None) -> tuple[Tensor, ReaderPast]:
        return self._read(self._plain, ids_rn, real_rn, past)

    def attend(
        self, ids_rn: Tensor, real_rn: Tensor | None, past: ReaderPast | None
    ) -> tuple[Tensor, ReaderPast, SourceWeights]:
        scores_rv, kept = self._read(self._watching, ids_rn, real_rn, past)
        weights_rts = kept.target.weights_bts
        assert weights_rts is not None
        # Only the weights of the last token are asked for, so that those before it need not be kept.
        kept = replace(kept, target=replace(kept.target, weights_bts=None))
        return scores_rv, kept, SourceWeights(weights_rts[:, -1], kept.real_rs)

    def _read(
        self, read: NextTarget[Any, Any], ids_rn: Tensor, real_rn: Tensor | None, past: ReaderPast | None
    ) -> tuple[Tensor, ReaderPast]:
        chosen, real_rs = (0, self._real_rs) if past is None else (past.chosen, past.real_rs)
        scores_rv, target = read(ids_rn, real_rn, None if past is None else past.target)
        return self._ruled(scores_rv, chosen), ReaderPast(target, real_rs, chosen + 1)

    def _ruled(self, scores_rv: Tensor, chosen: int) -> Tensor:
        rules = self._rules
        if chosen == rules.forced_after:
            scores_rv = torch.full_like(scores_rv, -torch.inf)
            scores_rv[:, rules.end_id] = 0.0
            return scores_rv
        banned = rules.banned | {rules.end_id} if chosen < rules.end_after else rules.banned
        if not banned:
            return scores_rv
        return scores_rv.index_fill(1, torch.tensor(sorted(banned), device=scores_rv.device), -torch.inf)
