"""A character is a token, and a text comes back as it went in."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heedful.errors import RequestError
from heedful.text import character_tokenizer, read_tokenizer
from heedful.text.characters import _ROLE, SPECIAL
from heedful.text.files import FAMILIES
from tests.support.text_samples import FRAGMENTS, texts


@given(texts)
def test_decoding_is_exact(text: str) -> None:
    tokenizer = character_tokenizer(text)
    (tokens,) = tokenizer.encode([text], offsets=True)
    assert len(tokens) == len(text)
    assert tokens.offsets == [(i, i + 1) for i in range(len(text))]
    assert tokenizer.decode(tokens.ids) == text
    assert [tokenizer.token(i) for i in tokens.ids] == list(text)


@given(st.lists(texts, max_size=4), texts)
def test_lines_or_one_text_give_the_same_and_strangers_are_unknown(lines: list[str], other: str) -> None:
    tokenizer = character_tokenizer(iter(lines))
    assert tokenizer._core.to_str() == character_tokenizer("".join(lines))._core.to_str()
    known = set("".join(lines))
    (tokens,) = tokenizer.encode([other])
    assert [i == tokenizer.unk_id for i in tokens.ids] == [c not in known for c in other]
    assert tokenizer.decode(tokens.ids) == "".join(c for c in other if c in known)


def test_special_tokens_come_first_and_are_not_read_from_texts(tmp_path: Path) -> None:
    tokenizer = character_tokenizer("ba[UNK]", special=("<pad>", "<unk>", "<s>", "</s>"))
    assert [tokenizer.token(i) for i in range(6)] == ["<pad>", "<unk>", "<s>", "</s>", "K", "N"]
    assert (tokenizer.pad_id, tokenizer.unk_id, tokenizer.bos_id, tokenizer.eos_id) == (0, 1, 2, 3)
    assert (tokenizer.kind, tokenizer.size) == ("characters", 11)
    whole = character_tokenizer("".join(FRAGMENTS))
    whole.save(tmp_path)
    again = read_tokenizer(tmp_path, "gpt2")
    for text in FRAGMENTS:
        (tokens,) = again.encode([text])
        assert again.decode(tokens.ids) == text
        assert tokens == whole.encode([text])[0]
    assert (again.kind, again.unk_id, again.pad_id) == ("characters", 1, 0)


@settings(max_examples=50)
@given(texts, texts, st.lists(st.sampled_from(list(_ROLE)), unique=True), st.sampled_from(FAMILIES))
def test_saved_and_read_again_is_exact(
    tmp_path_factory: pytest.TempPathFactory, text: str, other: str, more: list[str], family: str
) -> None:
    """Whatever the family of the model beside it, and whichever special tokens there are."""
    for special in (SPECIAL, ("[UNK]", *(token for token in more if token != "[UNK]"))):
        directory = tmp_path_factory.mktemp("tokenizer")
        tokenizer = character_tokenizer(text, special, family)
        tokenizer.save(directory)
        again = read_tokenizer(directory, family)
        assert again is not None
        rows = [text, other, "[UNK][PAD]", (text, other), "".join(special)]
        assert again.encode(rows, offsets=True) == tokenizer.encode(rows, offsets=True)
        assert again.special == tokenizer.special
        assert (again.size, again.kind, again.max_length) == (tokenizer.size, "characters", None)
        assert again.decode(again.encode([text])[0].ids) == text
        assert again._core.to_str() == tokenizer._core.to_str()


@pytest.mark.parametrize(
    ("text", "special", "words"),
    [
        ("abc", ("[PAD]",), "must include"),
        ("abc", ("[UNK]", "[UNK]"), "must differ"),
        ("abc", ("[UNK]", "x"), "longer than one character"),
        ("ab\ud800", ("[UNK]",), "half a surrogate pair"),
    ],
)
def test_refusals(text: str, special: tuple[str, ...], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        character_tokenizer(text, special)
