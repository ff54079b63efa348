"""The likeliest next tokens of texts that grow side by side, in an order that does not hang on chance.

Letters: s prompts, w texts that grow of each, r = s · w rows, v tokens in the vocabulary, k tokens of each row, c
candidates of each prompt.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from heedful.decoding.choosing import damaged


class Candidates(NamedTuple):
    """Texts with one more token, likeliest first; of equal ones that of the lower parent, then of the lower token."""

    total_sc: Tensor
    """The log-probability of the text; −∞: there is no such candidate."""
    parent_sc: Tensor
    """Which of the prompt's w texts it goes on with."""
    token_sc: Tensor
    log_p_sc: Tensor
    """Of the token."""


def rank(log_p_rv: Tensor, totals_sw: Tensor, width: int, ends: int) -> Candidates:
    """So many that the `width` likeliest are among them, and the `width` likeliest that do not end, where `ends` tokens
    end a text."""
    s, w = totals_sw.shape
    log_p_rk, token_rk = likeliest(log_p_rv, width + ends)
    k = token_rk.shape[1]
    log_p_sc, token_sc = log_p_rk.double().reshape(s, w * k), token_rk.reshape(s, w * k)
    total_sc = totals_sw.repeat_interleave(k, dim=1) + log_p_sc
    # The columns stand in the order of parents and tokens, and a stable sort keeps it among equal ones.
    total_sc, order_sc = total_sc.sort(dim=1, descending=True, stable=True)
    count = width + w * ends
    total_sc, order_sc = total_sc[:, :count], order_sc[:, :count]
    return Candidates(total_sc, order_sc // k, token_sc.gather(1, order_sc), log_p_sc.gather(1, order_sc))


def likeliest(log_p_rv: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k likeliest tokens of each row (all, if there are fewer) in the order of their ids; of equally likely ones
    the lower."""
    v = log_p_rv.shape[1]
    if k >= v:
        log_p_rk, token_rk = log_p_rv, torch.arange(v, device=log_p_rv.device).expand_as(log_p_rv)
    else:
        values_rk, tokens_rk = log_p_rv.topk(k + 1)
        log_p_rk, token_rk = values_rk[:, :k], tokens_rk[:, :k]
        # topk takes any of several equal values, so where the first left out equals the last taken, it may not be ours.
        tied_r = (values_rk[:, k - 1] == values_rk[:, k]) & (values_rk[:, k] > -torch.inf)
        if tied_r.any():
            ordered = log_p_rv[tied_r].sort(dim=1, descending=True, stable=True)
            log_p_rk, token_rk = log_p_rk.clone(), token_rk.clone()
            log_p_rk[tied_r], token_rk[tied_r] = ordered.values[:, :k], ordered.indices[:, :k]
        token_rk, order_rk = token_rk.sort(dim=1)
        log_p_rk = log_p_rk.gather(1, order_rk)
    if log_p_rk.isnan().any():
        raise damaged()
    return log_p_rk, token_rk
