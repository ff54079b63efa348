"""A body with heads: from a model directory, or of a named shape with random weights."""

from collections.abc import Mapping
from typing import Any, Literal, cast, get_args

from pydantic import Field

from heedful.building.protocol import BuiltModel, ModelKind, Request
from heedful.building.tokenizers import tokenizer_for
from heedful.checkpoints.directory import Checkpoint, read_model
from heedful.checkpoints.finding import find, fingerprint
from heedful.checkpoints.fresh import fresh_model, shape_from
from heedful.checkpoints.heads import NewHead
from heedful.errors import RequestError
from heedful.recipes.schema import Attention, ModelTable, Recipe

Pooling = Literal["cls", "first", "mean", "max", "last"]
RecurrentPooling = Literal["lstm", "bilstm", "gru", "bigru"]
"""These have weights, which belong to a head."""
SIZES = ("layers", "width", "heads", "inner", "positions", "attention", "position_kind", "causal", "body_dropout")
"""The keys of [model] that change a named shape."""


class BodyTable(ModelTable):
    scratch: bool = False
    """With `name`: use only its sizes and its tokenizer, with random weights (by the run's seed).
    study.model.scratch = [false, true] measures what pretraining contributes."""
    shape: str | None = None
    """Named shape (see `heedful models`) with random weights (by the run's seed); needs [tokenizer]. The keys
    `layers` to `body_dropout` change its sizes and wiring. Models that fit no Hugging Face family, such as most
    other kinds of attention, are saved in a format that only heedful reads."""
    layers: int | None = Field(None, ge=1, le=1000)
    """Number of layers. Default: the shape's."""
    width: int | None = Field(None, ge=1, le=100_000)
    """Width of the states, which the attention heads divide among them. Default: the shape's."""
    heads: int | None = Field(None, ge=1, le=4096)
    """Number of attention heads per layer. Default: the shape's."""
    inner: int | None = Field(None, ge=1, le=1_000_000)
    """Width inside the feed-forward networks. Default: the shape's, or 4 × `width` if `width` is set."""
    positions: int | None = Field(None, ge=2, le=1_000_000)
    """Maximum number of tokens in a text, which is the number of learned positions. "roberta-base" counts them from
    its padding id, so fewer are usable. Default: the shape's."""
    attention: Attention | None = None
    """Kind of self-attention. "dot-product"; "rotary": queries and keys are rotated by their positions; "relative":
    a learned bias for each head and distance is added to the scores; "synthesizer-dense": each token computes its
    weights for all positions from its own state; "synthesizer-random": a learned table of scores for each pair of
    positions. Default: "dot-product"."""
    position_kind: Literal["learned", "sinusoidal", "sinusoidal-halves", "none"] | None = None
    """What is added to the token embeddings: a learned vector for each position; sines and cosines, alternating
    ("sinusoidal") or all sines before all cosines ("sinusoidal-halves", as in Marian); or nothing. Default: "none"
    with attention = "rotary" or "relative", otherwise the shape's."""
    causal: bool | None = None
    """Whether a token sees only itself and earlier tokens, as the objectives "causal", "span" and "answer" need.
    Default: the shape's."""
    body_dropout: float | None = Field(None, ge=0, lt=1)
    """Dropout everywhere in the body where the shape has any. Default: the shape's, 0.1."""
    pooling: Literal[Pooling, RecurrentPooling] | None = None
    """How the states of a text become the input of the head: "cls" (the first state through the checkpoint's
    pooler, as in Hugging Face), "first", "mean", "max" or "last". Or a recurrent network over all states, which is
    part of the head and starts from random weights: "lstm" and "gru" use the output at the last token; "bilstm" and
    "bigru" concatenate the forward output at the last token and the backward output at the first. Default: "mean"
    if the body's matrices are frozen, otherwise what the family's own classifier uses."""
    rnn_width: int | None = Field(None, ge=1, le=100_000)
    """Output width of the recurrent network, per direction. Default: the body's width, or half of it (rounded up)
    for two directions, so that the head's input is about equally wide."""
    pairs: Literal["joint", "towers"] | None = None
    """How the head reads a pair of texts: "joint": as one text; "towers": each text separately; from their vectors
    u and v the head receives u, v, |u − v|, u ∘ v and their cosine. Default: "towers" if the body is frozen,
    otherwise "joint"."""
    head: Literal["linear", "two-layer"] = "linear"
    """Classifier: one linear map, or two with tanh between them."""
    dropout: float | None = Field(None, ge=0, lt=1)
    """Dropout before the classifier. Default: the checkpoint's."""

    @property
    def title(self) -> str:
        """The name or the shape."""
        return f"{self.name} from scratch" if self.scratch else str(self.name or self.shape)

    @property
    def drawn(self) -> bool:
        return self.shape is not None or self.scratch

    @property
    def seeded(self) -> bool:
        return self.scratch or super().seeded

    def weights_for(self, seed: int) -> str | None:
        return None if self.scratch else self.name_for(seed)

    def sizes(self) -> dict[str, int | float | str]:
        """Return the keys that change the sizes and wiring of `shape`."""
        return {key: value for key in SIZES if (value := getattr(self, key)) is not None}

    @property
    def recurrent(self) -> RecurrentPooling | None:
        """The pooling, if it is a recurrent network."""
        return cast(RecurrentPooling, self.pooling) if self.pooling in get_args(RecurrentPooling) else None


class TextBody(ModelKind):
    Table = BodyTable

    @staticmethod
    def check(recipe: Recipe) -> None:
        model, tokenizer = body_table(recipe), recipe.tokenizer
        if (model.name is None) == (model.shape is None):
            raise RequestError("[model] needs either name or shape.")
        if model.shape is not None and (tokenizer is None or (tokenizer.name is None) == (tokenizer.kind is None)):
            raise RequestError("a model.shape needs [tokenizer] with either name or kind.")
        if model.name is not None and tokenizer is not None:
            raise RequestError(f"[tokenizer] goes with model.shape; {model.name} brings its own.")
        for key in ("revision", "scratch"):
            if model.shape is not None and getattr(model, key) != BodyTable.model_fields[key].default:
                raise RequestError(f"model.{key} goes with model.name.")
        if model.name is not None and model.sizes():
            raise RequestError(
                f"model.{next(iter(model.sizes()))} goes with model.shape; {model.name} has its own sizes."
            )
        if model.rnn_width is not None and model.recurrent is None:
            raise RequestError('model.rnn_width goes with model.pooling = "lstm", "bilstm", "gru" or "bigru".')
        if tokenizer is not None and not tokenizer.joint:
            kind = recipe.objective.kind
            raise RequestError(f'tokenizer.joint means nothing with objective.kind = "{kind}"; leave it out.')

    @staticmethod
    def build(request: Request) -> BuiltModel:
        recipe, seed, table = request.recipe, request.seed, body_table(request.recipe)
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


def body_table(recipe: Recipe) -> BodyTable:
    """Return [model] of a recipe whose model is a body with heads."""
    assert isinstance(recipe.model, BodyTable)
    return recipe.model


def _cache_key(recipe: Recipe, seed: int, origin: str) -> dict[str, Any]:
    """Return which model and tokenizer it is, for what is kept in the store. A tokenizer that was trained depends on
    the training rows, which may be drawn anew for each seed."""
    if origin:
        return {"model": origin}
    table = recipe.tokenizer
    assert table is not None  # the recipe was refused otherwise
    shape = [body_table(recipe).shape, body_table(recipe).sizes()]
    if table.name is not None:
        return {"model": [*shape, fingerprint(find(table.name))]}
    drawn = seed if recipe.data.redrawn else None
    return {"model": [*shape, table.model_dump(mode="json"), recipe.data.model_dump(mode="json"), drawn]}


def _model(request: Request, heads: Mapping[str, NewHead]) -> tuple[Checkpoint, str]:
    """Return the model with its new heads, and the fingerprint of the directory that its weights are from."""
    table, seed = body_table(request.recipe), request.seed
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
