"""What the runs of a study share: data that were read, token ids, the features of a frozen body. Whoever comes first
makes them; the others read them."""

import contextlib
import fcntl
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from heedful.storage.hashing import sha256_of_json
from heedful.storage.memory import FileMemory
from heedful.storage.whole import write_text

_parsed = FileMemory[Any](16)


class SharedStore:
    """A directory with a place for everything that is computed once. Several processes may use it together."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @contextlib.contextmanager
    def place(self, facts: Mapping[str, Any]) -> Iterator[Path]:
        """The folder of what these facts determine; nobody else is inside meanwhile."""
        key = sha256_of_json(facts, sort_keys=True)[:16]
        folder = self.directory / key
        folder.mkdir(parents=True, exist_ok=True)
        with (self.directory / f"{key}.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield folder

    def tensors(
        self, facts: Mapping[str, Any], name: str, make: Callable[[], Mapping[str, Tensor]]
    ) -> Mapping[str, Tensor]:
        with self.place(facts) as folder:
            path = folder / f"{name}.safetensors"
            if path.exists():
                return load_file(path)
            tensors = make()
            part = folder / f".{name}.safetensors"
            try:
                save_file(dict(tensors), part)
            except SafetensorError as error:  # the library's word for a full disk too
                raise OSError(str(error).removeprefix("Error while serializing: ")) from None
            part.rename(path)  # whole or not there, however the run is stopped
            return tensors

    def json(self, facts: Mapping[str, Any], name: str, make: Callable[[], Any]) -> Any:
        """Return what `make` makes, kept as JSON. It is parsed once in a process and shared: nobody may change it."""
        with self.place(facts) as folder:
            path = folder / f"{name}.json"
            if path.exists():
                return _parsed.get([path], None, lambda: json.loads(path.read_text(encoding="utf-8")))
            content = make()
            write_text(path, json.dumps(content))
            return _parsed.get([path], None, lambda: content)

    def forget(self, name: str) -> None:
        """What was kept as JSON under this name is made anew when it is next wanted."""
        for path in self.directory.glob(f"*/{name}.json"):
            path.unlink(missing_ok=True)
