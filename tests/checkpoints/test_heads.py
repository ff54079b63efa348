"""A model carries any number of heads: each is saved where it belongs and comes back to the bit, with its labels."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file

import heedful
from heedful.checkpoints.directory import Checkpoint, read_model, write_model
from heedful.checkpoints.families import FAMILIES, family_of
from heedful.checkpoints.heads import NewHead
from heedful.checkpoints.hub import choose_files
from heedful.cli.inspect import describe
from heedful.cli.main import main
from heedful.errors import RequestError
from heedful.models.batch import Batch
from heedful.models.shape import NAMED_SHAPES, Head
from heedful.models.transformer import Transformer
from tests.support.checkpoint_samples import (
    CONFIG,
    FAMILY_NAMES,
    HEADS_FILE,
    LABELS,
    WEIGHTS,
    assert_same,
    edit_config,
    fingerprint,
    make_checkpoint,
    make_good,
    names_in,
    read_config,
    states,
)

IDS = torch.tensor([[3, 7, 9, 5], [3, 8, 5, 6]])
NATIVE = {"bert": "linear", "gpt2": "linear"} | dict.fromkeys(("roberta", "distilbert", "roformer"), "two-layer")


def make(family: str, tmp_path: Path, new: dict[str, NewHead], **options: Any) -> Checkpoint:
    """The sample of a family as it is found, read with these new heads."""
    if not (tmp_path / "found").exists():
        make_good(family, tmp_path / "found", kinds=(NATIVE[family],))  # type: ignore[arg-type]
    return read_model(tmp_path / "found", new, **options)


def several(family: str) -> dict[str, NewHead]:
    kind = NATIVE[family]
    return {
        "classify": NewHead(kind, ("no", "yes")),  # type: ignore[arg-type]
        "topic": NewHead(kind, ("sport", "žádný", "是的")),  # type: ignore[arg-type]
        "mood": NewHead("linear", ("glad", "sad"), reads="mean", dropout=0.3),
        "long": NewHead("linear", ("score",), reads="first", chunked=True),
        "order": NewHead(kind, ("up", "down"), recurrent="bigru"),  # type: ignore[arg-type]
    }


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_several_heads_come_back_to_the_bit(family: str, tmp_path: Path) -> None:
    first = make(family, tmp_path, several(family), seed=3)
    write_model(tmp_path / "a", first)
    second = read_model(tmp_path / "a")
    assert_same(first, second)
    write_model(tmp_path / "b", second)
    for name in (CONFIG, WEIGHTS, HEADS_FILE):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    own = {name.split(".")[1] for name in load_file(tmp_path / "a" / HEADS_FILE)}
    assert own == {"topic", "mood", "long", "order"}
    shapes = second.transformer.head_shapes
    assert {n: h.labels for n, h in shapes.items()} == {n: h.labels for n, h in several(family).items()}
    order = shapes["order"]
    assert (order.reads, order.recurrent, order.recurrent_width) == (
        "every",
        "bigru",
        -(-second.transformer.shape.width // 2),
    )
    assert (shapes["long"].chunked, shapes["mood"].dropout, shapes["topic"].classes) == (True, 0.3, 3)
    batch = Batch(IDS)
    with torch.no_grad():
        scores = {head: first.transformer(head, batch) for head in shapes}
        for head, expected in scores.items():
            assert torch.equal(second.transformer(head, batch), expected)
    assert not torch.equal(scores["classify"], scores["mood"])


@pytest.mark.parametrize("family", FAMILY_NAMES)
@pytest.mark.parametrize(
    "change",
    [{"reads": "mean"}, {"chunked": True}, {"name": "topic"}, {"kind": "other"}, {"recurrent": "lstm"}],
    ids=lambda c: next(iter(c)),
)
def test_the_peer_misses_what_is_not_its_own(family: str, change: dict[str, Any], tmp_path: Path) -> None:
    """Its body opens whole, its classifier is reported as missing; the control: a head of its own is not."""
    kind, name = NATIVE[family], change.get("name", "classify")
    if "kind" in change:
        kind = {"linear": "two-layer", "two-layer": "linear"}[kind]
        if kind not in FAMILIES[family].heads:
            pytest.skip(f"{family} has one kind of classifier")
    options = {k: v for k, v in change.items() if k not in ("name", "kind")}
    model = make(family, tmp_path, {name: NewHead(kind, LABELS, **options)}, seed=1)  # type: ignore[arg-type]
    write_model(tmp_path / "ours", model)
    assert_same(model, read_model(tmp_path / "ours"))
    body, info = transformers.AutoModel.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not info["unexpected_keys"]
    assert all(k.startswith("pooler.") for k in info["missing_keys"])  # which RoBERTa's class with a head has not
    with torch.no_grad():
        ours, other = model.transformer.body(Batch(IDS)).last, body.eval()(IDS).last_hidden_state
    assert (ours - other).abs().max() <= 1e-5
    auto = transformers.AutoModelForSequenceClassification
    _, info = auto.from_pretrained(tmp_path / "ours", output_loading_info=True)
    classifier = {"classifier.weight", "classifier.out_proj.weight", "score.weight"}
    assert classifier & set(info["missing_keys"])
    assert not info["unexpected_keys"]

    write_model(tmp_path / "native", make(family, tmp_path, {"classify": NewHead(NATIVE[family], LABELS)}))  # type: ignore[arg-type]
    _, info = auto.from_pretrained(tmp_path / "native", output_loading_info=True)
    assert not any(info.values()), info
    assert not (tmp_path / "native" / HEADS_FILE).exists()


def test_a_masked_word_head_beside_a_classifier_of_ours(tmp_path: Path) -> None:
    """What the peer can hold stays whole for it, prefix and class included."""
    model = make_checkpoint("bert", ("masked-word",), tmp_path / "scratch")
    write_model(tmp_path / "a", model)
    both = read_model(tmp_path / "a", {"classify": NewHead("linear", LABELS, reads="mean")}, keep_heads=True)
    write_model(tmp_path / "b", both)
    assert read_config(tmp_path / "b")["architectures"] == ["BertForMaskedLM"]
    peer, info = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "b", output_loading_info=True)
    assert not any(info.values()), info
    with torch.no_grad():
        ours = both.transformer("mask", Batch(IDS))
        assert (ours - peer.eval()(IDS).logits).abs().max() <= 1e-5


def test_stored_heads_are_kept_beside_new_ones(tmp_path: Path) -> None:
    new = {"topic": NewHead("linear", ("a", "b"))}
    alone = make("bert", tmp_path, new, seed=2)
    assert set(alone.transformer.heads) == {"topic"}
    assert set(alone.unread) == {"classifier.weight", "classifier.bias"}
    kept = make("bert", tmp_path, new, keep_heads=True, seed=2)
    assert set(kept.transformer.heads) == {"classify", "topic"}
    assert kept.unread == ()
    assert kept.transformer.head_shapes["classify"].labels == LABELS
    old = states(read_model(tmp_path / "found"))
    assert all(torch.equal(value, states(kept)[name]) for name, value in old.items())
    assert {n for n, source in kept.sources.items() if source == "new"} == set(states(kept)) - set(old)
    write_model(tmp_path / "both", kept)
    assert_same(kept, read_model(tmp_path / "both"))

    again = read_model(tmp_path / "both", {"topic": NewHead("linear", ("c", "d", "e"))}, keep_heads=True)
    assert again.transformer.head_shapes["topic"].labels == ("c", "d", "e")
    assert set(again.unread) == {"heads.topic.output.weight", "heads.topic.output.bias"}
    other = read_model(tmp_path / "both", {"classify": NewHead("linear", ("c", "d"))}, keep_heads=True)
    assert other.transformer.head_shapes["topic"].labels == ("a", "b")
    assert set(other.unread) == {"classifier.weight", "classifier.bias"}
    body = read_model(tmp_path / "both", body_only=True)
    assert len(body.unread) == 4


def test_a_new_pooler_is_not_put_under_an_old_head(tmp_path: Path) -> None:
    make_good("bert", tmp_path / "a", kinds=("masked-word",))
    made = read_model(tmp_path / "a", {"classify": NewHead("linear", LABELS)}, keep_heads=True)
    assert made.sources["body.pooler.dense.weight"] == "new"
    write_model(tmp_path / "b", made)
    assert_same(made, read_model(tmp_path / "b"))


def test_labels_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    write_model(tmp_path / "a", make("bert", tmp_path, several("bert")))
    names = {"0": "yes", "1": "no"}
    edit_config(tmp_path / "a", id2label=names, label2id={v: int(k) for k, v in names.items()})
    with pytest.raises(RequestError, match=r"id2label and heedful\.heads\.classify\.labels contradict"):
        read_model(tmp_path / "a")


def test_the_api_with_several_heads(tmp_path: Path) -> None:
    make_good("bert", tmp_path / "found")
    model = heedful.load(
        tmp_path / "found", new_head="linear", labels=["a", "b"], head="topic", keep_heads=True, seed=4
    )
    assert model.labels == LABELS
    texts = ["ab cd", "hgfe", "ab"]
    assert model.predict(texts).names == LABELS
    topics = model.predict(texts, head="topic")
    assert topics.names == ("a", "b")
    model.save(tmp_path / "saved")
    again = heedful.load(tmp_path / "saved")
    assert np.array_equal(again.predict(texts, head="topic").probabilities, topics.probabilities)
    assert np.array_equal(again.predict(texts).probabilities, model.predict(texts).probabilities)
    only = heedful.load(tmp_path / "found", new_head="linear", labels=["a", "b"], head="topic", seed=4)
    assert only.labels == ("a", "b")
    assert only.predict(texts).names == ("a", "b")
    for call, said in (
        (lambda: model.predict(texts, head="mood"), "not one of its classifiers, classify, topic"),
        (lambda: heedful.load(tmp_path / "found", head="topic"), "need new_head"),
        (lambda: heedful.load(tmp_path / "found", labels=["a"]), "need new_head"),
        (lambda: heedful.load(tmp_path / "found", body_only=True).predict(texts), "no classification head"),
        (lambda: heedful.load(tmp_path / "found", new_head="linear", labels=["a"], body_only=True), "contradict"),
    ):
        with pytest.raises(RequestError, match=said):
            call()


def test_inspect_shows_the_labels_of_each_head(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_model(tmp_path / "a", make("bert", tmp_path, several("bert")))
    facts = describe(read_model(tmp_path / "a"), "a")
    assert (facts["family"], facts["labels"]) == ("bert", ["no", "yes"])
    assert facts["heads"]["mood"]["labels"] == ("glad", "sad")
    sources = {t["name"]: t["source"] for t in facts["tensors"]}
    assert sources["heads.mood.output.bias"] == f"{HEADS_FILE}: heads.mood.output.bias"
    monkeypatch.setattr(sys, "argv", ["heedful", "inspect", str(tmp_path / "a")])
    with pytest.raises(SystemExit):
        main()
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("labels")] == [
        "labels      no, yes",
        "labels      sport, žádný, 是的 (topic)",
        "labels      glad, sad (mood)",
        "labels      score (long)",
        "labels      up, down (order)",
    ]
    names = [name for name in sources if name.startswith("heads.order.extractor.rnn.")]
    assert len(names) == 8
    assert {sources[name] for name in names} == {f"{HEADS_FILE}: {name}" for name in names}
    (line,) = (line for line in lines if line.split()[:1] == ["rnn"])
    assert "12×8 + 12×4 +" in line  # the others are on lines of their own
    assert f"{sum(t['count'] for t in facts['tensors'] if t['name'] in names):,}" in line


def test_the_hub_is_asked_for_them_too() -> None:
    names = ["config.json", WEIGHTS, HEADS_FILE, "README.md", "pytorch_model.bin"]
    assert sorted(choose_files("someone/something", names)) == ["config.json", HEADS_FILE, WEIGHTS]


def test_the_hub_is_asked_for_all_files_of_translators() -> None:
    marian = ["config.json", "generation_config.json", "pytorch_model.bin", "source.spm", "target.spm", "vocab.json"]
    marian += ["target_vocab.json", "tokenizer_config.json"]
    others = ["README.md", ".gitattributes", "metadata.json", "rust_model.ot", "tf_model.h5"]
    assert sorted(choose_files("someone/opus-mt", marian + others)) == sorted(marian)
    own = ["config.json", WEIGHTS, "tokenizer.json", "target/tokenizer.json", "bert/config.json", f"bert/{WEIGHTS}"]
    assert sorted(choose_files("someone/mine", [*own, "target/notes.md"])) == sorted(own)


def test_two_classifiers_of_which_neither_is_the_main_one(tmp_path: Path) -> None:
    new = {name: NewHead("linear", ("a", "b")) for name in ("mood", "topic")}
    write_model(tmp_path / "a", make("bert", tmp_path, new))
    model = heedful.load(tmp_path / "a")
    assert model.labels == ()
    assert "id2label" not in read_config(tmp_path / "a")
    with pytest.raises(RequestError, match="mood, topic"):
        model.predict(["ab"])
    assert model.predict(["ab"], head="mood").names == ("a", "b")


@pytest.mark.parametrize("name", ["", "a.b", "a\nb", "forward", "keys", "x" * 61])
def test_names_that_no_head_can_have(name: str, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="no name for a head"):
        make("bert", tmp_path, {name: NewHead("linear", ("a", "b"))})


def test_nothing_is_lost_among_the_adapters(tmp_path: Path) -> None:
    target = tmp_path / "model"
    first = make_checkpoint("bert", ("linear",), tmp_path / "scratch", salt=1)
    second = make_checkpoint("bert", ("linear",), tmp_path / "scratch", salt=2)
    write_model(target, first)
    (target / "adapters" / "mood").mkdir(parents=True)
    (target / "adapters" / "mood" / "notes.txt").write_text("mine")
    before = fingerprint(target / "adapters")
    with pytest.raises(RequestError, match="is not the directory of an adapter"):
        read_model(target)
    with pytest.raises(RequestError, match=r"'notes\.txt'"):
        write_model(target, second)
    assert fingerprint(target / "adapters") == before
    (target / "adapters" / "mood" / "notes.txt").unlink()
    (target / "adapters" / "mood").rmdir()
    write_model(target, second)
    assert_same(read_model(target), second)
    assert names_in(tmp_path) == ["model", "scratch"]  # nothing is left behind
    (target / "notes").mkdir()
    with pytest.raises(RequestError, match="'notes'"):
        write_model(target, first)
    (target / "notes").rmdir()
    (target / "adapters").write_text("a file")
    with pytest.raises(RequestError, match="'adapters'"):
        write_model(target, first)


@pytest.mark.parametrize(("name", "family"), [
    ("bert-tiny", "bert"), ("bert-base", "bert"), ("distilbert-base", "distilbert"), ("roberta-base", "roberta"),
    ("gpt2", "gpt2"), ("gpt-mini", "gpt2"),
])  # fmt: skip
def test_the_family_of_a_shape(name: str, family: str) -> None:
    assert family_of(NAMED_SHAPES[name]).name == family


@pytest.mark.parametrize("change", [
    {"attention": "rotary"}, {"memory_width": 4}, {"position_kind": "sinusoidal"}, {"norm": "pre"}, {"causal": True},
    {"embedding_dropout": 0.3}, {"narrow_residuals": True}, {"segments": 0, "attention_output_dropout": 0.1},
], ids=lambda c: next(iter(c)))  # fmt: skip
def test_what_a_dialect_cannot_say_is_refused_when_saving(change: dict[str, Any], tmp_path: Path) -> None:
    """It would be another model when it is read again."""
    sizes = {"vocabulary": 40, "width": 12, "layers": 1, "heads": 3, "inner": 48, "positions": 9}
    shape = replace(NAMED_SHAPES["bert-tiny"], **{**sizes, **change})
    with pytest.raises(RequestError, match=next(iter(change))):
        write_model(tmp_path / "model", Checkpoint(Transformer(shape), "bert"))
    assert not (tmp_path / "model").exists()
    assert family_of(shape).name == "heedful"  # our own dialect can


def test_a_head_that_a_dialect_does_not_know_is_refused_when_saving(tmp_path: Path) -> None:
    model = make("bert", tmp_path, {})
    model.transformer.head_shapes["causal"] = Head("language-model", "every")
    with pytest.raises(RequestError, match="language-model"):
        write_model(tmp_path / "a", model)


def test_a_directory_of_the_first_format_is_refused_in_words(tmp_path: Path) -> None:
    write_model(tmp_path / "a", make("bert", tmp_path, several("bert")))
    content = json.loads((tmp_path / "a" / CONFIG).read_text())
    content["heedful"] = {"format": 1, "heads": {"classify": "linear"}}
    (tmp_path / "a" / CONFIG).write_text(json.dumps(content))
    for options in ({}, {"body_only": True}, {"new_heads": several("bert")}):
        with pytest.raises(RequestError, match=r"heedful\.format is 1, and this version reads 2; use the version"):
            read_model(tmp_path / "a", **options)
