"""Greedy texts are those of `transformers.generate`, token for token, alone and in a batch."""

from pathlib import Path
from typing import Any

import pytest
import torch

import heedful
from heedful.inference.generation import TextGenerator
from tests.support.generation_samples import peer_tokenizer, write_language_model

PROMPTS = ["the man", "h", "he said: the the man", "  two\nlines ", "naïve 東京 🙂"]
NEW = 24


def by_the_peer(model: Any, ids: list[int], end: int | None, fewest: int = 0) -> list[int]:
    given = torch.tensor([ids])
    out = model.generate(
        input_ids=given, attention_mask=torch.ones_like(given), do_sample=False, max_new_tokens=NEW,
        min_new_tokens=fewest or None, eos_token_id=end, pad_token_id=0,
    )  # fmt: skip
    return out[0, len(ids) :].tolist()


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_greedy_tokens_are_the_peers(seed: int, tmp_path: Path) -> None:
    peer = write_language_model(tmp_path, seed)
    tokenizer = peer_tokenizer(tmp_path)
    model = heedful.load(tmp_path)
    encoded = [tokenizer(text)["input_ids"] for text in PROMPTS]
    (end,) = tokenizer("<|endoftext|>")["input_ids"]
    expected = [by_the_peer(peer, ids, end) for ids in encoded]
    options = {"max_new_tokens": NEW, "temperature": 0}
    written = model.generate(PROMPTS, **options)
    assert written.tokens == expected
    assert model.generate(PROMPTS, batch_size=2, **options).tokens == expected
    shown = [text.replace("<|endoftext|>", "") for text in map(tokenizer.decode, expected)]
    assert written.texts == shown

    stop = expected[2][5]  # a token that comes early in one of them, and in others perhaps
    stopped = [by_the_peer(peer, ids, [end, stop]) for ids in encoded]
    ours = model.generate(PROMPTS, stop=[stop], **options)
    assert ours.tokens == stopped
    assert ours.tokens != expected
    assert ours.reasons[2] == "stop"
    later = [by_the_peer(peer, ids, [end, stop], fewest=9) for ids in encoded]
    assert model.generate(PROMPTS, stop=[stop], min_new_tokens=9, **options).tokens == later


def test_a_batch_of_the_peers_is_the_same(tmp_path: Path) -> None:
    """The peer pads on the left, too."""
    peer = write_language_model(tmp_path, 5)
    model = heedful.load(tmp_path)
    encoded = [prompt.ids for prompt in TextGenerator(model).encode(PROMPTS)]
    n = max(map(len, encoded))
    ids = torch.tensor([[0] * (n - len(row)) + row for row in encoded])
    real = torch.tensor([[0] * (n - len(row)) + [1] * len(row) for row in encoded])
    out = peer.generate(
        input_ids=ids, attention_mask=real, do_sample=False, max_new_tokens=NEW, min_new_tokens=NEW,
        eos_token_id=model.tokenizer.eos_id, pad_token_id=0,
    )  # fmt: skip
    written = model.generate(PROMPTS, max_new_tokens=NEW, temperature=0, min_new_tokens=NEW)
    assert written.tokens == [row[n:].tolist() for row in out]


def test_log_probabilities_are_the_peers(tmp_path: Path) -> None:
    peer = write_language_model(tmp_path, 6)
    model = heedful.load(tmp_path)
    written = model.generate(PROMPTS, max_new_tokens=NEW, temperature=0.8, seed=2)
    prompts = TextGenerator(model).encode(PROMPTS)
    for prompt, ids, log_p in zip(prompts, written.tokens, written.log_probabilities, strict=True):
        with torch.no_grad():
            scores = peer(torch.tensor([[*prompt.ids, *ids]])).logits[0, len(prompt.ids) - 1 : -1]
        expected = scores.log_softmax(-1)[torch.arange(len(ids)), torch.tensor(ids)]
        assert (torch.tensor(log_p) - expected).abs().max() <= 1e-5
