"""BLEU and chrF from sums over sentences are sacreBLEU's, of any set; and so is what a sentence adds."""

import numpy as np
import pytest
import sacrebleu
from hypothesis import example, given, settings
from hypothesis import strategies as st

from heedful.evaluation.metrics import pseudo_values, scored
from heedful.evaluation.translations import TRANSLATION_METRICS, by_length, signatures, translation_columns

METRICS = {metric.name: metric for metric in TRANSLATION_METRICS}
WORDS = st.sampled_from(["a", "the", "cat", "sat", "mat,", "on", "it.", "U.S.", "don't", "größer", "（猫）", "5,000"])
SENTENCES = st.lists(WORDS, max_size=12).map(" ".join)
PAIRS = st.lists(st.tuples(SENTENCES, SENTENCES.filter(bool)), min_size=1, max_size=6)


@settings(max_examples=150, deadline=None)
@given(PAIRS, st.sampled_from(["13a", "intl", "char", "none"]))
@example([("", "a cat")], "13a")
@example([("a cat", "the dog")], "13a")
@example([("the cat sat", "the cat sat on")], "13a")  # no word of four, so that an order has no total
@example([("the mat cat it sat on", "on sat the cat it mat")], "13a")  # smoothed
def test_they_are_sacrebleus(pairs: list[tuple[str, str]], words: str) -> None:
    said, references = [list(side) for side in zip(*pairs, strict=True)]
    columns = translation_columns(said, references, words)
    bleu = sacrebleu.corpus_bleu(said, [references], tokenize=words).score
    assert scored(METRICS["bleu"], columns) == pytest.approx(bleu, abs=1e-9)
    assert scored(METRICS["chrf"], columns) == pytest.approx(sacrebleu.corpus_chrf(said, [references]).score, abs=1e-9)
    right = np.mean([" ".join(a.split()) == " ".join(b.split()) for a, b in pairs])
    assert scored(METRICS["exact_match"], columns) == pytest.approx(right)


SAID = ["the cat sat on the mat", "it sat on a mat, didn't it", "a cat", "the cat is on it.", "a dog sat on the mat"]
REFERENCES = [
    "the cat sat on a mat",
    "it sat on the mat, didn't it",
    "the cat",
    "the cat sat on it.",
    "a dog sat there",
]


@pytest.mark.parametrize("name", ["bleu", "chrf"])
def test_a_sentence_adds_what_is_lost_without_it(name: str) -> None:
    columns = translation_columns(SAID, REFERENCES, "13a")
    whole, values = pseudo_values(METRICS[name], columns)
    score = {"bleu": sacrebleu.corpus_bleu, "chrf": sacrebleu.corpus_chrf}[name]
    n = len(SAID)
    for i in range(n):
        without = score(SAID[:i] + SAID[i + 1 :], [REFERENCES[:i] + REFERENCES[i + 1 :]]).score
        assert values[i] == pytest.approx(n * whole - (n - 1) * without, abs=1e-8)
    assert np.ptp(values) > 1


def test_signatures_say_what_was_done() -> None:
    found = signatures("char")
    metric = sacrebleu.BLEU(tokenize="char")
    metric.corpus_score(SAID, [REFERENCES])
    assert found["bleu"] == str(metric.get_signature())
    assert "tok:char" in found["bleu"]
    assert found["chrf"].startswith("nrefs:1|")
    assert f"version:{sacrebleu.__version__}" in found["chrf"]


def test_sentences_by_length() -> None:
    found = by_length({"x": np.arange(5.0)}, [1, 5, 6, 30, 99], [5, 20, 40])
    assert [(name, columns["x"].tolist()) for name, columns in found] == [
        ("1-5", [0.0, 1.0]), ("6-20", [2.0]), ("21-40", [3.0]), ("41 and more", [4.0]),
    ]  # fmt: skip
