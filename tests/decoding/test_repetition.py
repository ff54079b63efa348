"""Penalties of tokens that occurred, and n-grams that may not occur twice, are those of `transformers`."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import NoRepeatNGramLogitsProcessor, RepetitionPenaltyLogitsProcessor

from heedful.decoding.beam import beam_search
from heedful.decoding.generate import generate
from heedful.decoding.repetition import discourage, repeating
from heedful.decoding.settings import Beam, Limits, Repetition, Sampling
from heedful.errors import RequestError
from heedful.models.next_token import NextToken
from tests.support.generation_samples import PROMPTS, make_model

IDS = st.lists(st.integers(0, 6), min_size=1, max_size=12)
STRONG = [Repetition(1.5), Repetition(0.6), Repetition(ngram_size=2), Repetition(1.3, 1)]


@settings(max_examples=100, deadline=None)
@given(IDS, st.sampled_from([0.5, 1.0, 1.2, 3.0]), st.integers(0, 4), st.integers(0, 99))
def test_scores_are_the_peers(ids: list[int], penalty: float, size: int, seed: int) -> None:
    scores = torch.randn(1, 9, generator=torch.Generator().manual_seed(seed))
    before, given_ids = scores.clone(), torch.tensor([ids])
    expected = RepetitionPenaltyLogitsProcessor(penalty)(given_ids, scores.clone()) if penalty != 1 else scores.clone()
    expected = NoRepeatNGramLogitsProcessor(size)(given_ids, expected) if size else expected
    assert torch.equal(discourage(scores, [ids], Repetition(penalty, size)), expected)
    assert torch.equal(scores, before)


def test_ngrams() -> None:
    assert repeating([1, 2, 3, 1, 2], 3) == [3]
    assert repeating([1, 2, 3, 1, 2, 4, 1, 2], 3) == [3, 4]
    assert repeating([1, 2], 3) == []
    assert repeating([1, 2, 1], 1) == [1, 2]
    assert repeating([5, 5], 2) == [5]


def test_the_only_token_that_can_come_may_come_again() -> None:
    """As the end of a translation that is forced."""
    scores = torch.tensor([[-torch.inf, 0.0, -torch.inf]])
    assert torch.equal(discourage(scores, [[1]], Repetition(2.0, 1)), scores)


@pytest.mark.parametrize("repetition", STRONG, ids=str)
def test_batches_do_not_change_the_texts(repetition: Repetition) -> None:
    """Padding before a short prompt is not a token that occurred."""
    read, limits = NextToken(make_model(), "causal"), Limits(10, 0, frozenset({4}))
    for method in (Sampling(temperature=0), Sampling(top_k=5, seed=3)):
        together = generate(read, PROMPTS, method, limits, repetition=repetition)
        for row, prompt in enumerate(PROMPTS):
            (alone,) = generate(read, [prompt], method, limits, [row], repetition=repetition)
            assert alone.ids == together[row].ids
    for width in (1, 3):
        found = beam_search(read, PROMPTS, Beam(width, width), limits, repetition=repetition)
        for row, prompt in enumerate(PROMPTS):
            (alone_best,) = beam_search(read, [prompt], Beam(width, width), limits, repetition=repetition)
            assert [one.ids for one in alone_best] == [one.ids for one in found[row]]
            scores = [one.score for one in found[row]]
            assert [one.score for one in alone_best] == pytest.approx(scores, abs=1e-10)
            assert scores == sorted(scores, reverse=True)


def test_greedy_is_a_beam_of_one_and_sampling_from_one() -> None:
    read, limits = NextToken(make_model(), "causal"), Limits(10, 0, frozenset({4}))
    for repetition in STRONG:
        greedy = generate(read, PROMPTS, Sampling(temperature=0), limits, repetition=repetition)
        best = beam_search(read, PROMPTS, Beam(1), limits, repetition=repetition)
        sampled = generate(read, PROMPTS, Sampling(top_k=1), limits, repetition=repetition)
        assert [one.ids for one in greedy] == [one.ids for (one,) in best] == [one.ids for one in sampled]
        for one, (other,) in zip(greedy, best, strict=True):  # of the model as it is
            assert one.log_probabilities == pytest.approx(other.log_probabilities, abs=1e-10)
            assert other.log_probability == pytest.approx(sum(one.log_probabilities), abs=1e-10)
        plain = generate(read, PROMPTS, Sampling(temperature=0), limits)
        assert [one.ids for one in plain] != [one.ids for one in greedy]


def test_no_sequence_occurs_twice() -> None:
    read, limits = NextToken(make_model(), "causal"), Limits(16)
    for found in (
        [one.ids for one in generate(read, PROMPTS, Sampling(seed=1), limits, repetition=Repetition(ngram_size=2))],
        [best[0].ids for best in beam_search(read, PROMPTS, Beam(3), limits, repetition=Repetition(ngram_size=2))],
    ):
        for prompt, ids in zip(PROMPTS, found, strict=True):
            whole = [*prompt, *ids]
            pairs, theirs = list(itertools.pairwise(whole)), list(itertools.pairwise(prompt))
            assert len(pairs) - len(set(pairs)) == len(theirs) - len(set(theirs))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"penalty": 0}, "repetition_penalty=0 is not a number above 0; 1 means no penalty"),
        ({"penalty": float("nan")}, "repetition_penalty=nan is not"),
        ({"penalty": True}, "repetition_penalty=True is not"),
        ({"penalty": "1.2"}, "repetition_penalty='1.2' is not"),
        ({"ngram_size": -1}, "no_repeat_ngram_size=-1 is not a whole number of 0 or more"),
        ({"ngram_size": 2.0}, "no_repeat_ngram_size=2.0 is not"),
    ],
    ids=str,
)
def test_refused(options: dict[str, float], said: str) -> None:
    with pytest.raises(RequestError, match=said):
        Repetition(**options)  # type: ignore[arg-type]
