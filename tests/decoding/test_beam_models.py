"""Beam search with real bodies: with a cache as without, in a batch as alone, in single precision too."""

import pytest
import torch

from heedful.decoding.beam import beam_search
from heedful.decoding.finished import Hypothesis
from heedful.decoding.generate import generate
from heedful.decoding.settings import Beam, Limits, Sampling
from heedful.models.batch import Batch
from heedful.models.next_token import NextToken
from heedful.models.transformer import Transformer
from tests.support.beam_samples import Request, plain_beam
from tests.support.generation_samples import PROMPTS, WIRINGS, make_model

BEAMS = [Beam(4, 3, 0.0), Beam(3, 2, 1.0, "gnmt"), Beam(5, 5, -0.7), Beam(4, 2, 2.0, stopping="heuristic")]
STOP = frozenset({4, 12, 13})


def uncached(model: Transformer, text: tuple[int, ...]) -> list[float]:
    """The whole text is read again, alone."""
    with torch.no_grad():
        log_p: list[float] = model("causal", Batch(torch.tensor([text])))[0, -1].log_softmax(-1).tolist()
    return log_p


def assert_same(found: list[Hypothesis], other: list[Hypothesis], tolerance: float) -> None:
    assert [(one.ids, one.reason) for one in found] == [(one.ids, one.reason) for one in other]
    for a, b in zip(found, other, strict=True):
        assert a.log_probabilities == pytest.approx(b.log_probabilities, abs=tolerance)
        assert a.score == pytest.approx(b.score, abs=tolerance)


@pytest.mark.parametrize("beam", BEAMS, ids=str)
@pytest.mark.parametrize("wiring", WIRINGS)
def test_cached_and_batched_is_uncached_and_alone(wiring: str, beam: Beam) -> None:
    model = make_model(wiring)
    limits, prefixes = Limits(8, 2, STOP, 12), [[], [2, 6], [], [1], []]
    read = NextToken(model, "causal")
    found = beam_search(read, PROMPTS, beam, limits, prefixes)
    for row, (prompt, prefix) in enumerate(zip(PROMPTS, prefixes, strict=True)):
        expected = plain_beam(Request(prompt, beam, limits, prefix), lambda text: uncached(model, text))
        assert [(one.ids, one.reason) for one in found[row]] == [(text.ids, text.reason) for text in expected]
        for one, text in zip(found[row], expected, strict=True):
            assert one.log_probabilities == pytest.approx(text.log_p, abs=1e-10)
            assert one.score == pytest.approx(text.score, abs=1e-10)
        (alone,) = beam_search(read, [prompt], beam, limits, [prefix])
        assert_same(alone, found[row], 1e-10)
    if beam.length_penalty > 0:  # some left the batch before others, or the comparison would show less than it seems
        assert len({len(texts[0].ids) for texts in found}) > 1


@pytest.mark.parametrize("beam", BEAMS, ids=str)
def test_batched_is_alone_in_single_precision(beam: Beam) -> None:
    model = make_model().float()
    read, limits = NextToken(model, "causal"), Limits(10, 1, STOP, 16)
    found = beam_search(read, PROMPTS, beam, limits)
    order = [3, 0, 4, 2, 1]
    shuffled = beam_search(read, [PROMPTS[i] for i in order], beam, limits)
    for i, texts in zip(order, shuffled, strict=True):
        assert_same(texts, found[i], 1e-5)
        (alone,) = beam_search(read, [PROMPTS[i]], beam, limits)
        assert_same(alone, found[i], 1e-5)


def test_a_beam_of_one_is_greedy() -> None:
    for seed in range(4):
        read, limits = NextToken(make_model(seed=seed), "causal"), Limits(15, 1, STOP, 20)
        greedy = generate(read, PROMPTS, Sampling(0.0), limits)
        found = beam_search(read, PROMPTS, Beam(1), limits)
        assert [texts[0].ids for texts in found] == [one.ids for one in greedy]
        assert [texts[0].reason for texts in found] == [one.reason for one in greedy]


def test_a_wider_beam_finds_likelier_texts() -> None:
    """Not always, but on the whole: the search does something."""
    read, limits = NextToken(make_model(), "causal"), Limits(10)
    sums = [
        sum(texts[0].log_probability for texts in beam_search(read, PROMPTS, Beam(width, length_penalty=0.0), limits))
        for width in (1, 2, 8, 64)
    ]
    assert sums == sorted(sums)
    assert sums[-1] > sums[0] + 0.1
