"""The runs of a study as tasks of a Ray cluster that shares a disk with the driver."""

import contextlib
import os
import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from heedful.errors import RequestError
from heedful.studies.executors import PATIENCE, TRIES, Executor, Result, Task, Watch, attempt
from heedful.training.progress import Narrator

_SETTINGS = ("HEEDFUL_DATA", "HEEDFUL_CACHE", "HF_HOME", "HF_HUB_OFFLINE")


def on_ray(address: str, workers: int | None = None) -> Executor:
    """`address` is "ray" (the cluster that RAY_ADDRESS names or that runs here; if there is none, this machine becomes
    one for the time being) or ray://host:port. As many tasks at a time as the cluster has cores, or `workers`. Where a
    worker or a node is lost, Ray starts the task again elsewhere, and the run goes on from its last checkpoint."""
    try:
        import ray
    except ImportError:
        raise RequestError('--on ray needs Ray: pip install "heedful[ray]".') from None

    def executor(tasks: Iterable[Task], watch: Watch) -> Iterator[Result]:
        waiting = deque(tasks)
        if not waiting:
            return
        ours = not ray.is_initialized()
        if ours:
            _connect(ray, address)
        try:
            yield from _ClusterTasks(ray, workers, watch).work(waiting)
        finally:
            if ours:
                ray.shutdown()

    return executor


def _connect(ray: Any, address: str) -> None:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # its default is to change, and it says so
    where = {"address": address} if address != "ray" else {"include_dashboard": False}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what matters comes as an error
            ray.init(**where, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise RequestError(f"--on {address}: no Ray cluster answers there ({reason}).") from None


class _ClusterTasks:
    def __init__(self, ray: Any, workers: int | None, watch: Watch) -> None:
        self.ray, self.workers, self.watch = ray, workers, watch
        self.running: dict[Any, Task] = {}
        self.mailbox = ray.remote(num_cpus=0, max_restarts=-1)(_Mailbox).remote()
        self.remote = ray.remote(max_retries=TRIES - 1, retry_exceptions=False)(_run_on_node)
        self.gpu = bool(ray.cluster_resources().get("GPU"))
        self.cores = max((node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"]), default=0)
        variables = {name: os.environ[name] for name in _SETTINGS if name in os.environ}
        self.environment = {"env_vars": variables} if variables else None

    def work(self, waiting: deque[Task]) -> Iterator[Result]:
        try:
            while waiting or self.running:
                while waiting and (self.workers is None or len(self.running) < self.workers):
                    task = waiting.popleft()
                    self.running[self._start(task)] = task
                ended, _ = self.ray.wait(list(self.running), timeout=0.5)
                self._pass_on_news()
                for reference in ended:
                    yield self._result_of(self.running.pop(reference), reference)
        finally:
            self._stop()

    def _start(self, task: Task) -> Any:
        placed = replace(task, directory=str(Path(task.directory).resolve()), store=str(Path(task.store).resolve()))
        training = task.recipe.get("training", {})
        threads = training.get("threads") or task.threads or 1
        if threads > self.cores:  # Ray would wait for such a node forever
            raise RequestError(
                f"training.threads = {threads}: no node of the cluster has more than {self.cores:g} cores; lower it."
            )
        gpus = 1 if self.gpu and training.get("device") != "cpu" else 0  # without asking for one, it would not see it
        options = {"num_cpus": threads, "num_gpus": gpus, "name": task.name, "runtime_env": self.environment}
        return self.remote.options(**options).remote(placed, str(Path.cwd()), self.mailbox)

    def _pass_on_news(self) -> None:
        with contextlib.suppress(self.ray.exceptions.RayError):  # the mailbox's node may have been lost
            for name, news in self.ray.get(self.mailbox.take.remote(), timeout=5):
                self.watch(name, news)

    def _result_of(self, task: Task, reference: Any) -> Result:
        try:
            state, reason = self.ray.get(reference)
        except self.ray.exceptions.RayError as error:
            kind = type(error).__name__
            # It never started, for example because heedful is not installed there.
            if isinstance(error, self.ray.exceptions.RayTaskError):
                return Result(task.name, "failed", f"its node could not run it ({kind}: {_last_line(error)}).")
            return Result(task.name, "failed", f"its worker was lost {TRIES} times ({kind}); is there enough memory?")
        if state == "request":
            raise RequestError(reason)
        return Result(task.name, state, reason)

    def _stop(self) -> None:
        """Asks those that are still at work to save and stop, and waits for them."""
        for reference in self.running:
            with contextlib.suppress(self.ray.exceptions.RayError):
                self.ray.cancel(reference, force=False)
        if self.running:
            self.ray.wait(list(self.running), num_returns=len(self.running), timeout=PATIENCE)
        self.ray.kill(self.mailbox)


class _Mailbox:
    """Carries the news of the runs to the driver."""

    def __init__(self) -> None:
        self.news: list[tuple[str, dict[str, Any]]] = []

    def say(self, name: str, news: dict[str, Any]) -> None:
        self.news.append((name, news))

    def take(self) -> list[tuple[str, dict[str, Any]]]:
        taken, self.news = self.news, []
        return taken


def _run_on_node(task: Task, folder: str, mailbox: Any) -> tuple[str, str | None]:
    """On the node: does the task and says how it ended."""
    if not Path(task.store).parent.is_dir() or not Path(folder).is_dir():
        missing = folder if Path(task.store).parent.is_dir() else str(Path(task.store).parent)
        return "request", f"--on ray: a node of the cluster does not see {missing}; use a disk that all nodes share."
    os.chdir(folder)  # a recipe names its files from there
    try:
        return attempt(task, Narrator(task.name, tell=lambda name, news: mailbox.say.remote(name, news)), PATIENCE)
    except KeyboardInterrupt:
        return "failed", "stopped"


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else ""
