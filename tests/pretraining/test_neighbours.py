"""The table of what stands near what: hand-counted pairs, documents apart, and words of like company."""

import numpy as np

from heedful.data.corpus.documents import Source
from heedful.data.corpus.shards import Corpus
from heedful.data.corpus.writing import describe_sources, write_corpus
from heedful.inputs import cooccurrence
from heedful.inputs.corpora import Spans, whole
from tests.support.corpus_samples import write_text


def spans(folder, lines: list[str]) -> Spans:
    """Of letters as tokens: a is 0, b is 1, and so on; a line is a document."""
    source = Source(write_text(folder / "text.txt", [[line] for line in lines], between="\n"), "text.txt", "line")
    (folder / "corpus").mkdir()

    def read(texts: list[str]) -> list[list[int]]:
        return [[ord(letter) - ord("a") for letter in text if letter.isalpha()] for text in texts]

    write_corpus(folder / "corpus", [source], describe_sources([source]), read, 8, "letters", False)
    return whole(Corpus(folder / "corpus"))


def test_pairs_are_counted_within_documents(tmp_path):
    counts = cooccurrence._count_pairs(spans(tmp_path, ["abc", "da"]), 8, reach=2).toarray()
    expected = np.zeros((8, 8))
    for first, second in ("ab", "ac", "bc", "da"):
        expected[ord(first) - 97, ord(second) - 97] += 1
    assert np.array_equal(counts, expected + expected.T)


def test_parts_do_not_change_the_counts(tmp_path, monkeypatch):
    text = spans(tmp_path, ["abcabd", "dacb", "bbbb", "ca"])
    at_once = cooccurrence._count_pairs(text, 8, reach=3).toarray()
    monkeypatch.setattr(cooccurrence, "_PART", 3)
    assert np.array_equal(cooccurrence._count_pairs(text, 8, reach=3).toarray(), at_once)


def test_information_is_that_of_the_formula(tmp_path):
    counts = cooccurrence._count_pairs(spans(tmp_path, ["abcabd", "dacb", "bbbb", "ca"]), 8, reach=2)
    found, c = cooccurrence._positive_information(counts).toarray(), counts.toarray().astype(np.float64)
    smooth = c.sum(1) ** 0.75 / (c.sum(1) ** 0.75).sum()
    for i in range(8):
        for j in range(8):
            expected = max(0.0, np.log(c[i, j] / c[i].sum() / smooth[j])) if c[i, j] else 0.0
            assert abs(found[i, j] - expected) < 1e-6


def test_words_of_like_company_are_alike(tmp_path):
    """a and b stand between c and d, e between f and g. Each of the two companies has one singular value, twice: with a
    width of 3 one of the four vectors would be left out, and which one would hang on rounding."""
    lines = ["cad", "cbd", "feg"] * 5
    table = cooccurrence.neighbour_table(spans(tmp_path, lines), 8, 1, 4)
    assert not table[7].any()
    assert np.allclose((table[:7] ** 2).mean(1), 1, atol=1e-5)
    assert table[0] @ table[1] / 4 > 0.99
    assert table[0] @ table[4] / 4 < 0.5
