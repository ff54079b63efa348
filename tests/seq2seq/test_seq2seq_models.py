"""Models of sequences, all kinds: a pair alone = in a batch = padded = packed; what may be seen, and what is read."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from heedful.models.batch import Batch, pack
from heedful.models.seq2seq.bert_fused import BertFusedSource
from heedful.models.seq2seq.protocol import alignment
from heedful.models.seq2seq.recurrent import RecurrentSeq2Seq
from heedful.nn.blocks import REFERENCE
from tests.support.seq2seq_samples import (
    BERT_FUSED,
    CPU,
    KINDS,
    RECURRENT,
    SHAPES,
    SOURCES,
    TARGETS,
    TRANSFORMERS,
    Found,
    assert_same,
    batch_of,
    cut,
    make,
    other_tokens,
    run,
    source_of,
)


def alone(kind: str, model: Any) -> Found:
    pairs = list(zip(SOURCES, TARGETS, strict=True))
    return run(model, lambda: [model(source_of(kind, [s]), Batch(torch.tensor([t])))[0] for s, t in pairs])


@pytest.mark.parametrize("kind", KINDS)
def test_together_is_alone(kind: str) -> None:
    model = make(kind)
    together = run(model, lambda: cut(model(source_of(kind, SOURCES), batch_of(TARGETS))))
    assert_same(together, alone(kind, model))
    assert max(float(g.abs().max()) for g in together.gradients.values()) > 1e-2
    trained = {n for n, p in model.named_parameters() if p.requires_grad} - {"bert.pooler.dense.weight"}
    assert trained - {"bert.pooler.dense.bias"} == together.gradients.keys()


@pytest.mark.parametrize("kind", KINDS)
def test_order_and_padding_play_no_part(kind: str) -> None:
    model, order = make(kind), [2, 0, 3, 1]
    plain = run(model, lambda: cut(model(source_of(kind, SOURCES), batch_of(TARGETS))))
    # What stands on padding is a token: it would count if it were looked at.
    padded = run(model, lambda: cut(model(source_of(kind, SOURCES, 3, 6), batch_of(TARGETS, 2, 8))))
    assert_same(plain, padded)
    sources, targets = [SOURCES[i] for i in order], [TARGETS[i] for i in order]
    shuffled = run(model, lambda: cut(model(source_of(kind, sources), batch_of(targets)), targets))
    shuffled.scores = [shuffled.scores[order.index(i)] for i in range(len(order))]
    assert_same(plain, shuffled)


@pytest.mark.parametrize("kind", KINDS)
def test_padding_that_is_taken_for_tokens_would_be_noticed(kind: str) -> None:
    model = make(kind)
    right = model(source_of(kind, SOURCES), batch_of(TARGETS))
    wrong = source_of(kind, SOURCES)
    wrong = BertFusedSource(Batch(wrong.batch.ids_bt), wrong.bert) if kind in BERT_FUSED else Batch(wrong.ids_bt)
    if kind == "decoder-only counting":  # it sees padding by the token
        wrong = Batch(wrong.ids_bt.masked_fill(wrong.ids_bt == 0, 6))
    difference = (model(wrong, batch_of(TARGETS)) - right).abs().amax(dim=(1, 2))
    assert difference[1] <= 1e-10  # the longest
    assert difference[[0, 2, 3]].min() > 1e-3


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("read", [slice(1, 3), slice(-1, None), torch.tensor([2, 0, 5, 3]),
                                  torch.tensor([[0, 2], [1, 0], [5, 4], [3, 1]])], ids=str)  # fmt: skip
def test_only_what_is_read(kind: str, read: slice | torch.Tensor) -> None:
    model, source, target = make(kind), source_of(kind, SOURCES), batch_of(TARGETS)

    def narrowed() -> list[torch.Tensor]:
        whole = model(source, target)
        if isinstance(read, slice):
            return list(whole[:, read])
        return [x[i.view(-1)] for x, i in zip(whole, read, strict=True)]

    assert_same(run(model, lambda: list(model(source, target, read))), run(model, narrowed))


@pytest.mark.parametrize("kind", KINDS)
def test_a_target_sees_its_source_and_its_past(kind: str) -> None:
    model = make(kind)
    sources, targets = [[7, 3, 9, 2]], [[1, 5, 8, 11, 4]]
    before = model(source_of(kind, sources), batch_of(targets))
    later = model(source_of(kind, sources), batch_of([[1, 5, 8, 12, 4]]))
    difference = (before - later).abs().amax(dim=-1)[0]
    assert difference[:3].max() <= 1e-12
    assert difference[3:].min() > 1e-6
    for place in range(4):  # each source token counts, for the first target token already
        changed = list(sources[0])
        changed[place] = 15
        seen = model(source_of(kind, [changed]), batch_of(targets))
        assert (before - seen).abs().amax(dim=-1).min() > 1e-6


@pytest.mark.parametrize("kind", TRANSFORMERS)
def test_packed_is_alone(kind: str) -> None:
    """Two pairs to a row, source with source and target with target."""
    model = make(kind)
    pairs = [(0, 1), (2, 3)]
    source, target, other = (_rows_of(rows, pairs) for rows in (SOURCES, TARGETS, other_tokens(SOURCES)))
    given = BertFusedSource(source, other) if kind in BERT_FUSED else source

    def together() -> list[torch.Tensor]:
        scores = model(given, target)
        ends = [[0, len(TARGETS[a]), len(TARGETS[a]) + len(TARGETS[b])] for a, b in pairs]
        return [scores[r, e[i] : e[i + 1]] for r, e in enumerate(ends) for i in range(2)]

    assert_same(run(model, together), alone(kind, model))
    for read in (slice(1, 6), torch.tensor([[0, 4], [6, 2]])):  # each row that is read has its own text and sources
        whole = model(given, target)
        rows = whole[:, read] if isinstance(read, slice) else torch.stack([whole[i, r] for i, r in enumerate(read)])
        assert (model(given, target, read) - rows).abs().max() <= 1e-10


def _rows_of(texts: Any, rows: list[tuple[int, int]]) -> Batch:
    packed = [pack([texts[i] for i in row], None, 0, CPU, 99).batch for row in rows]
    t = max(p.ids_bt.shape[1] for p in packed)

    def wide(name: str) -> torch.Tensor:
        return torch.cat([torch.nn.functional.pad(getattr(p, name), (0, t - p.ids_bt.shape[1])) for p in packed])

    blocks_bt = wide("blocks_bt")
    return Batch(wide("ids_bt"), blocks_bt > 0, positions_bt=wide("positions_bt"), blocks_bt=blocks_bt)


@pytest.mark.parametrize("kind", RECURRENT)
def test_recurrent_networks_refuse_packed_texts(kind: str) -> None:
    model, packed = make(kind), _rows_of(SOURCES, [(0, 1), (2, 3)])
    with pytest.raises(ValueError, match="cannot be packed"):
        model.encode(packed)
    with pytest.raises(ValueError, match="cannot be packed"):
        model(batch_of(SOURCES[:2]), packed)


@pytest.mark.parametrize("kind", TRANSFORMERS)
def test_fused_kernels_are_the_reference(kind: str) -> None:
    source, target = source_of(kind, SOURCES), batch_of(TARGETS)
    found = []
    for kernels in ({}, {"kernels": REFERENCE}):
        model = make(kind, **kernels)
        found.append(run(model, lambda model=model: cut(model(source, target))))
    assert_same(found[0], found[1])


@pytest.mark.parametrize("kind", KINDS)
def test_in_single_precision_too(kind: str) -> None:
    exact, single = make(kind), make(kind, dtype=torch.float32)
    source, target = source_of(kind, SOURCES), batch_of(TARGETS)
    with torch.no_grad():
        scale = float(exact(source, target).abs().max())
        assert (exact(source, target) - single(source, target)).abs().max() <= 1e-5 * max(1.0, scale)
        together = cut(single(source, target))
        for s, t, found in zip(SOURCES, TARGETS, together, strict=True):
            by_itself = single(source_of(kind, [s]), Batch(torch.tensor([t])))[0]
            assert (by_itself - found).abs().max() <= 1e-5 * max(1.0, scale)


@pytest.mark.parametrize("kind", KINDS)
def test_dropout_depends_on_the_seed_alone(kind: str) -> None:
    shape = RECURRENT.get(kind)
    model = make(kind) if shape is None else RecurrentSeq2Seq(replace(shape, dropout=0.3))
    model.initialise(torch.Generator().manual_seed(0))
    source, target = source_of(kind, SOURCES), batch_of(TARGETS)
    found = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        found.append(model.train()(source, target))
    assert torch.equal(found[0], found[1])
    assert (found[0] - found[2]).abs().max() > 1e-3
    assert torch.equal(model.eval()(source, target), model(source, target))


@pytest.mark.parametrize("kind", RECURRENT)
def test_recurrent_networks_keep_their_precision(kind: str) -> None:
    """Around them everything may be cast; cast states would be off by a thousandth."""
    model = make(kind, dtype=torch.float32)
    source, target = batch_of(SOURCES), batch_of(TARGETS)
    expected = model.encode(source)
    weights = alignment(model, source, target)
    with torch.autocast("cpu", torch.bfloat16):
        found = model.encode(source)
        assert torch.equal(alignment(model, source, target), weights)
    assert torch.equal(found.source.keys, expected.source.keys)
    assert torch.equal(found.state.h[-1], expected.state.h[-1])


def test_shared_tables_are_one() -> None:
    for kind, shared in ((k, s.shared) for k, s in SHAPES.items()):
        model = make(kind)
        encoder, decoder = model.encoder.embeddings.token, model.decoder.embeddings.token
        assert (encoder is decoder) == (shared == "all")
        assert (model.output.weight is None) == (shared != "none")
        names = [n for n, _ in model.named_parameters() if "token" in n or n == "output.weight"]
        assert len(names) == {"none": 3, "output": 2, "all": 1}[shared]
