"""What a model consists of, counted: for `heedful inspect` and for reports."""

from dataclasses import dataclass

from torch import nn

_BYTES = 4


@dataclass(frozen=True)
class Part:
    """One parameter tensor."""

    name: str
    shape: tuple[int, ...]
    count: int
    trainable: bool


@dataclass(frozen=True)
class Inventory:
    parts: tuple[Part, ...]

    @property
    def total(self) -> int:
        return sum(p.count for p in self.parts)

    @property
    def trainable(self) -> int:
        return sum(p.count for p in self.parts if p.trainable)

    @property
    def by_part(self) -> dict[str, int]:
        """How many parameters each part of the model has: "body", "heads", "encoder", …; one that several parts share
        is counted once, where it is first."""
        counts: dict[str, int] = {}
        for p in self.parts:
            part = p.name.split(".")[0]
            counts[part] = counts.get(part, 0) + p.count
        return counts

    @property
    def weight_bytes(self) -> int:
        return _BYTES * self.total

    @property
    def training_bytes(self) -> int:
        """Weights, and for those that train a gradient and AdamW's two moments; without activations."""
        return self.weight_bytes + 3 * _BYTES * self.trainable


def take_inventory(model: nn.Module) -> Inventory:
    return Inventory(tuple(Part(n, tuple(p.shape), p.numel(), p.requires_grad) for n, p in model.named_parameters()))
