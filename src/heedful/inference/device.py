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


def is_mixed(precision: str, device: torch.device) -> bool:
    """Whether training multiplies matrices in bfloat16. Refused on a CPU that would only imitate it."""
    if precision == "auto":
        return device.type == "cuda"
    if precision == "bfloat16" and device.type == "cpu" and not multiplies_bfloat16():
        raise RequestError(
            'training.precision = "bfloat16": this CPU has no instructions for it (AVX512-BF16 or AMX), and would be '
            "far slower than in float32; use float32 (--set training.precision=float32)."
        )
    return precision == "bfloat16"


def multiplies_bfloat16() -> bool:
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
