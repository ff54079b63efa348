"""The heads alone move; what they read is computed once for every text."""

from typing import ClassVar, Literal

from torch import nn

from heedful.errors import RequestError
from heedful.models.transformer import Transformer
from heedful.objectives.protocol import Objective
from heedful.objectives.texts import TextReader
from heedful.recipes.schema import Recipe, TuningTable
from heedful.tuning.features import compute_features
from heedful.tuning.protocol import Spent, Surroundings, Tuning


class FrozenTable(TuningTable):
    method: Literal["frozen"] = "frozen"
    """The head alone moves, step by step, on features that are computed once."""


class Frozen(Tuning):
    Table: ClassVar[type[TuningTable]] = FrozenTable
    READS = "mean"
    COMPARE_DEFAULTS: ClassVar = {"training": {"epochs": 30, "lr": 3e-3, "warmup": 0.0}}

    def __init__(self, transformer: Transformer, objective: Objective, around: Surroundings) -> None:
        self.transformer = transformer.to(around.device)
        self.transformer.body.requires_grad_(False)
        self.transformer.body.eval()
        self.heads = list(objective.heads(self.READS))
        reads = {self.transformer.head_shapes[name].reads for name in self.heads}
        if len(reads) != 1 or "every" in reads or not objective.cached_texts():
            raise RequestError(
                f'tuning.method = "{around.recipe.tuning.method}" needs an objective whose heads read one state of '
                'each text; use "full".'
            )
        if any(name.startswith("body.") for name in around.fresh):
            raise RequestError(
                f'{around.recipe.model.name}: has no pooler, so model.pooling = "cls" has nothing to freeze; '
                'use "mean".'
            )
        self.computed = compute_features(self.transformer, objective.cached_texts(), reads.pop(), around)
        self.reader = TextReader(self.transformer, around.device, self.computed.cache)
        objective.texts_are_cached()

    @staticmethod
    def check(recipe: Recipe) -> None:
        name = recipe.tuning.method
        if recipe.model.shape is not None:
            raise RequestError(f'tuning.method = "{name}" on random weights learns nothing; use "full".')
        if recipe.training.batch_tokens is not None:
            raise RequestError(f'training.batch_tokens means nothing with tuning.method = "{name}".')

    def trainable(self) -> dict[str, nn.Parameter]:
        heads = self.transformer.heads
        return {f"heads.{head}.{n}": p for head in self.heads for n, p in heads[head].named_parameters()}

    def train(self, on: bool) -> None:
        self.transformer.heads.train(on)

    def spent(self, forward_flops: int, tokens: int) -> Spent:
        return self.computed.spent


TUNING = Frozen
