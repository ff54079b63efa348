"""Low-rank changes of linear maps (LoRA) of a body that stays as it is; they can become a part of its weights."""

from typing import ClassVar, Literal

from pydantic import Field

from heedful.checkpoints.adapterhub import map_modules
from heedful.checkpoints.families import FAMILIES
from heedful.errors import RequestError
from heedful.models.adapters import LowRankShape, MapName, activate, parsed
from heedful.models.composition import Composition
from heedful.models.merging import merge
from heedful.models.transformer import Transformer
from heedful.recipes.schema import Recipe
from heedful.tuning.adapters import NewAdapterTable, NewAdapterTuning, layers_left_out


class LoraTable(NewAdapterTable):
    method: Literal["lora"] = "lora"
    """Train low-rank changes of linear maps and the head; the body stays the same to the bit."""
    maps: list[Literal["query", "key", "value", "qkv", "attention-output", "up", "down"]] | None = Field(
        None, min_length=1
    )
    """Maps to change: in attention "query", "key", "value" (in GPT-2 they are one, "qkv") and "attention-output",
    in the feed-forward network "up" and "down". Default: queries and values, or "qkv"."""
    rank: int = Field(8, ge=1)
    """Rank r of the change B A."""
    alpha: float = Field(16.0, gt=0)
    """The change is scaled by alpha/rank."""
    stabilised: bool = False
    """Whether to scale by alpha/√rank instead (rank-stabilised LoRA)."""
    layers: list[int] | None = None
    """Layers to change, counted from 0, or from −1 down from the top. Default: all. If the lower ones are
    unchanged, their states are computed once."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout before A."""
    merge: bool = False
    """Whether to merge the change into the saved weights, so that there is no adapter. With model.pooling = "cls"
    the model then loads completely in Hugging Face's library."""


class Lora(NewAdapterTuning):
    Table: ClassVar = LoraTable
    COMPARE_DEFAULTS: ClassVar = {"training": {"epochs": 10, "lr": 1e-3}}
    SHAPE = LowRankShape
    SHAPE_KEYS = ("maps", "rank", "alpha", "stabilised", "layers", "dropout")

    @classmethod
    def check(cls, recipe: Recipe) -> None:
        super().check(recipe)
        table = _table(recipe)
        if table.maps is not None and len(set(table.maps)) != len(table.maps):
            raise RequestError(f"tuning.maps = {table.maps}: name each once.")
        if table.per_task and table.merge:
            raise RequestError("tuning.merge: changes for several tasks cannot all become a part of the same weights.")

    def adapter_shape(self) -> LowRankShape:
        table, body = _table(self.context.recipe), self.transformer.shape
        known = [name for layer, name in map_modules(FAMILIES[self.context.family], body) if layer == 0]
        usual: tuple[MapName, ...] = ("qkv",) if "qkv" in known else ("query", "value")
        maps = usual if table.maps is None else tuple(table.maps)
        strange = next((name for name in maps if name not in known), None)
        if strange is not None:
            family = self.context.family
            raise RequestError(f"tuning.maps: a {family} has no map {strange!r}; it has {', '.join(known)}.")
        left_out = layers_left_out(table.layers, body.layers)
        return LowRankShape(maps, table.rank, table.alpha, table.dropout, table.stabilised, left_out)

    def compose(self, head: str) -> Composition:
        if _table(self.context.recipe).merge and set(self.transformer.adapters) - set(self.own_names):
            carried = ", ".join(self.transformer.adapters)
            raise RequestError(
                f"tuning.merge: the model carries adapters ({carried}), which would stand on another body."
            )
        return super().compose(head)

    def finish(self, decay: float, model: Transformer | None = None) -> None:
        model = model or self.transformer
        if _table(self.context.recipe).merge:
            activate(model, parsed(model.head_shapes[self.heads[0]].adapters))
            merge(model)


def _table(recipe: Recipe) -> LoraTable:
    table = recipe.tuning
    assert isinstance(table, LoraTable)
    return table


TUNING = Lora
