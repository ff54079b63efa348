"""Ways to break config.json, the files around it and the index of shards."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from tests.support.bad_weights import Bad
from tests.support.checkpoint_samples import (
    ABSENT,
    CONFIG,
    COUNT,
    FAMILY_NAMES,
    HEADS_FILE,
    INDEX,
    LAYERS,
    WEIGHTS,
    WIDTH,
    edit_config,
    edit_tensors,
    read_config,
    shard,
)


def _config(**changes: Any) -> Callable[[Path], None]:
    return lambda directory: edit_config(directory, **changes)


def _text(content: str | bytes) -> Callable[[Path], Any]:
    raw = content if isinstance(content, bytes) else content.encode()
    return lambda directory: (directory / CONFIG).write_bytes(raw)


def _spliced(key: str, json_text: str) -> Callable[[Path], None]:
    """A value that `json.dumps` would not write."""

    def damage(directory: Path) -> None:
        content = read_config(directory)
        content.pop(key, None)
        (directory / CONFIG).write_text(json.dumps(content)[:-1] + f', "{key}": {json_text}}}')

    return damage


def broken_configs() -> Iterator[Bad]:
    for name, text in {
        "empty": "",
        "text": "hello",
        "a list": "[]",
        "null": "null",
        "a string": '"bert"',
        "unclosed": '{"model_type": "bert"',
        "two objects": "{}{}",
        "nested 100 000 deep": "[" * 100_000,
        "nested 100 000 deep in a key": '{"a":' * 100_000,
        "not UTF-8": b'{"model_type": "b\xe9rt"}',
        "UTF-16": "{}".encode("utf-16"),
        "an empty object": "{}",
        "half a surrogate pair": '{"model_type": "bert", "finetuning_task": "\\ud800"}',
    }.items():
        yield Bad(f"config {name}", "bert", _text(text), CONFIG)
    for depth in (60, 900, 980):
        deep = '{"a":' * depth + "1" + "}" * depth
        for key in ("hidden_size", "quantization_config", "id2label", "heedful", "hidden_act", "finetuning_task"):
            yield Bad(f"{key} nested {depth} deep", "bert", _spliced(key, deep), CONFIG)
    yield Bad("5000 digits", "bert", _spliced("hidden_size", "9" * 5000), CONFIG)
    yield Bad("4000 digits", "bert", _spliced("hidden_size", "9" * 4000), "hidden_size")
    yield Bad("4000 digits of dropout", "bert", _spliced("hidden_dropout_prob", "9" * 4000), "hidden_dropout_prob")


def bad_sizes() -> Iterator[Bad]:
    values: dict[str, Any] = {
        "-8": -8, "0": 0, "10^9": 10**9, "2^63": 2**63, "10^30": 10**30, "8.0": 8.0, "8.5": 8.5, "true": True,
        "text": "8", "null": None, "a list": [8], "an object": {"a": 8},
    }  # fmt: skip
    for i, (name, value) in enumerate(values.items()):
        for table in (WIDTH, LAYERS, COUNT):
            family = FAMILY_NAMES[i % 4]
            yield Bad(f"{table[family]} = {name}", family, _config(**{table[family]: value}), table[family])
    for text in ("NaN", "Infinity", "-Infinity", "1e999"):
        yield Bad(f"hidden_size = {text}", "bert", _spliced("hidden_size", text), "hidden_size")
        yield Bad(f"attn_pdrop = {text}", "gpt2", _spliced("attn_pdrop", text), "attn_pdrop")
    for key, value in {
        "vocab_size": 0, "max_position_embeddings": -1, "intermediate_size": 0, "type_vocab_size": -1,
        "layer_norm_eps": -1e-5, "hidden_dropout_prob": 1.5, "attention_probs_dropout_prob": -0.1,
        "classifier_dropout": "0.1", "initializer_range": [0.02], "pad_token_id": -1,
    }.items():  # fmt: skip
        yield Bad(f"{key} = {value}", "bert", _config(**{key: value}), key)
    yield Bad("no segments", "bert", _config(type_vocab_size=0), "type_vocab_size")
    yield Bad("no segments in roberta", "roberta", _config(type_vocab_size=0), "type_vocab_size")
    yield Bad("pad outside the vocabulary", "bert", _config(pad_token_id=21), "pad_token_id")
    yield Bad("roberta without pad", "roberta", _config(pad_token_id=None), "pad_token_id")
    yield Bad(
        "roberta with no room after pad", "roberta", _config(max_position_embeddings=2), "max_position_embeddings"
    )
    for family in FAMILY_NAMES:
        yield Bad(f"{family} width not divisible", family, _config(**{COUNT[family]: 3}), COUNT[family])
        yield Bad(f"{family} another width", family, _config(**{WIDTH[family]: 16}), "another shape")
        yield Bad(f"{family} a layer more", family, _config(**{LAYERS[family]: 3}), "missing")
        yield Bad(f"{family} a layer less", family, _config(**{LAYERS[family]: 1}), "without a home")
        yield Bad(f"{family} 100 layers", family, _config(**{LAYERS[family]: 100}), "missing")
    sizes = ("hidden_size", "intermediate_size", "vocab_size", "max_position_embeddings")
    yield Bad("everything as large as may be", "bert", _config(**dict.fromkeys(sizes, 10**8)), "another shape")
    yield Bad("vocabulary 1 longer", "bert", _config(vocab_size=22), "word_embeddings")
    yield Bad("n_inner of another size", "gpt2", _config(n_inner=31), "mlp")


def unsupported_values() -> Iterator[Bad]:
    for name, value in {"swish-5": "swish-5", "empty": "", "a number": 3, "a list": ["gelu"], "an object": {}}.items():
        yield Bad(f"activation {name}", "bert", _config(hidden_act=value), "hidden_act")
    yield Bad("activation null", "gpt2", _config(activation_function=None), "activation_function")
    common: dict[str, Any] = {
        "is_decoder": True,
        "is_encoder_decoder": True,
        "add_cross_attention": True,
        "tie_word_embeddings": False,
        "pruned_heads": {"0": [1]},
        "quantization_config": {"load_in_8bit": True, "modules": [f"layer.{i}" for i in range(500)]},
    }
    for i, (key, value) in enumerate(common.items()):
        family = FAMILY_NAMES[i % 4]
        yield Bad(f"{family} {key} = {str(value)[:20]}", family, _config(**{key: value}), key)
    for key in ("relative_key", "relative_key_query", "rotary", None, []):
        change = _config(position_embedding_type=key)
        yield Bad(f"positions {key}", "bert", change, "position_embedding_type")
    for key, value in {
        "scale_attn_by_inverse_layer_idx": True,
        "reorder_and_upcast_attn": True,
        "scale_attn_weights": False,
    }.items():
        yield Bad(f"gpt2 {key}", "gpt2", _config(**{key: value}), key)
    for value in (4, 16, 8.0, "8", True, [8]):
        yield Bad(f"roformer embedding_size = {value}", "roformer", _config(embedding_size=value), "embedding_size")
    yield Bad("roformer turned values", "roformer", _config(rotary_value=True), "rotary_value")
    yield Bad("roformer is_decoder", "roformer", _config(is_decoder=True), "is_decoder")
    yield Bad("roformer with odd heads", "roformer", _config(num_attention_heads=8), "odd 1")
    yield Bad("roformer classifier_dropout", "roformer", _config(classifier_dropout=0.1), "classifier_dropout")
    yield Bad("an unknown key", "bert", _config(rope_theta=1e4), "rope_theta")
    yield Bad("a key of another family", "gpt2", _config(hidden_act="gelu"), "hidden_act")
    yield Bad("an unknown key of two lines", "bert", _config(**{"a\nb": 1}), CONFIG)
    yield Bad("code to be fetched", "bert", _config(auto_map={"AutoModel": "evil.Model"}), "auto_map")
    for name, value in {"unknown": "t5", "number": 3, "list": ["bert"], "object": {}, "case": "BERT"}.items():
        yield Bad(f"model_type {name}", "bert", _config(model_type=value), "model_type")
    yield Bad("nothing tells the family", "bert", _anonymous, "model_type")


def _anonymous(directory: Path) -> None:
    edit_config(directory, model_type=ABSENT, architectures=ABSENT)

    def strip(tensors: dict[str, Any]) -> None:
        for name in list(tensors):
            tensors[name.removeprefix("bert.")] = tensors.pop(name)

    edit_tensors(directory, strip)


def bad_heads_and_labels() -> Iterator[Bad]:
    for family, name in (
        ("bert", "BertForTokenClassification"),
        ("bert", "BertForQuestionAnswering"),
        ("roberta", "RobertaForMultipleChoice"),
        ("distilbert", "DistilBertForTokenClassification"),
        ("gpt2", "GPT2DoubleHeadsModel"),
        ("roformer", "RoFormerForCausalLM"),
        ("roformer", "RoFormerForTokenClassification"),
        ("bert", "RobertaModel"),
    ):
        yield Bad(name, family, _config(architectures=[name]), name)
    for name, value in {"text": "BertModel", "number": 3, "of numbers": [3], "object": {"a": 1}}.items():
        yield Bad(f"architectures {name}", "bert", _config(architectures=value), "architectures")
    yield Bad("a class without its head", "bert", _config(architectures=["BertForMaskedLM"]), "cls.predictions")
    good = {"0": "no", "1": "yes", "2": "perhaps"}
    for name, labels in {
        "two for three": {"0": "no", "1": "yes"},
        "four for three": {**good, "3": "more"},
        "none": {},
        "counted from 1": {"1": "no", "2": "yes", "3": "perhaps"},
        "names for numbers": {"no": "0", "yes": "1", "perhaps": "2"},
        "with the same name twice": {**good, "2": "yes"},
        "a list": ["no", "yes", "perhaps"],
        "text": "no",
        "of lists": {**good, "2": ["perhaps"]},
        "of null": {**good, "2": None},
    }.items():
        yield Bad(f"id2label {name}", "bert", _config(id2label=labels, label2id=ABSENT), "id2label")
    for name, numbers in {
        "swapped": {"no": 1, "yes": 0, "perhaps": 2},
        "short": {"no": 0, "yes": 1},
        "a list": ["no"],
        "of other names": {"a": 0, "b": 1, "c": 2},
    }.items():
        yield Bad(f"label2id {name}", "roberta", _config(label2id=numbers), "label2id")
    note = {
        "kind": "linear", "reads": "pooled", "classes": 3, "activation": "tanh", "bias": True,
        "labels": ["no", "yes", "perhaps"], "chunked": False, "dropout": None, "file": WEIGHTS,
    }  # fmt: skip
    for name, own in {
        "from the past": {"format": 1, "heads": {"classify": "linear"}},
        "from the future": {"format": 3, "heads": {}},
        "with a format that is true": {"format": True, "heads": {}},
        "without a format": {"heads": {}},
        "text": "yes",
        "a list": [],
    }.items():
        yield Bad(f"heedful {name}", "bert", _config(heedful=own), "format")
    for name, heads in {
        "without heads": None,
        "with a list of heads": ["classify"],
        "with a kind for a head": {"classify": "linear"},
        "with null for a head": {"classify": None},
        "with a list for a head": {"classify": [note]},
        "with a key too few": {"classify": {k: v for k, v in note.items() if k != "reads"}},
        "with a key too many": {"classify": {**note, "magic": 1}},
        "with a name of two lines": {"a\nb": note},
        "with a name of two parts": {"classify.output": {**note, "file": HEADS_FILE}},
        "with an empty name": {"": {**note, "file": HEADS_FILE}},
        "with the name of a method": {"forward": {**note, "file": HEADS_FILE}},
        "with a kind in the wrong place": {"mask": note},
        "with a head of another family": {"causal": {**note, "kind": "language-model", "classes": 0, "labels": []}},
        "without the head that is stored": {},
        "with a head that is not stored": {"classify": {**note, "kind": "two-layer"}},
        "with a head in a file that is not there": {"classify": {**note, "file": HEADS_FILE}},
        "with fewer classes than are stored": {"classify": {**note, "classes": 2, "labels": ["no", "yes"]}},
        "with other labels than id2label": {"classify": {**note, "labels": ["yes", "no", "perhaps"]}},
    }.items():
        yield Bad(f"heedful {name}", "bert", _config(heedful={"format": 2, "heads": heads}), "")
    for key, values in {
        "kind": ["magic", ["linear"], {}, None],
        "reads": ["second", 1, None, ["first"]],
        "classes": [-1, 2.0, "3", True, None, 10**9, 4],
        "activation": ["magic", None, []],
        "bias": [0, "yes", None],
        "labels": [None, "no", ["no", "no", "yes"], [1, 2, 3], ["no", "yes"]],
        "chunked": [1, "no", None],
        "of_pairs": [1, "no", []],
        "dropout": [-0.1, 2, "0.1", True, []],
        "file": ["config.json", "../model.safetensors", None, 3],
    }.items():
        for value in values:
            own = {"format": 2, "heads": {"classify": {**note, key: value}}}
            said = "classify" if key in ("classes", "labels") else f"classify.{key}"
            yield Bad(f"heedful {key} = {value!r}", "bert", _config(heedful=own), said)


def _two_heads(change: Callable[[Path, dict[str, Any]], Any], **notes: Any) -> Callable[[Path], None]:
    """A second classifier beside the first, of which `notes` say otherwise; then `change` to its file and tensors."""

    def damage(directory: Path) -> None:
        note = {
            "kind": "linear", "reads": "mean", "classes": 2, "activation": "tanh", "bias": True,
            "labels": ["a", "b"], "chunked": False, "dropout": None, "file": HEADS_FILE,
        }  # fmt: skip
        first = {**note, "reads": "pooled", "classes": 3, "labels": ["no", "yes", "perhaps"], "file": WEIGHTS}
        edit_config(directory, heedful={"format": 2, "heads": {"classify": first, "topic": {**note, **notes}}})
        tensors = {"heads.topic.output.weight": torch.ones(2, 8), "heads.topic.output.bias": torch.ones(2)}
        change(directory / HEADS_FILE, tensors)
        if not os.path.lexists(directory / HEADS_FILE):
            save_file(tensors, directory / HEADS_FILE)

    return damage


two_good_heads = _two_heads(lambda path, tensors: None)


def bad_second_heads() -> Iterator[Bad]:
    name = "heads.topic.output.weight"
    for what, change in {
        "nothing in it": lambda p, t: t.clear(),
        "a tensor missing": lambda p, t: t.pop(name),
        "a stranger": lambda p, t: t.update({"heads.mood.output.bias": torch.ones(2)}),
        "another shape": lambda p, t: t.update({name: torch.ones(8, 2)}),
        "whole numbers": lambda p, t: t.update({name: torch.ones(2, 8, dtype=torch.long)}),
        "infinite": lambda p, t: t.update({name: torch.full((2, 8), torch.inf)}),
        "a tensor of the body": lambda p, t: t.update({"embeddings.LayerNorm.bias": torch.ones(8)}),
        "a name of two lines": lambda p, t: t.update({"a\nb": torch.ones(1)}),
        "not safetensors": lambda p, t: p.write_text("no"),
        "a directory": lambda p, t: p.mkdir(),
        "a pipe": lambda p, t: os.mkfifo(p),
        "linked to outside": lambda p, t: p.symlink_to("/etc/hostname"),
        "linked to nothing": lambda p, t: p.symlink_to("gone"),
    }.items():
        yield Bad(f"{HEADS_FILE}: {what}", "bert", _two_heads(change), "")
    lstm = {"recurrent": "lstm", "recurrent_width": 4, "reads": "every"}
    for what, notes, says in (
        ("of no kind", {"recurrent": "elman"}, 'recurrent = "elman" is not possible; lstm, bilstm, gru, bigru are'),
        ("that is a list", {"recurrent": ["lstm"]}, "is not possible; lstm"),
        ("of no width", {"recurrent_width": 0}, "recurrent_width = 0 is not the width of a recurrent network"),
        ("of half a width", {"recurrent_width": 4.0}, "recurrent_width = 4.0 is not"),
        ("of true width", {"recurrent_width": True}, "recurrent_width = true is not"),
        ("of endless width", {"recurrent_width": 10**12}, "a whole number from 1 to 100000"),
        ("but for its width", {"recurrent": None}, "recurrent_width = 4 is not the width of a recurrent network"),
        ("of one state", {"reads": "mean"}, "that reads every state has a recurrent network"),
        ("of words", {"kind": "masked-word", "classes": 0, "labels": []}, "only a classifier in"),
        ("without tensors", {}, "heads.topic.extractor.rnn.weight_ih_l0"),
    ):
        damage = _two_heads(lambda path, tensors: None, **{**lstm, **notes})
        yield Bad(f"a recurrent network {what}", "bert", damage, says)


def _link(name: str, outside: bool = True) -> Callable[[Path], None]:
    """The file itself moved out of the directory, a link to it in its place."""

    def damage(directory: Path) -> None:
        away = directory.parent / f"away-{name}"
        (directory / name).rename(away)
        (directory / name).symlink_to(away if outside else Path("..") / away.name)

    return damage


def _instead(name: str, make: Callable[[Path], Any]) -> Callable[[Path], None]:
    def damage(directory: Path) -> None:
        path = directory / name
        path.unlink(missing_ok=True)
        make(path)

    return damage


def bad_files() -> Iterator[Bad]:
    for name in (CONFIG, WEIGHTS, "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        yield Bad(f"{name} linked to outside", "bert", _link(name), name)
        yield Bad(f"{name} linked to outside by ..", "gpt2", _link(name, outside=False), name)
        yield Bad(f"{name} linked to nothing", "bert", _instead(name, lambda p: p.symlink_to("gone")), name)
        yield Bad(f"{name} linked to itself", "bert", _instead(name, lambda p: p.symlink_to(p.name)), name)
        yield Bad(f"{name} a directory", "roberta", _instead(name, lambda p: p.mkdir()), name)
        yield Bad(f"{name} a pipe", "distilbert", _instead(name, os.mkfifo), name)
    yield Bad("weights linked to a device", "bert", _instead(WEIGHTS, lambda p: p.symlink_to("/dev/zero")), WEIGHTS)
    yield Bad("an empty directory", "bert", lambda d: [p.unlink() for p in d.iterdir()], CONFIG)
    yield Bad("no config", "bert", lambda d: (d / CONFIG).unlink(), CONFIG)
    yield Bad("no weights", "bert", lambda d: (d / WEIGHTS).unlink(), WEIGHTS)
    weights = Path(WEIGHTS).with_suffix(".h5").name
    yield Bad("weights of another kind", "bert", lambda d: (d / WEIGHTS).rename(d / weights), WEIGHTS)


def bad_shards() -> Iterator[Bad]:
    def indexed(edit: Callable[[Path, dict[str, Any]], Any]) -> Callable[[Path], None]:
        def damage(directory: Path) -> None:
            index = shard(directory)
            edit(directory, index)
            (directory / INDEX).write_text(json.dumps(index))

        return damage

    def renamed(new: Any) -> Callable[[Path], None]:
        def edit(directory: Path, index: dict[str, Any]) -> None:
            old = "model-00002-of-00002.safetensors"
            if new in ("../x.safetensors", "sub/x.safetensors"):
                (directory / "sub").mkdir()
                (directory / new).write_bytes((directory / old).read_bytes())
            index["weight_map"] = {k: new if v == old else v for k, v in index["weight_map"].items()}

        return indexed(edit)

    first, second = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
    yield Bad("a shard missing", "bert", indexed(lambda d, i: (d / second).unlink()), second)
    yield Bad("all shards missing", "gpt2", indexed(lambda d, i: [(d / s).unlink() for s in (first, second)]), first)
    yield Bad("a shard cut short", "bert", indexed(lambda d, i: (d / second).write_bytes(b"12345678")), second)
    yield Bad(
        "a shard a directory", "bert", indexed(lambda d, i: [(d / second).unlink(), (d / second).mkdir()]), second
    )
    yield Bad("a shard linked to outside", "bert", indexed(lambda d, i: _link(second)(d)), second)
    yield Bad(
        "a shard linked to nothing",
        "bert",
        indexed(lambda d, i: _instead(second, lambda p: p.symlink_to("gone"))(d)),
        second,
    )
    yield Bad("a tensor in no shard", "bert", indexed(lambda d, i: i["weight_map"].update(more=first)), "more")
    yield Bad("a tensor not in the index", "bert", indexed(lambda d, i: i["weight_map"].popitem()), INDEX)
    yield Bad(
        "the index names the wrong shard",
        "bert",
        indexed(lambda d, i: i["weight_map"].update({next(iter(i["weight_map"])): second})),
        INDEX,
    )
    for name in (
        "../x.safetensors", "/etc/passwd", "sub/x.safetensors", "..", ".", "", "a\\b", "a\0b", "x" * 5000, "\ud800",
        "a\nb.safetensors",
    ):  # fmt: skip
        yield Bad(f"a shard called {name[:20]!a}", "bert", renamed(name), "not" if name.startswith("a\n") else "")
    for name, value in {"a number": 3, "null": None, "a list": ["a"]}.items():
        yield Bad(f"a shard's name {name}", "bert", renamed(value), INDEX)
    for name, places in {"missing": None, "empty": {}, "a list": [], "text": "x"}.items():
        yield Bad(f"weight_map {name}", "bert", indexed(lambda d, i, p=places: i.update(weight_map=p)), INDEX)
    for name, text in {"not JSON": "{", "a list": "[]", "empty": "", "deep": "[" * 100_000}.items():
        yield Bad(f"index {name}", "bert", lambda d, t=text: [shard(d), (d / INDEX).write_text(t)], INDEX)
    own = {INDEX: INDEX}
    yield Bad("the index a shard of itself", "bert", indexed(lambda d, i: i.update(weight_map=own)), INDEX)


def bad_tokenizers() -> Iterator[Bad]:
    def vocabulary(edit: Callable[[dict[str, int]], Any]) -> Callable[[Path], None]:
        def damage(directory: Path) -> None:
            path = directory / "tokenizer.json"
            content = json.loads(path.read_text(encoding="utf-8"))
            edit(content["model"]["vocab"])
            path.write_text(json.dumps(content), encoding="utf-8")

        return damage

    yield Bad("vocabulary a word short", "bert", vocabulary(lambda v: v.popitem()), "embedding")
    yield Bad("vocabulary a word long", "bert", vocabulary(lambda v: v.update(zzz=len(v))), "embedding")
    yield Bad("vocabulary with a far id", "distilbert", vocabulary(lambda v: v.update(zzz=5000)), "embedding")
    yield Bad("byte vocabulary a word long", "gpt2", vocabulary(lambda v: v.update(zzz=len(v))), "embedding")
    yield Bad("byte vocabulary long", "roberta", vocabulary(lambda v: v.update(zzz=len(v))), "embedding")
    for name, content in {"empty": b"", "not JSON": b"{", "a list": b"[]", "binary": bytes(range(256))}.items():
        yield Bad(
            f"tokenizer.json {name}",
            "bert",
            _instead("tokenizer.json", lambda p, c=content: p.write_bytes(c)),
            "tokenizer.json",
        )
    for class_name in ("RoFormerTokenizer", "RoFormerTokenizerFast", None):
        yield Bad(f"roformer with the class {class_name}", "roformer", _tokenizer_class(class_name), "jieba")
    yield Bad("roformer with vocab.txt alone", "roformer", _words_alone, "jieba")
    yield Bad("vocab.json alone", "gpt2", lambda d: (d / "tokenizer.json").rename(d / "vocab.json"), "vocab.json")


def _tokenizer_class(name: str | None) -> Callable[[Path], None]:
    def damage(directory: Path) -> None:
        path = directory / "tokenizer_config.json"
        path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), "tokenizer_class": name}))

    return damage


def _words_alone(directory: Path) -> None:
    vocabulary = json.loads((directory / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        (directory / name).unlink()
    (directory / "vocab.txt").write_text("".join(f"{word}\n" for word in sorted(vocabulary, key=vocabulary.get)))


CASES = [
    *broken_configs(),
    *bad_sizes(),
    *unsupported_values(),
    *bad_heads_and_labels(),
    *bad_second_heads(),
    *bad_files(),
    *bad_shards(),
    *bad_tokenizers(),
]
