"""What a run costs: memory at its peak, and floating-point operations by formula."""

import math
import resource
import sys
from collections.abc import Iterable
from pathlib import Path

import torch

from heedful.models.shape import Shape


def peak_memory() -> int:
    """Bytes of resident memory at the process's peak so far."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage would count the process that this one was forked from
        line = next(x for x in status.read_text(encoding="utf-8").splitlines() if x.startswith("VmHWM"))
        return 1024 * int(line.split()[1])
    usage = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return usage if sys.platform == "darwin" else 1024 * usage


def available_memory() -> float:
    """Bytes that a new process could use without pushing others out; infinite where nobody says."""
    facts = Path("/proc/meminfo")
    if not facts.exists():
        return math.inf
    line = next((x for x in facts.read_text(encoding="utf-8").splitlines() if x.startswith("MemAvailable")), None)
    return math.inf if line is None else 1024 * int(line.split()[1])


def peak_gpu_memory(device: torch.device) -> int | None:
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None


def forward_flops(shape: Shape, lengths: Iterable[int], first_only: bool) -> int:
    """One forward pass over texts of these lengths: two operations for each multiplication and addition of a matrix
    product, nothing else counted. `first_only`: the last block is computed for the first token alone."""
    d, f = shape.width, shape.inner
    total = 0
    for n in lengths:
        block = 2 * n * (4 * d * d + 2 * d * f) + 4 * n * n * d
        total += shape.layers * block
        if first_only:
            total -= 2 * (n - 1) * (2 * d * d + 2 * d * f) + 4 * (n - 1) * n * d
    return total
