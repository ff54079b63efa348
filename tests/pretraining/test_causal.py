"""The objective "causal": its rows, its loss against the peer, its bits per byte, and its runs."""

import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import GPT2LMHeadModel

import heedful
from heedful.checkpoints.directory import write_model
from heedful.errors import RequestError
from heedful.inference.generation import TextGenerator
from heedful.models.shape import NAMED_SHAPES
from heedful.objectives.causal import CausalInputs
from heedful.storage.shared import SharedStore
from heedful.training.assembly import Assembly, assemble, read_source
from heedful.training.run import execute
from tests.support.corpus_samples import alone, assert_packed_is_unpacked, corpus_recipe, documents, row_of, write_text
from tests.support.killing import survive
from tests.support.training_samples import tiny_recipe, write_data, write_tiny

SEED = 7


def recipe_in(folder: Path, objective: dict[str, Any] | None = None, **training: Any):
    corpus = folder / "corpus.txt"
    if not corpus.exists():
        write_text(corpus)
    model = write_tiny(folder / "gpt2", "gpt2")
    there = {"name": str(model), "shape": None}
    return corpus_recipe(corpus, {"kind": "causal", **(objective or {})}, model=there, tokenizer=None, **training)


def assembled(folder: Path, objective: dict[str, Any] | None = None, **training: Any) -> Assembly:
    recipe, store = recipe_in(folder, objective, **training), SharedStore(folder / "shared")
    parts = assemble(read_source(recipe, SEED, store), store)
    parts.tuning.train(False)
    return parts


def causal_of(parts: Assembly) -> CausalInputs:
    assert isinstance(parts.inputs, CausalInputs)
    return parts.inputs


def test_rows_are_the_documents(tmp_path):
    parts = assembled(tmp_path, max_length=20)
    inputs, tokenizer = causal_of(parts), parts.checkpoint.tokenizer
    assert tokenizer is not None
    text: dict[int, str] = {}
    for name, rows in inputs.rows.items():
        for number in range(len(rows)):
            row, document = row_of(inputs, name, number, 0), int(rows.documents_n[number])
            assert row.ids_t[0] == tokenizer.eos_id
            assert np.array_equal(row.words_n, row.ids_t[1:])
            assert np.array_equal(row.places_n, np.arange(len(row.ids_t) - 1))
            last = number + 1 == len(rows) or rows.documents_n[number + 1] != document
            assert (row.ids_t[-1] == tokenizer.eos_id) == last
            text[document] = text.get(document, "") + tokenizer.decode(row.ids_t)
    assert [text[i] for i in sorted(text)] == [" ".join(sentences) for sentences in documents()]


def test_the_loss_is_the_peers(tmp_path):
    """GPT2LMHeadModel on each row alone: the mean over all tokens of all rows."""
    parts = assembled(tmp_path)
    write_model(tmp_path / "model", parts.checkpoint)
    peer = GPT2LMHeadModel.from_pretrained(tmp_path / "model").eval()
    objective, step = parts.objective, parts.sampler.step(0, 0.0)
    rows = [row_of(causal_of(parts), "train", n, 0) for n in step.rows]
    total = torch.zeros(())
    for row in rows:
        ids = torch.tensor(row.ids_t)[None]
        total = total + peer(ids, labels=ids).loss * (ids.shape[1] - 1)
    expected = total / sum(len(row.ids_t) - 1 for row in rows)
    (one,) = objective.losses(parts.tuning.reader, step, objective.counts(step), alone())
    assert one.loss.item() == pytest.approx(expected.item(), abs=1e-5)
    expected.backward()
    one.loss.backward()
    ours = parts.tuning.transformer.body.embeddings.token.weight.grad
    assert (ours - peer.transformer.wte.weight.grad).abs().max() < 1e-5


def test_packed_is_unpacked(tmp_path):
    """The loss and every gradient, though short rows share one of the batch, and in parts."""
    with_padding = assembled(tmp_path, max_length=40, batch_tokens=400)
    packed = assembled(tmp_path, {"pack": True}, max_length=40, batch_tokens=400)
    assert_packed_is_unpacked(with_padding, packed)


def test_bits_per_byte_are_those_of_whole_documents(tmp_path):
    """However documents are cut into rows, their bytes add up; what is not begun anew costs what it costs."""
    parts = assembled(tmp_path, max_length=20)
    inputs = causal_of(parts)
    evaluation = parts.evaluator.evaluate(parts.tuning.reader, inputs, "dev")
    held = sorted(set(inputs.rows["dev"].documents_n.tolist()))
    plain = [" ".join(sentences) for sentences in documents()]
    assert evaluation.columns["bytes"].sum() == pytest.approx(sum(len(plain[i]) for i in held))
    nats = evaluation.columns["nll"].sum()
    expected = nats / math.log(2) / sum(len(plain[i]) for i in held)
    assert evaluation.metrics["bits_per_byte"] == pytest.approx(expected)
    assert evaluation.metrics["token_loss"] == pytest.approx(nats / evaluation.columns["words"].sum())


def test_killed_and_resumed_to_the_bit(tmp_path):
    recipe = recipe_in(tmp_path)
    execute(recipe, SEED, tmp_path / "whole", command="test", quiet=True)
    survive(2, recipe, tmp_path / "killed", tmp_path / "whole", random.Random(1))


def test_an_encoder_that_reads_left_to_right_classifies_from_its_last_token(tmp_path):
    """BERT's sizes with a causal mask, as in the ablation of its paper; what follows the words has seen them all."""
    corpus = write_text(tmp_path / "corpus.txt")
    recipe = corpus_recipe(corpus, {"kind": "causal"}, model={"causal": True, "layers": 1}, steps=2)
    execute(recipe, SEED, tmp_path / "run", command="test", quiet=True)
    model = tmp_path / "run/model"
    store, here = SharedStore(tmp_path / "shared"), {"name": str(model), "shape": None}
    hidden = corpus_recipe(corpus, {"kind": "mask", "next_sentence": False}, model=here, tokenizer=None)
    with pytest.raises(RequestError, match="sees the whole text"):
        assemble(read_source(hidden, SEED, store), store)
    data = write_data(tmp_path / "data")
    tuned = tiny_recipe(model, data, training={"epochs": 1})
    execute(tuned, SEED, tmp_path / "tuned", command="test", quiet=True)
    heads = heedful.load(tmp_path / "tuned/model").checkpoint.transformer.head_shapes
    assert heads["classify"].reads == "last"


def test_a_model_that_sees_everything_is_refused(tmp_path):
    corpus = write_text(tmp_path / "corpus.txt")
    recipe, store = corpus_recipe(corpus, {"kind": "causal"}), SharedStore(tmp_path / "shared")
    with pytest.raises(RequestError, match=r"head is not possible on bert; set model\.causal = true for a new model"):
        assemble(read_source(recipe, SEED, store), store)
    there = {"name": str(write_tiny(tmp_path / "bert")), "shape": None}
    recipe = corpus_recipe(corpus, {"kind": "causal"}, model=there, tokenizer=None)
    with pytest.raises(RequestError, match=r"set model\.causal = true for a new model, or choose a GPT"):
        assemble(read_source(recipe, SEED, store), store)


@pytest.mark.parametrize("kind", ["causal", "span"])
def test_every_named_shape_can_read_left_to_right(tmp_path, kind):
    """What the refusal advises is possible, whatever shape was chosen."""
    corpus, store = write_text(tmp_path / "corpus.txt"), SharedStore(tmp_path / "shared")
    for shape in NAMED_SHAPES:
        small = {"shape": shape, "causal": True, "layers": 1, "width": 16, "heads": 2, "positions": 64}
        tokenizer = {"kind": "characters", "size": None}
        recipe = corpus_recipe(corpus, {"kind": kind}, model=small, tokenizer=tokenizer)
        assemble(read_source(recipe, SEED, store), store)


def test_a_trained_model_stops_where_its_rows_ended(tmp_path):
    """[SEP] with WordPiece, which has no token that ends a text by name; <|endoftext|> with GPT-2's."""
    corpus = write_text(tmp_path / "corpus.txt", [["The river wakes."]] * 30)
    options = {"model": {"causal": True, "layers": 1}, "tokenizer": {"size": 100}, "steps": 150, "lr": 1e-2}
    recipe = corpus_recipe(corpus, {"kind": "causal"}, mark_steps=150, checkpoint_seconds=60, **options)
    execute(recipe, SEED, tmp_path / "run", command="test", quiet=True)
    model = heedful.load(tmp_path / "run/model")
    written = model.generate(["The river"], temperature=0.0, max_new_tokens=40)
    assert (written.reasons, [text.strip() for text in written.texts]) == (["stop"], ["wakes."])
    assert written.tokens[0][-1] == model.tokenizer.sep_id
    gpt = heedful.load(write_tiny(tmp_path / "gpt2", "gpt2"))
    assert TextGenerator(gpt).limits(5).stop == {gpt.tokenizer.eos_id}
    # as docs/generating says
    assert TextGenerator(gpt).encode(["<|endoftext|>The", "The"])[0].ids[0] == gpt.tokenizer.bos_id


def test_word_frequencies_are_a_baseline_that_knows_how_rows_end(tmp_path):
    """Its loss is that of the shares of the tokens; the token that ends a row is as frequent as rows end with it."""
    parts = assembled(tmp_path, max_length=20)
    inputs = causal_of(parts)
    evaluation = parts.evaluator.evaluate(parts.tuning.reader, inputs, "dev")
    baseline = parts.evaluator.conclude({"dev": evaluation})["baselines"]["word-frequencies"]
    rows = [row_of(inputs, "train", n, 0) for n in range(len(inputs.rows["train"]))]
    share_v = np.bincount(np.concatenate([row.words_n for row in rows]), minlength=len(inputs.log_frequency_v))
    assert np.exp(inputs.log_frequency_v).sum() == pytest.approx(1)
    assert np.exp(inputs.log_frequency_v[inputs.end]) == pytest.approx(share_v[inputs.end] / share_v.sum(), rel=0.2)
    dev = [row_of(inputs, "dev", n, "judged") for n in inputs.judged("dev")]
    words = np.concatenate([row.words_n for row in dev])
    assert baseline["dev"]["token_loss"] == pytest.approx(-inputs.log_frequency_v[words].mean())
    assert baseline["dev"]["token_loss"] == pytest.approx(evaluation.metrics["unigram_loss"])
    bits = -inputs.log_frequency_v[words].sum() / math.log(2) / evaluation.columns["bytes"].sum()
    assert baseline["dev"]["bits_per_byte"] == pytest.approx(bits)
    commonest = inputs.log_frequency_v.argmax()
    assert baseline["dev"]["token_accuracy"] == pytest.approx((words == commonest).mean())
