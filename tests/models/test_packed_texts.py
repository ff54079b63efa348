"""Several texts in one row are what they are alone: states and the gradient of every parameter, to 1e-10."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from heedful.models.batch import Batch, Packed, pack
from heedful.models.body import Memory
from heedful.models.shape import Shape
from heedful.models.transformer import Transformer
from tests.support.wirings import WIRINGS, assert_close, draw, gradients, make_model

CPU = torch.device("cpu")
TEXTS = [[7, 3, 9], [5, 6, 7, 8, 9, 10, 11], [4], [12, 13, 14, 15, 16], [20, 3], [9, 9, 9, 9]]
SEGMENTS = [[0, 0, 1], [0] * 4 + [1] * 3, [0], [0, 1, 1, 1, 1], [0, 0], [0, 0, 1, 1]]


def packed_texts(shape: Shape, room: int = 9) -> Packed:
    segments = SEGMENTS if shape.segments > 1 else None
    return pack(TEXTS, segments, shape.pad_id, CPU, room, shape.first_position)


def alone(model: Transformer, memory: list[Tensor] | None = None) -> list[Tensor]:
    states = []
    for i, (ids, segments) in enumerate(zip(TEXTS, SEGMENTS, strict=True)):
        batch = Batch(torch.tensor([ids]), segments_bt=torch.tensor([segments]) if model.shape.segments > 1 else None)
        states.append(model.body(batch, memory=None if memory is None else Memory(memory[i][None])).last[0])
    return states


@pytest.mark.parametrize("wiring", WIRINGS)
def test_packed_is_unpacked(wiring: str) -> None:
    model = make_model(WIRINGS[wiring])
    packed = packed_texts(model.shape)
    assert packed.batch.ids_bt.shape[0] < len(TEXTS)
    one_by_one = alone(model)
    together = packed.split(model.body(packed.batch).last)
    for a, b in zip(together, one_by_one, strict=True):
        assert (a - b).abs().max() <= 1e-10
    losses = [sum((x**3).sum() for x in states) for states in (together, one_by_one)]
    assert_close(gradients(model, losses[0]), gradients(model, losses[1]))


DISTANCES_ALONE = ("rotary encoder", "relative decoder")


@pytest.mark.parametrize("wiring", ["bert", "gpt2", "synthesizer-dense decoder", "synthesizer-random encoder",
                                    *DISTANCES_ALONE])  # fmt: skip
@pytest.mark.parametrize("lost", ["blocks_bt", "positions_bt"])
def test_without_blocks_or_positions_it_would_be_noticed(wiring: str, lost: str) -> None:
    """The negative control: texts that see each other, and texts whose positions go on along the row."""
    model = make_model(WIRINGS[wiring])
    packed = packed_texts(model.shape)
    along = torch.arange(packed.batch.ids_bt.shape[1]).expand(packed.batch.ids_bt.shape)
    changed = replace(packed.batch, **{lost: None if lost == "blocks_bt" else along})
    difference = max(
        (a - b).abs().max() for a, b in zip(packed.split(model.body(changed).last), alone(model), strict=True)
    )
    if wiring in DISTANCES_ALONE and lost == "positions_bt":
        assert difference <= 1e-10
    else:
        assert difference > 1e-3


@pytest.mark.parametrize("wiring", ["bert", "gpt2"])
def test_packed_texts_see_their_own_memory(wiring: str) -> None:
    model = make_model(replace(WIRINGS[wiring], memory_width=5))
    memories = [draw(n, 5, seed=n) for n in (4, 1, 3, 6, 2, 2)]
    packed = packed_texts(model.shape)
    rows = packed.batch.ids_bt.shape[0]
    members = [[i for i, (row, _) in enumerate(packed.spans) if row == r] for r in range(rows)]
    s = max(sum(len(memories[i]) for i in row) for row in members)
    states, blocks = torch.zeros(rows, s, 5, dtype=torch.float64), torch.zeros(rows, s, dtype=torch.long)
    for r, row in enumerate(members):
        whole = torch.cat([memories[i] for i in row])
        states[r, : len(whole)] = whole
        blocks[r, : len(whole)] = torch.tensor([n for n, i in enumerate(row, 1) for _ in memories[i]])
    together = packed.split(model.body(packed.batch, memory=Memory(states, blocks_bs=blocks)).last)
    one_by_one = alone(model, memories)
    for a, b in zip(together, one_by_one, strict=True):
        assert (a - b).abs().max() <= 1e-10
    losses = [sum((x**3).sum() for x in states) for states in (together, one_by_one)]
    assert_close(gradients(model, losses[0]), gradients(model, losses[1]))


@settings(max_examples=100)
@given(st.lists(st.integers(1, 12), min_size=1, max_size=20), st.integers(12, 30), st.integers(0, 2))
def test_packing_loses_nothing(lengths: list[int], room: int, first: int) -> None:
    texts = [[100 * i + p for p in range(n)] for i, n in enumerate(lengths, 1)]
    packed = pack(texts, None, 0, CPU, room, first)
    batch = packed.batch
    assert [t.tolist() for t in packed.split(batch.ids_bt)] == texts
    assert [t.tolist() for t in packed.split(batch.positions_bt)] == [list(range(first, first + n)) for n in lengths]
    assert batch.ids_bt.shape[1] <= room
    assert int((batch.blocks_bt > 0).sum()) == sum(lengths)
    assert (batch.real_bt is None) == bool((batch.blocks_bt > 0).all())
    owners = {(row, int(batch.blocks_bt[row, span.start])) for row, span in packed.spans}
    assert len(owners) == len(texts)  # every text has a block of its own
    full = (batch.blocks_bt > 0).sum(dim=1)
    assert all(int(a + b) > room for i, a in enumerate(full) for b in full[i + 1 :])  # no two rows fit into one


def test_what_packing_refuses() -> None:
    with pytest.raises(ValueError, match="5 tokens does not fit into rows of 4"):
        pack([[1] * 5], None, 0, CPU, 4)
    model = make_model(WIRINGS["bert"])
    batch = packed_texts(model.shape).batch
    for reads in ("mean", "last", "first"):
        with pytest.raises(ValueError, match="packed"):
            model.features(reads, batch)
    with pytest.raises(ValueError, match="positions"):
        model.body(replace(batch, positions_bt=None))
    with pytest.raises(ValueError, match="both need their blocks"):
        make_model(replace(model.shape, memory_width=5)).body(batch, memory=Memory(draw(len(batch.ids_bt), 3, 5)))
