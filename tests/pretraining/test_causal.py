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
from corpus_samples import corpus_recipe, documents, write_text
from heedful.checkpoints.directory import write_model
from heedful.errors import RequestError
from heedful.objectives.causal import Causal
from heedful.objectives.texts import Parts
from heedful.storage.shared import SharedStore
from heedful.training.assembly import Assembly, assemble, read_objective
from heedful.training.run import execute
from killing import survive
from training_samples import tiny_recipe, write_data, write_tiny

SEED = 7


def recipe_in(folder: Path, **training: Any):
    corpus = folder / "corpus.txt"
    if not corpus.exists():
        write_text(corpus)
    model = write_tiny(folder / "gpt2", "gpt2")
    return corpus_recipe(
        corpus, {"kind": "causal"}, model={"name": str(model), "shape": None}, tokenizer=None, **training
    )


def assembled(folder: Path, **training: Any) -> Assembly:
    recipe, store = recipe_in(folder, **training), SharedStore(folder / "shared")
    parts = assemble(recipe, SEED, read_objective(recipe, SEED, store), store)
    parts.tuning.train(False)
    return parts


def causal_of(parts: Assembly) -> Causal:
    assert isinstance(parts.objective, Causal)
    return parts.objective


def test_rows_are_the_documents(tmp_path):
    parts = assembled(tmp_path, max_length=20)
    objective, tokenizer = causal_of(parts), parts.checkpoint.tokenizer
    assert tokenizer is not None
    text: dict[int, str] = {}
    for name, rows in objective.rows.items():
        for number in range(len(rows)):
            row, document = objective.row(name, number, 0), int(rows.documents_n[number])
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
    objective = causal_of(parts)
    step = objective.step(0)
    rows = [objective.row("train", n, 0) for n in step.rows]
    total = torch.zeros(())
    for row in rows:
        ids = torch.tensor(row.ids_t)[None]
        total = total + peer(ids, labels=ids).loss * (ids.shape[1] - 1)
    expected = total / sum(len(row.ids_t) - 1 for row in rows)
    (one,) = objective.losses(parts.tuning.reader, step, objective.counts(step), Parts(1), lambda part: None)
    assert one.loss.item() == pytest.approx(expected.item(), abs=1e-5)
    expected.backward()
    one.loss.backward()
    ours = parts.tuning.transformer.body.embeddings.token.weight.grad
    assert (ours - peer.transformer.wte.weight.grad).abs().max() < 1e-5


def test_bits_per_byte_are_those_of_whole_documents(tmp_path):
    """However documents are cut into rows, their bytes add up; what is not begun anew costs what it costs."""
    parts = assembled(tmp_path, max_length=20)
    objective = causal_of(parts)
    judgement = objective.judge(parts.tuning.reader, "dev")
    held = sorted(set(objective.rows["dev"].documents_n.tolist()))
    plain = [" ".join(sentences) for sentences in documents()]
    assert judgement.columns["bytes"].sum() == pytest.approx(sum(len(plain[i]) for i in held))
    nats = judgement.columns["nll"].sum()
    expected = nats / math.log(2) / sum(len(plain[i]) for i in held)
    assert judgement.metrics["bits_per_byte"] == pytest.approx(expected)
    assert judgement.metrics["token_loss"] == pytest.approx(nats / judgement.columns["words"].sum())


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
        assemble(hidden, SEED, read_objective(hidden, SEED, store), store)
    data = write_data(tmp_path / "data")
    tuned = tiny_recipe(model, data, training={"epochs": 1})
    execute(tuned, SEED, tmp_path / "tuned", command="test", quiet=True)
    heads = heedful.load(tmp_path / "tuned/model").checkpoint.transformer.head_shapes
    assert heads["classify"].reads == "last"


def test_a_model_that_sees_everything_is_refused(tmp_path):
    corpus = write_text(tmp_path / "corpus.txt")
    recipe, store = corpus_recipe(corpus, {"kind": "causal"}), SharedStore(tmp_path / "shared")
    with pytest.raises(RequestError, match=r"needs a model whose tokens see only what came before|language-model"):
        assemble(recipe, SEED, read_objective(recipe, SEED, store), store)
