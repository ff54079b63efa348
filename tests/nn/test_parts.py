"""Norms, residual wiring with its slots, activations, embeddings, heads: each against its formula."""

import math

import pytest
import torch
from torch import Tensor, nn

from heedful.nn.activations import ACTIVATIONS
from heedful.nn.adapters import Adapted, Bottleneck
from heedful.nn.attention import Attend, MemoryAttention, MultiHeadAttention
from heedful.nn.blocks import FUSED, REFERENCE, Block, BlockAdapters, FeedForward
from heedful.nn.embeddings import Embeddings
from heedful.nn.heads import LinearHead, MaskedWordHead, Pooler, TwoLayerHead
from heedful.nn.masks import causal_mask, padding_mask
from heedful.nn.norms import LayerNorm, PostNorm, PreNorm, fused_layer_norm, layer_norm
from heedful.nn.positions import RotaryAttention


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_layer_norm_is_the_formula_and_its_twin_agrees() -> None:
    x, gain, bias = draw(3, 7), draw(7, seed=1), draw(7, seed=2)
    for row in range(3):
        mu = sum(x[row].tolist()) / 7
        variance = sum((v - mu) ** 2 for v in x[row].tolist()) / 7
        for i in range(7):
            expected = gain[i] * (x[row, i] - mu) / math.sqrt(variance + 1e-5) + bias[i]
            assert layer_norm(x, gain, bias, 1e-5)[row, i] == pytest.approx(float(expected), abs=1e-12)
    results = []
    for normalise in (layer_norm, fused_layer_norm):
        inputs = [t.clone().requires_grad_() for t in (x, gain, bias)]
        y = normalise(*inputs, 1e-5)
        (y**3).sum().backward()
        results.append([y, *(t.grad for t in inputs)])
    for reference, fused in zip(*results, strict=True):
        assert torch.allclose(reference, fused, atol=1e-11)


def test_activations() -> None:
    x = torch.linspace(-4, 4, 41, dtype=torch.float64)
    phi = torch.tensor([0.5 * (1 + math.erf(v / math.sqrt(2))) for v in x.tolist()], dtype=torch.float64)
    expected = {
        "gelu": x * phi,
        "gelu_new": 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
        "leaky_relu": torch.where(x > 0, x, 0.01 * x),
        "relu": torch.where(x > 0, x, 0.0),
        "silu": x / (1 + torch.exp(-x)),
        "swish": x / (1 + torch.exp(-x)),
        "tanh": (x.exp() - (-x).exp()) / (x.exp() + (-x).exp()),
    }
    assert set(expected) == set(ACTIVATIONS)
    for name, y in expected.items():
        assert torch.allclose(ACTIVATIONS[name](x), y, atol=1e-12), name


def make_block(kind: type[PostNorm] | type[PreNorm], kernels=FUSED, dropout: float = 0.0) -> Block:
    torch.manual_seed(0)
    return Block(
        MultiHeadAttention(8, 2, dropout, kernels.attend),
        FeedForward(8, 12, ACTIVATIONS["gelu"]),
        kind(LayerNorm(8, 1e-5, kernels.normalise), dropout),
        kind(LayerNorm(8, 1e-5, kernels.normalise), dropout),
    ).double()


def test_post_and_pre_norm_are_their_equations() -> None:
    x = draw(2, 5, 8)
    block = make_block(PostNorm)
    h = block.around_attention.norm(x + block.attention(x)[0])
    expected = block.around_feed_forward.norm(h + block.feed_forward(h))
    assert torch.allclose(block(x)[0], expected, atol=1e-12)
    block = make_block(PreNorm)
    h = x + block.attention(block.around_attention.norm(x))[0]
    expected = h + block.feed_forward(block.around_feed_forward.norm(h))
    assert torch.allclose(block(x)[0], expected, atol=1e-12)


@pytest.mark.parametrize("kind", [PostNorm, PreNorm])
@pytest.mark.parametrize("mask", [None, padding_mask(torch.tensor([[1, 1, 1, 1, 0]])), causal_mask(5, 5)])
@pytest.mark.parametrize(
    "attend", [FUSED.attend, REFERENCE.attend, RotaryAttention()], ids=["fused", "plain", "rotary"]
)
def test_reading_a_part_equals_the_whole(kind: type[PostNorm], mask: Tensor | None, attend: Attend) -> None:
    """Promise: computing only the positions that are read is exact for every kind of attention, gradients included."""
    block, results = make_block(kind, FUSED._replace(attend=attend)), []
    for narrow in (False, True):
        block.zero_grad()
        x = draw(1, 5, 8).requires_grad_()
        y = block(x, mask, read=slice(0, 2))[0] if narrow else block(x, mask)[0][:, :2]
        (y**3).sum().backward()
        results.append([y, x.grad, *(p.grad.clone() for p in block.parameters())])
    for whole, part in zip(*results, strict=True):
        assert torch.allclose(whole, part, atol=1e-12)


@pytest.mark.parametrize("kind", [PostNorm, PreNorm])
def test_the_kernels_of_a_block_are_twins(kind: type[PostNorm]) -> None:
    x = draw(2, 5, 8)
    a, b = make_block(kind, REFERENCE), make_block(kind, FUSED)
    assert torch.allclose(a(x)[0], b(x)[0], atol=1e-12)


@pytest.mark.parametrize("kind", [PostNorm, PreNorm])
def test_a_slot_takes_an_adapter_without_patching(kind: type[PostNorm]) -> None:
    x = draw(1, 4, 8)
    block = make_block(kind)
    before, names = block(x)[0], set(block.state_dict())
    adapter = Bottleneck(8, 2, torch.relu).double()
    adapter.draw(torch.Generator().manual_seed(0), "zero")
    adapted = BlockAdapters(feed_forward=Adapted((adapter,)))
    assert torch.equal(block(x, adapters=adapted)[0], before)
    assert set(block.state_dict()) == names  # an adapter's weights are not the body's
    nn.init.normal_(adapter.up.weight)
    after = block(x, adapters=adapted)[0]
    assert torch.equal(block(x)[0], before)
    h = block.around_attention.leave(block.attention(block.around_attention.enter(x))[0], x)
    y = block.feed_forward(block.around_feed_forward.enter(h))
    norm = block.around_feed_forward.norm if kind is PostNorm else nn.Identity()
    expected = norm(h + y + adapter.up(torch.relu(adapter.down(norm(h + y)))))
    assert torch.allclose(after, expected, atol=1e-12)
    assert not torch.allclose(after, before, atol=1e-3)


def test_embeddings_sum_their_tables() -> None:
    made = Embeddings(nn.Embedding(11, 4, padding_idx=0), nn.Embedding(6, 4), nn.Embedding(2, 4)).double()
    ids, positions = torch.tensor([[5, 7, 0]]), torch.tensor([[0, 1, 2]])
    segments = torch.tensor([[0, 1, 0]])
    x = made(ids, positions, segments)
    assert torch.equal(x[0, 1], made.token.weight[7] + made.segment.weight[1] + made.position.weight[1])
    assert torch.equal(made(ids, positions), made(ids, positions, torch.zeros_like(ids)))
    x.sum().backward()
    assert made.token.weight.grad[0].abs().max() == 0  # looking padding up teaches nothing


def test_heads_are_their_formulas() -> None:
    x, table = draw(2, 6), draw(9, 6, seed=1)
    linear = LinearHead(6, 3).double()
    assert torch.allclose(linear(x), x @ linear.output.weight.T + linear.output.bias)
    two = TwoLayerHead(6, 6, 3).double()
    h = torch.tanh(x @ two.dense.weight.T + two.dense.bias)
    assert torch.allclose(two(x), h @ two.output.weight.T + two.output.bias)
    pooler = Pooler(6).double()
    assert torch.allclose(pooler(x), torch.tanh(x @ pooler.dense.weight.T + pooler.dense.bias))
    words = MaskedWordHead(6, 9, ACTIVATIONS["relu"], LayerNorm(6, 1e-5)).double()
    with torch.no_grad():
        words.bias.copy_(draw(9, seed=3))
    h = words.norm(torch.relu(words.dense(x)))
    assert torch.allclose(words(x, table), h @ table.T + words.bias)


@pytest.mark.parametrize("kind", [PostNorm, PreNorm])
def test_a_memory_is_a_sublayer_between_the_two(kind: type[PostNorm]) -> None:
    x, memory = draw(2, 5, 8), draw(2, 3, 6, seed=1)
    block = make_block(kind)
    block.memory_attention = MemoryAttention(8, 6, 2).double()
    block.around_memory_attention = kind(LayerNorm(8, 1e-5), 0.0).double()
    h = block.around_attention.leave(block.attention(block.around_attention.enter(x)).y_btd, x)
    norm = block.around_memory_attention.norm
    if kind is PostNorm:
        h = norm(h + block.memory_attention(h, memory).y_btd)
    else:
        h = h + block.memory_attention(norm(h), memory).y_btd
    expected = block.around_feed_forward.leave(block.feed_forward(block.around_feed_forward.enter(h)), h)
    assert (block(x, memory_bsm=memory).x_btd - expected).abs().max() <= 1e-12
