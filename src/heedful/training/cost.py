"""What a run takes of its machine: memory, and a processor that it may have to share."""

import math
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch


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


def unshared(measure: Callable[[], float | None]) -> float | None:
    """Return the seconds that something measures, without those in which other processes, such as the other runs of a
    study, had the processor. Work in several threads hides some of the waiting, and may be measured too long."""
    wall, computing = time.perf_counter(), time.process_time()
    seconds = measure()
    wall, computing = time.perf_counter() - wall, time.process_time() - computing
    return seconds if seconds is None or wall <= 0 else seconds * min(1.0, computing / wall)
