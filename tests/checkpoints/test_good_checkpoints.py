"""Every form in which a good checkpoint comes gives the same weights to the bit; what we save comes back the same."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor

import heedful
from heedful.checkpoints.dialect import SLOTS
from heedful.checkpoints.directory import Checkpoint, read_model, stored_tensors, write_model
from heedful.checkpoints.families import FAMILIES, family_of
from heedful.checkpoints.heads import NewHead, make_head
from heedful.errors import RequestError
from heedful.models.batch import Batch
from heedful.models.shape import NAMED_SHAPES
from heedful.models.transformer import Transformer
from tests.support import peers
from tests.support.checkpoint_samples import (
    ABSENT,
    CONFIG,
    FAMILY_NAMES,
    HEADS_FILE,
    INDEX,
    LABELS,
    WEIGHTS,
    assert_same,
    edit_config,
    edit_tensors,
    formula,
    make_checkpoint,
    make_good,
    make_shape,
    read_config,
    shard,
    states,
)

BASES = [c for c in peers.cases() if c.name == f"{c.family}-{c.head or 'body'}"]
PREFIX = {name: family.prefix for name, family in FAMILIES.items()}
AB = {"classify": NewHead("linear", ("a", "b"))}
HEAD_ROOTS = ("cls", "classifier", "pre_classifier", "lm_head", "vocab_", "score", "qa_outputs")


@pytest.fixture(scope="module", params=BASES, ids=lambda c: c.name)
def base(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path, peers.Case]:
    peer = peers.make_peer(request.param)
    directory = tmp_path_factory.mktemp(request.param.name) / "model"
    peer.save_pretrained(directory)
    return peer, directory, request.param


def is_head(name: str) -> bool:
    return name.startswith(HEAD_ROOTS)


def assert_peer_weights(found: Checkpoint, peer: Any) -> None:
    """Every tensor of ours has the peer's values, and every parameter of the peer is among them."""
    ours = stored_tensors(found, dict(found.transformer.named_parameters()))[WEIGHTS]
    family = FAMILIES[found.family]
    computed = {table.name for table in family.tables}
    expected = {name: p for name, p in peer.named_parameters() if family.plain(name) not in computed}
    assert ours.keys() == expected.keys()
    for name, value in ours.items():
        assert torch.equal(value, expected[name]), name


def strip(case: peers.Case, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {k.removeprefix(PREFIX[case.family]): v for k, v in tensors.items()}


def add_prefix(case: peers.Case, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    plain = strip(case, tensors)
    return {k if is_head(k) else PREFIX[case.family] + k: v for k, v in plain.items()}


def old_spelling(case: peers.Case, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    def old(name: str) -> str:
        for norm in ("LayerNorm", "layer_norm"):
            name = name.replace(f"{norm}.weight", f"{norm}.gamma").replace(f"{norm}.bias", f"{norm}.beta")
        return name

    return {old(k): v for k, v in tensors.items()}


def tied_copies(case: peers.Case, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    plain = strip(case, tensors)
    copies = FAMILIES[case.family].copies
    has_them = case.head == "LMHeadModel" if case.family == "gpt2" else bool(case.head)
    added = {c: plain[o].clone() for c, o in copies.items() if has_them and o in plain}
    return {**tensors, **added}


def derived_buffers(case: peers.Case, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    prefix = PREFIX[case.family] if case.head else ""
    if case.family == "gpt2":
        triangle = torch.ones(16, 16, dtype=torch.uint8).tril()[None, None]
        made = {f"h.{i}.attn.bias": triangle.clone() for i in range(2)}
        made |= {f"h.{i}.attn.masked_bias": torch.tensor(-1e4) for i in range(2)}
    elif case.family == "roformer":  # its table can be made anew
        return {k: v for k, v in tensors.items() if not k.endswith("embed_positions.weight")}
    elif case.family == "distilbert":
        return tensors
    else:
        made = {"embeddings.position_ids": torch.arange(16)[None]}
        if case.family == "roberta":
            made["embeddings.token_type_ids"] = torch.zeros(1, 16, dtype=torch.long)
    return {**tensors, **{prefix + k: v for k, v in made.items()}}


FORMS: dict[str, Callable[[peers.Case, dict[str, Tensor]], dict[str, Tensor]]] = {
    "as it is": lambda case, tensors: tensors,
    "without prefix": strip,
    "with prefix": add_prefix,
    "gamma and beta": old_spelling,
    "gamma and beta without prefix": lambda case, tensors: old_spelling(case, strip(case, tensors)),
    "tied copies": tied_copies,
    "derived buffers": derived_buffers,
    "everything old": lambda c, t: old_spelling(c, derived_buffers(c, tied_copies(c, t))),
}


@pytest.mark.parametrize("form", FORMS)
def test_old_forms(form: str, base: tuple[Any, Path, peers.Case], tmp_path: Path) -> None:
    peer, directory, case = base
    shutil.copytree(directory, tmp_path / "model")
    changed = FORMS[form](case, load_file(directory / WEIGHTS))
    save_file({k: v.clone() for k, v in changed.items()}, tmp_path / "model" / WEIGHTS)
    assert_peer_weights(read_model(tmp_path / "model"), peer)

    (tmp_path / "model" / WEIGHTS).unlink()
    for legacy in (False, True):
        torch.save(changed, tmp_path / "model" / "pytorch_model.bin", _use_new_zipfile_serialization=not legacy)
        assert_peer_weights(read_model(tmp_path / "model"), peer)


def test_what_the_peer_pickled(base: tuple[Any, Path, peers.Case], tmp_path: Path) -> None:
    """Its whole state, parameters that need gradients and tensors that share memory included."""
    peer, directory, _ = base
    shutil.copytree(directory, tmp_path / "model", ignore=shutil.ignore_patterns("*.safetensors"))
    torch.save(peer.state_dict(keep_vars=True), tmp_path / "model" / "pytorch_model.bin")
    found = read_model(tmp_path / "model")
    assert_peer_weights(found, peer)
    places = [p.data_ptr() for p in found.transformer.parameters()]
    assert len(set(places)) == len(places)


def test_shared_memory_in_an_old_file_is_not_shared_here(tmp_path: Path) -> None:
    make_good("bert", tmp_path / "model")
    tensors = load_file(tmp_path / "model" / WEIGHTS)
    (tmp_path / "model" / WEIGHTS).unlink()
    norms = [n for n in tensors if n.endswith("LayerNorm.weight")]
    one = torch.full((8,), 0.5)
    torch.save({**tensors, **dict.fromkeys(norms, one)}, tmp_path / "model" / "pytorch_model.bin")
    blocks = read_model(tmp_path / "model").transformer.body.blocks
    with torch.no_grad():
        blocks[0].around_attention.norm.weight.add_(1)
    assert torch.equal(blocks[1].around_attention.norm.weight, one)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_other_precisions(dtype: torch.dtype, base: tuple[Any, Path, peers.Case], tmp_path: Path) -> None:
    peer, directory, _ = base
    shutil.copytree(directory, tmp_path / "model")
    stored = {k: v.to(dtype) for k, v in load_file(directory / WEIGHTS).items()}
    save_file(stored, tmp_path / "model" / WEIGHTS)
    found = read_model(tmp_path / "model")
    for name, value in stored_tensors(found, dict(found.transformer.named_parameters()))[WEIGHTS].items():
        assert value.dtype == torch.float32
        assert torch.equal(value, dict(peer.named_parameters())[name].to(dtype).float()), name


def test_shards(base: tuple[Any, Path, peers.Case], tmp_path: Path) -> None:
    peer, directory, _ = base
    peer.save_pretrained(tmp_path / "theirs", max_shard_size="20KB")
    assert len(list((tmp_path / "theirs").glob("model-*.safetensors"))) > 1
    assert_peer_weights(read_model(tmp_path / "theirs"), peer)
    shutil.copytree(directory, tmp_path / "ours")
    shard(tmp_path / "ours", parts=3)
    found = read_model(tmp_path / "ours")
    assert_peer_weights(found, peer)
    assert {source.split(": ")[0] for source in found.sources.values()} == {
        f"model-0000{i}-of-00003.safetensors" for i in (1, 2, 3)
    }


@pytest.mark.parametrize("absent", [("architectures",), ("model_type",), ("architectures", "model_type")], ids=str)
def test_a_config_that_says_little(absent: tuple[str, ...], base: tuple[Any, Path, peers.Case], tmp_path: Path) -> None:
    peer, directory, case = base
    if case.head == "LMHeadModel" and "architectures" in absent:
        pytest.skip("without its class nothing tells a tied language model from its body")
    shutil.copytree(directory, tmp_path / "model")
    edit_config(tmp_path / "model", **dict.fromkeys(absent, ABSENT))
    bare = not case.head and len(absent) == 2  # without prefix, BERT and RoBERTa look the same
    family = case.family if bare and case.family in ("bert", "roberta") else None
    assert_peer_weights(read_model(tmp_path / "model", family=family), peer)


def test_two_heads_of_pretraining(tmp_path: Path) -> None:
    case = next(c for c in BASES if c.head == "ForPreTraining")
    peers.make_peer(case).save_pretrained(tmp_path)
    assert set(read_model(tmp_path).transformer.heads) == {"mask", "next-sentence"}


def test_the_hubs_cache(tmp_path: Path) -> None:
    """There a snapshot's files are links to blobs beside it."""
    make_good("bert", tmp_path / "plain")
    repository = tmp_path / "hub" / "models--someone--something"
    snapshot = repository / "snapshots" / ("0" * 40)
    (repository / "blobs").mkdir(parents=True)
    snapshot.mkdir(parents=True)
    for i, path in enumerate(sorted((tmp_path / "plain").iterdir())):
        shutil.copyfile(path, repository / "blobs" / str(i))
        (snapshot / path.name).symlink_to(f"../../blobs/{i}")
    assert_same(read_model(snapshot), read_model(tmp_path / "plain"))
    (tmp_path / "elsewhere").symlink_to(snapshot)
    assert_same(read_model(tmp_path / "elsewhere"), read_model(tmp_path / "plain"))

    blob = repository / "blobs" / "0"
    blob.rename(tmp_path / "outside")
    blob.symlink_to(tmp_path / "outside")
    with pytest.raises(RequestError, match="leads out"):
        read_model(snapshot)


EVERY_HEAD = [(family.name, (kind,)) for family in FAMILIES.values() for kind in family.heads]
EVERY_HEAD += [(family, ()) for family in FAMILY_NAMES]
EVERY_HEAD += [("bert", ("masked-word", "next-sentence")), ("bert", ("linear", "masked-word"))]
EVERY_HEAD += [("roformer", ("masked-word", "next-sentence")), ("roformer", ("two-layer", "masked-word"))]
ODD_LABELS = ("žádný", "是的", "a b\tc", "", "🙂", 'quo"te\\', "0", "null")


@pytest.mark.parametrize(("family", "kinds"), EVERY_HEAD, ids=str)
def test_round_trip(family: str, kinds: tuple[Any, ...], tmp_path: Path) -> None:
    first = make_checkpoint(family, kinds, tmp_path / "scratch", labels=ODD_LABELS)
    write_model(tmp_path / "a", first)
    second = read_model(tmp_path / "a")
    assert_same(first, second)
    write_model(tmp_path / "b", second)
    third = read_model(tmp_path / "b")
    assert_same(first, third)
    for name in ("config.json", WEIGHTS, "tokenizer.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    ids = torch.tensor([[3, 7, 9, 5], [3, 8, 5, 6]])
    with torch.no_grad():
        for head in first.transformer.heads:
            scores = first.transformer(head, Batch(ids))
            assert torch.equal(scores, second.transformer(head, Batch(ids)))
            assert torch.equal(scores, third.transformer(head, Batch(ids)))


def test_pretrained_with_rotary_attention(tmp_path: Path) -> None:
    """The peer has the body and the masked words, with the same answers; of the pooler it says that it has no place for
    it, and the head that reads it is not in its file."""
    shape = replace(make_shape("roformer", 30), pooler=True)
    heads = {SLOTS[k]: make_head(FAMILIES["roformer"], shape, NewHead(k)) for k in ("masked-word", "next-sentence")}
    model = Transformer(shape, heads).eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(formula(name, tuple(p.shape)))
    write_model(tmp_path / "a", Checkpoint(model, family_of(shape).name))
    peer, info = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "a", output_loading_info=True)
    assert type(peer) is transformers.RoFormerForMaskedLM
    assert info["unexpected_keys"] == {"roformer.pooler.dense.weight", "roformer.pooler.dense.bias"}
    assert not info["missing_keys"]
    assert {name.rpartition(".")[0] for name in load_file(tmp_path / "a" / HEADS_FILE)} == {
        "heads.next-sentence.output"
    }
    ids, segments = torch.tensor([[3, 7, 9, 5], [3, 8, 5, 6]]), torch.tensor([[0, 0, 1, 1], [0, 1, 1, 1]])
    batch, again = Batch(ids, None, segments), read_model(tmp_path / "a")
    assert_same(Checkpoint(model, "roformer"), again)
    with torch.no_grad():
        other = peer.eval()(ids, token_type_ids=segments, output_hidden_states=True)
        assert (model("mask", batch) - other.logits).abs().max() <= 1e-5
        assert (model.body(batch).last - other.hidden_states[-1]).abs().max() <= 1e-5
        for head in heads:
            assert torch.equal(model(head, batch), again.transformer(head, batch))


def test_the_round_trip_would_notice(tmp_path: Path) -> None:
    """The negative control: the last bit of one weight."""
    first = make_checkpoint("bert", ("linear",), tmp_path / "scratch")
    write_model(tmp_path / "a", first)

    def nudge(tensors: dict[str, Tensor]) -> None:
        weight = tensors["classifier.weight"].view(-1)
        weight[5] = torch.nextafter(weight[5], torch.tensor(9.0))

    edit_tensors(tmp_path / "a", nudge)
    with pytest.raises(AssertionError, match="classify"):
        assert_same(first, read_model(tmp_path / "a"))


def test_what_does_not_concern_us_is_kept(tmp_path: Path) -> None:
    make_good("bert", tmp_path / "a")
    edit_config(tmp_path / "a", finetuning_task="sst-2", max_length=20, language="en", torch_dtype="float16")
    heedful.load(tmp_path / "a").save(tmp_path / "b")
    kept = read_config(tmp_path / "b")
    assert (kept["finetuning_task"], kept["max_length"], kept["language"]) == ("sst-2", 20, "en")
    assert kept["dtype"] == "float32"
    assert "torch_dtype" not in kept


def test_a_new_head(tmp_path: Path) -> None:
    make_good("bert", tmp_path / "a")
    names = ("ne", "ano", "嗯")
    new = {"classify": NewHead("two-layer", names)}
    first = read_model(tmp_path / "a", new, seed=7)
    again = read_model(tmp_path / "a", new, seed=7)
    other = read_model(tmp_path / "a", new, seed=8)
    assert_same(first, again)
    assert first.transformer.head_shapes["classify"].labels == names
    assert set(first.unread) == {"classifier.weight", "classifier.bias"}
    fresh = {n for n, source in first.sources.items() if source == "new"}
    assert fresh == {n for n in states(first) if n.startswith("heads.")}
    for name, value in states(first).items():
        same = torch.equal(value, states(other)[name])
        assert same == (name not in fresh or name.endswith("bias")), name
        assert torch.isfinite(value).all()
    old = states(read_model(tmp_path / "a"))
    assert all(torch.equal(v, old[n]) for n, v in states(first).items() if n not in fresh)
    write_model(tmp_path / "b", first)
    assert_same(first, read_model(tmp_path / "b"))
    assert read_config(tmp_path / "b")["id2label"] == {"0": "ne", "1": "ano", "2": "嗯"}


def test_a_new_head_does_not_move_the_global_generator(tmp_path: Path) -> None:
    make_good("bert", tmp_path / "a")
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    read_model(tmp_path / "a", AB)
    assert torch.equal(torch.rand(4), expected)


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_every_new_head_on_every_family(family: str, tmp_path: Path) -> None:
    make_good(family, tmp_path / "a", kinds=())
    for kind in FAMILIES[family].heads:
        labels = LABELS if kind in ("linear", "two-layer") else ()
        made = read_model(tmp_path / "a", {"new": NewHead(kind, labels)}, seed=1)
        assert [h.kind for h in made.transformer.head_shapes.values()] == [kind]
        assert made.unread == ()
        assert made.transformer.shape.vocabulary == made.tokenizer.size


def test_a_pooler_is_made_where_the_head_needs_one(tmp_path: Path) -> None:
    make_good("bert", tmp_path / "a", kinds=("masked-word",))  # saved as the peer's class, which has no pooler
    assert not any("pooler" in n for n in load_file(tmp_path / "a" / WEIGHTS))
    made = read_model(tmp_path / "a", AB, seed=5)
    assert made.transformer.shape.pooler
    assert made.sources["body.pooler.dense.weight"] == "new"
    assert "cls.predictions.bias" in made.unread
    assert_same(made, read_model(tmp_path / "a", AB, seed=5))
    other = read_model(tmp_path / "a", AB, seed=6)
    name = "body.pooler.dense.weight"
    assert not torch.equal(states(made)[name], states(other)[name])


@pytest.mark.parametrize("head", ["ForTokenClassification", "ForQuestionAnswering"])
@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_the_body_of_what_we_cannot_read_whole(family: str, head: str, tmp_path: Path) -> None:
    peer = peers.make_peer(peers.Case("x", family, head))
    peer.save_pretrained(tmp_path)
    with pytest.raises(RequestError, match=head):
        read_model(tmp_path)
    found = read_model(tmp_path, body_only=True)
    assert found.unread
    assert all(is_head(n) for n in found.unread)
    assert found.transformer.head_shapes == {}
    inputs = torch.tensor([[3, 7, 9, 5]])
    with torch.no_grad():
        expected = peer.base_model(input_ids=inputs).last_hidden_state
        assert (found.transformer.body(Batch(inputs)).last - expected).abs().max() <= 1e-5
    made = read_model(tmp_path, AB)
    assert made.unread == found.unread


@pytest.mark.parametrize("problem", ["multi_label_classification", "regression"])
@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_a_head_whose_outputs_are_not_classes(family: str, problem: str, tmp_path: Path) -> None:
    source = tmp_path / "a"
    make_good(family, source, kinds=("linear",))
    texts = ["the film", "a gem"]
    body = heedful.load(source, body_only=True).encode(texts)
    edit_config(source, problem_type=problem)
    for options in ({}, {"new_head": "linear", "labels": ["x", "y"], "head": "mine", "keep_heads": True}):
        with pytest.raises(RequestError, match=rf'problem_type = "{problem}" means .* load it with body_only=True, or'):
            heedful.load(source, **options)
    alone = heedful.load(source, body_only=True)
    assert np.array_equal(alone.encode(texts), body)
    tuned = heedful.load(source, new_head="linear", labels=["x", "y"])
    assert np.array_equal(tuned.encode(texts), body)
    for number, model in enumerate((alone, tuned)):
        model.save(tmp_path / f"b{number}")
        assert "problem_type" not in read_config(tmp_path / f"b{number}")
        heedful.load(tmp_path / f"b{number}")

    edit_config(source, problem_type="single_label_classification")
    assert heedful.load(source).predict(texts).labels
    tuned.save(tmp_path / "ours")
    edit_config(tmp_path / "ours", problem_type="multi_label_classification")
    with pytest.raises(RequestError, match=r'problem_type = "multi_label_classification" means'):
        heedful.load(tmp_path / "ours")


def test_regression_with_one_score_is_read(tmp_path: Path) -> None:
    checkpoint = make_checkpoint("bert", ("linear",), tmp_path / "v", labels=("stars",))
    write_model(tmp_path / "a", checkpoint)
    edit_config(tmp_path / "a", heedful=ABSENT, problem_type="regression")
    assert heedful.load(tmp_path / "a").predict(["a gem"]).names == ("stars",)


def test_an_untied_decoder_does_not_matter_to_the_body(tmp_path: Path) -> None:
    make_good("distilbert", tmp_path)
    edit_tensors(tmp_path, lambda t: t.update({"vocab_projector.weight": torch.ones(21, 8)}))
    with pytest.raises(RequestError, match="not equal"):
        read_model(tmp_path)
    assert "vocab_projector.weight" in read_model(tmp_path, body_only=True).unread


INPUTS = {
    "input_ids": torch.tensor([[2, 7, 9, 3], [2, 8, 3, 0]]),
    "attention_mask": torch.tensor([[1] * 4, [1] * 3 + [0]]),
}
BATCH = Batch(INPUTS["input_ids"], INPUTS["attention_mask"].bool())


def test_the_peer_opens_a_linear_head_whole(tmp_path: Path) -> None:
    model = make_checkpoint("bert", ("linear",), tmp_path / "scratch", labels=("žádný", "是的", "🙂"))
    write_model(tmp_path / "a", model)
    peer, info = transformers.AutoModelForSequenceClassification.from_pretrained(
        tmp_path / "a", output_loading_info=True
    )
    assert not any(info.values()), info
    assert peer.config.id2label == {0: "žádný", 1: "是的", 2: "🙂"}
    with torch.no_grad():
        ours = model.transformer.eval()("classify", BATCH)
        other = peer.eval()(**INPUTS).logits
    assert (ours - other).abs().max() <= 1e-5
    assert ours.abs().max() > 0.01


def test_the_peer_opens_the_body_under_our_own_head(tmp_path: Path) -> None:
    model = make_checkpoint("bert", ("two-layer",), tmp_path / "scratch")
    write_model(tmp_path / "a", model)
    assert_same(model, read_model(tmp_path / "a"))
    peer, info = transformers.AutoModel.from_pretrained(tmp_path / "a", output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    with torch.no_grad():
        ours = model.transformer.eval().body(BATCH).last
        other = peer.eval()(**INPUTS).last_hidden_state
    real = INPUTS["attention_mask"].bool()
    assert (ours - other)[real].abs().max() <= 1e-5


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_the_peer_reads_our_tokenizer(family: str, tmp_path: Path) -> None:
    model = make_checkpoint(family, (), tmp_path / "scratch")
    write_model(tmp_path / "a", model)
    peer = transformers.AutoTokenizer.from_pretrained(tmp_path / "a")
    texts = ["ab cd", "hgfe dcba", "ab"]
    assert [t.ids for t in model.tokenizer.encode(texts)] == peer(texts)["input_ids"]


def test_a_directory_without_tokenizer_loads(tmp_path: Path) -> None:
    make_good("bert", tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        (tmp_path / name).unlink()
    model = heedful.load(tmp_path)
    with pytest.raises(RequestError, match="no tokenizer"):
        model.encode(["ab"])


def test_links_inside_the_directory_are_fine(tmp_path: Path) -> None:
    make_good("bert", tmp_path / "model")
    (tmp_path / "model" / WEIGHTS).rename(tmp_path / "model" / "weights.dat")
    (tmp_path / "model" / WEIGHTS).symlink_to("weights.dat")
    read_model(tmp_path / "model")


def test_safetensors_win_over_an_old_file(tmp_path: Path) -> None:
    make_good("bert", tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"not looked at")
    (tmp_path / INDEX).write_text("not looked at")
    read_model(tmp_path)


def test_an_empty_config_value_is_the_peers_default(tmp_path: Path) -> None:
    """What config.json leaves out has the value that the peer takes."""
    make_good("bert", tmp_path)
    content = read_config(tmp_path)
    for key in ("hidden_act", "layer_norm_eps", "type_vocab_size", "pad_token_id", "initializer_range"):
        del content[key]
    (tmp_path / CONFIG).write_text(json.dumps(content))
    peer = transformers.BertConfig.from_pretrained(tmp_path)
    shape = read_model(tmp_path).transformer.shape
    assert (shape.activation, shape.norm_eps) == (peer.hidden_act, peer.layer_norm_eps)
    assert (shape.segments, shape.pad_id) == (peer.type_vocab_size, peer.pad_token_id)


@pytest.mark.parametrize("name", NAMED_SHAPES)
def test_published_shapes_survive_saving(name: str, tmp_path: Path) -> None:
    small = {"vocabulary": 40, "width": 12, "layers": 1, "heads": 3, "inner": 48, "positions": 9}
    shape = replace(NAMED_SHAPES[name], **small)
    transformer = Transformer(shape)
    transformer.initialise(torch.Generator().manual_seed(0))
    write_model(tmp_path / "model", Checkpoint(transformer, family_of(shape).name))
    assert read_model(tmp_path / "model").transformer.shape == shape
