"""Random streams are part of the format: a number that changes here changes every run that anybody has made."""

import numpy as np

from heedful.streams import seed_of, shuffled, uniform

GOLDEN_SEEDS = [5893292994067941330, 6569713554794972727, 2341658070834215009]
GOLDEN_ORDER = [7, 4, 3, 8, 0, 2, 1, 6, 9, 5]
GOLDEN_UNIFORM = 0.06642719525594487


def test_the_numbers_stay_as_they_are() -> None:
    assert [seed_of(0, 0, 0), seed_of(0, 0, 1), seed_of("0", 0, 0)] == GOLDEN_SEEDS
    assert shuffled(10, 3, 1, "rows").tolist() == GOLDEN_ORDER
    assert uniform(0, "training.lr") == GOLDEN_UNIFORM


def test_a_shuffle_is_fair() -> None:
    """Each number is as often in each place, within four standard deviations; neighbours in the seed are unrelated."""
    orders = np.stack([shuffled(8, seed, "fair") for seed in range(4000)])
    assert (np.sort(orders, axis=1) == np.arange(8)).all()
    counts = np.stack([np.bincount(orders[:, place], minlength=8) for place in range(8)])
    assert np.abs(counts - 500).max() < 4 * np.sqrt(4000 / 8 * 7 / 8)
    agree = (orders[1:] == orders[:-1]).mean()
    assert abs(agree - 1 / 8) < 4 * np.sqrt(1 / 8 * 7 / 8 / (3999 * 8))


def test_uniform_numbers_are_uniform() -> None:
    drawn = np.array([uniform(7, i) for i in range(4000)])
    assert 0 <= drawn.min() < 0.01 < 0.99 < drawn.max() < 1
    assert np.abs(np.histogram(drawn, bins=10, range=(0, 1))[0] - 400).max() < 4 * np.sqrt(400 * 0.9)
