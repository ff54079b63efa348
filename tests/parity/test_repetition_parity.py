"""A repetition penalty and banned n-grams give the texts of `transformers.generate`, asked for or set in files."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import heedful
from heedful.errors import RequestError
from heedful.inference.generation import TextGenerator
from heedful.inference.translation.translator import Translator
from tests.support.generation_samples import write_language_model
from tests.support.in_process import answer
from tests.support.marian_samples import SOURCES, make_peer, save_peer

PROMPTS = ["the man", "h", "he said: the the man", "  two\nlines ", "the the the the man man"]
OPTIONS = [
    {"repetition_penalty": 1.3},
    {"repetition_penalty": 0.8},
    {"no_repeat_ngram_size": 1},
    {"no_repeat_ngram_size": 2},
    {"repetition_penalty": 1.1, "no_repeat_ngram_size": 3},
]
NEW = 16


@pytest.fixture(scope="module")
def causal(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("causal") / "gpt2"
    return folder, write_language_model(folder, 1)


def by_the_peer(peer: Any, model: Any, **options: Any) -> tuple[list[list[int]], list[float]]:
    """Prompt by prompt: the peer counts the padding of a batch as tokens that occurred."""
    tokens, scores = [], []
    for prompt in TextGenerator(model).encode(PROMPTS):
        ids = torch.tensor([prompt.ids])
        out = peer.generate(
            input_ids=ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=NEW, eos_token_id=0,
            pad_token_id=1, return_dict_in_generate=True, output_scores=True, **options,
        )  # fmt: skip
        text = out.sequences[0, len(prompt.ids) :].tolist()
        tokens.append(text[: text.index(0) + 1] if 0 in text else text)
        scores += out.sequences_scores.tolist() if "sequences_scores" in out else []
    return tokens, scores


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_causal_texts_are_the_peers(options: dict[str, Any], causal: tuple[Path, Any]) -> None:
    model, peer = heedful.load(causal[0]), causal[1]
    assert model.tokenizer.eos_id == 0
    greedy, _ = by_the_peer(peer, model, **options)
    assert model.generate(PROMPTS, NEW, temperature=0, **options).tokens == greedy
    assert model.generate(PROMPTS, NEW, temperature=0, batch_size=2, **options).tokens == greedy
    assert model.generate(PROMPTS, NEW, beam=1, **options).tokens == greedy
    plain = model.generate(PROMPTS, NEW, temperature=0).tokens
    assert plain != greedy or options == {"repetition_penalty": 0.8}
    for width, alpha in ((2, 1.0), (4, 0.6)):
        beams = {"num_beams": width, "length_penalty": alpha, "early_stopping": "never"}
        tokens, scores = by_the_peer(peer, model, **beams, **options)
        found = model.generate(PROMPTS, NEW, beam=width, length_penalty=alpha, **options)
        assert found.tokens == tokens
        np.testing.assert_allclose([best[0].score for best in found.n_best], scores, atol=1e-5)
        for best in found.n_best:  # log-probabilities are the model's own
            log_p = float(best[0].log_probabilities.sum()) / len(best[0].tokens) ** alpha
            assert (log_p == pytest.approx(best[0].score, abs=1e-9)) == ("repetition_penalty" not in options)


def test_a_causal_models_own_settings_are_honoured_and_kept(causal: tuple[Path, Any], tmp_path: Path) -> None:
    directory = tmp_path / "gpt2"
    shutil.copytree(causal[0], directory)
    usual = heedful.load(directory).generate(PROMPTS, NEW, temperature=0).tokens
    file = directory / "generation_config.json"
    said = {**json.loads(file.read_text()), "repetition_penalty": 1.4, "no_repeat_ngram_size": 2}
    file.write_text(json.dumps(said))
    model = heedful.load(directory)
    options = {"repetition_penalty": 1.4, "no_repeat_ngram_size": 2}
    expected, _ = by_the_peer(causal[1], model, **options)
    assert expected != usual
    assert model.generate(PROMPTS, NEW, temperature=0).tokens == expected
    off = {"repetition_penalty": 1.0, "no_repeat_ngram_size": 0}
    assert model.generate(PROMPTS, NEW, temperature=0, **off).tokens == usual

    model.save(tmp_path / "saved")
    assert json.loads((tmp_path / "saved/generation_config.json").read_text()) == said
    again = heedful.load(tmp_path / "saved")
    assert again.generate(PROMPTS, NEW, temperature=0).tokens == expected
    again.save(tmp_path / "saved")  # it may be replaced

    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps({**config, "no_repeat_ngram_size": 1}))
    assert heedful.load(directory).generate(PROMPTS, NEW, temperature=0).tokens == expected
    file.unlink()  # an older directory has them in config.json
    (directory / "config.json").write_text(json.dumps({**config, **options}))
    assert heedful.load(directory).generate(PROMPTS, NEW, temperature=0).tokens == expected

    file.write_text(json.dumps({"repetition_penalty": 0}))
    wrong = heedful.load(directory)
    with pytest.raises(RequestError, match=r"generation_config\.json: repetition_penalty=0 is not a number above 0"):
        wrong.generate(PROMPTS)
    wrong.generate(PROMPTS, 2, repetition_penalty=1.2)
    with pytest.raises(RequestError, match=r"^no_repeat_ngram_size=-1 is not"):
        wrong.generate(PROMPTS, no_repeat_ngram_size=-1, repetition_penalty=1.0)


def test_the_command_takes_them(
    causal: tuple[Path, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    line = ["generate", str(causal[0]), *PROMPTS, "--max-new-tokens", str(NEW), "--json"]
    options = {"repetition_penalty": 1.3, "no_repeat_ngram_size": 2}
    asked = ["--repetition-penalty", "1.3", "--no-repeat-ngram-size", "2"]
    for method, python in ((["--temperature", "0"], {"temperature": 0}), (["--beam", "3"], {"beam": 3})):
        code, out, _ = answer([*line, *asked, *method], tmp_path, monkeypatch, capfd)
        expected = heedful.load(causal[0]).generate(PROMPTS, NEW, **options, **python)
        assert (code, [text["tokens"] for text in json.loads(out)["texts"]]) == (0, expected.tokens)
    code, _, err = answer([*line, "--repetition-penalty", "0"], tmp_path, monkeypatch, capfd)
    assert code == 2
    assert "repetition_penalty=0.0 is not a number above 0" in err

    save_peer(make_peer(), tmp_path / "marian")
    (tmp_path / "sources.txt").write_text("".join(f"{text}\n" for text in SOURCES))
    code, out, _ = answer(["translate", "marian", "sources.txt", *asked], tmp_path, monkeypatch, capfd)
    texts = translator_in(tmp_path / "marian").translate(SOURCES, **options).texts
    assert (code, out.splitlines()) == (0, [" ".join(text.split()) for text in texts])


def translator_in(directory: Path) -> Translator:
    translator = heedful.load(directory)
    assert isinstance(translator, Translator)
    return translator


def translated_by_the_peer(directory: Path, translator: Translator, **options: Any) -> list[tuple[list[int], Any]]:
    import transformers

    peer = transformers.MarianMTModel.from_pretrained(directory, attn_implementation="eager").eval()
    found, end = [], translator.checkpoint.end_id
    for ids in translator.tokenizers.encode(SOURCES, ()).sources:
        out = peer.generate(
            input_ids=torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long), do_sample=False,
            return_dict_in_generate=True, output_scores=True, **options,
        )  # fmt: skip
        row = out.sequences[0, 1:].tolist()
        score = out.sequences_scores.item() if "sequences_scores" in out else None
        found.append((row[: row.index(end) + 1] if end in row else row, score))
    return found


@pytest.mark.parametrize("renormalised", [False, True])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_translations_are_the_peers(options: dict[str, Any], renormalised: bool, tmp_path: Path) -> None:
    save_peer(make_peer(4), tmp_path)
    path = tmp_path / "generation_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "renormalize_logits": renormalised}))
    translator = translator_in(tmp_path)
    for width in (1, 3):
        beams = {"num_beams": width, **({"early_stopping": "never", "length_penalty": 0.8} if width > 1 else {})}
        expected = translated_by_the_peer(tmp_path, translator, **beams, **options)
        found = translator.translate(SOURCES, beam=width, length_penalty=0.8, stopping="exact", **options)
        assert found.tokens == [ids for ids, _ in expected]
        alone = [translator.translate([text], beam=width, length_penalty=0.8, **options).tokens[0] for text in SOURCES]
        assert alone == found.tokens
        if width > 1:
            np.testing.assert_allclose(found.scores, [score for _, score in expected], atol=1e-5)
    greedy = translated_by_the_peer(tmp_path, translator, num_beams=1, **options)
    assert translator.translate(SOURCES, temperature=0, **options).tokens == [ids for ids, _ in greedy]


@pytest.mark.parametrize("layout", ["marian", "heedful"])
def test_a_translators_own_settings_are_honoured_and_kept(layout: Any, tmp_path: Path) -> None:
    save_peer(make_peer(4), tmp_path / "a")
    usual = translator_in(tmp_path / "a").translate(SOURCES, beam=3)
    path = tmp_path / "a/generation_config.json"
    options = {"repetition_penalty": 1.5, "no_repeat_ngram_size": 2}
    path.write_text(json.dumps({**json.loads(path.read_text()), **options}))
    translator = translator_in(tmp_path / "a")
    beams = {"num_beams": 3, "early_stopping": "never", "length_penalty": 1.0}
    expected = [ids for ids, _ in translated_by_the_peer(tmp_path / "a", translator, **beams)]
    settings = {"beam": 3, "length_penalty": 1.0, "stopping": "exact"}
    assert translator.translate(SOURCES, **settings).tokens == expected
    off = {"repetition_penalty": 1.0, "no_repeat_ngram_size": 0}
    assert np.array_equal(translator.translate(SOURCES, beam=3, **off).scores, usual.scores)
    assert usual.tokens != translator.translate(SOURCES, beam=3).tokens
    translator.save(tmp_path / "b", layout=layout)
    assert translator_in(tmp_path / "b").translate(SOURCES, **settings).tokens == expected
    assert json.loads((tmp_path / "b/generation_config.json").read_text()).items() >= options.items()
    for key, value in (("repetition_penalty", -1), ("no_repeat_ngram_size", 1.5)):
        translator.checkpoint.generation[key] = value
        with pytest.raises(RequestError, match=rf"generation_config\.json: {key} = {value} is not"):
            translator.translate(SOURCES)
        assert len(translator.translate(SOURCES, **off)) == len(SOURCES)  # overruled
        translator.checkpoint.generation[key] = options[key]
