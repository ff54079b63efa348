"""SentencePiece's files as tokenizers of a directory: alone or as two sides, with many symbols, saved and read back."""

from pathlib import Path

import pytest

from heedful.errors import RequestError
from heedful.text.characters import character_tokenizer
from heedful.text.files import read_tokenizer
from heedful.text.marian import read_marian, read_spm_tokenizer
from heedful.text.pairs import PairTokenizer, read_pair_tokenizer
from heedful.text.spm import joining, read_spm
from heedful.text.tokenizer import Tokenizer
from tests.support.spm_samples import PIECES, marian_directory, sized, trained, written

TARGET = [*PIECES[:3], ("▁b", -1.0, 1), ("▁", -2.0, 1), ("a", -3.0, 1), ("b", -3.5, 1)]
VOCABULARY = {token: i for i, token in enumerate(["</s>", "<unk>", "▁a", "b", "▁b", "▁", "a", "ab", "<pad>"])}
TEXTS = ["ab ba", "b", "a ab", "zz"]


@pytest.fixture
def marian(tmp_path: Path) -> Path:
    return marian_directory(tmp_path / "marian", written(PIECES), written(TARGET), VOCABULARY)


# Which vocabulary it is


def test_each_side_has_a_fingerprint_of_its_own(marian: Path) -> None:
    source, target = read_marian(marian)
    assert source.plain(TEXTS) != target.plain(TEXTS)
    assert source.fingerprint != target.fingerprint
    assert [one.fingerprint for one in read_marian(marian)] == [source.fingerprint, target.fingerprint]


def test_another_unknown_token_is_another_fingerprint(marian: Path) -> None:
    before = read_marian(marian)[0]
    (marian / "special_tokens_map.json").write_text('{"unk_token": "<pad>"}')
    after = read_marian(marian)[0]
    assert before.plain(["zz"]) != after.plain(["zz"])
    assert before.fingerprint != after.fingerprint


# A model alone


@pytest.mark.parametrize("name", ["some.spm", "spiece.model"])
@pytest.mark.parametrize("kind", [1, 2])
def test_a_model_alone_is_read_saved_and_read_back(name: str, kind: int, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(written([*PIECES, ("<pad>", 0.0, 3)], kind=kind))
    tokenizer = read_tokenizer(tmp_path, "heedful")
    assert tokenizer is not None
    assert tokenizer.plain(TEXTS) == read_spm_tokenizer(tmp_path / name).plain(TEXTS)
    assert tokenizer.side == ""
    (tmp_path / "copy").mkdir()
    tokenizer.save(tmp_path / "copy")
    again = read_tokenizer(tmp_path / "copy", "heedful")
    assert again is not None
    assert again.encode(TEXTS) == tokenizer.encode(TEXTS)
    assert (again.special, again.fingerprint) == (tokenizer.special, tokenizer.fingerprint)
    pair = read_pair_tokenizer(tmp_path / "copy", "heedful")
    assert pair is not None
    assert pair.encode(TEXTS, TEXTS).targets == [[*ids, tokenizer.eos_id] for ids in tokenizer.plain(TEXTS)]


def test_models_alone_that_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.spm").write_bytes(written(PIECES))
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "XLMRobertaTokenizer"}')
    with pytest.raises(RequestError, match="tokenizer_class 'XLMRobertaTokenizer' cannot be built"):
        read_tokenizer(tmp_path, "heedful")
    (tmp_path / "tokenizer_config.json").write_text('{"pad_token": "[PAD]"}')
    with pytest.raises(RequestError, match=r"a\.spm lacks the pad token '\[PAD\]'"):
        read_tokenizer(tmp_path, "heedful")
    (tmp_path / "tokenizer_config.json").unlink()
    (tmp_path / "b.model").write_bytes(written(PIECES))
    with pytest.raises(RequestError, match=r"has 2 SentencePiece models \(a\.spm, b\.model\); leave one"):
        read_tokenizer(tmp_path, "heedful")


# Two sides saved


def pair_again(pair: PairTokenizer, place: Path) -> PairTokenizer:
    place.mkdir()
    pair.save(place)
    again = read_pair_tokenizer(place, "heedful")
    assert again is not None
    assert again.encode(TEXTS, TEXTS) == pair.encode(TEXTS, TEXTS)
    assert again.source.fingerprint == pair.source.fingerprint
    assert again.target.fingerprint == pair.target.fingerprint
    return again


def letters() -> Tokenizer:
    return character_tokenizer("abz ", ("[PAD]", "[UNK]", "[BOS]", "[EOS]"))


def test_a_target_from_elsewhere_is_not_lost(marian: Path, tmp_path: Path) -> None:
    source, target = read_marian(marian)
    other = marian_directory(tmp_path / "other", written(TARGET), written(PIECES), VOCABULARY)
    pair_again(PairTokenizer(source, target), tmp_path / "0")
    assert not (tmp_path / "0" / "target").exists()
    for i, foreign in enumerate((letters(), read_marian(other)[1]), 1):
        again = pair_again(PairTokenizer(source, foreign), tmp_path / str(i))
        assert again.target.plain(TEXTS) != target.plain(TEXTS)
    pair_again(PairTokenizer(letters(), target), tmp_path / "3")


def test_sides_that_cannot_be_saved_are_refused(marian: Path, tmp_path: Path) -> None:
    source, target = read_marian(marian)
    with pytest.raises(RequestError, match="the tokenizer of the source is that of a Marian directory's target"):
        PairTokenizer(target, source).save(tmp_path)
    with pytest.raises(RequestError, match="the tokenizer of the target is that of a Marian directory's source"):
        PairTokenizer.of_one(source).save(tmp_path)


# Case


@pytest.mark.parametrize("suffix", [False, True])
@pytest.mark.parametrize(("rule", "folds"), [("nfkc", False), ("nfkc_cf", True)])
def test_folded_case_is_seen_with_spaces_before_or_after(rule: str, folds: bool, suffix: bool, tmp_path: Path) -> None:
    model = trained("unigram", normalization_rule_name=rule, treat_whitespace_as_suffix=suffix)
    (tmp_path / "m.spm").write_bytes(model)
    tokenizer = read_spm_tokenizer(tmp_path / "m.spm")
    assert tokenizer.lowercase is folds
    (tokens,) = tokenizer.encode(["the dogs sat"], offsets=True)
    assert tokens.words is not None
    assert sorted(set(tokens.words)) == [0, 1, 2]


# Many symbols


@pytest.mark.timeout(120)  # not a speed: looked for one after another they would take hours
def test_thousands_of_symbols_take_no_minutes(tmp_path: Path) -> None:
    symbols = [(f"<s{i}>", 0.0, 4) for i in range(8000)]
    (tmp_path / "m.spm").write_bytes(written([*PIECES, *symbols]))
    tokenizer = read_spm_tokenizer(tmp_path / "m.spm")
    ids = tokenizer.plain(["ab ba <s7999> " * 1000])[0]
    assert [tokenizer.token(i) for i in ids].count("<s7999>") == 1000
    languages = {f">>l{i}<<": len(VOCABULARY) + i for i in range(8000)}
    directory = marian_directory(tmp_path / "m", written(PIECES), written(TARGET), VOCABULARY | languages)
    source, _ = read_marian(directory)
    assert source.plain([">>l7999<< ab"])[0][0] == languages[">>l7999<<"]


def test_tokens_that_the_file_lacks_are_read_as_pieces(tmp_path: Path) -> None:
    """A target may begin with or hold a piece of the source, where both share a vocabulary."""
    (tmp_path / "m.spm").write_bytes(written(PIECES))
    join = joining(read_spm(tmp_path / "m.spm"), "[unknown]")
    assert join(["▁a", "<s>", "ab"]) == "aab"
    assert join(["▁a", "[unknown]"]) == "a ⁇ "
    assert join(["▁xy", "a", "▁xy", "▁a"]) == "xya xy a"


def test_symbols_that_are_no_pieces_count_on(tmp_path: Path) -> None:
    pieces = [*PIECES, ("<x>", 0.0, 4), ("b2", 0.0, 4), ("<y>", 0.0, 4)]
    for kind in (1, 2):
        (tmp_path / "m.spm").write_bytes(written(pieces, kind=kind, normaliser=sized(2, b"")))
        tokenizer = read_spm_tokenizer(tmp_path / "m.spm")
        ids = tokenizer.plain(["<y>b2<x>"])[0]
        assert [tokenizer.token(i) for i in ids if i > 8] == ["<y>", "b2", "<x>"]
