"""What is saved is what is read back: here, and by Hugging Face's AutoTokenizer."""

from pathlib import Path

import pytest
from transformers import AutoTokenizer

from heedful.text import Tokenizer, character_tokenizer, read_tokenizer, train_bpe, train_wordpiece
from tests.support.text_peer import differences
from tests.support.text_samples import (
    FRAGMENTS,
    bertweet_files,
    gpt2_files,
    roberta_files,
    wordpiece_files,
    wordpiece_vocabulary,
    write,
)

FILES = {
    "uncased": ("bert", wordpiece_files(model_max_length=64)),
    "cased": ("bert", wordpiece_files(do_lower_case=False)),
    "left": ("distilbert", wordpiece_files(truncation_side="left")),
    "added": ("bert", {**wordpiece_files(), "added_tokens.json": {"the gem": len(wordpiece_vocabulary())}}),
    "roberta": ("roberta", roberta_files(add_prefix_space=True)),
    "gpt2": ("gpt2", gpt2_files()),
    "bertweet": ("roberta", bertweet_files(model_max_length=128)),
    "bertweet with added": ("roberta", {**bertweet_files(), "added_tokens.json": {"<mask>": 0, "zz top": 1}}),
}
MADE = ("characters", "trained wordpiece", "trained roberta", "trained gpt2", "trained heedful")
ROWS = [text for text in FRAGMENTS if text] + ["the gem <mask> of a film zz top"]
PAIRS = list(zip(ROWS, reversed(ROWS), strict=True))


@pytest.fixture(scope="module", params=[*FILES, *MADE])
def tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    directory = tmp_path_factory.mktemp("source")
    name = request.param
    if name in FILES:
        family, files = FILES[name]
        if name == "bertweet with added":
            after = 4 + len(str(files["vocab.txt"]).splitlines())
            files = {**files, "added_tokens.json": {"<mask>": after, "zz top": after + 1}}
        return read_tokenizer(write(directory, files), family)
    (corpus := directory / "corpus.txt").write_text("\n".join(FRAGMENTS * 3), encoding="utf-8")
    if name == "characters":
        return character_tokenizer("".join(FRAGMENTS))
    if name == "trained wordpiece":
        return train_wordpiece([corpus], 500, max_length=77)
    return train_bpe([corpus], 400, family=name.split()[1])


def test_saved_and_read_again_is_the_same(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path)
    again = read_tokenizer(tmp_path, tokenizer.family or "gpt2")
    for rows in (ROWS, PAIRS):
        for max_length in (None, 9):
            assert again.encode(rows, max_length, offsets=True) == tokenizer.encode(rows, max_length, offsets=True)
    facts = ("size", "kind", "lowercase", "max_length", "special", "pad_id", "mask_id", "unk_id", "cls_id", "sep_id")
    for fact in facts:
        assert getattr(again, fact) == getattr(tokenizer, fact), fact
    assert [again.token(i) for i in range(again.size)] == [tokenizer.token(i) for i in range(tokenizer.size)]
    assert again._core.to_str() == tokenizer._core.to_str()
    (tmp_path / "twice").mkdir()
    again.save(tmp_path / "twice")
    for path in (tmp_path / "twice").iterdir():
        assert path.read_bytes() == (tmp_path / path.name).read_bytes(), path.name


@pytest.mark.parametrize("model_type", [None, "its own", "roformer"])
def test_hugging_face_reads_the_same(tokenizer: Tokenizer, tmp_path: Path, model_type: str | None) -> None:
    """Also in a RoFormer, for which it has a class that needs a further package."""
    tokenizer.save(tmp_path)
    if model_type is not None:
        of_model = model_type if model_type == "roformer" else tokenizer.family or "gpt2"
        write(tmp_path, {"config.json": {"model_type": of_model}})
    peer = AutoTokenizer.from_pretrained(tmp_path)
    fast = tokenizer.kind != "BPE (@@)"
    assert differences(tokenizer, peer, ROWS, None, offsets=fast) == []
    assert differences(tokenizer, peer, PAIRS, None, offsets=fast) == []
    if fast:
        assert differences(tokenizer, peer, PAIRS, 9) == []
    assert len(peer) == tokenizer.size
    assert (peer.pad_token_id, peer.mask_token_id) == (tokenizer.pad_id, tokenizer.mask_id)
    if tokenizer.max_length:
        assert peer.model_max_length == tokenizer.max_length
    has_segments = "token_type_ids" in peer("the film")
    assert has_segments == (tokenizer.family in ("bert", "heedful"))


def test_negative_control(tmp_path: Path) -> None:
    tokenizer = read_tokenizer(write(tmp_path, wordpiece_files()), "bert")
    tokenizer.save(tmp_path)
    path = tmp_path / "tokenizer.json"
    text = path.read_text(encoding="utf-8")
    swapped = text.replace('"gem":', '"-->":').replace('"film":', '"gem":').replace('"-->":', '"film":')
    assert swapped != text
    path.write_text(swapped, encoding="utf-8")
    assert read_tokenizer(tmp_path, "bert").encode(["the gem"]) != tokenizer.encode(["the gem"])
    assert differences(tokenizer, AutoTokenizer.from_pretrained(tmp_path), ["the gem", "the"], None) == [0]


@pytest.mark.parametrize("name", [name for name in FILES if not name.startswith("bertweet")])
@pytest.mark.parametrize("form", ["as it came", "saved", "tokenizer.json alone"])
def test_our_own_family_reads_the_tokenizers_of_all_others(name: str, form: str, tmp_path: Path) -> None:
    """What stands around a text and what it is called is as in the family that the files are from."""
    family, files = FILES[name]
    theirs = read_tokenizer(write(tmp_path, files), family)
    directory = tmp_path
    if form != "as it came":
        (directory := tmp_path / "saved").mkdir()
        theirs.save(directory)
    if form == "tokenizer.json alone":
        for small in ("tokenizer_config.json", "special_tokens_map.json"):
            (directory / small).unlink()
    ours = read_tokenizer(directory, "heedful")
    assert ours.special == theirs.special
    for rows in (ROWS, PAIRS):
        assert [t.ids for t in ours.encode(rows)] == [t.ids for t in theirs.encode(rows)]


def test_byte_bpe_of_our_own_has_padding_and_a_mask(tmp_path: Path) -> None:
    (corpus := tmp_path / "corpus.txt").write_text("\n".join(FRAGMENTS * 3), encoding="utf-8")
    made, plain = (train_bpe([corpus], size, family=family) for size, family in ((402, "heedful"), (400, "gpt2")))
    assert [made.token(i) for i in range(3)] == ["<|endoftext|>", "<|pad|>", "<|mask|>"]
    assert (made.bos_id, made.eos_id, made.unk_id, made.pad_id, made.mask_id) == (0, 0, 0, 1, 2)
    for text in FRAGMENTS:
        (ours,), (theirs,) = made.encode([text]), plain.encode([text])
        assert ours.ids == [i + 2 if i else 0 for i in theirs.ids]
        assert made.decode(ours.ids, skip_special=False) == text
    (hidden,) = made.encode(["the <|mask|> film"])  # the space before it is part of it
    assert made.decode(hidden.ids[: hidden.ids.index(2)]) == "the"
