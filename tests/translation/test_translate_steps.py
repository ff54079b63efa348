"""A step of translation: the loss and its gradients written out, in parts, in batches, with states that are kept."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from heedful.checkpoints.translators.marian import stored_tensors
from heedful.evaluators import translations
from heedful.inference import device
from heedful.inputs import pair_rows
from heedful.models.batch import Batch, pad
from heedful.models.flops import forward_flops
from heedful.models.seq2seq.bert_fused import BertFusedSeq2Seq, BertFusedSource
from heedful.models.seq2seq.flops import bert_fused_flops, decoder_only_flops, recurrent_flops, transformer_flops
from heedful.nn.attention import linear_maps
from heedful.training.optimisers.common import make_optimiser
from tests.support.marian_samples import SOURCES, TARGETS, make_peer, save_peer
from tests.support.training_samples import write_csv
from tests.support.translation_samples import KINDS, assembled, furthest, gradients, translation, without_dropout

CPU = torch.device("cpu")


def one_by_one(parts: Any, smoothing: float) -> tuple[torch.Tensor, torch.Tensor]:
    """The loss of the first step without smoothing and with it, as the papers have it: each pair alone, nothing padded,
    nothing kept."""
    objective, checkpoint = parts.objective, parts.checkpoint
    model, step, rows = checkpoint.model, parts.sampler.step(0, 0.0), parts.inputs.sets["train"]
    plain = smoothed = torch.zeros((), dtype=torch.float64)
    tokens = 0
    for number in step.rows:
        source: Any = Batch(torch.tensor([rows.sources[number]]))
        if isinstance(model, BertFusedSeq2Seq):
            source = BertFusedSource(source, Batch(torch.tensor([rows.bert[number].chunks[0]])))
        target = rows.targets[number]
        p_tv = torch.softmax(model(source, Batch(torch.tensor([[checkpoint.begin_id, *target[:-1]]])))[0], dim=-1)
        for t, token in enumerate(target):
            plain = plain - p_tv[t, token].log()
            wanted_v = torch.full_like(p_tv[t], smoothing / p_tv.shape[1])
            wanted_v[token] += 1 - smoothing
            smoothed = smoothed - (wanted_v * p_tv[t].log()).sum()
            tokens += 1
    assert tokens == sum(objective.counts(step).values())
    return plain / tokens, smoothed / tokens


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_and_its_gradients_written_out(kind: str, tmp_path: Path) -> None:
    model = {**without_dropout(kind), **({"bert_tuned": True} if kind == "bert-fused" else {})}
    recipe = translation(kind, tmp_path, model=model, objective={"smoothing": 0.2})
    parts = assembled(recipe, tmp_path / "store")
    parts.checkpoint.module.double().eval()  # the other body has dropout of its own
    logged, found = gradients(parts)
    parts.checkpoint.module.zero_grad()
    plain, smoothed = one_by_one(parts, 0.2)
    smoothed.backward()  # type: ignore[no-untyped-call]
    expected = {n: p.grad for n, p in parts.checkpoint.module.named_parameters() if p.grad is not None}
    assert logged == pytest.approx(plain.item(), abs=1e-10)
    assert abs(plain.item() - smoothed.item()) > 1e-3  # what is logged is without smoothing
    assert furthest(found, expected) < 1e-10
    assert max(float(g.abs().max()) for g in expected.values()) > 1e-3
    if kind == "bert-fused":
        assert any(name.startswith("bert.") for name in found)


def test_the_loss_and_gradients_of_the_peer(tmp_path: Path) -> None:
    """A Marian model that goes on training: the loss that transformers computes from labels, and its gradients."""
    peer = make_peer()
    directory = save_peer(peer, tmp_path / "marian")
    path = write_csv(tmp_path / "pairs.csv", ("en", "nl"), list(zip(SOURCES, TARGETS, strict=True)))
    recipe = translation(
        "encoder-decoder",
        tmp_path,
        model={"kind": None, "layers": None, "width": None, "heads": None, "name": str(directory)},
        tokenizer=None,
        data={"train": str(path), "dev": str(path), "test": str(path), "source": "en", "target": "nl"},
        objective={"smoothing": 0.0},
        training={"max_length": 40},
    )
    parts = assembled(recipe, tmp_path / "store")
    parts.checkpoint.module.eval()
    logged, found = gradients(parts)
    rows, fill = parts.inputs.sets["train"], parts.checkpoint.source_pad_id
    order = parts.sampler.step(0, 0.0).rows
    source = pad([rows.sources[i] for i in order], None, fill, CPU)
    labels = pad([rows.targets[i] for i in order], None, fill, CPU)
    assert source.real_bt is not None
    assert labels.real_bt is not None
    wanted = labels.ids_bt.masked_fill(~labels.real_bt, -100)
    theirs = peer(input_ids=source.ids_bt, attention_mask=source.real_bt.long(), labels=wanted).loss
    theirs.backward()
    assert logged == pytest.approx(theirs.item(), abs=1e-5)
    named = dict(peer.named_parameters(remove_duplicate=False))
    compared = stored_tensors(parts.checkpoint.model, found)
    assert len(compared) > 20
    for name, gradient in compared.items():
        if name != "final_logits_bias":  # a buffer there
            assert (gradient - named[name].grad).abs().max() <= 1e-5, name


@pytest.mark.parametrize("kind", KINDS)
def test_parts_are_the_whole(kind: str, tmp_path: Path) -> None:
    recipe = translation(kind, tmp_path, model=without_dropout(kind), training={"batch_size": 7})
    parts = assembled(recipe, tmp_path / "store")
    parts.checkpoint.module.double()
    last = parts.sampler.epoch_steps(0) - 1  # fewer rows than the others
    for number in (0, last):
        whole = gradients(parts, number=number)
        for accumulate in (2, 3, 7):
            cut = gradients(parts, accumulate, number)
            assert cut[0] == pytest.approx(whole[0], abs=1e-10)
            assert furthest(cut[1], whole[1]) < 1e-10


@pytest.mark.parametrize("kind", KINDS)
def test_batches_do_not_change_the_answer(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = assembled(translation(kind, tmp_path), tmp_path / "store")
    parts.checkpoint.module.double()
    parts.tuning.train(False)
    together = parts.evaluator.evaluate(parts.tuning.reader, parts.inputs, "dev", final=True)
    monkeypatch.setattr(translations, "_TOKENS", 1)
    alone = parts.evaluator.evaluate(parts.tuning.reader, parts.inputs, "dev", final=True)
    assert together.columns.keys() == alone.columns.keys()
    for name, column in together.columns.items():
        assert np.abs(column - alone.columns[name]).max() < 1e-10, name
    for one, other in zip(together.predictions(), alone.predictions(), strict=True):
        assert one[:3] == other[:3]
        assert float(one[3]) == pytest.approx(float(other[3]), abs=1e-5)


def test_states_that_are_kept_are_those_that_are_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = translation("bert-fused", tmp_path, model=without_dropout("bert-fused"))
    kept = assembled(recipe, tmp_path / "kept")
    first = gradients(kept)
    assert kept.inputs.batcher.states is not None
    monkeypatch.setattr(pair_rows, "MOST_KEPT", 0)
    computed = assembled(recipe, tmp_path / "computed")
    second = gradients(computed)
    assert computed.inputs.batcher.states is None
    assert first[0] == pytest.approx(second[0], abs=1e-5)
    assert furthest(first[1], second[1]) < 1e-5
    assert not any(name.startswith("bert.") for name in first[1])  # it does not move
    monkeypatch.setattr(BertFusedSeq2Seq, "bert_states", None)  # who comes later reads what is there
    monkeypatch.setattr(pair_rows, "MOST_KEPT", 2**30)
    assert furthest(gradients(assembled(recipe, tmp_path / "kept"))[1], first[1]) == 0


def test_operations_are_counted(tmp_path: Path) -> None:
    counts = {
        "encoder-decoder": transformer_flops, "recurrent": recurrent_flops, "decoder-only": decoder_only_flops,
        "bert-fused": bert_fused_flops,
    }  # fmt: skip
    for kind in KINDS:
        parts = assembled(translation(kind, tmp_path), tmp_path / "store")
        inputs, shape = parts.inputs, parts.checkpoint.model.shape
        step, rows = parts.sampler.step(0, 0.0), inputs.sets["train"]
        lengths = [[len(side[n]) for n in step.rows] for side in (rows.sources, rows.targets)]
        assert list(step.lengths) == [sum(both) for both in zip(*lengths, strict=True)]
        if kind == "bert-fused":
            lengths.append([rows.bert[n].tokens for n in step.rows])
        if kind == "bert-fused":
            assert step.forward_flops(shape) == bert_fused_flops(shape, *lengths, kept=True)
            once, seconds = inputs.spent_once()
            assert once == forward_flops(shape.bert, [text.tokens for text in rows.bert])
            again = assembled(translation(kind, tmp_path), tmp_path / "store").inputs
            assert again.spent_once() == (once, seconds)  # the same whoever computed them
            inputs.batcher.states = None
        assert step.forward_flops(shape) == counts[kind](shape, *lengths)  # type: ignore[operator]
        if kind != "bert-fused":
            assert inputs.spent_once() == (0, 0.0)


@pytest.mark.parametrize("kind", ["encoder-decoder", "decoder-only", "bert-fused"])
def test_muon_moves_the_matrices_of_the_blocks(kind: str, tmp_path: Path) -> None:
    recipe = translation(kind, tmp_path, training={"optimiser": "muon"})
    parts = assembled(recipe, tmp_path / "store")
    parameters, maps = parts.tuning.trainable(), linear_maps(parts.checkpoint.module)
    made = make_optimiser(parameters, recipe.training, parts.tuning.lr_scale, maps)
    moved = {id(p) for group in made.param_groups if group["scale"] > 1 for p in group["params"]}
    names = {name for name, p in parameters.items() if id(p) in moved}
    assert names == {name for name in parameters if ".blocks." in name and parameters[name].ndim == 2}
    assert any("memory_attention" in name for name in names) == (kind != "decoder-only")


def test_training_in_bfloat16_is_judged_in_full_precision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "multiplies_bfloat16", lambda: True)  # any CPU will do
    keys = {"precision": "bfloat16"}
    parts = assembled(translation("recurrent", tmp_path, training=keys), tmp_path / "store")
    full = assembled(translation("recurrent", tmp_path), tmp_path / "store")
    parts.tuning.train(False)
    full.tuning.train(False)
    loss, exact = gradients(parts)[0], gradients(full)[0]
    assert 0 < abs(loss - exact) < 0.05
    ours, theirs = (p.evaluator.evaluate(p.tuning.reader, p.inputs, "dev").metrics for p in (parts, full))
    assert ours == theirs


def test_batches_by_tokens_count_both_sides(tmp_path: Path) -> None:
    parts = assembled(
        translation("recurrent", tmp_path, training={"batch_tokens": 40, "batch_size": None}), tmp_path / "store"
    )
    inputs, seen = parts.inputs, []
    for number in range(parts.sampler.epoch_steps(0)):
        step = parts.sampler.step(number, 0.0)
        for lengths in (inputs.source_lengths, inputs.target_lengths):
            assert len(step.rows) * max(lengths[n] for n in step.rows) <= 40
        seen += step.rows
    assert sorted(seen) == list(range(30))


def test_perplexity_is_that_of_the_loss(tmp_path: Path) -> None:
    parts = assembled(translation("encoder-decoder", tmp_path), tmp_path / "store")
    parts.tuning.train(False)
    judged = parts.evaluator.evaluate(parts.tuning.reader, parts.inputs, "dev")
    assert judged.metrics["perplexity"] == pytest.approx(math.exp(judged.metrics["loss"]))
    assert judged.columns["tokens"].sum() == sum(map(len, parts.inputs.sets["dev"].targets))
