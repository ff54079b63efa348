"""Splits that are carved: determined by seed and content, stratified, and never one text on two sides."""

import hashlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heedful.data.checks import recurring
from heedful.data.examples import load_dataset
from heedful.data.records import Examples, Rows
from heedful.data.splits import carve, carve_missing
from heedful.errors import RequestError
from heedful.storage.hashing import sha256_of_rows


def make(labels: list[str], texts: list[str] | None = None) -> Examples:
    return Examples(
        texts or [f"text {i}" for i in range(len(labels))], None, labels, None, list(range(1, len(labels) + 1))
    )


some_labels = st.lists(st.sampled_from("aabbbbbc"), min_size=4, max_size=120)


@given(some_labels, st.floats(0.05, 0.6), st.integers(0, 5))
def test_every_class_gives_its_share(labels: list[str], share: float, seed: int) -> None:
    stay, go = carve(make(labels), share, seed)
    assert sorted(stay + go) == list(range(len(labels)))
    assert stay == sorted(stay)
    assert go == sorted(go)
    wanted = max(1, round(share * len(labels)))
    assert len(go) <= wanted
    counts, gone = Counter(labels), Counter(labels[i] for i in go)
    for label, count in counts.items():
        assert abs(gone[label] - share * count) <= 1
        assert gone[label] < count  # each keeps a row to learn from
    if min(counts.values()) > 1 / (1 - share) + 1:
        assert len(go) == wanted


@given(some_labels, st.integers(0, 3), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(labels: list[str], seed: int, random: Random) -> None:
    examples = make(labels)
    order = list(range(len(labels)))
    random.shuffle(order)
    shuffled = examples.take(order)
    first = {examples.texts[i] for i in carve(examples, 0.3, seed)[1]}
    assert first == {shuffled.texts[i] for i in carve(shuffled, 0.3, seed)[1]}


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from([f"t{i}" for i in range(12)])), min_size=8, max_size=60)
)
def test_equal_texts_stay_together(rows: list[tuple[str, str]]) -> None:
    examples = make([label for label, _ in rows], [text for _, text in rows])
    stay, go = carve(examples, 0.3, 0)
    assert not {examples.texts[i] for i in stay} & {examples.texts[i] for i in go}


def test_seeds_give_different_splits_and_one_seed_always_the_same() -> None:
    examples = make(["a", "b"] * 200)
    assert carve(examples, 0.1, 0) == carve(examples, 0.1, 0)
    assert carve(examples, 0.1, 0) != carve(examples, 0.1, 1)
    assert carve(examples, 0.1, 0)[1][:6] == PINNED


PINNED = [4, 6, 15, 24, 43, 52]
"""A change here is a change of every published split."""


def test_scores_are_stratified_by_rank() -> None:
    scores = [i / 7 for i in range(200)]
    examples = Examples([f"t{i}" for i in range(200)], None, None, scores, list(range(200)))
    _, go = carve(examples, 0.1, 0)
    assert sorted(i // 20 for i in go) == sorted([*range(10), *range(10)])


def write(path: Path, rows: list[tuple[str, str]]) -> Path:
    path.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))
    return path


ROWS = [(f"text {i}", "yes" if i % 4 else "no") for i in range(200)]


def test_missing_splits_are_carved_from_train(tmp_path: Path) -> None:
    path = write(tmp_path / "reviews.csv", ROWS)
    dataset = load_dataset(train=path, text="text", label="label")
    assert dataset.name == "reviews"
    assert dataset.labels == ("no", "yes")
    assert dataset.dev is not None
    assert dataset.test is not None
    assert [len(dataset.train), len(dataset.dev), len(dataset.test)] == [140, 20, 40]
    assert Counter(dataset.test.labels) == {"yes": 30, "no": 10}
    assert sorted(dataset.train.rows + dataset.dev.rows + dataset.test.rows) == list(range(1, 201))
    for examples in dataset.splits().values():
        assert [f"text {row - 1}" for row in examples.rows] == examples.texts
    assert sum("carved from train" in note for note in dataset.notes) == 2
    again = load_dataset(train=path, text="text", label="label")
    assert again == dataset
    other = load_dataset(train=path, text="text", label="label", split_seed=1)
    assert other.fingerprints["test"] != dataset.fingerprints["test"]


def test_given_splits_are_kept(tmp_path: Path) -> None:
    train, test = write(tmp_path / "a.csv", ROWS), write(tmp_path / "b.csv", [("x", "yes"), ("y", "no")])
    dataset = load_dataset(train=train, test=test, text="text", label="label")
    assert dataset.dev is not None
    assert dataset.test is not None
    assert (len(dataset.train), len(dataset.dev), dataset.test.texts) == (180, 20, ["x", "y"])


def test_too_few_rows_to_carve(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", [("same", "a"), ("same", "b"), ("same", "a"), ("same", "b")])
    with pytest.raises(RequestError, match="4 rows cannot give a test split"):
        load_dataset(train=path, text="text", label="label")


def test_fingerprints_see_content_not_format(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", [("one", "1"), ("two", "0")])
    (tmp_path / "a.jsonl").write_text('{"text": "one", "label": 1}\n{"label": 0, "text": "two"}\n')
    (tmp_path / "a.tsv").write_bytes(b"\xef\xbb\xbflabel\ttext\r\n1\tone\r\n0\ttwo\r\n")
    found = {
        load_dataset(train=tmp_path / f"a.{form}", text="text", label="label", dev_share=0, test_share=0).fingerprints[
            "train"
        ]
        for form in ("csv", "jsonl", "tsv")
    }
    rows = b'["one", null, "1"]\n["two", null, "0"]\n'
    assert found == {hashlib.sha256(rows).hexdigest()}


def test_fingerprints_notice_every_change() -> None:
    base = Examples(["a", "b"], ["c", "d"], ["x", "y"], None, [1, 2])
    changes = [
        Examples(["a", "b "], ["c", "d"], ["x", "y"], None, [1, 2]),
        Examples(["a", "b"], ["c", "e"], ["x", "y"], None, [1, 2]),
        Examples(["a", "b"], None, ["x", "y"], None, [1, 2]),
        Examples(["a", "b"], ["c", "d"], ["x", "x"], None, [1, 2]),
        Examples(["a", "b"], ["c", "d"], None, [1.0, 2.0], [1, 2]),
        Examples(["a", "b"], ["c", "d"], None, None, [1, 2]),
        base.take([1, 0]),
        base.take([0]),
    ]
    assert len({examples.fingerprint for examples in [base, *changes]}) == 1 + len(changes)
    assert base.fingerprint == Examples(base.texts, base.pairs, base.labels, None, [8, 9]).fingerprint


def test_take_keeps_the_rows_of_one_example_together() -> None:
    examples = Examples(["a", "b", "c"], ["d", "e", "f"], None, [1.0, 2.0, 3.0], [5, 6, 7])
    assert examples.take([2, 0]) == Examples(["c", "a"], ["f", "d"], None, [3.0, 1.0], [7, 5])
    assert len(examples.take([])) == 0


@dataclass(frozen=True)
class Captions(Rows):
    """Another set of roles: pictures and what they show."""

    images: list[str]
    captions: list[str]
    rows: list[int]

    def identities(self) -> list[tuple[str, str]]:
        return [(image, "") for image in self.images]

    @property
    def fingerprint(self) -> str:
        return sha256_of_rows(zip(self.images, self.captions, strict=True))


def test_rows_of_other_roles_are_split_like_any() -> None:
    """Five captions of a picture are in one split."""
    numbers = range(200)
    whole = Captions([f"{i // 5}.jpg" for i in numbers], [f"caption {i}" for i in numbers], [i + 1 for i in numbers])
    splits = {"train": whole}
    notes = carve_missing(splits, {"test": 0.2, "dev": 0.1}, 0, "flickr", "caption", "pictures")
    assert {split: len(some) for split, some in splits.items()} == {"train": 140, "test": 40, "dev": 20}
    assert not set(splits["train"].images) & set(splits["test"].images)
    assert recurring(splits) == {}
    assert notes[0] == "test: 40 captions carved from train (20% of 200, seed 0, equal pictures kept together)."
    assert len({some.fingerprint for some in [whole, *splits.values()]}) == 4
