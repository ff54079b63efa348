"""The same ids and offsets as Hugging Face's tokenizers, from the same files."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import transformers
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from heedful.text import read_tokenizer
from tests.support.text_peer import differences
from tests.support.text_samples import (
    FRAGMENTS,
    bertweet_files,
    gpt2_files,
    roberta_files,
    rows,
    texts,
    wordpiece_files,
    wordpiece_vocabulary,
    write,
)

UNCASED = {"do_lower_case": True}
FORMS = {
    "uncased": ("bert", "BertTokenizer", wordpiece_files(**UNCASED)),
    "default": ("bert", "BertTokenizer", {"vocab.txt": wordpiece_files()["vocab.txt"]}),
    "cased": ("bert", "BertTokenizer", wordpiece_files(do_lower_case=False)),
    "accents kept": ("bert", "BertTokenizer", wordpiece_files(strip_accents=False, tokenize_chinese_chars=False)),
    "distilbert": ("distilbert", "DistilBertTokenizer", wordpiece_files(**UNCASED)),
    "added": (
        "bert",
        "BertTokenizer",
        {**wordpiece_files(**UNCASED), "added_tokens.json": {"the gem": len(wordpiece_vocabulary())}},
    ),
    "roberta": ("roberta", "RobertaTokenizer", roberta_files()),
    "roberta with space": ("roberta", "RobertaTokenizer", roberta_files(add_prefix_space=True)),
    "gpt2": ("gpt2", "GPT2Tokenizer", gpt2_files()),
    "gpt2 with space": ("gpt2", "GPT2Tokenizer", gpt2_files(add_prefix_space=True)),
}
quick = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module", params=FORMS)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    family, peer, files = FORMS[request.param]
    directory = write(tmp_path_factory.mktemp("form"), files)
    return SimpleNamespace(
        ours=read_tokenizer(directory, family),
        peer=getattr(transformers, peer).from_pretrained(directory),
        directory=directory,
        family=family,
    )


@quick
@given(rows=rows, max_length=st.one_of(st.none(), st.integers(4, 40)))
@example(rows=["x" * 10_000, "the " * 3000, "é" * 10_000, "🙂" * 10_000, ""], max_length=None)
@example(rows=[("x" * 10_000, "the gem " * 40), ("", ""), ("film", ""), ("", "film")], max_length=12)
def test_same_ids_and_offsets(both: SimpleNamespace, rows: list, max_length: int | None) -> None:
    assert differences(both.ours, both.peer, rows, max_length) == []


@quick
@given(rows=rows, max_length=st.one_of(st.none(), st.integers(4, 40)))
def test_tokenizer_json_gives_what_its_writer_gives(
    both: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory, rows: list, max_length: int | None
) -> None:
    if not hasattr(both, "whole"):
        directory = tmp_path_factory.mktemp("whole")
        both.peer.save_pretrained(directory)
        assert (directory / "tokenizer.json").exists()
        both.whole = read_tokenizer(directory, both.family)
    assert differences(both.whole, both.peer, rows, max_length) == []


@pytest.mark.parametrize("name", ["BertTokenizer", "PreTrainedTokenizerFast"])
def test_settings_that_contradict_tokenizer_json(tmp_path: Path, name: str) -> None:
    """Hugging Face's class for BERT believes the settings, its general class believes tokenizer.json."""
    read_tokenizer(write(tmp_path, wordpiece_files()), "bert").save(tmp_path)
    config = {"do_lower_case": False, "strip_accents": False, "tokenizer_class": name}
    write(tmp_path, {"tokenizer_config.json": config, "config.json": {"model_type": "bert"}})
    ours, peer = read_tokenizer(tmp_path, "bert"), transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert differences(ours, peer, [text for text in FRAGMENTS if text], None) == []
    assert ours.lowercase is (name == "PreTrainedTokenizerFast")


def test_a_vocabulary_without_a_mask_has_none(tmp_path: Path) -> None:
    lines = [token for token in wordpiece_vocabulary() if token != "[MASK]"]
    tokenizer = read_tokenizer(write(tmp_path, {"vocab.txt": "\r\n".join(lines)}), "bert")
    assert (tokenizer.mask_id, tokenizer.size) == (None, len(lines))
    assert tokenizer.token(tokenizer.size - 1) == lines[-1]


def test_a_swap_in_the_vocabulary_is_noticed(tmp_path: Path) -> None:
    lines = wordpiece_vocabulary()
    i, j = lines.index("gem"), lines.index("film")
    right = write(tmp_path / "right", {"vocab.txt": "\n".join(lines)})
    lines[i], lines[j] = lines[j], lines[i]
    wrong = write(tmp_path / "wrong", {"vocab.txt": "\n".join(lines)})
    peer = transformers.BertTokenizer.from_pretrained(right)
    rows = ["the gem of a film", "hello world"]
    assert differences(read_tokenizer(right, "bert"), peer, rows, None) == []
    assert differences(read_tokenizer(wrong, "bert"), peer, rows, None) == [0]


def test_a_swap_in_the_merges_is_noticed(tmp_path: Path) -> None:
    files = gpt2_files()
    right = write(tmp_path / "right", files)
    assert isinstance(files["merges.txt"], str)
    version, *merges = files["merges.txt"].splitlines()
    wrong = write(tmp_path / "wrong", {**files, "merges.txt": "\n".join([version, *reversed(merges)])})
    peer = transformers.GPT2Tokenizer.from_pretrained(right)
    assert differences(read_tokenizer(right, "gpt2"), peer, FRAGMENTS, None) == []
    assert differences(read_tokenizer(wrong, "gpt2"), peer, FRAGMENTS, None) != []


@pytest.fixture(scope="module")
def tweets(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    directory = write(tmp_path_factory.mktemp("bertweet"), bertweet_files())
    peer = transformers.BertweetTokenizer.from_pretrained(directory)
    return SimpleNamespace(ours=read_tokenizer(directory, "roberta"), peer=peer)


@quick
@given(rows=rows)
@example(rows=["x" * 10_000, "the " * 3000, "🙂" * 10_000, "ﬁne ﬁ", "th\x1cth\u0085th", "the\nfilm\n\nfilm"])
def test_bertweet_same_ids(tweets: SimpleNamespace, rows: list) -> None:
    assert differences(tweets.ours, tweets.peer, rows, None, offsets=False) == []


def test_bertweet_unknown_pieces_and_private_ids_occur(tweets: SimpleNamespace) -> None:
    """The samples above would prove little if no text ended in a piece that the vocabulary lacks."""
    own = tweets.ours._core.get_vocab()
    private = [piece for piece, i in own.items() if tweets.ours._pieces.public[i] == tweets.ours.unk_id]
    words = [piece.removesuffix("</w>") for piece in private if piece.endswith("</w>")]
    assert len(words) > 5
    assert all(tokens.ids.count(3) == 1 for tokens in tweets.ours.encode(words))
    assert tweets.ours.mask_id == tweets.ours.size - 1


@quick
@given(text=texts)
def test_bertweet_offsets_cut_the_text_into_its_pieces(tweets: SimpleNamespace, text: str) -> None:
    (tokens,) = tweets.ours.encode([text], offsets=True)
    assert tokens.offsets[0] == tokens.offsets[-1] == (0, 0)
    special = {"<s>", "</s>", "<pad>", "<mask>"}
    for i, (start, end) in zip(tokens.ids[1:-1], tokens.offsets[1:-1], strict=True):
        token = tweets.ours.token(i)
        if token != "<unk>":
            piece = token if token in special or token == "@@" else token.removesuffix("@@")
            assert text[start:end] in (piece, token)
    covered = [text[start:end] for start, end in tokens.offsets[1:-1]]
    visible = re.sub(r"(?<=\S)\n", "", "".join(covered))
    assert re.sub(r"\s", "", visible) == re.sub(r"\s", "", text)


def test_bertweet_decoding_joins_the_pieces(tweets: SimpleNamespace) -> None:
    (tokens,) = tweets.ours.encode(["the gem of a film"])
    assert tweets.ours.decode(tokens.ids) == tweets.peer.decode(tokens.ids, skip_special_tokens=True)
