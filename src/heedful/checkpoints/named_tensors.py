"""Tensors of files put into a module by their names: each one that is stored is accounted for, and each one that is
needed is there."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn

from heedful.checkpoints.dialect import Entry
from heedful.checkpoints.tensors import Stored
from heedful.errors import RequestError

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Names:
    """What the tensors of a module are called in its files."""

    entries: Sequence[Entry]
    copies: Mapping[str, str] = field(default_factory=dict)
    """Tensors that may be stored once more under another name, with the name of the original: they must be equal."""
    tables: Shapes = field(default_factory=dict)
    """Tensors that are no parameters of ours, and must have these shapes where they are stored."""
    derived: str = r"(?!)"
    """A pattern for names of what others store and everyone computes."""

    def shapes(self, module: nn.Module, tensors: Mapping[str, Stored]) -> dict[str, tuple[int, ...]]:
        """Return the shapes of all that must be stored, and of what else is."""
        sizes = {name: p.shape for name, p in module.named_parameters()}
        shapes = {theirs: entry.their_shape(sizes[entry.ours]) for entry in self.entries for theirs in entry.theirs}
        also = {copy: shapes[original] for copy, original in self.copies.items() if original in shapes}
        return shapes | {name: shape for name, shape in {**also, **self.tables}.items() if name in tensors}


def load_named(
    directory: Path,
    module: nn.Module,
    names: Names,
    tensors: Mapping[str, Stored],
    fit: str,
    remedy: str,
    *,
    may_stay: Callable[[str], bool] = lambda name: False,
    part: nn.Module | None = None,
    device: torch.device | str = "cpu",
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Read a module's parameters. Return where each came from, and the stored names that `may_stay` unread.

    `fit`, `remedy`: what the tensors should fit, and what to do where they do not. `part`: the part of the module that
    is read (default: all of it), which gets memory only when every tensor is known to fit.
    """
    shapes = names.shapes(module, tensors)
    unread = account_for(directory, shapes, tensors, fit, remedy, may_stay, names.derived)
    read = module if part is None else part
    if any(p.is_meta for p in read.parameters()):
        read.to_empty(device=torch.device(device))
    parameters = dict(module.named_parameters())
    sources: dict[str, str] = {}
    for entry in names.entries:
        for name, view in entry.views(parameters[entry.ours].detach()).items():
            view.copy_(tensors[name].read())
            require_finite(directory, tensors[name], view)
        stored = " + ".join(tensors[name].name for name in entry.theirs)
        sources[entry.ours] = f"{tensors[entry.theirs[0]].file}: {stored}"
    for copy, original in names.copies.items():
        same = copy not in tensors or copy not in shapes
        if not same and not torch.equal(tensors[copy].read().float(), tensors[original].read().float()):
            raise RequestError(
                f"{directory}: {copy} is not equal to {original}, of which it must be a copy; untied tensors are not "
                "supported."
            )
    return sources, unread


def account_for(
    directory: Path,
    shapes: Shapes,
    tensors: Mapping[str, Stored],
    fit: str,
    remedy: str,
    may_stay: Callable[[str], bool] = lambda name: False,
    derived: str = r"(?!)",
) -> tuple[str, ...]:
    """Refuse tensors that are missing, of another shape, or needed by nobody; return the names that may stay unread."""
    present = {name: tensors[name] for name in shapes if name in tensors}
    others = [name for name in tensors if name not in shapes and not re.fullmatch(derived, name)]
    problems = {
        "missing": [name for name in shapes if name not in present],
        "of another shape": [
            f"{name} is {list(tensor.shape)}, not {list(shapes[name])}"
            for name, tensor in present.items()
            if tensor.shape != shapes[name]
        ],
        "not floating-point": [name for name, tensor in present.items() if not tensor.is_float],
        "without a home": [name for name in others if not may_stay(name)],
    }
    if any(problems.values()):
        listed = "; ".join(f"{len(found)} {what}: {_sample_of(found)}" for what, found in problems.items() if found)
        raise RequestError(f"{directory}: the tensors do not fit {fit} ({listed}); {remedy}.")
    return tuple(name for name in others if may_stay(name))


def require_finite(directory: Path, stored: Stored, values: Tensor) -> None:
    # A sum costs no memory; only where it is not finite are the values looked at one by one. As they are here: a double
    # can be too large for us.
    if not values.sum().isfinite() and (bad := int((~values.isfinite()).sum())):
        raise RequestError(f"{directory / stored.file}: {stored.name} has {bad} NaN or infinite values.")


def _sample_of(names: Sequence[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
