"""What we save in Marian's layout, CTranslate2 converts and translates as we do. It needs a Python with ctranslate2,
transformers and sentencepiece, which HEEDFUL_CTRANSLATE2_PYTHON names."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import heedful
from heedful.checkpoints.translators.marian import why_not_ctranslate2
from heedful.inference.translation.translator import Translator
from tests.support.marian_samples import SOURCES, make_peer, save_peer

PYTHON = os.environ.get("HEEDFUL_CTRANSLATE2_PYTHON")
HERE = Path(__file__).parent
NEEDED = pytest.mark.skipif(not PYTHON, reason="HEEDFUL_CTRANSLATE2_PYTHON names no Python with ctranslate2")
MOST = 12
SAME = {"length_penalty": 0, "min_decoding_length": 0, "max_decoding_length": MOST}
"""Its least length is 1 unless told otherwise, and where the end is forbidden, the other tokens share its probability;
here they do not."""
CASES: dict[str, dict[str, Any]] = {
    "swish": {},
    "relu, layers and sizes": {"activation_function": "relu", "encoder_layers": 1, "decoder_layers": 3,
                               "decoder_ffn_dim": 40},
    "gelu, unscaled": {"activation_function": "gelu", "scale_embedding": False},
}  # fmt: skip


def ours(directory: Path, seed: int = 3, **changes: Any) -> Translator:
    """Read from the peer's directory and saved again."""
    made = heedful.load(save_peer(make_peer(seed, end=0.3, **changes), directory / "theirs"))
    assert isinstance(made, Translator)
    made.save(directory / "ours", layout="marian")
    return made


def there(directory: Path, translator: Translator, options: list[dict[str, Any]]) -> Any:
    side = translator.tokenizers.source
    sources = [[side.token(i) for i in ids] for ids in translator.tokenizers.encode(SOURCES, ()).sources]
    request = {
        "model": str(directory / "ours"), "converted": str(directory / "converted"), "sources": sources,
        "options": options,
    }  # fmt: skip
    assert PYTHON is not None
    done = subprocess.run(
        [PYTHON, str(HERE / "check_in_ctranslate2.py")], input=json.dumps(request), capture_output=True, text=True,
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def pieces(translator: Translator, ids: list[int]) -> list[str]:
    return [translator.tokenizers.target.token(i) for i in ids if i != translator.checkpoint.end_id]


@pytest.mark.full
@NEEDED
@pytest.mark.parametrize("case", CASES)
def test_translations_are_the_same_there(case: str, tmp_path: Path) -> None:
    translator = ours(tmp_path, zero_start=True, **CASES[case])
    assert why_not_ctranslate2(translator.checkpoint) == ""
    translator.checkpoint.generation["forced_eos_token_id"] = None  # it cuts what is too long, too
    widths, texts = [1, 2, 4], set()
    options = [{"beam_size": w, "num_hypotheses": 1, **SAME} for w in widths]
    for width, found in zip(widths, there(tmp_path, translator, options), strict=True):
        expected = translator.translate(SOURCES, beam=width, length_penalty=0.0, max_length=MOST)
        for ids, score, ((hypothesis, theirs), *_) in zip(expected.tokens, expected.scores, found, strict=True):
            assert pieces(translator, ids) == hypothesis
            assert score == pytest.approx(theirs, abs=1e-3)
            texts.add(tuple(ids))
    assert len(texts) > 1


@pytest.mark.full
@NEEDED
def test_with_a_length_penalty_they_are_the_same_if_the_search_stops_early(tmp_path: Path) -> None:
    """Its rule is to stop when as many translations have ended as are followed; ours misses none that is better."""
    differ = 0
    for seed in (3, 4, 5):
        translator = ours(tmp_path / str(seed), seed, zero_start=True)
        translator.checkpoint.generation["forced_eos_token_id"] = None
        widths = [1, 2, 4]
        options = [{"beam_size": w, "num_hypotheses": 1, **SAME, "length_penalty": 1} for w in widths]
        for width, found in zip(widths, there(tmp_path / str(seed), translator, options), strict=True):
            said: dict[str, Any] = {"beam": width, "length_penalty": 1.0, "max_length": MOST}
            expected = translator.translate(SOURCES, stopping="early", **said)
            for ids, score, ((hypothesis, theirs), *_) in zip(expected.tokens, expected.scores, found, strict=True):
                assert pieces(translator, ids) == hypothesis
                assert score == pytest.approx(theirs, abs=1e-3)
            differ += translator.translate(SOURCES, stopping="exact", **said).tokens != expected.tokens
    assert differ


@pytest.mark.full
@NEEDED
def test_what_we_say_that_it_reads_otherwise_it_does(tmp_path: Path) -> None:
    """A start token whose embedding is not zeros: the converter does not notice, and the translations differ."""
    translator = ours(tmp_path)
    assert "row of zeros" in why_not_ctranslate2(translator.checkpoint)
    (found,) = there(tmp_path, translator, [{"beam_size": 1, **SAME}])
    expected = translator.translate(SOURCES, beam=1, max_length=MOST)
    texts = [best[0] for best, *_ in found]
    assert [pieces(translator, ids) for ids in expected.tokens] != texts
