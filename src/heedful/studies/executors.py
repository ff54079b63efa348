"""Where the runs of a study happen: one after another in this process, or in processes of their own."""

import contextlib
import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from multiprocessing import connection
from pathlib import Path
from typing import Any, NamedTuple

from heedful.errors import RequestError, WorkError
from heedful.storage.locks import Busy
from heedful.training.cost import available_memory
from heedful.training.loop import StepError
from heedful.training.processes import PeerError, Processes, join
from heedful.training.progress import Narrator, silent

TRIES = 3
_SPARE = 300_000_000  # bytes that stay free when another run starts
PATIENCE = 60.0  # seconds that a killed run may take to release its directory
_GUESS = 1_000_000_000  # bytes that a run takes, until the first one reports its own


@dataclass(frozen=True)
class Task:
    """One run as plain data, so that it can be sent to another process or machine."""

    name: str
    recipe: dict[str, Any]
    seed: int
    directory: str
    store: str
    """The directory of what the runs of the study share."""
    command: str
    baselines: dict[str, Any] | None
    threads: int | None
    thresholds: dict[int, float] = field(default_factory=dict)
    """The score that it must have reached by each evaluation on dev, or it is stopped."""


@dataclass(frozen=True)
class Result:
    name: str
    """The run's."""
    state: str
    """"done" or "failed"."""
    reason: str | None = None


Watch = Callable[[str, dict[str, Any]], None]
"""Receives the name of a run and its news."""
Executor = Callable[[Iterable[Task], Watch], Iterator[Result]]
"""Carry out tasks and yield each as it ends. A wrong request, or Ctrl-C, is raised; runs are kept."""


def perform(task: Task, narrator: Narrator | None = None) -> None:
    """Run a task in this process."""
    from heedful.recipes.reading import make_recipe
    from heedful.storage.shared import SharedStore
    from heedful.training.run import execute

    execute(
        make_recipe(task.recipe),
        task.seed,
        Path(task.directory),
        command=task.command,
        narrator=narrator,
        baselines=task.baselines,
        store=SharedStore(Path(task.store)),
        threads=task.threads,
        thresholds=task.thresholds,
    )


def attempt(task: Task, narrator: Narrator, patience: float = 0.0) -> tuple[str, str | None]:
    """Run the task and return how it ended: "done", "failed" or, if the request was wrong, "request", with the reason.
    An unexpected error is a failure too; its traceback is written into the run's directory. `patience`: seconds to wait
    for a directory that a killed run still holds."""
    until = time.monotonic() + patience
    while True:
        try:
            perform(task, narrator)
            return "done", None
        except Busy as error:
            if time.monotonic() >= until:
                return "request", str(error)
            time.sleep(0.5)
        except RequestError as error:
            return "request", str(error)
        except WorkError as error:
            return "failed", str(error)
        except OSError as error:
            return "failed", _about_files(error)
        except Exception as error:
            with contextlib.suppress(OSError):
                text = traceback.format_exc()
                (Path(task.directory) / "traceback.txt").write_text(text, encoding="utf-8")
            return "failed", f"{type(error).__name__}: {error} (see traceback.txt in the run's directory)"


def _about_files(error: OSError) -> str:
    return f"{error.filename or 'a file'}: could not be read or written ({error.strerror or error})."


def in_turn(tasks: Iterable[Task], watch: Watch) -> Iterator[Result]:
    """Run one task after another in this process. A run that fails does not stop the others."""
    for task in tasks:
        state, reason = attempt(task, Narrator(task.name, tell=watch))
        if state == "request":
            raise RequestError(str(reason))
        yield Result(task.name, state, reason)


def in_group(group: Processes) -> Executor:
    """Run one task after another, each with all processes that torchrun has started; this is the first of them. A step
    that all of them refuse ends only that run. Any other error ends the whole group."""

    def executor(tasks: Iterable[Task], watch: Watch) -> Iterator[Result]:
        for task in tasks:
            group.tell({"task": asdict(replace(task, baselines=None, thresholds={}))})  # the run sends what is needed
            try:
                perform(task, Narrator(task.name, tell=watch))
            except StepError as error:
                yield Result(task.name, "failed", str(error))
            except OSError as error:
                raise WorkError(f"{task.name}: {_about_files(error)}") from None
            else:
                yield Result(task.name, "done")

    return executor


def assist() -> str | None:
    """Help the first process of a torchrun group with its runs, until it sends the directory that is returned. Return
    None at once in the first process, and without torchrun."""
    group = join()
    if group.first:
        return None
    try:
        while "task" in (message := group.hear()):
            task = Task(**message["task"])
            with contextlib.suppress(StepError):  # the first process reports it
                perform(task, Narrator(task.name, silent))
        return str(message["end"])
    except PeerError:
        raise SystemExit(1) from None  # the lost process has printed why, if it could
    except OSError as error:
        raise WorkError(f"process {group.rank + 1} of {group.count}: {_about_files(error)}") from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def dismiss(directory: Path) -> None:
    """End the `assist` of the other processes of a group, which return this directory."""
    join().tell({"end": str(directory)})


class Place(NamedTuple):
    """Where runs are made."""

    executor: Executor
    threads: int | None
    """For each run whose recipe does not say; None: PyTorch's own."""
    at_once: int | None
    """Runs at a time; None: not known yet."""


def executor_for(on: str | None, workers: int | None, jobs: int) -> Place:
    """Return where the user wants the runs: on this machine, or on a Ray cluster; under torchrun, in its processes."""
    group = join()
    if group.count > 1:
        if on is not None or (workers or 1) > 1:
            key = "--workers" if on is None else "--on"
            raise RequestError(f"{key} cannot be combined with torchrun, whose processes train one run at a time.")
        return Place(in_group(group), None, 1)
    if on is None:
        return local(workers, jobs)
    if on != "ray" and not on.startswith("ray://"):
        raise RequestError(f"--on {on}: use ray, or ray://HOST:PORT. Without --on, runs are on this machine.")
    from heedful.studies.on_ray import on_ray

    return Place(on_ray(on, workers), 1, workers)


def local(workers: int | None, jobs: int) -> Place:
    """Return this machine: as many runs at a time as there are cores, or one after another if there is one run, one
    core, or a GPU that they would have to share."""
    from heedful.inference.device import has_gpu

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if workers is None:
        workers = 1 if has_gpu() else min(cores, jobs)
    if workers <= 1:
        return Place(in_turn, None, 1)
    return Place(in_processes(workers), max(1, cores // workers), workers)


def in_processes(workers: int) -> Executor:
    """Run as many tasks at a time as workers and memory allow, each in a process that ends with it."""

    def executor(tasks: Iterable[Task], watch: Watch) -> Iterator[Result]:
        return _Processes(workers, watch).work(deque(tasks))

    return executor


class _Processes:
    def __init__(self, workers: int, watch: Watch) -> None:
        if join().count > 1:
            raise RequestError("workers cannot be combined with torchrun, whose processes train one run at a time.")
        if multiprocessing.parent_process() is not None:  # a worker has imported the caller's script
            raise RequestError("workers need `if __name__ == '__main__':` around heedful.run in your script.")
        self.workers, self.watch = workers, watch
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(["heedful.training.run", "heedful.recipes.reading"])
        self.running: list[_Child] = []
        self.tries: dict[str, int] = {}
        self.largest = 0

    def work(self, waiting: deque[Task]) -> Iterator[Result]:
        try:
            while waiting or self.running:
                while waiting and len(self.running) < self.workers and self._room():
                    self.running.append(_Child(self.context, waiting.popleft()))
                for child in self._ended():
                    self.running.remove(child)
                    result = self._result_of(child, waiting)
                    if result is not None:
                        yield result
        finally:
            self._stop()

    def _room(self) -> bool:
        """Return whether there is memory for a run as large as the largest so far. The first is always started."""
        return not self.running or available_memory() > (self.largest or _GUESS) + _SPARE

    def _ended(self) -> "list[_Child]":
        """Return the processes that have ended, after reading the messages of all."""
        connection.wait([source for child in self.running for source in child.sources()], timeout=1)
        for child in self.running:
            child.listen(self.watch)
            self.largest = max(self.largest, child.peak)
        ended = [child for child in self.running if child.process.exitcode is not None]
        for child in ended:
            child.listen(self.watch)
        return ended

    def _result_of(self, child: "_Child", waiting: deque[Task]) -> Result | None:
        task, code = child.task, child.process.exitcode
        if child.request is not None:
            raise RequestError(child.request)
        if child.ending is not None:
            return Result(task.name, *child.ending)
        self.tries[task.name] = self.tries.get(task.name, 0) + 1
        if code == -signal.SIGKILL:  # most likely out of memory: run fewer at a time
            self.workers = max(1, self.workers - 1)
        if self.tries[task.name] < TRIES:  # killed from outside: it resumes from its last checkpoint
            waiting.appendleft(task)
            return None
        how = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        return Result(task.name, "failed", f"its process was killed {TRIES} times ({how}); is there enough memory?")

    def _stop(self) -> None:
        """Ask the running processes to save and stop, as Ctrl-C does, and wait for them."""
        for child in self.running:
            if child.process.pid is not None and child.process.exitcode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child.process.pid, signal.SIGINT)
        for child in self.running:
            child.process.join()
            child.listen(self.watch)


class _Child:
    def __init__(self, context: Any, task: Task) -> None:
        self.task = task
        self.ending: tuple[str, str | None] | None = None
        """"done" or "failed", and why."""
        self.request: str | None = None
        self.peak = 0
        self.receiver, sender = context.Pipe(duplex=False)
        parent, self.parent = context.Pipe(duplex=False)  # nothing is sent: its end tells the child that ours has come
        self.process = context.Process(target=_main, args=(task, sender, parent), name=task.name)
        self.process.start()
        sender.close()
        parent.close()

    def sources(self) -> list[Any]:
        """Return what has something to read when there are messages, or when the process has ended."""
        return [self.process.sentinel, *([] if self.receiver.closed else [self.receiver])]

    def listen(self, watch: Watch) -> None:
        try:
            while not self.receiver.closed and self.receiver.poll():
                kind, content = self.receiver.recv()
                if kind == "news":
                    self.peak = max(self.peak, content.get("memory", 0))
                    watch(self.task.name, content)
                elif kind == "request":
                    self.request = content
                else:
                    self.ending = (kind, content)
        except (EOFError, OSError):
            self.receiver.close()


def _main(task: Task, sender: Any, parent: Any) -> None:
    """Run the task in the child process and send how it ended. The child does not outlive its parent."""
    os.setpgrp()  # Ctrl-C reaches only the parent, which passes it on

    def exit_with_parent() -> None:
        with contextlib.suppress(EOFError, OSError):
            parent.recv()
        os._exit(1)

    threading.Thread(target=exit_with_parent, daemon=True).start()
    lock = threading.Lock()

    def send(kind: str, content: Any) -> None:
        with lock, contextlib.suppress(OSError):
            sender.send((kind, content))

    try:
        send(*attempt(task, Narrator(task.name, tell=lambda _, news: send("news", news)), PATIENCE))
    except KeyboardInterrupt:
        send("failed", "stopped")
