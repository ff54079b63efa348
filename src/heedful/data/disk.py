"""Data files as users name them: what can be none is refused, and what is wrong with a line is said with its number."""

import errno
from collections.abc import Callable, Iterator
from pathlib import Path

from heedful.errors import RequestError
from heedful.storage import lines


def require_file(path: Path) -> None:
    """Stop at what cannot be a data file, before anything is read."""
    try:
        is_folder, exists = path.is_dir(), path.exists()
        size = path.stat().st_size if exists else 0
    except OSError as error:
        raise _unreadable(path, error) from None
    if is_folder:
        raise RequestError(f"{path} is a folder; name a data file in it.")
    if not exists:
        raise RequestError(f"{path} does not exist; check the path.")
    if path.is_file() and size == 0:
        raise RequestError(f"{path} is empty; it needs rows of data.")


def exists(path: Path) -> bool:
    """As the path's own, but in words where it cannot be told; a name that is too long is nobody's."""
    return _asked(path, Path.exists)


def is_file(path: Path) -> bool:
    """The same."""
    return _asked(path, Path.is_file)


def _asked(path: Path, question: Callable[[Path], bool]) -> bool:
    try:
        return question(path)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return False
        raise _unreadable(path, error) from None


def expanded(name: str, key: str) -> Path:
    """With ~ replaced; `key`: where the user has written it."""
    try:
        return Path(name).expanduser()
    except RuntimeError:
        raise RequestError(f"{key} = {name!r}: this user has no home directory; write the full path.") from None


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Each line with its number from 1 and its end (\\n, \\r\\n, or \\r if the file has no \\n), in constant memory."""
    require_file(path)
    yield from lines.read_lines(path)


def _unreadable(path: Path, error: OSError) -> RequestError:
    return RequestError(f"{path} cannot be read ({error.strerror or error}); check the path and its rights.")
