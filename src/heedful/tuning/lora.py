"""Low-rank changes of linear maps (LoRA) of a body that stays as it is; they can become a part of its weights."""

from typing import ClassVar, Literal

from pydantic import Field

from heedful.errors import RequestError
from heedful.models.adapters import LowRankShape, merge, use_adapters
from heedful.recipes.schema import Recipe
from heedful.tuning.adapters import NewAdapterTable, NewAdapterTuning, layers_left_out


class LoraTable(NewAdapterTable):
    method: Literal["lora"] = "lora"
    """Low-rank changes of linear maps and the head move; the body stays as it is to the bit."""
    maps: list[Literal["query", "key", "value", "attention-output", "up", "down"]] = Field(
        ["query", "value"], min_length=1
    )
    """Which maps are changed: of attention "query", "key", "value" and "attention-output", of the feed-forward network
    "up" and "down"."""
    rank: int = Field(8, ge=1)
    """The rank r of the change B A."""
    alpha: float = Field(16.0, gt=0)
    """The change is scaled by alpha/rank."""
    stabilised: bool = False
    """Whether it is scaled by alpha/√rank instead (rank-stabilised LoRA)."""
    layers: list[int] | None = None
    """The layers that are changed, counted from 0, or from −1 down from the top. Default: all. Where the lower ones are
    not, what they give is computed once."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout before A."""
    merge: bool = False
    """Whether the change becomes a part of the saved weights: the model then opens whole in Hugging Face's library, and
    the adapter is no more."""


class Lora(NewAdapterTuning):
    Table: ClassVar = LoraTable
    COMPARE_DEFAULTS: ClassVar = {"training": {"epochs": 10, "lr": 1e-3}}
    SHAPE_KEYS = ("maps", "rank", "alpha", "stabilised", "layers", "dropout")

    @classmethod
    def check(cls, recipe: Recipe) -> None:
        super().check(recipe)
        table = _table(recipe)
        if len(set(table.maps)) != len(table.maps):
            raise RequestError(f"tuning.maps = {table.maps}: name each once.")
        if table.per_task and table.merge:
            raise RequestError("tuning.merge: changes for several tasks cannot all become a part of the same weights.")

    @classmethod
    def adapter_shape(cls, recipe: Recipe, layers: int) -> LowRankShape:
        table = _table(recipe)
        left_out = layers_left_out(table.layers, layers)
        return LowRankShape(tuple(table.maps), table.rank, table.alpha, table.dropout, table.stabilised, left_out)

    def finish(self, decay: float) -> None:
        if _table(self.around.recipe).merge:
            use_adapters(self.transformer, self.transformer.head_shapes[self.heads[0]])
            merge(self.transformer)


def _table(recipe: Recipe) -> LoraTable:
    table = recipe.tuning
    assert isinstance(table, LoraTable)
    return table


TUNING = Lora
