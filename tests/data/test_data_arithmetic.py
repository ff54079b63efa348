"""Generated arithmetic: every label checked by another evaluation, nothing twice, and not won by counting words."""

from collections import Counter
from itertools import pairwise

import pytest

from heedful.data.arithmetic import in_words
from heedful.data.examples import Dataset, load_dataset
from heedful.errors import RequestError

_UNITS = {"zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9}
_TEENS = {"ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16}
_TEENS |= {"seventeen": 17, "eighteen": 18, "nineteen": 19}
_TENS = {"twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90}


def value(text: str) -> int:
    """Through Python's own arithmetic, by its own precedence."""
    signs = {"plus": "+", "minus": "-", "times": "*"}
    return int(eval(" ".join(signs.get(word) or str(number(word)) for word in text.split())))


def number(word: str) -> int:
    known = _UNITS | _TEENS | _TENS
    return sum(known[part] for part in word.split("-"))


@pytest.mark.parametrize(("size", "seed"), [(60, 0), (2000, 0), (2001, 7), (6000, 1)])
def test_every_label_is_right_and_no_expression_recurs(size: int, seed: int) -> None:
    dataset = load_dataset(name="arithmetic", options={"size": size, "seed": seed})
    texts, labels = everything(dataset)
    assert len(texts) == size
    assert len(set(texts)) == size
    for text, label in zip(texts, labels, strict=True):
        found = value(text)
        assert label == ("negative" if found < 0 else "positive" if found > 0 else "zero"), text
    for examples in dataset.splits().values():
        assert examples.labels is not None
        counts = Counter(examples.labels)
        assert max(counts.values()) - min(counts.values()) <= 1
    assert dataset.notes == []


def everything(dataset: Dataset) -> tuple[list[str], list[str]]:
    splits = dataset.splits().values()
    return [t for e in splits for t in e.texts], [a for e in splits for a in e.labels or []]


def test_words_cover_every_number_once() -> None:
    assert [number(in_words(n)) for n in range(100)] == list(range(100))
    assert len({in_words(n) for n in range(100)}) == 100


def test_size_and_seed() -> None:
    default = load_dataset(name="arithmetic")
    assert [len(e) for e in default.splits().values()] == [1400, 200, 400]
    assert load_dataset(name="arithmetic", options={"seed": 0, "size": 2000}) == default
    assert default.fingerprints["test"] == PINNED
    others = [load_dataset(name="arithmetic", options={"seed": seed}).fingerprints["train"] for seed in range(4)]
    assert all(a != b for a, b in pairwise(others))


PINNED = "93cb66016779467258005e829e0539408e776ebc53fe9125bb4fbc666f860d13"
"""A change here is a change of every published result on the set."""


def test_the_operation_does_not_give_the_answer_away() -> None:
    """From the operations alone (the best guess for each sequence of them) less than half would be right."""
    texts, labels = everything(load_dataset(name="arithmetic", options={"size": 6000}))
    forms = [" ".join(w for w in text.split() if w in ("plus", "minus", "times")) for text in texts]
    seen: dict[str, Counter[str]] = {}
    for form, label in zip(forms, labels, strict=True):
        seen.setdefault(form, Counter())[label] += 1
    right = sum(max(counts.values()) for counts in seen.values()) / len(texts)
    assert set(seen) == {"plus", "minus", "times", "plus plus", "plus minus", "minus plus", "minus minus"}
    assert right < 0.5


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"size": 10}, "size = 10 must be from 60"),
        ({"size": 10**6}, "must be from 60 to 30000"),
        ({"size": 2.5}, "size = 2.5 must be a whole number"),
        ({"seed": True}, "seed = True must be a whole number"),
        ({"length": 3}, "no option 'length'; it has size and seed"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, object], said: str) -> None:
    with pytest.raises(RequestError, match=said):
        load_dataset(name="arithmetic", options=options)
