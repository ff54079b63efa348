"""The heads alone move; what they read is computed once for every text. A linear head is solved to its optimum, which
no seed has a part in; others are trained step by step."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Literal

from pydantic import Field
from torch import nn

from heedful.building.body import body_table
from heedful.errors import RequestError
from heedful.inference.reader import TextReader
from heedful.inputs.protocol import Inputs
from heedful.models.transformer import Transformer
from heedful.nn.heads import HeadInput
from heedful.recipes.schema import Recipe, RowsTable, TuningTable
from heedful.tuning.features import compute_features, compute_lower_states
from heedful.tuning.protocol import Cost, Tuning, TuningContext
from heedful.tuning.solving import PENALTIES, solve_head

_OF_STEPS = (
    "epochs", "steps", "tokens", "mark_steps", "mark_tokens", "keep_marks", "batch_size", "batch_warmup", "accumulate",
    "optimiser", "lr", "muon_lr", "betas", "schedule", "warmup", "cooldown", "weight_decay", "clip", "patience", "keep",
    "checkpoint_seconds", "precision",
)  # fmt: skip


class FrozenTable(TuningTable):
    method: Literal["frozen"] = "frozen"
    """Train only the head, on features that are computed once."""
    solve: bool | None = None
    """Whether to solve the head to the optimum of its regularised loss, which is deterministic and needs no
    learning rate, or to train it step by step. Default: true for a linear head; other heads have no single optimum."""
    penalties: list[float] = Field(PENALTIES, min_length=1)
    """Weights λ of the penalty λ/2 ‖W‖² to try when the head is solved, on features scaled to a mean variance of
    one; from the largest on, until four in a row improve neither the metric nor the loss on dev. The best by the
    metric is kept; if several tie, the one with the lowest loss on dev, then the largest."""


class Frozen(Tuning):
    Table: ClassVar[type[TuningTable]] = FrozenTable
    HEAD_INPUT = HeadInput("mean", "towers")
    MOVES_BODY = False
    COMPARE_DEFAULTS: ClassVar = {"training": {"epochs": 30, "lr": 3e-3, "warmup": 0.0}}

    def __init__(self, transformer: Transformer, inputs: Inputs[Any], context: TuningContext) -> None:
        self.transformer = transformer.to(context.device)
        self.transformer.body.requires_grad_(False)
        self.transformer.body.eval()
        self.heads = list(context.heads)
        method = context.recipe.tuning.method
        shapes = [self.transformer.head_shapes[name] for name in self.heads]
        reads, recurrent = {shape.reads for shape in shapes}, all(shape.recurrent for shape in shapes)
        if len(reads) != 1 or ("every" in reads and not recurrent) or not inputs.cached_texts():
            raise RequestError(
                f'tuning.method = "{method}" needs an objective whose heads read one state of each text; use "full".'
            )
        if any(name.startswith("body.") for name in context.fresh):
            raise RequestError(
                f'{context.recipe.model.name}: has no pooler, so model.pooling = "cls" has nothing to freeze; '
                'use "mean".'
            )
        if recurrent:  # every state of every text is kept, and batches are still padded
            layers = self.transformer.shape.layers
            lower, self.once = compute_lower_states(self.transformer, inputs.cached_texts(), layers, context)
            self.reader = TextReader(self.transformer, context.device, lower=lower)
            return
        computed = compute_features(self.transformer, inputs.cached_texts(), reads.pop(), context)
        self.once = computed.spent
        self.reader = TextReader(self.transformer, context.device, computed.cache)
        inputs.texts_are_cached()
        if self.solves(context.recipe):
            (head,) = self.heads
            penalties = self.penalties(context.recipe)
            self.solve = partial(solve_head, self.reader, head, penalties)

    @classmethod
    def check(cls, recipe: Recipe) -> None:
        table = recipe.tuning
        if body_table(recipe).shape is not None:
            raise RequestError(
                f'tuning.method = "{table.method}" on random weights learns little; use "full", or model.name with '
                "model.scratch = true to see how little."
            )
        if not isinstance(table, FrozenTable):
            return
        if table.solve and (body_table(recipe).head != "linear" or body_table(recipe).recurrent is not None):
            raise RequestError(
                'tuning.solve needs model.head = "linear" and no recurrent network: others have no one optimum.'
            )
        if table.solve and not recipe.objective.CONVEX:
            raise RequestError(f'tuning.solve: objective.kind = "{recipe.objective.kind}" cannot be solved at once.')
        if min(table.penalties) <= 0:
            raise RequestError(f"tuning.penalties = {table.penalties}: each must be above 0, or there is no optimum.")

    @classmethod
    def solves(cls, recipe: Recipe) -> bool:
        table = recipe.tuning
        assert isinstance(table, FrozenTable)
        if table.solve is not None:
            return table.solve
        return recipe.objective.CONVEX and body_table(recipe).head == "linear" and body_table(recipe).recurrent is None

    @classmethod
    def penalties(cls, recipe: Recipe) -> Sequence[float]:
        table = recipe.tuning
        assert isinstance(table, FrozenTable)
        return table.penalties

    @classmethod
    def unused(cls, recipe: Recipe) -> Mapping[str, str]:
        method = f'with tuning.method = "{recipe.tuning.method}"'
        cached = (
            {} if body_table(recipe).recurrent else {"training.batch_tokens": f"{method}, whose texts are read once"}
        )
        if not cls.solves(recipe):
            return {**cached, "tuning.penalties": "where the head is trained step by step"}
        why = f"{method}, whose head is solved, not trained step by step"
        return {**cached, "model.dropout": why, **{f"training.{key}": why for key in _OF_STEPS}}

    @classmethod
    def random(cls, recipe: Recipe) -> bool:
        data = recipe.data
        part = isinstance(data, RowsTable) and (data.limit is not None or (data.fraction or 1.0) < 1)
        redrawn = part and data.redrawn
        return redrawn or recipe.model.seeded or not cls.solves(recipe)

    def trainable(self) -> dict[str, nn.Parameter]:
        heads = self.transformer.heads
        return {f"heads.{head}.{n}": p for head in self.heads for n, p in heads[head].named_parameters()}

    def train(self, on: bool) -> None:
        self.transformer.heads.train(on)

    def cost(self, forward_flops: int, tokens: int) -> Cost:
        return self.once


TUNING = Frozen
