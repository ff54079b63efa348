"""What a model reads of the data, and which of it each step trains on.

`Inputs` are made once, when there is a model. Their `Sampler` says step after step what is trained on; a `Step` carries
all that is drawn, read or counted in it, so that nobody has to remember what was asked for last.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from heedful.data.protocol import Data
from heedful.errors import RequestError
from heedful.inference.items import EncodedText
from heedful.inference.reader import TextReader
from heedful.models.flops import forward_flops
from heedful.recipes.schema import Recipe
from heedful.storage.shared import SharedStore

D = TypeVar("D", bound=Data, covariant=True)


@dataclass(frozen=True)
class Setup:
    """What inputs are made with, besides the data and the model."""

    recipe: Recipe
    seed: int
    store: SharedStore
    model_key: Mapping[str, Any]
    """Which model and tokenizer it is, for what is kept in the store."""


@dataclass(frozen=True)
class Step:
    """What one step trains on."""

    rows: Sequence[int]
    """Numbers of the examples, in the sampler's own counting."""
    lengths: Sequence[int]
    """Of the texts that the body reads, in tokens, without padding."""

    def forward_flops(self, shape: Any) -> int:
        """Return the operations of one pass over what the step reads; `shape`: the model's, None if it has none."""
        return forward_flops(shape, self.lengths)

    def where(self) -> str:
        """Name the examples, for the message of a step that failed."""
        return f"examples {first_rows(self.rows)}"


def first_rows(rows: Sequence[int]) -> str:
    """Return the first eight numbers as words."""
    return f"{', '.join(map(str, rows[:8]))}{' …' if len(rows) > 8 else ''}"


class Sampler(ABC):
    """The steps of a training. What it draws comes from (seed, step) alone, so that a run can be resumed at any step;
    what else it must remember, such as its place in a stream, is the small JSON of `state`."""

    @abstractmethod
    def step(self, number: int, done: float) -> Step:
        """Return what step `number` (from 0) trains on. Steps are asked for one after another, from any on after
        `restore`. `done`: the share of training that is done, from 0 up to 1."""

    def epoch_steps(self, epoch: int) -> int | None:
        """Return how many steps an epoch has, known before the first; None: a stream, which has no epochs."""
        return None

    def stages(self) -> Sequence[int]:
        """Return how many steps each stage of training has, if there are several: each has its own rise and fall of
        the learning rate, a fresh optimiser and best weights of its own, with which it ends. Epochs and steps are
        counted over all of them. None: training is one, as long as the recipe says."""
        return ()

    def step_rows(self) -> float | None:
        """Return how many rows a step has on average, where their number depends on their length; of a sample, as many
        as a step of the whole would have of rows like these. None: training.batch_size."""
        return None

    def state(self) -> dict[str, Any]:
        """Return what it must remember besides the number of the step; JSON."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:  # noqa: B027 (most have no state)
        """Take back what `state` gave."""


class Inputs(ABC, Generic[D]):
    """The methods that are not abstract have an answer that suits many."""

    data: D

    @abstractmethod
    def sampler(self) -> Sampler:
        """Return the steps. Asked for once, when the tuning has done what it does to the inputs."""

    def describe(self) -> dict[str, Any]:
        """Return what the manifest says of the data, as this model reads them."""
        return self.data.describe()

    def everything(self) -> Step:
        """Return all training examples as one step, for a tuning that solves; a stream has no such thing."""
        raise RequestError("this objective cannot be solved at once; choose a tuning that trains step by step.")

    def compute_once(self, reader: TextReader) -> None:
        """Compute what is computed once for all steps, when the model is where it computes."""

    def spent_once(self) -> tuple[int, float]:
        """Return FLOPs and seconds of what was computed once for all steps, whichever run of the study did it; they are
        not in the time of the steps."""
        return 0, 0.0

    def statistics(self) -> dict[str, float]:
        """Return what the cost of a run should mention of how the data are read, such as the share of padding."""
        return {}

    # What a tuning may ask, where the body does not move, or the token table can be cut down

    def token_ids(self) -> Iterable[int] | None:
        """Return every id that the body may be given; None: the whole table is read, as by a tied head."""
        return None

    def renumber(self, new_id: Sequence[int]) -> None:
        """From now on the id i is new_id[i]: the table was cut down to the ids that occur."""
        raise NotImplementedError("inputs that say which ids occur can renumber them")

    def cached_texts(self) -> Mapping[str, Sequence[EncodedText]]:
        """Return, by the name of their set, the texts whose states may be computed once if the body does not move; each
        is at the place that its cache key names. Sets that are trained on are called "train", or begin with
        "train-"."""
        return {}

    def texts_are_cached(self) -> None:
        """Note that a tuning has computed them: from now on all cost the same to read."""

    def labelled_texts(self, name: str) -> tuple[Sequence[EncodedText], Sequence[str | None]]:
        """Return the texts of an evaluation set as the body reads them, each with its label; None where there is none
        to know. Two towers are two texts."""
        return (), ()
