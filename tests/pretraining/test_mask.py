"""The objective "mask": its rows, its losses against the peer, and its runs."""

import copy
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForMaskedLM, BertForPreTraining

import heedful
from heedful.data.labelled import LabelledTable
from heedful.data.question_sets import QuestionTable
from heedful.data.running_text import CorpusTable
from heedful.data.task_sets import TasksTable
from heedful.errors import RequestError
from heedful.inputs.cooccurrence import neighbour_table
from heedful.inputs.word_rows import WordStep
from heedful.objectives.mask import MaskedRow, MaskInputs, both_scores
from heedful.storage.shared import SharedStore
from heedful.training.assembly import Assembly, assemble, read_source
from heedful.training.changed import changed_data
from heedful.training.run import execute
from tests.support.corpus_samples import alone, corpus_recipe, documents, write_text
from tests.support.killing import survive
from tests.support.training_samples import write_tiny

SEED = 7
RESUMED: list[dict[str, Any]] = [
    {},
    {"next_sentence": False, "whole_words": True, "pack": True},
    {"subsample": 1e-2, "neighbours": 3},
]


def assembled(folder: Path, objective: dict[str, Any] | None = None, **training: Any) -> Assembly:
    corpus = folder / "corpus.txt"
    if not corpus.exists():
        write_text(corpus)
    recipe = corpus_recipe(corpus, {"kind": "mask", **(objective or {})}, **training)
    store = SharedStore(folder / "shared")
    parts = assemble(read_source(recipe, SEED, store), store)
    parts.tuning.train(False)
    return parts


def mask_of(parts: Assembly) -> MaskInputs:
    assert isinstance(parts.inputs, MaskInputs)
    return parts.inputs


def masked_row(inputs: MaskInputs, name: str, number: int, epoch: int | str) -> MaskedRow:
    return inputs.row(inputs.rows[name], name, number, epoch)


def gradients(parts: Assembly, steps: int = 1, accumulate: int = 1) -> tuple[dict[str, float], dict[str, torch.Tensor]]:
    objective, terms = parts.objective, dict[str, float]()
    parts.tuning.transformer.zero_grad()
    for number in range(steps):
        step = parts.sampler.step(number, 0.0)
        for one in objective.losses(parts.tuning.reader, step, objective.counts(step), alone(accumulate)):
            one.loss.backward()
            for name, value in one.terms.items():
                terms[name] = terms.get(name, 0.0) + float(value)
    found = {n: p.grad.clone() for n, p in parts.tuning.transformer.named_parameters() if p.grad is not None}
    return terms, found


def test_rows_are_the_documents(tmp_path):
    """What is hidden put back, the rows of a document follow each other to the whole of it."""
    parts = assembled(tmp_path, {"next_sentence": False}, max_length=16)
    inputs, tokenizer = mask_of(parts), parts.checkpoint.tokenizer
    assert tokenizer is not None
    plain = [" ".join(sentences) for sentences in documents()]
    seen: dict[int, list[int]] = {}
    for name, rows in inputs.rows.items():
        for number in range(len(rows)):
            row = masked_row(inputs, name, number, 3)
            ids = row.ids_t.copy()
            ids[row.places_n] = row.words_n
            assert len(ids) <= 16
            assert (ids[0], ids[-1]) == (tokenizer.cls_id, tokenizer.sep_id)
            assert not {0, len(ids) - 1} & set(row.places_n)
            seen.setdefault(int(rows.documents_n[number]), []).extend(ids[1:-1])
    assert {i: seen[i] for i in sorted(seen)} == dict(enumerate(tokenizer.plain(plain)))
    held = set(inputs.rows["dev"].documents_n)
    assert held
    assert not held & set(inputs.rows["train"].documents_n)


def test_pairs_are_what_they_say(tmp_path):
    """A second text that follows does so in its document, at the end of a sentence; one that does not begins with a
    sentence of another document. Half are of each kind, and their lengths do not tell which."""
    write_text(tmp_path / "corpus.txt", documents(60, 12))
    parts = assembled(tmp_path, max_length=48)
    inputs, tokenizer = mask_of(parts), parts.checkpoint.tokenizer
    assert tokenizer is not None
    rows = inputs.rows["train"]
    kinds, lengths = [], {0: [0], 1: [0]}
    for number in range(len(rows)):
        for epoch in range(6):
            row = masked_row(inputs, "train", number, epoch)
            ids = row.ids_t.copy()
            ids[row.places_n] = row.words_n
            (middle, end) = np.flatnonzero(ids == tokenizer.sep_id)
            assert end == len(ids) - 1
            assert row.segments_t is not None
            assert row.segments_t.tolist() == [0] * (middle + 1) + [1] * (end - middle)
            assert middle not in row.places_n
            start = int(rows.starts_n[number])
            first, second = ids[1:middle], ids[middle + 1 : end]
            assert np.array_equal(first, rows.corpus.ids(start, start + len(first)))
            if row.foreign == 0:
                after = start + len(first)
                assert np.array_equal(second, rows.corpus.ids(after, after + len(second)))
                edges = rows.corpus.sentence_starts(int(rows.documents_n[number]))
                inner = set(edges) & set(range(start + 1, int(rows.ends_n[number])))
                assert after in inner or not inner
            else:
                assert any(
                    np.array_equal(second, rows.corpus.ids(int(s), int(s) + len(second)))
                    for other in set(rows.documents_n.tolist()) - {int(rows.documents_n[number])}
                    for s in rows.corpus.sentence_starts(other)[:-1]
                    if s + len(second) <= rows.corpus.document(other)[1]
                )
            kinds.append(row.foreign)
            lengths[row.foreign].append(len(second))
    n = len(kinds)
    assert abs(sum(kinds) - n / 2) < 4 * (n / 4) ** 0.5
    assert np.mean(lengths[0]) == pytest.approx(np.mean(lengths[1]), rel=0.15)


@pytest.mark.parametrize("sizes", [(1, 30), (30, 30), (1, 1)])
def test_another_document_is_found_however_few_there_are(tmp_path, sizes):
    """Of two documents it is the other one, whatever share of the rows it has."""
    made = [[f"word{d} again number {i} here." for i in range(n)] for d, n in enumerate(sizes)]
    write_text(tmp_path / "corpus.txt", made)
    (tmp_path / "dev.txt").write_text((tmp_path / "corpus.txt").read_text())
    inputs = mask_of(assembled(tmp_path, max_length=16, data={"dev": str(tmp_path / "dev.txt"), "dev_share": None}))
    rows = inputs.rows["train"]
    for number in range(len(rows)):
        for draw in np.linspace(0, 0.999, 7):
            start, end = rows.corpus.document(1 - int(rows.documents_n[number]))
            ids = inputs._foreign(rows, number, 6, np.array([draw, draw]))
            inside = rows.corpus.ids(start, end)
            assert any(np.array_equal(inside[i : i + len(ids)], ids) for i in range(len(inside)))


def test_special_tokens_in_a_text_are_letters_and_unknown_words_are_left_alone(tmp_path):
    made = documents(30)
    made[3] = ["He wrote [MASK] and [SEP] and [CLS].", "Then 漢 came."]
    write_text(tmp_path / "corpus.txt", made)
    parts = assembled(tmp_path, {"share": 0.9}, data={"dev_share": 0.1})
    inputs, tokenizer = mask_of(parts), parts.checkpoint.tokenizer
    assert tokenizer is not None
    corpus = inputs.rows["train"].corpus
    assert not {tokenizer.mask_id, tokenizer.sep_id, tokenizer.cls_id} & set(corpus.ids(*corpus.document(3)).tolist())
    for number in range(len(inputs.rows["train"])):
        assert not set(masked_row(inputs, "train", number, 0).words_n.tolist()) & tokenizer.special_ids


@pytest.mark.parametrize("options", [{}, {"pack": True}, {"whole_words": True}])
def test_a_step_or_part_without_a_word_to_ask_for_adds_nothing(tmp_path, options):
    """Two of three documents are unknown words alone: some parts of a step, and some whole steps, have no words."""
    strange = [["漢 " * (3 + i % 4)] for i in range(40)]
    write_text(tmp_path / "corpus.txt", [*documents(20, 2), *strange])
    (tmp_path / "dev.txt").write_text("漢 漢\n\n漢 漢 漢\n")
    dev = {"dev": str(tmp_path / "dev.txt"), "dev_share": None}
    letters = "abcdefghijklmnopqrstuvwxyz"
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{c}" for c in letters), "the", "."]
    (tmp_path / "tokens").mkdir()
    (tmp_path / "tokens/vocab.txt").write_text("\n".join(vocabulary))
    given = {"name": str(tmp_path / "tokens"), "kind": None, "size": None}
    objective = {"next_sentence": False, **options}
    parts = assembled(tmp_path, objective, data=dev, tokenizer=given, batch_size=2)
    mask, reader = parts.objective, parts.tuning.reader
    asked = []
    for number in range(30):
        step = parts.sampler.step(number, 0.0)
        assert isinstance(step, WordStep)
        words = [len(row.places_n) for row in step.made]
        asked.append(sum(words))
        whole, halves = (list(mask.losses(reader, step, mask.counts(step), alone(count))) for count in (1, 2))
        assert [one.loss.item() == 0 for one in halves] == [count == 0 for count in words]
        assert sum(one.loss.item() for one in halves) == pytest.approx(whole[0].loss.item(), abs=1e-5)
        if not sum(words):
            parts.tuning.transformer.zero_grad()
            whole[0].loss.backward()
            assert all(not p.grad.any() for p in parts.tuning.transformer.parameters() if p.grad is not None)
    assert 0 in asked
    assert max(asked) > 0
    judged = parts.evaluator.evaluate(reader, parts.inputs, "dev")
    assert judged.metrics["masked_word_loss"] is None  # nothing was asked for
    assert judged.columns["words"].tolist() == [0, 0]


def test_losses_and_gradients_are_the_peers(tmp_path):
    """BertForPreTraining on the same rows, given as it wants them: labels of -100 but for the hidden words."""
    parts = assembled(tmp_path)
    heedful_model = parts.checkpoint
    from heedful.checkpoints.directory import stored_tensors, write_model

    write_model(tmp_path / "model", heedful_model)
    peer = BertForPreTraining.from_pretrained(tmp_path / "model").eval()
    inputs = mask_of(parts)
    step = parts.sampler.step(0, 0.0)
    rows = [masked_row(inputs, "train", n, 0) for n in step.rows]
    t = max(len(row.ids_t) for row in rows)
    ids, segments, real, labels = (torch.zeros(len(rows), t, dtype=torch.long) for _ in range(4))
    labels -= 100
    for i, row in enumerate(rows):
        n = len(row.ids_t)
        ids[i, :n], segments[i, :n], real[i, :n] = torch.tensor(row.ids_t), torch.tensor(row.segments_t), 1
        labels[i, row.places_n] = torch.tensor(row.words_n)
    follows = torch.tensor([row.foreign for row in rows])
    out = peer(ids, real, segments, labels=labels, next_sentence_label=follows)
    out.loss.backward()
    terms, found = gradients(parts)
    assert sum(terms.values()) == pytest.approx(out.loss.item(), abs=1e-5)
    with torch.no_grad():
        words, pairs = both_scores(parts.tuning.reader, inputs.layout, rows)
    assert (words - out.prediction_logits[labels != -100]).abs().max() < 1e-5
    assert (pairs - out.seq_relationship_logits).abs().max() < 1e-5
    theirs = {n: p.grad for n, p in peer.named_parameters() if p.grad is not None}
    ours = stored_tensors(heedful_model, found)["model.safetensors"]
    assert set(theirs) <= set(ours)
    for name, gradient in theirs.items():
        assert (ours[name] - gradient).abs().max() < 1e-5, name
    assert max(g.abs().max() for g in theirs.values()) > 1e-3  # or the comparison says nothing


@pytest.mark.parametrize("next_sentence", [True, False])
def test_packed_is_unpacked_and_parts_add_up(tmp_path, next_sentence):
    objective = {"next_sentence": next_sentence}
    with_padding = assembled(tmp_path, objective, max_length=40, batch_tokens=400)
    packed = assembled(tmp_path, {**objective, "pack": True}, max_length=40, batch_tokens=400)
    for parts in (with_padding, packed):
        parts.tuning.transformer.double()
    expected_terms, expected = gradients(with_padding, steps=2)
    inputs = mask_of(packed)
    short = [masked_row(inputs, "train", n, 0) for n in range(len(inputs.rows["train"]))]
    batch = inputs.layout.collate(short, packed.device).batch
    assert len(batch.ids_bt) < len(short)  # some share a row
    for parts, accumulate in ((packed, 1), (packed, 3), (with_padding, 4)):
        terms, found = gradients(parts, steps=2, accumulate=accumulate)
        assert terms == pytest.approx(expected_terms, abs=1e-10)
        for name, gradient in expected.items():
            assert (found[name] - gradient).abs().max() < 1e-10, name


def test_frequent_words_are_asked_for_less_often_but_judged_evenly(tmp_path):
    """With weights of √(0.01 / frequency), as the counts of the text have it, over many epochs."""
    plain = mask_of(assembled(tmp_path, {"next_sentence": False}))
    rare = mask_of(assembled(tmp_path, {"next_sentence": False, "subsample": 0.01}))

    def asked(inputs: MaskInputs, epochs: range) -> np.ndarray:
        rows = [masked_row(inputs, "train", n, e) for e in epochs for n in range(len(inputs.rows["train"]))]
        return np.bincount(np.concatenate([row.words_n for row in rows]), minlength=len(inputs.log_frequency_v))

    evenly, weighted = asked(plain, range(60)), asked(rare, range(60))
    frequent = plain.log_frequency_v > np.log(0.05)
    seldom = (plain.log_frequency_v < np.log(0.01)) & (evenly > 0)
    ratio = (weighted[frequent].sum() / weighted[seldom].sum()) / (evenly[frequent].sum() / evenly[seldom].sum())
    assert frequent.sum() >= 2
    assert 0.2 < ratio < 0.6
    for number in range(len(plain.rows["dev"])):
        assert np.array_equal(*(inputs.judged_row("dev", number).ids_t for inputs in (plain, rare)))


def test_only_masked_rows_are_computed(tmp_path, monkeypatch):
    """The scores of the vocabulary are computed for hidden words alone, and the last block where it is read."""
    parts = assembled(tmp_path)
    sizes, heads = [], parts.tuning.transformer.heads
    heads["mask"].register_forward_hook(lambda module, inputs, output: sizes.append(output.shape[0]))
    rows = []
    block = parts.tuning.transformer.body.blocks[-1].feed_forward
    block.register_forward_hook(lambda module, inputs, output: rows.append(output.shape[:2]))
    step = parts.sampler.step(0, 0.0)
    counts = parts.objective.counts(step)
    list(parts.objective.losses(parts.tuning.reader, step, counts, alone()))
    assert sizes == [counts["mask"]]
    most = max(len(masked_row(mask_of(parts), "train", n, 0).places_n) for n in step.rows)
    assert rows == [(len(step.rows), most + 1)]


@pytest.mark.parametrize("objective", RESUMED)
def test_killed_and_resumed_to_the_bit(tmp_path, objective):
    recipe = corpus_recipe(write_text(tmp_path / "corpus.txt"), {"kind": "mask", **objective})
    execute(recipe, SEED, tmp_path / "whole", command="test", quiet=True)
    survive(2, recipe, tmp_path / "killed", tmp_path / "whole", random.Random(1))


def test_steps_and_rows_that_grow(tmp_path):
    """A quarter, half and the whole of rows and lengths, each with an order of its own, and exactly resumed."""
    growing = {"batch_warmup": 0.5, "length_warmup": 0.5, "batch_size": 8}
    sampler = assembled(tmp_path, **growing).sampler
    sizes = []
    for number, share in enumerate((0.0, 0.1, 0.3, 0.6, 0.9)):
        step = sampler.step(number, share)
        sizes.append((len(step.rows), max(step.lengths) <= (8, 8, 16, 32, 32)[number]))
    assert sizes == [(2, True), (2, True), (4, True), (8, True), (8, True)]
    recipe = corpus_recipe(tmp_path / "corpus.txt", {"kind": "mask"}, **growing)
    execute(recipe, SEED, tmp_path / "whole", command="test", quiet=True)
    survive(2, recipe, tmp_path / "killed", tmp_path / "whole", random.Random(1))


@pytest.mark.full
@pytest.mark.parametrize("objective", RESUMED)
def test_killed_dozens_of_times(tmp_path, objective):
    recipe = corpus_recipe(write_text(tmp_path / "corpus.txt"), {"kind": "mask", **objective})
    execute(recipe, SEED, tmp_path / "whole", command="test", quiet=True)
    survive(24, recipe, tmp_path / "killed", tmp_path / "whole", random.Random(2))


def test_it_learns_and_says_what_it_has_to_beat(tmp_path):
    corpus = write_text(tmp_path / "corpus.txt", documents(200))
    recipe = corpus_recipe(
        corpus, {"kind": "mask"}, steps=80, mark_steps=40, lr=3e-3, batch_size=32, checkpoint_seconds=60
    )
    execute(recipe, 0, tmp_path / "run", command="test", quiet=True)
    run = heedful.results(tmp_path / "run")
    dev = run.metrics["splits"]["dev"]
    assert dev["masked_word_loss"] < dev["unigram_loss"] - 0.5
    assert 0 < dev["masked_word_accuracy"] < 1
    again = heedful.load(tmp_path / "run/model")
    assert set(again.checkpoint.transformer.heads) == {"mask", "next-sentence"}


def test_the_table_begins_with_what_stands_near_what(tmp_path):
    """Rows of known tokens are those of the table, at the size of random ones; special tokens are drawn as before."""
    drawn, filled = assembled(tmp_path), assembled(tmp_path, {"neighbours": 4})
    before_vd, after_vd = (parts.tuning.transformer.body.embeddings.token.weight for parts in (drawn, filled))
    inputs, tokenizer = mask_of(filled), filled.checkpoint.tokenizer
    assert tokenizer is not None
    expected_vd = torch.from_numpy(neighbour_table(inputs.spans, tokenizer.size, 4, before_vd.shape[1]))
    known_v = expected_vd.any(1)
    assert 20 < known_v.sum() < len(known_v)
    assert torch.allclose(after_vd[known_v], 0.02 * expected_vd[known_v])
    assert torch.equal(after_vd[~known_v], before_vd[~known_v])
    assert not known_v[sorted(tokenizer.special_ids)].any()
    others = {n: p for n, p in filled.tuning.transformer.named_parameters() if p is not after_vd}
    for name, p in drawn.tuning.transformer.named_parameters():
        assert name not in others or torch.equal(p, others[name]), name


def test_the_table_is_that_of_the_documents(tmp_path):
    """Runs that share a store but not what a document is have a table each."""

    def table(separator: str, store: str) -> torch.Tensor:
        data = {"separator": separator}
        recipe = corpus_recipe(corpus, {"kind": "mask", "neighbours": 8, "next_sentence": False}, data=data)
        place = SharedStore(tmp_path / store)
        parts = assemble(read_source(recipe, SEED, place), place)
        return parts.tuning.transformer.body.embeddings.token.weight.detach()

    corpus = write_text(tmp_path / "corpus.txt", within="\n")
    first, second = table("blank-line", "shared"), table("line", "shared")
    assert torch.equal(second, table("line", "own"))
    assert not torch.allclose(first, second, atol=1e-3)


def test_words_without_company_are_refused(tmp_path):
    write_text(tmp_path / "corpus.txt", [["word"]] * 40, between="\n")
    changes = {
        "data": {"separator": "line"},
        "tokenizer": {"size": 300},
        "model": {"shape": "bert-tiny", "width": 4, "heads": 1},
    }
    with pytest.raises(RequestError, match="no two tokens of a document are near each other"):
        assembled(tmp_path, {"neighbours": 2, "next_sentence": False}, **changes)


def test_pretraining_goes_on_with_the_heads_that_are_there(tmp_path):
    parts = assembled(tmp_path)
    from heedful.checkpoints.directory import write_model

    write_model(tmp_path / "model", parts.checkpoint)
    more = assembled(tmp_path, model={"name": str(tmp_path / "model"), "shape": None}, tokenizer=None)
    before = copy.deepcopy(parts.tuning.transformer.state_dict())
    for name, tensor in more.tuning.transformer.state_dict().items():
        assert torch.equal(tensor, before[name]), name


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"data": {"train": "a.csv"}}, "data.train means nothing"),
        ({"data": {"corpus": None}}, "data.corpus is missing"),
        ({"max_length": 1000}, "training.max_length = 1000, but the model reads at most 512"),
        ({"data": {"separator": "file"}}, "needs two documents"),
        ({"data": {"separator": "***"}}, r"no line of it is just '\*\*\*'"),
        ({"data": {"test_share": 0.1}}, "data.test_share means nothing"),
        ({"max_length": 4}, "leaves no room for text beside 3 tokens"),
        ({"batch_tokens": 64, "batch_warmup": 0.1}, "training.batch_warmup goes with training.batch_size"),
        (
            {"model": {"shape": "distilbert-base", "layers": 1, "attention": "relative"}},
            "needs a model with two segments",
        ),
        ({"data": {"corpus": "novel"}}, "did you mean novels"),
        (
            {"tokenizer": {"size": 128}, "objective": {"neighbours": 2}},
            "needs more tokens than the model's width of 128",
        ),
        (
            {"model": {"name": "minilm", "shape": None}, "tokenizer": None, "objective": {"neighbours": 2}},
            "objective.neighbours is for the table of a new model, and minilm brings its own",
        ),
    ],
)
def test_mistakes_are_one_sentence(tmp_path, changes, words):
    with pytest.raises(RequestError, match=words):
        assembled(tmp_path, **changes)


def test_other_families_have_masked_words_alone(tmp_path):
    model = {"name": str(write_tiny(tmp_path / "roberta", "roberta")), "shape": None}
    with pytest.raises(RequestError, match=r"not possible on roberta; set objective\.next_sentence = false"):
        assembled(tmp_path, model=model, tokenizer=None)
    parts = assembled(tmp_path, {"next_sentence": False, "whole_words": True}, model=model, tokenizer=None)
    terms, found = gradients(parts)
    assert set(terms) == {"mask"}
    assert found["heads.mask.bias"].abs().max() > 0


def test_rotary_attention_makes_a_roformer_with_both_heads(tmp_path):
    parts = assembled(tmp_path, model={"shape": "bert-tiny", "layers": 1, "attention": "rotary"})
    assert parts.checkpoint.family == "roformer"
    terms, found = gradients(parts)
    assert len(terms) == 2
    for name in ("heads.mask.bias", "heads.next-sentence.output.weight", "body.pooler.dense.weight"):
        assert found[name].abs().max() > 0
    parts.checkpoint.write(tmp_path / "model")
    peer, info = AutoModelForMaskedLM.from_pretrained(tmp_path / "model", output_loading_info=True)
    assert type(peer).__name__ == "RoFormerForMaskedLM"
    assert not info["missing_keys"]
    assert {name.split(".")[1] for name in info["unexpected_keys"]} == {"pooler"}


def test_one_document_that_is_held_out_is_too_few_for_pairs(tmp_path):
    """What was held out by share is remedied by the share, and a file of one document by what separates them."""
    (tmp_path / "one.txt").write_text("One line alone.\n")
    for data, words in (
        ({"dev_share": 0.05}, r"dev has one; raise data\.dev_share \(0\.05\), name a file with data\.dev, or set it"),
        ({"dev": str(tmp_path / "one.txt")}, r"dev has one; say with data\.separator what separates them, or set it"),
    ):
        with pytest.raises(RequestError, match=words):
            assembled(tmp_path, data=data)


def test_a_corpus_that_changed_is_refused(tmp_path):
    corpus = write_text(tmp_path / "corpus.txt")
    recipe = corpus_recipe(corpus, {"kind": "mask"}, steps=2)
    execute(recipe, SEED, tmp_path / "run", command="test", quiet=True)
    manifest = tmp_path / "run/manifest.json"
    manifest.write_text(manifest.read_text().replace('"state": "done"', '"state": "running"'))
    write_text(corpus, documents(seed=5))
    said = rf"the data have changed since this run began: train \({re.escape(str(corpus))}\); choose another"
    with pytest.raises(RequestError, match=said):
        execute(recipe, SEED, tmp_path / "run", command="test", quiet=True)


@pytest.mark.parametrize(
    ("table", "before", "now", "said"),
    [
        (CorpusTable(corpus=["a.txt", "b.txt"]), {"train": "1 2"}, {"train": "1 3"}, "train (b.txt)"),
        (CorpusTable(corpus=["a.txt", "b.txt"]), {"train": "1"}, {"train": "1 3"}, "train (a.txt, b.txt)"),
        (QuestionTable(corpus="a.txt", train="q.tsv"), {"train": "1", "corpus": "2"}, {"train": "1", "corpus": "3"},
         "corpus (a.txt)"),
        (LabelledTable(train="a.csv", test="t.csv"), {"train": "1", "dev": "2", "test": "3"},
         {"train": "4", "dev": "5", "test": "6"}, "train (a.csv), dev and test (t.csv)"),
        (TasksTable(tasks=[{"train": "x/a.csv"}, {"train": "b.csv"}]), {"train": "1", "train-a": "2", "train-b": "3"},
         {"train": "4", "train-a": "5", "train-b": "3"}, "train-a (x/a.csv)"),
        (LabelledTable(train="a.csv"), {"train": "1"}, {"train": "1"}, ""),
    ],
)  # fmt: skip
def test_what_has_changed_is_named(table, before, now, said):
    assert changed_data(before, now, table) == said
