"""Translating: every kind of model, batches that change nothing, scores that are what they say, clear refusals."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import heedful
from heedful.checkpoints.translators import write_translator
from heedful.cli.main import main
from heedful.cli.probe_attention import describe
from heedful.errors import RequestError
from heedful.inference.batching import BatchRule, batches
from heedful.inference.translation.translator import Translator
from heedful.models.batch import Batch
from heedful.models.seq2seq.decoder_only import DecoderOnly
from heedful.probes.attention.translation import look
from tests.support import translator_samples as samples

TEXTS = ["the cat sat on the mat", "a dog", "", "the dog sat on a cat", "mat", "  ", "the cat ran"]
SHORT = {"max_length": 12}


def made(kind: str, seed: int = 0, **changes: Any) -> Translator:
    return Translator(samples.make(kind, seed, **changes), kind)


@pytest.mark.parametrize("kind", samples.KINDS)
def test_saved_and_loaded_it_translates_equally_to_the_bit(kind: str, tmp_path: Path) -> None:
    translator = made(kind)
    translator.save(tmp_path)
    loaded = heedful.load(tmp_path)
    assert isinstance(loaded, Translator)
    a, b = (t.translate(TEXTS, beam=3, n_best=2, **SHORT) for t in (translator, loaded))
    assert a.texts == b.texts
    assert [[one.tokens for one in row] for row in a.n_best] == [[one.tokens for one in row] for row in b.n_best]
    assert all(np.array_equal(x, y) for x, y in zip(a.log_probabilities, b.log_probabilities, strict=True))
    assert np.array_equal(a.scores, b.scores)
    assert len(set(a.scores)) > 4  # or all would be equal whatever was read


@pytest.mark.parametrize("kind", ["post", "luong lstm", "fused", "decoder-only rotary", "wider source"])
@pytest.mark.parametrize("options", [{"beam": 3}, {"beam": 1}, {"temperature": 1.0, "seed": 4}])
def test_batches_do_not_change_the_translations(kind: str, options: dict[str, Any]) -> None:
    translator = made(kind)
    together = translator.translate(TEXTS, **options, **SHORT)
    for sizes in ({"batch_size": 1}, {"batch_size": 3}, {"batch_tokens": 30}):
        again = translator.translate(TEXTS, **options, **SHORT, **sizes)
        assert again.texts == together.texts
        assert again.tokens == together.tokens
        np.testing.assert_allclose(again.scores, together.scores, atol=1e-5)
    if "seed" not in options:  # draws hang on the number of the row
        order = [4, 0, 6, 2, 1, 5, 3]
        turned = translator.translate([TEXTS[i] for i in order], **options, **SHORT)
        assert turned.texts == [together.texts[i] for i in order]


def test_empty_texts_stay_empty() -> None:
    found = made("post").translate(["", "a dog", " \t"], **SHORT)
    assert (found.texts[0], found.texts[2]) == ("", "")
    assert (found.reasons[0], found.reasons[2]) == ("empty", "empty")
    assert found.texts[1]
    assert made("post").translate([]).texts == []


@pytest.mark.parametrize("kind", ["post", "one table", "bahdanau gru", "fused and tuned", "decoder-only"])
def test_log_likelihoods_are_those_of_translating(kind: str) -> None:
    """Forced token by token, a target has the probabilities that it is scored with."""
    translator = made(kind)
    sources = ["the cat sat", "a dog ran", "mat"]
    whole = translator.score(sources, ["ein Hund", "", "die Matte saß auf der Katze"])
    for row, (source, target) in enumerate(zip(sources, ["ein Hund", "", "die Matte saß auf der Katze"], strict=True)):
        alone = translator.score([source], [target])
        np.testing.assert_allclose(whole.log_probabilities[row], alone.log_probabilities[0], atol=1e-5)
        assert whole.log_likelihoods[row] == whole.log_probabilities[row].sum()
        assert len(whole.log_probabilities[row]) == len(target) + 1
        forced = translator.translate([source], beam=1, prefix=target, max_length=len(target) + 1)
        np.testing.assert_allclose(forced.log_probabilities[0][:-1], whole.log_probabilities[row][:-1], atol=1e-5)
        assert forced.texts[0].startswith(target)


@pytest.mark.parametrize("kind", ["post", "luong lstm", "fused", "decoder-only"])
def test_a_coverage_penalty_counts_the_attention(kind: str) -> None:
    translator, source = made(kind, seed=1), "the cat sat on the mat"
    beta, alpha = 0.7, 0.5
    found = translator.translate([source, "a dog"], beam=3, n_best=3, coverage=beta, length_penalty=alpha, max_length=7)
    for one in found.n_best[0]:
        assert translator.tokenizers.encode([], [one.text]).targets[0][: len(one.tokens)] == one.tokens
        weights = translator.attention(source, one.text).weights[: len(one.tokens)]
        cp = beta * np.log(np.minimum(weights.sum(axis=0), 1)).sum()
        assert one.score == pytest.approx(one.log_probabilities.sum() / len(one.tokens) ** alpha + cp, abs=1e-4)
    plain = translator.translate([source], beam=3, n_best=3, length_penalty=alpha, max_length=7)
    one = plain.n_best[0][0]
    assert one.score == pytest.approx(one.log_probabilities.sum() / len(one.tokens) ** alpha, abs=1e-6)
    assert [x.score for x in plain.n_best[0]] != [x.score for x in found.n_best[0]]


def test_attention_is_a_row_for_each_target_token() -> None:
    for kind in ("post", "bahdanau gru", "fused"):
        seen = made(kind).attention("a dog", "ein Hund")
        assert seen.source_tokens == [*"a dog", "[EOS]"]
        assert seen.target_tokens == [*"ein Hund", "[EOS]"]
        assert seen.weights.shape == (9, 6)
        np.testing.assert_allclose(seen.weights.sum(axis=1), 1, atol=1e-5)
        other = made(kind).attention("a dog", "ein Hand")
        np.testing.assert_allclose(other.weights[:6], seen.weights[:6], atol=1e-6)  # a token sees none to come
        assert np.abs(other.weights[8] - seen.weights[8]).max() > 1e-4
    own = made("post").attention("a dog")
    assert own.weights.shape[0] == len(own.target_tokens)


def test_lengths_are_kept() -> None:
    translator = made("post")
    found = translator.translate(TEXTS[:2], beam=4, n_best=4, min_length=5, max_length=9)
    for row in found.n_best:
        for one in row:
            assert 5 < len(one.tokens) <= 9 or (one.reason == "max_length" and len(one.tokens) == 9)
            assert (one.reason == "max_length") == (one.tokens[-1] != translator.checkpoint.end_id)
            assert not {translator.checkpoint.begin_id, translator.checkpoint.target_pad_id} & set(one.tokens)


def test_draws_hang_on_seed_row_and_token_alone() -> None:
    translator = made("post")
    first = translator.translate(TEXTS, temperature=1.5, seed=1, **SHORT)
    assert translator.translate(TEXTS, temperature=1.5, seed=1, **SHORT).texts == first.texts
    assert translator.translate(TEXTS, temperature=1.5, seed=2, **SHORT).texts != first.texts
    greedy = translator.translate(TEXTS, temperature=0, **SHORT)
    assert greedy.texts == translator.translate(TEXTS, beam=1, **SHORT).texts
    assert greedy.texts == translator.translate(TEXTS, top_k=1, **SHORT).texts


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"beam": 0}, "beam=0 is not a whole number from 1"),
        ({"beam": 2, "n_best": 3}, "n_best=3"),
        ({"beam": 2, "temperature": 0.5}, "beam=2 is for beam search, and temperature for sampling"),
        ({"seed": 3}, "seed=3 has no effect with beam search"),
        ({"max_length": 0}, "max_length=0 is not a whole number"),
        ({"max_length": 99}, "writes at most 40 tokens"),
        ({"min_length": 50}, "min_length=50 is not a whole number from 0 to max_length"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"prefix": ["a", "b"]}, "neither one text nor a list of 1"),
        ({"prefix": "a", "top_k": 2}, "prefix needs beam search"),
        ({"prefix": "a" * 50}, "the prefix has 50 tokens, and a translation has room for 40; shorten it (prefix=…"),
        ({"coverage": float("nan")}, "coverage=nan is not a number from 0; 0 leaves it out"),
        ({"n_best": "x"}, "n_best='x' is not a whole number"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError) as refused:
        made("post").translate(["a dog"], **options)
    assert words in str(refused.value)


def test_refusals_name_the_callers_row() -> None:
    """Not the place in a batch, where the longest stands first."""
    texts, prefixes = ["a", "the cat sat", "a dog ran", "mat", "the dog"], ["a"] * 5
    for row in range(5):
        wrong = [*prefixes[:row], "a" * 9, *prefixes[row + 1 :]]
        for size in (1, 2, 32):
            with pytest.raises(RequestError, match=f"the prefix of row {row} has 9 tokens"):
                made("post").translate(texts, prefix=wrong, max_length=5, batch_size=size)


def test_the_model_is_called_as_the_user_called_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made("post").save(tmp_path / "runs" / "best")
    monkeypatch.chdir(tmp_path)
    loaded: Any = heedful.load("runs/best")
    with pytest.raises(RequestError, match="max_length=99: runs/best writes at most 40 tokens; ask for fewer"):
        loaded.translate(["a"], max_length=99)


def test_the_lowest_temperature_is_greedy() -> None:
    translator = made("post")
    greedy = translator.translate(TEXTS, beam=1, **SHORT)
    for temperature in (1e-30, 1e-46, 1e-300):
        assert translator.translate(TEXTS, temperature=temperature, seed=3, **SHORT).tokens == greedy.tokens


def test_texts_that_cannot_be_translated_are_refused() -> None:
    translator = made("post")
    for texts, words in (
        ("a dog", "put the one text in a list"),
        ([1], "Row 0 of the texts is int"),
        (["a", "a" * 40], "row 1 of the texts has 41 tokens, and the model reads at most 40"),
        (["a \ud800"], "half a surrogate pair"),
    ):
        with pytest.raises(RequestError, match=words):
            translator.translate(texts)  # type: ignore[arg-type]
    assert translator.translate(["a" * 39], **SHORT).texts
    fused = made("fused", positions=200)
    with pytest.raises(RequestError, match="tokens for its BERT, which reads at most 50"):
        fused.translate(["a " * 60])
    with pytest.raises(RequestError, match="row 0 of the targets has 61 tokens"):
        translator.score(["a"], ["a" * 60])
    with pytest.raises(RequestError, match="a target for each source"):
        translator.score(["a"], [])
    with pytest.raises(RequestError, match="the source is empty"):
        translator.attention(" ")
    with pytest.raises(RequestError, match="prefix '猫' has characters that this model's tokenizer does not know"):
        translator.translate(["a"], prefix="猫")
    refused = {
        "predict": "give texts labels",
        "encode": "give features of texts",
        "generate": "continue texts",
        "load_adapter": "carry adapters",
    }
    for verb, words in refused.items():
        with pytest.raises(RequestError, match=f"is a translation model, which cannot {words}. Use it with translate"):
            getattr(translator, verb)(["a"])


def test_source_and_target_share_the_room_of_a_language_model() -> None:
    translator = made("decoder-only")  # 80 positions
    assert translator.translate(["a" * 39]).texts
    with pytest.raises(RequestError, match="has 41 tokens, and the model reads at most 40"):
        translator.translate(["a" * 40])
    assert translator.translate(["a" * 60], max_length=15).texts
    with pytest.raises(RequestError, match="the model reads at most 65"):
        translator.translate(["a" * 65], max_length=15)
    with pytest.raises(RequestError, match="reads at most 19"):
        translator.score(["a" * 60], ["b" * 19])
    assert translator.score(["a" * 60], ["b" * 18]).log_likelihoods[0] < 0


def test_rows_of_similar_length_stand_together() -> None:
    lengths = [3, 9, 1, 9, 2, 8, 30]
    found = list(batches(lengths, BatchRule(3, 20)))
    assert sorted(row for rows in found for row in rows) == list(range(7))
    assert found[0] == [6]  # longer than a batch alone
    for rows in found[1:]:
        assert len(rows) <= 3
        assert len(rows) * max(lengths[row] for row in rows) <= 20


def test_loading_says_what_a_translator_has_not(tmp_path: Path) -> None:
    write_translator(tmp_path, samples.make("post"))
    with pytest.raises(RequestError, match="is a translation model, which has no heads"):
        heedful.load(tmp_path, body_only=True)
    translator = heedful.load(tmp_path)
    assert "transformer" in repr(translator)
    assert isinstance(translator, heedful.Translator)
    shown = repr(translator.translate(["a dog"], beam=2, n_best=2, max_length=5))
    assert shown.startswith("<1 translation>\n'a dog' → ")
    assert "  2. " in shown


@pytest.mark.parametrize("kind", ["decoder-only", "decoder-only rotary"])
def test_a_decoder_alone_shows_what_all_its_heads_give_to_the_source(kind: str) -> None:
    """The same as its body has for the whole text, without the target's columns."""
    translator = made(kind)
    model = translator.checkpoint.model
    assert isinstance(model, DecoderOnly)
    given, target = translator.encode_pair("a dog", "ein Hund")
    whole = [*given.ids, translator.checkpoint.begin_id, *target[:-1]]
    with torch.inference_mode():
        states = model.transformer.body(Batch(torch.tensor([whole])), None, True)
    full, s = np.stack([weights[0].numpy() for weights in states.weights]), len(given.ids)
    seen = look(translator, "a dog", "ein Hund")
    (view,) = seen.views
    assert view.weights.shape == (2, 3, len(target), s)
    np.testing.assert_allclose(view.weights, full[:, :, s:, :s], atol=1e-6)
    np.testing.assert_allclose(view.weights.sum(-1) + full[:, :, s:, s:].sum(-1), 1, atol=1e-6)
    assert "what is missing to 1 went to the translation" in seen.notes[-1]


def test_one_token_is_said_to_be_one() -> None:
    (line, *_) = describe(look(made("post"), "a dog", ""))
    assert line.endswith(", 1 token looking at 6, 2 × 3 heads")


@pytest.mark.parametrize("kind", ["post", "luong lstm", "fused", "decoder-only"])
def test_the_page_shows_the_attention(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    translator = made(kind)
    translator.save(tmp_path / "model")
    page, arrays = tmp_path / "page.html", tmp_path / "arrays.npz"
    line = ["probe", "attention", tmp_path / "model", "a dog", "ein Hund", "--out", page, "--arrays", arrays]
    monkeypatch.setattr("sys.argv", ["heedful", *map(str, line)])
    with pytest.raises(SystemExit) as stop:
        main()
    assert not stop.value.code, capsys.readouterr().err
    stored = np.load(arrays)
    weights, expected = stored["memory.weights"], translator.attention("a dog", "ein Hund")
    np.testing.assert_allclose(weights[-1].mean(axis=0), expected.weights, atol=1e-6)
    assert list(stored["memory.rows.pieces"]) == expected.target_tokens
    assert list(stored["memory.columns.pieces"]) == expected.source_tokens
    assert "looking at the source" in page.read_text(encoding="utf-8")
    heads = "1 head" if kind == "luong lstm" else "2 × 3 heads"
    assert f"the translation looking at the source, 9 tokens looking at 6, {heads}\n" in capsys.readouterr().out
    for further, words in ((["--head", "x"], "which has no heads"), ([], "")):
        other = tmp_path / "other.html"
        monkeypatch.setattr("sys.argv", ["heedful", *map(str, [*line[:4], "--out", other, *further])])
        with pytest.raises(SystemExit) as stop:
            main()
        assert bool(stop.value.code) == bool(words)
        said = capsys.readouterr()
        assert words in said.err
    assert "model's own" in said.out
