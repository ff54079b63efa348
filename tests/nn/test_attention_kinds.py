"""Relative attention and synthesizers against loops in plain Python, with every mask and every form of places."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from transformers.models.t5.modeling_t5 import T5Attention

from heedful.nn.attention import DotProduct, KeysValues, MultiHeadAttention, dot_product, fused_dot_product
from heedful.nn.initial import Scale
from heedful.nn.masks import block_mask, causal_mask, padding_mask
from heedful.nn.positions import RelativeAttention, bucket_edges
from heedful.nn.synthesizer import DenseScores, RandomScores, Synthesizer

WIDTH, HEADS, POSITIONS, B, T = 12, 3, 9, 2, 5
K = WIDTH // HEADS
ScoreOf = Callable[[Tensor, Tensor, int, int, int], float]
"""Of a query's state, a key's state, the head, the query's position and the key's."""


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def fill(module: nn.Module) -> nn.Module:
    with torch.no_grad():
        for n, p in enumerate(module.parameters()):
            p.copy_(draw(*p.shape, seed=n).mul(0.7))
    return module


def bucket_by_words(ahead: int, both_ways: bool, buckets: int = 32, farthest: int = 128) -> int:
    """T5's scheme, one distance at a time."""
    start = 0
    if both_ways:
        buckets //= 2
        start, distance = (buckets if ahead > 0 else 0), abs(ahead)
    else:
        distance = max(-ahead, 0)
    exact = buckets // 2
    if distance < exact:
        return start + distance
    grown = math.log(distance / exact) / math.log(farthest / exact) * (buckets - exact)
    return start + min(exact + int(grown + 1e-9), buckets - 1)


def relative(both_ways: bool, attend: DotProduct) -> tuple[nn.Module, ScoreOf]:
    made = RelativeAttention(HEADS, both_ways, attend=attend)
    layer = fill(MultiHeadAttention(WIDTH, HEADS, attend=made).double())
    w, b = layer.qkv.weight, layer.qkv.bias

    def score(x: Tensor, other: Tensor, head: int, at: int, there: int) -> float:
        rows = slice(head * K, head * K + K)
        q, k = w[:WIDTH][rows] @ x + b[:WIDTH][rows], w[WIDTH:][rows] @ other + b[WIDTH:][rows]
        return float(q @ k) / math.sqrt(K) + float(made.table.weight[bucket_by_words(there - at, both_ways), head])

    return layer, score


def dense() -> tuple[nn.Module, ScoreOf]:
    made = DenseScores(WIDTH, HEADS, POSITIONS)
    layer = fill(Synthesizer(WIDTH, HEADS, made).double())

    def score(x: Tensor, other: Tensor, head: int, at: int, there: int) -> float:
        rows = slice(head * K, head * K + K)
        z = [max(0.0, float(v)) for v in made.up.weight[rows] @ x + made.up.bias[rows]]
        terms = [z[i] * float(made.weight[head, i, there]) for i in range(K)]
        return sum(terms) + float(made.bias[head * POSITIONS + there])

    return layer, score


def random() -> tuple[nn.Module, ScoreOf]:
    made = RandomScores(HEADS, POSITIONS)
    layer = fill(Synthesizer(WIDTH, HEADS, made).double())
    return layer, lambda x, other, head, at, there: float(made.table[head, at, there])


KINDS = {
    "relative, both ways": lambda: relative(True, dot_product),
    "relative, the past": lambda: relative(False, dot_product),
    "fused relative, both ways": lambda: relative(True, fused_dot_product),
    "fused relative, the past": lambda: relative(False, fused_dot_product),
    "dense": dense,
    "random": random,
}
MASKS = {
    "none": None,
    "padding": padding_mask(torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])),
    "causal": causal_mask(T, T),
    "blocks": block_mask(torch.tensor([[1, 1, 2, 2, 0], [1, 2, 2, 2, 3]])),
}
ALONG = torch.arange(T)
OWN = torch.tensor([[0, 1, 0, 1, 0], [3, 8, 7, 2, 5]])
PLACES = {"counted": None, "along": (ALONG, ALONG), "own": (OWN, OWN), "queries along": (ALONG, OWN)}


def by_loops(
    layer: nn.Module, score: ScoreOf, x: Tensor, mask: Tensor | None, places: tuple[Tensor, Tensor] | None
) -> Tensor:
    queries, keys = (ALONG, ALONG) if places is None else places
    queries, keys = queries.expand(B, T), keys.expand(B, T)
    seen = (torch.ones(1, dtype=torch.bool) if mask is None else mask).expand(B, HEADS, T, T)
    value = layer.value if isinstance(layer, Synthesizer) else None
    w, b = (value.weight, value.bias) if value else (layer.qkv.weight[-WIDTH:], layer.qkv.bias[-WIDTH:])
    v = x @ w.T + b
    joined = torch.zeros(B, T, WIDTH, dtype=torch.float64)
    for i in range(B):
        for h in range(HEADS):
            for t in range(T):
                shown = [s for s in range(T) if seen[i, h, t, s]]
                e = [math.exp(score(x[i, t], x[i, s], h, int(queries[i, t]), int(keys[i, s]))) for s in shown]
                for weight, s in zip(e, shown, strict=True):
                    joined[i, t, h * K : h * K + K] += weight / sum(e) * v[i, s, h * K : h * K + K]
    return joined @ layer.output.weight.T + layer.output.bias


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("places", PLACES)
def test_a_kind_is_its_formula(kind: str, mask: str, places: str) -> None:
    layer, score = KINDS[kind]()
    x = draw(B, T, WIDTH, seed=9)
    with torch.no_grad():
        expected = by_loops(layer, score, x, MASKS[mask], PLACES[places])
        y, weights, _ = layer(x, None, MASKS[mask], PLACES[places], None, True)
        assert (y - expected).abs().max() <= 1e-10
        assert (layer(x, None, MASKS[mask], PLACES[places])[0] - expected).abs().max() <= 1e-10
    assert weights.shape == (B, HEADS, T, T)
    seen = torch.ones_like(weights, dtype=torch.bool) if MASKS[mask] is None else MASKS[mask].expand(weights.shape)
    assert (weights[~seen] == 0).all()
    assert torch.allclose(weights.sum(-1), seen.any(-1).double(), atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_are_read_and_what_was_kept(kind: str) -> None:
    layer, _ = KINDS[kind]()
    x, mask = draw(B, T, WIDTH, seed=9), causal_mask(T, T)
    whole = layer(x, None, mask, (OWN, OWN))[0]
    rows = layer(x[:, 1:3], x, mask[..., 1:3, :], (OWN[:, 1:3], OWN))[0]
    assert (rows - whole[:, 1:3]).abs().max() <= 1e-10
    first = layer(x[:, :3], None, causal_mask(3, 3), (OWN[:, :3], OWN[:, :3]))
    assert isinstance(first.kept, KeysValues)
    past = first.kept.reorder(torch.tensor([1, 0])).reorder(torch.tensor([1, 0]))
    rest = layer(x[:, 3:], None, causal_mask(2, T), (OWN[:, 3:], OWN), past)
    assert (torch.cat([first.y_btd, rest.y_btd], dim=1) - whole).abs().max() <= 1e-10
    assert rest.kept.v_bhsk.shape == (B, HEADS, T, K)


@pytest.mark.parametrize("kind", KINDS)
def test_a_query_that_sees_nothing_yields_zero(kind: str) -> None:
    layer, _ = KINDS[kind]()
    x = draw(B, 3, WIDTH).requires_grad_()
    mask = torch.tensor([[True, True, False], [False, False, False], [True, False, True]])[None, None]
    y = layer(x, None, mask)[0]
    assert (y[:, 1] == layer.output.bias).all()
    assert (y[:, 0] != layer.output.bias).all()
    y.sum().backward()
    assert torch.isfinite(x.grad).all()
    assert all(torch.isfinite(p.grad).all() for p in layer.parameters())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("places", [(ALONG, ALONG), (OWN, OWN)], ids=["along", "own"])
def test_the_twins_of_relative_attention_agree_with_gradients(
    mask: str, places: tuple[Tensor, Tensor], dtype: torch.dtype
) -> None:
    results = []
    for attend in (dot_product, fused_dot_product):
        layer = relative(True, attend)[0].to(dtype)
        x = draw(B, T, WIDTH, seed=9).to(dtype).requires_grad_()
        y = layer(x, None, MASKS[mask], places)[0]
        (y**2).sum().backward()
        results.append([y, x.grad, *(p.grad for p in layer.parameters())])
    for reference, fused in zip(*results, strict=True):
        scale = max(1.0, reference.abs().max().item())
        assert (reference - fused).abs().max() <= (1e-5 if dtype == torch.float32 else 1e-10) * scale


@pytest.mark.parametrize("both_ways", [True, False])
def test_buckets_are_the_peers(both_ways: bool) -> None:
    ahead = torch.arange(-400, 401)
    ours = RelativeAttention(2, both_ways).buckets((torch.tensor([400]), torch.arange(801)))[0]
    assert torch.equal(ours, T5Attention._relative_position_bucket(ahead, both_ways, 32, 128))
    assert ours.unique().tolist() == [i for i in range(32) if not both_ways or i != 16]  # nothing is 0 ahead
    assert ours.tolist() == [bucket_by_words(int(n), both_ways) for n in ahead]


@settings(max_examples=60)
@given(st.integers(2, 40), st.integers(1, 500))
def test_edges_rise_from_one_to_the_farthest(buckets: int, more: int) -> None:
    exact = buckets // 2
    edges = bucket_edges(buckets, exact + more)
    assert len(edges) == buckets - 1
    assert edges[:exact] == tuple(range(1, exact + 1))
    assert list(edges) == sorted(edges)
    assert max(edges) <= exact + more


def test_too_many_buckets_for_the_distance_are_refused() -> None:
    with pytest.raises(ValueError, match="32 buckets cannot reach to a distance of 16"):
        bucket_edges(32, 16)


@pytest.mark.parametrize("kind", KINDS)
def test_dropout_is_of_each_text_and_only_in_training(kind: str) -> None:
    layer, _ = KINDS[kind]()
    layer.dropout = 0.5
    x = draw(1, 6, WIDTH).expand(8, -1, -1)
    torch.manual_seed(0)
    y = layer(x)[0]
    assert all(not torch.equal(y[0], y[i]) for i in range(1, 8))
    layer.eval()
    assert torch.equal(layer(x)[0], layer(x)[0])


def test_weights_are_drawn() -> None:
    for kind, make in KINDS.items():
        layer, _ = make()
        with torch.no_grad():
            for p in layer.parameters():
                p.fill_(torch.nan)
        layer.draw(torch.Generator().manual_seed(1), Scale(0.5, 0.1))
        for name, p in layer.named_parameters():
            expected = 0.0 if name.endswith("bias") else 0.1 if name.startswith("output") else 0.5
            spread = 0.0 if expected == 0 else 0.35
            assert float(p.detach().std()) == pytest.approx(expected, rel=spread), (kind, name)


def test_a_synthesizers_width_must_divide() -> None:
    with pytest.raises(ValueError, match="10 cannot be divided among 3"):
        Synthesizer(10, 3, RandomScores(3, 4))
