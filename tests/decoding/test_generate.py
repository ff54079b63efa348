"""Texts token by token: with a cache as without, in a batch as alone, ended for the right reason."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch

from heedful import RequestError
from heedful.decoding.generate import Continuation, choose, generate
from heedful.decoding.settings import Limits, Sampling
from heedful.models.batch import Batch
from heedful.models.next_token import NextToken
from heedful.models.transformer import Transformer
from tests.support.generation_samples import PROMPTS, WIRINGS, Chain, make_model

SAMPLINGS = [Sampling(0.0), Sampling(1.0, seed=3), Sampling(1.4, top_k=9, top_p=0.9, seed=4)]


@torch.no_grad()
def uncached(model: Transformer, prompt: Sequence[int], sampling: Sampling, limits: Limits, row: int) -> Continuation:
    """The whole text is read again for each token, alone."""
    result, ids = Continuation(), list(prompt)
    for number in range(limits.max_new_tokens):
        if limits.max_length is not None and len(ids) == limits.max_length:
            result.reason = "max_length"
            break
        scores = model("causal", Batch(torch.tensor([ids])))[:, -1]
        allowed = scores.clone()
        if number < limits.min_new_tokens:
            allowed[:, list(limits.stop)] = -torch.inf
        (token,) = choose(allowed, sampling, [row], number).tolist()
        ids.append(token)
        result.ids.append(token)
        result.log_probabilities.append(float(scores.log_softmax(-1)[0, token]))
        if token in limits.stop:
            result.reason = "stop"
            break
    return result


def assert_same(a: Sequence[Continuation], b: Sequence[Continuation]) -> None:
    assert [r.ids for r in a] == [r.ids for r in b]
    assert [r.reason for r in a] == [r.reason for r in b]
    for one, other in zip(a, b, strict=True):
        assert len(one.log_probabilities) == len(one.ids)
        differences = torch.tensor(one.log_probabilities) - torch.tensor(other.log_probabilities)
        assert not len(differences) or differences.abs().max() <= 1e-10


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
@pytest.mark.parametrize("wiring", WIRINGS)
def test_cached_and_batched_is_uncached_and_alone(wiring: str, sampling: Sampling) -> None:
    model = make_model(wiring)
    limits = Limits(20, 3, frozenset({4, 12, 13}), model.shape.longest)
    expected = [uncached(model, prompt, sampling, limits, row) for row, prompt in enumerate(PROMPTS)]
    read = NextToken(model, "causal")
    assert_same(generate(read, PROMPTS, sampling, limits), expected)
    for row, prompt in enumerate(PROMPTS):
        assert_same(generate(read, [prompt], sampling, limits, rows=[row]), [expected[row]])
    order = [3, 0, 4, 2, 1]
    shuffled = generate(read, [PROMPTS[i] for i in order], sampling, limits, rows=order)
    assert_same(shuffled, [expected[i] for i in order])
    if not sampling.greedy:  # some left the batch before others, or the comparison would show less than it seems
        assert len({len(result.ids) for result in expected}) > 1


def test_the_scores_hang_on_what_padding_could_spoil() -> None:
    """Negative control: a padded prompt whose padding is taken for tokens is another text."""
    model, sampling, limits = make_model(), Sampling(0.0), Limits(8)
    right = generate(NextToken(model, "causal"), [[7]], sampling, limits)
    wrong = generate(NextToken(model, "causal"), [[0, 0, 7]], sampling, limits)
    assert max(abs(a - b) for a, b in zip(right[0].log_probabilities, wrong[0].log_probabilities, strict=True)) > 1e-3


def test_log_probabilities_are_untempered() -> None:
    model = make_model()
    for sampling in (Sampling(0.3, seed=1), Sampling(1.0, top_k=2, seed=1)):
        (result,) = generate(NextToken(model, "causal"), [[5, 9]], sampling, Limits(10))
        with torch.no_grad():
            scores = model("causal", Batch(torch.tensor([[5, 9, *result.ids]])))[0, 1:-1]
        expected = scores.log_softmax(-1)[torch.arange(10), torch.tensor(result.ids)]
        assert (torch.tensor(result.log_probabilities, dtype=torch.float64) - expected).abs().max() <= 1e-10


def counting_chain(size: int = 30) -> Chain:
    """After token i comes i + 1, almost surely."""
    table = torch.zeros(size, size, dtype=torch.float64)
    table[torch.arange(size), (torch.arange(size) + 1) % size] = 20.0
    return Chain(table, [])


def test_texts_that_have_ended_leave_the_batch() -> None:
    chain = counting_chain()
    limits = Limits(10, stop=frozenset({9}), max_length=8)
    results = generate(chain, [[7], [1, 2, 3], [4], [0, 0, 0, 0, 0, 0]], Sampling(0.0), limits)
    assert [r.ids for r in results] == [[8, 9], [4, 5, 6, 7, 8], [5, 6, 7, 8, 9], [1, 2]]
    assert [r.reason for r in results] == ["stop", "max_length", "stop", "max_length"]
    assert chain.batches == [4, 4, 2, 2, 2]


def test_a_model_is_not_asked_for_what_nobody_reads() -> None:
    chain = counting_chain()
    generate(chain, [[1], [2]], Sampling(0.0), Limits(3))
    assert chain.batches == [2, 2, 2]
    assert generate(chain, [], Sampling(0.0), Limits(3)) == []
    full = generate(chain, [[1, 2, 3]], Sampling(0.0), Limits(3, max_length=3))
    assert full == [Continuation([], [], "max_length")]
    assert chain.batches == [2, 2, 2]


def test_before_the_fewest_tokens_no_text_ends() -> None:
    chain = counting_chain()
    stop = frozenset({3, 5})
    (result,) = generate(chain, [[2]], Sampling(0.0), Limits(6, 2, stop))
    assert not stop & set(result.ids[:2])
    assert generate(chain, [[2]], Sampling(0.0), Limits(6, 0, stop))[0].ids == [3]
    (long,) = generate(chain, [[2]], Sampling(1.0, seed=5), Limits(40, 40, stop))
    assert len(long.ids) == 40
    assert not stop & set(long.ids)
    assert long.reason == "max_new_tokens"
    assert long.log_probabilities[0] < math.log(0.01)  # what the model itself thinks of not stopping


@pytest.mark.parametrize(("max_new", "longest", "reason"), [(3, 5, "max_new_tokens"), (4, 5, "max_length")])
def test_of_two_limits_the_nearer_is_the_reason(max_new: int, longest: int, reason: str) -> None:
    (result,) = generate(counting_chain(), [[1, 2]], Sampling(0.0), Limits(max_new, max_length=longest))
    assert len(result.ids) == 3
    assert result.reason == reason


def test_tokens_are_told_as_they_come() -> None:
    told: list[tuple[int, int]] = []
    generate(
        counting_chain(), [[7], [1]], Sampling(0.0), Limits(3, stop=frozenset({9})), on_token=lambda *t: told.append(t)
    )
    assert told == [(0, 8), (1, 2), (0, 9), (1, 3), (1, 4)]


def test_seed_and_row_choose_the_text_and_nothing_else() -> None:
    flat = Chain(torch.zeros(30, 30), [])
    texts = generate(flat, [[1]] * 4, Sampling(seed=1), Limits(12))
    assert len({tuple(t.ids) for t in texts}) == 4
    again = generate(flat, [[1]], Sampling(seed=1), Limits(12), rows=[2])
    assert again[0].ids == texts[2].ids
    assert generate(flat, [[1]], Sampling(seed=1), Limits(5), rows=[2])[0].ids == texts[2].ids[:5]
    assert generate(flat, [[1]], Sampling(seed=2), Limits(12), rows=[2])[0].ids != texts[2].ids


def test_what_cannot_be_continued() -> None:
    with pytest.raises(ValueError, match="without tokens"):
        generate(counting_chain(), [[1], []], Sampling(), Limits())
    with pytest.raises(ValueError, match="longer than max_length"):
        generate(counting_chain(), [[1, 2, 3]], Sampling(), Limits(max_length=2))
    for damaged in (torch.nan, torch.inf):
        table = torch.zeros(5, 5)
        table[:, 3] = damaged
        for sampling in (Sampling(0.0), Sampling(1.0, top_p=0.5)):
            with pytest.raises(RequestError, match="no finite scores"):
                generate(Chain(table, []), [[1]], sampling, Limits())
    model = make_model()
    model.head_shapes["causal"] = replace(model.head_shapes["causal"], kind="masked-word")
    with pytest.raises(ValueError, match="does not score what comes next"):
        NextToken(model, "causal")
