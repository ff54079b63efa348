"""From a recipe to everything that the loop needs: data × model × objective × evaluation, and a tuning."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch

from heedful import plugins
from heedful.building.protocol import Request
from heedful.checkpoints.catalog import CATALOG
from heedful.checkpoints.protocol import AnyCheckpoint
from heedful.data.protocol import Data
from heedful.evaluators.protocol import Evaluator
from heedful.inference.device import is_mixed, pick_device
from heedful.inputs.protocol import Inputs, Sampler, Setup
from heedful.objectives.protocol import Objective
from heedful.recipes.schema import Recipe
from heedful.storage.shared import SharedStore
from heedful.tuning.protocol import Tuning, TuningContext


@dataclass(frozen=True)
class Source:
    """What a recipe learns, before there is a model."""

    recipe: Recipe
    seed: int
    data: Data
    objective: Objective
    evaluator: Evaluator[Any]

    def sample(self, rows: int) -> "Source":
        """Return the same with a small part of the data, to time a step with."""
        table = self.recipe.objective.for_a_sample()
        return _source(self.recipe.model_copy(update={"objective": table}), self.seed, self.data.sample(rows))


@dataclass(frozen=True)
class Assembly:
    objective: Objective
    data: Data
    evaluator: Evaluator[Any]
    inputs: Inputs[Any]
    sampler: Sampler
    tuning: Tuning
    checkpoint: AnyCheckpoint
    device: torch.device
    source: str
    """What the user calls the model."""
    fingerprint: str
    """Of the model directory that it began from; "" if from random weights."""
    made_from: Mapping[str, str]
    """The fingerprints of what it was made from besides that, by what the user calls them."""

    def describe(self) -> dict[str, Any]:
        """Return what the manifest says of the data, as the model reads them."""
        usage = {"usage": self.objective.USAGE} if self.objective.USAGE else {}
        return {**self.inputs.describe(), **usage}

    @property
    def catalogued(self) -> dict[str, str]:
        named = CATALOG.get(self.source)
        return {"licence": named.licence if named else "", "trained_on": named.trained_on if named else ""}


def read_source(recipe: Recipe, seed: int, store: SharedStore) -> Source:
    """Read the data of a recipe."""
    objective_class: type[Objective] = plugins.find("objective", recipe.objective.kind)
    return _source(recipe, seed, objective_class.DATA.read(recipe, seed, store))


def _source(recipe: Recipe, seed: int, data: Data) -> Source:
    objective: Objective = plugins.find("objective", recipe.objective.kind)(recipe, data)
    return Source(recipe, seed, data, objective, objective.evaluator())


def assemble(source: Source, store: SharedStore) -> Assembly:
    """Build the model, make of the data what it reads, and let the tuning prepare both."""
    recipe, seed, objective = source.recipe, source.seed, source.objective
    device = pick_device(recipe.training.device, "training.device")
    tuning_class: type[Tuning] = plugins.find("tuning", recipe.tuning.method)
    head_input = tuning_class.HEAD_INPUT
    special = recipe.objective.special_tokens()
    built = objective.MODEL.build(
        Request(recipe, seed, source.data, store, objective.heads, special, head_input, tuning_class.USES_ADAPTERS)
    )
    checkpoint, title, origin = built.checkpoint, built.title, built.fingerprint
    checkpoint.source = Path(title).name if Path(title).exists() else title
    inputs = objective.inputs(checkpoint, Setup(recipe, seed, store, built.cache_key))
    context = TuningContext(
        recipe,
        seed,
        device,
        store,
        cache_key={**built.cache_key, "drawn": None if origin else seed},
        family=checkpoint.family,
        fresh=frozenset(name for name, place in checkpoint.sources.items() if place == "new" and origin),
        heads={name: head.trained for name, head in objective.heads(head_input).items()},
        data_name=str(source.data.describe().get("name", "")),
    )
    tuning = tuning_class(cast(Any, checkpoint.module), inputs, context)
    tuning.reader.mixed = is_mixed(recipe.training.precision, device)
    inputs.compute_once(tuning.reader)
    return Assembly(
        objective, source.data, source.evaluator, inputs, inputs.sampler(), tuning, checkpoint, device, title, origin,
        {**built.made_from, **tuning.made_from()},
    )  # fmt: skip
