"""What an objective is: everything that the loop, the studies and the reports need to know of what is learned.

An objective is one file in this folder that calls its class OBJECTIVE, or a class of another package behind an entry
point of the group `heedful.objectives`. Its name in a recipe is the file's, or the entry point's.

One training step goes `training/loop.py` → the objective's `step`, `counts` and `losses` → the model. Whatever it draws
comes from (seed, step) alone, so that a run can be continued at any step; what else it must remember (its place in a
stream, say) is the small JSON of `state`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from heedful.checkpoints.heads import NewHead
from heedful.checkpoints.protocol import AnyCheckpoint
from heedful.errors import RequestError
from heedful.evaluation.metrics import Metric
from heedful.inference.items import EncodedText
from heedful.inference.reader import TextReader
from heedful.models.flops import forward_flops
from heedful.nn.heads import Reading
from heedful.recipes.schema import ObjectiveTable, Recipe
from heedful.storage.shared import SharedStore
from heedful.streams import Parts

Reseed = Callable[[int], None]
"""Seeds every generator for a part of a step, by (seed, step, part)."""


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
class Step:
    """What one step trains on."""

    rows: Sequence[int]
    """Numbers of the examples, in the objective's own counting."""
    lengths: Sequence[int]
    """Of the texts that the body reads, in tokens, without padding."""


@dataclass(frozen=True)
class MadeModel:
    """A model that an objective has made itself."""

    checkpoint: AnyCheckpoint
    title: str
    """What the user calls it."""
    fingerprint: str
    """Of the model directory that it began from; "" if from random weights."""
    facts: Mapping[str, Any]
    """Which model and tokenizer it is, for what is kept in the store."""
    made_from: Mapping[str, str] = field(default_factory=dict)
    """The fingerprints of what else went into it, by what the user calls them."""


@dataclass(frozen=True)
class Judgement:
    """How a model does on one evaluation set."""

    metrics: Mapping[str, Any]
    """What metrics.json holds of the set: every metric by its name, `n`, and what else reports may show, such as
    `parts`: a list with the same of some of its examples, which `part` names in words."""
    rows: Sequence[int]
    """The number of each example in its file."""
    columns: Mapping[str, npt.NDArray[np.float64]]
    """Numbers of each example, from which the objective's metrics are computed: values/<set>.tsv."""
    header: Sequence[str] = ()
    """Of predictions/<set>.tsv, after `row`; empty: there are none."""
    predictions: Callable[[], Iterable[Sequence[Any]]] = field(default=tuple)
    """Its lines, made only when they are wanted."""
    raw: npt.NDArray[np.float64] | None = None
    """What the head said of each example, for `Objective.conclude`."""


class Objective(ABC):
    """The methods that are not abstract have an answer that suits many: an objective says what is different."""

    Table: ClassVar[type[ObjectiveTable]]
    """Its keys in a recipe: a subclass whose `kind` is this objective's name."""
    METRICS: ClassVar[tuple[Metric, ...]]
    """Everything that it may be judged by. The first that the data allow is the default."""
    COLUMNS: ClassVar[bool] = False
    """Whether its data are tables with columns of texts and labels, which may be guessed."""
    TASKS: ClassVar[bool] = False
    """Whether its data are several sets, in [[data.tasks]]."""
    CORPUS: ClassVar[Literal["none", "all", "beside"]] = "none"
    """Whether running text, in data.corpus, is all of its data, or may stand beside them."""
    PAIRS: ClassVar[bool] = False
    """Whether its data are texts and their translations, in data.source and data.target."""
    GROWS: ClassVar[bool] = False
    """Whether its steps can be small, and its texts short, at first (`objectives/warmup.py`); if not, a recipe that
    asks for it is refused."""
    KINDS: ClassVar[Mapping[str, Collection[str]]] = {}
    """Of an objective whose models are not a body with heads: the kinds of them that model.kind may name, and the keys
    of [model] that mean something with each. It then has a `make_model`."""
    TUNINGS: ClassVar[tuple[str, ...]] = ()
    """The tunings that it can be trained with; none are named: all."""
    CONVEX: ClassVar[bool] = False
    """Whether its loss is convex in what its heads say and it has `everything`, so that linear heads can be solved."""

    # The data

    @staticmethod  # noqa: B027 (most have nothing to refuse)
    def check(recipe: Recipe) -> None:
        """Refuses a recipe that contradicts itself, before anything is read."""

    @classmethod
    @abstractmethod
    def read(cls, recipe: Recipe, seed: int, store: SharedStore) -> "Objective":
        """Its data, and nothing else: no model is there yet."""

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Those of METRICS that these data allow."""
        return self.METRICS

    @abstractmethod
    def description(self) -> dict[str, Any]:
        """What the manifest says of the data: at least `name`, and `sizes` and `fingerprints` by set."""

    def examples(self, name: str) -> list[dict[str, Any]]:
        """What a person sees of each example of a set: `row`, `gold`, `text`, and what else there is."""
        return []

    def texts(self) -> Iterable[str]:
        """The training texts, for a tokenizer that is trained on them."""
        raise RequestError("this objective has no texts to train a tokenizer on; name one in [tokenizer].")

    def special_tokens(self) -> Sequence[str]:
        """Tokens that stand for no text, which a tokenizer that is trained must have beside those of its family."""
        return ()

    # The model

    def heads(self, reading: Reading) -> Mapping[str, NewHead]:
        """The heads that the model needs, by name. `reading`: what suits the tuning, if the recipe does not say."""
        return {}

    def make_model(self, seed: int, store: SharedStore) -> MadeModel | None:
        """The model, where it is not a body with `heads`, which None stands for."""
        return None

    def trains(self, head: str) -> bool:
        """Whether steps train this head; one that is only judged is left as it was drawn."""
        return True

    @abstractmethod
    def prepare(self, checkpoint: Any, facts: Mapping[str, Any], store: SharedStore) -> None:
        """Makes of the data what this model reads: what `make_model` has made, else a `Checkpoint`, with a tokenizer.
        `facts` name the model and its tokenizer, for the store."""

    def model_is_ready(self, reader: TextReader) -> None:  # noqa: B027 (most compute nothing beforehand)
        """Called when the model is where it computes, before the first step: the place for what is computed once for
        all steps, which `spent_once` then counts."""

    def has_pairs(self) -> bool:
        """Whether texts come in pairs, of which the cosine is one more baseline."""
        return False

    def token_ids(self) -> Iterable[int] | None:
        """Every id that the body may be given; None: the whole table is read, as by a tied head."""
        return None

    def renumber(self, new_id: Sequence[int]) -> None:
        """From now on the id i is new_id[i]: the table was cut down to the ids that occur."""
        raise NotImplementedError("an objective that says which ids occur can renumber them")

    def cached_texts(self) -> Mapping[str, Sequence[EncodedText]]:
        """By the name of their set, the texts whose states may be computed once if the body does not move; each is at
        the place that it names. Sets that are trained on are called "train", or begin with "train-"."""
        return {}

    def labelled_texts(self, name: str) -> tuple[Sequence[EncodedText], Sequence[str | None]]:
        """The texts of an evaluation set as the body reads them, each with its label; None where there is none to know.
        Two towers are two texts."""
        return (), ()

    def texts_are_cached(self) -> None:  # noqa: B027 (not all care)
        """Told by a tuning that it has computed them: from now on all cost the same to read."""

    # A step

    def epoch_steps(self, epoch: int) -> int | None:
        """How many steps an epoch has, known before the first; None: a stream, which has no epochs."""
        return None

    def stages(self) -> Sequence[int]:
        """How many steps each stage of training has, if there are several: each has its own rise and fall of the
        learning rate, a fresh optimiser and a best mark of its own, with whose weights it ends. Epochs and steps are
        counted over all of them. None: training is one, as long as the recipe says."""
        return ()

    def end_stage(self, stage: int, reader: TextReader) -> dict[str, Any]:
        """Called at the end of each of several stages (from 0), with the weights that it leaves and without dropout;
        what is to be logged. What it must remember belongs in `state`."""
        return {}

    def progressed(self, share: float) -> None:  # noqa: B027 (most train in the same way from beginning to end)
        """Told before each step is asked for which share of training is done, from 0 up to 1. It depends on the steps
        and tokens so far alone, so that a run that goes on is told the same."""

    @abstractmethod
    def step(self, number: int) -> Step:
        """What step `number` (from 0) trains on. Steps are asked for one after another, from any on after `restore`."""

    @abstractmethod
    def counts(self, step: Step) -> dict[str, float]:
        """By how much each loss term of the step is divided. Known before the first part, so that the parts of a step
        can be told the sum, and of the whole step, whichever parts of it this process computes."""

    @abstractmethod
    def losses(
        self, reader: TextReader, step: Step, counts: Mapping[str, float], parts: Parts, reseed: Reseed
    ) -> Iterator[Partial]:
        """The partial losses of those parts of a step that are this process's (`in_parts`), `reseed` called before each
        with its number. The gradient of each is taken before the next is asked for."""

    def step_rows(self) -> float | None:
        """How many rows a step has on average, where their number depends on their length; of a sample, as many as a
        step of the whole would have of rows like these. None: training.batch_size."""
        return None

    def everything(self) -> Step:
        """All training examples as one step, for a tuning that solves; a stream has no such thing."""
        raise RequestError("this objective cannot be solved at once; choose a tuning that trains step by step.")

    def forward_flops(self, step: Step, shape: Any) -> int:
        """Of one pass over what the step reads; `shape`: the model's."""
        return forward_flops(shape, step.lengths)

    def spent_once(self) -> tuple[int, float]:
        """FLOPs and seconds of what was computed once for all steps, whichever run of the study did it; they are not in
        the time of the steps."""
        return 0, 0.0

    def where(self, step: Step) -> str:
        """Which examples these are, in words, for a step that failed."""
        return f"examples {', '.join(map(str, step.rows[:8]))}{' …' if len(step.rows) > 8 else ''}"

    def state(self) -> dict[str, Any]:
        """What it must remember beside the number of the step; JSON."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:  # noqa: B027 (most have no state)
        """Takes back what `state` gave."""

    # How well it went

    def sets(self) -> dict[str, bool]:
        """The evaluation sets, and whether what is right is known, so that they can be scored. "dev" chooses."""
        return {name: True for name in self.description()["sizes"] if name != "train"}

    @abstractmethod
    def judge(self, reader: TextReader, name: str) -> Judgement:
        """The model on one evaluation set, without dropout."""

    def judge_all(self, reader: TextReader, names: Iterable[str]) -> dict[str, Judgement]:
        """The same of several sets, by name, for one that can share work between them."""
        return {name: self.judge(reader, name) for name in names}

    def mark_score(self, scores: Mapping[str, Any], metric: Metric) -> float | None:
        """What the best mark is chosen by, from the metrics of dev: their primary one, unless what is trained just now
        is only a part of what is judged. In the metric's own direction; None where it is undefined."""
        return scores.get(metric.name)

    def judged_loss(self, judgement: Judgement, name: str) -> float | None:
        """Return the objective's own loss on the evaluation set that was judged, which breaks ties of a metric; None
        if it has none to tell."""
        return None

    def calibrate(self, reader: TextReader) -> None:  # noqa: B027 (most have nothing to correct)
        """After training, before the model is judged and saved: corrects how sure it is of its answers, by dev."""

    def conclude(self, judgements: Mapping[str, Judgement]) -> dict[str, Any]:
        """What else metrics.json holds of a finished run, such as what calibration has changed or the worst errors."""
        return {}

    def baselines(self) -> dict[str, dict[str, Any]]:
        """What a model has to beat, by name: `seconds`, the metrics of each set that can be scored, under "values" the
        columns of each set as in `Judgement` with the numbers of the rows as "row", and `tested` if settings should be
        tested against it, or `floor` if only the chosen setting should be, as who has learned anything beats it: the
        commonest class, guesses. What is a model has `prediction_seconds` (for 1,000 texts) and `model_bytes`, too."""
        return {}

    def save_baseline(self, name: str, directory: Path) -> bool:
        """Writes a baseline that is a model as a model directory; False if it is none."""
        return False

    def judge_baseline(self, name: str, of: str) -> Judgement | None:
        """A baseline that is a model on an evaluation set, as `judge` says it of a run; None if it is none."""
        return None

    def study_statistics(
        self,
        chosen: str,
        predictions: Mapping[str, Mapping[str, Sequence[Mapping[str, Sequence[str]]]]],
        examples: Mapping[str, Sequence[Mapping[str, Any]]],
        judged: str,
        metric: Metric,
        random: bool,
    ) -> dict[str, Any]:
        """What the runs of a study show beyond the metrics, as entries of statistics.json: see `Further` in
        `studies/statistics.py`."""
        return {}

    def finish(self, checkpoint: Any) -> None:  # noqa: B027 (most have nothing to note)
        """Notes in the model that will be saved how it has to be used, such as the longest text."""

    def prediction_seconds(self, checkpoint: Any, device: torch.device) -> float | None:
        """How long the model that is saved takes for 1,000 texts from the text on, measured on a few; None where that
        means nothing."""
        return None

    def reading(self) -> dict[str, float]:
        """What the cost of a run should mention of how the data are read, such as the share of padding."""
        return {}

    def sample(self, rows: int) -> "Objective":
        """A small part of it, of typical length, to time a step with; not prepared yet."""
        return self

    def judging_seconds(self, reader: TextReader) -> tuple[float, float] | None:
        """Of a sample: how long it takes to judge an example at a mark, and at the end; None: as long as to read it."""
        return None
