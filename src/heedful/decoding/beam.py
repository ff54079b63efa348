"""Beam search: of each prompt the texts with the best score, many prompts at a time; one that is done leaves the batch.

Letters: s prompts, w texts that grow of each, r = s · w rows of the model's batch, n tokens that it has not read yet, t
tokens that were chosen, v tokens in the vocabulary, c candidates of each prompt, f of them that end.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from heedful.decoding.candidates import Candidates, rank
from heedful.decoding.coverage import Coverage, watched
from heedful.decoding.finished import Finished, Hypothesis
from heedful.decoding.generate import NO_PENALTY, P, Reader, longest_reason, pad_left, tokens_left
from heedful.decoding.repetition import discourage
from heedful.decoding.settings import Beam, Limits, Repetition
from heedful.errors import RequestError


@torch.inference_mode()
def beam_search(
    read: Reader[P],
    prompts: Sequence[Sequence[int]],
    beam: Beam,
    limits: Limits,
    prefixes: Sequence[Sequence[int]] | None = None,
    rows: Sequence[int] | None = None,
    device: torch.device | str = "cpu",
    repetition: Repetition = NO_PENALTY,
) -> list[list[Hypothesis]]:
    """For each prompt the `beam.n_best` best texts, best first; fewer where there are no more.

    `prefixes`: the tokens with which the texts of each prompt begin, whatever is banned. `rows`: the numbers by which
    refusals name the prompts (default: 0, 1, …). Prompts and limits are as in `generate`. A candidate that ends becomes
    a text if it is among the `beam.width` likeliest of its step, and takes no place from those that grow. A coverage
    penalty needs a reader that is an `AttendingReader`.
    """
    step = watched(read, beam.coverage_penalty)
    search = _Search(prompts, beam, limits, prefixes, range(len(prompts)) if rows is None else rows, device, repetition)
    if search.active:
        ids_rn, real_rn = pad_left([prompts[i] for i in search.active], device)
    past: P | None = None
    while search.active:
        scores_rv, past, looked = step(ids_rn, real_rn, past)
        search.coverage.add(looked)
        index_r = search.advance(scores_rv)
        if index_r is not None:
            past = past.reorder(index_r)
        ids_rn, real_rn = search.ids_rt[:, -1:], None
    return [found.best[: beam.n_best] for found in search.finished]


class _Search:
    """All texts that grow, likeliest first, and those that have ended. All that grow have the same number of tokens.

    A prompt with fewer of them than others has copies of its first, of probability 0, from which nothing can come.
    """

    def __init__(
        self,
        prompts: Sequence[Sequence[int]],
        beam: Beam,
        limits: Limits,
        prefixes: Sequence[Sequence[int]] | None,
        rows: Sequence[int],
        device: torch.device | str,
        repetition: Repetition,
    ) -> None:
        self._prompts, self._repetition = prompts, repetition
        self._beam, self._limits, self._rows, self._device = beam, limits, rows, device
        self._left = [tokens_left(prompt, limits) for prompt in prompts]
        self._prefixes = [()] * len(prompts) if prefixes is None else prefixes
        for row, prefix, left in zip(rows, self._prefixes, self._left, strict=True):
            _check_prefix(row, prefix, left, limits)
        self._stop = torch.tensor(sorted(limits.stop), dtype=torch.long, device=device)
        self._banned = torch.tensor(sorted(beam.banned), dtype=torch.long, device=device)
        self._banned_first = torch.cat([self._banned, self._stop])
        self.finished = [Finished(beam, left) for left in self._left]
        for found, left in zip(self.finished, self._left, strict=True):
            if left == 0:
                found.add(Hypothesis([], [], 0.0, 0.0, longest_reason(left, limits)))
        self.active = [i for i, left in enumerate(self._left) if left > 0]
        """The prompts that are not done."""
        s = len(self.active)
        self.coverage = Coverage(beam.coverage_penalty)
        self._totals_sw = torch.zeros(s, 1, dtype=torch.float64, device=device)
        self.ids_rt = torch.zeros(s, 0, dtype=torch.long, device=device)
        self._log_p_rt = torch.zeros(s, 0, dtype=torch.float64, device=device)

    def advance(self, scores_rv: Tensor) -> Tensor | None:
        """One more token. Row i of the next batch goes on with row index_r[i] of this; None: each with itself."""
        t = self.ids_rt.shape[1]
        may_stop = t >= self._limits.min_new_tokens
        log_p_rv = scores_rv.log_softmax(-1, dtype=torch.promote_types(scores_rv.dtype, torch.float32))
        allowed_rv = self._restrict(log_p_rv, scores_rv, self._banned if may_stop else self._banned_first)
        candidates = rank(allowed_rv, self._totals_sw, self._beam.width, len(self._stop) if may_stop else 0)
        last_s = torch.tensor([self._left[i] == t + 1 for i in self.active], device=self._device)
        ends_sc = torch.isin(candidates.token_sc, self._stop) | last_s[:, None]
        if self._repetition.active or self._beam.renormalise:
            s, w = self._totals_sw.shape
            row_sc = torch.arange(s, device=self._device)[:, None] * w + candidates.parent_sc
            candidates = candidates._replace(log_p_sc=log_p_rv[row_sc, candidates.token_sc].double())
        self._finish(candidates, ends_sc)
        return self._grow(candidates, ends_sc)

    def _restrict(self, log_p_rv: Tensor, scores_rv: Tensor, banned: Tensor) -> Tensor:
        """The log-probabilities by which texts are ranked, −∞ for what cannot be chosen."""
        t, w = self.ids_rt.shape[1], self._totals_sw.shape[1]
        prefixes = [self._prefixes[i] for i in self.active]
        forced = [(at, prefix[t]) for at, prefix in enumerate(prefixes) if t < len(prefix)]
        kept = [log_p_rv[at * w : (at + 1) * w, token].clone() for at, token in forced]
        if self._repetition.active:
            log_p_rv = self._discourage(log_p_rv, scores_rv)
        if len(banned):
            log_p_rv.index_fill_(1, banned, -torch.inf)
        if self._beam.renormalise:
            log_p_rv = log_p_rv.log_softmax(-1).masked_fill(log_p_rv == -torch.inf, -torch.inf)
        for (at, token), log_p_w in zip(forced, kept, strict=True):
            log_p_wv = log_p_rv[at * w : (at + 1) * w].fill_(-torch.inf)
            log_p_wv[:, token] = log_p_w
        return log_p_rv

    def _discourage(self, log_p_rv: Tensor, scores_rv: Tensor) -> Tensor:
        """As `transformers` does: greedy decoding changes the model's scores, beam search its log-probabilities."""
        w = self._totals_sw.shape[1]
        ids_rt = [[*self._prompts[self.active[row // w]], *ids] for row, ids in enumerate(self.ids_rt.tolist())]
        if self._beam.width > 1:
            return discourage(log_p_rv, ids_rt, self._repetition)
        return discourage(scores_rv, ids_rt, self._repetition).log_softmax(-1, dtype=log_p_rv.dtype)

    def _finish(self, candidates: Candidates, ends_sc: Tensor) -> None:
        """Keeps those that end, if they are good enough."""
        total_sc, parent_sc, token_sc, log_p_sc = candidates
        ended_sc = ends_sc & (total_sc > -torch.inf)
        ended_sc[:, self._beam.width :] = False
        if not ended_sc.any():
            return
        length, w = self.ids_rt.shape[1] + 1, self._totals_sw.shape[1]
        at_f = ended_sc.nonzero()[:, 0]
        row_f = at_f * w + parent_sc[ended_sc]
        score_f = total_sc[ended_sc] / self._beam.lp(length) + self.coverage.term(row_f)
        columns = at_f, row_f, token_sc[ended_sc], log_p_sc[ended_sc], total_sc[ended_sc], score_f
        for at, row, token, log_p, total, score in zip(*(column.tolist() for column in columns), strict=True):
            i = self.active[at]
            if self.finished[i].takes(score):
                reason = "stop" if token in self._limits.stop else longest_reason(self._left[i], self._limits)
                ids, log_ps = [*self.ids_rt[row].tolist(), token], [*self._log_p_rt[row].tolist(), log_p]
                log_probability = sum(log_ps) if self._repetition.active or self._beam.renormalise else total
                self.finished[i].add(Hypothesis(ids, log_ps, log_probability, score, reason))

    def _grow(self, candidates: Candidates, ends_sc: Tensor) -> Tensor | None:
        """The likeliest that do not end, of the prompts that are not done."""
        s, w = self._totals_sw.shape
        grows_sc = ~ends_sc & (candidates.total_sc > -torch.inf)
        # Those that grow first, and in their order.
        order_sc = (~grows_sc).byte().sort(dim=1, stable=True).indices[:, : self._beam.width]
        grows_sw = grows_sc.gather(1, order_sc)
        total_sw = candidates.total_sc.gather(1, order_sc).masked_fill(~grows_sw, -torch.inf)
        kept = self._not_done(total_sw[:, 0].tolist())
        if not kept:
            self.active = []
            return None
        kept_s = torch.tensor(kept, device=self._device)
        width = int(grows_sw[kept_s].sum(1).max())
        total_sw, grows_sw, order_sw = (x[kept_s, :width] for x in (total_sw, grows_sw, order_sc))
        order_sw = torch.where(grows_sw, order_sw, order_sw[:, :1])
        parent_sw, token_sw, log_p_sw = (x[kept_s].gather(1, order_sw) for x in candidates[1:])
        index_r = (kept_s[:, None] * w + parent_sw).flatten()
        self.ids_rt = torch.cat([self.ids_rt[index_r], token_sw.view(-1, 1)], dim=1)
        self._log_p_rt = torch.cat([self._log_p_rt[index_r], log_p_sw.view(-1, 1)], dim=1)
        self._totals_sw = total_sw
        self.active = [self.active[at] for at in kept]
        if len(index_r) == s * w and torch.equal(index_r, torch.arange(s * w, device=self._device)):
            return None
        self.coverage.reorder(index_r)
        return index_r

    def _not_done(self, likeliest: list[float]) -> list[int]:
        """The places in the batch of prompts that go on, where the likeliest text that grows has this log p."""
        length, kept = self.ids_rt.shape[1] + 1, []
        for at, (i, total) in enumerate(zip(self.active, likeliest, strict=True)):
            if total > -torch.inf:
                if not self.finished[i].closed(total, length):
                    kept.append(at)
            elif not self.finished[i].best:
                raise RequestError(
                    f"no token can come as number {length} of the texts for row {self._rows[i]}: all that have a "
                    "probability are banned; ban fewer, or ask for fewer tokens before the end."
                )
        return kept


def _check_prefix(row: int, prefix: Sequence[int], left: int, limits: Limits) -> None:
    if len(prefix) > left:
        raise RequestError(
            f"the prefix of row {row} has {len(prefix)} tokens, and at most {left} may come; shorten it."
        )
    if ended := limits.stop.intersection(prefix):
        raise RequestError(f"the prefix of row {row} contains {min(ended)}, which ends a text. Remove it.")
