"""Broken tokenizer files: each is refused in one sentence that names the file."""

import copy
import json
import random
from pathlib import Path

import pytest

from heedful.errors import RequestError
from heedful.text import read_tokenizer
from tests.support.text_samples import (
    bertweet_files,
    gpt2_files,
    roberta_files,
    wordpiece_files,
    wordpiece_vocabulary,
    write,
)

VOCABULARY = wordpiece_files()["vocab.txt"]
WHOLE = {
    "version": "1.0",
    "added_tokens": [],
    "normalizer": None,
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]", 1]},
    "decoder": None,
    "model": {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
        "vocab": {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "a": 3, "b": 4},
    },
}


def whole(**changes: object) -> str:
    """WHOLE with the values at dotted paths replaced."""
    content = copy.deepcopy(WHOLE)
    for path, value in changes.items():
        *parents, last = path.split("__")
        place = content
        for key in parents:
            place = place[key]
        place[last] = value
    return json.dumps(content)


def lines(*, without: str = "", extra: str = "") -> str:
    return (
        "\n".join([token for token in wordpiece_vocabulary() if token != without] + ([extra] if extra else [])) + "\n"
    )


def vocabulary(files: dict, **changes: object) -> dict:
    tokens = dict(files["vocab.json"])
    for token, value in changes.items():
        if value is None:
            del tokens[token]
        else:
            tokens[token] = value
    return tokens


GPT2, ROBERTA, TWEET = gpt2_files(), roberta_files(), bertweet_files()
NO_END = {**vocabulary(ROBERTA)}
NO_END["<end>"] = NO_END.pop("</s>")
CODES, MERGES = str(TWEET["bpe.codes"]), str(GPT2["merges.txt"])

JSON, CONFIG, MAP = "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"
ADDED = "added_tokens.json"

# name: family, files, the file that must be named, other words that must occur
CASES: dict[str, tuple[str, dict, str, str]] = {
    "json cut short": ("bert", {JSON: whole()[:200]}, JSON, "not JSON"),
    "json empty": ("bert", {JSON: ""}, JSON, "empty"),
    "json a list": ("bert", {JSON: "[]"}, JSON, "object"),
    "json not UTF-8": ("bert", {JSON: b'{"a": "\xff\xfe"}'}, JSON, "line 1, is not UTF-8"),
    "json binary": ("bert", {JSON: bytes(range(256)) * 50}, JSON, "not UTF-8"),
    "json zeros": ("bert", {JSON: b"\0" * 100}, JSON, "not JSON"),
    "json nested": ("bert", {JSON: '{"a":' * 100_000}, JSON, "nested"),
    "json big number": ("bert", {JSON: '{"a":' + "9" * 5000 + "}"}, JSON, "cannot be read"),
    "json without model": ("bert", {JSON: "{}"}, JSON, "no model"),
    "json key twice": ("bert", {JSON: whole().replace('"b"', '"a"')}, JSON, "'a' twice"),
    "json id twice": ("bert", {JSON: whole(model__vocab__b=3)}, JSON, "same id 3"),
    "json id negative": ("bert", {JSON: whole(model__vocab__b=-4)}, JSON, "can be built"),
    "json id a text": ("bert", {JSON: whole(model__vocab__b="4")}, JSON, "can be built"),
    "json empty vocabulary": ("bert", {JSON: whole(model__vocab={})}, JSON, "empty vocabulary"),
    "json without unknown": ("bert", {JSON: whole(model__unk_token="?")}, JSON, "'\\?'"),
    "json strange model": ("bert", {JSON: whole(model__type="Magic")}, JSON, "can be built"),
    "json strange part": ("bert", {JSON: whole(normalizer={"type": "X"})}, JSON, "can be built"),
    "json wrong end": ("bert", {JSON: whole(post_processor__sep=["[SEP]", 3])}, JSON, "as id 3"),
    "json wrong added": (
        "bert",
        {JSON: whole(added_tokens=[{"id": 9, "content": "a", "special": True, "single_word": False,
                                                "lstrip": False, "rstrip": False, "normalized": False}])},
        JSON,
        "added_tokens|can be built",
    ),
    "json role missing": (
        "bert",
        {JSON: whole(), CONFIG: {"pad_token": "[PAD]"}},
        JSON,
        "lacks the pad token '\\[PAD\\]'",
    ),
    "vocabulary empty": ("bert", {"vocab.txt": "\n"}, "vocab.txt", "empty"),
    "vocabulary not UTF-8": ("bert", {"vocab.txt": VOCABULARY.encode() + b"\xe9\n"}, "vocab.txt", "not UTF-8"),
    "vocabulary repeats": ("bert", {"vocab.txt": VOCABULARY + "gem\n"}, "vocab.txt", "repeats 'gem', as line 10 does"),
    "vocabulary blank lines": ("bert", {"vocab.txt": "\n\n" + VOCABULARY}, "vocab.txt", "line 2, is blank"),
    "vocabulary without UNK": ("bert", {"vocab.txt": lines(without="[UNK]")}, "vocab.txt", "unk token '\\[UNK\\]'"),
    "vocabulary without SEP": ("bert", {"vocab.txt": lines(without="[SEP]")}, "vocab.txt", "sep token '\\[SEP\\]'"),
    "vocabulary without PAD": ("bert", {"vocab.txt": lines(without="[PAD]")}, "vocab.txt", "pad token '\\[PAD\\]'"),
    "vocabulary a directory": ("bert", {}, "vocab.txt", "is a folder; name a file in it"),
    "never_split": ("bert", wordpiece_files(never_split=["gem"]), CONFIG, "never_split"),
    "no basic splitting": ("bert", wordpiece_files(do_basic_tokenize=False), CONFIG, "do_basic_tokenize"),
    "other class": ("bert", wordpiece_files(tokenizer_class="BertJapaneseTokenizer"), CONFIG, "Japanese"),
    "case not a bool": ("bert", wordpiece_files(do_lower_case="yes"), CONFIG, "do_lower_case is 'yes'"),
    "side": ("bert", wordpiece_files(truncation_side="up"), CONFIG, "truncation_side is 'up'"),
    "config broken": ("bert", {"vocab.txt": VOCABULARY, CONFIG: "{,"}, CONFIG, "JSON"),
    "role not a token": ("bert", wordpiece_files(cls_token=3), CONFIG, "cls_token"),
    "role without content": ("bert", wordpiece_files(cls_token={"lstrip": True}), CONFIG, "cls_token"),
    "map broken": ("bert", {"vocab.txt": VOCABULARY, MAP: b"\xff"}, MAP, "UTF-8"),
    "role elsewhere": (
        "bert",
        {"vocab.txt": VOCABULARY, MAP: {"mask_token": "[HIDE]"}},
        "vocab.txt",
        "mask token '\\[HIDE\\]'",
    ),
    "added id wrong": ("bert", {"vocab.txt": VOCABULARY, ADDED: {"zz": 7}}, ADDED, "the id 7"),
    "added id a text": ("bert", {"vocab.txt": VOCABULARY, ADDED: {"zz": "7"}}, ADDED, "'7'"),
    "decoder a list": ("bert", wordpiece_files(added_tokens_decoder=[1]), CONFIG, "added_tokens_decoder"),
    "decoder id wrong": (
        "bert",
        wordpiece_files(added_tokens_decoder={"1": {"content": "gem", "special": False}}),
        CONFIG,
        "'gem' the id 1",
    ),
    "merges not pairs": ("gpt2", {**GPT2, "merges.txt": MERGES + "t h e\n"}, "merges.txt", "'t h e'"),
    "merges blank line": ("gpt2", {**GPT2, "merges.txt": MERGES + "\n" + MERGES}, "merges.txt", "is ''; a merge"),
    "merge of strangers": ("gpt2", {**GPT2, "merges.txt": "東 京\n"}, "merges.txt", "line 1, needs the token '東'"),
    "merge makes a stranger": ("gpt2", {**GPT2, "merges.txt": "Q Q\n"}, "merges.txt", "'QQ'.*vocab.json"),
    "merges empty": ("gpt2", {**GPT2, "merges.txt": ""}, "merges.txt", "empty"),
    "merges absent": ("gpt2", {"vocab.json": GPT2["vocab.json"]}, "merges.txt", "vocab.json"),
    "ids with a gap": ("gpt2", {**GPT2, "vocab.json": vocabulary(GPT2, Q=None)}, "vocab.json", "no token with the id"),
    "id twice": ("gpt2", {**GPT2, "vocab.json": vocabulary(GPT2, Q=3)}, "vocab.json", "same id 3"),
    "id a fraction": ("gpt2", {**GPT2, "vocab.json": vocabulary(GPT2, Q=1.5)}, "vocab.json", "'Q' is 1.5"),
    "id true": ("gpt2", {**GPT2, "vocab.json": vocabulary(GPT2, Q=True)}, "vocab.json", "'Q' is True"),
    "vocab.json empty": ("gpt2", {**GPT2, "vocab.json": "{}"}, "vocab.json", "no tokens"),
    "roberta without end": ("roberta", {**ROBERTA, "vocab.json": NO_END}, "vocab.json", "sep token '</s>'"),
    "space not a bool": ("gpt2", gpt2_files(add_prefix_space=1), CONFIG, "add_prefix_space is 1"),
    "begin added": ("gpt2", gpt2_files(add_bos_token=True), CONFIG, "add_bos_token"),
    "tweets normalised": ("roberta", bertweet_files(normalization=True), CONFIG, "normalization"),
    "codes of two columns": ("roberta", {**TWEET, "bpe.codes": "t h\n"}, "bpe.codes", "line 1"),
    "codes repeat": ("roberta", {**TWEET, "bpe.codes": "t h 5\nt h 4\n"}, "bpe.codes", "line 2, repeats"),
    "codes binary": ("roberta", {**TWEET, "bpe.codes": b"\x80\x81"}, "bpe.codes", "UTF-8"),
    "tweet vocabulary no count": ("roberta", {**TWEET, "vocab.txt": "the 5\nfilm\n"}, "vocab.txt", "line 2"),
    "tweet vocabulary repeats": ("roberta", {**TWEET, "vocab.txt": "the 5\nthe 4\n"}, "vocab.txt", "line 2, repeats"),
    "tweet vocabulary special": ("roberta", {**TWEET, "vocab.txt": "<pad> 5\n"}, "vocab.txt", "special tokens have"),
    "segmented by its class": ("bert", wordpiece_files(tokenizer_class="RoFormerTokenizerFast"), "RoFormer", "jieba"),
    "segmented by its model": ("heedful", {**wordpiece_files(), "config.json": {"model_type": "roformer"}}, "RoFormer",
                               "jieba"),
    "segmented by its model's class": ("bert", {"tokenizer.json": whole(), "config.json": {
        "tokenizer_class": "RoFormerTokenizer"}}, "RoFormer", "jieba"),
    "codes alone": ("roberta", {"bpe.codes": CODES}, "vocab.txt", "bpe.codes"),
}  # fmt: skip


_ADDED = {"id": 1, "content": "<s>", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
_TEMPLATE = {
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
    "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}},
}
_PARTS = {
    "version": "1.0",
    "added_tokens": [{**_ADDED, "special": True}],
    "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]},
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
    "post_processor": {"type": "Sequence", "processors": [_TEMPLATE]},
    "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
}
SOUND = [
    WHOLE,
    {**_PARTS, "model": {"type": "BPE", "unk_token": "?", "merges": [["a", "b"]],
                         "vocab": {"?": 0, "<s>": 1, "a": 2, "b": 3, "ab": 4}}},
    {**_PARTS, "model": {"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0, "<s>": 1, "a": 2}}},
    {**_PARTS, "model": {"type": "Unigram", "unk_id": 0, "vocab": [["?", 0.0], ["<s>", 0.0], ["a", -1.0]]}},
]  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_refused_in_one_sentence(name: str, tmp_path: Path) -> None:
    family, files, named, words = CASES[name]
    write(tmp_path, files)
    if not files:
        (tmp_path / "vocab.txt").mkdir()
    with pytest.raises(RequestError, match=words) as caught:
        read_tokenizer(tmp_path, family)
    message = str(caught.value)
    assert named in message
    assert str(tmp_path) in message
    assert message.count("\n") == 0
    assert len(message) < 500
    assert message.endswith(".")


def refusal(directory: Path, family: str) -> str:
    """What is said against the files; empty if they encode."""
    try:
        read_tokenizer(directory, family).encode(["a b z", ("the gem", "of a film")], offsets=True)
    except RequestError as error:
        return str(error)
    return ""


def test_the_samples_are_sound_before_they_are_broken(tmp_path: Path) -> None:
    for family, files in (
        ("bert", {"tokenizer.json": whole()}),
        ("bert", wordpiece_files()),
        ("gpt2", GPT2),
        ("roberta", ROBERTA),
        ("roberta", TWEET),
    ):
        directory = write(tmp_path / str(len(list(tmp_path.iterdir()))), files)
        assert read_tokenizer(directory, family).encode(["a"])[0].ids


def test_nothing_there_is_none_and_nowhere_is_refused(tmp_path: Path) -> None:
    assert read_tokenizer(tmp_path, "bert") is None
    with pytest.raises(RequestError, match="is not a directory"):
        read_tokenizer(tmp_path / "absent", "bert")
    with pytest.raises(RequestError, match="family 't5'"):
        read_tokenizer(tmp_path, "t5")


@pytest.mark.parametrize("sound", SOUND, ids=lambda sound: sound["model"]["type"])
def test_damage_anywhere_is_a_refusal_or_a_working_tokenizer(tmp_path: Path, sound: dict) -> None:
    """Values of a sound tokenizer.json replaced by nonsense, one at a time: never an error of another kind."""
    nonsense = [None, True, -1, 1.5, "", "x", [], {}, ["a", "b"]]
    tries = refused = 0
    for path in _paths(sound):
        for value in nonsense:
            content = copy.deepcopy(sound)
            place = content
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = value
            write(tmp_path, {"tokenizer.json": json.dumps(content)})
            tries += 1
            message = refusal(tmp_path, "bert")
            assert not message or "tokenizer.json" in message
            refused += bool(message)
    assert tries > 200
    assert tries // 3 < refused < tries


def test_cut_or_scrambled_files_are_a_refusal_or_a_working_tokenizer(tmp_path: Path) -> None:
    draw = random.Random(7)
    refused = 0
    for round_, (family, files) in enumerate([("bert", wordpiece_files()), ("gpt2", GPT2), ("roberta", TWEET)] * 20):
        content = {name: value if isinstance(value, str) else json.dumps(value) for name, value in files.items()}
        name = draw.choice(sorted(content))
        raw = bytearray(content[name].encode())
        for _ in range(3):
            raw[draw.randrange(len(raw))] = draw.randrange(256)
        directory = write(tmp_path / str(round_), {**content, name: bytes(raw[: draw.randrange(1, len(raw))])})
        message = refusal(directory, family)
        assert not message or name in message or "vocab" in message
        refused += bool(message)
    assert refused > 20


def _paths(content: object, prefix: tuple = ()) -> list[tuple]:
    items = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    return [p for key, value in items for p in [(*prefix, key), *_paths(value, (*prefix, key))]]
