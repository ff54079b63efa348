"""SentencePiece's files: ids and texts of its own library, also as Hugging Face uses it; one sentence for damage."""

import contextlib
import random
import struct
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heedful.errors import RequestError
from heedful.text.marian import read_marian, read_spm_tokenizer
from heedful.text.pairs import read_pair_tokenizer
from heedful.text.tokenizer import Tokenizer
from tests.support.spm_samples import ODD, PIECES, marian_directory, number, sentences, sized, trained, varint, written

OPTIONS: list[dict[str, Any]] = [
    {},
    {"byte_fallback": True, "size": 400},
    {"normalization_rule_name": "nfkc_cf"},
    {"normalization_rule_name": "identity", "remove_extra_whitespaces": False},
    {"add_dummy_prefix": False},
    {"user_defined_symbols": ["<sep>", "ei"]},
    {"split_by_whitespace": False},
    {"treat_whitespace_as_suffix": True},
    {"pad_id": 3, "character_coverage": 0.98},
]
_models: dict[str, tuple[Any, Tokenizer]] = {}


def both(kind: str, options: dict[str, Any], folder: Path) -> tuple[Any, Tokenizer]:
    sentencepiece = pytest.importorskip("sentencepiece")
    key = f"{kind} {options}"
    if key not in _models:
        content = trained(kind, **options)
        (folder / "m.spm").write_bytes(content)
        peer = sentencepiece.SentencePieceProcessor(model_proto=content)
        _models[key] = peer, read_spm_tokenizer(folder / "m.spm")
    return _models[key]


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_ids_and_texts_are_those_of_the_library(kind: str, options: dict[str, Any], tmp_path: Path) -> None:
    peer, ours = both(kind, options, tmp_path)
    draw = random.Random(0)
    letters = "aeiounstdh e\u0301\u0300\u0327\u0323ﬁ½㎏\u3000\u00a0\u200b\u200d\t\nABＡｶﾞ가日😀▁<>/s"
    texts = [*ODD, *sentences()[:40], *("".join(draw.choices(letters, k=draw.randint(1, 14))) for _ in range(400))]
    assert ours.plain(texts) == [peer.encode(text) for text in texts]
    assert [ours.token(i) for i in range(ours.size)] == [peer.id_to_piece(i) for i in range(peer.get_piece_size())]
    for ids in ours.plain(texts):
        assert ours.decode(ids, skip_special=False) == peer.decode(ids)
    for _ in range(200):  # ids that no text has
        ids = [draw.randrange(ours.size) for _ in range(draw.randint(1, 8))]
        assert ours.decode(ids, skip_special=False) == peer.decode(ids)


@settings(max_examples=150)
@given(st.text(max_size=30), st.sampled_from(["unigram", "bpe"]), st.sampled_from([OPTIONS[0], OPTIONS[1], OPTIONS[2]]))
def test_any_text(tmp_path_factory: pytest.TempPathFactory, text: str, kind: str, options: dict[str, Any]) -> None:
    peer, ours = both(kind, options, tmp_path_factory.mktemp("any"))
    assert ours.plain([text]) == [peer.encode(text)]
    (tokens,) = ours.encode([text], offsets=True)
    assert tokens.ids == ours.plain([text])[0]
    assert tokens.offsets is not None
    assert all(0 <= start <= end <= len(text) for start, end in tokens.offsets)


# Models written by hand


def test_the_likeliest_pieces(tmp_path: Path) -> None:
    (tmp_path / "m.spm").write_bytes(written(PIECES))
    unigram = read_spm_tokenizer(tmp_path / "m.spm")
    assert unigram.plain(["ab", "aab", " b  a "]) == [[3, 5], [3, 6], [4, 5, 3]]
    assert unigram.plain(["a<s>b", "zz a"]) == [[3, 0, 5], [4, 0, 3]]  # control symbols are no text; one unknown a run
    assert unigram.decode([3, 6, 0]) == "aab ⁇ "
    assert (unigram.kind, unigram.unk_id, unigram.eos_id) == ("SentencePiece (unigram)", 0, 2)
    (tmp_path / "b.spm").write_bytes(written(PIECES, kind=2))
    bpe = read_spm_tokenizer(tmp_path / "b.spm")
    assert bpe.plain(["ab"]) == [[8]]  # it goes on while there is a piece
    assert bpe.kind == "SentencePiece (BPE)"


@pytest.mark.parametrize("kind", ["word", "char"])
def test_models_of_words_or_characters(kind: str, tmp_path: Path) -> None:
    peer, ours = both(kind, {}, tmp_path)
    assert ours.plain([*ODD, *sentences()[:5]]) == [peer.encode(text) for text in [*ODD, *sentences()[:5]]]
    assert ours.kind == "SentencePiece"


def test_what_is_unknown_costs_ten_more_than_the_least_likely_piece(tmp_path: Path) -> None:
    for score, expected in ((-20.0, [1, 0]), (-10.0, [2, 3])):  # ▁x and unknown: −41; ▁ and xb: −50, then −40
        pieces = [("<unk>", 0.0, 2), ("▁x", -1.0, 1), ("▁", score, 1), ("xb", -30.0, 1)]
        (tmp_path / "m.spm").write_bytes(written(pieces))
        assert read_spm_tokenizer(tmp_path / "m.spm").plain(["xb"]) == [expected]


def test_offsets_are_of_the_original_text(tmp_path: Path) -> None:
    (tmp_path / "m.spm").write_bytes(written(PIECES))
    tokenizer = read_spm_tokenizer(tmp_path / "m.spm")
    (tokens,) = tokenizer.encode(["  ab   aab "], offsets=True)
    assert [tokenizer.token(i) for i in tokens.ids] == ["▁a", "b", "▁a", "ab"]
    text = "  ab   aab "
    assert tokens.offsets is not None
    assert [text[a:b].strip() for a, b in tokens.offsets] == ["a", "b", "a", "ab"]


def test_offsets_where_characters_are_replaced(tmp_path: Path) -> None:
    _, tokenizer = both("unigram", {}, tmp_path)
    text = "the ﬁne cafe\u0301"
    (tokens,) = tokenizer.encode([text], offsets=True)
    assert tokens.offsets is not None
    assert tokens.offsets[0][0] == 0
    assert tokens.offsets[-1][1] == len(text)
    for (_, end), (start, _) in zip(tokens.offsets, tokens.offsets[1:], strict=False):
        assert start <= end or text[end:start] == " "
    words = [text.split()[word] for word in tokens.words or () if word is not None]
    assert [text[a:b].strip() in word for (a, b), word in zip(tokens.offsets, words, strict=True)] == [True] * len(
        words
    )


def test_a_damaged_file_is_one_sentence(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    whole = written(PIECES, normaliser=sized(2, struct.pack("<I", 8) + bytes(8) + b"x\0"))
    path = tmp_path / "m.spm"
    cases = [
        (b"", "unk is not defined"),
        (b"<html>", "it is damaged or cut off"),
        (whole[:-3], "it is damaged or cut off"),
        (b"\xff" * 20, "it is damaged or cut off"),
        (varint(1 << 3 | 2) + varint(2**40), "it is damaged or cut off"),
        (written([("a", 0.0, 1)]), "unk is not defined"),
        (written([*PIECES, PIECES[-1]]), "▁ab is already defined"),
        (written([*PIECES, ("", 0.0, 1)]), "piece must not be empty"),
        (written(PIECES, normaliser=sized(2, struct.pack("<I", 400) + bytes(8))), "Trie data size"),
        (written(PIECES, normaliser=sized(2, struct.pack("<I", 8) + b"\xff" * 8 + b"x\0")), "Trie data size"),
        (written([("\u00e9", 0.0, 1), *PIECES]).replace(b"\xc3\xa9", b"\xff\xff"), "a text in it is not UTF-8"),
        (written(PIECES, trainer=sized(44, b"\xff")), "a text in it is not UTF-8"),
        (written([*PIECES, ("xx", 0.0, 6)]), "byte piece xx is found"),
        (written([*PIECES, ("c", float("nan"), 1)]), "score is NaN or Inf"),
        (written([*PIECES, ("a" * 100_000, 0.0, 1)], kind=2), "piece is too long"),
    ]
    for content, words in cases:
        path.write_bytes(content)
        with pytest.raises(
            RequestError, match=rf"m\.spm is not a complete SentencePiece model \(.*{words}.*\); fetch it"
        ):
            read_spm_tokenizer(path).plain(["ab ba"])
    assert not any(capfd.readouterr())


def test_without_its_library_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "m.spm").write_bytes(written(PIECES))
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(RequestError, match=r"m\.spm is a SentencePiece model, .*pip install 'heedful\[translate\]'\.$"):
        read_spm_tokenizer(tmp_path / "m.spm")


@settings(max_examples=300)
@given(
    st.integers(0, 600) | st.integers(0, 10_000),
    st.integers(0, 255),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.data(),
)
def test_bytes_that_changed_never_crash(
    tmp_path_factory: pytest.TempPathFactory,
    at: int,
    byte: int,
    cut: bool,
    fallback: bool,
    plain: bool,
    data: st.DataObject,
) -> None:
    rules = struct.pack("<I", 1024) + bytes(random.Random(at).choices(range(256), k=1024)) + b"x\0yz\0"
    pieces = [*PIECES, *((f"<0x{byte:02X}>", 0.0, 6) for byte in (range(256) if fallback else ()))]
    normaliser = b"" if plain else sized(2, rules)  # most of these rules are damaged
    content = bytearray(written(pieces, kind=1 + at % 2, trainer=number(35, int(fallback)), normaliser=normaliser))
    content[at % len(content)] = byte
    path = tmp_path_factory.getbasetemp() / "changed.spm"
    path.write_bytes(content[: at % len(content)] if cut else content)
    with contextlib.suppress(RequestError):
        tokenizer = read_spm_tokenizer(path)
        tokenizer.decode(data.draw(st.lists(st.integers(0, tokenizer.size - 1), max_size=20)))
        tokenizer.decode(range(tokenizer.size))
        tokenizer.decode(tokenizer.plain(["ab ba é"])[0])
        tokenizer.encode(["ab ba é"], offsets=True)


# Marian's directories

SOURCE = [*PIECES, ("▁c", -4.0, 1)]
TARGET = [*PIECES[:3], ("▁b", -1.0, 1), ("▁", -2.0, 1), ("a", -3.0, 1), ("b", -3.5, 1)]
VOCABULARY = {
    t: i for i, t in enumerate(["</s>", "<unk>", "▁a", "b", "▁b", "▁", "a", "ab", ">>fra<<", ">>deu<<", "<pad>"])
}


@pytest.fixture
def marian(tmp_path: Path) -> Path:
    return marian_directory(tmp_path / "marian", written(SOURCE), written(TARGET), VOCABULARY)


def test_ids_come_from_the_vocabulary(marian: Path) -> None:
    source, target = read_marian(marian)
    assert [tokens.ids for tokens in source.encode(["ab", "c", ""])] == [[2, 3, 0], [1, 0], [0]]
    assert [tokens.ids for tokens in target.encode(["ab ba"])] == [[5, 6, 3, 4, 6, 0]]
    assert source.plain(["ab </s>"])[0][-1] != 0  # an end that a text spells out ends nothing
    assert (source.pad_id, source.eos_id, source.unk_id, source.size) == (10, 0, 1, 11)
    assert target.decode([4, 6, 5, 3, 0, 10, 10]) == "ba b"
    assert source.max_length is None


def test_languages_stand_before_a_source(marian: Path) -> None:
    source, _ = read_marian(marian)
    assert source.plain([">>deu<< ab", ">>fra<<ab"]) == [[9, 2, 3], [8, 2, 3]]
    (tokens,) = source.encode([">>deu<< ab"], offsets=True)
    assert tokens.offsets == [(0, 7), (8, 9), (9, 10), (0, 0)]
    with pytest.raises(
        RequestError,
        match=r"^Row 1 of the texts: .*marian has no language '>>eng<<' in its vocabulary; it has >>deu<<, >>fra<<\.$",
    ):
        source.plain(["ab", ">>eng<< ab"])
    assert 9 not in source.plain(["ab >>deu<<"])[0]


def test_what_only_looks_like_a_language_is_text(marian: Path) -> None:
    source, target = read_marian(marian)
    for text in (">> ab <<", ">>ab", ">><< ab", ">>deu fra<< ab"):
        assert source.plain([text])[0] == source.plain(["x" + text])[0]  # both begin with what is unknown
    assert target.plain([">>deu<< ab", ">>eng<< ab"]) == [target.plain(["xdeu<< ab"])[0]] * 2
    assert [tokens.ids[-1] for tokens in target.encode([">>eng<< ab"], offsets=True)] == [0]


def test_saved_as_it_was(marian: Path, tmp_path: Path) -> None:
    pair = read_pair_tokenizer(marian, "marian")
    assert pair is not None
    assert pair.shared
    (tmp_path / "copy").mkdir()
    pair.save(tmp_path / "copy")
    for name in ("source.spm", "target.spm", "vocab.json"):
        assert (tmp_path / "copy" / name).read_bytes() == (marian / name).read_bytes()
    again = read_pair_tokenizer(tmp_path / "copy", "marian")
    assert again is not None
    assert again.encode(["ab c"], ["ba a"]) == pair.encode(["ab c"], ["ba a"])
    assert again.source.fingerprint == pair.source.fingerprint


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: (d / "target.spm").unlink(), r"no target\.spm"),
        (lambda d: (d / "vocab.json").unlink(), r"no vocab\.json"),
        (lambda d: (d / "vocab.json").write_text('{"</s>": 0, "<unk>": 1}'), r"lacks the pad token '<pad>'"),
        (lambda d: (d / "vocab.json").write_text('{"</s>": 0, "<unk>": 2}'), r"has no token with the id 1"),
        (lambda d: (d / "source.spm").write_bytes(b"no"), r"source\.spm is not a complete SentencePiece model"),
        (lambda d: (d / "tokenizer_config.json").write_text('{"tokenizer_class": "T5Tokenizer"}'), "tokenizer_class"),
        (lambda d: (d / "tokenizer_config.json").write_text('{"separate_vocabs": true}'), r"no target_vocab\.json"),
    ],
)
def test_directories_that_are_refused(change: Any, words: str, marian: Path) -> None:
    change(marian)
    with pytest.raises(RequestError, match=words):
        read_marian(marian)


@pytest.mark.parametrize("separate", [False, True])
def test_as_hugging_face_reads_it(separate: bool, tmp_path: Path) -> None:
    sentencepiece = pytest.importorskip("sentencepiece")
    import json

    from transformers import MarianTokenizer

    models = [trained("unigram"), trained("bpe", 150)]
    peers = [sentencepiece.SentencePieceProcessor(model_proto=model) for model in models]
    listed = [[peer.id_to_piece(i) for i in range(3, peer.get_piece_size())] for peer in peers]
    # Special tokens alike in both: where they are not, Hugging Face takes the source's ids for the target's.
    tokens = ["</s>", "<unk>", "<pad>", *dict.fromkeys(listed[0][::2] + ([] if separate else listed[1])), ">>deu<<"]
    vocabulary = {token: i for i, token in enumerate(tokens)}
    directory = marian_directory(tmp_path / "m", *models, vocabulary, separate_vocabs=separate)
    if separate:
        target = {token: i for i, token in enumerate(["</s>", "<unk>", "<pad>", *listed[1]])}
        (directory / "target_vocab.json").write_text(json.dumps(target))
    texts = [text for text in [*ODD, *sentences()[:40]] if text.strip() and "</s>" not in text]
    pair = read_pair_tokenizer(directory, "marian")
    assert pair is not None
    assert pair.shared is not separate
    peer = MarianTokenizer.from_pretrained(str(directory))
    assert [t.ids for t in pair.source.encode(texts)] == peer(texts)["input_ids"]
    codes = [">>deu<< the cat"] if not separate else []
    assert [t.ids for t in pair.source.encode(codes)] == [peer(text)["input_ids"] for text in codes]
    targets = peer(text_target=texts)["input_ids"]
    assert [t.ids for t in pair.target.encode(texts)] == targets
    for ids in targets:
        if pair.target.unk_id not in ids:  # what is unknown is said here, and left out there
            assert pair.decode(ids).strip() == peer.decode(ids, skip_special_tokens=True, use_source_tokenizer=False)
    (tmp_path / "saved").mkdir()
    pair.save(tmp_path / "saved")
    assert MarianTokenizer.from_pretrained(str(tmp_path / "saved"))(texts)["input_ids"] == peer(texts)["input_ids"]
