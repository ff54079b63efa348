"""Beam search against all texts that there are, and against one written with plain lists that never stops early."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from heedful import RequestError
from heedful.decoding.beam import beam_search
from heedful.decoding.candidates import likeliest, rank
from heedful.decoding.coverage import SourceWeights
from heedful.decoding.finished import Finished, Hypothesis
from heedful.decoding.generate import generate
from heedful.decoding.settings import Beam, Limits, Sampling, choose_method
from tests.support.beam_samples import AttendingModel, PrefixModel, Request, Text, all_texts, plain_beam
from tests.support.generation_samples import Chain, Last

PENALTIES = st.sampled_from([-2.0, -1.0, -0.3, 0.0, 0.6, 1.0, 2.0, 5.0]) | st.floats(-3, 3)


@st.composite
def requests(draw: st.DrawFn, most: int, full: bool = False) -> tuple[AttendingModel, list[Request]]:
    """A model and up to three prompts with the same settings."""
    v = draw(st.integers(2, 4))
    model = AttendingModel(v, draw(st.integers(0, 10_000)), whole=draw(st.booleans()))
    tokens = st.integers(0, v - 1)
    stop, banned = draw(st.frozensets(tokens, max_size=v - 1)), draw(st.frozensets(tokens, max_size=1))
    longest = draw(st.integers(1, most))
    width = v**longest if full else draw(st.integers(1, 6))
    beam = Beam(
        width,
        draw(st.integers(1, min(width, 5))),
        draw(PENALTIES),
        draw(st.sampled_from(["power", "gnmt"])),
        draw(st.sampled_from([0.0, 0.0, 0.2, 1.5])),
        "exact" if full else draw(st.sampled_from(["exact", "exact", "early", "heuristic"])),
        banned,
    )
    limits = Limits(longest, draw(st.integers(0, longest)), stop, draw(st.none() | st.integers(3, most + 2)))
    forced = st.lists(tokens.filter(lambda token: token not in stop), max_size=3)
    made = []
    for _ in range(draw(st.integers(1, 1 if full else 3))):
        request = Request(draw(st.lists(tokens, min_size=1, max_size=3)), beam, limits)
        made.append(Request(request.prompt, beam, limits, draw(forced)[: request.room]))
    return model, made


def search(model: Any, asked: list[Request]) -> list[list[Hypothesis]]:
    prompts, prefixes = [request.prompt for request in asked], [request.prefix for request in asked]
    return beam_search(model, prompts, asked[0].beam, asked[0].limits, prefixes)


def assert_scores(found: list[Hypothesis], expected: list[Text]) -> None:
    assert [one.score for one in found] == pytest.approx([text.score for text in expected], abs=1e-10)
    for one in found:
        assert one.log_probability == pytest.approx(sum(one.log_probabilities), abs=1e-10)


def assert_same(found: list[Hypothesis], expected: list[Text]) -> None:
    assert [(one.ids, one.reason) for one in found] == [(text.ids, text.reason) for text in expected]
    assert_scores(found, expected)
    for one, text in zip(found, expected, strict=True):
        assert one.log_probabilities == pytest.approx(text.log_p, abs=1e-10)


def looks_of(model: AttendingModel, request: Request) -> Any:
    return model.looks if request.beam.coverage_penalty else None


@settings(max_examples=150)
@given(requests(4, full=True))
def test_a_beam_of_full_width_finds_the_best_of_all_texts(asked: tuple[AttendingModel, list[Request]]) -> None:
    model, (request,) = asked
    expected = all_texts(request, model.log_p, looks_of(model, request))
    if not expected:
        with pytest.raises(RequestError, match="no token can come"):
            search(model, [request])
        return
    (found,) = search(model, [request])
    assert_scores(found, expected[: request.beam.n_best])
    texts = {tuple(text.ids): text for text in expected}
    assert len({tuple(one.ids) for one in found}) == len(found)
    for one in found:
        text = texts[tuple(one.ids)]
        assert (one.score, one.reason) == (pytest.approx(text.score, abs=1e-10), text.reason)
        assert one.log_probabilities == pytest.approx(text.log_p, abs=1e-10)


@settings(max_examples=300)
@given(requests(6))
def test_any_beam_finds_what_a_plain_search_to_the_end_finds(asked: tuple[AttendingModel, list[Request]]) -> None:
    """With "exact" nothing is lost by stopping, equal texts come in the same order, and neighbours in the batch change
    nothing; the other rules stop where their definitions say."""
    model, made = asked
    expected = [plain_beam(request, model.log_p, looks_of(model, request)) for request in made]
    if not all(expected):
        with pytest.raises(RequestError, match="no token can come"):
            search(model, made)
        return
    found = search(model, made)
    for one, texts in zip(found, expected, strict=True):
        assert_same(one, texts)
    for request, one in zip(made, found, strict=True):
        assert search(model, [request]) == [one]


@settings(max_examples=60)
@given(requests(6), st.integers(1, 6))
def test_the_first_of_the_n_best_is_the_best(asked: tuple[AttendingModel, list[Request]], n_best: int) -> None:
    model, (request, *_) = asked
    limits = Limits(request.limits.max_new_tokens, 0, request.limits.stop)
    settings = {"width": 6, "length_penalty": request.beam.length_penalty, "stopping": request.beam.stopping}
    (best,) = beam_search(model, [request.prompt], Beam(n_best=1, **settings), limits)
    (several,) = beam_search(model, [request.prompt], Beam(n_best=n_best, **settings), limits)
    assert several[0] == best[0]
    assert len(several) <= n_best
    assert [one.score for one in several] == sorted((one.score for one in several), reverse=True)


@settings(max_examples=60)
@given(st.integers(0, 1000), st.booleans(), PENALTIES, st.sampled_from(["exact", "early", "heuristic"]))
def test_a_beam_of_one_is_greedy(seed: int, whole: bool, alpha: float, rule: Any) -> None:
    model, prompts = PrefixModel(5, seed, whole), [[1], [2, 3], [0]]
    limits = Limits(7, 1, frozenset({2, 4}), 8)
    greedy = generate(model, prompts, Sampling(0.0), limits)
    found = beam_search(model, prompts, Beam(1, length_penalty=alpha, stopping=rule), limits)
    assert [[(one.ids, one.reason) for one in texts] for texts in found] == [[(one.ids, one.reason)] for one in greedy]
    for (one,), other in zip(found, greedy, strict=True):
        assert one.log_probabilities == pytest.approx(other.log_probabilities, abs=1e-10)


def rising() -> Chain:
    """After 3 a text ends at once (0.5), or with 2 in between (0.3), or goes on with 1 (0.2), which then is certain.
    0 ends it."""
    p = torch.full((4, 4), 1e-9, dtype=torch.float64)
    p[3, :3] = torch.tensor([0.5, 0.2, 0.3])
    p[1, 1] = p[2, 0] = p[0, 0] = 1
    return Chain((p / p.sum(1, keepdim=True)).log(), [])


@pytest.mark.parametrize(("stopping", "best"), [("exact", [1] * 9), ("heuristic", [2, 0]), ("early", [2, 0])])
def test_where_the_other_rules_are_wrong(stopping: Any, best: list[int]) -> None:
    """log 0.5 = −0.69; log 0.3 / 2 = −0.60; two have ended, and the one that grows has log 0.2 / 2 = −0.80 so far. But
    at nine tokens it has log 0.2 / 9 = −0.18: Hugging Face's default stops too early, as does the rule "early"."""
    chain = rising()
    limits = Limits(9, stop=frozenset({0}))
    ((found,),) = beam_search(chain, [[3]], Beam(2, stopping=stopping), limits)
    assert found.ids == best
    assert len(chain.batches) == (9 if stopping == "exact" else 2)
    (likely,) = beam_search(rising(), [[3]], Beam(2, length_penalty=0.0, stopping=stopping), limits)
    assert likely[0].ids == [0]


@pytest.mark.parametrize("alpha", [0.0, -1.0])
def test_an_exact_search_stops_as_soon_as_nothing_can_be_better(alpha: float) -> None:
    """Log-probabilities only sink, so without a favour for length what is likelier than all that grows has won."""
    chain = rising()
    ((found,),) = beam_search(chain, [[3]], Beam(2, length_penalty=alpha), Limits(1000, stop=frozenset({0})))
    assert found.ids == [0]
    assert len(chain.batches) == 1


def test_texts_that_end_take_no_place_from_those_that_grow() -> None:
    """Both places of the beam would go to the two stop tokens at each step, and nothing would be left."""
    p = torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64)
    chain = Chain(p.log().expand(4, 4), [])
    (found,) = beam_search(chain, [[2]], Beam(2, 2, 5.0), Limits(3, stop=frozenset({0, 1})))
    assert [one.ids for one in found] == [[2, 2, 0], [2, 2, 1]]


def test_equal_texts_come_in_the_order_of_their_tokens() -> None:
    flat = Chain(torch.zeros(40, 40, dtype=torch.float64), [])
    (found,) = beam_search(flat, [[5]], Beam(4, 4), Limits(3))
    assert [one.ids for one in found] == [[0, 0, 0], [0, 0, 1], [0, 0, 2], [0, 0, 3]]


@settings(max_examples=100)
@given(st.lists(st.lists(st.integers(-3, 3), min_size=9, max_size=9), min_size=1, max_size=4), st.integers(1, 10))
def test_of_equally_likely_tokens_the_lower_are_taken(rows: list[list[int]], k: int) -> None:
    log_p, tokens = likeliest(torch.tensor(rows, dtype=torch.float32), k)
    for row, values, ids in zip(rows, log_p.tolist(), tokens.tolist(), strict=True):
        assert ids == sorted(sorted(range(9), key=lambda i: (-row[i], i))[:k])
        assert values == [row[i] for i in ids]


@settings(max_examples=100)
@given(st.integers(0, 10_000), st.integers(1, 3), st.integers(1, 4), st.integers(1, 4), st.sets(st.integers(0, 6)))
def test_candidates_are_the_likeliest_and_the_likeliest_that_do_not_end(
    seed: int, s: int, w: int, width: int, stop: set[int]
) -> None:
    generator = torch.Generator().manual_seed(seed)
    log_p = torch.randint(-4, 0, (s * w, 7), generator=generator).double()
    totals = torch.randint(-4, 0, (s, w), generator=generator).double()
    found = rank(log_p, totals, width, len(stop))
    for row in range(s):
        candidates = [
            (-float(totals[row, parent] + log_p[row * w + parent, token]), parent, token)
            for parent in range(w)
            for token in range(7)
        ]
        expected = sorted(candidates)
        columns = (-found.total_sc[row]).tolist(), found.parent_sc[row].tolist(), found.token_sc[row].tolist()
        ours = list(zip(*columns, strict=True))
        assert ours[:width] == expected[:width]
        grow = [one for one in ours if one[2] not in stop][:width]
        assert grow == [one for one in expected if one[2] not in stop][:width]


@settings(max_examples=200)
@given(
    st.floats(-20, -1),
    st.integers(1, 9),
    st.integers(1, 9),
    st.integers(0, 9),
    st.sampled_from([-0.01, 0, 0.01]),
    PENALTIES,
    st.sampled_from(["power", "gnmt"]),
)
def test_an_exact_search_stops_exactly_when_no_length_helps(
    log_p: float, length: int, further: int, at: int, more: float, alpha: float, form: Any
) -> None:
    """The second best of those that have ended is about what the text that grows would be worth at one of the lengths
    that it can have."""
    beam = Beam(4, 2, alpha, form)
    attainable = [log_p / beam.lp(n) for n in range(length + 1, length + further + 1)]
    second = attainable[at % further] + more
    finished = Finished(beam, length + further)
    for score in (second - 1, 0.0):
        finished.add(Hypothesis([], [], 0.0, score, "stop"))
    assert finished.closed(log_p, length) == (max(attainable) <= second - 1)
    finished.add(Hypothesis([], [], 0.0, second, "stop"))
    assert [one.score for one in finished.best] == sorted([second, 0.0], reverse=True)
    assert finished.closed(log_p, length) == (max(attainable) <= min(second, 0.0))
    assert not Finished(beam, length + further).closed(log_p, length)


def test_a_text_that_has_ended_is_not_read() -> None:
    """Not even where a prompt has fewer texts that grow than the others, as its first token is given."""
    table = torch.zeros(3, 3)
    table[0] = torch.nan
    found = beam_search(Chain(table, []), [[1], [1]], Beam(4, 4), Limits(3, stop=frozenset({0})), [[], [2]])
    assert [len(texts) for texts in found] == [4, 4]


class CountingPast(Last):
    reordered = 0

    def reorder(self, index_b: torch.Tensor) -> "CountingPast":
        CountingPast.reordered += 1
        return CountingPast(super().reorder(index_b).read)


def test_the_past_is_reordered_only_when_the_order_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the first step each of the two texts goes on with itself: a one becomes a one, a two a two."""
    monkeypatch.setattr(CountingPast, "reordered", 0)
    p = torch.full((4, 4), 1e-6, dtype=torch.float64)
    p[0, 1:3] = torch.tensor([0.6, 0.4], dtype=torch.float64)
    p[1, 1] = p[2, 2] = p[3, 3] = 1
    chain = Chain(p.log(), [])

    def read(ids: torch.Tensor, real: torch.Tensor | None, past: Last | None) -> tuple[torch.Tensor, CountingPast]:
        scores, longer = chain(ids, real, past)
        return scores, CountingPast(longer.read)

    (found,) = beam_search(read, [[0]], Beam(2, 2), Limits(8))
    assert [one.ids for one in found] == [[1] * 8, [2] * 8]
    assert CountingPast.reordered == 1


def test_prompts_that_are_done_leave_the_batch() -> None:
    """After token i comes i + 1, almost surely: the first prompt is done after two tokens, the second after five."""
    size = 30
    table = torch.zeros(size, size, dtype=torch.float64)
    table[torch.arange(size), (torch.arange(size) + 1) % size] = 40.0
    chain = Chain(table, [])
    found = beam_search(
        chain, [[7], [4], [0, 0, 9]], Beam(3, length_penalty=0.0), Limits(20, stop=frozenset({9}), max_length=3)
    )
    assert [texts[0].ids for texts in found] == [[8, 9], [5, 6], []]
    assert [texts[0].reason for texts in found] == ["stop", "max_length", "max_length"]
    assert chain.batches == [2, 6]
    chain.batches.clear()
    found = beam_search(chain, [[7], [4]], Beam(3, length_penalty=0.0), Limits(20, stop=frozenset({9})))
    assert [texts[0].ids for texts in found] == [[8, 9], [5, 6, 7, 8, 9]]
    assert chain.batches == [2, 6, 3, 3, 3]
    assert beam_search(chain, [], Beam(3), Limits()) == []


def test_a_prefix_is_counted_and_may_be_what_is_banned() -> None:
    model = PrefixModel(6, 3)
    beam = Beam(4, 4, 0.7, banned=frozenset({5, 1}))
    (found,) = beam_search(model, [[2]], beam, Limits(4, stop=frozenset({0})), [[5, 3, 5]])
    for one in found:
        assert one.ids[:3] == [5, 3, 5]
        assert one.ids[3] not in beam.banned
        expected = [model.log_p((2, *one.ids[:j]))[token] for j, token in enumerate(one.ids)]
        assert one.log_probabilities == pytest.approx(expected, abs=1e-12)
        assert one.score == pytest.approx(sum(expected) / 4**0.7, abs=1e-12)
    assert max(model.batches) == 1  # one text alone begins so, and no fourth token has to be read


class Attending(Chain):
    def attend(self, ids: torch.Tensor, real: Any, past: Last | None) -> tuple[torch.Tensor, Last, SourceWeights]:
        weights = torch.tensor([[0.9, 0.1], [0.95, 0.05], [0.1, 0.9]], dtype=torch.float64)
        return *self(ids, real, past), SourceWeights(weights[ids[:, -1]])


def test_a_coverage_penalty_prefers_what_looked_everywhere() -> None:
    """The likelier text looked 1.85 at the first place of the source and 0.15 at the second, the other 1 at each."""
    p = torch.full((4, 4), 1e-12, dtype=torch.float64)
    p[0, 1:3] = torch.tensor([0.6, 0.4], dtype=torch.float64)
    p[1:, 3] = 1
    limits = Limits(5, stop=frozenset({3}))
    (found,) = beam_search(Attending(p.log(), []), [[0]], Beam(2, 2), limits)
    assert [one.ids for one in found] == [[1, 3], [2, 3]]
    (found,) = beam_search(Attending(p.log(), []), [[0]], Beam(2, 2, coverage_penalty=0.3), limits)
    assert [one.ids for one in found] == [[2, 3], [1, 3]]
    expected = [math.log(0.4) / 2, math.log(0.6) / 2 + 0.3 * math.log(0.15)]
    assert [one.score for one in found] == pytest.approx(expected, abs=1e-9)


def test_a_place_that_nobody_looked_at_leaves_scores_numbers() -> None:
    class Blind(Attending):
        def attend(self, ids: torch.Tensor, real: Any, past: Last | None) -> Any:
            return *self(ids, real, past), SourceWeights(torch.tensor([[1.0, 0.0]]).expand(len(ids), 2))

    chain = Blind(torch.randn(5, 5, generator=torch.Generator().manual_seed(0)).double(), [])
    (found,) = beam_search(chain, [[0]], Beam(3, 3, coverage_penalty=0.3), Limits(4, stop=frozenset({3})))
    assert all(math.isfinite(one.score) for one in found)
    assert len({one.score for one in found}) > 1


def test_a_model_without_a_source_is_refused_a_coverage_penalty() -> None:
    with pytest.raises(RequestError, match=r"coverage_penalty=0.2 needs a model that attends to a source"):
        beam_search(PrefixModel(4), [[0]], Beam(2, coverage_penalty=0.2), Limits(3))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"width": 0}, "beam=0 is not a whole number from 1"),
        ({"width": 2.0}, "beam=2.0"),
        ({"width": True}, "beam=True"),
        ({"n_best": 0}, "n_best=0"),
        ({"width": 2, "n_best": 3}, "from 1 to beam, 2"),
        ({"length_penalty": float("nan")}, "length_penalty=nan"),
        ({"length_penalty": 11}, "length_penalty=11"),
        ({"coverage_penalty": -0.1}, "coverage_penalty=-0.1"),
        ({"coverage_penalty": float("inf")}, "coverage_penalty=inf"),
        ({"length_form": "log"}, "length_form='log' is none of power, gnmt"),
        ({"stopping": "never"}, "stopping='never' is none of exact, early, heuristic"),
    ],
)
def test_settings_without_sense_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        Beam(**settings)


@pytest.mark.parametrize(
    ("sampling", "beam", "words"),
    [
        ({"temperature": 0.7}, {"beam": 4}, "temperature=0.7 has no effect with beam=4"),
        ({"temperature": 0}, {"beam": 4}, "temperature=0 has no effect"),
        ({"top_k": 3}, {"beam": 4}, "top_k=3 has no effect"),
        ({"top_p": 0.3}, {"beam": 4}, "top_p=0.3 has no effect"),
        ({"seed": 3}, {"beam": 4}, "seed=3 has no effect"),
        ({}, {"beam": None, "n_best": 2}, "n_best=2 has no effect without beam search"),
        ({}, {"beam": None, "length_penalty": 0.0}, "length_penalty=0.0 has no effect without"),
    ],
)
def test_what_has_no_effect_is_refused(sampling: dict[str, Any], beam: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        choose_method(Sampling(**sampling), **beam)


def test_what_cannot_be_searched() -> None:
    chain = Chain(torch.zeros(5, 5), [])
    stop = frozenset({3})
    with pytest.raises(ValueError, match="without tokens"):
        beam_search(chain, [[1], []], Beam(), Limits())
    with pytest.raises(RequestError, match="the prefix of row 1 has 3 tokens, and at most 2 may come"):
        beam_search(chain, [[1], [1]], Beam(), Limits(2), [[], [1, 1, 1]])
    with pytest.raises(RequestError, match="the prefix of row 0 contains 3, which ends a text"):
        beam_search(chain, [[1]], Beam(), Limits(2, stop=stop), [[3]])
    with pytest.raises(RequestError, match="no token can come as number 1 of the texts for row 0"):
        beam_search(chain, [[1]], Beam(banned=frozenset({0, 1, 2, 4})), Limits(2, 1, stop))
    with pytest.raises(RequestError, match="the prefix of row 17 has 3 tokens"):
        beam_search(chain, [[1], [1]], Beam(), Limits(2), [[], [1, 1, 1]], rows=[4, 17])
    with pytest.raises(RequestError, match="the prefix of row 4 contains 3"):
        beam_search(chain, [[1], [1]], Beam(), Limits(2, stop=stop), [[3], []], rows=[4, 17])
    banning = Beam(banned=frozenset({0, 1, 2, 4}))
    with pytest.raises(RequestError, match="no token can come as number 1 of the texts for row 17"):
        beam_search(chain, [[1], [1]], banning, Limits(2, 1, stop), [[1, 1], []], rows=[4, 17])
    for value in (torch.nan, torch.inf):
        table = torch.zeros(5, 5)
        table[:, 3] = value
        with pytest.raises(RequestError, match="no finite scores"):
            beam_search(Chain(table, []), [[1]], Beam(2), Limits())
    with pytest.raises(RequestError, match="no finite scores"):
        beam_search(Chain(torch.full((5, 5), -torch.inf), []), [[1]], Beam(2), Limits())
