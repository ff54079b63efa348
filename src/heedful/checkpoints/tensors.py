"""The tensor files of a model directory: safetensors, one or several, or an old `.bin` through the restricted loader.

Names and shapes are known before any tensor is read, so that a file that does not fit costs no memory.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from heedful.checkpoints.config import read_json
from heedful.errors import RequestError

SAFETENSORS, INDEX, OLD = "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin"
_FLOATS = {"F64", "F32", "F16", "BF16"}


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
    path = directory / name
    root = directory.resolve()
    if root.parent.name == "snapshots" and root.parent.parent.name.startswith("models--"):
        root = root.parent.parent
    if "/" in name or "\\" in name or name in ("", ".", "..") or not path.resolve().is_relative_to(root):
        raise RequestError(f"{path}: leads out of the model directory; put the file itself there.")
    return path


def existing(directory: Path, name: str) -> Path | None:
    """The path of a regular file of the directory, None if there is nothing of that name."""
    path = inside(directory, name)
    if not path.exists():
        if path.is_symlink():
            raise RequestError(f"{path}: is a link to nothing; put the file itself there.")
        return None
    if not path.is_file():
        raise RequestError(f"{path}: is not a file.")
    return path


def open_tensors(directory: Path) -> dict[str, Stored]:
    if path := existing(directory, SAFETENSORS):
        return dict(_safetensors(path))
    if path := existing(directory, INDEX):
        return _sharded(directory, path)
    if path := existing(directory, OLD):
        return dict(_old(path))
    raise RequestError(f"{directory}: has no weights; expected {SAFETENSORS}, {INDEX} or {OLD}.")


def _safetensors(path: Path) -> Iterator[tuple[str, Stored]]:
    try:
        file: Any = safe_open(path, framework="pt")
        for name in file.keys():  # noqa: SIM118 (not a dict)
            part = file.get_slice(name)
            shape = tuple(part.get_shape())
            yield name, Stored(path.name, name, shape, part.get_dtype() in _FLOATS, _reader(path, file, name))
    except (SafetensorError, OSError, ValueError, RuntimeError) as error:
        raise _damaged(path, "safetensors", error) from None


def _reader(path: Path, file: Any, name: str) -> Callable[[], Tensor]:
    def read() -> Tensor:
        try:
            tensor: Tensor = file.get_tensor(name)
        except (SafetensorError, OSError, ValueError, RuntimeError) as error:
            raise _damaged(path, "safetensors", error) from None
        return tensor

    return read


def _sharded(directory: Path, index: Path) -> dict[str, Stored]:
    places = read_json(index).get("weight_map")
    if not isinstance(places, dict) or not places or not all(isinstance(v, str) for v in places.values()):
        raise RequestError(f"{index}: has no weight_map of tensor names and files.")
    found: dict[str, Stored] = {}
    for shard in sorted(set(places.values())):
        path = existing(directory, shard)
        if path is None:
            raise RequestError(f"{index}: names {shard}, which is not in the directory; download it too.")
        stored = dict(_safetensors(path))
        promised = {name for name, file in places.items() if file == shard}
        if promised != set(stored):
            odd = sorted(promised ^ set(stored))
            raise RequestError(f"{index}: disagrees with {shard} about {len(odd)} tensors, {odd[0]!r} among them.")
        found.update(stored)
    return found


def _old(path: Path) -> Iterator[tuple[str, Stored]]:
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        # Whatever the restricted loader trips over, the file is at fault: it is refused and none of its code has run.
        raise RequestError(
            f"{path}: refused by the restricted loader ({_reason(error)}); save it as {SAFETENSORS} where you trust it."
        ) from None
    if not isinstance(content, dict):
        raise RequestError(f"{path}: holds a {type(content).__name__} where a dictionary of tensors is expected.")
    for name, tensor in content.items():
        plain = isinstance(tensor, Tensor) and tensor.layout is torch.strided and not tensor.is_quantized
        if not isinstance(name, str) or not plain:
            raise RequestError(f"{path}: holds {name!r}, which is not a plain tensor.")
        yield name, Stored(path.name, name, tuple(tensor.shape), tensor.is_floating_point(), lambda t=tensor: t)  # type: ignore[misc]


def _damaged(path: Path, kind: str, error: BaseException) -> RequestError:
    return RequestError(f"{path}: not a valid {kind} file ({_reason(error)}); download or save it again.")


def _reason(error: BaseException) -> str:
    """The loader's own reason without its advice (which is to trust the file)."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reasons = [line for line in lines if "WeightsUnpickler error" in line] or lines or [type(error).__name__]
    reason = reasons[0].removeprefix("WeightsUnpickler error:").strip()
    return json.dumps(reason[:160], ensure_ascii=False)[1:-1].rstrip(" .;:")
