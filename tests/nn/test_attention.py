"""The written-out attention against loops, its fused twin against it, gradients included; masks against their words."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from heedful.nn.adapters import LowRank, QueryKeyValueDelta
from heedful.nn.attention import (
    Attend,
    AttentionChanges,
    MemoryAttention,
    MultiHeadAttention,
    dot_product,
    fused_dot_product,
)
from heedful.nn.masks import block_mask, causal_mask, padding_mask
from heedful.nn.positions import RotaryAttention, rotate, sinusoidal


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def by_loops(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """softmax(qᵀk/√d_k) v for one query at a time, in plain Python."""
    b, h, t, d = q.shape
    mask = mask.expand(b, h, t, k.shape[2])
    y = torch.zeros_like(q)
    for i in range(b):
        for j in range(h):
            for n in range(t):
                seen = [s for s in range(k.shape[2]) if mask[i, j, n, s]]
                e = [math.exp(float(q[i, j, n] @ k[i, j, s]) / math.sqrt(d)) for s in seen]
                for weight, s in zip(e, seen, strict=True):
                    y[i, j, n] += weight / sum(e) * v[i, j, s]
    return y


PLACES = (torch.arange(5), torch.arange(5))  # which plain attention does not look at
MASKS = {
    "none": None,
    "padding": padding_mask(torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])),
    "causal": causal_mask(5, 5),
    "blocks": block_mask(torch.tensor([[1, 1, 2, 2, 0], [1, 2, 2, 2, 3]])),
}


@pytest.mark.parametrize("attend", [dot_product, fused_dot_product])
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS.keys())
def test_attention_is_the_formula(attend: Attend, mask: Tensor | None) -> None:
    q, k, v = (draw(2, 3, 5, 4, seed=i) for i in range(3))
    y, _ = attend(q, k, v, mask, PLACES, 0.0, False)
    expected = by_loops(q, k, v, torch.ones(1, dtype=torch.bool) if mask is None else mask)
    assert torch.allclose(y, expected, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS.keys())
def test_the_twins_agree_with_gradients(mask: Tensor | None, dtype: torch.dtype) -> None:
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    results = []
    for attend in (dot_product, fused_dot_product):
        q, k, v = (draw(2, 3, 5, 4, seed=i).to(dtype).requires_grad_() for i in range(3))
        y, _ = attend(q, k, v, mask, PLACES, 0.0, False)
        (y**3).sum().backward()
        results.append([y, q.grad, k.grad, v.grad])
    for reference, fused in zip(*results, strict=True):
        assert torch.isfinite(reference).all()
        assert torch.allclose(reference, fused, atol=tolerance)


@pytest.mark.parametrize("attend", [dot_product, fused_dot_product])
def test_a_query_that_sees_nothing_yields_zero(attend: Attend) -> None:
    q, k, v = (draw(1, 2, 3, 4, seed=i).requires_grad_() for i in range(3))
    mask = torch.tensor([[True, True, False], [False, False, False], [True, False, True]])[None, None]
    y, _ = attend(q, k, v, mask, PLACES, 0.0, False)
    assert (y[:, :, 1] == 0).all()
    assert (y[:, :, 0] != 0).all()
    y.sum().backward()
    assert torch.isfinite(q.grad).all()


def test_the_weights_of_the_fused_twin_are_the_references() -> None:
    q, k, v = (draw(1, 2, 5, 4, seed=i) for i in range(3))
    y, weights = fused_dot_product(q, k, v, causal_mask(5, 5), PLACES, 0.0, True)
    assert torch.allclose(weights.sum(-1), torch.ones(1, 2, 5, dtype=torch.float64))
    assert torch.allclose(weights @ v, y)
    assert weights[0, 0, 1, 2:].abs().max() == 0


def test_dropout_keeps_the_expectation_and_only_in_training() -> None:
    torch.manual_seed(0)
    layer = MultiHeadAttention(8, 2, dropout=0.5).double()
    x = draw(1, 6, 8)
    assert not torch.equal(layer(x)[0], layer(x)[0])
    layer.eval()
    assert torch.equal(layer(x)[0], layer(x)[0])
    q, k, v = (draw(1, 1, 6, 4, seed=i) for i in range(3))
    plain, _ = dot_product(q, k, v, None, PLACES, 0.0, False)
    mean = torch.stack([dot_product(q, k, v, None, PLACES, 0.5, False)[0] for _ in range(1000)]).mean(0)
    assert (mean - plain).abs().max() < 0.2


def test_multi_head_attention_is_its_heads_concatenated() -> None:
    layer = MultiHeadAttention(12, 3).double()
    x, whole = draw(2, 4, 12), draw(2, 5, 12, seed=1)
    w, b = layer.qkv.weight, layer.qkv.bias
    heads = []
    for h in range(3):
        rows = slice(4 * h, 4 * h + 4)
        q = x @ w[:12][rows].T + b[:12][rows]
        k = whole @ w[12:24][rows].T + b[12:24][rows]
        v = whole @ w[24:][rows].T + b[24:][rows]
        heads.append(torch.softmax(q @ k.transpose(1, 2) / 2.0, dim=-1) @ v)
    expected = layer.output(torch.cat(heads, dim=-1))
    assert torch.allclose(layer(x, whole)[0], expected, atol=1e-12)
    assert torch.allclose(layer(x, x)[0], layer(x)[0], atol=1e-12)


def test_width_must_divide() -> None:
    with pytest.raises(ValueError, match="10 cannot be divided among 3"):
        MultiHeadAttention(10, 3)


def test_causal_mask_of_the_last_queries() -> None:
    assert torch.equal(causal_mask(2, 5)[0, 0], causal_mask(5, 5)[0, 0, 3:])


def test_packed_blocks_attend_as_if_alone() -> None:
    layer = MultiHeadAttention(8, 2).double()
    a, b = draw(1, 3, 8), draw(1, 2, 8, seed=1)
    packed = torch.cat([a, b, draw(1, 1, 8, seed=2)], dim=1)
    y, *_ = layer(packed, mask=block_mask(torch.tensor([[1, 1, 1, 2, 2, 0]])))
    assert torch.allclose(y[:, :3], layer(a)[0], atol=1e-12)
    assert torch.allclose(y[:, 3:5], layer(b)[0], atol=1e-12)


@settings(max_examples=40)
@given(st.integers(0, 300), st.integers(0, 300), st.integers(0, 300))
def test_rotary_products_see_only_the_distance(m: int, n: int, shift: int) -> None:
    q, k = draw(1, 1, 1, 8), draw(1, 1, 1, 8, seed=1)

    def product(p: int, s: int) -> float:
        return float((rotate(q, torch.tensor([p])) * rotate(k, torch.tensor([s]))).sum())

    assert product(m, n) == pytest.approx(product(m + shift, n + shift), abs=1e-9)


def test_rotation_is_multiplication_by_a_unit_complex_number() -> None:
    x, p = draw(1, 1, 5, 6), torch.arange(5)
    z = torch.view_as_complex(x.unflatten(-1, (3, 2)).contiguous())
    angle = p[:, None] * 10000.0 ** (-torch.arange(0, 6, 2, dtype=torch.float64) / 6)
    expected = torch.view_as_real(z * torch.polar(torch.ones_like(angle), angle)).flatten(-2)
    assert torch.allclose(rotate(x, p), expected, atol=1e-12)


def test_rotary_attention_is_a_kind_of_attention() -> None:
    """In the seam: order now matters to self-attention, which without positions is blind to it."""
    torch.manual_seed(0)
    layer = MultiHeadAttention(8, 2, attend=RotaryAttention()).double()
    plain = MultiHeadAttention(8, 2).double()
    plain.load_state_dict(layer.state_dict())
    x, order = draw(1, 5, 8), torch.tensor([3, 0, 4, 1, 2])
    assert torch.allclose(plain(x[:, order])[0], plain(x)[0][:, order], atol=1e-12)
    assert not torch.allclose(layer(x[:, order])[0], layer(x)[0][:, order], atol=1e-3)
    last, *_ = layer(x[:, 3:], x, None, (torch.arange(3, 5), torch.arange(5)))
    assert torch.allclose(last, layer(x)[0][:, 3:], atol=1e-12)


def test_sinusoidal_positions_are_the_papers() -> None:
    table = sinusoidal(torch.arange(50), 16)
    for p, i in ((0, 0), (7, 3), (49, 7)):
        angle = p / 10000 ** (2 * i / 16)
        assert table[p, 2 * i] == pytest.approx(math.sin(angle), abs=1e-12)
        assert table[p, 2 * i + 1] == pytest.approx(math.cos(angle), abs=1e-12)


def test_a_low_rank_change_is_on_every_path() -> None:
    """Of the whole text and of the rows that are read; for queries, keys and values apart or all at once."""
    x = draw(1, 4, 8)
    parts = {name: LowRank(8, 24 if name == "qkv" else 8, 2, 0.5).double() for name in ("q", "v", "qkv")}
    for name, part in parts.items():
        part.a.data, part.b.data = draw(2, 8, seed=len(name)), draw(len(part.b), 2, seed=1)
    apart = QueryKeyValueDelta({0: ((parts["q"], 1.0),), 2: ((parts["v"], 0.7),)})
    at_once = QueryKeyValueDelta({None: ((parts["qkv"], 1.0),)})
    for delta in (apart, at_once):
        layer = MultiHeadAttention(8, 2).double()
        before = layer(x)[0]
        changes = AttentionChanges(delta)
        changed = layer(x, changes=changes)[0]
        assert not torch.allclose(changed, before, atol=1e-3)
        assert torch.allclose(layer(x[:, :2], x, changes=changes)[0], changed[:, :2], atol=1e-12)
        with torch.no_grad():  # the same as a change of the weights
            if delta is at_once:
                layer.qkv.weight += parts["qkv"].product()
            else:
                layer.qkv.weight[:8] += parts["q"].product()
                layer.qkv.weight[16:] += 0.7 * parts["v"].product()
        assert torch.allclose(layer(x)[0], changed, atol=1e-12)


def test_attention_to_a_memory_of_another_width() -> None:
    """Against the equations written out head by head, with the gradients of everything that has one."""
    results = []
    for written_out in (False, True):
        torch.manual_seed(0)
        layer = MemoryAttention(12, 5, 3).double()
        x, memory = draw(2, 4, 12).requires_grad_(), draw(2, 6, 5, seed=1).requires_grad_()
        real = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 0, 1, 0, 0]], dtype=torch.bool)
        if written_out:
            heads = []
            for h in range(3):
                rows = slice(4 * h, 4 * h + 4)
                q = x @ layer.query.weight[rows].T + layer.query.bias[rows]
                k = memory @ layer.keys_values.weight[:12][rows].T + layer.keys_values.bias[:12][rows]
                v = memory @ layer.keys_values.weight[12:][rows].T + layer.keys_values.bias[12:][rows]
                scores = (q @ k.transpose(1, 2) / 2.0).masked_fill(~real[:, None, :], -torch.inf)
                heads.append(torch.softmax(scores, dim=-1) @ v)
            y = torch.cat(heads, dim=-1) @ layer.output.weight.T + layer.output.bias
        else:
            y = layer(x, memory, padding_mask(real)).y_btd
        (y**3).sum().backward()
        results.append([y, x.grad, memory.grad, *(p.grad for p in layer.parameters())])
    for ours, plain in zip(*results, strict=True):
        assert (ours - plain).abs().max() <= 1e-10
    kept = layer(x, memory, padding_mask(real)).kept
    assert torch.equal(layer(x, None, padding_mask(real), kept).y_btd, layer(x, memory, padding_mask(real)).y_btd)
