"""BERT-fused layers against the paper's equations; drop-net's draws; a body beside that is frozen or not."""

from collections import Counter
from dataclasses import replace

import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor, nn

from heedful.models.seq2seq.bert_fused import BertFusedSeq2Seq, BertFusedSource
from heedful.models.seq2seq.shape import BertFusedShape, Seq2SeqShape
from heedful.models.seq2seq.transformer import Seq2SeqTransformer
from heedful.models.stack import Stack
from heedful.nn.attention import MemoryAttention, MultiHeadAttention
from heedful.nn.bert_fused import BertFusedMemoryAttention, DropNet
from tests.support.seq2seq_samples import (
    BERT_FUSED,
    OTHER,
    POST,
    PRE,
    SOURCES,
    TARGETS,
    assert_same,
    batch_of,
    cut,
    make,
    other_tokens,
    randomise,
    run,
    source_of,
)


def dry(shape: Seq2SeqShape) -> Seq2SeqShape:
    """Without dropout."""
    no = {"dropout": 0.0, "embedding_dropout": 0.0, "attention_dropout": 0.0, "attention_output_dropout": 0.0}
    return replace(shape, source=replace(shape.source, **no), target=replace(shape.target, **no))


def fused(shape: Seq2SeqShape, drop_net: float, frozen: bool = True) -> BertFusedSeq2Seq:
    model = BertFusedSeq2Seq(BertFusedShape(dry(shape), OTHER, drop_net, frozen), Stack(OTHER)).double()
    randomise(model)
    return model


def plain_twin(model: BertFusedSeq2Seq, share: float) -> Seq2SeqTransformer:
    """The translator without the attention beside, and so much of the usual one."""
    twin = Seq2SeqTransformer(model.translator.shape).double()
    tensors = {
        n.replace("memory_attention.usual.", "memory_attention."): t for n, t in model.translator.state_dict().items()
    }
    twin.load_state_dict({n: t for n, t in tensors.items() if ".beside." not in n})
    with torch.no_grad():
        for block in twin.encoder.blocks:
            for p in block.attention.output.parameters():
                p.mul_(share)
        for block in twin.decoder.blocks:
            for p in block.memory_attention.output.parameters():
                p.mul_(share)
    return twin


def silence(model: BertFusedSeq2Seq) -> None:
    """The values beside are zero, and so is what they become."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "beside.keys_values" in name:
                p[len(p) // 2 :] = 0
            elif "beside.output.bias" in name:
                p.zero_()


@pytest.mark.parametrize("shape", [POST, PRE], ids=["post", "pre"])
@pytest.mark.parametrize("training", [False, True])
def test_with_silent_values_beside_it_is_half_of_the_plain_one(shape: Seq2SeqShape, training: bool) -> None:
    model = fused(shape, drop_net=0.0).train(training)
    source, target = source_of("fused", SOURCES), batch_of(TARGETS)
    assert (model(source, target) - plain_twin(model, 0.5)(source.batch, target)).abs().max() > 1e-2
    silence(model)
    half, whole = (plain_twin(model, share)(source.batch, target) for share in (0.5, 1.0))
    assert (model(source, target) - half).abs().max() <= 1e-10
    assert (half - whole).abs().max() > 1e-2


@pytest.mark.parametrize("alone", ["usual", "beside"])
def test_drop_net_leaves_one_alone(alone: str) -> None:
    """With p = 1 one of the two is always left out; of these seeds, every layer leaves the same."""
    model = fused(POST, drop_net=1.0).train()
    layers = 2 * POST.source.layers
    for seed in range(1000):
        torch.manual_seed(seed)
        if all((float(torch.rand(())) < 0.5) == (alone == "usual") for _ in range(layers)):
            break
    source, target = source_of("fused", SOURCES), batch_of(TARGETS)
    torch.manual_seed(seed)
    found = model(source, target)
    if alone == "usual":
        assert (found - plain_twin(model, 1.0)(source.batch, target)).abs().max() <= 1e-10
        return
    # Then nothing hangs on the source's own tokens but what the encoder's stream carries: the decoder looks at the
    # other body's states alone.
    encoded = model.encode(source)
    torch.manual_seed(seed)
    junk = replace(encoded, states_bsm=torch.full_like(encoded.states_bsm, 7.0))
    for _ in range(POST.source.layers):
        torch.rand(())
    assert (model.decode(junk, target) - found).abs().max() <= 1e-10


def test_the_mean_and_its_gradients_by_hand() -> None:
    usual, beside = MemoryAttention(8, 5, 2).double(), MemoryAttention(8, 3, 2).double()
    module = BertFusedMemoryAttention(usual, beside, 1.0).double().eval()
    randomise(module)
    generator = torch.Generator().manual_seed(1)
    x, m, n = (torch.randn(2, *size, generator=generator, dtype=torch.float64) for size in ((4, 8), (6, 5), (3, 3)))
    mask = torch.tensor([[1, 1, 0], [1, 0, 0]], dtype=torch.bool)[:, None, None]
    found = module(x, (m, n), (None, mask))
    expected = (usual(x, m).y_btd + beside(x, n, mask).y_btd) / 2
    assert (found.y_btd - expected).abs().max() <= 1e-12
    kept = module(x, None, (None, mask), found.kept)
    assert torch.equal(kept.y_btd, found.y_btd)
    index = torch.tensor([1, 1, 0])
    again = module(x[index], None, (None, mask[index]), found.kept.reorder(index))
    assert (again.y_btd - found.y_btd[index]).abs().max() <= 1e-12
    assert (module(x, (m, n), (None, None)).y_btd - expected).abs().max() > 1e-3  # the mask counts


def test_the_encoders_layer_by_hand() -> None:
    """LayerNorm(x + ½ (attn_S + attn_B)), then the feed-forward network as always."""
    model = fused(POST, 1.0).eval()
    block = model.translator.encoder.blocks[0]
    assert isinstance(block.attention, MultiHeadAttention)
    generator = torch.Generator().manual_seed(1)
    x, h_b = (torch.randn(2, *size, generator=generator, dtype=torch.float64) for size in ((4, 12), (6, 10)))
    mean = (block.attention(x).y_btd + block.beside(x, h_b).y_btd) / 2
    y = block.around_attention.norm(x + mean)
    expected = block.around_feed_forward.norm(y + block.feed_forward(y))
    assert (block(x, memory_bsm=h_b).x_btd - expected).abs().max() <= 1e-12
    part = block(x, memory_bsm=h_b, read=torch.tensor([2, 0])).x_btd[:, 0]
    assert (part - expected[torch.arange(2), torch.tensor([2, 0])]).abs().max() <= 1e-12


def shares(p: float, draws: int, seed: int) -> list[float]:
    """How much of the usual one is in each of so many calls."""
    net, one, zero = DropNet(p).train(), torch.ones(()), torch.zeros(())
    torch.manual_seed(seed)
    return [float(net(one, zero)) for _ in range(draws)]


@pytest.mark.parametrize("p", [0.3, 0.5, 1.0])
def test_how_often_each_is_left_out(p: float) -> None:
    counts = Counter(shares(p, 4000, seed=1))
    expected = {1.0: p / 2, 0.0: p / 2, 0.5: 1 - p}
    wanted = {share: 4000 * chance for share, chance in expected.items() if chance}
    assert counts.keys() == wanted.keys()
    assert chisquare([counts[s] for s in wanted], list(wanted.values())).pvalue > 1e-3
    wrong = {1.0: 0.4, 0.0: 0.1, 0.5: 0.5}  # the test can fail
    assert chisquare([counts[s] for s in wrong], [4000 * c for c in wrong.values()]).pvalue < 1e-6


def test_draws_depend_on_the_seed_alone() -> None:
    assert shares(0.7, 50, seed=3) == shares(0.7, 50, seed=3) != shares(0.7, 50, seed=4)
    for p, training in ((0.0, True), (1.0, False)):  # nothing is drawn
        net = DropNet(p).train(training)
        before = torch.get_rng_state()
        assert float(net(torch.tensor(3.0), torch.tensor(1.0))) == 2.0
        assert torch.equal(torch.get_rng_state(), before)
    with pytest.raises(ValueError, match="from 0 to 1"):
        DropNet(1.5)


def test_one_draw_for_each_layer_and_pass() -> None:
    model = fused(POST, 0.5).train()
    source, target = source_of("fused", SOURCES), batch_of(TARGETS)
    torch.manual_seed(5)
    first = model(source, target)
    after = torch.get_rng_state()
    torch.manual_seed(5)
    assert torch.equal(model(source, target), first)
    torch.manual_seed(5)
    for _ in range(POST.source.layers + POST.target.layers):
        torch.rand(())
    assert torch.equal(torch.get_rng_state(), after)
    assert not torch.equal(model(source, target), first)


def test_what_is_left_out_has_gradients_of_zero() -> None:
    """So that which weights an optimiser moves does not hang on a draw."""
    model = fused(POST, 1.0).train()
    torch.manual_seed(0)
    found = run(model, lambda: cut(model(source_of("fused", SOURCES), batch_of(TARGETS))))
    silent = {n for n, g in found.gradients.items() if float(g.abs().max()) == 0}
    assert silent
    assert all("attention" in n or "beside" in n for n in silent)
    assert found.gradients.keys() == {n for n, p in model.named_parameters() if p.requires_grad}


@pytest.mark.parametrize("kind", BERT_FUSED)
def test_states_that_are_there_already(kind: str) -> None:
    model = make(kind)
    source, target = source_of(kind, SOURCES), batch_of(TARGETS)
    kept = BertFusedSource(source.batch, model.bert_states(source.bert))
    expected = run(model, lambda: cut(model(source, target)))
    kept = BertFusedSource(source.batch, model.bert_states(source.bert))
    assert_same(run(model, lambda: cut(model(kept, target))), expected)


def test_a_frozen_body_stays_as_it_is() -> None:
    model = fused(POST, 0.0).train()
    assert not model.bert.training
    assert model.translator.training
    assert not any(p.requires_grad for p in model.bert.parameters())
    batch = batch_of(other_tokens(SOURCES))
    torch.manual_seed(1)
    states = model.bert_states(batch).states_bsm
    assert torch.equal(states, model.bert_states(batch).states_bsm)  # no dropout, though its shape has some
    assert not states.requires_grad
    assert torch.equal(states, model.eval().bert_states(batch).states_bsm)

    tuned = fused(POST, 0.0, frozen=False).train()
    assert tuned.bert.training
    one, two = (tuned.bert_states(batch).states_bsm for _ in range(2))
    assert not torch.equal(one, two)
    with torch.no_grad():
        kept = tuned.bert_states(batch)
    with pytest.raises(ValueError, match="needs its tokens"):
        tuned(BertFusedSource(batch_of(SOURCES), kept), batch_of(TARGETS))
    found = run(tuned, lambda: cut(tuned(source_of("fused", SOURCES), batch_of(TARGETS))))
    assert float(found.gradients["bert.embeddings.token.weight"].abs().max()) > 1e-3


@pytest.mark.parametrize("shape", [POST, PRE], ids=["post", "pre"])
def test_the_weights_of_a_translator_that_was_trained_alone(shape: Seq2SeqShape) -> None:
    model, plain = fused(shape, 0.0).eval(), Seq2SeqTransformer(dry(shape)).double().eval()
    randomise(plain, seed=9)
    before = {n: p.clone() for n, p in model.named_parameters() if ".beside." in n or n.startswith("bert.")}
    model.take_over(plain)
    assert all(torch.equal(p, model.get_parameter(n)) for n, p in before.items())
    source, target = source_of("fused", SOURCES), batch_of(TARGETS)
    assert torch.equal(plain_twin(model, 1.0)(source.batch, target), plain(source.batch, target))
    for change in ({"layers": 3}, {"layers": 1}, {"inner": 21}):
        with pytest.raises(ValueError, match=r"decoder\.blocks\..* is not the same in both"):
            model.take_over(Seq2SeqTransformer(replace(shape, target=replace(shape.target, **change))))


def test_a_body_of_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="another shape"):
        BertFusedSeq2Seq(BertFusedShape(POST, OTHER), Stack(replace(OTHER, width=12)))


def test_the_states_beside_count_in_every_layer() -> None:
    model = make("fused")
    source, target = source_of("fused", SOURCES), batch_of(TARGETS)
    expected = model(source, target)

    def without(module: nn.Module) -> Tensor:
        saved = module.output.weight.detach().clone()
        module.output.weight.data.zero_()
        scores = model(source, target)
        module.output.weight.data.copy_(saved)
        return scores

    beside = [block.beside for block in model.translator.encoder.blocks]
    beside += [block.memory_attention.beside for block in model.translator.decoder.blocks]
    assert len(beside) == 4
    for module in beside:
        assert (without(module) - expected).abs().max() > 1e-3
