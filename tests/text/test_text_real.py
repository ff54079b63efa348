"""Parity on real text: reviews, novels, German, Burmese. The slow tier; needs the folder in HEEDFUL_DATA."""

import gzip
import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from heedful.text import read_tokenizer, train_wordpiece
from tests.support.text_peer import differences
from tests.support.text_samples import bertweet_files, write

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(
        not os.environ.get("HEEDFUL_DATA"), reason="HEEDFUL_DATA is not set: no real text to compare on"
    ),
]
SOURCES = {
    "corpora/imdb_unsup.txt.gz": 6000,
    "corpora/novels100.txt.gz": 8000,
    "multi30k_en_de/train.de": 6000,
    "en_my/train.my": 5000,
    "sst2/stsa.binary.train": 2000,
}


def source(name: str) -> Path:
    return Path(os.environ["HEEDFUL_DATA"]) / name


def read(name: str, n: int) -> list[str]:
    path = source(name)
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as stream:
        lines = (line.rstrip("\n") for line in stream)
        return list(itertools.islice((line for line in lines if line), n))


@pytest.fixture(scope="module")
def lines() -> list[str]:
    return [line for name, n in SOURCES.items() for line in read(name, n)]


def batches(lines: list[str], n: int = 1000) -> Iterator[list[str]]:
    for start in range(0, len(lines), n):
        yield lines[start : start + n]


def compare(ours: object, peer: object, lines: list[str], offsets: bool = True) -> int:
    """Every line alone and whole, and alone and cut at 48; every fifth in a pair cut at 48 (there the peer is slow)."""
    compared = 0
    for batch in batches(lines):
        pairs = list(zip(batch[::5], batch[1::5], strict=True))
        assert differences(ours, peer, batch, None, offsets) == []
        if offsets:
            assert differences(ours, peer, batch, 48) == []
            assert differences(ours, peer, pairs, 48) == []
        else:
            assert differences(ours, peer, pairs, None, offsets=False) == []
        compared += len(batch)
    return compared


@pytest.mark.parametrize("lowercase", [True, False])
def test_bert_vocabulary(lines: list[str], tmp_path: Path, lowercase: bool) -> None:
    vocabulary = source("vocabs/bert-base-uncased-vocab.txt").read_bytes()
    write(tmp_path, {"vocab.txt": vocabulary, "tokenizer_config.json": {"do_lower_case": lowercase}})
    ours = read_tokenizer(tmp_path, "bert")
    assert ours.size == 30522
    assert compare(ours, transformers.BertTokenizer.from_pretrained(tmp_path), lines) >= 20_000


@pytest.mark.parametrize("family", ["roberta", "gpt2"])
def test_byte_vocabulary_trained_on_real_text(lines: list[str], tmp_path: Path, family: str) -> None:
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"] if family == "roberta" else ["<|endoftext|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=8000, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    core.train_from_iterator(lines[::3], trainer)
    model = json.loads(core.to_str())["model"]
    merges = "#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in model["merges"])
    write(tmp_path, {"vocab.json": model["vocab"], "merges.txt": merges})
    peer = {"roberta": transformers.RobertaTokenizer, "gpt2": transformers.GPT2Tokenizer}[family]
    ours = read_tokenizer(tmp_path, family)
    assert ours.size == 8000
    assert compare(ours, peer.from_pretrained(tmp_path), lines) >= 20_000
    for batch in batches(lines):
        assert [ours.decode(tokens.ids) for tokens in ours.encode(batch)] == batch


def test_bertweet_codes_trained_on_real_text(lines: list[str], tmp_path: Path) -> None:
    core = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.BpeTrainer(vocab_size=6000, end_of_word_suffix="</w>", show_progress=False)
    core.train_from_iterator(lines[::3], trainer)
    model = json.loads(core.to_str())["model"]
    kept = [piece for i, piece in enumerate(model["vocab"]) if i % 7]
    spelled = [piece.removesuffix("</w>") if piece.endswith("</w>") else piece + "@@" for piece in kept]
    files = {
        **bertweet_files(),
        "bpe.codes": "".join(f"{a} {b} 1\n" for a, b in model["merges"]),
        "vocab.txt": "".join(f"{token} 1\n" for token in dict.fromkeys(spelled)),
    }
    write(tmp_path, files)
    ours = read_tokenizer(tmp_path, "roberta")
    assert compare(ours, transformers.BertweetTokenizer.from_pretrained(tmp_path), lines, offsets=False) >= 20_000


def test_vocabulary_trained_here_reads_the_same_there(lines: list[str], tmp_path: Path) -> None:
    ours = train_wordpiece([source("multi30k_en_de/train.de"), source("en_my/train.my")], 8000)
    assert ours.size == 8000
    ours.save(tmp_path)
    assert compare(ours, transformers.AutoTokenizer.from_pretrained(tmp_path), lines[::5]) >= 5000
