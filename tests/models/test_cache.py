"""Going on from a cache is reading the whole: states and gradients, to 1e-10, in any order of rows."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from heedful.models.batch import Batch
from heedful.models.body import Cache, Memory
from heedful.models.transformer import Transformer
from tests.support.wirings import CAUSAL, WIRINGS, assert_close, draw, gradients, make_model

IDS = torch.tensor([[7, 3, 49, 20, 11, 2], [9, 30, 2, 5, 5, 44], [8, 8, 31, 12, 40, 6]])
STEPS = [slice(0, 3), slice(3, 4), slice(4, 6)]


def cut(batch: Batch, step: slice) -> Batch:
    parts = {name: None if t is None else t[:, step] for name, t in vars(batch).items()}
    return Batch(**parts)


def step_by_step(model: Transformer, batch: Batch, memory: Memory | None = None) -> tuple[Tensor, Cache]:
    cache, states = Cache(), []
    for n, step in enumerate(STEPS):
        out = model.body(cut(batch, step), cache=cache, memory=memory if n == 0 else None)
        assert out.cache is not None
        cache = out.cache
        states.append(out.last)
        assert cache.tokens == step.stop
    return torch.cat(states, dim=1), cache


def padded(pad: int) -> Batch:
    """Before the text, after it, and in the middle of it."""
    real = torch.tensor([[1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1], [1, 1, 0, 1, 1, 0]], dtype=torch.bool)
    return Batch(IDS.masked_fill(~real, pad), real)


@pytest.mark.parametrize("wiring", CAUSAL)
@pytest.mark.parametrize("kind", ["plain", "padded", "positions", "memory"])
def test_cached_is_uncached(wiring: str, kind: str) -> None:
    shape = WIRINGS[wiring]
    memory = None
    batch = padded(shape.pad_id or 0) if kind in ("padded", "memory") else Batch(IDS)
    if kind == "positions":
        batch = replace(batch, positions_bt=torch.tensor([[3, 1, 2, 6, 7, 8], [0, 1, 2, 3, 4, 5], [5, 5, 5, 4, 4, 4]]))
    if kind == "memory":
        shape = replace(shape, memory_width=5)
        memory = Memory(draw(3, 4, 5), torch.tensor([[1, 1, 1, 1], [1, 0, 0, 0], [0, 1, 1, 0]], dtype=torch.bool))
    model = make_model(shape)
    whole = model.body(batch, memory=memory).last
    stepped, _ = step_by_step(model, batch, memory)
    real = slice(None) if batch.real_bt is None else batch.real_bt
    assert (whole[real] - stepped[real]).abs().max() <= 1e-10
    assert_close(gradients(model, (whole[real] ** 3).sum()), gradients(model, (stepped[real] ** 3).sum()))


@pytest.mark.parametrize("wiring", CAUSAL)
def test_rows_can_be_reordered_on_the_way(wiring: str) -> None:
    """As beams are: row i goes on from what row index[i] was, one of them twice, and memory goes with it."""
    model = make_model(replace(WIRINGS[wiring], memory_width=5))
    memory = Memory(draw(3, 4, 5), torch.tensor([[1, 1, 1, 1], [1, 0, 0, 0], [0, 1, 1, 0]], dtype=torch.bool))
    batch, index = padded(model.shape.pad_id or 0), torch.tensor([2, 0, 2, 1])
    begun = model.body(cut(batch, slice(0, 4)), memory=memory, cache=Cache()).cache
    assert begun is not None
    real = torch.cat([batch.real_bt[index, :4], torch.ones(4, 2, dtype=torch.bool)], dim=1)
    new = torch.tensor([[5, 6], [7, 8], [9, 10], [11, 12]])
    whole = Batch(torch.cat([batch.ids_bt[index, :4], new], dim=1), real)
    expected = model.body(whole, memory=Memory(memory.states_bsm[index], memory.real_bs[index])).last[:, 4:]
    assert (model.body(Batch(new), cache=begun.reorder(index)).last - expected).abs().max() <= 1e-10
    wrong = model.body(Batch(new), cache=begun.reorder(torch.tensor([0, 0, 1, 2]))).last
    assert (wrong - expected).abs().max() > 1e-3  # the negative control


@pytest.mark.parametrize("wiring", CAUSAL)
def test_a_cache_is_never_changed(wiring: str) -> None:
    model = make_model(WIRINGS[wiring])
    cache = model.body(Batch(IDS[:, :3]), cache=Cache()).cache
    before = [t.clone() for kept in cache.layers for t in kept.own]
    first = model.body(Batch(IDS[:, 3:]), cache=cache).last
    model.body(Batch(IDS[:, :2]), cache=cache)
    assert torch.equal(model.body(Batch(IDS[:, 3:]), cache=cache).last, first)
    after = [t for kept in cache.layers for t in kept.own]
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    assert cache.tokens == 3


def test_the_memory_is_projected_once() -> None:
    model = make_model(replace(WIRINGS["gpt2"], memory_width=5))
    seen: list[int] = []
    for block in model.body.blocks:
        block.memory_attention.keys_values.register_forward_hook(lambda *_: seen.append(1))
    step_by_step(model, Batch(IDS), Memory(draw(3, 4, 5)))
    assert len(seen) == model.shape.layers


def test_only_the_rows_that_are_read_go_on_too() -> None:
    model = make_model(WIRINGS["gpt2"])
    cache = model.body(Batch(IDS[:, :2]), cache=Cache(), read=slice(1, 2)).cache
    last = model.body(Batch(IDS[:, 2:]), cache=cache, read=torch.tensor([3, 0, 1])).last[:, 0]
    whole = model.body(Batch(IDS)).last
    assert (last - whole[torch.arange(3), torch.tensor([5, 2, 3])]).abs().max() <= 1e-10


def test_what_cannot_go_on_is_refused() -> None:
    with pytest.raises(ValueError, match="causal"):
        make_model(WIRINGS["bert"]).body(Batch(IDS), cache=Cache())
    model = make_model(WIRINGS["gpt2"])
    packed = Batch(IDS, positions_bt=torch.zeros_like(IDS), blocks_bt=torch.ones_like(IDS))
    with pytest.raises(ValueError, match="packed"):
        model.body(packed, cache=Cache())
    with pytest.raises(ValueError, match="no memory"):
        model.body(Batch(IDS), memory=Memory(draw(3, 4, 5)))
    crossed = make_model(replace(WIRINGS["gpt2"], memory_width=5))
    with pytest.raises(ValueError, match="memory is given with the first"):
        crossed.body(Batch(IDS))
    cache = crossed.body(Batch(IDS), memory=Memory(draw(3, 4, 5)), cache=Cache()).cache
    with pytest.raises(ValueError, match="memory is given with the first"):
        crossed.body(Batch(IDS), memory=Memory(draw(3, 4, 5)), cache=cache)
