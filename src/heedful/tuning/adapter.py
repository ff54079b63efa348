"""Bottleneck adapters: small networks between the sublayers of a body that stays as it is."""

from dataclasses import replace
from typing import Any, ClassVar, Literal

from pydantic import Field

from heedful.errors import RequestError
from heedful.models.adapters import PLACEMENTS, BottleneckShape
from heedful.nn.activations import ACTIVATIONS
from heedful.recipes.schema import Recipe
from heedful.tuning.adapters import NewAdapterTable, NewAdapterTuning, layers_left_out


class AdapterTable(NewAdapterTable):
    method: Literal["adapter"] = "adapter"
    """Train bottleneck adapters and the head; the body stays the same to the bit."""
    placement: Literal["pfeiffer", "houlsby", "parallel"] = "pfeiffer"
    """Where adapters are: after the feed-forward network, reading the normalised sum (Pfeiffer); after attention
    and after the feed-forward network, reading their outputs (Houlsby); or parallel to the feed-forward network."""
    reduction: float | None = Field(None, ge=0.01)
    """The body's width divided by the bottleneck's. Default: 16; 2 if parallel."""
    activation: str | None = None
    """Activation in the bottleneck: gelu, gelu_new, leaky_relu, relu, silu or tanh. Default: relu; silu for
    Houlsby's placement."""
    layers: list[int] | None = None
    """Layers with adapters, counted from 0, or from −1 down from the top. Default: all. If the lower ones have
    none, their states are computed once."""
    residual: Literal["output", "sum", "input"] | None = None
    """What the bottleneck's output is added to: the sublayer's output, that plus the stream, or the bottleneck's
    input. Default: the sublayer's output."""
    norm_before: bool = False
    """Whether the bottleneck has its own layer norm before it."""
    norm_after: bool = False
    """Whether the bottleneck has its own layer norm after it."""
    scaling: float | Literal["learned", "channel"] | None = None
    """Factor of the bottleneck's output: a number, a learned number, or one for each channel. Default: 1; 4 if
    parallel."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout of the bottleneck's output."""
    initial: Literal["zero", "normal", "truncated"] = "zero"
    """Initial weights: W_up = 0, so that it changes nothing at first; both matrices N(0, 0.02²); or both N(0,
    0.01²) truncated at two standard deviations, as in Houlsby's paper."""


class Adapter(NewAdapterTuning):
    Table: ClassVar = AdapterTable
    COMPARE_DEFAULTS: ClassVar = {"training": {"epochs": 10, "lr": 1e-3}}
    SHAPE = BottleneckShape
    SHAPE_KEYS = (
        "placement", "reduction", "activation", "layers", "residual", "norm_before", "norm_after", "scaling", "dropout",
        "initial",
    )  # fmt: skip

    @classmethod
    def check(cls, recipe: Recipe) -> None:
        super().check(recipe)
        table = recipe.tuning
        assert isinstance(table, AdapterTable)
        if table.activation is not None and table.activation not in ACTIVATIONS:
            raise RequestError(f"tuning.activation = {table.activation!r}: choose {', '.join(ACTIVATIONS)}.")
        if table.residual == "sum" and table.placement != "pfeiffer":
            raise RequestError('tuning.residual = "sum" goes with placement "pfeiffer", which reads the sum.')
        if table.residual is not None and table.placement == "parallel":
            raise RequestError('tuning.residual means nothing with placement "parallel"; leave it out.')

    def adapter_shape(self) -> BottleneckShape:
        table = self.context.recipe.tuning
        assert isinstance(table, AdapterTable)
        given: dict[str, Any] = {
            key: value
            for key in ("reduction", "activation", "residual", "scaling")
            if (value := getattr(table, key)) is not None
        }
        return replace(
            PLACEMENTS[table.placement],
            **given,
            left_out=layers_left_out(table.layers, self.transformer.shape.layers),
            norm_before=table.norm_before,
            norm_after=table.norm_after,
            dropout=table.dropout,
            initial=table.initial,
        )


TUNING = Adapter
