"""What may be drawn, as in `transformers`; and that it is drawn as often as its probability says, and nothing else."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare
from torch import Tensor
from transformers.generation.logits_process import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from heedful import RequestError
from heedful.decoding.choosing import draw, log_probability, restrict
from heedful.decoding.generate import choose
from heedful.decoding.settings import Limits, Sampling

SAMPLINGS = [
    Sampling(0.7),
    Sampling(1.0, top_k=5),
    Sampling(1.0, top_k=1000),
    Sampling(1.0, top_p=0.6),
    Sampling(1.3, top_k=20, top_p=0.8),
    Sampling(0.4, top_k=3, top_p=0.95),
    Sampling(2.5, top_p=0.05),
    Sampling(1.0, top_p=1.0),
]


def random_scores(rows: int, vocabulary: int, seed: int) -> Tensor:
    """Without ties."""
    scores = torch.randn(rows, vocabulary, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 2
    assert all(len(row.unique()) == vocabulary for row in scores)
    return scores


def by_the_peer(scores: Tensor, sampling: Sampling) -> Tensor:
    ids = torch.zeros(len(scores), 1, dtype=torch.long)
    scores = TemperatureLogitsWarper(float(sampling.temperature))(ids, scores)
    if sampling.top_k is not None:
        scores = TopKLogitsWarper(sampling.top_k)(ids, scores)
    if sampling.top_p is not None:
        scores = TopPLogitsWarper(sampling.top_p)(ids, scores)
    return scores.softmax(-1)


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
def test_distributions_equal_the_peers(sampling: Sampling) -> None:
    for seed in range(5):
        scores = random_scores(7, 60, seed)
        ours, theirs = restrict(scores, sampling).softmax(-1), by_the_peer(scores, sampling)
        assert torch.equal(ours > 0, theirs > 0)
        assert (ours - theirs).abs().max() <= 1e-10


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("further", [{}, {"top_k": 3}, {"top_p": 0.9}], ids=str)
def test_the_lowest_temperatures_are_greedy(dtype: torch.dtype, further: dict[str, Any]) -> None:
    """Single precision takes the last of them for 0."""
    scores = torch.stack([torch.randperm(60, generator=torch.Generator().manual_seed(i)) for i in range(9)]).to(dtype)
    scores[3, 5:] = -torch.inf
    for temperature in (1e-30, 1e-38, 1e-44, 1e-46, 1e-300, 5e-324):
        sampling = Sampling(temperature, **further)
        assert choose(scores, sampling, range(9), 0).tolist() == scores.argmax(-1).tolist(), temperature
        assert restrict(scores, sampling).softmax(-1).max(-1).values.tolist() == [1] * 9


def test_the_highest_temperatures_draw_from_all_that_can_come() -> None:
    """Single precision takes the last for ∞; what has no probability has none then either."""
    scores = random_scores(2, 6, 1).float()
    scores[0, 4] = -torch.inf
    for temperature in (1e30, 1e39, 1e300):
        p = restrict(scores, Sampling(temperature)).softmax(-1)
        torch.testing.assert_close(p[0], torch.tensor([0.2, 0.2, 0.2, 0.2, 0, 0.2]))
        torch.testing.assert_close(p[1], torch.full((6,), 1 / 6))


def test_the_order_matters_and_is_the_peers() -> None:
    """The nucleus of what top-k leaves is smaller than that of all: the other way round would keep more."""
    scores, sampling = random_scores(1, 60, 0), Sampling(2.0, top_k=10, top_p=0.9)
    kept = int((restrict(scores, sampling) > -torch.inf).sum())
    other_way = min(10, int((restrict(scores, Sampling(2.0, top_p=0.9)) > -torch.inf).sum()))
    assert kept < other_way


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
def test_tokens_come_as_often_as_they_should(sampling: Sampling) -> None:
    scores = random_scores(1, 9, 3)
    count = 4000
    rows = choose(scores.expand(count, -1), sampling, range(count), 2)
    numbers = torch.cat([choose(scores, sampling, [5], number) for number in range(count)])
    expected = restrict(scores, sampling).softmax(-1)[0].numpy()
    for drawn in (rows, numbers):
        seen = np.bincount(drawn.numpy(), minlength=9)
        assert seen[expected == 0].sum() == 0
        if (expected > 0).sum() > 1:
            assert chisquare(seen[expected > 0], count * expected[expected > 0]).pvalue > 0.001
    untempered = scores.softmax(-1)[0].numpy()
    if np.abs(untempered - expected).max() > 0.02:  # the test would notice
        assert chisquare(np.bincount(rows.numpy(), minlength=9), count * untempered).pvalue < 1e-6


def test_neighbouring_draws_are_independent() -> None:
    """Of the same text one token later, of the next text, with the next seed: pairs come as products say."""
    scores, count = random_scores(1, 4, 8), 6000
    p = scores.softmax(-1)[0].numpy()

    def drawn(first_row: int, number: int, seed: int) -> np.ndarray:
        return choose(
            scores.expand(count, -1), Sampling(seed=seed), range(first_row, first_row + count), number
        ).numpy()

    first = drawn(0, 0, 0)
    for second in (drawn(0, 1, 0), drawn(1, 0, 0), drawn(0, 0, 1)):
        pairs = np.bincount(first * 4 + second, minlength=16)
        assert chisquare(pairs, count * np.outer(p, p).ravel()).pvalue > 0.001
    assert (first == drawn(0, 0, 0)).all()


@settings(max_examples=300)
@given(
    scores=st.lists(st.floats(-30, 30), min_size=1, max_size=40),
    temperature=st.sampled_from([1e-300, 1e-3, 0.5, 1.0, 4.0, 1e6]),
    top_k=st.none() | st.integers(1, 50),
    top_p=st.none() | st.floats(1e-6, 1),
    uniform=st.floats(0, 1, exclude_max=True) | st.just(1 - 2**-53),
)
def test_nothing_outside_the_nucleus_is_drawn(
    scores: list[float], temperature: float, top_k: int | None, top_p: float | None, uniform: float
) -> None:
    scores_1v = torch.tensor([scores], dtype=torch.float64)
    restricted = restrict(scores_1v, Sampling(temperature, top_k, top_p))
    (token,) = draw(restricted, torch.tensor([uniform])).tolist()
    values = np.array(scores) - max(scores)
    if top_k is not None:
        values[values < np.sort(values)[::-1][min(top_k, len(values)) - 1]] = -np.inf
    with np.errstate(over="ignore"):
        p = np.exp(values / temperature)
    p /= p.sum()
    assert p[token] > 0
    likelier = p > p[token] * (1 + 1e-9)
    if top_k is not None:
        assert likelier.sum() < top_k
    if top_p is not None:
        assert p[likelier].sum() < top_p + 1e-12
        assert p[restricted[0].numpy() > -np.inf].sum() > top_p - 1e-12


@pytest.mark.parametrize("flatness", [1.0, 0.1, 0.001])
def test_a_nucleus_of_any_size_is_found_in_a_large_vocabulary(flatness: float) -> None:
    scores = random_scores(3, 9000, 2) * torch.tensor([[flatness], [1.0], [0.0001]], dtype=torch.float64)
    for top_p in (0.3, 0.9, 0.999):
        sampling = Sampling(0.9, top_p=top_p)
        ours, theirs = restrict(scores, sampling).softmax(-1), by_the_peer(scores, sampling)
        assert torch.equal(ours > 0, theirs > 0)
        assert (ours - theirs).abs().max() <= 1e-10


def test_ties_at_the_edge_stay() -> None:
    scores = torch.tensor([[1.0, 3.0, 2.0, 2.0, 2.0, 0.0]])
    for sampling in (Sampling(top_k=2), Sampling(top_p=0.6)):
        assert (restrict(scores, sampling)[0] > -torch.inf).tolist() == [False, True, True, True, True, False]


def test_a_draw_at_the_end_of_the_distribution_is_a_token_that_can_be_drawn() -> None:
    """Tokens without probability stand at both ends and in the middle."""
    scores = torch.tensor([[-torch.inf, 0.1, -torch.inf, 0.2, 0.3, -torch.inf, -torch.inf]])
    almost_one = torch.tensor([1 - 2**-53], dtype=torch.float64)
    assert draw(scores, almost_one).tolist() == [4]
    assert draw(scores, torch.tensor([1.0], dtype=torch.float64)).tolist() == [4]
    assert draw(scores, torch.tensor([0.0], dtype=torch.float64)).tolist() == [1]


def test_greedy_takes_the_likeliest() -> None:
    scores = random_scores(6, 30, 1)
    assert torch.equal(choose(scores, Sampling(0.0), range(6), 0), scores.argmax(-1))
    low = choose(scores, Sampling(1e-6), range(6), 0)
    assert torch.equal(low, scores.argmax(-1))


def test_log_probabilities_are_those_of_the_scores() -> None:
    scores, ids = random_scores(6, 30, 1), torch.tensor([0, 5, 29, 7, 7, 1])
    expected = scores.log_softmax(-1)[torch.arange(6), ids]
    assert (log_probability(scores, ids) - expected).abs().max() <= 1e-12


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"temperature": -0.1}, "temperature=-0.1"),
        ({"temperature": float("nan")}, "temperature=nan"),
        ({"temperature": float("inf")}, "temperature=inf"),
        ({"temperature": True}, "temperature=True"),
        ({"top_k": 0}, "top_k=0"),
        ({"top_k": 2.5}, "top_k=2.5"),
        ({"top_p": 0.0}, "top_p=0.0"),
        ({"top_p": 1.2}, "top_p=1.2"),
        ({"seed": "x"}, "seed='x'"),
        ({"temperature": 0, "top_k": 3}, "top_k=3 has no effect"),
        ({"temperature": 0, "top_p": 0.3}, "top_p=0.3 has no effect"),
        ({"max_new_tokens": 0}, "max_new_tokens=0"),
        ({"min_new_tokens": -1}, "min_new_tokens=-1"),
        ({"min_new_tokens": 60, "max_new_tokens": 50}, "from 0 to max_new_tokens, 50"),
    ],
)
def test_settings_without_sense_are_refused(settings: dict[str, object], words: str) -> None:
    made = Limits if any("tokens" in key for key in settings) else Sampling
    with pytest.raises(RequestError, match=words):
        made(**settings)
