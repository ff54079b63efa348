"""Random streams that stay the same: they depend on the numbers that name them, not on a library or a process.

Weights and dropout come from PyTorch's generator, seeded with `seed_of`; which rows form a step comes from `shuffled`.
A step is computed in parts, and each part has a stream of its own.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_GOLDEN = 0x9E3779B97F4A7C15  # of SplitMix64 (Steele, Lea and Flood, 2014), as are the other constants


def seed_of(*parts: int | str) -> int:
    """A whole number below 2⁶³ for these parts: equal for equal ones, unrelated for others."""
    text = json.dumps(parts).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") >> 1


def uniform(*parts: int | str) -> float:
    """A number from 0 up to 1."""
    return (seed_of(*parts) >> 10) / 2**53


def shuffled(count: int, *parts: int | str) -> npt.NDArray[np.int64]:
    """0 … count − 1 in the order that these parts name; a prefix is a sample without replacement."""
    return np.argsort(_hashes(count, *parts), kind="stable")


def uniforms(count: int, *parts: int | str) -> npt.NDArray[np.float64]:
    """So many numbers from 0 up to 1; the first ones are the same however many are asked for."""
    return (_hashes(count, *parts) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _hashes(count: int, *parts: int | str) -> npt.NDArray[np.uint64]:
    """The first numbers of SplitMix64 from the seed that these parts name."""
    z = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(_GOLDEN) + np.uint64(seed_of(*parts))
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def seed_generators(device: str, *parts: int) -> None:
    """Seeds PyTorch's generators for what these parts name."""
    import torch

    if device == "cpu":  # torch.manual_seed asks after every device: a third of a millisecond
        torch.default_generator.manual_seed(seed_of(*parts))
    else:
        torch.manual_seed(seed_of(*parts))


@dataclass(frozen=True)
class Parts:
    """Into how many parts the rows of a step are cut, and which of them are computed by this process."""

    count: int
    mine: range | None = None
    """Their numbers; None: all."""


def in_parts(rows: Sequence[int], parts: Parts) -> list[tuple[int, Sequence[int]]]:
    """Cut the rows of a step into at most so many parts of equal size, the last one smaller. Return the number
    (which seeds it) and the rows of each part that this process computes. There may be none, if rows are few."""
    size = -(-len(rows) // parts.count)
    every = enumerate(rows[at : at + size] for at in range(0, len(rows), size))
    return [(part, cut) for part, cut in every if parts.mine is None or part in parts.mine]
