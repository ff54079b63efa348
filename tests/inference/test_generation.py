"""`Model.generate`: texts that hang on seed, row and token alone, odd prompts, and clear refusals."""

from pathlib import Path

import numpy as np
import pytest

import heedful
from heedful import RequestError
from heedful.decoding.beam import beam_search
from heedful.decoding.settings import Beam
from heedful.inference.generation import TextGenerator
from heedful.inference.model import Model
from heedful.models.next_token import NextToken
from tests.support import peers
from tests.support.generation_samples import write_language_model

PROMPTS = ["the man", "h", "he\nthe", "東京 🙂", "", " the the the man he he he"]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("generating") / "tiny"
    write_language_model(folder)
    return folder


@pytest.fixture(scope="module")
def model(directory: Path) -> Model:
    loaded = heedful.load(directory)
    assert isinstance(loaded, Model)
    return loaded


@pytest.mark.parametrize("options", [{"temperature": 0}, {"seed": 4}, {"temperature": 0.8, "top_k": 40, "top_p": 0.9}])
def test_batches_do_not_change_the_texts(model: Model, options: dict[str, float]) -> None:
    expected = model.generate(PROMPTS, 20, **options)
    assert expected.prompts == PROMPTS
    assert all(len(log_p) == len(ids) for log_p, ids in zip(expected.log_probabilities, expected.tokens, strict=True))
    for batch_size in (1, 2, 100):
        other = model.generate(PROMPTS, 20, batch_size=batch_size, **options)
        assert (other.tokens, other.texts, other.reasons) == (expected.tokens, expected.texts, expected.reasons)
        for a, b in zip(other.log_probabilities, expected.log_probabilities, strict=True):
            assert np.abs(a - b).max() <= 1e-5


def test_seeds_and_rows_draw_other_texts(model: Model) -> None:
    same = model.generate(["the"] * 5, 12, seed=1)
    assert len(set(map(tuple, same.tokens))) == 5
    assert model.generate(["the"] * 5, 12, seed=1).tokens == same.tokens
    assert model.generate(["the"], 12, seed=2).tokens[0] not in same.tokens


def test_training_mode_is_left_as_it_was_and_does_not_leak(directory: Path) -> None:
    model = heedful.load(directory)
    expected = model.generate(PROMPTS, 8).tokens
    model.transformer.train()
    assert model.generate(PROMPTS, 8).tokens == expected
    assert model.transformer.training


def test_texts_end_at_what_the_model_reads(model: Model) -> None:
    assert model.max_length == 64
    long = "h" * 60
    written = model.generate([long, "h" * 64, "h"], 10, min_new_tokens=10, seed=3)
    assert [len(ids) for ids in written.tokens] == [4, 0, 10]
    assert written.reasons == ["max_length", "max_length", "max_new_tokens"]
    assert written.texts[1] == ""


def test_a_stop_token_is_in_the_tokens_and_not_in_the_text(model: Model) -> None:
    whole = model.generate(["the man"], 20, temperature=0)
    at = 6
    token = whole.tokens[0][at]
    assert token not in whole.tokens[0][:at]
    spelled = model.tokenizer.token(token)
    for stop in ([token], [spelled], [5, token] if 5 not in whole.tokens[0] else [token]):
        cut = model.generate(["the man"], 20, temperature=0, stop=stop)
        assert cut.tokens[0] == whole.tokens[0][: at + 1]
        assert cut.reasons == ["stop"]
        assert cut.texts[0] == model.tokenizer.decode(whole.tokens[0][:at])


def test_a_stop_token_may_be_named_by_its_text(model: Model) -> None:
    by_text = model.generate(["h"] * 30, 40, stop=["\n", " the"], seed=5)
    ids = {model.tokenizer.id("Ċ"), model.tokenizer.id("Ġthe")}
    by_id = model.generate(["h"] * 30, 40, stop=ids, seed=5)
    assert by_text.tokens == by_id.tokens
    assert {row[-1] for row, reason in zip(by_id.tokens, by_id.reasons, strict=True) if reason == "stop"} & ids


def test_the_end_of_a_text_ends_it(directory: Path) -> None:
    model = heedful.load(directory)
    end = model.tokenizer.eos_id
    texts = model.generate(["h"] * 40, 60, seed=1)
    ended = [ids for ids, reason in zip(texts.tokens, texts.reasons, strict=True) if reason == "stop"]
    assert ended
    assert all(ids.index(end) == len(ids) - 1 for ids in ended)
    assert not any("endoftext" in text for text in texts.texts)


def test_pieces_of_text_are_told_and_lose_nothing(model: Model) -> None:
    told: dict[int, str] = dict.fromkeys(range(len(PROMPTS)), "")

    def add(row: int, piece: str) -> None:
        assert piece
        told[row] += piece

    written = model.generate(PROMPTS, 40, seed=6, batch_size=4, on_text=add)
    assert list(told.values()) == written.texts


def test_it_shows_itself(model: Model) -> None:
    written = model.generate(["the man", "h" * 50], 5, temperature=0)
    lines = repr(written).splitlines()
    assert lines[0] == "<2 generated texts>"
    assert len(lines) == 3
    assert lines[1].startswith("'the man' → ")
    assert (
        f"{written.texts[0]!r} (5 tokens, log p {written.log_probabilities[0].sum():.2f}, max_new_tokens)" in lines[1]
    )
    assert lines[2].startswith(f"'…{'h' * 40}' → ")
    assert repr(model.generate([])) == "<0 generated texts>"


def test_beam_search_gives_the_best_texts(model: Model) -> None:
    written = model.generate(PROMPTS, 12, beam=4, n_best=3, length_penalty=0.6)
    assert (written.prompts, len(written)) == (PROMPTS, len(PROMPTS))
    writer = TextGenerator(model)
    read, limits = NextToken(model.transformer, "causal"), writer.limits(12)
    expected = beam_search(read, [prompt.ids for prompt in writer.encode(PROMPTS)], Beam(4, 3, 0.6), limits)
    for row, (ranked, texts) in enumerate(zip(written.n_best, expected, strict=True)):
        assert [one.tokens for one in ranked] == [text.ids for text in texts]
        assert [one.score for one in ranked] == pytest.approx([text.score for text in texts], abs=1e-5)
        best = ranked[0]
        assert (written.texts[row], written.tokens[row], written.reasons[row]) == (best.text, best.tokens, best.reason)
        assert (written.log_probabilities[row] == best.log_probabilities).all()
        for one in ranked:
            assert one.score == pytest.approx(one.log_probabilities.sum() / len(one.tokens) ** 0.6, abs=1e-9)
            assert one.text.endswith(model.tokenizer.decode(one.tokens[: -1 if one.reason == "stop" else None]))
    assert model.generate(PROMPTS, 12, beam=4, length_penalty=0.6).tokens == written.tokens
    assert model.generate(PROMPTS, 12, beam=4, length_penalty=0.6, batch_size=2).tokens == written.tokens
    assert model.generate(PROMPTS, 12, beam=1).tokens == model.generate(PROMPTS, 12, temperature=0).tokens
    assert model.generate(PROMPTS, 12, temperature=0).n_best == []
    assert model.generate([], beam=2).n_best == []


def test_beam_search_shows_and_tells_its_texts(model: Model) -> None:
    told: list[tuple[int, str]] = []
    prompts = ["the man", "he"]
    written = model.generate(prompts, 6, beam=3, n_best=2, on_text=lambda *piece: told.append(piece))
    assert sorted(told) == list(enumerate(written.texts))
    lines = repr(written).splitlines()
    assert lines[0] == "<2 generated texts>"
    assert len(lines) == 5
    second = written.n_best[0][1]
    assert lines[2].startswith(f"  2. {second.text!r} ({len(second.tokens)} tokens, log p ")


def test_adapters_are_used(directory: Path, tmp_path: Path) -> None:
    """A head reads through its own, or through those that are named; afterwards all is as it was."""
    peft = pytest.importorskip("peft")
    import torch
    import transformers

    base = transformers.GPT2LMHeadModel.from_pretrained(directory)
    config = peft.LoraConfig(r=4, target_modules=["c_attn"], init_lora_weights=False, fan_in_fan_out=True)
    torch.manual_seed(0)
    changed = peft.get_peft_model(base, config).eval()
    changed.save_pretrained(tmp_path / "lora")
    model = heedful.load(directory)
    before = model.generate(["the man"], 12, temperature=0).tokens
    model.load_adapter(tmp_path / "lora", "low")
    assert model.generate(["the man"], 12, temperature=0).tokens == before
    ids = torch.tensor([model.tokenizer.encode(["the man"])[0].ids])
    with torch.no_grad():
        out = changed.generate(
            input_ids=ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=12, pad_token_id=0
        )
    ours = model.generate(["the man"], 12, temperature=0, adapters="low").tokens[0]
    assert ours == out[0, ids.shape[1] :].tolist()
    assert ours != before[0]
    assert model.active is None


@pytest.mark.parametrize(
    ("prompts", "options", "words"),
    [
        ("the", {}, "put the one prompt in a list"),
        (3, {}, "put the one prompt in a list"),
        (["a", 3], {}, "Row 1 of the texts is int"),
        (["a", ("b", "c")], {}, "Row 1 of the prompts is a pair"),
        (["a", "\ud800"], {}, "half a surrogate pair"),
        (["a", "h" * 65], {}, "row 1 of the prompts has 65 tokens, and .* reads at most 64; shorten it"),
        (["a"], {"stop": "x"}, "Put the token in a list"),
        (["a"], {"stop": [9999]}, "has no token 9999; the ids are 0 to 262"),
        (["a"], {"stop": ["two words"]}, "'two words' is not one token"),
        (["a"], {"stop": [""]}, "'' is not one token"),
        (["a"], {"stop": [1.5]}, "neither a token nor the id"),
        (["a"], {"batch_size": 0}, "batch_size=0"),
        (["a"], {"temperature": -1}, "temperature=-1"),
        (["a"], {"max_new_tokens": 0}, "max_new_tokens=0"),
        (["a"], {"adapters": "nobody"}, "has no adapter 'nobody'"),
        (["a"], {"beam": 0}, "beam=0"),
        (["a"], {"beam": 2, "n_best": 3}, "from 1 to beam, 2"),
        (["a"], {"beam": 2, "top_k": 3}, "top_k=3 has no effect with beam=2"),
        (["a"], {"n_best": 3}, "n_best=3 has no effect without beam search"),
    ],
)
def test_refusals_are_one_sentence(model: Model, prompts: object, options: dict[str, object], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        model.generate(prompts, **options)


def test_an_empty_prompt_needs_a_beginning(tmp_path: Path) -> None:
    write_language_model(tmp_path / "bare", beginning=False)
    model = heedful.load(tmp_path / "bare")
    assert len(model.generate(["h"], 5).tokens[0]) == 5
    with pytest.raises(RequestError, match=r"row 1 of the prompts is empty, and .* no token that begins a text"):
        model.generate(["h", ""])


def test_a_model_without_the_head_is_refused(tmp_path: Path) -> None:
    write_language_model(tmp_path / "body", head="")
    with pytest.raises(RequestError, match="has no language-model head"):
        heedful.load(tmp_path / "body").generate(["h"])
    peers.make_peer(peers.Case("", "gpt2", "LMHeadModel")).save_pretrained(tmp_path / "mute")
    with pytest.raises(RequestError, match="has no tokenizer"):
        heedful.load(tmp_path / "mute").generate(["h"])
