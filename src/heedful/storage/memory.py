"""What was made from files, remembered within this process until the files change."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

_TICK = 0.012
"""Seconds. Two changes within one tick of a file system's clock have the same time."""

Signature = tuple[str, int, int, int, int, int]
T = TypeVar("T")


def signature(path: Path) -> Signature:
    """Return what changes whenever the file does: its path, inode, size and times.

    A file that was written less than a tick ago could change once more without a new time. It is given that tick.
    """
    status = path.stat()
    age = time.time() - max(status.st_mtime, status.st_ctime)
    if 0 <= age < _TICK:
        time.sleep(_TICK - age)
    return (str(path.absolute()), status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


class FileMemory(Generic[T]):
    """The latest results of one computation over files, each valid as long as its files are unchanged.

    Results are shared by all callers, in all threads: nobody may change them.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._results: OrderedDict[Hashable, T] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, paths: Sequence[Path], settings: Hashable, make: Callable[[], T]) -> T:
        """Return what `make` made of these files with these settings. What fails is not remembered."""
        key = (tuple(map(signature, paths)), settings)
        with self._lock:
            if key in self._results:
                self._results.move_to_end(key)
                return self._results[key]
        result = make()
        with self._lock:
            self._results[key] = result
            while len(self._results) > self.most:
                self._results.popitem(last=False)
        return result
