"""What an objective is: the loss of a step, and which data, kind of model and evaluation go with it.

An objective is one file in this folder that calls its class OBJECTIVE, or a class of another package behind an entry
point of the group `heedful.objectives`. Its name in a recipe is the file's, or the entry point's.

A run is data × model × objective × evaluation. `training/assembly.py` puts them together: the data are read, the model
is built, `inputs` are made of both, and one training step goes `training/loop.py` → the sampler's `step` → the
objective's `counts` and `losses` → the model.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from heedful.building.body import TextBody
from heedful.building.protocol import ModelKind
from heedful.checkpoints.heads import NewHead
from heedful.data.protocol import Data
from heedful.evaluators.protocol import Evaluator
from heedful.inference.reader import TextReader
from heedful.inputs.protocol import Inputs, Setup
from heedful.nn.heads import HeadInput
from heedful.recipes.schema import ObjectiveTable, Recipe
from heedful.streams import Parts


@dataclass(frozen=True)
class Partial:
    """One of the losses that make up a step. Their gradients add up to the step's, whatever their number is."""

    loss: Tensor
    """What is differentiated: already divided by the step's counts."""
    terms: Mapping[str, Tensor | float]
    """What is logged, by the name of the loss term, which `Objective.counts` has too; the sum over terms and parts is
    the step's loss. It need not be what is differentiated: gradient caching differentiates a product with gradients
    that it knows already."""


@dataclass(frozen=True)
class StepContext:
    """Where a step is computed."""

    parts: Parts
    """Into how many parts its rows are cut, and which of them are this process's (see `streams.in_parts`)."""
    reseed: Callable[[int], None]
    """Seeds every generator for a part of the step, by (seed, step, part)."""
    gather: Callable[[Tensor], Tensor]
    """Joins the rows of a tensor of every process, in the order of the processes; gradients flow back to all of
    them. Every process must call it equally often."""


class Objective(ABC):
    """A stateless rule: what a step needs is in the step. The methods that are not abstract suit many."""

    Table: ClassVar[type[ObjectiveTable]]
    """Its keys in a recipe: a subclass whose `kind` is this objective's name."""
    DATA: ClassVar[type[Data]]
    """What it learns from."""
    MODEL: ClassVar[type[ModelKind]] = TextBody
    """What kind of model it trains."""
    EVALUATOR: ClassVar[type[Evaluator[Any]]]
    """The class of what `evaluator` returns."""
    USAGE: ClassVar[str] = ""
    """A command that uses what was trained, with {model} in the place of its directory; "": as for a classifier."""

    @abstractmethod
    def __init__(self, recipe: Recipe, data: Any) -> None:
        """`data`: what DATA has read."""

    @staticmethod  # noqa: B027 (not every objective has something to refuse)
    def check(recipe: Recipe) -> None:
        """Refuse a recipe that contradicts itself, before anything is read."""

    def heads(self, default: HeadInput) -> Mapping[str, NewHead]:
        """Return the heads that the model needs, by name. `default`: what suits the tuning, if the recipe does not say
        what a head reads."""
        return {}

    @abstractmethod
    def inputs(self, checkpoint: Any, setup: Setup) -> Inputs[Any]:
        """Make of the data what this model reads."""

    @abstractmethod
    def evaluator(self) -> Evaluator[Any]:
        """Return how a model is evaluated on the data; it needs no model to say what must be beaten."""

    @abstractmethod
    def counts(self, step: Any) -> dict[str, float]:
        """Return by how much each loss term of the step is divided. Known before the first part, so that the parts of a
        step can be given the sum, and of the whole step, whichever parts of it this process computes."""

    @abstractmethod
    def losses(
        self, reader: TextReader, step: Any, counts: Mapping[str, float], context: StepContext
    ) -> Iterator[Partial]:
        """Yield the partial losses of this process's parts of a step, `context.reseed` called before each with its
        number. The gradient of each is taken before the next is asked for. Where a step is only timed, gradients may
        be off."""

    def finish(self, checkpoint: Any) -> None:  # noqa: B027 (most have nothing to note)
        """Note in the model that will be saved how it has to be used, such as the longest text."""
