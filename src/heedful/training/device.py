"""Where to compute."""

import torch

from heedful.errors import RequestError


def has_gpu() -> bool:
    return torch.cuda.is_available()


def pick_device(wanted: str | torch.device, key: str) -> torch.device:
    """The device of this name; "auto" takes a GPU if there is one. `key`: what the user calls it, for the refusal."""
    if wanted == "auto":
        wanted = "cuda" if has_gpu() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(wanted)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, TypeError):
        raise RequestError(f"{key} = {wanted!r} does not exist on this machine; use 'auto', or 'cpu'.") from None
    return device
