"""The biases alone move, and the heads (BitFit, 2022): no part is added, and the model opens in Hugging Face's library
whole."""

from typing import Any, ClassVar, Literal

from torch import nn

from heedful.errors import RequestError
from heedful.inference.reader import TextReader
from heedful.inputs.protocol import Inputs
from heedful.models.transformer import Transformer
from heedful.nn.heads import HeadInput
from heedful.recipes.schema import Recipe, TuningTable
from heedful.tuning.protocol import Cost, Tuning, TuningContext


class BiasTable(TuningTable):
    method: Literal["bias"] = "bias"
    """Train the biases of the body and the head; all matrices and gains of the body are frozen."""


class Bias(Tuning):
    Table: ClassVar = BiasTable
    HEAD_INPUT = HeadInput("mean")
    COMPARE_DEFAULTS: ClassVar = {"training": {"epochs": 10, "lr": 1e-3}}

    def __init__(self, transformer: Transformer, inputs: Inputs[Any], context: TuningContext) -> None:
        self.transformer = transformer.to(context.device)
        self.transformer.body.eval()
        heads = transformer.head_shapes
        self.pooled = any(heads[name].reads == "pooled" for name in context.heads)
        self.new = (*(f"heads.{name}." for name in context.heads), *context.fresh)
        for name, p in transformer.named_parameters():
            p.requires_grad_(self._moves(name))
        self.reader = TextReader(self.transformer, context.device)

    def _moves(self, name: str) -> bool:
        read = self.pooled or not name.startswith("body.pooler.")
        return name.startswith(self.new) or (name.startswith("body.") and name.endswith(".bias") and read)

    @classmethod
    def check(cls, recipe: Recipe) -> None:
        if recipe.model.drawn:
            raise RequestError('tuning.method = "bias" leaves random matrices as they are; use "full".')
        if recipe.training.optimiser == "muon":
            raise RequestError(
                'training.optimiser = "muon" is for the matrices of the blocks, which tuning.method = "bias" leaves as '
                'they are; use "adamw".'
            )

    def trainable(self) -> dict[str, nn.Parameter]:
        return {n: p for n, p in self.transformer.named_parameters() if self._moves(n)}

    def train(self, on: bool) -> None:
        """The body has no dropout, as with adapters."""
        self.transformer.heads.train(on)

    def cost(self, forward_flops: int, tokens: int) -> Cost:
        return Cost(2 * forward_flops, tokens)  # back through the states alone


TUNING = Bias
