"""`heedful data shard` on texts that do not fit and machines that die: memory that stays, kills that leave no trace."""

import os
import random
import signal
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.corpus_samples import documents, write_text
from tests.support.training_samples import forkserver

MB = 2**20
GROWTH = 4 * MB
"""By which the peak may differ between 1 MB of text and 8 MB; allocators are not exact."""


def small_shards(arguments: Sequence[str], **options: Any) -> None:
    """In a process of its own: the command, with shards so small that there are many."""
    from heedful.data.corpus import writing
    from heedful.inputs import sharding

    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123 (until the process ends)
    sys.argv = ["heedful", "data", "shard", *arguments]
    writing._BATCH = 2**16
    sharding.write_corpus = partial(writing.write_corpus, **options)


def measured(arguments: Sequence[str], held: bool, answer: Any) -> None:
    """By how many bytes the process has grown at most; `held`: all the text is read before any is written."""
    from heedful.cli.main import main
    from heedful.data.corpus import writing
    from heedful.inputs import sharding
    from heedful.training.cost import peak_memory

    small_shards(arguments, shard_tokens=50_000)
    read, write, before = writing.read_documents, sharding.write_corpus, peak_memory()
    if held:
        writing.read_documents = lambda *given, **options: iter(list(read(*given, **options)))

    def write_and_measure(*given: Any, **options: Any) -> None:
        write(*given, **options)
        answer.send(peak_memory() - before)  # what comes after it maps the shards, which is memory that can be taken

    sharding.write_corpus = write_and_measure
    main()


def peak(arguments: Sequence[str], held: bool = False) -> int:
    here, there = forkserver().Pipe(duplex=False)
    child = forkserver().Process(target=measured, args=(arguments, held, there))
    child.start()
    assert here.poll(200)
    grown = int(here.recv())
    child.join()
    return grown


def test_memory_does_not_grow_with_the_text(tmp_path: Path) -> None:
    """Of the vocabulary's training and the writing of shards; the control holds the text, and is noticed."""
    once = write_text(tmp_path / "once.txt", documents(700, 60))
    assert once.stat().st_size > MB
    often = tmp_path / "often.txt"
    often.write_text(8 * f"{once.read_text()}\n")
    first = peak([str(once), "--out", str(tmp_path / "once"), "--vocabulary", "300"])
    later = peak([str(often), "--out", str(tmp_path / "often"), "--vocabulary", "300"])
    control = peak([str(often), "--out", str(tmp_path / "held"), "--tokenizer", str(tmp_path / "once")], held=True)
    assert later - first < GROWTH
    assert control - first > 1.5 * GROWTH


def killed_before(arguments: Sequence[str], operation: int) -> None:
    """In a process of its own: killed before this many-th time that a file is made lasting, appears or goes."""
    from heedful.cli.main import main

    small_shards(arguments, shard_tokens=250)
    left = operation

    def counted(work: Any) -> Any:
        def at_work(*given: Any, **options: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return work(*given, **options)

        return at_work

    os.fsync, Path.replace, Path.unlink = (counted(work) for work in (os.fsync, Path.replace, Path.unlink))
    main()


class World:
    """Two texts with documents that are in both, and the directory that an undisturbed command makes of them."""

    def __init__(self, folder: Path) -> None:
        made = documents(40)
        texts = [write_text(folder / "a.txt", made[:25] + made[:5]), write_text(folder / "b.txt", made[20:])]
        self.given = [*map(str, texts), "--vocabulary", "200", "--deduplicate"]
        self.folder = folder
        assert self.run("whole", 0) == 0
        self.expected = files_in(folder / "whole")
        assert len([name for name in self.expected if name.startswith("tokens-")]) > 3

    def start(self, name: str, operation: int) -> Any:
        arguments = [*self.given, "--out", str(self.folder / name)]
        child = forkserver().Process(target=killed_before, args=(arguments, operation))
        child.start()
        return child

    def run(self, name: str, operation: int) -> int:
        """The exit code; -9 of one that was killed. `operation` 0: nobody kills it."""
        child = self.start(name, operation)
        child.join(100)
        return int(child.exitcode)


def files_in(directory: Path) -> dict[str, bytes]:
    """Hidden ones too."""
    return {p.relative_to(directory).as_posix(): p.read_bytes() for p in directory.rglob("*") if p.is_file()}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"))


def test_killed_twice_it_goes_on_to_the_same_files(world: World) -> None:
    assert [world.run("twice", operation) for operation in (8, 14, 0)] == [-9, -9, 0]
    assert files_in(world.folder / "twice") == world.expected


@pytest.mark.full
def test_killed_before_any_change_of_a_file_it_goes_on_to_the_same_files(world: World) -> None:
    operation = 0
    while (ended := world.run(f"at-{(operation := operation + 1)}", operation)) == -9:
        assert world.run(f"at-{operation}", 0) == 0
        assert files_in(world.folder / f"at-{operation}") == world.expected, operation
    assert ended == 0
    assert operation > 40


@pytest.mark.full
def test_killed_at_any_time_it_goes_on_to_the_same_files(world: World) -> None:
    draw, kills = random.Random(1), 0
    for life in range(12):
        name = f"life-{life}"
        for _ in range(4):
            child = world.start(name, 0)
            time.sleep(draw.uniform(0.02, 0.4))
            child.kill()
            child.join()
            kills += child.exitcode == -9
        assert world.run(name, 0) == 0
        assert files_in(world.folder / name) == world.expected
    assert kills > 12
