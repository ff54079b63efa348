"""Our own layout of translators: what is saved and read again says the same to the bit; what is wrong is refused."""

import json
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from heedful.checkpoints.directory import read_model
from heedful.checkpoints.finding import fingerprint
from heedful.checkpoints.translators import is_translator, read_translator, write_translator
from heedful.errors import RequestError
from heedful.models.seq2seq.bert_fused import BertFusedSeq2Seq
from heedful.models.seq2seq.shape import RecurrentShape, Seq2SeqShape
from heedful.models.shape import Shape
from heedful.nn.blocks import REFERENCE
from heedful.storage.shared import SharedStore
from tests.support import translator_samples as samples


@pytest.mark.parametrize("kind", samples.KINDS)
def test_saved_and_read_again_it_is_equal_to_the_bit(kind: str, tmp_path: Path) -> None:
    made = samples.make(kind)
    write_translator(tmp_path / "model", made)
    assert is_translator(tmp_path / "model")
    read = read_translator(tmp_path / "model")
    assert type(read.model) is type(made.model)
    assert read.model.shape == made.model.shape
    assert (read.begin_id, read.end_id, read.source_pad_id) == (made.begin_id, made.end_id, made.source_pad_id)
    assert read.tokenizer_fingerprint == made.tokenizer_fingerprint
    assert read.tokenizers.encode(samples.SOURCES, samples.TARGETS) == made.tokenizers.encode(
        samples.SOURCES, samples.TARGETS
    )
    parameters = dict(made.model.named_parameters())
    assert list(parameters) == [name for name, _ in read.model.named_parameters()] == list(parameters)
    for name, p in read.model.named_parameters():
        assert torch.equal(p, parameters[name]), name
        assert p.requires_grad == parameters[name].requires_grad, name
        assert p.stride() == parameters[name].stride(), name  # or sums would be made in another order
    assert torch.equal(samples.scores(read), samples.scores(made))
    assert set(read.sources) == set(parameters)
    write_translator(tmp_path / "again", read)
    for path in sorted(p.relative_to(tmp_path / "model") for p in (tmp_path / "model").rglob("*") if p.is_file()):
        assert (tmp_path / "again" / path).read_bytes() == (tmp_path / "model" / path).read_bytes(), path


@pytest.mark.parametrize("shared", ["none", "output", "all"])
@pytest.mark.parametrize("output_bias", [False, True])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_every_option_of_a_transformer(shared: str, output_bias: bool, norm: str, tmp_path: Path) -> None:
    made = samples.make("post", shared=shared, output_bias=output_bias, norm=norm)
    write_translator(tmp_path, made)
    stored = load_file(tmp_path / "model.safetensors")
    tables = [n for n in stored if "embeddings.token" in n or n == "output.weight"]
    assert len(tables) == {"none": 3, "output": 2, "all": 1}[shared]  # one that is shared is written once
    read = read_translator(tmp_path)
    assert torch.equal(samples.scores(read), samples.scores(made))
    one = read.model.encoder.embeddings.token is read.model.decoder.embeddings.token  # type: ignore[union-attr]
    assert one == (shared == "all")


@pytest.mark.parametrize("cell", ["gru", "lstm"])
@pytest.mark.parametrize("decoder", ["bahdanau", "luong"])
@pytest.mark.parametrize("shared", ["none", "output", "all"])
def test_every_option_of_a_recurrent_one(cell: str, decoder: str, shared: str, tmp_path: Path) -> None:
    made = samples.make("bahdanau gru", cell=cell, decoder=decoder, shared=shared, joint=True)
    write_translator(tmp_path, made)
    assert torch.equal(samples.scores(read_translator(tmp_path)), samples.scores(made))


def test_every_field_of_a_shape_is_a_key(tmp_path: Path) -> None:
    """With none at its default, so that a field that is not written would be noticed."""
    names = {f.name for f in fields(Shape)} - {"pooler"}
    write_translator(tmp_path / "a", samples.make("post"))
    content = json.loads((tmp_path / "a" / "config.json").read_text())
    assert content["heedful"]["format"] == 1
    assert set(content["shape"]) == {f.name for f in fields(Seq2SeqShape)}
    assert set(content["shape"]["source"]) - {"pooler"} == names
    write_translator(tmp_path / "b", samples.make("luong lstm"))
    content = json.loads((tmp_path / "b" / "config.json").read_text())
    assert set(content["shape"]) == {f.name for f in fields(RecurrentShape)}


def test_the_reference_kernels_can_be_asked_for(tmp_path: Path) -> None:
    made = samples.make("fused")
    write_translator(tmp_path, made)
    read = read_translator(tmp_path, REFERENCE)
    assert (samples.scores(read) - samples.scores(made)).abs().max() <= 1e-5


def test_a_longest_text_that_was_noted_is_kept(tmp_path: Path) -> None:
    made = samples.make("wordpiece")
    made.tokenizers.source.max_length, made.tokenizers.target.max_length = 17, 19
    write_translator(tmp_path, made)
    read = read_translator(tmp_path)
    assert (read.tokenizers.source.max_length, read.tokenizers.target.max_length) == (17, 19)


def test_keys_that_do_not_concern_the_computation_are_kept(tmp_path: Path) -> None:
    made = samples.make("post")
    made.extra = {"num_beams": 7, "_name_or_path": "somewhere"}
    write_translator(tmp_path, made)
    assert read_translator(tmp_path).extra == made.extra


def test_the_other_body_is_a_model_directory_of_its_own(tmp_path: Path) -> None:
    made = samples.make("fused")
    write_translator(tmp_path, made)
    body = read_model(tmp_path / "bert", body_only=True)
    assert body.family == "bert"
    assert body.tokenizer is not None
    assert isinstance(made.model, BertFusedSeq2Seq)
    assert torch.equal(body.transformer.body.embeddings.token.weight, made.model.bert.embeddings.token.weight)
    assert not any(name.startswith("bert.") for name in load_file(tmp_path / "model.safetensors"))


def test_what_translators_share_is_one_file(tmp_path: Path) -> None:
    store, made = SharedStore(tmp_path / "store"), samples.make("fused")
    write_translator(tmp_path / "a", made, store)
    other = made.copied()
    with torch.no_grad():
        next(other.model.translator.parameters()).add_(1.0)  # type: ignore[union-attr]
    assert not torch.equal(samples.scores(other), samples.scores(made))
    write_translator(tmp_path / "b", other, store)
    a, b = ((tmp_path / name / "bert" / "model.safetensors").stat().st_ino for name in "ab")
    assert a == b
    assert torch.equal(samples.scores(read_translator(tmp_path / "b")), samples.scores(other))


def test_an_interrupted_save_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = samples.make("post")
    write_translator(tmp_path / "model", made)
    before = {p.name: p.read_bytes() for p in (tmp_path / "model").iterdir()}
    broken = samples.make("post", seed=1)
    monkeypatch.setattr(type(broken.tokenizers), "save", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(Exception, match="what was there before is untouched"):
        write_translator(tmp_path / "model", broken)
    assert {p.name: p.read_bytes() for p in (tmp_path / "model").iterdir()} == before
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def edited(directory: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    path = directory / "config.json"
    content = json.loads(path.read_text())
    edit(content)
    path.write_text(json.dumps(content))


def changed(directory: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> None:
    path = directory / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)


BAD_CONFIGS: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "format": (lambda c: c["heedful"].update(format=2), "heedful.format = 2 is not 1"),
    "no format": (lambda c: c.pop("heedful"), "heedful.format = null"),
    "kind": (lambda c: c.update(kind="rnn"), 'kind = "rnn" is not one of transformer, recurrent'),
    "no shape": (lambda c: c.pop("shape"), "shape is not an object"),
    "a key too many": (lambda c: c["shape"]["source"].update(depth=3), "'depth' is no key of shape.source"),
    "at the top": (lambda c: c.update(depth=3), "'depth' is no key of a translator; remove it"),
    "several": (
        lambda c: c["shape"].update(a=1, b=2), "'a', 'b' are no keys of shape; remove them, or use a newer heedful."
    ),
    **{
        f"start {value!r}": (
            lambda c, value=value: c.update(decoder_start_token_id=value),  # type: ignore[misc]
            f"config.json: decoder_start_token_id = {shown} is not the id of a token; the ids are 0 to",
        )
        for value, shown in ((9999, "9999"), (-1, "-1"), ("x", '"x"'), ([1], "[…]"), (1.5, "1.5"), (True, "true"))
    },
    "hashes": (lambda c: c["heedful"].update(vocabulary_hashes=3), "heedful.vocabulary_hashes is not an object"),
    "head": (lambda c: c.update(head="causal"), "head is known where kind"),
    "missing": (lambda c: c["shape"]["target"].pop("width"), "shape.target.width is missing"),
    "text": (lambda c: c["shape"]["source"].update(width="wide"), 'shape.source.width = "wide" is not a number'),
    "negative": (lambda c: c["shape"]["source"].update(layers=-1), "shape.source.layers = -1 is not a whole number"),
    "huge": (lambda c: c["shape"]["source"].update(layers=10**6), "shape.source.layers = 1000000 is not a whole"),
    "word": (lambda c: c["shape"].update(shared="some"), 'shape.shared = "some" is not supported'),
    "bool": (lambda c: c["shape"].update(output_bias=1), "shape.output_bias = 1 is neither true nor false"),
    "dropout": (lambda c: c["shape"]["source"].update(dropout=1.5), "shape.source.dropout = 1.5 is not between"),
    "contradiction": (lambda c: c["shape"]["source"].update(heads=5), "shape.source.width = 12 is not divisible by"),
    "widths": (lambda c: c["shape"]["target"].update(memory_width=5), "shape.target.memory_width = 5 is not shape"),
    "other sizes": (lambda c: c["shape"]["source"].update(inner=24), "of another shape: encoder.blocks.0.feed_forward"),
    "other vocabulary": (lambda c: c["shape"]["source"].update(vocabulary=99), "of another shape: encoder.embeddings"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_CONFIGS)
def test_a_wrong_config_is_refused_in_words(case: str, tmp_path: Path) -> None:
    write_translator(tmp_path, samples.make("post"))
    edit, words = BAD_CONFIGS[case]
    edited(tmp_path, edit)
    with pytest.raises(RequestError) as refused:
        read_translator(tmp_path)
    assert words in str(refused.value)
    assert str(tmp_path) in str(refused.value)


def test_a_start_token_is_kept(tmp_path: Path) -> None:
    for kind in ("post", "luong lstm", "fused", "decoder-only"):
        made = samples.make(kind)
        made.extra = {"decoder_start_token_id": made.tokenizers.target.size - 1}
        write_translator(tmp_path / kind, made)
        read = read_translator(tmp_path / kind)
        assert read.begin_id == made.begin_id != made.tokenizers.begin_id
        edited(tmp_path / kind, lambda c: c.update(decoder_start_token_id=c["decoder_start_token_id"] + 1))
        with pytest.raises(RequestError, match="is not the id of a token"):
            read_translator(tmp_path / kind)


def with_letters_swapped(path: Path) -> None:
    """Of the same size, but two ids are other letters."""
    content = json.loads(path.read_text())
    vocabulary = content["model"]["vocab"]
    a, b = [token for token in vocabulary if token.isalpha()][:2]
    vocabulary[a], vocabulary[b] = vocabulary[b], vocabulary[a]
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("kind", "file", "side"),
    [
        ("post", "tokenizer.json", "source"),
        ("wordpiece", "tokenizer.json", "source"),
        ("wordpiece", "target/tokenizer.json", "target"),
        ("fused", "bert/tokenizer.json", "BERT"),
    ],
)
def test_the_tokenizer_of_another_model_is_refused(kind: str, file: str, side: str, tmp_path: Path) -> None:
    write_translator(tmp_path, samples.make(kind))
    path = tmp_path / file
    path.write_text(
        json.dumps(json.loads(path.read_text()), indent=7, ensure_ascii=True)
    )  # the same, written otherwise
    read_translator(tmp_path)
    with_letters_swapped(path)
    with pytest.raises(RequestError) as refused:
        read_translator(tmp_path)
    assert str(refused.value).startswith(f"{tmp_path}: the tokenizer of the {side} is not the one with which")
    edited(tmp_path, lambda c: c["heedful"].pop("vocabulary_hashes"))  # as older directories are
    read_translator(tmp_path)


BAD_TENSORS: dict[str, tuple[Callable[[dict[str, torch.Tensor]], Any], str]] = {
    "missing": (lambda t: t.pop("encoder.blocks.0.attention.qkv.bias"), "1 missing: encoder.blocks.0.attention"),
    "without a home": (lambda t: t.update({"decoder.more": torch.zeros(3)}), "1 without a home: decoder.more"),
    "a table twice": (
        lambda t: t.update({"output.weight": torch.zeros(3, 12)}), "1 without a home: output.weight"
    ),
    "nan": (lambda t: t["decoder.blocks.1.feed_forward.up.bias"].fill_(torch.nan), "has 20 NaN or infinite values"),
    "integers": (
        lambda t: t.update({"decoder.blocks.1.feed_forward.up.bias": torch.zeros(20, dtype=torch.long)}),
        "1 not floating-point",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_TENSORS)
def test_tensors_that_do_not_fit_are_refused_in_words(case: str, tmp_path: Path) -> None:
    write_translator(tmp_path, samples.make("post"))
    change, words = BAD_TENSORS[case]
    changed(tmp_path, change)
    with pytest.raises(RequestError) as refused:
        read_translator(tmp_path)
    assert words in str(refused.value)


def test_other_refusals(tmp_path: Path) -> None:
    made = samples.make("wordpiece")
    write_translator(tmp_path / "model", made)
    with pytest.raises(RequestError, match="describes a translator"):
        read_model(tmp_path / "model")
    (tmp_path / "model" / "target" / "tokenizer.json").unlink()
    with pytest.raises(RequestError, match="holds no tokenizer for the target"):
        read_translator(tmp_path / "model")
    write_translator(tmp_path / "other", replace(made, tokenizers=samples.pair_tokenizer("bpe", joint=False)))
    with pytest.raises(RequestError, match=r"the tokenizer of the source has .* entries but the embedding has"):
        read_translator(tmp_path / "other")
    with pytest.raises(RequestError, match="without the tokenizer of its BERT"):
        write_translator(tmp_path / "fused", replace(samples.make("fused"), bert_tokenizer=None))
    (tmp_path / "model" / "letters.txt").write_text("mine")
    with pytest.raises(RequestError, match=r"'letters\.txt', which is not heedful's"):
        write_translator(tmp_path / "model", made)
    assert not is_translator(tmp_path)
    with pytest.raises(RequestError, match=r"has no config\.json"):
        read_translator(tmp_path)


def test_the_fingerprint_covers_all_that_is_read(tmp_path: Path) -> None:
    for kind, files in (("wordpiece", ["target/tokenizer.json"]), ("fused", ["bert/model.safetensors", "config.json"])):
        directory = tmp_path / kind
        write_translator(directory, samples.make(kind))
        seen = {fingerprint(directory)}
        for name in files:
            path = directory / name
            path.write_bytes(path.read_bytes() + b" ")
            seen.add(fingerprint(directory))
        assert len(seen) == 1 + len(files)


def test_a_link_that_leads_out_is_not_followed(tmp_path: Path) -> None:
    write_translator(tmp_path / "model", samples.make("post"))
    (tmp_path / "model" / "config.json").rename(tmp_path / "config.json")
    (tmp_path / "model" / "config.json").symlink_to(tmp_path / "config.json")
    for read in (is_translator, read_translator):
        with pytest.raises(RequestError, match="leads out of the model directory"):
            read(tmp_path / "model")
