"""The cosine of two texts' states alone decides: what a body knows of pairs before anything is trained. Two numbers a
class (a line, for a score) are solved for."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from heedful.building.body import body_table
from heedful.errors import RequestError
from heedful.inputs.protocol import Inputs
from heedful.models.transformer import Transformer
from heedful.nn.heads import HeadInput
from heedful.recipes.schema import Recipe, TuningTable
from heedful.tuning.frozen import Frozen
from heedful.tuning.protocol import TuningContext

_PENALTY = 1e-6  # so that there is an optimum even if the cosine separates the classes


class CosineTable(TuningTable):
    method: Literal["cosine"] = "cosine"
    """Use only the cosine of the two texts of a pair: a deterministic baseline."""


class Cosine(Frozen):
    Table = CosineTable
    HEAD_INPUT = HeadInput("mean", "cosine")
    COMPARE_DEFAULTS: ClassVar = {}

    def __init__(self, transformer: Transformer, inputs: Inputs[Any], context: TuningContext) -> None:
        if any(transformer.head_shapes[name].pairs != "cosine" for name in context.heads):
            raise RequestError('tuning.method = "cosine" is for pairs of texts; use "frozen".')
        super().__init__(transformer, inputs, context)

    @classmethod
    def check(cls, recipe: Recipe) -> None:
        super().check(recipe)
        if not recipe.objective.CONVEX:
            raise RequestError(
                f'tuning.method = "cosine" solves for its head, which objective.kind = "{recipe.objective.kind}" does '
                'not allow; use "frozen" or "full".'
            )
        model = body_table(recipe)
        if model.pairs is not None or model.head != "linear" or model.recurrent is not None:
            raise RequestError(
                'tuning.method = "cosine" has its own head; leave out model.pairs, model.head and a recurrent '
                "model.pooling."
            )

    @classmethod
    def solves(cls, recipe: Recipe) -> bool:
        return True

    @classmethod
    def as_baseline(cls, recipe: Recipe, has_pairs: bool) -> Mapping[str, Any] | None:
        """With the states that a frozen body gives a head, on the same rows for every seed."""
        if not has_pairs or recipe.model.name is None:
            return None
        content = recipe.identity()
        model = {key: content["model"][key] for key in ("name", "revision", "pooling") if key in content["model"]}
        if body_table(recipe).recurrent or model.get("pooling") == "cls":  # not every body comes with these
            del model["pooling"]
        data = {key: value for key, value in content.get("data", {}).items() if key != "redraw"}
        used = {"max_length", "device", "threads"}
        training = {key: value for key, value in content.get("training", {}).items() if key in used}
        return {"model": model, "data": data, "objective": content["objective"], "training": training}

    @classmethod
    def penalties(cls, recipe: Recipe) -> Sequence[float]:
        return [_PENALTY]


TUNING = Cosine
