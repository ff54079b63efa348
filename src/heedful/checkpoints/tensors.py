"""The tensor files of a model directory: safetensors, one or several, or an old `.bin` through the restricted loader.

Names and shapes are known before any tensor is read, so that a file that does not fit costs no memory.
"""

import json
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor
from torch.overrides import TorchFunctionMode

from heedful.checkpoints.config import read_json
from heedful.errors import RequestError

SAFETENSORS, INDEX, OLD = "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin"
_FLOATS = {"F64", "F32", "F16", "BF16"}
_LONGEST = 200  # characters of a name; real ones have at most eighty


class NoInit(TorchFunctionMode):
    """Modules made inside draw no weights: all are read, and even on the meta device drawing costs time and memory."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__module__", None) == "torch.nn.init":
            return (kwargs or {}).get("tensor", args[0] if args else None)
        return func(*args, **(kwargs or {}))


@dataclass(frozen=True)
class Stored:
    """One tensor in a file, not yet read."""

    file: str
    name: str
    shape: tuple[int, ...]
    is_float: bool
    read: Callable[[], Tensor]


def inside(directory: Path, name: str) -> Path:
    """The path of a file of the directory; refuses names and links that lead out of it.

    In the hub's cache a snapshot links to its blobs, so there the whole folder of the repository counts as inside.
    """
    if "/" in name or "\\" in name or name in ("", ".", "..") or not _is_sane(name):
        raise RequestError(f"{directory}: {name[:_LONGEST]!r} is not the name of a file in a model directory.")
    path = directory / name
    root = directory.resolve()
    if root.parent.name == "snapshots" and root.parent.parent.name.startswith("models--"):
        root = root.parent.parent
    try:
        leads_out = not path.resolve().is_relative_to(root)
    except (OSError, RuntimeError):
        raise RequestError(f"{path}: is a link that goes in circles; put the file itself there.") from None
    if leads_out:
        raise RequestError(f"{path}: leads out of the model directory; put the file itself there.")
    return path


def _is_sane(name: str) -> bool:
    """Whether a name can be printed in a message as it is: one line, no control codes, not too long."""
    return name.isprintable() and len(name) <= _LONGEST


def existing(directory: Path, name: str) -> Path | None:
    """The path of a regular file of the directory, None if there is nothing of that name."""
    path = inside(directory, name)
    try:
        exists = path.exists()
    except OSError as error:
        raise RequestError(f"{path}: cannot be read ({error.strerror}).") from None
    if not exists:
        if path.is_symlink():
            raise RequestError(f"{path}: is a link to nothing; put the file itself there.")
        return None
    if not path.is_file():
        raise RequestError(f"{path}: is not a file.")
    if not os.access(path, os.R_OK, effective_ids=os.access in os.supports_effective_ids):
        raise RequestError(f"{path}: cannot be read (Permission denied).")
    return path


def open_tensors(directory: Path) -> dict[str, Stored]:
    return _with_sane_names(directory, _open(directory))


def open_file(directory: Path, file: str) -> dict[str, Stored]:
    """One further safetensors file."""
    return _with_sane_names(directory, dict(_safetensors(inside(directory, file))))


def open_either(directory: Path, safe: str, old: str) -> dict[str, Stored]:
    """The safetensors file of this name or, where there is none, the old file through the restricted loader; {} if
    there is neither."""
    if path := existing(directory, safe):
        return _with_sane_names(directory, dict(_safetensors(path)))
    if path := existing(directory, old):
        return _with_sane_names(directory, dict(_pytorch_bin(path)))
    return {}


def _with_sane_names(directory: Path, stored: dict[str, Stored]) -> dict[str, Stored]:
    for name, tensor in stored.items():
        if not _is_sane(name):
            path = directory / tensor.file
            raise RequestError(f"{path}: holds a tensor called {name[:_LONGEST]!r}, which is no name for one.")
    return stored


def _open(directory: Path) -> dict[str, Stored]:
    if path := existing(directory, SAFETENSORS):
        return dict(_safetensors(path))
    if path := existing(directory, INDEX):
        return _sharded(directory, path)
    if path := existing(directory, OLD):
        return dict(_pytorch_bin(path))
    raise RequestError(f"{directory}: has no weights; expected {SAFETENSORS}, {INDEX} or {OLD}.")


def _safetensors(path: Path) -> Iterator[tuple[str, Stored]]:
    try:
        file: Any = safe_open(path, framework="pt")
        for name in file.keys():  # noqa: SIM118 (not a dict)
            part = file.get_slice(name)
            shape = tuple(part.get_shape())
            yield name, Stored(path.name, name, shape, part.get_dtype() in _FLOATS, _reader(path, name))
    except (SafetensorError, OSError, ValueError, RuntimeError) as error:
        raise _damaged(path, "safetensors", error) from None


def _reader(path: Path, name: str) -> Callable[[], Tensor]:
    """Opens the file again each time: if it stayed mapped, every page ever read would count as our memory."""

    def read() -> Tensor:
        try:
            file: Any = safe_open(path, framework="pt")
            tensor: Tensor = file.get_tensor(name)
        except (SafetensorError, OSError, ValueError, RuntimeError) as error:
            raise _damaged(path, "safetensors", error) from None
        return tensor

    return read


def _sharded(directory: Path, index: Path) -> dict[str, Stored]:
    places = read_json(index).get("weight_map")
    if not isinstance(places, dict) or not places or not all(isinstance(v, str) for v in places.values()):
        raise RequestError(f"{index}: has no weight_map of tensor names and files.")
    tensors: dict[str, Stored] = {}
    for shard in sorted(set(places.values())):
        path = existing(directory, shard)
        if path is None:
            raise RequestError(f"{index}: names {shard}, which is not in the directory; download it too.")
        stored = dict(_safetensors(path))
        promised = {name for name, file in places.items() if file == shard}
        if promised != set(stored):
            disagreeing = sorted(promised ^ set(stored))
            raise RequestError(
                f"{index}: disagrees with {shard} about {len(disagreeing)} tensors, {disagreeing[0]!r} among them."
            )
        tensors.update(stored)
    return tensors


def _pytorch_bin(path: Path) -> Iterator[tuple[str, Stored]]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about how the file was written, which the reader cannot change
            content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        # Whatever the restricted loader raises, the file is the cause: it is refused and none of its code has run.
        raise RequestError(
            f"{path}: refused by the restricted loader ({_reason(error)}); save it as {SAFETENSORS} where you trust it."
        ) from None
    if not isinstance(content, dict):
        raise RequestError(f"{path}: holds a {type(content).__name__} where a dictionary of tensors is expected.")
    for name, tensor in content.items():
        if not isinstance(name, str) or not _is_plain(tensor):
            raise RequestError(f"{path}: holds {str(name)[:_LONGEST]!r}, which is not a plain tensor.")
        # Tensors may share their memory in such a file; parameters may not.
        read = partial(torch.clone, tensor.detach(), memory_format=torch.contiguous_format)
        yield name, Stored(path.name, name, tuple(tensor.shape), tensor.is_floating_point(), read)


def _is_plain(tensor: Any) -> bool:
    """Numbers in memory, each in its own place: not sparse, quantized, nested, or one number that claims to be many."""
    if not isinstance(tensor, Tensor) or tensor.is_nested or tensor.layout is not torch.strided or tensor.is_quantized:
        return False
    return tensor.device.type == "cpu" and tensor.nbytes <= tensor.untyped_storage().nbytes()


def _damaged(path: Path, kind: str, error: BaseException) -> RequestError:
    return RequestError(f"{path}: not a valid {kind} file ({_reason(error)}); download or save it again.")


def _reason(error: BaseException) -> str:
    """The loader's own reason without its advice (which is to trust the file)."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reasons = [line for line in lines if "WeightsUnpickler error" in line] or lines or [type(error).__name__]
    reason = reasons[0].removeprefix("WeightsUnpickler error:").strip()
    return json.dumps(reason[:160], ensure_ascii=False)[1:-1].rstrip(" .;:")
