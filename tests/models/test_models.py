"""Whole models: published parameter counts, batching that does not change the answer, goldens from formula weights."""

import json
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from heedful.models.batch import Batch
from heedful.models.inventory import take_inventory
from heedful.models.shape import NAMED_SHAPES, Head
from heedful.models.transformer import FIRST, Transformer
from tests.support.formula_models import GOLDENS, SHAPES, SMALL, formula_model


@pytest.mark.parametrize(
    ("shape", "heads", "count"),
    [
        ("bert-tiny", {}, 4_385_920),
        ("bert-mini", {}, 11_170_560),
        ("bert-base", {}, 109_482_240),
        ("bert-base", {"classify": Head("linear", "pooled", 2)}, 109_483_778),
        ("bert-base", {"classify": Head("two-layer", "pooled", 2)}, 110_074_370),
        ("distilbert-base", {}, 66_362_880),
        ("gpt2", {"causal": Head("language-model", "every")}, 124_439_808),
    ],
)
def test_published_parameter_counts(shape: str, heads: dict[str, Head], count: int) -> None:
    with torch.device("meta"):
        inventory = take_inventory(Transformer(NAMED_SHAPES[shape], heads))
    assert inventory.total == inventory.trainable == count
    assert inventory.weight_bytes == 4 * count
    assert inventory.training_bytes == 16 * count


def test_frozen_parameters_are_not_counted_as_trainable() -> None:
    model = Transformer(SMALL, {"classify": Head("linear", "pooled", 2)})
    model.body.requires_grad_(False)
    inventory = take_inventory(model)
    assert inventory.trainable == 12 * 2 + 2
    assert inventory.training_bytes == 4 * inventory.total + 12 * 26


@pytest.mark.parametrize("family", SHAPES)
def test_goldens(family: str) -> None:
    """A refactor may not move a digit; `tests/models/make_goldens.py` wrote them."""
    ids = torch.tensor([[7, 3, 49, 20, 11], [9, 30, 2, 5, 5]])
    states = formula_model(SHAPES[family]).body(Batch(ids))
    expected = torch.tensor(json.loads(GOLDENS.read_text())[family], dtype=torch.float64)
    assert torch.allclose(states.last[:, :, :4], expected, atol=1e-10, rtol=0)


@pytest.mark.parametrize("family", SHAPES)
def test_alone_in_a_padded_batch_in_any_order(family: str) -> None:
    model = formula_model(SHAPES[family])
    pad = SHAPES[family].pad_id or 0
    texts = [[7, 3, 9], [5, 6, 7, 8, 9, 10, 11], [4], [12, 13, 14, 15, 16]]
    alone = [model.body(Batch(torch.tensor([t]))).last[0] for t in texts]
    for order in ([0, 1, 2, 3], [3, 1, 0, 2]):
        longest = max(len(texts[r]) for r in order)
        ids = torch.tensor([texts[r] + [pad] * (longest - len(texts[r])) for r in order])
        real = torch.tensor([[True] * len(texts[r]) + [False] * (longest - len(texts[r])) for r in order])
        batch = model.body(Batch(ids, real)).last
        for row, r in enumerate(order):
            assert torch.allclose(batch[row, : len(texts[r])], alone[r], atol=1e-10, rtol=0)


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert"])
def test_only_what_the_head_reads(family: str) -> None:
    """The last layer for the first token alone is exact, in states, scores and every gradient."""
    reads = "pooled" if SHAPES[family].pooler else "first"
    model = formula_model(SHAPES[family], {"classify": Head("linear", reads, 3)})
    ids = torch.tensor([[7, 3, 49, 20], [9, 30, SHAPES[family].pad_id, SHAPES[family].pad_id]])
    real = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]], dtype=torch.bool)
    batch = Batch(ids, real)
    assert torch.allclose(model.body(batch, read=FIRST).last, model.body(batch).last[:, :1], atol=1e-12)
    gradients = []
    for narrow in (True, False):
        model.zero_grad()
        scores = (
            model("classify", batch) if narrow else model.heads["classify"](model.pick(model.body(batch), reads, batch))
        )
        (scores**3).sum().backward()
        gradients.append([scores, *(p.grad.clone() for p in model.parameters())])
    for part, whole in zip(*gradients, strict=True):
        assert torch.allclose(part, whole, atol=1e-12)


def test_last_reads_the_last_real_token() -> None:
    model = formula_model(SHAPES["gpt2"], {"classify": Head("linear", "last", 3, bias=False)})
    real = torch.tensor([[1, 1, 0], [1, 1, 1], [0, 1, 1]], dtype=torch.bool)
    batch = Batch(torch.tensor([[4, 5, 0], [4, 5, 6], [0, 4, 5]]), real)
    states = model.body(batch)
    picked = model.pick(states, "last", batch)
    assert torch.equal(picked, torch.stack([states.last[0, 1], states.last[1, 2], states.last[2, 2]]))
    assert torch.equal(model.pick(states, "last", Batch(batch.ids_bt)), states.last[:, -1])


def test_initialise_draws_what_it_says() -> None:
    shape = replace(SHAPES["bert"], vocabulary=4000, initializer_range=0.05)
    model = Transformer(shape, {"classify": Head("linear", "pooled", 2)})
    model.initialise(torch.Generator().manual_seed(1))
    table: Tensor = model.body.embeddings.token.weight
    assert table.std().item() == pytest.approx(0.05, rel=0.02)
    assert table[0].abs().max() == 0
    assert (model.body.embeddings.norm.weight == 1).all()
    assert (model.body.blocks[0].attention.qkv.bias == 0).all()
    before = {n: p.clone() for n, p in model.named_parameters()}
    model.initialise(torch.Generator().manual_seed(2), only=("heads.",))
    changed = {n for n, p in model.named_parameters() if not torch.equal(p, before[n])}
    assert changed == {"heads.classify.output.weight"}


def test_gpt2_draws_what_is_added_more_narrowly() -> None:
    shape = replace(SHAPES["gpt2"], width=48, inner=200, initializer_range=0.05)
    model = Transformer(shape)
    model.initialise(torch.Generator().manual_seed(1))
    block = model.body.blocks[1]
    assert block.feed_forward.up.weight.std().item() == pytest.approx(0.05, rel=0.05)
    assert block.feed_forward.down.weight.std().item() == pytest.approx(0.05 / 6**0.5, rel=0.05)


DRAWS = {
    "bert-tiny": (3.446625, 11.933235, 10.948272),
    "roberta-base": (2.638014, 11.648931, 10.663968),
    "distilbert-base": (2.169962, 11.536685, 10.071049),
    "gpt2": (2.38233, 11.536685, 10.045605),
}
"""Weighted sums of all weights after drawing the whole, heads and pooler, or two blocks, of small models, seed 7."""


@pytest.mark.parametrize("name", DRAWS)
def test_a_seed_means_the_same_weights_for_ever(name: str) -> None:
    sizes = {"vocabulary": 50, "width": 12, "layers": 3, "heads": 3, "inner": 20, "positions": 18}
    heads = {"classify": Head("two-layer", "first", 3), "mask": Head("masked-word", "every")}
    heads["other"] = Head("linear", "first", 2)
    parts = (("",), ("heads.", "body.pooler."), ("body.blocks.1.", "body.blocks.2."))
    for only, expected in zip(parts, DRAWS[name], strict=True):
        model = Transformer(replace(NAMED_SHAPES[name], **sizes), heads)
        with torch.no_grad():
            for p in model.parameters():
                p.fill_(0.5)
        model.initialise(torch.Generator().manual_seed(7), only=only)
        total = 0.0
        for p in model.parameters():
            wave = torch.sin(torch.arange(p.numel(), dtype=torch.float64))
            total += float((p.detach().double().flatten() * wave).sum())
        assert total == pytest.approx(expected, abs=1e-5)


def test_matrices_lie_column_by_column() -> None:
    """However a model is made: the order of sums, and so the last bit, depends on it."""
    assert formula_model(SMALL).body.blocks[0].attention.qkv.weight.stride() == (1, 36)


def test_every_state_for_a_head_on_every_token() -> None:
    model = formula_model(SMALL, {"classify": Head("linear", "every", 2)})
    batch = Batch(torch.tensor([[7, 3, 49]]))
    expected = model.body(batch).last @ model.heads["classify"].output.weight.T + model.heads["classify"].output.bias
    assert torch.allclose(model("classify", batch), expected, atol=1e-12)


def test_segments_without_a_table_are_refused() -> None:
    for family in ("distilbert", "gpt2"):
        with pytest.raises(ValueError, match="no segment table"):
            formula_model(SHAPES[family]).body(Batch(torch.tensor([[4]]), None, torch.tensor([[1]])))


def test_no_pooler_no_pooled_state() -> None:
    model = formula_model(SHAPES["distilbert"])
    batch = Batch(torch.tensor([[4]]))
    states = model.body(batch)
    with pytest.raises(ValueError, match="no pooler"):
        model.pick(states, "pooled", batch)
