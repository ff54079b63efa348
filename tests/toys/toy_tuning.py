"""A toy tuning, as a package outside heedful would write it: the heads and the last block move, and are pulled back to
where they began."""

from typing import Any, ClassVar, Literal

from pydantic import Field
from torch import Tensor, nn

from heedful.inference.reader import TextReader
from heedful.inputs.protocol import Inputs
from heedful.models.transformer import Transformer
from heedful.recipes.schema import TuningTable
from heedful.tuning.protocol import Cost, Tuning, TuningContext


class TetheredTable(TuningTable):
    method: Literal["tethered"] = "tethered"
    """The last block and the heads move, on a tether."""
    pull: float = Field(0.01, ge=0)
    """How strongly the block is pulled back."""


class Tethered(Tuning):
    Table = TetheredTable
    COMPARE_DEFAULTS: ClassVar = {"training": {"lr": 2e-3}}

    def __init__(self, transformer: Transformer, inputs: Inputs[Any], context: TuningContext) -> None:
        self.transformer = transformer.to(context.device)
        self.reader = TextReader(self.transformer, context.device)
        self.last = f"body.blocks.{transformer.shape.layers - 1}."
        for name, p in transformer.named_parameters():
            p.requires_grad_(name.startswith((self.last, "heads.")))
        self.pull = context.recipe.tuning.pull  # type: ignore[attr-defined]
        self.start = {n: p.detach().clone() for n, p in self.trainable().items() if n.startswith(self.last)}
        self.penalty = self._penalty

    def trainable(self) -> dict[str, nn.Parameter]:
        return {n: p for n, p in self.transformer.named_parameters() if p.requires_grad}

    def _penalty(self) -> Tensor:
        moving = self.trainable()
        return self.pull * sum(((moving[n] - start) ** 2).sum() for n, start in self.start.items())  # type: ignore[return-value]

    def cost(self, forward_flops: int, tokens: int) -> Cost:
        return Cost(2 * forward_flops, tokens)
