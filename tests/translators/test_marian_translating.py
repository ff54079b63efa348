"""Greedy and beam translations are those of the peer's `generate` at equal settings; those of its own settings file."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import heedful
from heedful.errors import RequestError
from heedful.translating.translator import Translator
from marian_samples import CASES, SOURCES, make_peer, save_peer

STOPPING = {True: "early", False: "heuristic", "never": "exact"}


def pair_of(directory: Path, seed: int = 3, **changes: Any) -> tuple[Any, Translator]:
    """The peer's model, which reads its settings again, and ours."""
    import transformers

    save_peer(make_peer(seed, **changes), directory)
    peer = transformers.MarianMTModel.from_pretrained(directory, attn_implementation="eager").eval()
    translator = heedful.load(directory)
    assert isinstance(translator, Translator)
    return peer, translator


def by_the_peer(
    peer: Any, translator: Translator, texts: list[str], **options: Any
) -> list[list[tuple[list[int], Any]]]:
    """Of each text the tokens after the start token, up to the end token, and the score, where there is one."""
    ids = translator.tokenizers.encode(texts, ()).sources
    n, fill, end = max(map(len, ids)), translator.checkpoint.source_pad_id, translator.checkpoint.end_id
    out = peer.generate(
        input_ids=torch.tensor([row + [fill] * (n - len(row)) for row in ids]),
        attention_mask=torch.tensor([[1] * len(row) + [0] * (n - len(row)) for row in ids]),
        return_dict_in_generate=True, output_scores=True, do_sample=False, **options,
    )  # fmt: skip
    scores = out.sequences_scores.tolist() if "sequences_scores" in out else [None] * len(out.sequences)
    found = []
    for row, score in zip(out.sequences[:, 1:].tolist(), scores, strict=True):
        found.append((row[: row.index(end) + 1] if end in row else row, score))
    each = len(found) // len(texts)
    return [found[at : at + each] for at in range(0, len(found), each)]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("early_stopping", [True, False, "never"])
def test_beams_are_the_peers(case: str, early_stopping: Any, tmp_path: Path) -> None:
    lengths = set()
    for seed in (3, 4):
        peer, translator = pair_of(tmp_path / str(seed), seed, **CASES[case])
        for width, alpha in ((2, 1.0), (4, 0.6)):
            expected = by_the_peer(
                peer, translator, SOURCES, num_beams=width, num_return_sequences=width, length_penalty=alpha,
                early_stopping=early_stopping,
            )  # fmt: skip
            found = translator.translate(
                SOURCES,
                beam=width,
                n_best=width,
                length_penalty=alpha,
                stopping=STOPPING[early_stopping],  # type: ignore[arg-type]
            )
            assert [[one.tokens for one in row] for row in found.n_best] == [
                [ids for ids, _ in row] for row in expected
            ]
            for row, theirs in zip(found.n_best, expected, strict=True):
                np.testing.assert_allclose([one.score for one in row], [score for _, score in theirs], atol=1e-5)
            lengths |= {len(one.tokens) for row in found.n_best for one in row}
    assert max(lengths) <= 23  # their max_length, 24, counts the start token
    assert len(lengths) > 2  # some end by themselves


@pytest.mark.parametrize("case", CASES)
def test_greedy_texts_are_the_peers(case: str, tmp_path: Path) -> None:
    peer, translator = pair_of(tmp_path, **CASES[case])
    expected = by_the_peer(peer, translator, SOURCES, num_beams=1)
    assert translator.translate(SOURCES, beam=1).tokens == [row[0][0] for row in expected]


def test_what_is_banned_has_no_probability_or_keeps_it_as_the_settings_say(tmp_path: Path) -> None:
    """With renormalize_logits the other tokens share the probability of padding; without it they do not."""
    peer, translator = pair_of(tmp_path)
    options = {"num_beams": 3, "num_return_sequences": 3, "early_stopping": "never"}
    scores = {}
    for renormalised in (True, False):
        translator.checkpoint.generation["renormalize_logits"] = renormalised
        expected = by_the_peer(peer, translator, SOURCES, renormalize_logits=renormalised, **options)
        found = translator.translate(SOURCES, beam=3, n_best=3)
        assert [[one.tokens for one in row] for row in found.n_best] == [[ids for ids, _ in row] for row in expected]
        np.testing.assert_allclose(found.scores, [row[0][1] for row in expected], atol=1e-5)
        scores[renormalised] = found.scores
    assert (scores[True] > scores[False]).any()


def test_the_end_is_forced_where_the_settings_say_so(tmp_path: Path) -> None:
    """forced_eos_token_id makes the last token that may come the end; without it a text is cut where it is."""
    _, translator = pair_of(tmp_path)
    forced = translator.translate(SOURCES, beam=3, max_length=4)
    translator.checkpoint.generation["forced_eos_token_id"] = None
    cut = translator.translate(SOURCES, beam=3, max_length=4)
    long = [row for row, reason in enumerate(cut.reasons) if reason == "max_length"]
    assert long
    for row in long:
        assert len(cut.tokens[row]) == 4
        assert cut.tokens[row][-1] != translator.checkpoint.end_id
    for tokens, log_p, reason in zip(forced.tokens, forced.log_probabilities, forced.reasons, strict=True):
        assert tokens[-1] == translator.checkpoint.end_id
        if len(tokens) == 4:
            assert (log_p[-1], reason) == (0.0, "max_length")


def test_settings_of_the_directory_are_the_defaults(tmp_path: Path) -> None:
    _, translator = pair_of(tmp_path)
    asked = translator.translate(SOURCES, beam=4, n_best=1, max_length=23, length_penalty=1.0, stopping="exact")
    assert translator.translate(SOURCES).texts == asked.texts
    path = tmp_path / "generation_config.json"
    settings = json.loads(path.read_text())
    changed = {"num_beams": 1, "max_length": 6, "early_stopping": True, "length_penalty": 0.0}
    path.write_text(json.dumps({**settings, **changed}))
    other = heedful.load(tmp_path)
    assert isinstance(other, Translator)
    assert other.translate(SOURCES).texts == translator.translate(SOURCES, beam=1, max_length=5).texts
    assert other.translate(SOURCES).texts != asked.texts
    path.unlink()  # older directories have them in config.json
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, **settings, **changed}))
    older = heedful.load(tmp_path)
    assert isinstance(older, Translator)
    assert older.translate(SOURCES).texts == other.translate(SOURCES).texts
    for key, value, words in (
        ("num_beams", "many", "num_beams = 'many' in its settings is not a whole number"),
        ("bad_words_ids", [[1, 2]], "bad_words_ids in generation_config.json or config.json"),
    ):
        older.checkpoint.generation = {key: value}
        with pytest.raises(RequestError, match=words):
            older.translate(SOURCES)


def test_the_texts_are_the_peers(tmp_path: Path) -> None:
    import transformers

    peer, translator = pair_of(tmp_path)
    tokenizer = transformers.MarianTokenizer.from_pretrained(tmp_path)
    out = peer.generate(**tokenizer(SOURCES, return_tensors="pt", padding=True), early_stopping="never")
    assert translator.translate(SOURCES).texts == tokenizer.batch_decode(out, skip_special_tokens=True)
