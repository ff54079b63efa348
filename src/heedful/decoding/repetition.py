"""Scores of next tokens that discourage repetition, as Hugging Face's `generate` computes them.

Letters: r texts, v tokens in the vocabulary, t tokens so far.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from heedful.decoding.settings import Repetition


def discourage(scores_rv: Tensor, ids_rt: Sequence[Sequence[int]], repetition: Repetition) -> Tensor:
    """Return the scores after the tokens of each text, its prompt included: those of tokens that are among them
    divided by the penalty where they are positive, multiplied where they are negative; −∞ for a token that would
    complete an n-gram of the text once more. A token that is the only possible one stays possible."""
    if repetition.penalty != 1:
        scores_rv = scores_rv.clone()
        for row, ids in enumerate(ids_rt):
            seen = torch.tensor(sorted(set(ids)), dtype=torch.long, device=scores_rv.device)
            score = scores_rv[row, seen]
            penalty = repetition.penalty
            scores_rv[row, seen] = torch.where(score < 0, score * penalty, score / penalty)
    if repetition.ngram_size:
        banned_rv = torch.zeros_like(scores_rv, dtype=torch.bool)
        for row, ids in enumerate(ids_rt):
            banned_rv[row, repeating(ids, repetition.ngram_size)] = True
        several_r1 = (scores_rv > -torch.inf).sum(-1, keepdim=True) > 1
        scores_rv = scores_rv.masked_fill(banned_rv & several_r1, -torch.inf)
    return scores_rv


def repeating(ids: Sequence[int], size: int) -> list[int]:
    """Return the tokens that would complete an n-gram of this size that the text has already."""
    last = list(ids[len(ids) + 1 - size :]) if size > 1 else []
    return sorted({ids[i + size - 1] for i in range(len(ids) - size + 1) if list(ids[i : i + size - 1]) == last})
