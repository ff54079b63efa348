"""Where the runs of a study happen: one after another here, or in processes of their own."""

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
_SPARE = 300_000_000  # bytes left to others when a further run is started
PATIENCE = 60.0  # seconds for what is left of a lost run to let go of its directory
_GUESS = 1_000_000_000  # bytes that a run takes, until one has said


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
    """The score that it must have reached by each mark, or it is stopped."""


@dataclass(frozen=True)
class Result:
    name: str
    """The run's."""
    state: str
    """"done" or "failed"."""
    reason: str | None = None


Watch = Callable[[str, dict[str, Any]], None]
"""Told the name of a run and what is new about it."""
Executor = Callable[[Iterable[Task], Watch], Iterator[Result]]
"""Carries out tasks and yields each as it ends. A request that was wrong, or Ctrl-C, is raised; runs are kept."""


def perform(task: Task, narrator: Narrator | None = None) -> None:
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
    """Does the task and says how it ended: "done", "failed" or, if the request was wrong, "request", with the reason.
    What nobody foresaw is a failure too, and its traceback is kept in the run's directory. `patience`: seconds in which
    what is left of a run that was killed may let go of the directory."""
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
    """One after another in this process; a run that fails does not stop the others."""
    for task in tasks:
        state, reason = attempt(task, Narrator(task.name, tell=watch))
        if state == "request":
            raise RequestError(str(reason))
        yield Result(task.name, state, reason)


def in_group(group: Processes) -> Executor:
    """One after another, each by all processes of a group that torchrun has started, whose first this is. A step that
    all of them refuse is the end of that run alone; whatever else goes wrong is the end of the group."""

    def executor(tasks: Iterable[Task], watch: Watch) -> Iterator[Result]:
        for task in tasks:
            group.tell({"task": asdict(replace(task, baselines=None, thresholds={}))})  # the run tells what is needed
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
    """Of a group, all processes but the first help it with its runs, until it dismisses them with what is returned;
    None at once in a process that is the first, or alone."""
    group = join()
    if group.first:
        return None
    try:
        while "task" in (told := group.hear()):
            task = Task(**told["task"])
            with contextlib.suppress(StepError):  # the first says so
                perform(task, Narrator(task.name, silent))
        return str(told["end"])
    except PeerError:
        raise SystemExit(1) from None  # whoever is lost has said why, if it could
    except OSError as error:
        raise WorkError(f"process {group.rank + 1} of {group.count}: {_about_files(error)}") from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def dismiss(directory: Path) -> None:
    """The first process of a group needs the others no more: their `assist` returns this directory."""
    join().tell({"end": str(directory)})


class Place(NamedTuple):
    """Where runs are made."""

    executor: Executor
    threads: int | None
    """Of each run whose recipe does not say; None: PyTorch's own."""
    at_once: int | None
    """Runs at a time; None: nobody knows yet."""


def executor_for(on: str | None, workers: int | None, jobs: int) -> Place:
    """Where the user wants them: on this machine, or on a Ray cluster; under torchrun, in its processes together."""
    group = join()
    if group.count > 1:
        if on is not None or (workers or 1) > 1:
            key = "--workers" if on is None else "--on"
            raise RequestError(
                f"{key}: torchrun's processes make one run after another, all together; leave {key} out."
            )
        return Place(in_group(group), None, 1)
    if on is None:
        return local(workers, jobs)
    if on != "ray" and not on.startswith("ray://"):
        raise RequestError(f"--on {on}: say ray, or ray://HOST:PORT of a cluster; without --on, runs are made here.")
    from heedful.studies.on_ray import on_ray

    return Place(on_ray(on, workers), 1, workers)


def local(workers: int | None, jobs: int) -> Place:
    """This machine: as many runs at a time as there are cores, or one after another if there is one run, one core, or a
    GPU that they would have to share."""
    from heedful.inference.device import has_gpu

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if workers is None:
        workers = 1 if has_gpu() else min(cores, jobs)
    if workers <= 1:
        return Place(in_turn, None, 1)
    return Place(in_processes(workers), max(1, cores // workers), workers)


def in_processes(workers: int) -> Executor:
    """As many at a time as there are workers and memory, each run in a process that ends with it."""

    def executor(tasks: Iterable[Task], watch: Watch) -> Iterator[Result]:
        return _Processes(workers, watch).work(deque(tasks))

    return executor


class _Processes:
    def __init__(self, workers: int, watch: Watch) -> None:
        if join().count > 1:
            raise RequestError("torchrun's processes make one run after another, all together; leave workers out.")
        if multiprocessing.parent_process() is not None:  # a worker has read the caller's script, as it must
            raise RequestError("with workers, call heedful.run under `if __name__ == '__main__':` in your script.")
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
                    result = self._judge(child, waiting)
                    if result is not None:
                        yield result
        finally:
            self._stop()

    def _room(self) -> bool:
        """Whether memory suffices for one more as large as the largest so far; one alone is always let in."""
        return not self.running or available_memory() > (self.largest or _GUESS) + _SPARE

    def _ended(self) -> "list[_Child]":
        """Those that have ended, after hearing what all of them have to say."""
        connection.wait([thing for child in self.running for thing in child.things()], timeout=1)
        for child in self.running:
            child.listen(self.watch)
            self.largest = max(self.largest, child.peak)
        ended = [child for child in self.running if child.process.exitcode is not None]
        for child in ended:
            child.listen(self.watch)
        return ended

    def _judge(self, child: "_Child", waiting: deque[Task]) -> Result | None:
        task, code = child.task, child.process.exitcode
        if child.request is not None:
            raise RequestError(child.request)
        if child.said is not None:
            return Result(task.name, child.said[0], child.said[1])
        self.tries[task.name] = self.tries.get(task.name, 0) + 1
        if code == -signal.SIGKILL:  # most likely for want of memory: from now on fewer at a time
            self.workers = max(1, self.workers - 1)
        if self.tries[task.name] < TRIES:  # killed from outside: it goes on from its last checkpoint
            waiting.appendleft(task)
            return None
        how = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        return Result(task.name, "failed", f"its process was ended {TRIES} times ({how}); is there enough memory?")

    def _stop(self) -> None:
        """Asks those that are still at work to save and stop, as Ctrl-C does, and waits for them."""
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
        self.said: tuple[str, str | None] | None = None
        self.request: str | None = None
        self.peak = 0
        self.ear, mouth = context.Pipe(duplex=False)
        leash, self.leash = context.Pipe(duplex=False)
        self.process = context.Process(target=_main, args=(task, mouth, leash), name=task.name)
        self.process.start()
        mouth.close()
        leash.close()

    def things(self) -> list[Any]:
        return [self.process.sentinel, *([] if self.ear.closed else [self.ear])]

    def listen(self, watch: Watch) -> None:
        try:
            while not self.ear.closed and self.ear.poll():
                kind, content = self.ear.recv()
                if kind == "news":
                    self.peak = max(self.peak, content.get("memory", 0))
                    watch(self.task.name, content)
                elif kind == "request":
                    self.request = content
                else:
                    self.said = (kind, content)
        except (EOFError, OSError):
            self.ear.close()


def _main(task: Task, mouth: Any, leash: Any) -> None:
    """In the child: does the task and says how it ended. It does not outlive the driver, whose end cuts the leash."""
    os.setpgrp()  # Ctrl-C reaches the driver alone, which passes it on

    def hang() -> None:
        with contextlib.suppress(EOFError, OSError):
            leash.recv()
        os._exit(1)

    threading.Thread(target=hang, daemon=True).start()
    lock = threading.Lock()

    def say(kind: str, content: Any) -> None:
        with lock, contextlib.suppress(OSError):
            mouth.send((kind, content))

    try:
        say(*attempt(task, Narrator(task.name, tell=lambda _, news: say("news", news)), PATIENCE))
    except KeyboardInterrupt:
        say("failed", "stopped")
