"""From a recipe and its data to everything that the loop needs: a model with its heads, an objective and a tuning."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch

from heedful import plugins
from heedful.checkpoints.catalog import CATALOG
from heedful.checkpoints.directory import Checkpoint, read_model
from heedful.checkpoints.finding import find, fingerprint
from heedful.checkpoints.fresh import fresh_model, shape_from
from heedful.checkpoints.heads import NewHead
from heedful.checkpoints.protocol import AnyCheckpoint
from heedful.errors import RequestError
from heedful.inference.device import is_mixed, pick_device
from heedful.objectives.protocol import MadeModel, Objective
from heedful.recipes.schema import Recipe
from heedful.storage.shared import SharedStore
from heedful.training.tokenizers import tokenizer_for
from heedful.tuning.protocol import Surroundings, Tuning


@dataclass(frozen=True)
class Assembly:
    objective: Objective
    tuning: Tuning
    checkpoint: AnyCheckpoint
    device: torch.device
    source: str
    """What the user calls the model."""
    fingerprint: str
    """Of the model directory that it began from; "" if from random weights."""
    made_from: Mapping[str, str]
    """The fingerprints of what it was made from beside that, by what the user calls them."""

    @property
    def catalogued(self) -> dict[str, str]:
        named = CATALOG.get(self.source)
        return {"licence": named.licence if named else "", "trained_on": named.trained_on if named else ""}


def read_objective(recipe: Recipe, seed: int, store: SharedStore) -> Objective:
    """The recipe's objective with its data."""
    objective: Objective = plugins.find("objective", recipe.objective.kind).read(recipe, seed, store)
    return objective


def assemble(recipe: Recipe, seed: int, objective: Objective, store: SharedStore) -> Assembly:
    device = pick_device(recipe.training.device, "training.device")
    mixed = is_mixed(recipe.training.precision, device)
    tuning_class: type[Tuning] = plugins.find("tuning", recipe.tuning.method)
    made = objective.make_model(seed, store) or _body_with_heads(recipe, seed, objective, tuning_class, store)
    checkpoint, source, origin = made.checkpoint, made.title, made.fingerprint
    checkpoint.source = Path(source).name if Path(source).exists() else source
    objective.prepare(checkpoint, made.facts, store)
    body = {**made.facts, "drawn": None if origin else seed}
    fresh = frozenset(name for name, place in checkpoint.sources.items() if place == "new" and origin)
    around = Surroundings(recipe, seed, device, store, body, checkpoint.family, fresh)
    tuning = tuning_class(cast(Any, checkpoint.module), objective, around)
    tuning.reader.mixed = mixed
    objective.model_is_ready(tuning.reader)
    return Assembly(objective, tuning, checkpoint, device, source, origin, {**made.made_from, **tuning.made_from()})


def _body_with_heads(
    recipe: Recipe, seed: int, objective: Objective, tuning_class: type[Tuning], store: SharedStore
) -> MadeModel:
    heads, table = objective.heads(tuning_class.READING), recipe.model
    checkpoint, origin = _model(recipe, seed, objective, heads, store)
    source = table.title.replace("{seed}", str(seed))
    if table.shape is not None:
        sizes = ", ".join(f"{key} {value}" for key, value in table.sizes().items())
        source = f"shape {table.shape}{f' ({sizes})' if sizes else ''}"
    if checkpoint.tokenizer is None:
        raise RequestError(f"{source}: has no tokenizer; put tokenizer.json or vocab.txt beside its weights.")
    carried = checkpoint.transformer.adapters
    if carried and not tuning_class.USES_ADAPTERS:
        raise RequestError(
            f'{source}: carries adapters ({", ".join(carried)}), which tuning.method = "{recipe.tuning.method}" would '
            "not use; name the body that they were trained on."
        )
    name = table.name_for(seed) if table.scratch else None
    like = {} if name is None else {name: fingerprint(find(name, table.revision))}
    facts = {"model": ["scratch", like]} if like else _facts(recipe, seed, origin)
    return MadeModel(checkpoint, source, origin, facts, like)


def _facts(recipe: Recipe, seed: int, origin: str) -> dict[str, Any]:
    """Which model and tokenizer it is, for what is kept in the store. A tokenizer that was trained depends on the
    training rows, which may be drawn anew for each seed."""
    if origin:
        return {"model": origin}
    table = recipe.tokenizer
    assert table is not None  # the recipe was refused otherwise
    shape = [recipe.model.shape, recipe.model.sizes()]
    if table.name is not None:
        return {"model": [*shape, fingerprint(find(table.name))]}
    drawn = seed if recipe.data.redrawn else None
    return {"model": [*shape, table.model_dump(mode="json"), recipe.data.model_dump(mode="json"), drawn]}


def _model(
    recipe: Recipe, seed: int, objective: Objective, heads: Mapping[str, NewHead], store: SharedStore
) -> tuple[Checkpoint, str]:
    """The model with its new heads, and the fingerprint of the directory that its weights are from."""
    table, name = recipe.model, recipe.model.name_for(seed)
    if name is not None and not table.scratch:
        directory = find(name, table.revision)
        return read_model(directory, heads, seed=seed), fingerprint(directory)
    if name is not None:
        return _redrawn(read_model(find(name, table.revision), body_only=True), heads, seed), ""
    assert table.shape is not None  # the recipe was refused otherwise
    shape = shape_from(table.shape, table.sizes())
    return fresh_model(shape, heads, lambda family: tokenizer_for(recipe, seed, objective, family, store), seed), ""


def _redrawn(model: Checkpoint, heads: Mapping[str, NewHead], seed: int) -> Checkpoint:
    """The same sizes and tokenizer, other weights."""
    if model.tokenizer is None:
        return model  # which is refused
    tokenizer = model.tokenizer
    return fresh_model(model.transformer.shape, heads, lambda _: tokenizer, seed)
