"""Groups of processes on this machine, joined as torchrun joins them, without its seconds of starting up."""

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch.distributed import TCPStore

from heedful.recipes.reading import make_recipe
from heedful.recipes.schema import Recipe
from tests.support.training_samples import forkserver, run_in_child


class Group:
    """So many processes that each call `target(*arguments)`; one alone knows of no group."""

    def __init__(self, count: int, target: Callable[..., None], *arguments: Any) -> None:
        self.store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        self.processes = [
            forkserver().Process(target=_joined, args=(rank, count, self.store.port, target, arguments))
            for rank in range(count)
        ]
        for process in self.processes:
            process.start()

    @property
    def alive(self) -> bool:
        return all(process.is_alive() for process in self.processes)

    def kill(self) -> bool:
        """SIGKILL to all; False if one had ended before."""
        for process in self.processes:
            process.kill()
        return set(self.codes()) == {-signal.SIGKILL}

    def codes(self, patience: float = 120) -> list[int | None]:
        """The exit code of each, when all have ended; None for one that has not in time."""
        end = time.monotonic() + patience
        for process in self.processes:
            process.join(max(0.0, end - time.monotonic()))
        return [process.exitcode for process in self.processes]

    def finish(self) -> None:
        assert self.codes() == [0] * len(self.processes)


def _joined(rank: int, count: int, port: int, target: Callable[..., None], arguments: Sequence[Any]) -> None:
    if count > 1:
        here = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count, "MASTER_PORT": port}
        os.environ |= {key: str(value) for key, value in here.items()}
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "GLOO_SOCKET_IFNAME": "lo", "TORCHELASTIC_RUN_ID": "test"}
        os.environ["TORCHELASTIC_USE_AGENT_STORE"] = "True"
    target(*arguments)


def train_in(count: int, recipe: Recipe, directory: Path) -> Group:
    """A run with the seed 7, in as many processes."""
    return Group(count, run_in_child, recipe.model_dump(exclude_none=True), 7, str(directory))


def run_and_note(recipe: dict[str, Any], directory: str) -> None:
    """The same; how it ended stands in the file ended-RANK beside the directory."""
    from heedful.training.run import execute

    note = Path(directory).with_name(f"ended-{os.environ['RANK']}")
    try:
        execute(make_recipe(recipe), 7, Path(directory), command="test", quiet=True)
    except BaseException as error:
        note.write_text(f"{type(error).__name__}: {error}")
    else:
        note.write_text("done")


def gradients_in_child(content: dict[str, Any], toys: list[str], folder: str) -> None:
    """The gradient of every step as it is before it is clipped, and the log, in double precision."""
    sys.path[:0] = toys
    from heedful.storage.shared import SharedStore
    from heedful.training import loop
    from heedful.training.assembly import assemble, read_source
    from heedful.training.processes import join

    recipe, group, out = make_recipe(content), join(), Path(folder)
    out.mkdir(exist_ok=True)
    store = SharedStore(out / "store")
    parts = assemble(read_source(recipe, 7, store), store)
    parts.checkpoint.module.double()
    found: dict[str, torch.Tensor] = {}
    fit = loop.Fit(
        objective=parts.objective, inputs=parts.inputs, sampler=parts.sampler, evaluator=parts.evaluator,
        tuning=parts.tuning, training=recipe.training, seed=7, directory=out, judge=None,
        watch=lambda *_: None, should_stop=lambda: False, group=group,
    )  # fmt: skip
    inner = torch.nn.utils.get_total_norm

    def norm(gradients: Any) -> torch.Tensor:
        step = fit.progress.step
        found.update({f"{step}.{n}": p.grad.clone() for n, p in fit.parameters.items() if p.grad is not None})
        return inner(gradients)

    torch.nn.utils.get_total_norm = norm  # type: ignore[assignment]
    fit.run()
    save_file({n: t.contiguous() for n, t in found.items()}, f"{folder}-{group.rank}.safetensors")
