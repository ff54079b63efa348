"""Hidden words: how many, which, and what stands in their place (by property and by chi-square)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from heedful.inputs.masking import Masking

MASK, ORDINARY = 4, np.arange(5, 105)
PLAIN = Masking(0.15, MASK, ORDINARY)


def rows(count: int, length: int) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Each row, what became of it, and the places that were hidden."""
    made = []
    for i in range(count):
        ids = ORDINARY[(np.arange(length) * 7 + i) % 100]
        made.append((ids, *PLAIN.draw(ids, np.arange(length), 3, i)))
    return made


def test_every_place_is_hidden_as_often():
    made = rows(2000, 40)
    places = np.concatenate([places for _, _, places in made])
    assert len(places) == 2000 * 6  # 15 % of 40, in every row
    assert chisquare(np.bincount(places, minlength=40)).pvalue > 1e-3


def test_eighty_ten_ten():
    made = rows(2000, 40)
    before, after = (np.concatenate([row[i][row[2]] for row in made]) for i in (0, 1))
    random = (after != MASK) & (after != before)
    kept = after == before  # a random token may be the same one: one in a hundred of a tenth
    shares = np.array([(after == MASK).sum(), random.sum(), kept.sum()])
    n = len(after)
    assert chisquare(shares, n * np.array([0.8, 0.1 * 0.99, 0.1 + 0.001])).pvalue > 1e-3
    assert chisquare(np.bincount(after[random] - 5, minlength=100)).pvalue > 1e-3


def test_tokens_are_chosen_by_their_weights():
    """One of four tokens is chosen, one of which has a quarter of the others' weight: 1 of 13 times, not 1 of 4."""
    weight_v = np.where(np.arange(105) == 5, 0.25, 1.0)
    masking = Masking(0.25, MASK, ORDINARY, weight_v=weight_v)
    places = np.concatenate([masking.draw(np.array([5, 6, 7, 8]), np.arange(4), 0, i)[1] for i in range(4000)])
    assert chisquare(np.bincount(places, minlength=4), 4000 * np.array([1, 4, 4, 4]) / 13).pvalue > 1e-3


def test_another_epoch_hides_other_words():
    ids = ORDINARY[:40]
    drawn = {tuple(PLAIN.draw(ids, np.arange(40), 0, epoch)[1]) for epoch in range(20)}
    assert len(drawn) == 20
    again = PLAIN.draw(ids, np.arange(40), 0, 7)
    assert all(np.array_equal(a, b) for a, b in zip(again, PLAIN.draw(ids, np.arange(40), 0, 7), strict=True))


@given(st.lists(st.integers(5, 104), min_size=1, max_size=60), st.data())
def test_only_what_may_be_hidden_changes(ids, data):
    row = np.array([2, *ids, 3])
    may = np.array(sorted(data.draw(st.sets(st.integers(1, len(ids)), min_size=1))))
    hidden, places = PLAIN.draw(row, may, data.draw(st.integers(0, 1000)))
    assert set(places) <= set(may)
    assert len(set(places)) == len(places) == max(1, round(0.15 * len(may)))
    untouched = np.setdiff1d(np.arange(len(row)), places)
    assert np.array_equal(hidden[untouched], row[untouched])
    assert set(hidden[places]) <= {MASK, *ORDINARY.tolist()}


@given(st.lists(st.booleans(), min_size=1, max_size=60), st.floats(0.05, 0.6), st.integers(0, 1000))
def test_whole_words_are_hidden_together(begins, share, number):
    """Even ids begin a word. No more is hidden than asked for, and words are cut only if all are too long."""
    begins_word = np.arange(105) % 2 == 0
    ids = np.array([6 if first else 7 for first in begins])
    masking = Masking(share, MASK, ORDINARY, begins_word=begins_word)
    _, places = masking.draw(ids, np.arange(len(ids)), number)
    word = np.cumsum([True, *begins[1:]]) - 1
    count = max(1, round(share * len(ids)))
    assert 1 <= len(places) <= count
    touched = np.unique(word[places])
    whole = np.flatnonzero(np.isin(word, touched))
    if not np.array_equal(whole, places):
        assert len(touched) == 1
        assert np.bincount(word).min() > count


def test_words_of_every_length_are_hidden():
    """But for the last word of a row, which must fit into what is left, as often as others."""
    begins_word = np.arange(105) % 2 == 0
    masking = Masking(0.15, MASK, ORDINARY, begins_word=begins_word)
    ids = np.array(([6] * 2 + [6, 7]) * 40)  # one word in three has two pieces
    hits = np.zeros(len(ids))
    for i in range(1500):
        hits[masking.draw(ids, np.arange(len(ids)), i)[1]] += 1
    long, short = hits[2::4].mean(), hits[0::4].mean()
    assert long == pytest.approx(short, rel=0.08)
