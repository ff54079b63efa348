"""What parts of a model may be called, and how their matrices lie in memory."""

from torch import nn


def is_part_name(name: object) -> bool:
    """Return whether a head or an adapter can be called so: its name becomes part of the names of tensors, and of
    modules."""
    if not isinstance(name, str) or not name or not name.isprintable() or "." in name:
        return False
    return not hasattr(nn.ModuleDict(), name)  # "train", "training", "keys"


def lay_out(module: nn.Module) -> None:
    """Store the matrices of linear maps column by column: no value changes, and a CPU multiplies short texts faster
    (docs/log.md). Always, as the order of sums and so the last bit depends on it."""
    for part in module.modules():
        if isinstance(part, nn.Linear):
            part.weight.data = part.weight.data.T.contiguous().T
