"""Several processes that train one model together, as torchrun starts them: each computes its parts of every step, and
their gradients are added up.

The first alone writes. What one process decides or notices (a wish to stop, a loss that is not finite, the score of a
mark), all learn in the same message, so that none waits for another that has left. Nothing else knows
`torch.distributed`.
"""

import atexit
import contextlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.rendezvous import rendezvous

from heedful.errors import RequestError, WorkError
from heedful.streams import Parts

_MEETING = timedelta(minutes=10)  # within which all must have come; they may still be importing, or on their way
_LONGEST = timedelta(days=30)  # that the others wait for the first, which may judge or write; one that ends is noticed


class PeerError(WorkError):
    """Another process of the group has ended; whatever made it end, it has said itself."""


@dataclass(frozen=True)
class Processes:
    """A group of processes, seen from one of them; by default one that is alone."""

    rank: int = 0
    count: int = 1

    @property
    def first(self) -> bool:
        """Whether this is the one that writes."""
        return self.rank == 0

    def parts(self, accumulate: int) -> Parts:
        """A step in as many parts as the recipe says, or as there are processes if those are more; dealt out one by
        one."""
        count = max(accumulate, self.count)
        return Parts(count, None if self.count == 1 else range(self.rank, count, self.count))

    def check(self, device: torch.device) -> None:
        """Refuses a device that the processes of this machine would have to share."""
        here = int(os.environ.get("LOCAL_WORLD_SIZE", self.count)) if self.count > 1 else 1
        if device.type == "cuda" and here > (gpus := torch.cuda.device_count()):
            there_are = "there is one GPU" if gpus == 1 else f"there are {gpus} GPUs"
            raise RequestError(
                f'torchrun started {here} processes here, but {there_are}; start fewer, or set training.device = "cpu".'
            )

    def gather(self, rows: torch.Tensor) -> torch.Tensor:
        """Join the rows of this tensor in every process, in the order of the processes; gradients flow back to all."""
        return rows if self.count == 1 else _Gather.apply(rows, self.rank, self.count)  # type: ignore[no-untyped-call]

    def tell(self, message: Mapping[str, Any]) -> None:
        """The first process to all others, who must `hear` it."""
        if self.count > 1:
            content = bytearray(json.dumps(message).encode())
            with _noticing():
                dist.broadcast(torch.tensor([len(content)]), 0)
                dist.broadcast(torch.frombuffer(content, dtype=torch.uint8), 0)

    def hear(self) -> dict[str, Any]:
        length = torch.zeros(1, dtype=torch.int64)
        with _noticing():
            dist.broadcast(length, 0)
            content = torch.empty(int(length), dtype=torch.uint8)
            dist.broadcast(content, 0)
        message: dict[str, Any] = json.loads(content.numpy().tobytes())
        return message

    def from_first(self, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What the first process makes, for all of them."""
        if not self.first:
            return self.hear()
        made = make()
        self.tell(made)
        return made

    def add_up(
        self, parameters: Iterable[nn.Parameter], numbers: Mapping[str, float], *flags: bool
    ) -> tuple[dict[str, float], list[bool]]:
        """The gradients become the sums over all processes, in one message with the numbers (the same names in the
        same order everywhere), which are added up too, and the flags, each raised if it is anywhere.

        A parameter without a gradient has one afterwards if it has one in any process.
        """
        moving = list(parameters)
        pieces = [(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in moving]
        there = [float(p.grad is not None) for p in moving]
        flat = torch.cat([*pieces, pieces[0].new_tensor([*there, *numbers.values(), *map(float, flags)])])
        with _noticing():
            dist.all_reduce(flat)
        *sums, rest = torch.split(flat, [*(p.numel() for p in moving), len(there) + len(numbers) + len(flags)])
        facts = rest.tolist()
        for p, total, found in zip(moving, sums, facts, strict=False):
            if found:
                if p.grad is None:
                    p.grad = torch.empty_like(p)
                p.grad.copy_(total.view(p.shape))
        added = dict(zip(numbers, facts[len(there) :], strict=False))
        return added, [raised > 0 for raised in facts[len(there) + len(numbers) :]]


class _Gather(torch.autograd.Function):
    """Rows of all processes as one tensor. Its gradient is the sum of all processes' gradients, each process's own rows
    of it."""

    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, rank: int, count: int) -> torch.Tensor:
        sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(count)]
        with _noticing():
            dist.all_gather(sizes, torch.tensor([len(rows)]))
            ctx.sizes, ctx.rank = [int(size) for size in sizes], rank
            most = max(ctx.sizes)
            padded = torch.cat([rows, rows.new_zeros(most - len(rows), *rows.shape[1:])]).contiguous()
            parts = [torch.empty_like(padded) for _ in range(count)]
            dist.all_gather(parts, padded)
        return torch.cat([part[:size] for part, size in zip(parts, ctx.sizes, strict=True)])

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        total = gradient.contiguous().clone()
        with _noticing():
            dist.all_reduce(total)
        return torch.split(total, ctx.sizes)[ctx.rank], None, None


@cache
def join() -> Processes:
    """The group that torchrun has started this process in; without torchrun, or with one process, it is alone."""
    count = int(os.environ.get("WORLD_SIZE", 1)) if dist.is_available() and "TORCHELASTIC_RUN_ID" in os.environ else 1
    if count == 1:
        return Processes()
    gpus = torch.cuda.device_count()
    if gpus:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % gpus)
    try:
        store, rank, count = next(rendezvous("env://", timeout=_MEETING))
        backend = "cpu:gloo,cuda:nccl" if gpus else "gloo"
        dist.init_process_group(backend, store=store, rank=rank, world_size=count, timeout=_LONGEST)
    except (RuntimeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise WorkError(f"the processes that torchrun has started do not find each other ({reason}).") from None
    atexit.register(_leave)
    return Processes(rank, count)


def _leave() -> None:
    """Ends the threads of the group before the interpreter goes, in which one that is still at work may abort the
    process."""
    with contextlib.suppress(Exception):  # others may have left already
        dist.destroy_process_group()


@contextlib.contextmanager
def _noticing() -> Iterator[None]:
    try:
        yield
    except RuntimeError:  # of whatever kind: the libraries below have a dozen words for a connection that was closed
        raise PeerError(
            "another process of this training has ended; see its message for the reason. Run the same command to "
            "resume from the last checkpoint."
        ) from None
