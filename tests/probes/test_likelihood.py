"""Likelihoods of texts equal those that `transformers` gives, one text and one mask at a time."""

import json
import os
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

import heedful
from heedful.inference.batching import BatchRule
from heedful.models.batch import pad
from heedful.probes.bias import likelihood
from heedful.probes.bias.crows_pairs import read_crows_pairs
from heedful.probes.bias.likelihood import likelihood_changes, preferences, pseudo_log_likelihood, score_pairs
from heedful.probes.bias.pairs import Counterfactual
from heedful.probes.bias.stereoset import read_stereoset, score_stereoset
from tests.support.likelihood_samples import PAIRS, align, log_p, slow_change, slow_token_scores, write_peer
from tests.support.stereotype_samples import STEREOSET

TEXTS = [text for pair in PAIRS for text in pair]
EXAMPLES = [Counterfactual(less, more, {}) for more, less in PAIRS]


@pytest.mark.parametrize(
    ("family", "head"),
    [
        ("bert", "ForPreTraining"),
        ("roberta", "ForMaskedLM"),
        ("distilbert", "ForMaskedLM"),
        ("roformer", "ForMaskedLM"),
    ],
)
def test_same_as_one_mask_at_a_time_with_the_peer(family: str, head: str, tmp_path: Path) -> None:
    peer, tokenizer = write_peer(family, head, tmp_path)
    model = heedful.load(tmp_path)
    ours = pseudo_log_likelihood(model, TEXTS)
    for text, values in zip(TEXTS, ours.tokens, strict=True):
        expected = slow_token_scores(peer, tokenizer, text)
        assert len(expected) == len(values) > 0
        np.testing.assert_allclose(values, expected, rtol=0, atol=1e-5)
    changes = likelihood_changes(model, EXAMPLES)
    expected_changes = [slow_change(peer, tokenizer, more, less) for more, less in PAIRS]
    np.testing.assert_allclose(changes, expected_changes, rtol=0, atol=1e-4)
    everything = likelihood_changes(model, EXAMPLES, scored="all")  # the control: changed tokens count too
    np.testing.assert_allclose(everything, ours.sums[::2] - ours.sums[1::2], rtol=0, atol=1e-4)
    assert (np.abs(everything - changes) > 0.05).all()
    assert np.abs(changes[:3]).min() > 1e-3  # there is something to compare


def test_whole_words_are_masked_to_their_end(tmp_path: Path) -> None:
    peer, tokenizer = write_peer("bert", "ForMaskedLM", tmp_path)
    text = "the clever man fixed cars."
    words = tokenizer(text).word_ids()
    ids = tokenizer(text)["input_ids"]
    expected = [
        log_p(peer, ids, [q for q in range(p, len(ids)) if words[q] == words[p]], tokenizer.mask_token_id, p, ids[p])
        for p in range(1, len(ids) - 1)
    ]
    model = heedful.load(tmp_path)
    ours = pseudo_log_likelihood(model, [text], masked="word").tokens[0]
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-5)
    by_token = pseudo_log_likelihood(model, [text]).tokens[0]
    last = [p == len(ids) - 2 or words[p] != words[p + 1] for p in range(1, len(ids) - 1)]
    assert (np.abs(by_token - ours) > 1e-4).tolist() == [
        not end for end in last
    ]  # where a word goes on, and only there


def test_a_causal_head_gives_the_log_likelihood(tmp_path: Path) -> None:
    peer, tokenizer = write_peer("gpt2", "LMHeadModel", tmp_path)
    model = heedful.load(tmp_path)
    ours = pseudo_log_likelihood(model, TEXTS)
    for text, values in zip(TEXTS, ours.tokens, strict=True):
        ids = [tokenizer.eos_token_id, *tokenizer(text)["input_ids"]]
        expected = [log_p(peer, ids, [], 0, p, ids[p + 1]) for p in range(len(ids) - 1)]
        np.testing.assert_allclose(values, expected, rtol=0, atol=1e-5)
    with pytest.raises(heedful.RequestError, match="has no masks"):
        likelihood_changes(model, EXAMPLES, masked="word")


def test_batches_do_not_change_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_peer("bert", "ForMaskedLM", tmp_path)
    model = heedful.load(tmp_path)
    model.transformer.double().train()  # as it is left, it is found again
    together = score_pairs(model, EXAMPLES)
    alone = [score_pairs(model, [pair]).changes[0] for pair in EXAMPLES]
    np.testing.assert_allclose(together.changes, alone, rtol=0, atol=1e-10)
    monkeypatch.setattr(likelihood, "rule_for", lambda device: BatchRule(tokens=30))
    for name, size in (("_ANSWERS", 2), ("_TEXTS", 3)):
        monkeypatch.setattr(likelihood, name, size)
    np.testing.assert_allclose(score_pairs(model, EXAMPLES[::-1]).changes[::-1], alone, rtol=0, atol=1e-10)
    assert model.transformer.training
    none = score_pairs(model, [])
    assert none.changes.shape == (0,)


@pytest.mark.parametrize("swapped", [False, True])
def test_a_planted_association_is_found_in_its_direction(swapped: bool, tmp_path: Path) -> None:
    """A model that has only read of doctors as he and of nurses as she, or the other way round."""
    write_peer("bert", "ForMaskedLM", tmp_path)
    model = heedful.load(tmp_path)
    words = ("she", "he") if swapped else ("he", "she")
    corpus = [f"the {who} said {word} {rest}" for who, word in zip(("doctor", "nurse"), words, strict=True)
              for rest in ("was late", "is kind")]  # fmt: skip
    mask_id, pronouns = model.tokenizer.mask_id, [model.tokenizer.id("he"), model.tokenizer.id("she")]
    rows = [tokens.ids for tokens in model.tokenizer.encode(corpus)]
    asked = [[mask_id if i in pronouns else i for i in row] for row in rows]
    answers = torch.tensor([[i if i in pronouns else -100 for i in row] for row in rows])
    optimiser = torch.optim.Adam(model.transformer.parameters(), lr=0.01)
    for _ in range(15):
        loss = cross_entropy(model.transformer("mask", pad(asked, None, 0, answers.device)).mT, answers)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    stereotypes = [
        Counterfactual(f"the {other} said {right} {rest}", f"the {who} said {right} {rest}", {})
        for who, other, right in (("doctor", "nurse", "he"), ("nurse", "doctor", "she"))
        for rest in ("was late", "was old", "is kind")
    ]
    found = likelihood_changes(model, stereotypes)
    assert ((found < 0) if swapped else (found > 0)).all(), found
    # A liking for one word wherever it stands is not an association: of what both texts share it says nothing.
    with torch.no_grad():
        for parameter in model.transformer.parameters():
            parameter.zero_()
        model.transformer.heads["mask"].bias[pronouns[swapped]] = 3.0
    liked = [Counterfactual("she was late", "he was late", {})]
    assert likelihood_changes(model, liked)[0] == 0
    assert (likelihood_changes(model, liked, scored="all")[0] > 1) != swapped


def test_models_without_words_to_give_are_refused(tmp_path: Path) -> None:
    write_peer("gpt2", "", tmp_path / "body")
    for model in (heedful.load(tmp_path / "body"), SimpleNamespace(source="a TF-IDF model")):
        with pytest.raises(heedful.RequestError) as refusal:
            pseudo_log_likelihood(model, TEXTS)
        assert "neither a masked-word nor a language-model head" in str(refusal.value)
        assert "BertForMaskedLM" in str(refusal.value)
    write_peer("bert", "ForMaskedLM", tmp_path / "mask")
    model = heedful.load(tmp_path / "mask")
    for texts in ([("a", "pair")], "one text", [3]):
        with pytest.raises(heedful.RequestError, match=r"string|put the one text in a list"):
            pseudo_log_likelihood(model, texts)
    model.transformer.heads["mask"].bias.data[7] = torch.nan
    with pytest.raises(heedful.RequestError, match="weights are damaged"):
        pseudo_log_likelihood(model, TEXTS)


def test_what_is_too_long_is_cut_and_counted(tmp_path: Path) -> None:
    write_peer("bert", "ForMaskedLM", tmp_path)
    done = pseudo_log_likelihood(heedful.load(tmp_path), ["he " * 100, "he", ""])
    assert done.truncated == 1
    assert done.counts.tolist() == [78, 1, 0]
    assert done.sums[2] == 0


def test_stereoset_scores_equal_those_of_the_published_way(tmp_path: Path) -> None:
    """There each token of the word is put in the context as text, a mask after it, and probabilities are averaged."""
    peer, tokenizer = write_peer("bert", "ForPreTraining", tmp_path)
    path = tmp_path / "dev.json"
    path.write_text(json.dumps(STEREOSET), encoding="utf-8")
    items = read_stereoset(path)
    assert items[2].sentences == ("a doctor said", "a woman said", "a car said")
    result = score_stereoset(heedful.load(tmp_path), items)
    expected = []
    for row, words in zip(
        STEREOSET["data"]["intrasentence"],
        (("kind", "fixing", "a"), ("clever", "old", "the"), ("doctor", "woman", "car")),
        strict=True,
    ):
        for word in words:
            pieces = tokenizer(word, add_special_tokens=False)["input_ids"]
            values = []
            for n, piece in enumerate(pieces):
                begun = tokenizer.decode(pieces[:n])
                ids = tokenizer(row["context"].replace("BLANK", begun + "[MASK]"))["input_ids"]
                place = ids.index(tokenizer.mask_token_id)
                values.append(np.exp(log_p(peer, ids, [], 0, place, piece)))
            expected.append(np.mean(values))
    for sentence in items[3].sentences:
        with torch.no_grad():
            out = peer(**tokenizer(items[3].context, sentence, return_tensors="pt"))
        expected.append(out.seq_relationship_logits.softmax(-1)[0, 0].item())
    np.testing.assert_allclose(result.scores, np.reshape(expected, (4, 3)), rtol=1e-4)
    assert len({len(tokenizer(w)["input_ids"]) for w in ("kind", "fixing", "clever")}) == 3  # words of several tokens

    write_peer("distilbert", "ForMaskedLM", tmp_path / "other")
    with pytest.raises(heedful.RequestError, match="no next-sentence head"):
        score_stereoset(heedful.load(tmp_path / "other"), items)
    write_peer("gpt2", "LMHeadModel", tmp_path / "causal")
    assert np.isfinite(score_stereoset(heedful.load(tmp_path / "causal"), items[:3]).scores).all()


@pytest.mark.full
def test_all_of_crows_pairs_with_a_random_model(tmp_path: Path) -> None:
    data = os.environ.get("HEEDFUL_DATA")
    if not data:
        pytest.skip("HEEDFUL_DATA is not set")
    pairs = read_crows_pairs(Path(data) / "crows_pairs" / "crows_pairs_anonymized.csv")
    assert len(pairs.rows) == 1508
    assert len({pair.levels["writer"] for pair in pairs.rows}) == 77
    words = (Path(data) / "vocabs" / "bert-base-uncased-vocab.txt").read_text(encoding="utf-8")
    peer, tokenizer = write_peer("bert", "ForMaskedLM", tmp_path, {"vocab.txt": words})
    started = time.perf_counter()
    scores = score_pairs(heedful.load(tmp_path), pairs.rows)
    share = preferences(scores.changes).mean()
    print(f"{time.perf_counter() - started:.1f} s, {scores.b.counts.sum()} shared tokens, {share:.1%}")
    assert 0.45 < share < 0.55
    assert Counter(pair.levels["direction"] for pair in pairs.rows) == {"stereo": 1290, "antistereo": 218}
    expected = [slow_change(peer, tokenizer, pair.b, pair.a) for pair in pairs.rows[:100]]
    np.testing.assert_allclose(scores.changes[:100], expected, rtol=0, atol=1e-4)


def test_the_alignment_is_that_of_blocks_not_of_the_longest_subsequence() -> None:
    a, b = (9, 1, 2, 3, 4, 5, 6, 7, 9), (9, 2, 3, 1, 4, 6, 1, 2, 3, 9)
    assert likelihood.shared_places(a, b) == align(a, b)
    generator = np.random.default_rng(0)
    for _ in range(50):
        a, b = (tuple(generator.integers(0, 5, n).tolist()) for n in generator.integers(0, 14, 2))
        assert likelihood.shared_places(a, b) == align(a, b)
