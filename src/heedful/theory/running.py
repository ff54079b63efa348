"""Demonstrations run: each with draws of its own generator, so that it comes out the same alone and among others."""

from collections.abc import Sequence

import torch

from heedful.errors import RequestError
from heedful.theory.demonstration import DRAWS, Demonstration, Shown

MOST_DRAWS = 20_000
"""With more, some demonstrations would need many gigabytes."""

Run = tuple[Demonstration, Shown]


def run(chosen: Sequence[Demonstration], draws: int = DRAWS, seed: int = 0) -> list[Run]:
    if not DRAWS <= draws <= MOST_DRAWS:
        raise RequestError(f"--draws {draws}: give a number from {DRAWS:,} to {MOST_DRAWS:,}.")
    return [(d, d.show(draws, torch.Generator().manual_seed(seed))) for d in chosen]
