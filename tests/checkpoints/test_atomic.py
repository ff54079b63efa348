"""Saving over a model leaves the old one whole or the new one whole, whatever fails on the way."""

import ctypes
import errno
import io
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from heedful.checkpoints import directory
from heedful.checkpoints.directory import Checkpoint, read_model, write_model
from heedful.errors import RequestError, WorkError
from heedful.storage import directories
from heedful.storage.directories import replace_directory
from tests.support.checkpoint_samples import assert_same, fingerprint, make_checkpoint, names_in


@pytest.fixture
def versions(tmp_path: Path) -> tuple[Checkpoint, Checkpoint]:
    """Two models that differ in every weight."""
    made = [make_checkpoint("bert", ("linear",), tmp_path / "scratch", salt=salt) for salt in (1, 2)]
    shutil.rmtree(tmp_path / "scratch")
    return made[0], made[1]


class Injector:
    """Counts the calls of some functions and raises at the n-th."""

    def __init__(self, patch: pytest.MonkeyPatch, at: int, error: BaseException) -> None:
        self.count, self.at, self.error = 0, at, error
        self.places: list[str] = []
        for owner, name in (
            (os, "mkdir"),
            (os, "chmod"),
            (os, "open"),
            (os, "fsync"),
            (os, "rename"),
            (os, "umask"),
            (io, "open"),
            (directory, "save_file"),
            (directories, "_exchange"),
        ):
            patch.setattr(owner, name, self.wrap(name, getattr(owner, name)))

    def wrap(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if (
                sys._getframe(1).f_code.co_filename == shutil.__file__
            ):  # clearing up: a failure there can but leave a rest
                return real(*args, **kwargs)
            self.count += 1
            self.places.append(name)
            if self.count == self.at:
                raise self.error
            return real(*args, **kwargs)

        return call


def no_exchange(patch: pytest.MonkeyPatch) -> None:
    """A file system that cannot swap two directories."""

    def renameat2(*args: Any) -> int:
        ctypes.set_errno(errno.EINVAL)
        return -1

    library = SimpleNamespace(renameat2=renameat2, renamex_np=renameat2)
    patch.setattr(directories.ctypes, "CDLL", lambda *a, **k: library)


def steps(target: Path, model: Checkpoint, simple: bool) -> int:
    """How many steps a save has that succeeds."""
    with pytest.MonkeyPatch.context() as patch:
        if simple:
            no_exchange(patch)
        counted = Injector(patch, -1, OSError())
        write_model(target, model)
    assert {"mkdir", "open", "fsync", "save_file"} <= set(counted.places)
    return counted.count


@pytest.mark.parametrize("simple", [False, True], ids=["exchange", "two renames"])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()], ids=str)
def test_a_failure_at_every_step(
    error: BaseException, simple: bool, versions: tuple[Checkpoint, Checkpoint], tmp_path: Path
) -> None:
    old, new = versions
    target = tmp_path / "place" / "model"
    write_model(target, old)
    total = steps(target, new, simple)
    assert total > 20
    write_model(target, old)
    before, unchanged = fingerprint(target), 0
    for at in range(1, total + 1):
        message = ""
        with pytest.MonkeyPatch.context() as patch:
            if simple:
                no_exchange(patch)
            Injector(patch, at, error)
            try:
                write_model(target, new)
            except (WorkError, KeyboardInterrupt) as caught:
                message = str(caught)
        assert names_in(target.parent) == ["model"], at
        if fingerprint(target) == before:  # the old one, to the bit
            unchanged += 1
            assert message or isinstance(error, KeyboardInterrupt), at
            assert isinstance(error, KeyboardInterrupt) or ("No space left" in message and "untouched" in message)
        else:
            assert message == "", at  # it did not say that the old one is there
            assert_same(read_model(target), new)
            write_model(target, old)
    assert unchanged >= total - 4  # nothing is exchanged before all is written


def test_a_failure_on_the_first_save_leaves_nothing(versions: tuple[Checkpoint, Checkpoint], tmp_path: Path) -> None:
    target = tmp_path / "place" / "model"
    total = steps(target, versions[0], simple=False)
    for at in range(1, total):
        shutil.rmtree(target.parent, ignore_errors=True)
        with pytest.MonkeyPatch.context() as patch:
            Injector(patch, at, OSError(errno.EIO, "Input/output error"))
            try:
                write_model(target, versions[0])
            except WorkError:
                assert not target.exists()
                assert not target.parent.exists() or names_in(target.parent) == []
            else:
                assert_same(read_model(target), versions[0])


def test_a_disk_that_is_really_full(versions: tuple[Checkpoint, Checkpoint], tmp_path: Path) -> None:
    """No injection: the system refuses the bytes, in config.json or in the tensors."""
    old, new = versions
    target = tmp_path / "model"
    write_model(target, old)
    before = fingerprint(target)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        for most in (10, 3000, 9000):
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, limits[1]))
            with pytest.raises(WorkError, match="File too large"):
                write_model(target, new)
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            assert fingerprint(target) == before
            assert names_in(tmp_path) == ["model"]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("stranger", ["notes.txt", "pytorch_model.bin", ".git", "checkpoints/step-1"])
def test_what_is_not_a_models_is_never_replaced(
    stranger: str, versions: tuple[Checkpoint, Checkpoint], tmp_path: Path
) -> None:
    target = tmp_path / "model"
    write_model(target, versions[0])
    (target / stranger).parent.mkdir(exist_ok=True)
    (target / stranger).write_text("mine")
    before = fingerprint(target)
    with pytest.raises(RequestError, match=stranger.split("/")[0]):
        write_model(target, versions[1])
    assert fingerprint(target) == before
    assert names_in(tmp_path) == ["model"]


def test_a_directory_that_is_called_like_a_file_of_ours(
    versions: tuple[Checkpoint, Checkpoint], tmp_path: Path
) -> None:
    (tmp_path / "model" / "vocab.txt").mkdir(parents=True)
    (tmp_path / "model" / "vocab.txt" / "diary").write_text("mine")
    with pytest.raises(RequestError, match=r"vocab\.txt"):
        write_model(tmp_path / "model", versions[0])
    assert (tmp_path / "model" / "vocab.txt" / "diary").read_text() == "mine"


def test_a_file_is_never_replaced(versions: tuple[Checkpoint, Checkpoint], tmp_path: Path) -> None:
    (tmp_path / "model").write_text("mine")
    with pytest.raises(RequestError, match="is a file"):
        write_model(tmp_path / "model", versions[0])
    with pytest.raises(WorkError, match=r"Not a directory|File exists"):
        write_model(tmp_path / "model" / "below", versions[0])
    assert (tmp_path / "model").read_text() == "mine"
    assert names_in(tmp_path) == ["model"]


def test_an_empty_directory_and_an_older_model_are_replaced(
    versions: tuple[Checkpoint, Checkpoint], tmp_path: Path
) -> None:
    target = tmp_path / "model"
    target.mkdir()
    for model in (*versions, *versions):
        write_model(target, model)
        assert_same(read_model(target), model)
    assert names_in(tmp_path) == ["model"]


def test_a_link_keeps_pointing_where_it_did(versions: tuple[Checkpoint, Checkpoint], tmp_path: Path) -> None:
    write_model(tmp_path / "real", versions[0])
    (tmp_path / "link").symlink_to("real")
    write_model(tmp_path / "link", versions[1])
    assert (tmp_path / "link").is_symlink()
    assert_same(read_model(tmp_path / "real"), versions[1])


def test_others_may_read_what_the_umask_allows(versions: tuple[Checkpoint, Checkpoint], tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        write_model(tmp_path / "model", versions[0])
    finally:
        os.umask(mask)
    assert (tmp_path / "model").stat().st_mode & 0o777 == 0o750
    assert {p.name: p.stat().st_mode & 0o777 for p in (tmp_path / "model").iterdir()} == {
        p.name: 0o640 for p in (tmp_path / "model").iterdir()
    }


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_where_one_may_not_write(versions: tuple[Checkpoint, Checkpoint], tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    with pytest.raises(WorkError, match="Permission denied"):
        write_model(tmp_path / "locked" / "model", versions[0])


def test_the_injection_bites(tmp_path: Path) -> None:
    """The negative control: a write without care loses the old content under the same injection."""
    target = tmp_path / "careless"
    target.mkdir()
    (target / "a").write_text("old")
    with pytest.MonkeyPatch.context() as patch:
        Injector(patch, 2, OSError(errno.ENOSPC, "full"))
        (target / "a").write_text("new")
        with pytest.raises(OSError, match="full"):
            (target / "b").write_text("new")
    assert (target / "a").read_text() == "new"
    assert not (target / "b").exists()


def test_an_error_of_the_writer_itself_passes_through(tmp_path: Path) -> None:
    def write(into: Path) -> None:
        (into / "half").write_text("x")
        raise RequestError("no")

    with pytest.raises(RequestError, match="no"):
        replace_directory(tmp_path / "model", write, frozenset())
    assert names_in(tmp_path) == []


CHILD = """
import sys
from pathlib import Path
from heedful.checkpoints.directory import read_model, write_model
a, b, target = (Path(p) for p in sys.argv[1:])
versions = [read_model(a), read_model(b)]
print("ready", flush=True)
while True:
    for version in versions:
        write_model(target, version)
"""


def children(arguments: list[str]) -> Iterator[subprocess.Popen[str]]:
    while True:
        command = [sys.executable, "-c", CHILD, *arguments]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        yield child


@pytest.mark.full
def test_killed_at_any_moment(versions: tuple[Checkpoint, Checkpoint], tmp_path: Path) -> None:
    """kill −9 in the middle of saving, again and again: what is there is one of the two, to the bit."""
    for name, model in zip("ab", versions, strict=True):
        write_model(tmp_path / name, model)
    target = tmp_path / "place" / "model"
    write_model(target, versions[0])
    chance, seen, strays = random.Random(0), [0, 0], 0
    spawn = children([str(tmp_path / "a"), str(tmp_path / "b"), str(target)])
    for _ in range(24):
        child = next(spawn)
        time.sleep(chance.uniform(0.0, 0.3))
        child.send_signal(signal.SIGKILL)
        child.wait()
        found = read_model(target)
        which = int(fingerprint(target) != fingerprint(tmp_path / "a"))
        assert fingerprint(target) == fingerprint(tmp_path / "ab"[which])
        assert_same(found, versions[which])
        seen[which] += 1
        strays += len(names_in(target.parent)) - 1
    assert min(seen) > 0, seen
    assert strays > 0  # some kills did hit the middle of a save


def test_leftovers_of_a_killed_save_go_with_the_next(tmp_path: Path) -> None:
    leftover = tmp_path / ".model.abcdefgh.new"
    leftover.mkdir()
    (leftover / "model.safetensors").write_bytes(b"half")
    os.utime(leftover, (0, 0))
    going_on = tmp_path / ".model.12345678.new"
    going_on.mkdir()
    stranger = tmp_path / ".model.v2.abcdefgh.new"  # of a neighbour called model.v2
    stranger.mkdir()
    os.utime(stranger, (0, 0))
    replace_directory(tmp_path / "model", lambda into: (into / "config.json").write_text("{}"), frozenset())
    assert sorted(p.name for p in tmp_path.iterdir()) == [going_on.name, stranger.name, "model"]
