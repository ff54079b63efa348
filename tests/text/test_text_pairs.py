"""Tokenizers for both sides of a translation: joint or separate, trained, encoded, saved and read back."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heedful.building import translators
from heedful.data.records import Aligned, Pairs
from heedful.errors import RequestError
from heedful.recipes.reading import make_recipe
from heedful.storage.shared import SharedStore
from heedful.text.characters import character_tokenizer
from heedful.text.pairs import PairTokenizer, read_pair_tokenizer, train_pair_tokenizer

SOURCES = ["the cat sat on the mat", "a dog ran", "the dog sat"] * 4
TARGETS = ["die Katze saß auf der Matte", "ein Hund lief", "der Hund saß"] * 4
KINDS = [("bpe", 300), ("wordpiece", 120), ("characters", 8000)]


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize(("kind", "size"), KINDS)
def test_trained_saved_and_read_back(kind: str, size: int, joint: bool, tmp_path: Path) -> None:
    pair = train_pair_tokenizer(SOURCES, TARGETS, kind, size, "heedful", joint=joint, special=["<de>"])
    assert pair.shared is joint
    assert pair.source.id("<de>") is not None
    assert pair.target.id("<de>") is not None
    pair.save(tmp_path)
    assert (tmp_path / "target").is_dir() is not joint
    again = read_pair_tokenizer(tmp_path, "heedful")
    assert again is not None
    assert again.shared is joint
    assert again.encode(SOURCES, TARGETS) == pair.encode(SOURCES, TARGETS)
    assert (again.begin_id, again.end_id, again.source_end_id) == (pair.begin_id, pair.end_id, pair.source_end_id)
    encoded = again.encode(SOURCES, TARGETS)
    lower = kind == "wordpiece"
    for ids, text in zip(encoded.targets, TARGETS, strict=True):
        assert ids[-1] == again.end_id
        assert again.decode(ids) == (text.lower() if lower else text)


def test_a_vocabulary_of_its_own_knows_one_side_alone() -> None:
    pair = train_pair_tokenizer(SOURCES, TARGETS, "characters", 8000, "heedful", joint=False)
    assert pair.source.id("ß") is None
    assert pair.target.id("ß") is not None
    joint = train_pair_tokenizer(SOURCES, TARGETS, "characters", 8000, "heedful")
    assert joint.source is joint.target
    assert joint.source.id("ß") is not None


@given(st.lists(st.text(alphabet="abc ", max_size=12), min_size=1, max_size=8), st.integers(2, 10))
def test_what_is_too_long_is_cut_and_named(texts: list[str], longest: int) -> None:
    pair = PairTokenizer.of_one(character_tokenizer("abc ", ("[PAD]", "[UNK]", "[BOS]", "[EOS]")))
    encoded = pair.encode(texts, texts[::-1], longest)
    for text, ids in zip(texts, encoded.sources, strict=True):
        assert pair.decode(ids) == text[: longest - 1]
        assert ids[-1] == pair.end_id
        assert len(ids) == min(len(text) + 1, longest)
    assert encoded.cut_sources == [i for i, text in enumerate(texts) if len(text) >= longest]
    assert encoded.cut_targets == [i for i, text in enumerate(texts[::-1]) if len(text) >= longest]
    assert pair.encode(texts, texts).cut_sources == []


def test_what_was_cut_is_said() -> None:
    pair = PairTokenizer.of_one(character_tokenizer("abc", ("[PAD]", "[UNK]", "[BOS]", "[EOS]")))
    encoded = pair.encode(["aaaa", "b", "aaaaa"], ["a", "a", "aaaa"], 4)
    assert encoded.said("test", [10, 11, 12], 4) == [
        "test: 2 sources have more than 4 tokens and are cut (rows 10, 12).",
        "test: 1 target has more than 4 tokens and is cut (row 12).",
    ]
    assert pair.encode(["a"], ["a"], 4).said("test", [10], 4) == []


def test_tokenizers_that_will_not_do(tmp_path: Path) -> None:
    bare = PairTokenizer.of_one(character_tokenizer("abc"))
    with pytest.raises(RequestError, match="a token that ends a text"):
        bare.encode(["a"], ["b"])
    assert read_pair_tokenizer(tmp_path, "heedful") is None
    train_pair_tokenizer(SOURCES, TARGETS, "characters", 8000, "heedful", joint=False).save(tmp_path)
    for path in (tmp_path / "target").iterdir():
        path.unlink()
    with pytest.raises(RequestError, match="target holds no tokenizer for the target"):
        read_pair_tokenizer(tmp_path, "heedful")


def test_trained_once_for_all_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = Pairs(SOURCES, TARGETS, list(range(12)))
    data = Aligned("toy", ("en", "de"), {"train": pairs}, fingerprints={"train": pairs.fingerprint})
    store = SharedStore(tmp_path / "store")

    def made(seed: int, **table: Any) -> PairTokenizer:
        content = {"model": {"shape": "bert-tiny"}, "tokenizer": table, "data": {"train": "a.tsv"}}
        monkeypatch.setattr("heedful.recipes.reading._refuse_contradictions", lambda recipe: None)
        monkeypatch.setattr("heedful.data.labelled.LabelledData.check", staticmethod(lambda recipe: None))
        return translators.pair_tokenizer_for(make_recipe(content), data, "heedful", store)

    first = made(0, kind="bpe", size=300, joint=False)
    assert not first.shared
    monkeypatch.setattr(translators, "train_pair_tokenizer", None)  # who comes later reads what is there
    assert made(1, kind="bpe", size=300, joint=False).encode(SOURCES, TARGETS) == first.encode(SOURCES, TARGETS)
    with pytest.raises(TypeError):
        made(1, kind="bpe", size=300)
