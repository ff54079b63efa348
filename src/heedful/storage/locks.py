"""One process at a time in a directory."""

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

from heedful.errors import RequestError


class Busy(RequestError):  # noqa: N818 (a state, nothing that went wrong)
    """Somebody else is at work there, or is about to notice that it should not be."""


@contextlib.contextmanager
def alone(directory: Path) -> Iterator[None]:
    """Nobody else is at work in this directory meanwhile; the lock goes with the process, however that ends."""
    try:
        opened = (directory / ".lock").open("a")
    except OSError as error:
        raise RequestError(f"{directory}: cannot be written ({error.strerror}); choose another with --out.") from None
    with opened as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Busy(
                f"{directory}: another process is at work there; wait for it, or choose another directory with --out."
            ) from None
        yield
