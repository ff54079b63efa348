"""Memory, rows that are read, and kinds of attention, in whole models of every wiring."""

from dataclasses import replace

import pytest
import torch

from heedful.models.batch import Batch
from heedful.models.body import Memory
from heedful.models.transformer import Transformer
from heedful.nn.attention import MultiHeadAttention
from heedful.nn.blocks import REFERENCE
from tests.support.formula_models import SMALL
from tests.support.wirings import CAUSAL, DECODER, WIRINGS, Synthesizer, assert_close, draw, gradients, make_model

IDS = torch.tensor([[7, 3, 49, 20, 11], [9, 30, 2, 5, 5], [8, 8, 31, 12, 40]])
REAL = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [0, 1, 1, 1, 0]], dtype=torch.bool)


@pytest.mark.parametrize("wiring", WIRINGS)
@pytest.mark.parametrize("real", [None, REAL], ids=["whole", "padded"])
@pytest.mark.parametrize("memory_width", [None, 5])
def test_read_by_index_is_the_whole_then_picked(
    wiring: str, real: torch.Tensor | None, memory_width: int | None
) -> None:
    model = make_model(replace(WIRINGS[wiring], memory_width=memory_width))
    memory = None if memory_width is None else Memory(draw(3, 4, 5), torch.tensor([[1, 1, 1, 1]] * 2 + [[1, 0, 1, 0]]))
    ids = IDS if real is None else IDS.masked_fill(~real, model.shape.pad_id or 0)
    batch, index = Batch(ids, real), torch.tensor([3, 2, 1])
    part = model.body(batch, read=index, memory=memory).last
    whole = model.body(batch, memory=memory).last[torch.arange(3), index][:, None]
    assert part.shape == (3, 1, model.shape.width)
    assert (part - whole).abs().max() <= 1e-10
    assert_close(gradients(model, (part**3).sum()), gradients(model, (whole**3).sum()))
    other = model.body(batch, read=torch.tensor([3, 1, 1]), memory=memory).last
    assert (other - whole)[1].abs().max() > 1e-3  # the negative control


@pytest.mark.parametrize("wiring", WIRINGS)
@pytest.mark.parametrize("real", [None, REAL], ids=["whole", "padded"])
def test_the_last_state_alone(wiring: str, real: torch.Tensor | None) -> None:
    """What a head is given that reads the last state, and that no more is computed for it."""
    model = make_model(WIRINGS[wiring])
    batch = Batch(IDS if real is None else IDS.masked_fill(~real, model.shape.pad_id or 0), real)
    rows: list[int] = []
    model.body.blocks[-1].feed_forward.register_forward_hook(lambda _, args, y: rows.append(y.shape[1]))
    part = model.features("last", batch)
    whole = model.pick(model.body(batch), "last", batch)
    assert rows == [1, IDS.shape[1]]
    assert (part - whole).abs().max() <= 1e-10
    assert_close(gradients(model, (part**3).sum()), gradients(model, (whole**3).sum()))


@pytest.mark.parametrize("wiring", WIRINGS)
def test_a_memory_is_looked_at(wiring: str) -> None:
    """What is hidden of it does not matter, what is not does; its gradient comes back."""
    model = make_model(replace(WIRINGS[wiring], memory_width=5))
    states = draw(3, 4, 5).requires_grad_()
    real = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [0, 1, 1, 1]], dtype=torch.bool)
    y = model.body(Batch(IDS), memory=Memory(states, real)).last
    y.pow(3).sum().backward()
    assert (states.grad[~real] == 0).all()
    assert (states.grad[real] != 0).all()
    hidden = torch.where(real[:, :, None], states.detach(), 9.0)
    assert (model.body(Batch(IDS), memory=Memory(hidden, real)).last - y).abs().max() <= 1e-10
    assert (model.body(Batch(IDS), memory=Memory(hidden)).last - y).abs().max() > 1e-3
    everything = model.body(Batch(IDS), memory=Memory(states, real), everything=True)
    assert everything.memory_weights is not None
    for weights in everything.memory_weights:
        assert weights.shape == (3, model.shape.heads, 5, 4)
        assert torch.allclose(weights.sum(-1), torch.ones(1, dtype=torch.float64))
        assert (weights.transpose(1, 3)[~real] == 0).all()


@pytest.mark.parametrize("wiring", WIRINGS)
def test_the_kernels_are_twins_in_every_wiring(wiring: str) -> None:
    shape = replace(WIRINGS[wiring], memory_width=5)
    fused, written_out = make_model(shape), Transformer(shape, kernels=REFERENCE).double().eval()
    written_out.load_state_dict(fused.state_dict())
    batch, memory = Batch(IDS.masked_fill(~REAL, shape.pad_id or 0), REAL), Memory(draw(3, 4, 5))
    a, b = (model.body(batch, memory=memory).last[REAL] for model in (fused, written_out))
    assert (a - b).abs().max() <= 1e-10
    assert_close(gradients(fused, (a**3).sum()), gradients(written_out, (b**3).sum()))


@pytest.mark.parametrize("wiring", WIRINGS)
def test_company_does_not_change_a_text(wiring: str) -> None:
    model = make_model(WIRINGS[wiring])
    batch = Batch(IDS[:2].masked_fill(~REAL[:2], model.shape.pad_id or 0), REAL[:2])
    alone = model.body(Batch(IDS[1:2, :3])).last[0]
    assert (model.body(batch).last[1, :3] - alone).abs().max() <= 1e-10


def test_a_kind_of_attention_is_made_for_each_layer() -> None:
    model = make_model(WIRINGS["synthesizer encoder"])
    kinds = [type(block.attention) for block in model.body.blocks]
    assert kinds == [MultiHeadAttention, Synthesizer, Synthesizer]
    assert [block.attention.layer for block in model.body.blocks[1:]] == [1, 2]
    names = {n for n, _ in model.named_parameters() if ".attention.scores." in n}
    assert names == {f"body.blocks.{i}.attention.scores.{p}" for i in (1, 2) for p in ("weight", "bias")}
    moved = gradients(model, (model.body(Batch(IDS)).last ** 3).sum())
    assert all(moved[name].abs().max() > 0 for name in names)
    model.initialise(torch.Generator().manual_seed(1))
    assert (model.body.blocks[1].attention.scores.bias == 0).all()
    with pytest.raises(ValueError, match="no attention 'magic'; choose dot-product, rotary"):
        Transformer(replace(SMALL, attention="magic"))


@pytest.mark.parametrize("wiring", CAUSAL)
@pytest.mark.parametrize("packed", [False, True])
def test_nothing_leaks_from_the_future(wiring: str, packed: bool) -> None:
    """The gradient of a state with respect to every later embedding is zero, and to its own is not."""
    model = make_model(WIRINGS[wiring])
    batch, first = Batch(IDS), model.shape.first_position
    if packed:
        blocks, positions = torch.tensor([[1, 1, 2, 2, 2]] * 3), torch.tensor([[0, 1, 0, 1, 2]] * 3) + first
        batch = Batch(IDS, positions_bt=positions, blocks_bt=blocks)
    embedded: list[torch.Tensor] = []
    model.body.embeddings.register_forward_hook(lambda _, args, y: embedded.append(y))
    y = model.body(batch).last
    for t in range(IDS.shape[1]):
        (gradient,) = torch.autograd.grad((y[:, t] ** 3).sum(), embedded[0], retain_graph=True)
        seen = [s for s in range(IDS.shape[1]) if s <= t and (not packed or (s < 2) == (t < 2))]
        for s in range(IDS.shape[1]):
            assert (gradient[:, s].abs().max() > 0) == (s in seen), (t, s)


def test_order_matters_by_positions_alone() -> None:
    """Without any positions an encoder is blind to order; each kind of positions opens its eyes."""
    blind = replace(WIRINGS["distilbert"], position_kind="none", width=18)
    order = torch.tensor([3, 0, 4, 1, 2])
    kinds = ("rotary", "relative", "synthesizer-dense", "synthesizer-random")
    changes = [{}, *({"attention": kind} for kind in kinds)]
    for change in (*changes, {"position_kind": "sinusoidal"}, {"position_kind": "learned"}):
        shape = replace(blind, **change)
        model = make_model(shape)
        difference = (model.body(Batch(IDS[:, order])).last - model.body(Batch(IDS)).last[:, order]).abs().max()
        assert difference > 1e-3 if change else difference <= 1e-10


def test_new_wirings_draw_their_weights() -> None:
    """Every parameter is drawn, those of the memory's attention and of a further kind included."""
    shape = replace(DECODER, memory_width=7, attention="synthesizer", width=48, inner=64, initializer_range=0.05)
    model = Transformer(shape)
    with torch.no_grad():
        for p in model.parameters():
            p.fill_(torch.nan)
    model.initialise(torch.Generator().manual_seed(1))
    assert all(torch.isfinite(p).all() for p in model.parameters())
    attention = model.body.blocks[1].memory_attention
    assert attention.keys_values.weight.std().item() == pytest.approx(0.05, rel=0.1)
    assert attention.output.weight.std().item() == pytest.approx(0.05 / 6**0.5, rel=0.1)
