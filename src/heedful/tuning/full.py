"""Every weight moves."""

import re
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import nn

from heedful.errors import RequestError
from heedful.inference.reader import TextReader
from heedful.inputs.protocol import Inputs
from heedful.models.transformer import Transformer
from heedful.recipes.schema import TuningTable
from heedful.streams import seed_of
from heedful.tuning.protocol import Cost, Tuning, TuningContext
from heedful.tuning.vocabulary import CompactTable


class FullTable(TuningTable):
    method: Literal["full"] = "full"
    """Train every weight."""
    layer_decay: float = Field(1.0, gt=0, le=1)
    """Factor of each layer's learning rate relative to the layer above; 1: the same everywhere."""
    reinit_layers: int = Field(0, ge=0)
    """Number of top layers that start from random weights."""


class Full(Tuning):
    Table = FullTable
    COMPARE_DEFAULTS: ClassVar = {"training": {"epochs": 5, "lr": 1e-4}}

    def __init__(self, module: nn.Module, inputs: Inputs[Any], context: TuningContext) -> None:
        """Any model; one that is no body with heads has nothing but its weights here."""
        table = context.recipe.tuning
        assert isinstance(table, FullTable)
        self.layer_decay = table.layer_decay
        self.reader = TextReader(module.to(context.device), context.device)
        self.compact: CompactTable | None = None
        self.unread: tuple[str, ...] = ()
        if isinstance(module, Transformer):
            self._begin(module, table, inputs, context)
        elif table.layer_decay != 1 or table.reinit_layers:
            key = "layer_decay" if table.layer_decay != 1 else "reinit_layers"
            raise RequestError(f"tuning.{key} is for a body of blocks, which this model is not; leave it out.")

    def _begin(self, transformer: Transformer, table: FullTable, inputs: Inputs[Any], context: TuningContext) -> None:
        self._reinitialise(transformer, table.reinit_layers, context.seed)
        self.transformer = transformer
        ids = inputs.token_ids()
        self.compact = None if ids is None else CompactTable(transformer, ids)
        if self.compact is not None:
            inputs.renumber(self.compact.new_id)
        self.unread = tuple(self._unread(context))

    @staticmethod
    def _reinitialise(transformer: Transformer, depth: int, seed: int) -> None:
        layers = transformer.shape.layers
        if depth > layers:
            raise RequestError(f"tuning.reinit_layers = {depth}, but the model has {layers} layers.")
        if depth:
            top = tuple(f"body.blocks.{i}." for i in range(layers - depth, layers))
            transformer.initialise(torch.Generator().manual_seed(seed_of(seed, "layers")), only=top)

    def _unread(self, context: TuningContext) -> list[str]:
        """Parts that no head of the objective reads: they have no gradient, and their decay would be for nothing."""
        heads = self.transformer.head_shapes
        pooled = any(heads[name].reads == "pooled" for name in context.heads)
        return [] if pooled else ["body.pooler."]

    def trainable(self) -> dict[str, nn.Parameter]:
        named = self.reader.module.named_parameters()
        return {n: p for n, p in named if p.requires_grad and not n.startswith(self.unread or "\0")}

    def lr_scale(self, name: str) -> float:
        """1 for the heads and what follows the blocks; below, `layer_decay` to the power of the depth under the top."""
        if self.layer_decay == 1:
            return 1.0
        layers = self.transformer.shape.layers
        if match := re.match(r"body\.blocks\.(\d+)\.", name):
            return self.layer_decay ** (layers - 1 - int(match[1]))
        return self.layer_decay**layers if name.startswith("body.embeddings.") else 1.0

    @property
    def set_aside(self) -> int:
        return 0 if self.compact is None else self.compact.set_aside

    def cost(self, forward_flops: int, tokens: int) -> Cost:
        return Cost(3 * forward_flops, tokens)  # a backward pass costs two forward ones

    def finish(self, decay: float, model: Transformer | None = None) -> None:
        if self.compact is not None:
            self.compact.expand(decay, model or self.transformer)


TUNING = Full
