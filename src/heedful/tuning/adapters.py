"""What the tunings that train adapters have in common: the body stays as it is to the bit, the adapters and the heads
move, and what lies below the lowest adapter is computed once."""

import re
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import nn

from heedful.checkpoints.adapters import find_adapter, put_adapter
from heedful.errors import RequestError
from heedful.inference.reader import LowerStates, TextReader
from heedful.inputs.protocol import Inputs
from heedful.models.adapters import AdapterShape, add_adapter, draw_adapter, lowest_layer
from heedful.models.composition import Composition, names_of
from heedful.models.modules import is_part_name
from heedful.models.transformer import Transformer
from heedful.nn.heads import HeadInput
from heedful.recipes.schema import Recipe, TuningTable
from heedful.streams import seed_of
from heedful.tuning.features import compute_lower_states
from heedful.tuning.protocol import Cost, Tuning, TuningContext


class AdapterTuning(Tuning):
    """A subclass says what its adapters are (`compose`)."""

    HEAD_INPUT = HeadInput("mean")
    MOVES_BODY = False
    USES_ADAPTERS = True

    def __init__(self, transformer: Transformer, inputs: Inputs[Any], context: TuningContext) -> None:
        self.transformer = transformer.to(context.device)
        self.transformer.body.eval()
        self.context = context
        self.started_from: dict[str, str] = {}
        self.heads = [head for head, trained in context.heads.items() if trained]
        # Beginnings of the names of what trains beside the heads; a pooler that the checkpoint did not have does too.
        self.moving = [name for name in context.fresh if name.startswith("body.")]
        used = set[str]()
        for head in self.heads:
            composition = self.compose(head)
            transformer.head_shapes[head] = replace(transformer.head_shapes[head], adapters=str(composition))
            used.update(names_of(composition))
        moving = self.trainable()
        for name, p in transformer.named_parameters():
            p.requires_grad_(name in moving)
        layers, shapes = transformer.shape.layers, transformer.adapter_shapes
        self.lowest = min(lowest_layer(shapes[name], layers) for name in used)
        self.reader = TextReader(self.transformer, context.device, lower=self._lower_states(inputs))

    @abstractmethod
    def compose(self, head: str) -> Composition:
        """Makes the adapters through which this head reads, notes in `moving` what of them trains, and says how they
        are put together."""

    def _lower_states(self, inputs: Inputs[Any]) -> LowerStates | None:
        """Of the blocks that no adapter changes, if there are any and the inputs say which texts there are."""
        self.once = Cost(0, 0)
        if self.lowest == 0 or not inputs.cached_texts():
            return None
        lower, self.once = compute_lower_states(self.transformer, inputs.cached_texts(), self.lowest, self.context)
        return lower

    def trainable(self) -> dict[str, nn.Parameter]:
        moving = (*self.moving, *(f"heads.{head}." for head in self.heads))
        return {n: p for n, p in self.transformer.named_parameters() if n.startswith(moving)}

    def train(self, on: bool) -> None:
        """What does not move has no dropout."""
        for part in (self.transformer.heads, self.transformer.adapters, self.transformer.fusions):
            part.train(on)

    def cost(self, forward_flops: int, tokens: int) -> Cost:
        """Above what was computed once, forward and back through the states, and what trains forward and back twice."""
        share = 1 - self.lowest / self.transformer.shape.layers
        own = 6 * tokens * sum(p.numel() for n, p in self.trainable().items() if not n.startswith("heads."))
        return Cost(round(2 * share * forward_flops) + own + self.once.flops, tokens, self.once.seconds)


class NewAdapterTable(TuningTable):
    """What the tunings that train adapters of their own have in common."""

    name: str | None = None
    """Name of the adapter. Default: the name of the data, or of the task."""
    start: str | None = None
    """Existing adapter to continue training, instead of random weights: its directory, that of a model with one
    adapter, or a hub id; {seed} is replaced by the run's random seed. Its size and layers are its own."""
    per_task: bool = False
    """With several tasks: whether each has its own adapter, or all share one."""


class NewAdapterTuning(AdapterTuning):
    """One adapter, or one for each task. A subclass says of what shape."""

    SHAPE: ClassVar[type[AdapterShape]]
    """What kind of adapter it is."""
    SHAPE_KEYS: ClassVar[tuple[str, ...]]
    """The keys of its table that an adapter to start from brings itself."""

    @abstractmethod
    def adapter_shape(self) -> AdapterShape:
        """Of a fresh one."""

    @classmethod
    def check(cls, recipe: Recipe) -> None:
        refuse_random(recipe)
        table = recipe.tuning
        assert isinstance(table, NewAdapterTable)
        given = [key for key in cls.SHAPE_KEYS if getattr(table, key) != type(table).model_fields[key].default]
        if table.start is not None and given:
            raise RequestError(f"tuning.start brings its own {given[0]}; leave tuning.{given[0]} out.")
        if table.per_task and (table.name is not None or table.start is not None):
            raise RequestError("with tuning.per_task adapters are called after their tasks and start afresh.")

    def compose(self, head: str) -> Composition:
        recipe, seed = self.context.recipe, self.context.seed
        table = recipe.tuning
        assert isinstance(table, NewAdapterTable)
        own = table.per_task or len(self.heads) == 1
        name = table.name or adapter_name(head if own else "classify", self.context.data_name)
        if f"adapters.{name}." in self.moving:
            if own:
                raise RequestError(f"tuning.per_task: the task {head!r} would share the adapter {name!r}; rename it.")
            return name
        self.moving.append(f"adapters.{name}.")
        if table.start is not None:
            stored = find_adapter(table.start.replace("{seed}", str(seed)))
            put_adapter(self.transformer, self.context.family, stored, name)
            if not isinstance(self.transformer.adapter_shapes[name], self.SHAPE):
                raise RequestError(
                    f"tuning.start: {stored.directory} holds another kind of adapter than tuning.method = "
                    f'"{table.method}" trains; use "{"lora" if table.method == "adapter" else "adapter"}".'
                )
            self.started_from = {table.start: stored.fingerprint}
            return name
        add_adapter(self.transformer, name, self.adapter_shape())
        draw_adapter(self.transformer, name, torch.Generator().manual_seed(seed_of(seed, "adapter", name)))
        return name

    def made_from(self) -> dict[str, str]:
        return self.started_from

    @property
    def own_names(self) -> list[str]:
        """Of the adapters that train, so far."""
        return [name.split(".")[1] for name in self.moving if name.startswith("adapters.")]


def refuse_random(recipe: Recipe) -> None:
    if recipe.model.drawn:
        method = recipe.tuning.method
        raise RequestError(f'tuning.method = "{method}" leaves random weights as they are; use "full".')


def layers_left_out(layers: Sequence[int] | None, count: int) -> tuple[int, ...]:
    """From the layers that have adapters, negative ones counted from the top, to those that have none."""
    if layers is None:
        return ()
    wrong = [layer for layer in layers if not -count <= layer < count]
    if wrong or len({layer % count for layer in layers}) != len(layers) or not layers:
        raise RequestError(
            f"tuning.layers = {list(layers)}: name some of the model's layers 0 … {count - 1}, each once."
        )
    standing = {layer % count for layer in layers}
    return tuple(layer for layer in range(count) if layer not in standing)


def adapter_name(head: str, data_name: str) -> str:
    """Return the head's own name; the name of the data, where the head has none of its own."""
    name = head if head != "classify" else data_name or head
    name = re.sub(r"[^\w-]+|-{2,}", "-", name).strip("-")[:60]
    return name if is_part_name(name) else f"{name}-adapter".lstrip("-")  # of data called train.csv, say
