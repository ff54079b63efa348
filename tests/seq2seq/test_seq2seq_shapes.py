"""Shapes that contradict themselves, fresh weights, counts of parameters and operations."""

import re
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from heedful.models.batch import Batch
from heedful.models.inventory import take_inventory
from heedful.models.seq2seq.bert_fused import BertFusedSeq2Seq, BertFusedSource
from heedful.models.seq2seq.flops import bert_fused_flops, decoder_only_flops, recurrent_flops, transformer_flops
from heedful.models.seq2seq.recurrent import RecurrentSeq2Seq
from heedful.models.seq2seq.shape import BertFusedShape, contradiction, transformer_shape
from heedful.models.seq2seq.transformer import Seq2SeqTransformer
from heedful.models.stack import Stack
from heedful.nn.attention import linear_maps
from heedful.nn.blocks import REFERENCE
from tests.support.seq2seq_samples import (
    BERT_FUSED,
    DECODERS,
    GRU,
    KINDS,
    OTHER,
    POST,
    RECURRENT,
    SHAPES,
    SOURCES,
    TARGETS,
    change,
    make,
    other_tokens,
    source_of,
)

SOURCE, TARGET = POST.source, POST.target
WRONG: list[tuple[Any, str]] = [
    (replace(POST, source=replace(SOURCE, heads=5)), "source.width = 12 is not divisible by source.heads = 5"),
    (replace(POST, target=replace(TARGET, width=9)), 'target.position_kind = "sinusoidal" needs an even target.width'),
    (change(POST, width=9, position_kind="sinusoidal-halves"), 'source.position_kind = "sinusoidal-halves" needs'),
    (replace(POST, source=replace(SOURCE, causal=True)), "source.causal = true"),
    (replace(POST, source=replace(SOURCE, memory_width=3)), "source.memory_width = 3"),
    (replace(POST, source=replace(SOURCE, pooler=True)), "source.pooler = true"),
    (replace(POST, target=replace(TARGET, causal=False)), "target.causal = false"),
    (replace(POST, target=replace(TARGET, memory_width=None)), "target.memory_width = None is not source.width = 12"),
    (replace(POST, target=replace(TARGET, memory_width=8)), "target.memory_width = 8 is not source.width = 12"),
    (replace(POST, shared="all"), 'shared = "all" makes one table of two, and source.vocabulary is not'),
    (replace(change(POST, vocabulary=40), shared="all", target=replace(TARGET, vocabulary=40, pad_id=3)),
     "source.pad_id is not target.pad_id"),
    (BertFusedShape(replace(POST, source=replace(SOURCE, causal=True)), OTHER), "translator.source.causal = true"),
    (BertFusedShape(POST, replace(OTHER, causal=True)), "bert.causal = true"),
    (BertFusedShape(POST, replace(OTHER, memory_width=3)), "bert.memory_width = 3"),
    (BertFusedShape(POST, replace(OTHER, heads=3)), "bert.width = 10 is not divisible by bert.heads = 3"),
    (BertFusedShape(POST, OTHER, drop_net=1.2), "drop_net = 1.2 is not between 0 and 1"),
    (replace(GRU, width=7), "two_ways = true needs an even width, not 7"),
    (replace(GRU, source_pad_id=40), "source_pad_id = 40 is outside the vocabulary"),
    (replace(GRU, shared="all"), "source_vocabulary is not target_vocabulary"),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "words"), WRONG, ids=[words for _, words in WRONG])
def test_what_contradicts_itself_is_said(shape: Any, words: str) -> None:
    assert words in contradiction(shape)
    name = words.split(" ")[0]
    assert f"«{name}»" in contradiction(shape, lambda field: f"«{field}»")
    with pytest.raises(ValueError, match=re.escape(contradiction(shape))):
        build(shape)


def build(shape: Any) -> Any:
    if isinstance(shape, BertFusedShape):
        return BertFusedSeq2Seq(shape, Stack(OTHER if contradiction(shape) else shape.bert))
    return RecurrentSeq2Seq(shape) if hasattr(shape, "cell") else Seq2SeqTransformer(shape)


ALL: dict[str, Any] = SHAPES | RECURRENT | BERT_FUSED


@pytest.mark.parametrize("kind", ALL)
def test_no_sample_contradicts_itself(kind: str) -> None:
    assert contradiction(ALL[kind]) == ""


# Fresh weights


@pytest.mark.parametrize("kind", ALL)
def test_weights_come_from_the_generator_alone(kind: str) -> None:
    models = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        model = build(ALL[kind])
        before, other = (
            torch.get_rng_state(),
            {n: p.clone() for n, p in model.named_parameters() if n.startswith("bert.")},
        )
        model.initialise(torch.Generator().manual_seed(7))
        assert torch.equal(torch.get_rng_state(), before)
        assert all(torch.equal(p, model.get_parameter(n)) for n, p in other.items())  # another's, with its weights
        models.append({n: p for n, p in model.named_parameters() if n not in other})
    assert all(torch.equal(p, models[1][n]) for n, p in models[0].items())


@pytest.mark.parametrize("kind", ALL)
def test_parts_are_drawn_by_name(kind: str) -> None:
    """Each part, and nothing else; all of them together are the whole."""
    model = build(ALL[kind])
    translator = getattr(model, "translator", model)
    names = [f"{'translator.' if translator is not model else ''}{name}." for name, _ in translator.parts()]
    drawn = set()
    for name in dict.fromkeys(names):
        with torch.no_grad():
            for p in model.parameters():
                p.fill_(7.0)
        model.initialise(torch.Generator().manual_seed(7), only=(name,))
        changed = {n for n, p in model.named_parameters() if bool((p != 7.0).any())}
        assert changed == {n for n, _ in model.named_parameters() if n.startswith(name)}
        drawn |= changed
    assert drawn == {n for n, _ in model.named_parameters() if not n.startswith("bert.")}


def test_a_decoder_alone_is_drawn_as_its_transformer() -> None:
    model = make("decoder-only")
    expected = make("decoder-only").transformer
    model.initialise(torch.Generator().manual_seed(7), only=("transformer.body.blocks.1.",))
    expected.initialise(torch.Generator().manual_seed(7), only=("body.blocks.1.",))
    for p, other in zip(model.parameters(), expected.parameters(), strict=True):
        assert torch.equal(p, other)
    assert float(model.transformer.body.blocks[1].feed_forward.up.weight.detach().std()) < 0.03


@pytest.mark.parametrize("kind", ["post", "fused pre"])
def test_matrices_are_drawn_by_their_sizes(kind: str) -> None:
    big = transformer_shape(60, 50, layers=1, width=64, heads=4, inner=200, shared="none")
    shape = BertFusedShape(big, OTHER) if kind in BERT_FUSED else big
    model = build(shape)
    model.initialise(torch.Generator().manual_seed(3))
    body = getattr(model, "translator", model)
    for name, maps in linear_maps(body).items():
        weight = body.get_parameter(name).detach()
        for one in weight.chunk(maps):
            bound = (6 / sum(one.shape)) ** 0.5
            assert 0.95 * bound < float(one.abs().max()) <= bound, name
            assert float(one.std()) == pytest.approx(bound / 3**0.5, rel=0.1)
    for table in (body.encoder.embeddings.token.weight, body.output.weight):
        assert float(table.detach()[1:].std()) == pytest.approx(64**-0.5, rel=0.1)
    assert not body.encoder.embeddings.token.weight[0].any()  # padding
    normal = build(replace(big, initial="normal"))
    normal.initialise(torch.Generator().manual_seed(3))
    up = normal.encoder.blocks[0].feed_forward.up.weight.detach()
    assert float(up.std()) == pytest.approx(64**-0.5, rel=0.1)
    assert float(up.abs().max()) > 3 * 64**-0.5


def test_what_enters_the_first_block_is_of_size_one() -> None:
    model = build(transformer_shape(60, 50, layers=1, width=64, heads=4, inner=100)).eval()
    model.initialise(torch.Generator().manual_seed(3))
    embeddings = model.encoder.embeddings
    ids = torch.arange(1, 40)[None]
    assert float((embeddings.token(ids) * embeddings.scale).detach().std()) == pytest.approx(1.0, rel=0.1)


# Counts


def test_the_base_model_of_the_paper() -> None:
    """65 million, it says, for a joint vocabulary of about 37000."""
    with torch.device("meta"):
        model = Seq2SeqTransformer(transformer_shape(37000, 37000, 6, 512, 8, 2048, shared="all"))
    d, f = 512, 2048
    attention, rest = 4 * (d * d + d) + 2 * d, 2 * d * f + f + d + 2 * d
    inventory = take_inventory(model)
    assert inventory.total == 37000 * d + 6 * (3 * attention + 2 * rest)
    assert inventory.total == pytest.approx(65e6, rel=0.04)
    assert sum(inventory.by_part.values()) == inventory.total
    assert set(inventory.by_part) == {"encoder", "decoder"}


@pytest.mark.parametrize("kind", BERT_FUSED)
def test_what_is_beside_adds_an_attention_to_each_layer(kind: str) -> None:
    shape = BERT_FUSED[kind]
    fused, plain = take_inventory(build(shape)), take_inventory(build(shape.translator))
    d, m, layers = 12, 10, 4
    assert fused.by_part["translator"] == plain.total + layers * (2 * (d * d + d) + 2 * d * (m + 1))
    other = take_inventory(Stack(shape.bert)).total
    assert fused.by_part["bert"] == other
    assert fused.total - fused.trainable == (other if shape.frozen else 0)


def test_parameters_of_the_recurrent_model() -> None:
    """As in the paper, with maxout; the source is read in two ways of half the width."""
    e, d = 6, 8
    assert take_inventory(build(GRU)).by_part == {
        "source_embedding": 40 * e,
        "target_embedding": 30 * e,
        "encoder": 2 * 3 * (d // 2 * (e + d // 2) + 2 * (d // 2)),
        "bridge": d * d + d,
        "decoder": 3 * d * (e + d + d + 2) + (2 * d * d + d + d) + 2 * e * (2 * d + e + 1),
    }


def count(model: Any, source: Any, target: Batch, read: slice | None) -> int:
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(source, target, read)
    return int(counter.get_total_flops())


@pytest.mark.parametrize("one_read", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_operations_are_those_that_run(kind: str, one_read: bool) -> None:
    model = make(kind, REFERENCE)
    found = sum(
        count(model, source_of(kind, [s]), Batch(torch.tensor([t])), slice(0, 1) if one_read else None)
        for s, t in zip(SOURCES, TARGETS, strict=True)
    )
    source, target = [len(s) for s in SOURCES], [len(t) for t in TARGETS]
    read = [1] * 4 if one_read else None
    if kind in SHAPES:
        expected = transformer_flops(SHAPES[kind], source, target, read)
    elif kind in RECURRENT:
        expected = recurrent_flops(RECURRENT[kind], source, target, read)
    elif kind in DECODERS:
        expected = decoder_only_flops(DECODERS[kind], source, target, read)
    else:
        others = [len(o) for o in other_tokens(SOURCES)]
        expected = bert_fused_flops(BERT_FUSED[kind], source, target, others, read)
    assert found == expected


def test_states_that_are_there_already_cost_nothing() -> None:
    model = make("fused", REFERENCE)
    source = source_of("fused", SOURCES[:1])
    kept = BertFusedSource(source.batch, model.bert_states(source.bert))
    target, others = Batch(torch.tensor(TARGETS[:1])), [source.bert.ids_bt.shape[1]]
    found = count(model, kept, target, None)
    assert found == bert_fused_flops(BERT_FUSED["fused"], [4], [3], others, kept=True)
    assert found < bert_fused_flops(BERT_FUSED["fused"], [4], [3], others)
