"""Prompts lose no opening token and keep no closing one; continuations come in whole characters and lose nothing."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heedful.text import read_tokenizer
from heedful.text.characters import character_tokenizer
from heedful.text.continuing import ContinuedText, continuation, encode_prompts
from heedful.text.tokenizer import Tokenizer
from heedful.text.training import train_wordpiece
from tests.support.generation_samples import byte_vocabulary


@pytest.fixture(scope="module")
def of_bytes(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return make_of_bytes(tmp_path_factory.mktemp("bytes"))


def make_of_bytes(folder: Path, beginning: bool = True) -> Tokenizer:
    for name, content in byte_vocabulary(beginning).items():
        (folder / name).write_text(content, encoding="utf-8")
    tokenizer = read_tokenizer(folder, "gpt2")
    assert tokenizer is not None
    return tokenizer


def pieces_of(tokenizer: Tokenizer, prompt: list[int], ids: list[int]) -> list[str]:
    text = ContinuedText(tokenizer, prompt)
    return [*(text.add(token) for token in ids), text.rest()]


def test_an_empty_prompt_is_the_token_with_which_texts_begin(of_bytes: Tokenizer, tmp_path: Path) -> None:
    assert encode_prompts(of_bytes, ["", "he"]) == [[of_bytes.bos_id], [of_bytes.id("he")]]
    assert encode_prompts(make_of_bytes(tmp_path, beginning=False), [""]) == [[]]


def test_tokens_that_open_a_text_stay_and_those_that_close_it_do_not(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("a man and a woman\n" * 9)
    words = train_wordpiece([corpus], 60)
    (whole,), (prompt,), (empty,) = (
        words.encode(["a man"]), encode_prompts(words, ["a man"]), encode_prompts(words, [""]),
    )  # fmt: skip
    assert whole.ids[-1] == words.sep_id
    assert prompt == whole.ids[:-1]
    assert empty == [words.cls_id]
    added = words.encode(["and"])[0].ids[1:-1]
    assert continuation(words, prompt, added) == " and"
    assert "".join(pieces_of(words, prompt, added)) == " and"


def test_parts_of_characters_wait_for_the_rest(of_bytes: Tokenizer) -> None:
    ids = of_bytes.encode(["é東🙂!"])[0].ids
    assert len(ids) == 2 + 3 + 4 + 1
    assert pieces_of(of_bytes, [1], ids) == ["", "é", "", "", "東", "", "", "", "🙂", "!", ""]
    cut = pieces_of(of_bytes, [1], ids[:-2])
    assert cut == ["", "é", "", "", "東", "", "", "", "\ufffd"]  # no more comes: what is there is shown


@settings(max_examples=200)
@given(ids=st.lists(st.integers(0, 262), max_size=25), prompt=st.text(max_size=5))
def test_all_pieces_are_the_text(of_bytes: Tokenizer, ids: list[int], prompt: str) -> None:
    """Of any bytes, be they text or not; no piece ends inside a character that is still to be finished."""
    start = encode_prompts(of_bytes, [prompt])[0]
    pieces = pieces_of(of_bytes, start, ids)
    assert "".join(pieces) == continuation(of_bytes, start, ids) == of_bytes.decode(ids)
    assert not any(piece.endswith("\ufffd") for piece in pieces[:-1])


def test_characters_are_continued_one_by_one() -> None:
    tokenizer = character_tokenizer("abc é\n", special=("[PAD]", "[UNK]", "[BOS]"))
    assert encode_prompts(tokenizer, [""]) == [[tokenizer.bos_id]]
    (prompt,) = encode_prompts(tokenizer, ["ab\n"])
    ids = tokenizer.encode(["c éa"])[0].ids
    assert pieces_of(tokenizer, prompt, ids) == ["c", " ", "é", "a", ""]
