"""Marian's layout: ours from the peer's directory, and the peer's from ours, with equal scores and gradients."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import nn

from heedful.checkpoints.translators import TranslatorCheckpoint, read_translator, write_translator
from heedful.checkpoints.translators.marian import stored_tensors, why_not_ctranslate2
from heedful.errors import RequestError
from heedful.models.batch import Batch, pad
from heedful.models.seq2seq.transformer import Seq2SeqTransformer
from tests.support import translator_samples as samples
from tests.support.marian_samples import CASES, SOURCES, TARGETS, make_peer, save_peer

TOLERANCE = 1e-5


def inputs(checkpoint: TranslatorCheckpoint) -> tuple[Batch, Batch]:
    encoded = checkpoint.tokenizers.encode(SOURCES, TARGETS)
    fill = checkpoint.source_pad_id
    targets = [[checkpoint.begin_id, *row[:-1]] for row in encoded.targets]
    return pad(encoded.sources, None, fill, samples.CPU), pad(targets, None, fill, samples.CPU)


def answer(peer: Any, source: Batch, target: Batch) -> torch.Tensor:
    assert source.real_bt is not None
    assert target.real_bt is not None
    return peer(  # type: ignore[no-any-return]
        input_ids=source.ids_bt, attention_mask=source.real_bt.long(), decoder_input_ids=target.ids_bt,
        decoder_attention_mask=target.real_bt.long(),
    ).logits  # fmt: skip


def difference(checkpoint: TranslatorCheckpoint, peer: Any) -> float:
    source, target = inputs(checkpoint)
    with torch.no_grad():
        return float((checkpoint.model(source, target) - answer(peer, source, target))[target.real_bt].abs().max())


@pytest.mark.parametrize("case", CASES)
def test_scores_and_gradients_of_the_peers_directory(case: str, tmp_path: Path) -> None:
    peer = make_peer(**CASES[case])
    read = read_translator(save_peer(peer, tmp_path))
    assert isinstance(read.model, Seq2SeqTransformer)
    assert read.family == "marian"
    assert read.begin_id == peer.config.decoder_start_token_id
    source, target = inputs(read)
    real, generator = target.real_bt, torch.Generator().manual_seed(8)
    found, expected = read.model(source, target), answer(peer, source, target)
    assert (found[real] - expected[real]).abs().max() <= TOLERANCE
    labels = torch.randint(0, 20, (int(real.sum()),), generator=generator)
    for scores in (found, expected):
        nn.functional.cross_entropy(scores[real], labels).backward()
    gradients = {n: p.grad for n, p in read.model.named_parameters() if p.grad is not None}
    ours = stored_tensors(read.model, gradients)
    theirs = dict(peer.named_parameters(remove_duplicate=False))
    for name, gradient in ours.items():
        if name != "final_logits_bias":  # a buffer there
            assert (gradient - theirs[name].grad).abs().max() <= TOLERANCE, name
    compared = {id(theirs[name]) for name in ours if name in theirs}
    assert compared == {id(p) for n, p in theirs.items() if p.requires_grad and p.grad is not None}


@pytest.mark.parametrize("case", CASES)
def test_the_peer_reads_what_we_save(case: str, tmp_path: Path) -> None:
    read = read_translator(save_peer(make_peer(**CASES[case]), tmp_path / "theirs"))
    samples.randomise(read.model, seed=4, sigma=0.15)
    write_translator(tmp_path / "ours", read, layout="marian")
    peer, told = transformers.MarianMTModel.from_pretrained(
        tmp_path / "ours", attn_implementation="eager", output_loading_info=True
    )
    assert not any(told[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert difference(read, peer.eval()) <= TOLERANCE
    again = read_translator(tmp_path / "ours")
    assert again.model.shape == read.model.shape
    assert torch.equal(again.model(*inputs(again)), read.model(*inputs(read)))
    assert (again.extra, again.generation) == (read.extra, read.generation)
    tokenizer = transformers.MarianTokenizer.from_pretrained(tmp_path / "ours")
    assert tokenizer(SOURCES)["input_ids"] == read.tokenizers.encode(SOURCES, TARGETS).sources
    with torch.no_grad():
        next(read.model.parameters()).add_(0.01)
    assert difference(read, peer) > 1e-3  # or the comparison would notice nothing


def test_a_model_without_bias_is_the_peers_too(tmp_path: Path) -> None:
    read = read_translator(save_peer(make_peer(), tmp_path / "theirs"))
    assert isinstance(read.model, Seq2SeqTransformer)
    plain = Seq2SeqTransformer(replace(read.model.shape, output_bias=False))
    samples.randomise(plain, sigma=0.15)
    made = replace(read, model=plain.eval())
    write_translator(tmp_path / "ours", made, layout="marian")
    assert not read_translator(tmp_path / "ours").model.shape.output_bias  # type: ignore[union-attr]
    peer = transformers.MarianMTModel.from_pretrained(tmp_path / "ours", attn_implementation="eager").eval()
    assert not peer.final_logits_bias.any()
    assert difference(made, peer) <= TOLERANCE


def test_older_files_hold_positions_and_copies(tmp_path: Path) -> None:
    peer = make_peer()
    save_peer(peer, tmp_path)
    whole = {name: t.clone() for name, t in peer.state_dict().items()}
    assert {"model.encoder.embed_positions.weight", "lm_head.weight", "model.decoder.embed_tokens.weight"} <= set(whole)
    (tmp_path / "model.safetensors").unlink()
    torch.save(whole, tmp_path / "pytorch_model.bin")
    assert difference(read_translator(tmp_path), peer) <= TOLERANCE
    for name, words in (
        ("lm_head.weight", "lm_head.weight is not equal to model.shared.weight"),
        ("model.decoder.embed_positions.weight", "holds other positions than Marian's sines"),
    ):
        torch.save({**whole, name: whole[name] + 0.1}, tmp_path / "pytorch_model.bin")
        with pytest.raises(RequestError, match=words):
            read_translator(tmp_path)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "wiring": ({"normalize_before": True}, "normalize_before = true is not supported; only False is"),
    "ties": ({"tie_word_embeddings": False}, "releases of transformers do not agree"),
    "unknown": ({"rotary": True}, "'rotary' is not supported for marian"),
    "several": ({"rotary": True, "alibi": True}, "'alibi', 'rotary' are not supported for marian"),
    "layer drop": ({"encoder_layerdrop": 0.1}, "encoder_layerdrop = 0.1 is not supported"),
    "sizes": ({"encoder_ffn_dim": 44}, "of another shape: model.encoder.layers.0.fc1.weight"),
    "heads": ({"decoder_attention_heads": 5}, "d_model = 32 is not divisible by decoder_attention_heads = 5"),
    "layers": ({"decoder_layers": 3}, "26 missing: model.decoder.layers.2.self_attn.q_proj.weight"),
    "fewer layers": ({"decoder_layers": 1}, "26 without a home: model.decoder.layers.1."),
    "start": ({"decoder_start_token_id": 99}, "decoder_start_token_id = 99 is not the id of a token"),
    "activation": ({"activation_function": "mish"}, 'activation_function = "mish" is not supported'),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_not_supported_is_refused(case: str, tmp_path: Path) -> None:
    save_peer(make_peer(), tmp_path)
    changes, words = BAD[case]
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(RequestError) as refused:
        read_translator(tmp_path)
    assert words in str(refused.value)


def test_not_a_number_is_refused(tmp_path: Path) -> None:
    save_peer(make_peer(), tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    tensors["final_logits_bias"][0, 3] = torch.nan
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(RequestError, match="final_logits_bias has 1 NaN"):
        read_translator(tmp_path)


def widened(read: TranslatorCheckpoint, **changes: Any) -> TranslatorCheckpoint:
    assert isinstance(read.model, Seq2SeqTransformer)
    shape = read.model.shape
    both = replace(shape, source=replace(shape.source, **changes), target=replace(shape.target, **changes))
    model = Seq2SeqTransformer(both)
    samples.randomise(model)
    return replace(read, model=model.eval())


CANNOT: dict[str, tuple[Callable[[TranslatorCheckpoint], TranslatorCheckpoint], str]] = {
    "pre-norm": (lambda read: widened(read, norm="pre"), "source.norm = pre"),
    "positions": (lambda read: widened(read, position_kind="sinusoidal"), "source.position_kind = sinusoidal"),
    "rotary": (lambda read: widened(read, attention="rotary"), "source.attention = rotary"),
    "eps": (lambda read: widened(read, norm_eps=1e-6), "source.norm_eps = 1e-06"),
    "recurrent": (lambda _: samples.make("luong gru"), "transformers with encoder and decoder alone"),
    "tokenizers": (lambda _: samples.make("one table"), "SentencePiece models, source.spm and target.spm"),
}  # fmt: skip


@pytest.mark.parametrize("case", CANNOT)
def test_what_marian_cannot_say_is_refused_and_saved_in_our_own(case: str, tmp_path: Path) -> None:
    make, words = CANNOT[case]
    made = make(read_translator(save_peer(make_peer(), tmp_path / "theirs")))
    with pytest.raises(RequestError, match="cannot be written in Marian's layout") as refused:
        write_translator(tmp_path / "ours", made, layout="marian")
    assert words in str(refused.value)
    write_translator(tmp_path / "ours", made)
    read = read_translator(tmp_path / "ours")
    assert read.family == "heedful"
    source, target = samples.batches(made)
    assert torch.equal(read.model(source, target), made.model(source, target))
    assert read.begin_id == made.begin_id


def test_how_weights_were_drawn_does_not_matter(tmp_path: Path) -> None:
    read = read_translator(save_peer(make_peer(), tmp_path / "theirs"))
    assert isinstance(read.model, Seq2SeqTransformer)
    drawn = Seq2SeqTransformer(replace(read.model.shape, initial="glorot")).eval()
    drawn.initialise(torch.Generator().manual_seed(2))
    made = replace(read, model=drawn)
    write_translator(tmp_path / "ours", made, layout="marian")
    again = read_translator(tmp_path / "ours")
    assert torch.equal(again.model(*inputs(again)), drawn(*inputs(made)))


def test_what_can_be_said_in_marians_layout_is_and_can_be_saved_in_ours(tmp_path: Path) -> None:
    read = read_translator(save_peer(make_peer(), tmp_path / "theirs"))
    write_translator(tmp_path / "a", read)
    assert json.loads((tmp_path / "a" / "config.json").read_text())["model_type"] == "marian"
    write_translator(tmp_path / "b", read, layout="heedful")
    again = read_translator(tmp_path / "b")
    assert again.family == "heedful"
    assert again.generation == read.generation
    assert torch.equal(again.model(*inputs(again)), read.model(*inputs(read)))


def test_what_ctranslate2_would_read_otherwise_is_said(tmp_path: Path) -> None:
    for name, peer, words in (
        ("zero", make_peer(zero_start=True), ""),
        ("trained", make_peer(), "starts from a row of zeros"),
        ("apart", make_peer(**CASES["apart"]), "one vocabulary for both sides"),
        ("heads", make_peer(zero_start=True, decoder_attention_heads=2), "one number of heads"),
    ):
        found = why_not_ctranslate2(read_translator(save_peer(peer, tmp_path / name)))
        assert words in found, name
        assert bool(words) == bool(found)


def test_ctranslate2_does_not_convert_our_own_layout(tmp_path: Path) -> None:
    read = read_translator(save_peer(make_peer(zero_start=True), tmp_path / "theirs"))
    for layout, words in (("marian", ""), ("heedful", 'heedful\'s own; save it with layout="marian"')):
        write_translator(tmp_path / layout, read, layout=layout)  # type: ignore[arg-type]
        found = why_not_ctranslate2(read_translator(tmp_path / layout))
        assert found.endswith(words)
        assert bool(words) == bool(found)


def with_ids_swapped(directory: Path) -> None:
    path = directory / "vocab.json"
    vocabulary = json.loads(path.read_text())
    vocabulary["a"], vocabulary["b"] = vocabulary["b"], vocabulary["a"]
    path.write_text(json.dumps(vocabulary))


def with_the_targets_pieces(directory: Path) -> None:
    (directory / "source.spm").write_bytes((directory / "target.spm").read_bytes())


@pytest.mark.parametrize("layout", ["marian", "heedful"])
@pytest.mark.parametrize(
    ("swap", "words", "key"),
    [
        (with_ids_swapped, "the same id is another token", "vocabulary_hashes"),
        (with_the_targets_pieces, "it cuts texts into other pieces", "piece_hashes"),
    ],
)
def test_the_tokenizer_of_another_model_is_refused(
    swap: Callable[[Path], None], words: str, key: str, layout: Any, tmp_path: Path
) -> None:
    """But in a directory that others wrote, which says nothing of its tokenizers."""
    theirs = save_peer(make_peer(), tmp_path / "theirs")
    write_translator(tmp_path / "ours", read_translator(theirs), layout=layout)
    swap(theirs)
    read_translator(theirs)
    swap(tmp_path / "ours")
    with pytest.raises(RequestError) as refused:
        read_translator(tmp_path / "ours")
    assert f"the tokenizer of the source is not the one with which this model was saved: {words}" in str(refused.value)
    path = tmp_path / "ours" / "config.json"
    config = json.loads(path.read_text())
    del config["heedful"][key]
    path.write_text(json.dumps(config))
    read_translator(tmp_path / "ours")


def test_what_the_peer_reads_of_us_and_saves_again_is_not_refused(tmp_path: Path) -> None:
    write_translator(tmp_path / "ours", read_translator(save_peer(make_peer(), tmp_path / "theirs")))
    for loaded in (transformers.MarianMTModel, transformers.MarianTokenizer):
        loaded.from_pretrained(tmp_path / "ours").save_pretrained(tmp_path / "again")
    noted, again = (json.loads((tmp_path / name / "config.json").read_text()) for name in ("ours", "again"))
    assert again["heedful"] == noted["heedful"]
    read_translator(tmp_path / "again")


@pytest.mark.parametrize(
    ("note", "words"),
    [(3, "heedful is not an object"), ({"vocabulary_hashes": 3}, "heedful.vocabulary_hashes is not an object")],
)
def test_a_damaged_note_on_tokenizers_is_refused(note: Any, words: str, tmp_path: Path) -> None:
    path = save_peer(make_peer(), tmp_path) / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "heedful": note}))
    with pytest.raises(RequestError, match=words):
        read_translator(tmp_path)
