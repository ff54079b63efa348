"""What the runs of a study share: token ids, and the features of a frozen body. Whoever comes first makes them."""

import contextlib
import fcntl
import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from heedful.errors import RequestError
from heedful.objectives.classify import Item, pack_items, unpack_items


class Shelf:
    """A directory with a place for everything that is computed once. Several processes may use it together."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @contextlib.contextmanager
    def place(self, facts: dict[str, Any]) -> Iterator[Path]:
        """The folder of what these facts determine; nobody else is inside meanwhile."""
        key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
        folder = self.directory / key
        folder.mkdir(parents=True, exist_ok=True)
        with (self.directory / f"{key}.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield folder

    def items(self, facts: dict[str, Any], split: str, make: Callable[[], list[Item]]) -> list[Item]:
        """The token ids of one split."""
        with self.place(facts) as folder:
            path = folder / f"{split}.safetensors"
            if path.exists():
                return unpack_items(load_file(path))
            made = make()
            part = folder / f".{split}.safetensors"
            try:
                save_file(pack_items(made), part)
            except SafetensorError as error:  # the library's word for a full disk too
                raise OSError(str(error).removeprefix("Error while serializing: ")) from None
            part.rename(path)  # whole or not there, however the run is stopped
            return made


class Busy(RequestError):  # noqa: N818 (a state, as Stopped is)
    """Somebody else is at work there, or is about to notice that it should not be."""


@contextlib.contextmanager
def alone(directory: Path) -> Iterator[None]:
    """Nobody else is at work in this directory meanwhile; the lock goes with the process, however that ends."""
    with (directory / ".lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Busy(
                f"{directory}: another process is at work there; wait for it, or choose another directory with --out."
            ) from None
        yield
