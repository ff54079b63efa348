"""Ways to break the tensor files of a good directory; each names what the error must mention."""

import io
import os
import pickle
import struct
import tarfile
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file
from torch import Tensor

from tests.support.checkpoint_samples import (
    BLOCK,
    FAMILY_NAMES,
    OUTPUT,
    QUERY,
    TABLE,
    WEIGHTS,
    edit_header,
    edit_tensors,
    join_header,
    split_header,
)

OLD = "pytorch_model.bin"


class Bad(NamedTuple):
    name: str
    family: str
    damage: Callable[[Path], Any]
    says: str
    """What the message must contain."""


def _raw(edit: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def damage(directory: Path) -> None:
        path = directory / WEIGHTS
        path.write_bytes(edit(path.read_bytes()))

    return damage


def _header(edit: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    return lambda directory: edit_header(directory, lambda h: edit(h))


def _tensors(edit: Callable[[dict[str, Tensor]], Any]) -> Callable[[Path], None]:
    return lambda directory: edit_tensors(directory, lambda t: edit(t))


def _header_size(content: bytes) -> int:
    return int(struct.unpack("<Q", content[:8])[0])


def cut_files() -> Iterator[Bad]:
    places: dict[str, Callable[[bytes], int]] = {
        "at 0": lambda c: 0,
        "after 1 byte": lambda c: 1,
        "in the length": lambda c: 7,
        "after the length": lambda c: 8,
        "at the first brace": lambda c: 9,
        "in the header": lambda c: 8 + _header_size(c) // 2,
        "before the header's end": lambda c: 7 + _header_size(c),
        "after the header": lambda c: 8 + _header_size(c),
        "after one value": lambda c: 12 + _header_size(c),
        "in the data": lambda c: (8 + _header_size(c) + len(c)) // 2,
        "before the last byte": lambda c: len(c) - 1,
    }
    for i, (name, place) in enumerate(places.items()):
        yield Bad(f"cut {name}", FAMILY_NAMES[i % 4], _raw(lambda c, place=place: c[: place(c)]), WEIGHTS)
    yield Bad("a byte too many", "bert", _raw(lambda c: c + b"\0"), WEIGHTS)
    yield Bad("twice after itself", "gpt2", _raw(lambda c: c + c), WEIGHTS)
    yield Bad("a web page", "bert", _raw(lambda c: b"<!doctype html><title>404</title>"), WEIGHTS)
    yield Bad(
        "a pointer to large storage", "bert", _raw(lambda c: b"version https://git-lfs.github.com/spec/v1\n"), WEIGHTS
    )
    yield Bad("zeros", "bert", _raw(lambda c: bytes(len(c))), WEIGHTS)


def _with_length(length: int) -> Callable[[bytes], bytes]:
    return lambda c: struct.pack("<Q", length) + c[8:]


def _set(tensor: str, **fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda header: header[tensor].update(fields)


def _overlap(header: dict[str, Any]) -> None:
    names = [n for n in header if n != "__metadata__"]
    a = next(n for n in names if len(header[n]["shape"]) == 1)
    b = next(n for n in names if n != a and header[n]["shape"] == header[a]["shape"])
    header[b]["data_offsets"] = header[a]["data_offsets"]


def _hole(header: dict[str, Any]) -> None:
    del header[OUTPUT["bert"]]


def lying_headers() -> Iterator[Bad]:
    one = OUTPUT["bert"]  # [3, 8] of F32: 96 bytes
    yield Bad("header length 0", "bert", _raw(_with_length(0)), WEIGHTS)
    yield Bad("header length 1", "roberta", _raw(_with_length(1)), WEIGHTS)
    yield Bad("header length 2^40", "bert", _raw(_with_length(2**40)), WEIGHTS)
    yield Bad("header length 2^63", "gpt2", _raw(_with_length(2**63)), WEIGHTS)
    yield Bad("header length 2^64 - 1", "bert", _raw(_with_length(2**64 - 1)), WEIGHTS)
    yield Bad("header of 99 MB claimed", "bert", _raw(_with_length(99_000_000)), WEIGHTS)
    for name, text in {
        "not JSON": "hello there {",
        "a list": "[]",
        "a number": "7",
        "null": "null",
        "not UTF-8": b'{"\xff\xfe": 1}',
        "unclosed": '{"a": ',
        "deeply nested": '{"a": ' * 50_000,
        "empty": "{}",
    }.items():
        yield Bad(f"header {name}", "bert", _raw(lambda c, t=text: join_header(t, split_header(c)[1])), WEIGHTS)
    yield Bad("no tensors at all", "bert", _raw(lambda c: join_header({}, b"")), "missing")
    yield Bad("shape larger than its bytes", "bert", _header(_set(one, shape=[3, 9])), WEIGHTS)
    yield Bad("shape smaller than its bytes", "bert", _header(_set(one, shape=[3, 7])), WEIGHTS)
    yield Bad("shape negative", "bert", _header(_set(one, shape=[-3, 8])), WEIGHTS)
    yield Bad("shape overflows", "bert", _header(_set(one, shape=[2**62, 2**62])), WEIGHTS)
    yield Bad("shape beyond 64 bits", "bert", _header(_set(one, shape=[2**70, 8])), WEIGHTS)
    yield Bad("shape of floats", "bert", _header(_set(one, shape=[3.0, 8.0])), WEIGHTS)
    yield Bad("shape of text", "bert", _header(_set(one, shape="3x8")), WEIGHTS)
    yield Bad("offsets backwards", "bert", _header(lambda h: h[one]["data_offsets"].reverse()), WEIGHTS)
    yield Bad("offsets beyond the file", "bert", _header(_set(one, data_offsets=[10**9, 10**9 + 96])), WEIGHTS)
    yield Bad("offsets beyond 64 bits", "bert", _header(_set(one, data_offsets=[0, 2**70])), WEIGHTS)
    yield Bad("offsets negative", "bert", _header(_set(one, data_offsets=[-96, 0])), WEIGHTS)
    yield Bad("offsets missing", "bert", _header(lambda h: h[one].pop("data_offsets")), WEIGHTS)
    yield Bad("offsets overlap", "bert", _header(_overlap), WEIGHTS)
    yield Bad("a hole in the data", "bert", _header(_hole), WEIGHTS)
    yield Bad("dtype twice as wide", "bert", _header(_set(one, dtype="F64")), WEIGHTS)
    yield Bad("dtype half as wide", "bert", _header(_set(one, dtype="F16")), WEIGHTS)
    yield Bad("dtype unknown", "bert", _header(_set(one, dtype="Q4_K")), WEIGHTS)
    yield Bad("dtype missing", "bert", _header(lambda h: h[one].pop("dtype")), WEIGHTS)
    yield Bad("dtype integer of the same width", "bert", _header(_set(one, dtype="I32")), one)
    yield Bad("metadata not of strings", "bert", _header(lambda h: h.update(__metadata__={"a": [1]})), WEIGHTS)


def wrong_shapes() -> Iterator[Bad]:
    for family in FAMILY_NAMES:
        for name in (OUTPUT[family], TABLE[family], BLOCK[family]):
            plain = name.split(".", 1)[1] if name.count(".") > 1 else name
            if family == "distilbert" and name == OUTPUT[family]:
                continue  # square: nobody can see that it is transposed
            yield Bad(f"{family} {plain} transposed", family, _tensors(lambda t, n=name: t.update({n: t[n].T})), plain)
        name = BLOCK[family]
        yield Bad(f"{family} a row short", family, _tensors(lambda t, n=name: t.update({n: t[n][1:]})), "another shape")
        yield Bad(f"{family} flat", family, _tensors(lambda t, n=name: t.update({n: t[n].flatten()})), "another shape")
        yield Bad(f"{family} a number", family, _tensors(lambda t, n=name: t.update({n: torch.tensor(1.0)})), "another")
        yield Bad(f"{family} empty", family, _tensors(lambda t, n=name: t.update({n: torch.zeros(0)})), "another shape")
    for name, shape in {
        "a number": (),
        "flat": (24,),
        "no classes": (0, 8),
        "3-d": (3, 8, 1),
        "one class": (1, 8),
    }.items():
        change = {OUTPUT["bert"]: torch.zeros(shape)}
        yield Bad(f"head matrix {name}", "bert", _tensors(lambda t, c=change: t.update(c)), "classifier")
    nobody = {"classifier.weight": torch.zeros(0, 8), "classifier.bias": torch.zeros(0)}
    yield Bad("head of no classes", "bert", _tensors(lambda t: t.update(nobody)), "classifier")
    for rows in (10**15, 2**60):
        endless = {"dtype": "F32", "shape": [rows, 0]}
        name = f"head of {rows} classes and no bytes"
        yield Bad(name, "bert", _raw(lambda c, e=endless: _replace_last(c, e)), "classifier")


def _replace_last(content: bytes, entry: dict[str, Any]) -> bytes:
    """The head's matrix with another entry, its bytes taken out of the file."""
    header, data = split_header(content)
    start, end = header[OUTPUT["bert"]]["data_offsets"]
    header[OUTPUT["bert"]] = {**entry, "data_offsets": [start, start]}
    for name, other in header.items():
        if name not in ("__metadata__", OUTPUT["bert"]) and other["data_offsets"][0] >= end:
            other["data_offsets"] = [o - (end - start) for o in other["data_offsets"]]
    return join_header(header, data[:start] + data[end:])


def missing_and_extra() -> Iterator[Bad]:
    for family in FAMILY_NAMES:
        for name in (TABLE[family], BLOCK[family], BLOCK[family].replace("weight", "bias")):
            plain = name.split(".", 1)[1]
            yield Bad(f"{family} without {plain}", family, _tensors(lambda t, n=name: t.pop(n)), plain)
        extra = {"strange.weight": torch.ones(2)}
        yield Bad(f"{family} with a stranger", family, _tensors(lambda t, e=extra: t.update(e)), "strange.weight")
        third = BLOCK[family].replace(".1.", ".2.")
        change = {third: torch.ones(2)}
        yield Bad(f"{family} with a third layer", family, _tensors(lambda t, e=change: t.update(e)), "without a home")
    for family, parts in (("bert", ("query", "key", "value")), ("distilbert", "qkv")):
        for part in parts:
            name = f"{QUERY[family].format(part)}.weight"
            yield Bad(f"{family} without {part}", family, _tensors(lambda t, n=name: t.pop(n)), name.split(".", 1)[1])
    for name in ("classifier.weight", "classifier.bias"):
        yield Bad(f"bert without {name}", "bert", _tensors(lambda t, n=name: t.pop(n)), f"missing: {name}")
    yield Bad(
        "roberta without classifier.dense.bias", "roberta", _tensors(lambda t: t.pop("classifier.dense.bias")), "dense"
    )
    yield Bad("no pooler for the head", "bert", _tensors(_without_pooler), "pooler.dense")
    yield Bad("half a pooler", "bert", _tensors(lambda t: t.pop("bert.pooler.dense.bias")), "pooler.dense.bias")
    line = {"a\nb\x1b[31m": torch.ones(1)}
    yield Bad("a name of two lines", "bert", _tensors(lambda t: t.update(line)), "no name")
    yield Bad("twice, with and without prefix", "bert", _tensors(_both_prefixes), "twice")
    yield Bad("twice, in both spellings", "bert", _tensors(_both_spellings), "twice")
    table = TABLE["distilbert"]
    copy = "vocab_projector.weight"
    yield Bad("an untied decoder", "distilbert", _tensors(lambda t: t.update({copy: t[table] + 1e-6})), copy)
    yield Bad("a decoder of another size", "distilbert", _tensors(lambda t: t.update({copy: t[table][1:]})), copy)
    yield Bad("a decoder of integers", "distilbert", _tensors(lambda t: t.update({copy: t[table].int()})), copy)
    yield Bad("a decoder of NaN", "distilbert", _tensors(lambda t: t.update({copy: t[table] * torch.nan})), copy)
    yield Bad(
        "an untied lm_head", "gpt2", _tensors(lambda t: t.update({"lm_head.weight": t[TABLE["gpt2"]] * 2})), "lm_head"
    )
    turns = "roformer.encoder.embed_positions.weight"
    for name, change in {
        "squares": lambda t: t.pow(2), "NaN": lambda t: t * torch.nan, "a row short": lambda t: t[1:],
        "integers": lambda t: t.int(), "swapped halves": lambda t: t.roll(2, dims=1),
    }.items():  # fmt: skip
        damage = _tensors(lambda t, c=change: t.update({turns: c(t[turns])}))
        yield Bad(f"a table of turns: {name}", "roformer", damage, "embed_positions")
    lone = {"cls.predictions.decoder.bias": torch.zeros(21)}
    yield Bad("a copy of what is not there", "bert", _tensors(lambda t: t.update(lone)), "decoder.bias")


def _without_pooler(tensors: dict[str, Tensor]) -> None:
    for part in ("weight", "bias"):
        del tensors[f"bert.pooler.dense.{part}"]


def _both_prefixes(tensors: dict[str, Tensor]) -> None:
    tensors[TABLE["bert"].removeprefix("bert.")] = tensors[TABLE["bert"]]


def _both_spellings(tensors: dict[str, Tensor]) -> None:
    tensors["bert.embeddings.LayerNorm.gamma"] = tensors["bert.embeddings.LayerNorm.weight"]


def bad_values() -> Iterator[Bad]:
    for value in (torch.nan, torch.inf, -torch.inf):
        for family, name in (("bert", OUTPUT["bert"]), ("gpt2", TABLE["gpt2"]), ("distilbert", BLOCK["distilbert"])):
            plain = name.split(".", 1)[1] if name.count(".") > 1 else name

            def poison(tensors: dict[str, Tensor], name: str = name, value: float = value) -> None:
                tensors[name].view(-1)[-1] = value

            yield Bad(f"{family} {value} in {plain}", family, _tensors(poison), plain)
    name = "roberta.encoder.layer.0.attention.self.key.bias"
    yield Bad("NaN in a key's bias", "roberta", _tensors(lambda t: t[name].fill_(torch.nan)), "self.key.bias")
    big = {OUTPUT["bert"]: torch.full((3, 8), 1e300, dtype=torch.float64)}
    yield Bad("more than fp32 can hold", "bert", _tensors(lambda t: t.update(big)), "classifier.weight")
    for dtype in (torch.int64, torch.int8, torch.bool, torch.uint8, torch.float8_e4m3fn, torch.complex64):
        change = {OUTPUT["bert"]: torch.ones(3, 8).to(dtype)}
        yield Bad(f"head of {dtype}", "bert", _tensors(lambda t, c=change: t.update(c)), "classifier.weight")


class Trap:
    """Pickled, it is a call; unpickled without care, it is made."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[Any, Any]:
        return self.call


MARKER = "it-ran"


def _malice(directory: Path) -> dict[str, Any]:
    marker = directory.parent / MARKER
    opened = f"open({str(marker)!r}, 'w').close()"
    inner = io.BytesIO()
    torch.save({"a": Trap(os.system, f"touch {marker}")}, inner)
    nested = Trap(partial(torch.load, weights_only=False), Trap(io.BytesIO, inner.getvalue()))
    return {
        "os.system": Trap(os.system, f"touch {marker}"),
        "eval": Trap(eval, opened),
        "exec": Trap(exec, opened),
        "open": Trap(open, str(marker), "w"),
        "a nested torch.load": nested,
        "among tensors": OrderedDict(a=torch.ones(2), b=Trap(os.system, f"touch {marker}")),
    }


def _old_file(directory: Path, content: Any, legacy: bool = False) -> None:
    (directory / WEIGHTS).unlink()
    torch.save(content, directory / OLD, _use_new_zipfile_serialization=not legacy)


def _tar(directory: Path) -> None:
    """The oldest form: a tar of pickles."""
    (directory / WEIGHTS).unlink()
    with tarfile.open(directory / OLD, "w") as archive:
        for name in ("storages", "tensors", "pickle"):
            content = pickle.dumps(Trap(os.system, f"touch {directory.parent / MARKER}"), protocol=2)
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def _plain_pickle(directory: Path) -> None:
    (directory / WEIGHTS).unlink()
    (directory / OLD).write_bytes(pickle.dumps(_malice(directory)["os.system"]))


def _zip_of_nothing(directory: Path) -> None:
    (directory / WEIGHTS).unlink()
    with zipfile.ZipFile(directory / OLD, "w") as archive:
        archive.writestr("hello.txt", "hello")


def malicious_files() -> Iterator[Bad]:
    names = ("os.system", "eval", "exec", "open", "a nested torch.load", "among tensors")
    for legacy in (False, True):
        for i, name in enumerate(names):
            form = "legacy" if legacy else "zip"
            yield Bad(
                f"{name} in a {form} .bin",
                FAMILY_NAMES[i % 4],
                lambda d, n=name, old=legacy: _old_file(d, _malice(d)[n], old),
                "refused by the restricted loader",
            )
    yield Bad("a trap in a tar", "bert", _tar, "refused by the restricted loader")
    yield Bad("a trap in a plain pickle", "bert", _plain_pickle, "refused by the restricted loader")


def _quantized() -> Tensor:
    return torch.quantize_per_tensor(torch.ones(3, 8), 0.1, 0, torch.qint8)


def _nested() -> Tensor:
    return torch.nested.nested_tensor([torch.ones(3), torch.ones(8)])


def odd_old_files() -> Iterator[Bad]:
    def changed(edit: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
        def damage(directory: Path) -> None:
            tensors: dict[str, Any] = load_file(directory / WEIGHTS)
            edit(tensors)
            _old_file(directory, tensors)

        return damage

    def cut(directory: Path) -> None:
        changed(lambda t: None)(directory)
        path = directory / OLD
        path.write_bytes(path.read_bytes()[:-100])

    one = OUTPUT["bert"]
    yield Bad(".bin cut short", "bert", cut, OLD)
    yield Bad(".bin empty", "bert", lambda d: [(d / WEIGHTS).unlink(), (d / OLD).touch()], OLD)
    yield Bad(".bin of text", "bert", lambda d: [(d / WEIGHTS).unlink(), (d / OLD).write_text("hello")], OLD)
    yield Bad(".bin a zip of something else", "bert", _zip_of_nothing, OLD)
    yield Bad(".bin with one tensor", "bert", lambda d: _old_file(d, torch.ones(2)), "dictionary")
    yield Bad(".bin with a list", "bert", lambda d: _old_file(d, [torch.ones(2)]), "dictionary")
    yield Bad(".bin with a dictionary in it", "bert", lambda d: _old_file(d, {"state_dict": {}}), "state_dict")
    yield Bad(".bin with a text", "gpt2", changed(lambda t: t.update(note="hello")), "note")
    yield Bad(".bin with a number for a name", "bert", changed(lambda t: t.update({7: torch.ones(1)})), "7")
    yield Bad(".bin with a sparse tensor", "bert", changed(lambda t: t.update({one: t[one].to_sparse()})), one)
    yield Bad(".bin with a CSR tensor", "bert", changed(lambda t: t.update({one: t[one].to_sparse_csr()})), one)
    yield Bad(".bin with a quantized tensor", "bert", changed(lambda t: t.update({one: _quantized()})), one)
    hollow = torch.empty(3, 8, device="meta")
    yield Bad(".bin with a tensor of no values", "bert", changed(lambda t: t.update({one: hollow})), one)
    yield Bad(".bin with a nested tensor", "bert", changed(lambda t: t.update({one: _nested()})), one)
    many = torch.ones(1).expand(10**15, 8)
    yield Bad(".bin with one number for 10^16", "bert", changed(lambda t: t.update({one: many})), one)
    yield Bad(".bin with integers", "bert", changed(lambda t: t.update({one: t[one].long()})), one)
    yield Bad(".bin with complex numbers", "bert", changed(lambda t: t.update({one: t[one] + 1j})), one)
    yield Bad(".bin without a key", "bert", changed(lambda t: t.pop(one)), one)
    yield Bad(".bin with NaN", "bert", changed(lambda t: t[one].fill_(torch.nan)), one)


CASES = [
    *cut_files(),
    *lying_headers(),
    *wrong_shapes(),
    *missing_and_extra(),
    *bad_values(),
    *malicious_files(),
    *odd_old_files(),
]
