"""Directories that appear whole or not at all: a crash leaves the old one or the new one, never a mixture."""

import contextlib
import ctypes
import errno
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from heedful.errors import RequestError, WorkError
from heedful.storage.whole import umask

_AT_FDCWD, _RENAME_EXCHANGE, _RENAME_SWAP = -100, 2, 2


def make_directory(directory: Path) -> None:
    """With its parents; a place where that is not possible is refused."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RequestError(f"{directory}: cannot be made ({error.strerror}); choose another directory.") from None


def replace_directory(
    target: Path,
    write: Callable[[Path], None],
    replaceable: frozenset[str],
    folders: frozenset[str] = frozenset(),
) -> None:
    """Calls `write` with a new directory beside `target`, then puts it in `target`'s place in one step.

    An existing directory is replaced only if it holds nothing but files with names in `replaceable` and folders with
    names in `folders`: what else is there is somebody's, and would be lost.
    """
    target = Path(os.path.abspath(target))  # noqa: PTH100 (resolve() would follow a link at the target)
    staging: Path | None = None
    try:
        if target.is_symlink():
            target = target.resolve()
        refuse_strangers(target, replaceable, folders)
        if Path.cwd().is_relative_to(target):
            raise RequestError(f"{target}: is the working directory and would be replaced. Choose another directory.")
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(target)
        staging = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".new", dir=target.parent))
        staging.chmod(0o777 & ~umask())
        write(staging)
        for path in staging.rglob("*"):
            if path.is_file():
                path.chmod(0o666 & ~umask())  # some libraries write for the owner alone
            _sync(path)
        _sync(staging)
        if target.exists():
            _exchange(staging, target)
        else:
            staging.rename(target)
        with contextlib.suppress(OSError):  # it is in its place; when that reaches the disk is the file system's affair
            _sync(target.parent)
    except OSError as error:
        raise WorkError(
            f"{target}: could not be written ({error.strerror or error}); what was there before is untouched."
        ) from None
    finally:
        if staging is not None:  # what is left there is the unfinished new directory, or the old one after the exchange
            shutil.rmtree(staging, ignore_errors=True)


def link_or_copy(source: Path, target: Path) -> None:
    """The same file under a second name, so that it takes no room; a copy where the file system cannot."""
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise
        shutil.copyfile(source, target)


def _remove_leftovers(target: Path) -> None:
    """Of saves that were killed; what is younger than an hour may be a save that is going on elsewhere."""
    for path in target.parent.iterdir():
        if re.fullmatch(rf"\.{re.escape(target.name)}\.[a-z0-9_]{{8}}\.new", path.name):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > 3600:
                    shutil.rmtree(path, ignore_errors=True)


def refuse_strangers(target: Path, replaceable: frozenset[str], folders: frozenset[str]) -> None:
    """What `replace_directory` would refuse, for callers with much to do before they write."""
    if not target.exists():
        return
    if not target.is_dir():
        raise RequestError(f"{target}: is a file; name a directory.")
    strangers = sorted(p.name for p in target.iterdir() if p.name not in (folders if p.is_dir() else replaceable))
    if strangers:
        raise RequestError(
            f"{target}: holds {strangers[0]!r}, which is not heedful's and would be lost. Choose another directory."
        )


def _exchange(new: Path, old: Path) -> None:
    """Swap two directories in one system call where there is one (Linux, macOS)."""
    library = ctypes.CDLL(None, use_errno=True)
    a, b = os.fsencode(new), os.fsencode(old)
    if sys.platform == "linux" and hasattr(library, "renameat2"):
        failed = library.renameat2(_AT_FDCWD, a, _AT_FDCWD, b, _RENAME_EXCHANGE)
    elif sys.platform == "darwin":
        failed = library.renamex_np(a, b, _RENAME_SWAP)
    else:
        failed = 1
        ctypes.set_errno(errno.ENOSYS)
    if not failed:
        return
    code = ctypes.get_errno()
    if code not in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        raise OSError(code, os.strerror(code), str(old))
    # A file system without the exchange: two renames. A crash between them leaves the old directory beside its place.
    aside = new.with_suffix(".old")
    old.rename(aside)
    try:
        new.rename(old)
    except BaseException:
        aside.rename(old)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
