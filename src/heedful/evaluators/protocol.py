"""How a model is evaluated: what is measured on each set, what it has to beat, and what a study can say of it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic

import numpy as np
import numpy.typing as npt
import torch

from heedful.evaluation.metrics import Metric
from heedful.inference.reader import TextReader
from heedful.inputs.protocol import D


@dataclass(frozen=True)
class Evaluation:
    """How a model does on one evaluation set."""

    metrics: Mapping[str, Any]
    """What metrics.json holds of the set: every metric by its name, `n`, and what else reports may show, such as
    `parts`: a list with the same of some of its examples, which `part` names in words."""
    rows: Sequence[int]
    """The number of each example in its file."""
    columns: Mapping[str, npt.NDArray[np.float64]]
    """Numbers of each example, from which the metrics are computed: values/<set>.tsv."""
    header: Sequence[str] = ()
    """Of predictions/<set>.tsv, after `row`; empty: there are none."""
    predictions: Callable[[], Iterable[Sequence[Any]]] = field(default=tuple)
    """Its lines, made only when they are wanted."""
    raw: npt.NDArray[np.float64] | None = None
    """What the head said of each example, for `Evaluator.conclude`."""


class BaselineSet(ABC):
    """What a model has to beat on these data, before any model is there."""

    @abstractmethod
    def scores(self) -> dict[str, dict[str, Any]]:
        """Return, by the name of each baseline: `seconds`, the metrics of each set that can be scored, under "values"
        the columns of each set as in `Evaluation` with the numbers of the rows as "row", and `tested` if settings
        should be tested against it, or `floor` if only the chosen setting should be, as whoever has learned anything
        beats it: the most common class, guesses. A model has `prediction_seconds` (for 1,000 texts) and `model_bytes`,
        too."""

    def save(self, name: str, directory: Path) -> bool:
        """Write a baseline that is a model as a model directory; return False if it is none."""
        return False

    def evaluate(self, name: str, of: str) -> Evaluation | None:
        """Evaluate a baseline that is a model on a set; return None if it is none."""
        return None


class NoBaselines(BaselineSet):
    def scores(self) -> dict[str, dict[str, Any]]:
        return {}


class Evaluator(ABC, Generic[D]):
    """The methods that are not abstract have an answer that suits many. `inputs` are those that the objective made."""

    METRICS: ClassVar[tuple[Metric, ...]]
    """Everything that a model may be judged by. The first that the data allow is the default."""

    data: D

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Those of METRICS that these data allow."""
        return self.METRICS

    @abstractmethod
    def evaluate(self, reader: TextReader, inputs: Any, name: str, final: bool = False) -> Evaluation:
        """Evaluate the model on a set, without dropout; `final`: with what only a finished run deserves."""

    def evaluate_all(self, reader: TextReader, inputs: Any, names: Iterable[str]) -> dict[str, Evaluation]:
        """Evaluate a finished model on several sets, for one that can share work between them."""
        return {name: self.evaluate(reader, inputs, name, final=True) for name in names}

    def selection_score(self, scores: Mapping[str, Any], metric: Metric, stage: int) -> float | None:
        """Return what the best weights are chosen by, from the metrics of dev: their primary one, unless what is
        trained in this stage is only a part of what is evaluated. In the metric's own direction; None where it is
        undefined."""
        return scores.get(metric.name)

    def loss(self, evaluation: Evaluation, name: str) -> float | None:
        """Return the objective's own loss on the set that was evaluated, which breaks ties of a metric; None if it has
        none to tell."""
        return None

    def end_stage(self, reader: TextReader, inputs: Any, stage: int) -> dict[str, Any]:
        """Return what is to be logged at the end of each of several stages (from 0), with the weights that it leaves
        and without dropout. `conclude` receives it again."""
        return {}

    def calibrate(self, reader: TextReader, inputs: Any) -> None:
        """Correct how sure the trained model is of its answers, by dev, before it is evaluated and saved."""

    def conclude(
        self, evaluations: Mapping[str, Evaluation], stages: Sequence[Mapping[str, Any]] = ()
    ) -> dict[str, Any]:
        """Return what else metrics.json holds of a finished run, such as what calibration has changed or the worst
        errors. `stages`: what `end_stage` has returned."""
        return {}

    def baselines(self) -> BaselineSet:
        """Return what a model has to beat."""
        return NoBaselines()

    def study_statistics(
        self,
        chosen: str,
        predictions: Mapping[str, Mapping[str, Sequence[Mapping[str, Sequence[str]]]]],
        examples: Mapping[str, Sequence[Mapping[str, Any]]],
        judged: str,
        metric: Metric,
        random: bool,
    ) -> dict[str, Any]:
        """Return what the runs of a study show beyond the metrics, as entries of statistics.json: see `Further` in
        `studies/statistics.py`."""
        return {}

    def prediction_seconds(self, checkpoint: Any, inputs: Any, device: torch.device) -> float | None:
        """Return how long the model that is saved takes for 1,000 texts from the text on, measured on a few; None where
        that means nothing."""
        return None

    def seconds_per_example(self, reader: TextReader, inputs: Any) -> tuple[float, float] | None:
        """Return, of a sample, how long it takes to evaluate an example during training, and at the end; None: as long
        as to read it."""
        return None
