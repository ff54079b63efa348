"""AdapterFusion: adapters that were trained on several tasks are weighed by attention at each token; the fusion and the
head move, the body and the adapters stay as they are."""

from functools import partial
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from heedful.checkpoints.adapters import find_adapter, put_adapter
from heedful.errors import RequestError
from heedful.inputs.protocol import Inputs
from heedful.models.adapters import FusionShape, add_fusion, draw_fusion
from heedful.models.composition import Composition, Fuse
from heedful.nn.adapters import Fusion as FusionModule
from heedful.recipes.schema import Recipe, TuningTable
from heedful.streams import seed_of
from heedful.tuning.adapters import AdapterTuning, refuse_random
from heedful.tuning.fusion_use import fusion_use


class FusionTable(TuningTable):
    method: Literal["fusion"] = "fusion"
    """Fuse existing adapters by attention; train the fusion and the head."""
    adapters: list[str] = Field(default=[])
    """Adapters to fuse, at least two: directories of adapters or of models with one adapter, or hub ids. {seed} is
    replaced by the run's random seed."""
    query: Literal["after", "before"] = "after"
    """Whether the query is the state after the sum and the norm, which Pfeiffer's adapters read, or the sublayer's
    output before them."""
    value: bool = True
    """Whether there is a value matrix, which starts at the identity."""
    regularise: float = Field(0.01, ge=0)
    """Weight of the penalty ‖I − V‖², which keeps value matrices near the identity."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout of the fusion's attention scores."""


class Fusion(AdapterTuning):
    Table: ClassVar = FusionTable
    COMPARE_DEFAULTS: ClassVar = {"training": {"epochs": 10, "lr": 2e-4}}

    @classmethod
    def check(cls, recipe: Recipe) -> None:
        refuse_random(recipe)
        table = _table(recipe)
        if len(table.adapters) < 2:
            raise RequestError("tuning.adapters: name at least two adapters to fuse.")
        if not table.value and table.regularise not in (0.0, FusionTable.model_fields["regularise"].default):
            raise RequestError("tuning.regularise is about the value matrix; leave it out, or set tuning.value.")

    def compose(self, head: str) -> Composition:
        table, seed = _table(self.context.recipe), self.context.seed
        if not self.started_from:
            names = []
            for source in table.adapters:
                stored = find_adapter(source.replace("{seed}", str(seed)))
                if stored.name in names:
                    raise RequestError(
                        f"tuning.adapters: {source} holds an adapter called {stored.name!r}, as another of them does; "
                        "save one under another name (load_adapter(DIR, name=NEW), then save_adapter(DIR, NEW))."
                    )
                put_adapter(self.transformer, self.context.family, stored, stored.name)
                names.append(stored.name)
                self.started_from[source] = stored.fingerprint
            self.fuse = Fuse(*names)
            shape = FusionShape(
                tuple(names), value=table.value, query_before=table.query == "before",
                regularised=table.value and table.regularise > 0, dropout=table.dropout,
            )  # fmt: skip
            add_fusion(self.transformer, shape)
            draw_fusion(self.transformer, self.fuse.name, torch.Generator().manual_seed(seed_of(seed, "fusion")))
            self.moving.append(f"fusions.{self.fuse.name}.")
            if shape.regularised:
                self.penalty = partial(self._penalty, table.regularise)
        return self.fuse

    def _penalty(self, weight: float) -> Tensor:
        modules = self.transformer.fusions[self.fuse.name].modules()
        return weight * torch.stack([m.penalty() for m in modules if isinstance(m, FusionModule)]).sum()

    def made_from(self) -> dict[str, str]:
        return self.started_from

    def conclude(self, inputs: Inputs[Any]) -> dict[str, Any]:
        return fusion_use(self.reader, self.fuse, inputs)


def _table(recipe: Recipe) -> FusionTable:
    table = recipe.tuning
    assert isinstance(table, FusionTable)
    return table


TUNING = Fusion
