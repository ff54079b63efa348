"""Beam search finds the texts of `transformers.generate`, by each of its rules to stop; and where those rules lose."""

from pathlib import Path
from typing import Any

import pytest
import torch

import heedful
from heedful.decoding.beam import beam_search
from heedful.decoding.finished import Hypothesis
from heedful.decoding.settings import Beam, Limits, Stopping
from heedful.models.next_token import NextToken
from tests.support import peers

PROMPTS = [[5, 9, 2], [7], [3, 3, 8, 1, 10, 11, 4], [9, 0]]
STOP, PAD, NEW = [4, 11], 1, 12
RULES: list[tuple[bool | str, Stopping]] = [(True, "early"), (False, "heuristic"), ("never", "exact")]
Pair = tuple[Any, NextToken]


def make_pair(directory: Path, seed: int, vocabulary: int = 12) -> Pair:
    """The peer's model, and ours with the same weights."""
    peer = peers.make_peer(peers.Case("", "gpt2", "LMHeadModel", {"vocab_size": vocabulary, "n_positions": 24}), seed)
    peer.save_pretrained(directory)
    model: Any = heedful.load(directory)
    return peer, NextToken(model.transformer.eval(), "causal")


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> list[Pair]:
    return [make_pair(tmp_path_factory.mktemp(f"beam-{seed}"), seed) for seed in range(4)]


def by_the_peer(
    peer: Any, prompts: list[list[int]], beam: Beam, early_stopping: bool | str, limits: Limits
) -> list[list[tuple[list[int], float]]]:
    """Of each prompt the texts with their scores."""
    n = max(map(len, prompts))
    out = peer.generate(
        input_ids=torch.tensor([[0] * (n - len(prompt)) + prompt for prompt in prompts]),
        attention_mask=torch.tensor([[0] * (n - len(prompt)) + [1] * len(prompt) for prompt in prompts]),
        do_sample=False, num_beams=beam.width, num_return_sequences=beam.n_best, length_penalty=beam.length_penalty,
        early_stopping=early_stopping, max_new_tokens=limits.max_new_tokens, min_new_tokens=limits.min_new_tokens,
        eos_token_id=sorted(limits.stop), pad_token_id=PAD, return_dict_in_generate=True, output_scores=True,
    )  # fmt: skip
    texts = []
    for row, score in zip(out.sequences[:, n:].tolist(), out.sequences_scores.tolist(), strict=True):
        end = next((at + 1 for at, token in enumerate(row) if token in limits.stop), len(row))
        texts.append((row[:end], score))
    return [texts[at : at + beam.n_best] for at in range(0, len(texts), beam.n_best)]


def assert_same(found: list[list[Hypothesis]], expected: list[list[tuple[list[int], float]]]) -> None:
    assert [[one.ids for one in texts] for texts in found] == [[ids for ids, _ in texts] for texts in expected]
    for texts, theirs in zip(found, expected, strict=True):
        # The peer adds up in single precision, which counts where a text of α < 0 has a score of hundreds.
        assert [one.score for one in texts] == pytest.approx([score for _, score in theirs], rel=1e-6, abs=1e-5)


@pytest.mark.parametrize(("early_stopping", "stopping"), RULES)
@pytest.mark.parametrize("alpha", [-1.0, 0.0, 0.6, 1.0, 2.0])
def test_texts_and_scores_are_the_peers(
    early_stopping: bool | str, stopping: Stopping, alpha: float, pairs: list[Pair]
) -> None:
    limits = Limits(NEW, 0, frozenset(STOP))
    ended = 0
    for peer, read in pairs:
        for width in (2, 3, 5):
            beam = Beam(width, width, alpha, stopping=stopping)
            expected = by_the_peer(peer, PROMPTS, beam, early_stopping, limits)
            found = beam_search(read, PROMPTS, beam, limits)
            assert_same(found, expected)
            ended += sum(one.reason == "stop" and len(one.ids) < NEW for texts in found for one in texts)
            best = Beam(width, 1, alpha, stopping=stopping)
            assert_same(beam_search(read, PROMPTS, best, limits), [texts[:1] for texts in expected])
        alone = by_the_peer(peer, PROMPTS[1:2], Beam(3, 2, alpha), early_stopping, Limits(NEW, 4, frozenset({4})))
        ours = beam_search(read, PROMPTS[1:2], Beam(3, 2, alpha, stopping=stopping), Limits(NEW, 4, frozenset({4})))
        assert_same(ours, alone)
    if alpha <= 1:  # texts end by themselves, or the rules would not be asked
        assert ended > 20


def test_a_greedy_text_is_the_peers(pairs: list[Pair]) -> None:
    limits = Limits(NEW, 0, frozenset(STOP))
    for peer, read in pairs:
        for prompt in PROMPTS:
            given = torch.tensor([prompt])
            out = peer.generate(
                input_ids=given, attention_mask=torch.ones_like(given), do_sample=False, max_new_tokens=NEW,
                eos_token_id=STOP, pad_token_id=PAD,
            )  # fmt: skip
            ((found,),) = beam_search(read, [prompt], Beam(1), limits)
            assert found.ids == out[0, len(prompt) :].tolist()


def test_the_peers_default_loses_better_texts(pairs: list[Pair]) -> None:
    """early_stopping=False asks what the best text that grows is worth at its present length, though with a length
    penalty above 0 it may be worth more when it is longer; True does not ask at all. Ours, by the same names, lose the
    same; "exact" never finds less."""
    limits = Limits(NEW, 0, frozenset(STOP))
    lost = {"early": 0, "heuristic": 0}
    for peer, read in pairs:
        for early_stopping, stopping in RULES[:2]:
            for width in (2, 3):
                theirs = by_the_peer(peer, PROMPTS, Beam(width, 1, 2.0), early_stopping, limits)
                exact = beam_search(read, PROMPTS, Beam(width, 1, 2.0), limits)
                for ((_, score),), (best,) in zip(theirs, exact, strict=True):
                    assert best.score >= score - 1e-5
                    lost[stopping] += best.score > score + 1e-3
    assert all(lost.values()), lost


@pytest.mark.parametrize(("early_stopping", "stopping"), RULES)
def test_the_peer_fills_up_with_copies_where_there_are_too_few_texts(
    early_stopping: bool | str, stopping: Stopping, tmp_path: Path
) -> None:
    """A vocabulary of three has three texts of one token; of the five that are asked for, two of the peer's are copies
    with the score −10⁹. Ours has three."""
    peer, read = make_pair(tmp_path, 0, vocabulary=3)
    beam, limits = Beam(5, 5, stopping=stopping), Limits(1, 0, frozenset({0}))
    (theirs,) = by_the_peer(peer, [[2]], beam, early_stopping, limits)
    assert [score for _, score in theirs[3:]] == [-1e9, -1e9]
    assert_same(beam_search(read, [[2]], beam, limits), [theirs[:3]])
