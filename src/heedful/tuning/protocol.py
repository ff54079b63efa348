"""What a tuning is: which weights move, what may be computed once because they do not, and what that costs.

A tuning is one file in this folder that calls its class TUNING, or a class of another package behind an entry point of
the group `heedful.tunings`. Its name in a recipe is the file's, or the entry point's.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from heedful.inference.reader import TextReader
from heedful.inputs.protocol import Inputs, Step
from heedful.models.transformer import Transformer
from heedful.nn.heads import HeadInput
from heedful.objectives.protocol import Objective
from heedful.recipes.schema import Recipe, TuningTable
from heedful.storage.shared import SharedStore


@dataclass(frozen=True)
class TuningContext:
    """What a tuning is made with, besides the model and its inputs."""

    recipe: Recipe
    seed: int
    device: torch.device
    store: SharedStore
    cache_key: Mapping[str, Any]
    """Which body this is, for what is kept in the store."""
    family: str
    """In whose dialect the model is written."""
    fresh: frozenset[str]
    """Parameters that the checkpoint did not have and that were drawn: new heads, perhaps a pooler."""
    heads: Mapping[str, bool]
    """The heads of the objective, and whether training moves each."""
    data_name: str
    """What the data are called."""


@dataclass(frozen=True)
class Cost:
    """What training has cost beyond the seconds of its steps."""

    flops: int
    tokens: int
    seconds: float = 0.0
    """Of what was computed once, whoever did it: the runs of a study share it."""
    padding_share: float | None = None
    """None: as the objective's batches have it."""


class DevScore(NamedTuple):
    """How a solution does on dev: the larger tuple is better, so the loss breaks ties of the metric."""

    metric: float
    """Higher is better; −inf where it is undefined."""
    minus_loss: float
    """The objective's own loss, negated; −inf for an objective that has none to tell."""


Solve = Callable[[Objective, Step, Callable[[dict[str, Any]], DevScore | None]], None]
"""Finds the optimum. It is given a function that judges the model as it is, logs these facts beside the judgement, and
returns the score on dev, None without dev."""


class Tuning(ABC):
    """The methods that are not abstract have an answer that suits many: a tuning says what is different."""

    Table: ClassVar[type[TuningTable]]
    """Its keys in a recipe: a subclass whose `method` is this tuning's name."""
    HEAD_INPUT: ClassVar[HeadInput] = HeadInput()
    """What a new head should read if the recipe does not say."""
    COMPARE_DEFAULTS: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Tables of a recipe that `heedful compare` takes for this tuning, as far as it uses them, unless it is told
    otherwise."""

    MOVES_BODY: ClassVar[bool] = True
    """Whether weights of the body train; if not, the models of a study's runs share one file for it."""

    USES_ADAPTERS: ClassVar[bool] = False
    """Whether it may begin from a model that carries adapters, which it leaves beside its own."""

    penalty: Callable[[], Tensor] | None = None
    """Added to the loss of every step, if it is there: what is penalised beside the objective's losses."""
    solve: Solve | None = None
    """If it is there, nothing is trained step by step."""

    transformer: Transformer
    """The model, where it is a body with heads."""
    reader: TextReader
    """What the objective computes with."""

    @classmethod  # noqa: B027 (most have nothing to refuse)
    def check(cls, recipe: Recipe) -> None:
        """Refuses a recipe that contradicts itself, before anything is read."""

    @classmethod
    def unused(cls, recipe: Recipe) -> Mapping[str, str]:
        """Keys such as "training.lr" that mean nothing with this recipe, and why: one that sets them is refused."""
        return {}

    @classmethod
    def random(cls, recipe: Recipe) -> bool:
        """Whether the seed plays a part: where it does not, one run is all there is."""
        return True

    @classmethod
    def solves(cls, recipe: Recipe) -> bool:
        """Whether the heads are solved for, and nothing is trained step by step."""
        return False

    @classmethod
    def as_baseline(cls, recipe: Recipe, has_pairs: bool) -> Mapping[str, Any] | None:
        """The tables of a recipe by which this tuning is a baseline for the given one, on the same model and data,
        whose texts come in pairs or not; None if it is none."""
        return None

    @abstractmethod
    def __init__(self, transformer: Transformer, inputs: Inputs[Any], context: TuningContext) -> None:
        """The objective is prepared: what can be computed once is computed here."""

    def made_from(self) -> dict[str, str]:
        """The fingerprints of what it was made from beside the model, such as adapters, by what the user calls them."""
        return {}

    @abstractmethod
    def trainable(self) -> dict[str, nn.Parameter]:
        """What the optimiser moves, by name."""

    def train(self, on: bool) -> None:
        """Dropout on or off, where this tuning has any."""
        self.reader.module.train(on)

    def lr_scale(self, name: str) -> float:
        """The learning rate of this parameter, as a share of the recipe's."""
        return 1.0

    @property
    def set_aside(self) -> int:
        """Parameters that count as trained but are not in the optimiser: rows of the token table that never occur."""
        return 0

    @abstractmethod
    def cost(self, forward_flops: int, tokens: int) -> Cost:
        """From what one forward pass of every step so far came to."""

    def conclude(self, inputs: Inputs[Any]) -> dict[str, Any]:
        """What metrics.json holds of how the finished model works, such as which adapter a fusion uses where."""
        return {}

    def finish(self, decay: float, model: Transformer | None = None) -> None:  # noqa: B027 (most have nothing to do)
        """Put the model together as it will be saved, or a copy of it, so that training can go on. `decay`: the product
        of all steps' (1 − lr · weight decay) for the token table, which rows that were set aside have missed."""


TABLE = "body.embeddings.token.weight"
