"""How many threads PyTorch computes with, for a while."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def threads_of(count: int | None) -> Iterator[None]:
    """So many inside (None: as before; more may be said inside), and afterwards as before."""
    before = torch.get_num_threads()
    if count is not None:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
