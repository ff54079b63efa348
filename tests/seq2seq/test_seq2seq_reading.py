"""Targets token by token, all kinds alike: with what is kept as without, followed along beams, no source read twice."""

from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from heedful.decoding.generate import generate, pad_left
from heedful.decoding.settings import Limits, Sampling
from heedful.models.batch import Batch
from heedful.models.next_token import NextToken
from heedful.models.seq2seq.protocol import NextTarget, alignment
from heedful.nn.blocks import REFERENCE
from tests.support.seq2seq_samples import (
    DECODERS,
    KINDS,
    RECURRENT,
    SOURCES,
    TARGETS,
    TRANSFORMERS,
    batch_of,
    make,
    source_of,
)

NEW = torch.tensor([[1, 5, 8, 11], [1, 9, 4, 4], [1, 20, 21, 3], [1, 4, 6, 11]])


def uncached(kind: str, model: Any, source: list[int], target: list[int]) -> Tensor:
    """The scores of what follows, all of it read again, alone."""
    return model(source_of(kind, [source]), Batch(torch.tensor([target])))[0, -1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("watch", [False, True])
def test_step_by_step_is_all_at_once(kind: str, watch: bool) -> None:
    model = make(kind)
    source = source_of(kind, SOURCES)
    whole = model(source, Batch(NEW))
    read = NextTarget(model, model.encode(source), watch)
    past, n = None, 0
    for new in (1, 2, 1):
        scores, past = read(NEW[:, n : n + new], None, past)
        n += new
        assert (scores - whole[:, n - 1]).abs().max() <= 1e-10
    assert (whole[:, 3] - whole[:, 1]).abs().max() > 1e-3  # what comes later would be noticed


@pytest.mark.parametrize("kind", KINDS)
def test_targets_that_begin_with_more_or_less(kind: str) -> None:
    """Padding stands before them."""
    model = make(kind)
    read = NextTarget(model, model.encode(source_of(kind, SOURCES)))
    scores, past = read(*pad_left(TARGETS, "cpu"), None)
    for row, target in enumerate(TARGETS):
        assert (scores[row] - uncached(kind, model, SOURCES[row], target)).abs().max() <= 1e-10
    scores, _ = read(torch.full((4, 1), 8), None, past)
    for row, target in enumerate(TARGETS):
        assert (scores[row] - uncached(kind, model, SOURCES[row], [*target, 8])).abs().max() <= 1e-10


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("repeat", ["past", "encoded"])
def test_beams_are_followed(kind: str, repeat: str) -> None:
    """From one row for each sentence to three, then in another order, one dropped and one doubled."""
    model, beams = make(kind), 3
    index = torch.arange(4).repeat_interleave(beams)
    encoded = model.encode(source_of(kind, SOURCES))
    if repeat == "past":
        first, past = NextTarget(model, encoded, watch=True)(NEW[:, :1], None, None)
        read = NextTarget(model, encoded, watch=True)
        first, past = first[index], past.reorder(index)
    else:
        read = NextTarget(model, encoded.reorder(index), watch=True)
        first, past = read(NEW[index, :1], None, None)
    texts = [[1] for _ in index]
    generator = torch.Generator().manual_seed(2)
    scores = first
    for _ in range(3):
        for row, text in enumerate(texts):
            expected = uncached(kind, model, SOURCES[index[row]], text)
            assert (scores[row] - expected).abs().max() <= 1e-10
        # Within each sentence, rows go on from any of its rows.
        chosen = torch.cat([torch.randint(beams, (beams,), generator=generator) + beams * i for i in range(4)])
        new = torch.randint(3, 30, (len(texts), 1), generator=generator)
        texts = [[*texts[i], int(token)] for i, token in zip(chosen.tolist(), new, strict=True)]
        scores, past = read(new, None, past.reorder(chosen))
    assert past.weights_bts.shape[:2] == (12, 4)
    watched = [
        alignment(model, source_of(kind, [SOURCES[index[r]]]), Batch(torch.tensor([texts[r]]))) for r in range(12)
    ]
    for row, weights in enumerate(watched):
        assert (past.weights_bts[row, :, : weights.shape[-1]] - weights[0]).abs().max() <= 1e-10


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_another_sentence_would_be_noticed(kind: str) -> None:
    model = make(kind)
    read = NextTarget(model, model.encode(source_of(kind, SOURCES)))
    _, past = read(NEW[:, :1], None, None)
    right, _ = read(NEW[:, 1:2], None, past)
    wrong, _ = read(NEW[:, 1:2], None, past.reorder(torch.tensor([1, 0, 3, 2])))
    assert (right - wrong).abs().amax(dim=1).min() > 1e-3
    again, _ = read(NEW[:, 1:2], None, past)  # what is kept was not changed
    assert torch.equal(right, again)


@pytest.mark.parametrize("kind", KINDS)
def test_sentences_leave_the_batch(kind: str) -> None:
    model = make(kind)
    read = NextTarget(model, model.encode(source_of(kind, SOURCES)))
    _, past = read(NEW[:, :1], None, None)
    left = torch.tensor([3, 1])
    scores, _ = read(NEW[left, 1:2], None, past.reorder(left))
    for row, i in enumerate(left.tolist()):
        assert (scores[row] - uncached(kind, model, SOURCES[i], NEW[i, :2].tolist())).abs().max() <= 1e-10


@pytest.mark.parametrize("kind", KINDS)
def test_how_much_is_looked_at(kind: str) -> None:
    model = make(kind)
    weights = alignment(model, source_of(kind, SOURCES), batch_of(TARGETS)).detach()
    assert weights.shape == (4, 6, 7)
    for row, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        seen = weights[row, : len(target)]
        assert float(seen[:, len(source) :].abs().sum()) == 0  # no padding
        if kind in DECODERS:  # a part goes to the target
            assert 0 < float(seen.sum(-1).min()) <= float(seen.sum(-1).max()) < 1
        else:
            assert (seen.sum(-1) - 1).abs().max() <= 1e-12
    assert (weights[1, 0] - weights[1, 1]).abs().max() > 1e-4  # each token has its own


@pytest.mark.parametrize("kind", [*TRANSFORMERS, *RECURRENT])
def test_the_source_is_read_once(kind: str) -> None:
    model = make(kind)
    calls: list[str] = []
    for name, module in model.named_modules():
        if name.endswith(("encoder", "bert", "keys_values", "score.key")) and not name.startswith("bert."):
            module.register_forward_hook(lambda *_, name=name: calls.append(name))
    read = NextTarget(model, model.encode(source_of(kind, SOURCES)))
    past = None
    for n in range(4):
        _, past = read(NEW[:, n : n + 1], None, past)
    assert calls
    assert len(calls) == len(set(calls))


@pytest.mark.parametrize("kind", KINDS)
def test_the_work_of_a_step(kind: str) -> None:
    """The same for each token, but for attention to those before, which grows by one key and one value."""
    model = make(kind, REFERENCE)
    read = NextTarget(model, model.encode(source_of(kind, SOURCES)))
    past, spent = None, []
    for n in range(4):
        with FlopCounterMode(display=False) as counter:
            _, past = read(NEW[:, n : n + 1], None, past)
        spent.append(counter.get_total_flops())
    growth = {b - a for a, b in pairwise(spent[1:])}  # the first reads the source's keys and values too
    if kind in RECURRENT:
        assert growth == {0}
        assert spent[0] == spent[1]
    else:
        shape = DECODERS[kind] if kind in DECODERS else getattr(model, "translator", model).shape.target
        assert growth == {4 * len(NEW) * shape.width * shape.layers}


@pytest.mark.parametrize("kind", KINDS)
def test_decoding_goes_on_with_any_kind(kind: str) -> None:
    """Greedy, with a stop token that ends some targets before others."""
    model = make(kind)
    read = NextTarget(model, model.encode(source_of(kind, SOURCES)))
    free = generate(read, [[1]] * 4, Sampling(0.0), Limits(6))
    stop = free[0].ids[2]
    found = generate(read, [[1]] * 4, Sampling(0.0), Limits(6, stop=frozenset({stop})))
    with torch.no_grad():
        for source, result in zip(SOURCES, found, strict=True):
            text = [1]
            while len(text) < 7 and text[1:][-1:] != [stop]:
                text.append(int(uncached(kind, model, source, text).argmax()))
            assert result.ids == text[1:]


@pytest.mark.parametrize("kind", DECODERS)
def test_a_decoder_alone_reads_source_and_target_as_one_prompt(kind: str) -> None:
    model = make(kind)
    read = NextTarget(model, model.encode(source_of(kind, SOURCES)))
    found = generate(read, [[1]] * 4, Sampling(0.0), Limits(6))
    prompts = [[*source, 1] for source in SOURCES]
    expected = generate(NextToken(model.transformer, "next"), prompts, Sampling(0.0), Limits(6))
    assert [r.ids for r in found] == [r.ids for r in expected]
    for a, b in zip(found, expected, strict=True):
        assert a.log_probabilities == pytest.approx(b.log_probabilities, abs=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_one_row_for_each_source(kind: str) -> None:
    model = make(kind)
    encoded = model.encode(source_of(kind, SOURCES[:1]))
    assert encoded.rows == 1
    with pytest.raises(ValueError, match="3 targets begin after 1 sources"):
        NextTarget(model, encoded)(NEW[:3, :1], None, None)


@st.composite
def programs(draw: st.DrawFn) -> tuple[list[list[int]], list[tuple[list[int], list[list[int]]]]]:
    """Sources, and steps: which rows go on, and the new tokens of each, as many for all."""
    token = st.integers(3, 29)
    sources = draw(st.lists(st.lists(token, min_size=1, max_size=5), min_size=1, max_size=3))
    steps, rows = [], len(sources)
    for first in (True, *[False] * draw(st.integers(1, 3))):
        index = list(range(rows)) if first else draw(st.lists(st.integers(0, rows - 1), min_size=1, max_size=4))
        n, rows = draw(st.integers(1, 2)), len(index)
        steps.append((index, [draw(st.lists(token, min_size=n, max_size=n)) for _ in index]))
    return sources, steps


@settings(max_examples=25)
@given(st.sampled_from(["post", "marian", "luong", "bahdanau", "fused", "decoder-only"]), programs())
def test_any_program_of_steps_and_rows(kind: str, program: Any) -> None:
    model, (sources, steps) = make(kind), program
    read, past = NextTarget(model, model.encode(source_of(kind, sources))), None
    texts: list[tuple[int, list[int]]] = [(i, []) for i in range(len(sources))]
    with torch.no_grad():
        for index, new in steps:
            past = None if past is None else past.reorder(torch.tensor(index))
            texts = [(texts[i][0], texts[i][1] + tokens) for i, tokens in zip(index, new, strict=True)]
            scores, past = read(torch.tensor(new), None, past)
            for row, (source, text) in enumerate(texts):
                assert (scores[row] - uncached(kind, model, sources[source], text)).abs().max() <= 1e-10
