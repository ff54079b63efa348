"""A body with heads: from a model directory, or of a named shape with random weights."""

from collections.abc import Mapping
from typing import Any

from heedful.building.protocol import BuiltModel, ModelKind, Request
from heedful.building.tokenizers import tokenizer_for
from heedful.checkpoints.directory import Checkpoint, read_model
from heedful.checkpoints.finding import find, fingerprint
from heedful.checkpoints.fresh import fresh_model, shape_from
from heedful.checkpoints.heads import NewHead
from heedful.errors import RequestError
from heedful.recipes.schema import Recipe


class TextBody(ModelKind):
    @staticmethod
    def build(request: Request) -> BuiltModel:
        recipe, seed, table = request.recipe, request.seed, request.recipe.model
        checkpoint, origin = _model(request, request.heads(request.head_input))
        source = table.title.replace("{seed}", str(seed))
        if table.shape is not None:
            sizes = ", ".join(f"{key} {value}" for key, value in table.sizes().items())
            source = f"shape {table.shape}{f' ({sizes})' if sizes else ''}"
        if checkpoint.tokenizer is None:
            raise RequestError(f"{source}: has no tokenizer; put tokenizer.json or vocab.txt beside its weights.")
        carried = checkpoint.transformer.adapters
        if carried and not request.takes_adapters:
            raise RequestError(
                f'{source}: carries adapters ({", ".join(carried)}), which tuning.method = "{recipe.tuning.method}" '
                "would not use; name the body that they were trained on."
            )
        name = table.name_for(seed) if table.scratch else None
        like = {} if name is None else {name: fingerprint(find(name, table.revision))}
        cache_key = {"model": ["scratch", like]} if like else _cache_key(recipe, seed, origin)
        return BuiltModel(checkpoint, source, origin, cache_key, like)


def _cache_key(recipe: Recipe, seed: int, origin: str) -> dict[str, Any]:
    """Return which model and tokenizer it is, for what is kept in the store. A tokenizer that was trained depends on
    the training rows, which may be drawn anew for each seed."""
    if origin:
        return {"model": origin}
    table = recipe.tokenizer
    assert table is not None  # the recipe was refused otherwise
    shape = [recipe.model.shape, recipe.model.sizes()]
    if table.name is not None:
        return {"model": [*shape, fingerprint(find(table.name))]}
    drawn = seed if recipe.data.redrawn else None
    return {"model": [*shape, table.model_dump(mode="json"), recipe.data.model_dump(mode="json"), drawn]}


def _model(request: Request, heads: Mapping[str, NewHead]) -> tuple[Checkpoint, str]:
    """Return the model with its new heads, and the fingerprint of the directory that its weights are from."""
    table, seed = request.recipe.model, request.seed
    name = table.name_for(seed)
    if name is not None and not table.scratch:
        directory = find(name, table.revision)
        return read_model(directory, heads, seed=seed), fingerprint(directory)
    if name is not None:
        return _redrawn(read_model(find(name, table.revision), body_only=True), heads, seed), ""
    assert table.shape is not None  # the recipe was refused otherwise
    shape = shape_from(table.shape, table.sizes())
    return fresh_model(shape, heads, lambda family: tokenizer_for(request, family), seed), ""


def _redrawn(model: Checkpoint, heads: Mapping[str, NewHead], seed: int) -> Checkpoint:
    """Return a model of the same sizes and with the same tokenizer, but with different weights."""
    if model.tokenizer is None:
        return model  # which is refused
    tokenizer = model.tokenizer
    return fresh_model(model.transformer.shape, heads, lambda _: tokenizer, seed)
