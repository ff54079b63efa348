"""Greedy and beam translations are those of the peer's `generate` at equal settings; those of its own settings file."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import heedful
from heedful.checkpoints.translators.checkpoint import NEUTRAL, SETTINGS
from heedful.errors import RequestError
from heedful.inference.translation.translator import Translator
from tests.support.marian_samples import CASES, SOURCES, make_peer, save_peer

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


@pytest.mark.parametrize("renormalised", [True, False])
@pytest.mark.parametrize("forced", [0, None])
@pytest.mark.parametrize(("least", "most"), [(5, 24), (8, 9), (8, 8), (3, 3)])
def test_a_least_length_is_the_peers(renormalised: bool, forced: Any, least: int, most: int, tmp_path: Path) -> None:
    """Before it the end has no probability, which the others share where renormalize_logits says so; and an end that is
    forced comes at the greatest length, be it the least."""
    peer, translator = pair_of(tmp_path, end=4.0)  # ends early if it may
    settings = {"renormalize_logits": renormalised, "min_length": least, "max_length": most}
    translator.checkpoint.generation |= {**settings, "forced_eos_token_id": forced}
    peer.generation_config.forced_eos_token_id = forced
    for width in (1, 3):
        several = {"num_return_sequences": width, "early_stopping": "never"} if width > 1 else {}
        expected = by_the_peer(peer, translator, SOURCES, num_beams=width, **several, **settings)
        found = translator.translate(SOURCES, beam=width, n_best=width)
        assert [[one.tokens for one in row] for row in found.n_best] == [[ids for ids, _ in row] for row in expected]
        for row, theirs in zip(found.n_best, expected, strict=True):
            np.testing.assert_allclose([one.score for one in row if width > 1], [s for _, s in theirs if s], atol=1e-5)
    ends = [one.tokens[-1] == translator.checkpoint.end_id for row in found.n_best for one in row]
    assert all(ends) if forced is not None else most > 9 or not all(ends)


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


def in_config(directory: Path, settings: dict[str, Any]) -> None:
    """As older directories have them: in config.json, and no generation_config.json."""
    (directory / "generation_config.json").unlink(missing_ok=True)
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps({**config, **settings}))


def loaded(directory: Path) -> Translator:
    translator = heedful.load(directory)
    assert isinstance(translator, Translator)
    return translator


@pytest.mark.parametrize("layout", ["marian", "heedful"])
@pytest.mark.parametrize("older", [False, True])
def test_settings_survive_in_both_layouts(layout: Any, older: bool, tmp_path: Path) -> None:
    """Each of them changes what comes out, so that one that is lost would be noticed."""
    save_peer(make_peer(), tmp_path / "peer")
    settings = {
        "num_beams": 3, "length_penalty": 0.3, "early_stopping": False, "max_length": 7, "max_new_tokens": 8,
        "min_length": 3, "min_new_tokens": 4, "bad_words_ids": [[31], [5]], "renormalize_logits": True,
        "forced_eos_token_id": 0, "eos_token_id": 0,
    }  # fmt: skip
    assert set(settings) == SETTINGS
    if older:
        in_config(tmp_path / "peer", settings)
    else:
        (tmp_path / "peer" / "generation_config.json").write_text(json.dumps(settings))
    first = loaded(tmp_path / "peer")
    first.save(tmp_path / "saved", layout=layout)
    again = loaded(tmp_path / "saved")
    a, b = first.translate(SOURCES), again.translate(SOURCES)
    assert a.tokens == b.tokens
    assert np.array_equal(a.scores, b.scores)
    again.save(tmp_path / "twice", layout=layout)
    assert np.array_equal(loaded(tmp_path / "twice").translate(SOURCES).scores, a.scores)
    for key, value in settings.items():
        assert again.checkpoint.setting(key) == value
    others = {"renormalize_logits": False, "num_beams": 1, "length_penalty": 0.0, "max_new_tokens": 3,
              "min_new_tokens": 6}  # fmt: skip
    for key, other in others.items():
        again.checkpoint.generation[key] = other
        assert not np.array_equal(again.translate(SOURCES).scores, a.scores), key
        again.checkpoint.generation[key] = settings[key]


def test_the_start_token_is_that_of_the_settings(tmp_path: Path) -> None:
    """generation_config.json goes before config.json, as in `generate`; null says nothing."""
    peer, _ = pair_of(tmp_path)
    path = tmp_path / "generation_config.json"
    settings = json.loads(path.read_text())
    usual, other = loaded(tmp_path).translate(SOURCES, beam=3), 7
    path.write_text(json.dumps({**settings, "decoder_start_token_id": other}))
    translator = loaded(tmp_path)
    assert translator.checkpoint.begin_id == other
    found = translator.translate(SOURCES, beam=3, n_best=3)
    expected = by_the_peer(
        peer, translator, SOURCES, decoder_start_token_id=other, num_beams=3, num_return_sequences=3,
        early_stopping="never",
    )  # fmt: skip
    assert [[one.tokens for one in row] for row in found.n_best] == [[ids for ids, _ in row] for row in expected]
    np.testing.assert_allclose(found.scores, [row[0][1] for row in expected], atol=1e-5)
    assert not np.allclose(found.scores, usual.scores)
    for layout in ("marian", "heedful"):
        translator.save(tmp_path / layout, layout=layout)  # type: ignore[arg-type]
        assert np.array_equal(loaded(tmp_path / layout).translate(SOURCES, beam=3, n_best=3).scores, found.scores)
    path.write_text(json.dumps({**settings, "decoder_start_token_id": None}))
    assert np.array_equal(loaded(tmp_path).translate(SOURCES, beam=3).scores, usual.scores)
    path.write_text(json.dumps({**settings, "decoder_start_token_id": 99}))
    with pytest.raises(RequestError, match=r"generation_config.json: decoder_start_token_id = 99 is not the id"):
        heedful.load(tmp_path)


WRONG: list[tuple[str, Any, str]] = [
    ("early_stopping", [1], 'early_stopping = […] is none of true, false and "never"'),
    ("early_stopping", "maybe", 'early_stopping = "maybe" is none of'),
    ("early_stopping", 1, "early_stopping = 1 is none of"),
    ("renormalize_logits", "x", 'renormalize_logits = "x" is neither true nor false'),
    ("renormalize_logits", 1, "renormalize_logits = 1 is neither true nor false"),
    ("bad_words_ids", [[True]], "bad_words_ids = […] is not a list of ids of tokens"),
    ("bad_words_ids", [[1, 2]], "bad_words_ids = […] is not a list"),
    ("bad_words_ids", [1], "bad_words_ids = […] is not a list"),
    ("bad_words_ids", [[10_000]], "bad_words_ids = […] is not a list"),
    ("bad_words_ids", "x", 'bad_words_ids = "x" is not a list'),
    ("num_beams", 0, "num_beams = 0 is not a whole number from 1"),
    ("num_beams", "many", 'num_beams = "many" is not a whole number from 1'),
    ("num_beams", True, "num_beams = true is not a whole number from 1"),
    ("length_penalty", "x", 'length_penalty = "x" is not a number from −10 to 10'),
    ("length_penalty", float("nan"), "length_penalty = NaN is not a number"),
    ("length_penalty", 11, "length_penalty = 11 is not a number"),
    ("max_length", 0, "max_length = 0 is not a whole number from 2, the start token included"),
    ("max_length", 1, "max_length = 1 is not a whole number from 2"),
    ("max_length", 20.0, "max_length = 20.0 is not a whole number"),
    ("min_length", -1, "min_length = -1 is not a whole number from 0"),
    ("forced_eos_token_id", 7, "forced_eos_token_id = 7 is not 0, the id of the end token"),
    ("forced_eos_token_id", False, "forced_eos_token_id = false is not 0"),
    ("forced_eos_token_id", [0, 7], "forced_eos_token_id = […] is not 0"),
    ("forced_eos_token_id", [], "forced_eos_token_id = [] is not 0"),
    ("max_new_tokens", 0, "max_new_tokens = 0 is not a whole number from 1"),
    ("min_new_tokens", 1.5, "min_new_tokens = 1.5 is not a whole number from 0"),
    ("eos_token_id", 7, "eos_token_id = 7 is not 0, the id of the end token (no other can end a translation); correct"),
    ("eos_token_id", [0, 7], "eos_token_id = […] is not 0"),
    ("do_sample", True, "do_sample = true samples tokens; set temperature,"),
    (
        "num_beam_groups",
        2,
        "num_beam_groups = 2 changes decoding in a way that heedful does not support (1 disables it)",
    ),
    ("diversity_penalty", 0.5, "diversity_penalty = 0.5 changes decoding"),
    ("repetition_penalty", 0, "repetition_penalty = 0 is not above 0"),
    ("no_repeat_ngram_size", 1.5, "no_repeat_ngram_size = 1.5 is not a whole number from 0; correct it, or remove"),
    ("encoder_no_repeat_ngram_size", 2, "encoder_no_repeat_ngram_size = 2 changes decoding"),
    ("forced_bos_token_id", 0, "forced_bos_token_id = 0 changes decoding in a way that heedful does not support (null"),
    ("exponential_decay_length_penalty", [4, 1.1], "exponential_decay_length_penalty = […] changes decoding"),
    ("suppress_tokens", [5], "suppress_tokens = […] changes decoding"),
    ("begin_suppress_tokens", [5], "begin_suppress_tokens = […] changes decoding"),
]


@pytest.fixture(scope="module")
def peer_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_peer(make_peer(), tmp_path_factory.mktemp("settings") / "peer")


@pytest.mark.parametrize(("key", "value", "words"), WRONG, ids=str)
def test_a_wrong_setting_is_refused_with_its_file_and_key(
    key: str, value: Any, words: str, peer_directory: Path, tmp_path: Path
) -> None:
    for file in ("generation_config.json", "config.json"):
        directory = tmp_path / file.partition(".")[0]
        shutil.copytree(peer_directory, directory)
        if file == "config.json":
            in_config(directory, {key: value})
        else:
            (directory / file).write_text(json.dumps({key: value}))
        translator = loaded(directory)
        for options in ({}, {"temperature": 1.0}):
            if options and key in ("do_sample", "num_beam_groups", "diversity_penalty"):
                continue  # who says how tokens are drawn has overruled them
            with pytest.raises(RequestError) as refused:
                translator.translate(SOURCES, **options)
            assert str(refused.value).startswith(f"{directory / file}: {words}")


def test_the_caller_overrules_how_the_model_would_choose_tokens(peer_directory: Path, tmp_path: Path) -> None:
    usual, drawn = {"beam": 3}, {"temperature": 0.7, "seed": 3}
    shutil.copytree(peer_directory, tmp_path / "said")
    path = tmp_path / "said/generation_config.json"
    path.write_text(json.dumps({"max_length": 20}))
    plain = loaded(tmp_path / "said")
    path.write_text(json.dumps({"max_length": 20, "do_sample": True}))
    translator = loaded(tmp_path / "said")
    for options in (usual, drawn):
        assert translator.translate(SOURCES, **options).texts == plain.translate(SOURCES, **options).texts
    path.write_text(json.dumps({"max_length": 20, "do_sample": True, "num_beam_groups": 2}))
    translator = loaded(tmp_path / "said")
    assert translator.translate(SOURCES, **drawn).texts == plain.translate(SOURCES, **drawn).texts
    with pytest.raises(RequestError, match="num_beam_groups = 2 changes decoding"):
        translator.translate(SOURCES, **usual)


def test_what_config_json_says_beside_the_other_file_is_left_alone(peer_directory: Path, tmp_path: Path) -> None:
    shutil.copytree(peer_directory, tmp_path / "said")
    in_config(tmp_path / "said", {"no_repeat_ngram_size": 3})
    (tmp_path / "said/generation_config.json").write_text(json.dumps({"max_length": 30}))
    assert max(map(len, loaded(tmp_path / "said").translate(SOURCES).tokens)) <= 29  # and it is not refused


NEW_KEYS: dict[str, Any] = {
    "encoder_repetition_penalty": 1.5, "penalty_alpha": 0.6, "guidance_scale": 2.0, "token_healing": True,
    "force_words_ids": [[5]], "constraints": [{}], "sequence_bias": [[[5], 2.0]], "watermarking_config": {"bias": 2.5},
    "dola_layers": "high", "stop_strings": ["a"], "max_time": 2.0,
}  # fmt: skip


@pytest.mark.parametrize("key", NEW_KEYS)
def test_what_decoding_does_not_know_is_refused_where_only_new_files_have_it(key: str, peer_directory: Path) -> None:
    translator = loaded(peer_directory)
    translator.checkpoint.generation[key] = NEW_KEYS[key]
    with pytest.raises(RequestError, match=rf"generation_config.json: {key} = .* changes decoding in a way"):
        translator.translate(SOURCES)


def test_what_is_said_of_decoding_and_leaves_it_as_it_is_changes_nothing(peer_directory: Path, tmp_path: Path) -> None:
    """The peer's own defaults, empty lists, and what published models and the peer's newest files say beside."""
    import transformers

    usual = loaded(peer_directory).translate(SOURCES)
    shutil.copytree(peer_directory, tmp_path / "said")
    path = tmp_path / "said" / "generation_config.json"
    theirs = transformers.GenerationConfig._get_default_generation_params()
    settings = {key: value for key, value in theirs.items() if key not in SETTINGS}
    assert {key: value for key, value in settings.items() if key in NEUTRAL} == {
        key: value for key, value in NEUTRAL.items() if key in settings
    }
    settings |= {**json.loads(path.read_text()), "eos_token_id": [0], "bos_token_id": 0, "_from_model_config": True}
    settings |= {"transformers_version": "4.33.0", "suppress_tokens": [], "sequence_bias": {}, "temperature": 0.7}
    for said in (settings, settings | NEUTRAL):
        path.write_text(json.dumps(said))
        found = loaded(tmp_path / "said").translate(SOURCES)
        assert found.tokens == usual.tokens
        assert np.array_equal(found.scores, usual.scores)


@pytest.mark.parametrize("forced", [0, None])
@pytest.mark.parametrize(
    "lengths",
    [
        {"max_new_tokens": 6}, {"max_new_tokens": 6, "max_length": 4}, {"max_new_tokens": 4, "max_length": 24},
        {"min_new_tokens": 5}, {"min_new_tokens": 5, "min_length": 9}, {"min_new_tokens": 8, "min_length": 2},
        {"min_new_tokens": 5, "max_new_tokens": 5}, {"min_new_tokens": 0, "min_length": 9},
    ],
    ids=str,
)  # fmt: skip
def test_numbers_of_new_tokens_are_the_peers(lengths: dict[str, int], forced: Any, tmp_path: Path) -> None:
    """They go before max_length and min_length, and do not count the start token."""
    import transformers

    save_peer(make_peer(end=4.0 if "min_new_tokens" in lengths else 0.5), tmp_path)
    path = tmp_path / "generation_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"forced_eos_token_id": forced} | lengths))
    peer, translator = transformers.MarianMTModel.from_pretrained(tmp_path).eval(), loaded(tmp_path)
    expected = by_the_peer(peer, translator, SOURCES, num_beams=3, num_return_sequences=3, early_stopping="never")
    found = translator.translate(SOURCES, beam=3, n_best=3)
    assert [[one.tokens for one in row] for row in found.n_best] == [[ids for ids, _ in row] for row in expected]
    np.testing.assert_allclose(found.scores, [row[0][1] for row in expected], atol=1e-5)
    counts = [len(one.tokens) for row in found.n_best for one in row]
    if "max_new_tokens" in lengths:
        assert max(counts) == lengths["max_new_tokens"]
    else:
        assert min(counts) <= lengths["min_new_tokens"] + 2


def test_a_prefix_leaves_room_for_an_end_that_is_forced(tmp_path: Path) -> None:
    _, translator = pair_of(tmp_path)
    found = translator.translate(["a dog"], prefix="abc", max_length=5)
    assert found.texts[0].startswith("abc")
    words = "the prefix has 4 tokens, and a translation has room for 3"
    with pytest.raises(RequestError, match=words):
        translator.translate(["a dog"], prefix="abc", max_length=4)
    translator.checkpoint.generation["forced_eos_token_id"] = None
    assert translator.translate(["a dog"], prefix="abc", max_length=4).texts == ["abc"]


def test_null_stands_for_the_default(peer_directory: Path, tmp_path: Path) -> None:
    shutil.copytree(peer_directory, tmp_path / "a")
    in_config(tmp_path / "a", {"forced_eos_token_id": None})
    usual = loaded(tmp_path / "a")
    expected = usual.translate(SOURCES)
    usual.checkpoint.generation = dict.fromkeys([*SETTINGS, *NEUTRAL])
    assert np.array_equal(usual.translate(SOURCES).scores, expected.scores)


def test_the_end_token_is_not_banned_as_with_the_peer(tmp_path: Path) -> None:
    peer, translator = pair_of(tmp_path)
    words = [[translator.checkpoint.end_id], [translator.checkpoint.begin_id], [5]]
    translator.checkpoint.generation["bad_words_ids"] = words
    options: dict[str, Any] = {"num_beams": 3, "early_stopping": "never", "bad_words_ids": words}
    expected = by_the_peer(peer, translator, SOURCES, **options)
    found = translator.translate(SOURCES, beam=3)
    assert found.tokens == [row[0][0] for row in expected]
    assert "stop" in found.reasons


def test_the_texts_are_the_peers(tmp_path: Path) -> None:
    import transformers

    peer, translator = pair_of(tmp_path)
    tokenizer = transformers.MarianTokenizer.from_pretrained(tmp_path)
    out = peer.generate(**tokenizer(SOURCES, return_tensors="pt", padding=True), early_stopping="never")
    assert translator.translate(SOURCES).texts == tokenizer.batch_decode(out, skip_special_tokens=True)
