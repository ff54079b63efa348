"""What the class promises beside parity: nothing leaks, nothing is silent, nothing depends on earlier calls."""

from pathlib import Path

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from heedful.errors import RequestError
from heedful.text import Tokenizer, read_tokenizer
from heedful.text.tokenizer import longest_first
from tests.support.text_samples import gpt2_files, roberta_files, wordpiece_files, write


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return read_tokenizer(write(tmp_path_factory.mktemp("bert"), wordpiece_files(model_max_length=64)), "bert")


def spell(tokenizer: Tokenizer, ids: list[int]) -> str:
    return " ".join(tokenizer.token(i) for i in ids)


def test_texts_and_pairs_in_one_batch(bert: Tokenizer) -> None:
    single, pair = bert.encode(["the gem", ("the gem", "film")], offsets=True)
    assert spell(bert, single.ids) == "[CLS] the gem [SEP]"
    assert spell(bert, pair.ids) == "[CLS] the gem [SEP] film [SEP]"
    assert (single.segments, pair.segments) == ([0, 0, 0, 0], [0, 0, 0, 0, 1, 1])
    assert pair.offsets == [(0, 0), (0, 3), (4, 7), (0, 0), (0, 4), (0, 0)]
    assert not single.truncated
    assert bert.encode([]) == []


def test_roberta_and_gpt2_put_their_own_tokens_around(tmp_path: Path) -> None:
    roberta = read_tokenizer(write(tmp_path / "r", roberta_files()), "roberta")
    assert spell(roberta, roberta.encode([("the", "film")])[0].ids) == "<s> the </s> </s> film </s>"
    assert (roberta.cls_id, roberta.pad_id, roberta.sep_id, roberta.unk_id) == (0, 1, 2, 3)
    assert roberta.mask_id == roberta.size - 1
    gpt2 = read_tokenizer(write(tmp_path / "g", gpt2_files()), "gpt2")
    assert spell(gpt2, gpt2.encode(["the"])[0].ids) == "the"
    assert (gpt2.pad_id, gpt2.mask_id, gpt2.eos_id) == (None, None, gpt2.size - 1)
    assert (roberta.kind, gpt2.kind, gpt2.lowercase) == ("byte-level BPE", "byte-level BPE", False)


def test_facts(bert: Tokenizer, tmp_path: Path) -> None:
    assert (bert.kind, bert.lowercase, bert.max_length) == ("WordPiece", True, 64)
    assert bert.size == len(wordpiece_files()["vocab.txt"].splitlines())
    assert (bert.pad_id, bert.unk_id, bert.cls_id, bert.sep_id, bert.mask_id) == (0, 2, 3, 4, 5)
    assert bert.token(bert.id("gem")) == "gem"
    assert bert.id("nowhere to be found") is None
    assert bert.decode(bert.encode(["the gem of a film"])[0].ids) == "the gem of a film"
    assert bert.decode([3, bert.id("gem"), 4], skip_special=False) == "[CLS] gem [SEP]"
    huge = write(tmp_path, wordpiece_files(model_max_length=10**30, do_lower_case=False))
    assert read_tokenizer(huge, "bert").max_length is None
    assert read_tokenizer(huge, "bert").lowercase is False


def test_stored_truncation_and_padding_do_not_leak(bert: Tokenizer, tmp_path: Path) -> None:
    core = tokenizers.Tokenizer.from_str(bert._core.to_str())
    core.enable_truncation(5)
    core.enable_padding(length=8)
    write(tmp_path, {"tokenizer.json": core.to_str()})
    text = "the gem of a film is good"
    assert len(core.encode(text).ids) == 8
    again = read_tokenizer(tmp_path, "bert")
    assert again.encode([text]) == bert.encode([text])
    assert len(again.encode([text])[0]) == 9
    again.save(tmp_path)
    assert tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json")).padding is None


def test_earlier_calls_leave_no_trace(bert: Tokenizer) -> None:
    rows = ["the gem of a film is good", ("the gem of a film", "hello world is not good")]
    before = bert.encode(rows)
    short = bert.encode(rows, max_length=6)
    assert [len(tokens) for tokens in short] == [6, 6]
    assert [tokens.truncated for tokens in short] == [True, True]
    assert bert.encode(rows) == before
    assert bert.encode(rows, max_length=6, offsets=True)[1].ids == short[1].ids
    assert bert.encode([*rows, "the"], max_length=9)[2] == bert.encode(["the"])[0]


def test_truncation_on_the_left(tmp_path: Path) -> None:
    left = read_tokenizer(write(tmp_path, wordpiece_files(truncation_side="left")), "bert")
    assert spell(left, left.encode(["the gem of a film"], max_length=4)[0].ids) == "[CLS] a film [SEP]"


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 40))
def test_longest_first_takes_from_the_longer_text(n_a: int, n_b: int, room: int) -> None:
    kept_a, kept_b = longest_first(n_a, n_b, room)
    assert kept_a + kept_b == min(room, n_a + n_b)
    assert 0 <= kept_a <= n_a
    assert 0 <= kept_b <= n_b
    if kept_a < n_a and kept_b < n_b:
        assert abs(kept_a - kept_b) <= 1
    elif kept_a < n_a:
        assert kept_a >= kept_b - 1
    elif kept_b < n_b:
        assert kept_b >= kept_a - 1


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (["a", 3.5], "Row 1 of the texts is float"),
        (["a", None], "Row 1 of the texts is missing"),
        ([b"a"], "Row 0 of the texts is bytes"),
        (["a", "b", "ab\ud800"], "Row 2 of the texts has half a surrogate pair at character 2"),
        ([("a", "\udfff")], "Row 0 of the texts has half a surrogate pair at character 0"),
        ([("a", "b", "c")], "Row 0 of the texts has 3 parts"),
        ([("a",)], "Row 0 of the texts has 1 parts"),
        ([("a", 1)], "Row 0 of the texts is int"),
        ("a b", "one string; put it in a list"),
    ],
)
@pytest.mark.parametrize("offsets", [False, True])
def test_what_is_not_text_is_refused_by_row(bert: Tokenizer, rows: list, words: str, offsets: bool) -> None:
    with pytest.raises(RequestError) as caught:
        bert.encode(rows, offsets=offsets)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_lengths_and_ids_out_of_range_are_refused(bert: Tokenizer) -> None:
    with pytest.raises(RequestError, match="max_length 2 is less than the 3 special tokens"):
        bert.encode([("the", "film")], max_length=2)
    with pytest.raises(RequestError, match="give at least 1"):
        bert.encode(["the"], max_length=0)
    assert spell(bert, bert.encode([("the", "film")], max_length=3)[0].ids) == "[CLS] [SEP] [SEP]"
    for wrong in (-1, bert.size):
        with pytest.raises(RequestError, match=f"the id {wrong}"):
            bert.decode([wrong])
        with pytest.raises(RequestError, match=f"no id {wrong}"):
            bert.token(wrong)


def test_model_input_names_decide_whether_there_are_segments(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n")
    assert read_tokenizer(tmp_path, "bert").encode([("a", "b")])[0].segments == [0, 0, 0, 1, 1]
    (tmp_path / "tokenizer_config.json").write_text('{"model_input_names": ["input_ids", "attention_mask"]}')
    assert read_tokenizer(tmp_path, "bert").encode([("a", "b")])[0].segments == [0] * 5
    saved = tmp_path / "saved"
    saved.mkdir()
    read_tokenizer(tmp_path, "bert").save(saved)
    assert read_tokenizer(saved, "bert").encode([("a", "b")])[0].segments == [0] * 5
