"""One token for each text, from its scores. Letters: b texts, v tokens in the vocabulary."""

import torch
from torch import Tensor

from heedful.decoding.settings import Sampling
from heedful.errors import RequestError


def restrict(scores_bv: Tensor, sampling: Sampling) -> Tensor:
    """The scores of what may be drawn, −∞ for all else: softmax gives the distribution that is drawn from.

    Tokens that tie with the last that may be drawn may be drawn, too.
    """
    # The highest becomes 0, so that no temperature is too low for the others to be numbers.
    apart_bv = scores_bv - scores_bv.amax(-1, keepdim=True)
    # 0 and −∞ are the same at every temperature, also at one that single precision takes for 0 or ∞.
    same_bv = (apart_bv == 0) | apart_bv.isinf()
    scores_bv = torch.where(same_bv, apart_bv, apart_bv / sampling.temperature)
    if sampling.top_k is not None:
        least_b1 = scores_bv.topk(min(sampling.top_k, scores_bv.shape[1])).values[:, -1:]
        scores_bv = scores_bv.masked_fill(scores_bv < least_b1, -torch.inf)
    if sampling.top_p is not None and sampling.top_p < 1:
        scores_bv = scores_bv.masked_fill(scores_bv < _nucleus_edge(scores_bv, sampling.top_p), -torch.inf)
    return scores_bv


def _nucleus_edge(scores_bv: Tensor, top_p: float) -> Tensor:
    """(b, 1): the score of the least likely token of each nucleus ("The Curious Case of Neural Text Degeneration",
    2020): the fewest likeliest tokens whose probabilities add up to top_p."""
    v, k = scores_bv.shape[1], 64
    total_b1 = scores_bv.double().logsumexp(-1, keepdim=True)
    while True:  # a nucleus is small as a rule, and sorting a whole vocabulary takes as long as a small model
        k = min(8 * k, v)
        top_bk = scores_bv.topk(k).values
        reached_bk = (top_bk.double() - total_b1).exp().cumsum(-1) >= top_p
        if k == v or reached_bk[:, -1].all():
            break
    reached_bk[:, -1] = True  # where all together do not reach it, rounded as they are
    return top_bk.gather(1, reached_bk.int().argmax(-1, keepdim=True))


def draw(scores_bv: Tensor, uniform_b: Tensor) -> Tensor:
    """(b): the ids at which the cumulative distribution exceeds numbers from 0 up to 1; none of probability 0."""
    p_bv = scores_bv.double().softmax(-1)
    cumulative_bv = p_bv.cumsum(-1)
    at_b1 = uniform_b.double()[:, None] * cumulative_bv[:, -1:]
    ids_b = torch.searchsorted(cumulative_bv, at_b1, right=True)[:, 0]
    # The product may be rounded up to the sum itself, beyond which there is no token.
    last_b = p_bv.shape[1] - 1 - (p_bv > 0).flip(-1).int().argmax(-1)
    return torch.minimum(ids_b, last_b)


def log_probability(scores_bv: Tensor, ids_b: Tensor) -> Tensor:
    """(b): of these tokens, under the scores as they are."""
    return scores_bv.gather(1, ids_b[:, None])[:, 0] - scores_bv.logsumexp(-1)


def damaged() -> RequestError:
    """To be raised where scores are not finite."""
    return RequestError(
        "the model gives the next token no finite scores: its weights are damaged; take another copy of it."
    )
